"""The folder that ships: its manifest, writing it, verifying it."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
