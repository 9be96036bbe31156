"""Precisions, and how near to the checkpoint each must stay."""

from __future__ import annotations

from dataclasses import dataclass

from unplug.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How an artifact holds and computes numbers.

    Args:
        name: as in the file name and on the command line.
        min_psnr_db: parity against the checkpoint that every output must reach, in dB.
        description: one line for lists and cards.
    """

    name: str
    min_psnr_db: float
    description: str


FP32_MIN_PSNR_DB = 100.0
"""An error of 1e-5 of the largest output: the sum order of another runtime stays near 1e-7, a wrong operator does not."""

FP16_MIN_PSNR_DB = 60.0
"""An error of 1e-3 of the largest output: half precision rounds to 5e-4 relative, and roundings partly cancel."""

FP32 = Precision(name="fp32", min_psnr_db=FP32_MIN_PSNR_DB, description="32-bit floats, the checkpoint's own numbers")
FP16 = Precision(name="fp16", min_psnr_db=FP16_MIN_PSNR_DB, description="16-bit float weights, 32-bit inputs and outputs")

PRECISIONS = Registry(
    "precision",
    {"fp32": "unplug.export.precisions:FP32", "fp16": "unplug.export.precisions:FP16"},
    group="unplug.precisions",
)
