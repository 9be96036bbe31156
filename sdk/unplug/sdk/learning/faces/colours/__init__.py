"""The colours of procedural faces by the words that prompts use, sRGB from 0 to 255."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
