"""The append-only record of requests to be forgotten, and of what was done about each."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
