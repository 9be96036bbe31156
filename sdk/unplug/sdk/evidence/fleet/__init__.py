"""Fleets: many models trained, unlearned or measured, at once and as a resumable run."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
