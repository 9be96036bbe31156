"""Precisions, and how near to the checkpoint each must stay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from unplug.core import Registry

Calibration = Literal["none", "used", "needed"]


FP32_MIN_PSNR_DB = 100.0
"""An error of 1e-5 of the largest output: the sum order of another runtime stays near 1e-7, a wrong
operator does not.
"""

FP16_MIN_PSNR_DB = 60.0
"""An error of 1e-3 of the largest output: half precision rounds to 5e-4 relative, and roundings
partly cancel.
"""

COMPRESSED_MIN_PSNR_DB = 30.0
"""An error of 3 % of the largest output: 8-bit codes round to 0.4 % of a tensor's range, once a
layer.
"""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How an artifact holds and computes numbers.

    Args:
        name: the name in file names and on the command line.
        min_psnr_db: parity against the checkpoint that every output must reach, in dB.
        description: one line for lists and cards.
        calibration: samples that its conversion looks at: "needed" for the ranges of activations;
            "used" for biases, see `bias_correction`, where there are any; "none".
    """

    name: str
    min_psnr_db: float = COMPRESSED_MIN_PSNR_DB
    description: str
    calibration: Calibration = "none"


PRECISIONS: Registry[Precision] = Registry(
    "precision",
    {
        precision.name: precision
        for precision in (
            Precision(
                name="fp32",
                min_psnr_db=FP32_MIN_PSNR_DB,
                description="32-bit floats, the checkpoint's own numbers",
            ),
            Precision(
                name="fp16",
                min_psnr_db=FP16_MIN_PSNR_DB,
                description="16-bit float weights, 32-bit inputs and outputs",
            ),
            Precision(
                name="int8-weight",
                description="8-bit weights, one scale an output channel; float arithmetic",
                calibration="used",
            ),
            Precision(
                name="int8-static",
                description=(
                    "8-bit weights and activations, with ranges from calibration samples; float "
                    "head, inputs and outputs"
                ),
                calibration="needed",
            ),
            Precision(
                name="int8-dynamic",
                description=(
                    "8-bit weights, activations rounded as they come; slow for depthwise networks "
                    "on CPUs"
                ),
                calibration="used",
            ),
            Precision(
                name="palette8", description="each tensor's weights from a table of 256 floats"
            ),
            Precision(
                name="palette6", description="each tensor's weights from a table of 64 floats"
            ),
        )
    },
    group="unplug.precisions",
)


ALL, ON_REQUEST = "all", ("int8-dynamic",)
"""What stands for every precision of a target, and what it leaves out: slow on depthwise networks,
which ours are.
"""


def looks_at_samples(precisions: Iterable[str]) -> bool:
    """Whether the conversion to any of these precisions makes use of calibration samples.

    Example:
        >>> looks_at_samples(["fp32", "int8-static"]), looks_at_samples(["fp16", "palette6"])
        (True, False)
    """
    return any(PRECISIONS.get(name).calibration != "none" for name in precisions)
