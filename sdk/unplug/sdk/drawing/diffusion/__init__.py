"""Text-to-image diffusion: a small base, plugins and their rivals on a frozen base, pictures,
comparison.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
