"""Canary people with wrong ages: planted by coins, and a lower bound on epsilon from what is known
of them.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
