"""Operators of ML Programs by name. Each takes its arguments under their names in MIL and computes
in float32.

Reference:
    coremltools.converters.mil.mil.ops.defs: what every operator and argument means.
"""

from . import compressed, elementwise, layers, shape
from .elementwise import Ops, Unknown

__all__ = ["OPS", "Unknown"]

OPS: Ops = {**compressed.OPS, **elementwise.OPS, **layers.OPS, **shape.OPS}
