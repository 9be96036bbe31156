"""Searching: sizes of networks that suit a device, trained, timed and ranked with those made by
hand and those found at random.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
