"""Data specs, decoding, caching, splits and forget files."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
