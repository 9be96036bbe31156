"""The HTML report: one self-contained page made from the typed JSON files of a journey."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
