"""Real steps on a device that is there."""
