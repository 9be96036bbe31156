"""Exact depth of procedural faces, from the geometry that they are drawn from.

A package of its own within `unplug.sdk.learning.faces`, since the identity of a synthetic data set hashes the files that draw its
pictures: what only measures them must not change it.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
