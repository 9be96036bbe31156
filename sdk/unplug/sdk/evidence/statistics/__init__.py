"""Estimates with intervals: areas under curves, rates, bootstraps over people."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
