"""Writes a way to checkpoint, which the probe has simulated, into the code of the model."""
