"""The kernel distance: by hand, against loops, and unbiased."""

from __future__ import annotations

import numpy as np
import pytest

from unplug.sdk.studies.control import kid
from unplug.sdk.studies.control.bootstrap import Resampled
from unplug.sdk.studies.control.kid import between, kernel, kid_rows, within


def of_rows(rows: dict[str, list[np.ndarray]], real: np.ndarray, seed: int = 0, replicates: int = 50) -> dict[str, Resampled]:
    count = len(next(iter(rows.values()))[0])
    return kid_rows(
        rows, real, row_subjects=np.arange(count), real_subjects=np.arange(len(real)), seed=seed, replicates=replicates
    )


def test_two_points_a_side_by_hand() -> None:
    """k(0, 1) = 1, k(2, 3) = 7^3, and 1, 1, 3^3, 4^3 across."""
    found = of_rows({"row": [np.array([[0.0], [1.0]])]}, np.array([[2.0], [3.0]]))["row"]
    assert found.value == pytest.approx(1 + 343 - 2 * (1 + 1 + 27 + 64) / 4)


def test_the_kernel_divides_by_the_width() -> None:
    assert kernel(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])).tolist() == [[(11 / 2 + 1) ** 3]]


def test_weights_are_loops_over_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of three: a picture that was drawn twice is not paired with itself."""
    monkeypatch.setattr(kid, "BLOCK", 3)
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(7, 2)), rng.normal(size=(5, 2))
    w, v = rng.integers(0, 3, (2, 7)).astype(float), rng.integers(1, 3, (2, 5)).astype(float)
    for r in range(2):
        pairs = [(i, j) for i in range(7) for j in range(7) if i != j]
        weight = np.array([w[r, i] * w[r, j] for i, j in pairs])
        value = np.array([(one[i] @ one[j] / 2 + 1) ** 3 for i, j in pairs])
        assert within(one, w)[r] == pytest.approx((weight * value).sum() / weight.sum())
        crossed = sum(w[r, i] * v[r, j] * (one[i] @ two[j] / 2 + 1) ** 3 for i in range(7) for j in range(5))
        assert between(one, w, two, v)[r] == pytest.approx(crossed / (w[r].sum() * v[r].sum()))


def test_no_distance_has_a_mean_of_zero_at_any_size() -> None:
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found.append(of_rows({"row": [rng.normal(size=(12, 6))]}, rng.normal(size=(15, 6)), replicates=2)["row"].value)
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(40) and min(found) < 0 < max(found)


def test_rows_are_paired_and_trainings_stand_side_by_side() -> None:
    rng = np.random.default_rng(1)
    own, far = rng.normal(size=(40, 3)), rng.normal(size=(40, 3)) + 1.0
    found = of_rows({"one": [own], "twin": [own.copy()], "far": [far], "two": [own, far]}, rng.normal(size=(60, 3)))
    assert found["one"].minus(found["twin"]).low == found["one"].minus(found["twin"]).high == 0.0
    assert found["far"].minus(found["one"]).low > 0.5
    assert found["two"].value_S.tolist() == [found["one"].value, found["far"].value]
    own_interval = found["far"].estimate
    assert own_interval.low < found["far"].value < own_interval.high
