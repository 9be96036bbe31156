"""Where a person still is: caches, checkpoints, references, splits, exported and shipped files."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
