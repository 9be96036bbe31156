"""The folder that ships: its manifest, writing, signing, verifying, packing it."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
