"""One person among models that never saw her: by hand, by law, and on models that never did."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.once import once

from unplug.core import InputError
from unplug.sdk.auditing import PersonRow, standing
from unplug.sdk.auditing.attack import Signals
from unplug.sdk.auditing.people import composites, person_rows
from unplug.sdk.cli import main
from unplug.sdk.fleet import train_references
from unplug.sdk.training import LossPredictions

from ..conftest import CPU, World

ALPHA = 0.05


def test_by_hand() -> None:
    found = standing(8.0, np.array([2.0, 4.0, 4.0, 6.0]))
    assert (found.mean, found.rank, found.models) == (4.0, 5, 4)
    assert found.spread == pytest.approx(math.sqrt(8 / 3)) and found.others == (2.0, 4.0, 4.0, 6.0)
    t = 4 / (math.sqrt(8 / 3) * math.sqrt(5 / 4))  # 2.191; three degrees of freedom
    angle = math.atan(t / math.sqrt(3))
    two_sided = 1 - 2 / math.pi * (angle + math.sin(angle) * math.cos(angle))  # P(|T_3| > t) in closed form
    assert found.p_value == pytest.approx(two_sided, rel=1e-9)


@given(st.lists(st.floats(-50, 50), min_size=4, max_size=20), st.floats(-50, 50), st.floats(0.1, 9), st.floats(-9, 9))
def test_scale_and_side_do_not_matter(others: list[float], value: float, scale: float, shift: float) -> None:
    never_R = np.array(others)
    if never_R.std() < 1e-3:
        return
    found = standing(value, never_R)
    for sign in (1, -1):
        moved = standing(sign * scale * value + shift, sign * scale * never_R + shift)
        assert moved.p_value == pytest.approx(found.p_value, rel=1e-6, abs=1e-9)
    assert 1 <= found.rank <= len(others) + 1 and 0 <= found.p_value <= 1


def test_p_is_uniform_where_she_was_never_seen_and_small_where_she_was() -> None:
    rng = np.random.default_rng(0)
    never = [standing(draw[0], draw[1:]).p_value for draw in rng.normal(3, 2, size=(4000, 17))]
    assert np.mean(np.array(never) < ALPHA) == pytest.approx(ALPHA, abs=0.012)  # 3.5 standard errors
    assert np.mean(np.array(never) < 0.5) == pytest.approx(0.5, abs=0.03)
    seen = [standing(draw[0] + 8, draw[1:]).p_value for draw in rng.normal(3, 2, size=(500, 17))]
    assert np.mean(np.array(seen) < ALPHA) > 0.9


def test_models_that_all_say_the_same() -> None:
    assert standing(1.0, np.ones(8)).p_value == 1.0
    assert standing(1.5, np.ones(8)).p_value == 0.0
    with pytest.raises(InputError, match="3 models never saw"):
        standing(1.0, np.ones(3))


def test_p_of_a_person_counts_both_statistics() -> None:
    one, other = standing(9.0, np.arange(6.0)), standing(2.0, np.arange(6.0))
    assert PersonRow(samples=1, confidence=one).p_value == one.p_value
    assert PersonRow(samples=1, confidence=other, error=one).p_value == pytest.approx(2 * one.p_value)
    assert PersonRow(samples=1, confidence=other, error=other).p_value == 1.0


@dataclass(frozen=True)
class Part:
    ids: tuple[int, ...]
    subject_N: NDArray[np.int64]


class Planted:
    """References with a loss a model and sample, and who saw whom; ids are rows."""

    def __init__(self, loss_MN: NDArray[np.float64], seen_MN: NDArray[np.bool_]) -> None:
        self.loss_MN, self.seen_MN = loss_MN, seen_MN

    def rows(self, ids: tuple[int, ...]) -> NDArray[np.int64]:
        return np.array(ids)

    def never_saw(self, row_N: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.flatnonzero(~self.seen_MN[:, row_N].any(axis=1))

    def said(self, model_N: NDArray[np.int64], row_N: NDArray[np.int64]) -> LossPredictions:
        return LossPredictions.of(self.loss_MN[model_N, row_N])


@dataclass(frozen=True)
class Sets:
    forget: Part
    test: Part
    validation: Part
    train: Part


def planted(level_M: NDArray[np.float64] | None = None) -> tuple[Planted, Sets]:
    """12 models of 2 folds; persons 0 and 1 with two pictures each (rows 0 to 3), 20 unseen (4 to 23), 10 others (24 to 33)."""
    rng = np.random.default_rng(1)
    loss_MN = rng.uniform(0.5, 2.0, size=(12, 34))
    if level_M is not None:
        loss_MN += level_M[:, None]
    seen_MN = np.zeros((12, 34), bool)
    seen_MN[::2, :2] = seen_MN[1::2, 2:4] = seen_MN[:, 24:] = True
    part = {
        "forget": Part((0, 1, 2, 3), np.array([7, 7, 5, 5])), "test": Part(tuple(range(4, 14)), np.arange(10)),
        "validation": Part(tuple(range(14, 24)), np.arange(10)), "train": Part(tuple(range(24, 34)), np.arange(10)),
    }  # fmt: skip
    return Planted(loss_MN, seen_MN), Sets(**part)


def own(loss_N: NDArray[np.float64]) -> Signals:
    def said(first: int, last: int) -> LossPredictions:
        return LossPredictions.of(loss_N[first:last])

    return Signals(forget=said(0, 4), unseen=said(4, 14), population=said(14, 24), retain=said(24, 34))


def test_each_is_ranked_among_those_that_never_saw_her() -> None:
    fleet, sets = planted()
    loss_N = np.full(34, 1.0)
    loss_N[2:4] = 0.001  # the second person is remembered
    first, second = person_rows(own(loss_N), fleet, sets)  # type: ignore[arg-type]
    phi = LossPredictions.of(fleet.loss_MN[1::2].ravel()).confidence_N.reshape(6, 34)
    never_R = phi[:, :2].mean(axis=1) - phi[:, 4:14].mean(axis=1)
    assert first.samples == second.samples == 2
    assert first.confidence.mean == pytest.approx(never_R.mean())
    assert first.confidence.models == 6 and first.confidence.p_value > ALPHA
    assert second.confidence.rank == 7 and second.p_value < ALPHA / 2
    assert first.error is not None and second.error is not None and second.error.rank == 1


def test_the_level_of_a_model_is_taken_off() -> None:
    """Models that are a little worse at everybody, as those of fewer people are, rank nobody differently."""
    fleet, sets = planted()
    rows = person_rows(own(np.full(34, 1.0)), fleet, sets)  # type: ignore[arg-type]
    worse, _ = planted(np.linspace(0.0, 0.2, 12))
    errors = [row.error for row in person_rows(own(np.full(34, 1.0)), worse, sets)]  # type: ignore[arg-type]
    for row, error in zip(rows, errors, strict=True):
        assert row.error is not None and error is not None
        assert (row.error.rank, row.error.p_value) == (error.rank, pytest.approx(error.p_value))


def test_references_for_attacks_never_saw_whom_they_speak_of() -> None:
    fleet, sets = planted()
    found = composites(fleet, sets)  # type: ignore[arg-type]
    assert len(found) == 6
    for number, item in enumerate(found):
        odd, even = 2 * number + 1, 2 * number
        expected = [*fleet.loss_MN[odd, :2], *fleet.loss_MN[even, 2:4]]
        np.testing.assert_allclose(item.forget.error_N, expected)
        np.testing.assert_allclose(item.unseen.error_N, fleet.loss_MN[odd, 4:14])
        np.testing.assert_allclose(item.population.error_N, fleet.loss_MN[odd, 14:24])
    alone = replace(sets, forget=Part((2,), np.array([5])))
    for number, item in enumerate(composites(fleet, alone)):  # type: ignore[arg-type]
        np.testing.assert_allclose(item.unseen.error_N, fleet.loss_MN[2 * number, 4:14])


@pytest.fixture(scope="module")
def references(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(root: Path) -> None:
        options: dict[str, Any] = {"models": 8, "folds": 2, "device": CPU, "backend": "loop", "show": False}
        train_references(world.original, world.dataset, root / "references", **options)

    return once(tmp_path_factory, "references", make) / "references"


def audited(world: World, references: Path, folder: Path, name: str) -> dict[str, Any]:
    """`unplug audit` of models that forgot whom a line names."""
    (folder / "one.txt").write_text(f"{name}\n")
    common = ["--data", world.spec, "--forget", str(folder / "one.txt"), "--device", "cpu", "--json"]
    forget = ["forget", str(world.original.path), *common, "--method", "retrain", "--out", str(folder / "retrained")]
    assert CliRunner().invoke(main, forget).exit_code == 0
    audit = ["audit", str(folder / "retrained"), *common, "--fleet", str(references), "-o", str(folder / "audit.json")]
    done = CliRunner().invoke(main, audit)
    assert done.exit_code == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_one_photo_of_one_person(world: World, references: Path, tmp_path: Path) -> None:
    """What no interval can say anything about is ranked; the references cost no training."""
    report = audited(world, references, tmp_path, world.forget_ids[0])
    assert report["forget"]["samples"] == 1
    assert report["settings"]["fleet"]["never_saw"] == 4 and report["settings"]["fleet"]["models"] == 8
    for model in report["models"]:
        (row,) = model["people"]
        assert row["samples"] == 1 and row["confidence"]["models"] == 4 and row["error"]["models"] == 4
        assert {"rmia", "lira", "error-lira"} <= set(model["attacks"])
    done = CliRunner().invoke(main, ["report", str(tmp_path / "audit.json"), "-o", str(tmp_path / "r.html")])
    assert done.exit_code == 0, done.stderr
    assert "among models that never saw her" in (tmp_path / "r.html").read_text()


def test_a_fleet_that_is_none(world: World, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(f"{world.forget_ids[0]}\n")
    common = ["--data", world.spec, "--forget", str(tmp_path / "one.txt"), "--fleet", str(tmp_path), "--device", "cpu"]
    for words in (
        ["audit", str(world.original.path), "-o", str(tmp_path / "a.json")],
        ["release", str(world.original.path), "-o", str(tmp_path / "b")],
    ):
        done = CliRunner().invoke(main, [*words[:2], *common, *words[2:]])
        assert done.exit_code == 2 and "there is no references.json in it" in done.stderr, done.output
