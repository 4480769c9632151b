"""Published measurements as calls of the probe."""
