"""The journey over HTTP, its jobs kept in the ledger's database; no logic of its own."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
