"""Honest timing: devices, protocol, statistics, reports."""

from unplug.plugins.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
