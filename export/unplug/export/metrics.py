"""How near two arrays are: PSNR, largest error, cosine. Pure functions in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unplug.core import Array


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One output against its reference.

    Args:
        exact: every element is equal.
        psnr_db: see `psnr_db`; None where it is infinite (exact) or undefined.
        max_abs_error: largest absolute difference, or None where a value is not finite.
        cosine: the cosine of the angle between both as vectors, or None where it is undefined.
        reason: why the two cannot be compared, or None.
    """

    exact: bool
    psnr_db: float | None
    max_abs_error: float | None
    cosine: float | None
    reason: str | None = None


def psnr_db(reference: Array, output: Array, peak: float | None = None) -> float:
    """Peak signal-to-noise ratio: 20 log10(max|reference| / rms(output - reference)), in dB.

    Infinite for equal arrays, minus infinite for a reference of zeros that is missed.

    Args:
        reference, output: arrays of one shape.
        peak: max|reference| of all samples, where these are some of them.

    Example:
        >>> psnr_db(np.array([0.0, 10.0]), np.array([1.0, 11.0]))
        20.0
    """
    wanted, got = np.asarray(reference, np.float64), np.asarray(output, np.float64)
    noise = math.sqrt(float(np.mean((got - wanted) ** 2)))
    peak = float(np.max(np.abs(wanted))) if peak is None else peak
    if noise == 0.0:
        return math.inf
    return 20.0 * math.log10(peak / noise) if peak > 0.0 else -math.inf


def cosine(reference: Array, output: Array) -> float | None:
    """Cosine of the angle between two arrays as vectors; None if one of them is zero.

    Example:
        >>> round(cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])), 4)
        0.7071
    """
    a, b = np.asarray(reference, np.float64).ravel(), np.asarray(output, np.float64).ravel()
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length > 0.0 else None


def _incomparable(reason: str) -> Difference:
    return Difference(exact=False, psnr_db=None, max_abs_error=None, cosine=None, reason=reason)


def compare(reference: Array, output: Array, peak: float | None = None) -> Difference:
    """All measures of one output, see `psnr_db`; a wrong shape or a value that is not finite is a
    reason, not a number.
    """
    if reference.shape != output.shape:
        return _incomparable(f"shape {output.shape} where the reference has {reference.shape}")
    for name, array in (("output", output), ("reference", reference)):
        if not np.isfinite(array).all():
            return _incomparable(f"the {name} holds NaN or infinity")
    ratio = psnr_db(reference, output, peak)
    error = float(
        np.max(np.abs(np.asarray(output, np.float64) - np.asarray(reference, np.float64)))
    )
    return Difference(
        exact=ratio == math.inf,
        psnr_db=ratio if math.isfinite(ratio) else None,
        max_abs_error=error,
        cosine=cosine(reference, output),
        reason="the reference is zero everywhere and the output is not"
        if ratio == -math.inf
        else None,
    )


def verdict(difference: Difference, min_psnr_db: float) -> str | None:
    """Why a difference is too large, or None when it is small enough."""
    if difference.exact:
        return None
    if difference.psnr_db is None:
        return difference.reason
    if difference.psnr_db < min_psnr_db:
        return f"{difference.psnr_db:.1f} dB is below {min_psnr_db:g} dB"
    return None
