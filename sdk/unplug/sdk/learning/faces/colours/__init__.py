"""The colours of procedural faces by the words that prompts use, sRGB from 0 to 255.

A package of its own within `unplug.sdk.learning.faces`, since the identity of a synthetic data set hashes the files that draw its
pictures: what only names their colours must not change it.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
