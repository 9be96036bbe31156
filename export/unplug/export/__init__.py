"""Checkpoint to artifact, parity, and running any artifact in Python."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
