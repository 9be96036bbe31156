"""Inputs against an IOSpec, where every wrong one is named, and parity measures against values
worked out by hand.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from unplug.core import InputError, IOSpec, TensorSpec
from unplug.export import check_inputs, compare, digest_inputs, psnr_db, random_inputs, verdict
from unplug.export.metrics import cosine

IMAGE = TensorSpec(name="image", shape=(1, 3, 4, 4), layout="NCHW", range=(0.0, 1.0))
STEP = TensorSpec(name="step", shape=(1, 1), layout="NC", dtype="int64", range=(0.0, 9.0))
SPEC = IOSpec(inputs=(IMAGE, STEP), outputs=())


def good(samples: int = 2) -> dict[str, np.ndarray]:
    image = np.full((samples, 3, 4, 4), 0.5, np.float32)
    return {"image": image, "step": np.zeros((samples, 1), np.int64)}


def last(value: float) -> dict[str, np.ndarray]:
    """The very last number, in a later block of the check, is another."""
    inputs = good(300)
    inputs["image"][299, 2, 3, 3] = value
    return inputs


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": zeros(2, 3, 4, 4) * np.float64(1)}, "input 'image': it is float64, not a numpy"),
        ({"image": [[0.0]]}, "input 'image': it is list"),
        (
            {"image": zeros(2, 4, 4, 3)},
            r"its shape is \(2, 4, 4, 3\)\. Give \(N, 3, 4, 4\) in NCHW order",
        ),
        ({"image": zeros(3, 4, 4)}, "its shape is"),
        ({"image": zeros(0, 3, 4, 4)}, "its shape is"),
        (last(np.nan), "input 'image': it holds NaN or infinity"),
        (last(np.inf), "input 'image': it holds NaN or infinity"),
        (last(255.0), "values reach from 0.5 to 255, and the model expects 0 to 1"),
        ({"step": np.full((2, 1), 10)}, "input 'step': its values reach from 10 to 10"),
        ({"step": np.zeros((3, 1), np.int64)}, "Give the same number of each"),
        ({"extra": np.zeros(1)}, "input 'extra': is not an input of this model"),
    ],
)
def test_wrong_inputs_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_inputs(SPEC, {**good(), **change})


def test_missing_input_is_named() -> None:
    with pytest.raises(InputError, match="input 'step': is missing"):
        check_inputs(SPEC, {"image": good()["image"]})


def test_rounding_beyond_the_range_is_accepted() -> None:
    assert check_inputs(SPEC, last(float(np.nextafter(np.float32(1), np.float32(2))))) == 300


def test_random_inputs_fit_and_repeat() -> None:
    first, again, other = (random_inputs(SPEC, 4, seed) for seed in (0, 0, 1))
    assert check_inputs(SPEC, first) == 4
    assert digest_inputs(first) == digest_inputs(again) != digest_inputs(other)
    with pytest.raises(InputError, match="0 samples"):
        random_inputs(SPEC, 0, seed=0)
    ids = TensorSpec(name="ids", shape=(1, 2), layout="NC", dtype="int64")
    with pytest.raises(InputError, match="has no random values"):
        random_inputs(IOSpec(inputs=(ids,), outputs=()), 1, seed=0)


def test_digest_tells_names_types_and_shapes_apart() -> None:
    two = zeros(2, 2)
    others = [{"b": two}, {"a": two.view(np.int32)}, {"a": two.reshape(1, 4)}]
    assert len({digest_inputs(inputs) for inputs in ({"a": two}, *others)}) == 4
    assert digest_inputs({"a": two.T, "b": two}) == digest_inputs({"b": two, "a": two})


COARSE = np.full(1000, 1000.0, np.float32)
STEPPED = np.where(np.arange(1000) == 0, np.nextafter(COARSE, np.float32(2000)), COARSE)


@pytest.mark.parametrize(
    ("reference", "output", "decibels"),
    [
        # peak 4, errors (0, 0, 0, 0.04): rmse = 0.04 / 2 = 0.02, ratio 200, 20 log10(200)
        ([1.0, -2.0, 3.0, -4.0], [1.0, -2.0, 3.0, -3.96], 46.0206),
        # a factor of ten in the error is 20 dB
        ([1.0], [1.1], 20.0),
        ([1.0], [2.0], 0.0),
        ([1.0], [1.0], math.inf),
        ([0.0], [1.0], -math.inf),
        # in float64: one step of float32 at 1000 is 2^-14
        (COARSE, STEPPED, 20 * math.log10(1000 * 2**14 * math.sqrt(1000))),
    ],
)
def test_psnr_golden_values(reference: Any, output: Any, decibels: float) -> None:
    made = psnr_db(np.array(reference), np.array(output))
    assert made == pytest.approx(decibels, abs=1e-4)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ([3.0, 4.0], [4.0, 3.0], 24 / 25),
        ([1.0, 0.0], [0.0, 1.0], 0.0),
        ([1.0, 2.0], [-1.0, -2.0], -1.0),
        ([0.0, 0.0], [1.0, 1.0], None),
    ],
)
def test_cosine_golden_values(one: list[float], other: list[float], wanted: float | None) -> None:
    assert cosine(np.array(one), np.array(other)) == (wanted and pytest.approx(wanted))


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
        ([1.0, 2.0], [1.0], "shape (1,) where the reference has (2,)"),
        ([0.0, 0.0], [1.0, 2.0], "the reference is zero everywhere and the output is not"),
    ],
)
def test_what_cannot_be_compared_fails(
    reference: list[float], output: list[float], reason: str
) -> None:
    difference = compare(np.array(reference), np.array(output))
    assert not difference.exact and difference.psnr_db is None
    assert verdict(difference, 0.0) == reason


def test_verdict_at_the_threshold() -> None:
    difference = compare(np.array([0.0, 10.0]), np.array([1.0, 11.0]))
    assert difference.psnr_db == pytest.approx(20.0)
    assert verdict(difference, 20.0) is None
    assert verdict(difference, 20.1) == "20.0 dB is below 20.1 dB"
