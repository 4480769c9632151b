"""Remat: memory and gradient mistakes around activation checkpointing, found, explained and repaired."""

__version__ = "0.1.0"
