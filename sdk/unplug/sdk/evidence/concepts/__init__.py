"""Whether pictures show a concept: judges trained on pictures with and without it, and rates."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
