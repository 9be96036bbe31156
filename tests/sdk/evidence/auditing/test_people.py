"""One person among models that never saw her: by hand, by law, and on models that never did."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.sdk.cli.calls import fail
from tests.sdk.evidence.commands import call

from unplug.core import InputError
from unplug.sdk import audit
from unplug.sdk.evidence.auditing import PersonRow, Standing, standing
from unplug.sdk.evidence.auditing.attack import Signals
from unplug.sdk.evidence.auditing.people import _of_people, composites, person_rows, stays
from unplug.sdk.learning.training import LossPredictions

from ...conftest import World
from ..small_fleet import small_references

ALPHA = 0.05


def test_by_hand() -> None:
    # mean 4, spread sqrt(8/3): with sqrt(5/4) one standard error is sqrt(10/3)
    never_R = np.array([2.0, 4.0, 4.0, 6.0])
    error = math.sqrt(10 / 3)
    unseen_J = 4 + error * np.array([-1.0, 0.0, 0.5, 1.0, 3.0])
    others = np.tile(never_R[:, None], 5)
    # t = -1, 0, .5, 1, 3 and hers 2: the median is .75
    result = standing(4 + 2 * error, never_R, unseen_J, others)
    assert (result.mean, result.rank, result.models, result.people) == (4.0, 5, 4, 5)
    assert result.spread == pytest.approx(math.sqrt(8 / 3)) and result.others == (
        2.0,
        4.0,
        4.0,
        6.0,
    )
    # 1.25 from the median; -1 and 3 are further, and she herself
    assert result.p_value == pytest.approx(3 / 6)
    assert result.high == pytest.approx(4 + error * np.percentile([-1, 0, 0.5, 1, 3], 97.5))
    assert standing(4 + 9 * error, never_R, unseen_J, others).p_value == pytest.approx(1 / 6)
    assert standing(4 - 9 * error, never_R, unseen_J, others).p_value == pytest.approx(1 / 6)


@given(st.integers(0, 10**6), st.floats(0.1, 9), st.floats(-9, 9), st.sampled_from([1, -1]))
def test_scale_side_and_what_a_model_does_to_everybody_do_not_matter(
    seed: int, scale: float, shift: float, sign: int
) -> None:
    rng = np.random.default_rng(seed)
    numbers: list[Any] = [rng.normal(size=shape) for shape in ((), 8, 15, (8, 15))]
    result = standing(*numbers)
    moved = standing(*(sign * scale * number + shift for number in numbers))
    assert moved.p_value == result.p_value
    assert 1 / 16 <= result.p_value <= 1 and 1 <= result.rank <= 9


@pytest.mark.parametrize(
    "apart", [0.0, 1.5], ids=["one more of them", "a model that is better at everybody"]
)
def test_p_is_uniform_where_she_was_never_seen_and_small_where_she_was(apart: float) -> None:
    """Whatever sets the model apart from those that never saw her, it does on unseen people too."""
    rng = np.random.default_rng(0)

    def p(seen: float) -> float:
        level_J, never_RJ = rng.gamma(2.0, size=60), rng.normal(size=(16, 60))
        value_J = level_J + apart + rng.normal(size=60)
        return standing(
            value_J[0] + seen,
            level_J[0] + never_RJ[:, 0],
            value_J[1:],
            level_J[1:] + never_RJ[:, 1:],
        ).p_value

    never = np.array([p(0.0) for _ in range(3000)])
    assert np.mean(never <= ALPHA) == pytest.approx(ALPHA, abs=0.014)  # 3.5 standard errors
    assert np.mean(never <= 0.5) == pytest.approx(0.5, abs=0.032)
    assert np.mean([p(6.0) <= ALPHA for _ in range(300)]) > 0.9


def test_models_that_all_say_the_same() -> None:
    alike = np.ones(8), np.ones(25), np.ones((8, 25))
    assert standing(1.0, *alike).p_value == 1.0
    assert standing(1.5, *alike).p_value == 1 / 26
    with pytest.raises(InputError, match="3 models never saw"):
        standing(1.0, np.ones(3), np.ones(25), np.ones((3, 25)))


def place(value: float) -> Standing:
    rng = np.random.default_rng(3)
    return standing(value, rng.normal(size=8), rng.normal(size=39), rng.normal(size=(8, 39)))


def test_p_of_a_person_counts_both_statistics() -> None:
    one, other = place(30.0), place(0.1)
    assert PersonRow(samples=1, confidence=one).p_value == one.p_value == 1 / 40
    assert PersonRow(samples=1, confidence=other, error=one).p_value == pytest.approx(
        2 * one.p_value
    )
    assert PersonRow(samples=1, confidence=other, error=other).p_value == 1.0


class Planted:
    """References with a loss a model and sample, and who saw whom; ids are rows."""

    def __init__(self, loss_MN: NDArray[np.float64], seen_MN: NDArray[np.bool_]) -> None:
        self.loss_MN, self.seen_MN = loss_MN, seen_MN
        self.record = SimpleNamespace(models=len(loss_MN), folds=2)
        self.person_N = np.array([100, 100, 101, 101, *range(70)])

    def rows(self, ids: tuple[int, ...]) -> NDArray[np.int64]:
        return np.array(ids)

    def never_saw(self, row_N: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.flatnonzero(~self.seen_MN[:, row_N].any(axis=1))

    def said(self, model_N: NDArray[np.int64], row_N: NDArray[np.int64]) -> LossPredictions:
        return LossPredictions.of(self.loss_MN[model_N, row_N])


def part(first: int, people: NDArray[np.int64]) -> Any:
    """A set of the rows from one on."""
    return SimpleNamespace(ids=tuple(range(first, first + len(people))), subject_N=people)


def planted(level_M: NDArray[np.float64] | None = None) -> tuple[Any, Any]:
    """12 models of 2 folds; persons 7 and 5 with two pictures each (rows 0 to 3), 25 unseen of two
    (4 to 53), 10 others.
    """
    rng = np.random.default_rng(1)
    loss_MN = rng.uniform(0.5, 2.0, size=(12, 74))
    if level_M is not None:
        loss_MN += level_M[:, None]
    seen_MN = np.zeros((12, 74), bool)
    seen_MN[::2, :2] = seen_MN[1::2, 2:4] = seen_MN[:, 64:] = True
    sets = SimpleNamespace(
        forget=part(0, np.array([7, 7, 5, 5])),
        test=part(4, np.arange(50) // 2),
        validation=part(54, np.arange(10)),
        train=part(64, np.arange(10)),
    )
    return Planted(loss_MN, seen_MN), sets


def own(loss_N: NDArray[np.float64]) -> Signals:
    forget, unseen, population, retain = (
        LossPredictions.of(rows) for rows in np.split(loss_N, [4, 54, 64])
    )
    return Signals(forget=forget, unseen=unseen, population=population, retain=retain)


def losses() -> NDArray[np.float64]:
    return np.random.default_rng(2).uniform(0.5, 2.0, size=74)


def test_each_is_ranked_among_those_that_never_saw_her() -> None:
    fleet, sets = planted()
    loss_N = losses()
    loss_N[:2], loss_N[2:4] = 1.1, 0.0001  # the second person is remembered
    first, second = person_rows(own(loss_N), fleet, sets)
    phi = LossPredictions.of(fleet.loss_MN[1::2].ravel()).confidence_N.reshape(6, 74)
    never_R = phi[:, :2].mean(axis=1) - phi[:, 4:54].mean(axis=1)
    assert first.samples == second.samples == 2
    assert first.confidence.mean == pytest.approx(never_R.mean())
    assert (first.confidence.models, first.confidence.people) == (6, 25)
    assert first.confidence.p_value > ALPHA
    assert second.confidence.rank == 7 and second.confidence.p_value == 1 / 26
    assert second.error.rank == 1


def test_who_stays_with_other_pictures_is_no_stranger() -> None:
    fleet, sets = planted()
    fleet.person_N[70] = 100  # a picture of the first person stays in the training set
    loss_N = losses()
    assert stays(fleet, sets).tolist() == [True, True, False, False]
    (row,) = person_rows(own(loss_N), fleet, sets)
    fleet.person_N[70] = 0
    assert row == person_rows(own(loss_N), fleet, sets)[1]


def test_the_level_of_a_model_is_taken_off() -> None:
    """Models that are a little worse at everybody, as those of fewer people are, rank nobody
    differently.
    """
    fleet, sets = planted()
    loss_N = losses()
    rows = person_rows(own(loss_N), fleet, sets)
    worse, _ = planted(np.linspace(0.0, 0.2, 12))
    errors = [row.error for row in person_rows(own(loss_N), worse, sets)]
    for row, error in zip(rows, errors, strict=True):
        assert (row.error.rank, row.error.p_value) == (error.rank, error.p_value)


def test_an_unseen_person_is_measured_against_the_others() -> None:
    value_XU = np.array([[1.0, 3.0, 8.0, 10.0]])
    # In the order 0, 2, 4.
    np.testing.assert_allclose(
        _of_people(value_XU, np.array([4, 4, 0, 2])), [[8 - 14 / 3, 10 - 4, 2 - 9]]
    )
    assert _of_people(value_XU, np.zeros(4, np.int64)).shape == (1, 0)


def test_references_for_attacks_never_saw_whom_they_speak_of() -> None:
    fleet, sets = planted()
    result = composites(fleet, sets)
    assert len(result) == 6
    for number, row in enumerate(result):
        odd, even = 2 * number + 1, 2 * number
        expected = [*fleet.loss_MN[odd, :2], *fleet.loss_MN[even, 2:4]]
        np.testing.assert_allclose(row.forget.error_N, expected)
        np.testing.assert_allclose(row.unseen.error_N, fleet.loss_MN[odd, 4:54])
        np.testing.assert_allclose(row.population.error_N, fleet.loss_MN[odd, 54:64])
    sets.forget = part(2, np.array([5]))
    for number, row in enumerate(composites(fleet, sets)):
        np.testing.assert_allclose(row.unseen.error_N, fleet.loss_MN[2 * number, 4:54])


@pytest.fixture(scope="module")
def references(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_references(world, tmp_path_factory)


def audited(world: World, references: Path, folder: Path, name: str) -> dict[str, Any]:
    """`unplug audit` of models that forgot whom a line names."""
    (folder / "one.txt").write_text(f"{name}\n")
    common = ["--data", world.spec, "--forget", folder / "one.txt", "--device", "cpu"]
    model, out = folder / "retrained", folder / "audit.json"
    call("forget", world.original.path, *common, "--method", "retrain", "--out", model)
    call("audit", model, *common, "--fleet", references, "-o", out)
    return dict(json.loads(out.read_text()))


def test_one_person(world: World, references: Path, tmp_path: Path) -> None:
    """Of whom no interval can say anything; the references cost no training."""
    whose = {sample.id: sample.subject for sample in world.dataset.samples}
    report = audited(world, references, tmp_path, f"subject:{whose[world.forget_ids[0]]}")
    assert report["forget"] == {"samples": 3, "subjects": 1}
    fleet = report["settings"]["fleet"]
    assert (fleet["never_saw"], fleet["models"]) == (5, 10)
    *models, stand_in = report["models"]
    assert stand_in["name"] == "never saw them" and not stand_in["people"]
    for model in models:
        (row,) = model["people"]
        counts = row["samples"], row["confidence"]["models"], row["error"]["models"]
        assert counts == (3, 5, 5)
        assert {"rmia", "lira", "error-lira"} <= set(model["attacks"])
    call("report", tmp_path / "audit.json", "-o", tmp_path / "r.html")
    assert "among models that never saw that person" in (tmp_path / "r.html").read_text()


def test_one_photo_of_somebody_who_stays(world: World, references: Path) -> None:
    """No stranger is like her, so nobody is ranked."""
    report = audit(
        [world.original], world.dataset, world.forget_ids[:1], fleet=references, device="cpu"
    )
    assert report.forget["samples"] == 1 and not any(model.people for model in report.models)
    assert "other pictures that stay" in report.skipped["people"]


@pytest.mark.parametrize("command", ["audit", "release"])
def test_a_fleet_that_is_none(world: World, tmp_path: Path, command: str) -> None:
    (tmp_path / "one.txt").write_text(f"{world.forget_ids[0]}\n")
    given = ["--data", world.spec, "--forget", tmp_path / "one.txt", "--fleet", tmp_path]
    failed = fail(command, world.original.path, *given, "-o", tmp_path / "a.json")
    assert "there is no references.json in it" in failed.line
