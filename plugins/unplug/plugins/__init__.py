"""The networks that ship and the pictures that steer them: knows no data."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
