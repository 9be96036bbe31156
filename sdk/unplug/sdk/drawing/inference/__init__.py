"""Running any exported file, or a checkpoint, on pictures or arrays, and showing what comes out."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
