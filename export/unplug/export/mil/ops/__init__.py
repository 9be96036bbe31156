"""Operators of ML Programs by name. Each takes its arguments under their names in MIL and computes in float32.

Reference:
    coremltools.converters.mil.mil.ops.defs: what every operator and argument means.
"""

from . import activation, arithmetic, compressed, layers, reduction, shape
from .arguments import Ops

OPS: Ops = {
    **activation.OPS,
    **arithmetic.OPS,
    **compressed.OPS,
    **layers.OPS,
    **reduction.OPS,
    **shape.OPS,
}
