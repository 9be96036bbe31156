"""Exact depth of procedural faces, from the geometry that they are drawn from."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
