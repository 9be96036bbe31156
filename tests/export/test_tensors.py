"""Inputs against an IOSpec, where every wrong one is named, and parity measures against values
worked out by hand.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from unplug.core import InputError, IOSpec, TensorSpec
from unplug.export import check_inputs, compare, digest_inputs, psnr_db, random_inputs, verdict
from unplug.export.metrics import cosine

IMAGE = TensorSpec(name="image", shape=(1, 3, 4, 4), layout="NCHW", range=(0.0, 1.0))
STEP = TensorSpec(name="step", shape=(1, 1), layout="NC", dtype="int64", range=(0.0, 9.0))
SPEC = IOSpec(inputs=(IMAGE, STEP), outputs=())


def good(samples: int = 2) -> dict[str, np.ndarray]:
    return {
        "image": np.full((samples, 3, 4, 4), 0.5, np.float32),
        "step": np.zeros((samples, 1), np.int64),
    }


def broken(value: float) -> np.ndarray:
    image = good(300)["image"]
    image[299, 2, 3, 3] = value  # the very last one, in a later block of the check
    return image


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"image": np.zeros((2, 3, 4, 4), np.float64)},
            "input 'image': it is float64, not a numpy array of float32",
        ),
        ({"image": [[0.0]]}, "input 'image': it is list"),
        (
            {"image": np.zeros((2, 4, 4, 3), np.float32)},
            r"its shape is \(2, 4, 4, 3\)\. Give \(N, 3, 4, 4\) in NCHW order",
        ),
        ({"image": np.zeros((3, 4, 4), np.float32)}, "its shape is"),
        ({"image": np.zeros((0, 3, 4, 4), np.float32)}, "its shape is"),
        (
            {"image": broken(np.nan), "step": np.zeros((300, 1), np.int64)},
            "input 'image': it holds NaN or infinity",
        ),
        (
            {"image": broken(np.inf), "step": np.zeros((300, 1), np.int64)},
            "input 'image': it holds NaN or infinity",
        ),
        (
            {"image": broken(255.0), "step": np.zeros((300, 1), np.int64)},
            "values reach from 0.5 to 255, and the model expects 0 to 1",
        ),
        ({"step": np.full((2, 1), 10)}, "input 'step': its values reach from 10 to 10"),
        ({"step": np.zeros((3, 1), np.int64)}, "Give the same number of each"),
        ({"extra": np.zeros(1)}, "input 'extra': is not an input of this model"),
    ],
)
def test_wrong_inputs_are_named(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_inputs(SPEC, {**good(), **change})


def test_missing_input_is_named() -> None:
    with pytest.raises(InputError, match="input 'step': is missing"):
        check_inputs(SPEC, {"image": good()["image"]})


def test_rounding_beyond_the_range_is_accepted() -> None:
    inputs = good()
    inputs["image"][0] = np.nextafter(np.float32(1.0), np.float32(2.0))
    assert check_inputs(SPEC, inputs) == 2


def test_random_inputs_fit_and_repeat() -> None:
    first, again, other = (random_inputs(SPEC, 4, seed) for seed in (0, 0, 1))
    assert check_inputs(SPEC, first) == 4
    assert digest_inputs(first) == digest_inputs(again) != digest_inputs(other)
    with pytest.raises(InputError, match="0 samples"):
        random_inputs(SPEC, 0, seed=0)
    unbounded = IOSpec(
        inputs=(TensorSpec(name="ids", shape=(1, 2), layout="NC", dtype="int64"),), outputs=()
    )
    with pytest.raises(InputError, match="has no random values"):
        random_inputs(unbounded, 1, seed=0)


def test_digest_tells_names_types_and_shapes_apart() -> None:
    zeros = np.zeros((2, 2), np.float32)
    digests = {
        digest_inputs(item)
        for item in (
            {"a": zeros},
            {"b": zeros},
            {"a": zeros.view(np.int32)},
            {"a": zeros.reshape(1, 4)},
        )
    }
    assert len(digests) == 4
    assert digest_inputs({"a": zeros.T, "b": zeros}) == digest_inputs({"b": zeros, "a": zeros})


def test_psnr_golden_values() -> None:
    # peak 4, errors (0, 0, 0, 0.04): rmse = 0.04 / 2 = 0.02, ratio 200, 20 log10(200) = 46.0206
    assert psnr_db(
        np.array([1.0, -2.0, 3.0, -4.0]), np.array([1.0, -2.0, 3.0, -3.96])
    ) == pytest.approx(46.0206, abs=1e-4)
    # a factor of ten in the error is 20 dB
    assert psnr_db(np.array([1.0]), np.array([1.1])) - psnr_db(
        np.array([1.0]), np.array([2.0])
    ) == pytest.approx(20.0)
    assert psnr_db(np.ones(3), np.ones(3)) == math.inf
    assert psnr_db(np.zeros(3), np.ones(3)) == -math.inf


def test_psnr_is_computed_in_float64() -> None:
    reference = np.full(1000, 1000.0, np.float32)
    output = reference.copy()
    output[0] = np.nextafter(output[0], np.float32(2000.0))
    # one step of float32 at 1000 is 2^-14: 20 log10(1000 / (2^-14 / sqrt(1000)))
    assert psnr_db(reference, output) == pytest.approx(
        20 * math.log10(1000 * 2**14 * math.sqrt(1000))
    )


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
def test_what_cannot_be_compared_fails(
    reference: list[float], output: list[float], reason: str
) -> None:
    difference = compare(np.array(reference), np.array(output))
    assert not difference.exact and difference.psnr_db is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(verdict(difference, 0.0))


def test_verdict_at_the_threshold() -> None:
    difference = compare(np.array([0.0, 10.0]), np.array([1.0, 11.0]))
    assert difference.psnr_db == pytest.approx(20.0)
    assert verdict(difference, 20.0) is None
    assert verdict(difference, 20.1) == "20.0 dB is below 20.1 dB"
