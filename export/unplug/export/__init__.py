"""Checkpoint to artifact, parity, and running any artifact in Python."""

from unplug.plugins.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
