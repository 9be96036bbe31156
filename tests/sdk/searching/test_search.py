"""A search from draws to a front, in seconds: what is trained, what a killed one keeps, and what is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import CheckpointError, Estimate, InputError, ReportError, TrainingError
from unplug.plugins import load_checkpoint
from unplug.sdk import journey
from unplug.sdk.evidence.fleet import Result
from unplug.sdk.learning.data import Dataset, Split, load_dataset, make_split
from unplug.sdk.report import write_report
from unplug.sdk.searching import Front, FrontPoint, SearchOrder, TimedOn, searching
from unplug.sdk.searching.front import with_best
from unplug.sdk.searching.searching import halved, smaller
from unplug.sdk.searching.trials import Trial

PIXEL, SPEC = TimedOn(on="pixel-3"), "synth:n=240,subjects=120,seed=4"
ORDER = SearchOrder(at=(0.3,), candidates=3, seeds=2, backend="loop")
RECIPE: dict[str, Any] = {"epochs": 2, "device": "cpu", "show": False}


@pytest.fixture(scope="module")
def faces() -> tuple[Dataset, Split]:
    dataset = load_dataset(SPEC, 32, show=False)
    return dataset, make_split(dataset, seed=0)


@pytest.mark.long
def test_a_killed_search_goes_on_to_a_front_of_what_was_found(
    faces: tuple[Dataset, Split], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    said = list[str]()
    how: Any = {"out": tmp_path / "front", "order": ORDER, "on": [PIXEL], "say": said.append}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(searching, "milliseconds_of", killed)
        journey.search(*faces, **how, **RECIPE)
    trials = tmp_path / ".front.training" / "trials"
    before = {path.name: path.stat().st_mtime_ns for path in trials.glob("*.safetensors")}
    (front,) = journey.search(*faces, **how, **RECIPE)
    assert not trials.exists()
    assert front.cost.trained == len(before)

    assert {point.name for point in front.points} >= {"at-0.3", "random-0.3"}
    assert (front.device, front.source) == ("pixel-3", "published numbers")
    assert all(point.measured_ms is None for point in front.points)  # it is not here
    for point in front.points:
        assert len(point.by_seed) == ORDER.seeds
        assert point.error.value == pytest.approx(np.mean(point.by_seed), abs=1e-6)
        if point.found == "search":
            assert point.estimated_ms <= float(point.name.partition("-")[2])
            for place, sha256 in point.weights.items():
                model = load_checkpoint(tmp_path / "front" / place)
                assert (model.sha256, model.model.size) == (sha256, point.size)
    assert Front.load(tmp_path / "front") == front
    assert front.trunks(tmp_path / "front") == [tmp_path / "front" / "at-0.3"]
    with pytest.raises(CheckpointError, match=r"its weights are not those of front\.json"):
        found = next(point for point in front.points if point.found == "search")
        replace(front, points=(replace(found, weights={"at-0.3": "0" * 64}),)).trunks(
            tmp_path / "front"
        )
    write_report([tmp_path / "front" / "front.json"], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(point.size in page for point in front.points)

    told = json.loads((tmp_path / "front" / "front.json").read_text())
    told["points"][0]["error"]["value"] = 0.5
    (tmp_path / "front" / "front.json").write_text(json.dumps(told))
    with pytest.raises(ReportError, match="it was edited"):
        Front.load(tmp_path / "front")


def test_what_no_size_takes_is_refused_before_a_training(
    faces: tuple[Dataset, Split], tmp_path: Path
) -> None:
    for at in (1e-6, 9000.0):
        with pytest.raises(InputError, match=r"drawn sizes takes .* they take .* ms"):
            order = replace(ORDER, at=(at,))
            journey.search(*faces, out=tmp_path / "front", order=order, on=[PIXEL], **RECIPE)
        assert not [*tmp_path.rglob("*.safetensors")]
    with pytest.raises(InputError, match="no milliseconds above 0"):
        SearchOrder(at=(0.0, 1.0))


class Planted:
    """A trainer of which the error of a size is known; one of none diverges."""

    def __init__(self, error: Mapping[str, float]) -> None:
        self.error = error
        self.epochs = list[tuple[int, int]]()

    def train(self, trials: Sequence[Trial]) -> dict[Trial, Result]:
        """The results of those that did not diverge."""
        self.epochs += [(len(trials), trials[0].epochs)]
        known = [one for one in trials if one.size in self.error]
        return {one: Result(facts={"error": self.error[one.size]}) for one in known}


def test_candidates_that_diverge_are_dropped() -> None:
    sizes = {0.3: ["a", "b", "gone"], 0.6: ["c", "d", "e"]}
    trainer: Any = Planted({"a": 3.0, "b": 2.0, "c": 1.0, "d": 4.0, "e": 5.0})
    said = list[str]()
    assert halved(trainer, sizes, [(3, 2), (1, 6)], 0, said.append) == {0.3: "b", 0.6: "c"}
    assert trainer.epochs == [(6, 2), (2, 6)]
    trainer = Planted({"c": 1.0})
    with pytest.raises(TrainingError, match=r"every candidate for 0\.3 ms diverged"):
        halved(trainer, sizes, [(3, 2)], 0, said.append)


def test_fewer_pictures_are_those_of_whole_people(faces: tuple[Dataset, Split]) -> None:
    dataset, split = faces
    person = {sample.id: sample.person for sample in dataset.samples}
    for pictures in (20, 21, 10_000):
        less = smaller(split, dataset, pictures, seed=0)
        assert len(less.train) <= pictures
        assert {*less.train} <= {*split.train}
        out = {person[name] for name in split.train if name not in {*less.train}}
        assert not out & {person[name] for name in less.train}
        assert (less.validation, less.test) == (split.validation, split.test)


def test_whoever_is_beaten_in_both_is_not_best() -> None:
    """By hand: c is slower than b and errs more; a errs most, and is the fastest."""
    row: Any = {"found": "hand", "size": "nano", "validation": 0.0, "by_seed": (), "bytes": 1}
    row |= {"parameters": 1, "macs": 1}
    told = {"a": (0.1, 9.0), "b": (0.2, 5.0), "c": (0.3, 6.0), "d": (0.2, 5.0)}
    points = with_best(
        [
            FrontPoint(name=name, estimated_ms=ms, error=Estimate(value=error), **row)
            for name, (ms, error) in told.items()
        ]
    )
    assert [point.best for point in points] == [True, True, False, True]


@pytest.mark.long
def test_several_devices_share_their_trainings(
    faces: tuple[Dataset, Split], tmp_path: Path
) -> None:
    order, recipe = replace(ORDER, candidates=1, seeds=1), RECIPE | {"epochs": 1}
    both = [TimedOn(on="Google Pixel 3"), TimedOn(on="pixel-2")]
    fronts = journey.search(*faces, out=tmp_path / "out", order=order, on=both, **recipe)
    assert [front.device for front in fronts] == ["pixel-3", "pixel-2"]
    for front in fronts:
        assert Front.load(tmp_path / "out" / front.device) == front
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")] == []
    with pytest.raises(InputError, match="given twice"):
        journey.search(*faces, out=tmp_path / "x", order=order, on=[PIXEL, PIXEL], **recipe)
