"""What a file costs on a device, or why nobody can say."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
