"""The ``unplug`` command: one file a command, imported when it is called."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
