"""Auditing: attacks, utility and the distance to the oracle, on checkpoints and on artifacts."""

from unplug.plugins.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
