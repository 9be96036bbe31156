"""What everything stands on: errors, files, the registry, named tensors, child processes, typed records."""

from .lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
