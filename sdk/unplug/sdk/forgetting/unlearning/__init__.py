"""The forget step: methods, budget, and running one on the other."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
