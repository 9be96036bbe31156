"""Training: recipe, task, loop, resume, metrics."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
