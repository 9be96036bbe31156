"""Answers of a model or a file on photographs."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
