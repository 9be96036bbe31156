"""The service: requests, jobs, bundles and inference over HTTP, on the ledger's database."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
