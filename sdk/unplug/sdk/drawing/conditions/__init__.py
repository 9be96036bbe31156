"""Conditions of many pictures: arrays and folders, in child processes where the runtime is a
foreign one, resumable.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
