"""Conditions: the pictures that steer a conditioning plugin, each drawn from an ordinary picture."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
