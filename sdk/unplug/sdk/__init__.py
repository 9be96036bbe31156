"""unplug's SDK: train, forget, audit, export, time and release small vision models that can forget.

The names of this door are the journey, one function a step, what those return, and every error;
sub-packages hold the rest. Nothing heavy is imported before a name is used.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
