"""Parity measures against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unplug.export import compare, psnr_db, verdict
from unplug.export.metrics import cosine


def test_psnr_golden_values() -> None:
    # peak 4, errors (0, 0, 0, 0.04): rmse = 0.04 / 2 = 0.02, ratio 200, 20 log10(200) = 46.0206
    assert psnr_db(np.array([1.0, -2.0, 3.0, -4.0]), np.array([1.0, -2.0, 3.0, -3.96])) == pytest.approx(46.0206, abs=1e-4)
    # a factor of ten in the error is 20 dB
    assert psnr_db(np.array([1.0]), np.array([1.1])) - psnr_db(np.array([1.0]), np.array([2.0])) == pytest.approx(20.0)
    assert psnr_db(np.ones(3), np.ones(3)) == math.inf
    assert psnr_db(np.zeros(3), np.ones(3)) == -math.inf


def test_psnr_is_computed_in_float64() -> None:
    reference = np.full(1000, 1000.0, np.float32)
    output = reference.copy()
    output[0] = np.nextafter(output[0], np.float32(2000.0))
    # one step of float32 at 1000 is 2^-14: 20 log10(1000 / (2^-14 / sqrt(1000)))
    assert psnr_db(reference, output) == pytest.approx(20 * math.log10(1000 * 2**14 * math.sqrt(1000)))


def test_cosine_golden_values() -> None:
    assert cosine(np.array([3.0, 4.0]), np.array([4.0, 3.0])) == pytest.approx(24 / 25)
    assert cosine(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 0.0
    assert cosine(np.array([1.0, 2.0]), np.array([-1.0, -2.0])) == pytest.approx(-1.0)
    assert cosine(np.zeros(2), np.ones(2)) is None


def test_compare_reports_exact_and_finite_numbers() -> None:
    same = compare(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert (same.exact, same.psnr_db, same.max_abs_error, same.reason) == (True, None, 0.0, None)
    near = compare(np.array([1.0, 2.0]), np.array([1.0, 1.5]))
    assert (near.exact, near.max_abs_error) == (False, 0.5)
    assert near.psnr_db == pytest.approx(20 * math.log10(2 / (0.5 / math.sqrt(2))))
    both_zero = compare(np.zeros(2), np.zeros(2))
    assert both_zero.exact and both_zero.cosine is None


@pytest.mark.parametrize(
    ("reference", "output", "reason"),
    [
        ([1.0, 2.0], [1.0, math.nan], "the output holds NaN or infinity"),
        ([1.0, 2.0], [1.0, math.inf], "the output holds NaN or infinity"),
        ([math.nan, 2.0], [1.0, 2.0], "the reference holds NaN or infinity"),
        ([1.0, 2.0], [1.0], r"shape \(1,\) where the reference has \(2,\)"),
        ([0.0, 0.0], [1.0, 2.0], "the reference is zero everywhere"),
    ],
)
def test_what_cannot_be_compared_fails(reference: list[float], output: list[float], reason: str) -> None:
    difference = compare(np.array(reference), np.array(output))
    assert not difference.exact and difference.psnr_db is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(verdict(difference, 0.0))


def test_verdict_at_the_threshold() -> None:
    difference = compare(np.array([0.0, 10.0]), np.array([1.0, 11.0]))
    assert difference.psnr_db == pytest.approx(20.0)
    assert verdict(difference, 20.0) is None
    assert verdict(difference, 20.1) == "20.0 dB is below 20.1 dB"
