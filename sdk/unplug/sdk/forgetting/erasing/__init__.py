"""Erasing: a concept taken out of a diffusion base, so that prompts no longer draw it."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
