"""The networks that ship and what they eat: blocks, the age predictor, named tensors, checkpoints."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
