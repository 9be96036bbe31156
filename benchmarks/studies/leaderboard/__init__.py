"""Leaderboards: every method on the same data, split, originals, oracle and seeds, in one table."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
