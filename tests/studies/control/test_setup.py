"""What is asked for, which samples are drawn from and held against, what the base may know of them,
and the verdicts.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.studies.control import CompareRequest, Measure, Row, Setup, prepare, summary
from benchmarks.studies.control.report import Verdict
from benchmarks.studies.control.setup import first_of_each, of_other_subjects
from benchmarks.studies.control.summary import seen_by_base, verdicts_of

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import OURS, USUAL
from unplug.sdk.evidence.statistics import Estimate
from unplug.sdk.learning.data import load_dataset, make_split, save_split

from .conftest import CPU, PICTURES, SIZE, SPEC, Ask

pytestmark = pytest.mark.study


class Samples:
    """As much of a `ControlSet` as choosing takes; ids are a, b, c, ... and rows count backwards."""

    def __init__(self, subjects: list[int]) -> None:
        self.ids = tuple("abcdefgh"[: len(subjects)])
        self.rows = np.arange(len(subjects))[::-1]
        self.subject = np.array(subjects[::-1])


def test_one_picture_a_subject_while_they_last() -> None:
    data: Any = Samples([7, 7, 5, 7, 5, 6])
    assert first_of_each(data) == ("a", "c", "f", "b", "e", "d")


def test_subjects_of_sources_are_not_among_the_real_pictures() -> None:
    data: Any = Samples([7, 7, 5, 7, 4, 6])
    sources: Any = SimpleNamespace(subject=np.array([7, 9, 4]), rows=np.array([0, 2]))
    assert of_other_subjects(("f", "b", "x", "e", "c"), data, sources) == ["f", "c"]


@pytest.mark.long
def test_no_person_is_on_both_sides(setup: Setup) -> None:
    """Four people with two pictures each in both sets: none of the test set's second pictures is
    held against.
    """
    own, others = setup.subjects(setup.sources).tolist(), setup.subjects(setup.others).tolist()
    assert len(set(own)) == PICTURES and not set(own) & set(others) and len(others) == 8


@pytest.mark.long
def test_too_few_people_are_refused_before_anything_is_trained(ask: Ask, tmp_path: Path) -> None:
    spec = "synth:n=40,subjects=6,seed=4"
    split = make_split(load_dataset(spec, SIZE, show=False), seed=0, validation=0.2, test=0.2)
    save_split(split, tmp_path / "split.json")
    with pytest.raises(InputError, match=r"4 pictures .* of 2 people, and distances need 4"):
        prepare(
            ask(tmp_path, spec=spec, split=tmp_path / "split.json"),
            device=CPU,
            show=False,
            say=lambda _: None,
        )


def test_pictures_are_drawn_as_the_base_is_unless_the_request_says_otherwise(
    ask: Ask, tiny_base: Path, tmp_path: Path
) -> None:
    ours = tmp_path / "ours"
    shutil.copytree(tiny_base, ours)
    (ours / "unplug.json").write_text('{"schema": "unplug-base/1"}')
    drawn = {
        name: prepare(
            ask(tmp_path / "out", base=str(base), **asked), device=CPU, show=False, say=print
        ).sampling
        for name, base, asked in (
            ("theirs", tiny_base, {"sampling_steps": None}),
            ("ours", ours, {"sampling_steps": None}),
            ("asked", ours, {"sampling_steps": 3, "guidance": 1.5}),
        )
    }
    assert drawn == {"theirs": USUAL, "ours": OURS, "asked": replace(OURS, steps=3, guidance=1.5)}


def test_a_control_may_have_steps_of_its_own(tmp_path: Path) -> None:
    request = CompareRequest(
        base="small",
        spec=SPEC,
        condition="canny",
        out=tmp_path,
        steps={"controlnet": 8000},
        search_steps=400,
    )
    assert request.recipe_with("controlnet", 1e-3).steps == 8000
    assert request.recipe_with("plugin", 1e-3).steps == request.recipe.steps
    assert request.recipe_with("controlnet", 1e-3, search=True).steps == 400
    with pytest.raises(InputError, match="not among --controls"):
        CompareRequest(
            base="small",
            spec=SPEC,
            condition="canny",
            out=tmp_path,
            controls=("plugin",),
            steps={"controlnet": 9},
        )
    with pytest.raises(InputError, match="steps"):
        CompareRequest(
            base="small", spec=SPEC, condition="canny", out=tmp_path, steps={"plugin": 0}
        )


# What the base was trained on


@pytest.fixture(scope="module")
def setup(ask: Ask, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    return prepare(
        ask(tmp_path_factory.mktemp("setup")), device=CPU, show=False, say=lambda _: None
    )


@pytest.fixture
def told(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is said of a base with some record."""

    def said(**record: Any) -> str | None:
        monkeypatch.setattr(summary, "base_record", lambda _: record)
        return seen_by_base(setup)

    return setup, said


def split_record(setup: Any, **changes: Any) -> dict[str, Any]:
    """As `unplug train base` writes it."""
    split = make_split(setup.dataset, seed=3, validation=0.05, test=0.1)
    own = {
        "sha256": split.sha256,
        "seed": 3,
        "train": len(split.train),
        "validation": len(split.validation),
    }
    return own | changes


def test_a_base_without_a_record_says_nothing(told: Any) -> None:
    _, said = told
    assert said() is None and said(data={"spec": "synth:n=10,seed=5", "digest": "x"}) is None
    assert said(data={"spec": "imagefolder:/nowhere", "digest": "x"}) is None


def test_the_same_seed_draws_the_same_faces(told: Any) -> None:
    _, said = told
    assert "same seed (4)" in said(data={"spec": "synth:n=9000,seed=4", "digest": "x"})


def test_samples_in_the_bases_training_set_are_counted(told: Any) -> None:
    setup, said = told
    data = {"spec": SPEC, "digest": setup.dataset.digest}
    known = set(make_split(setup.dataset, seed=3, validation=0.05, test=0.1).train)
    own, others = (len(known.intersection(part.ids)) for part in (setup.sources, setup.others))
    text = said(data=data, split=split_record(setup))
    assert (
        f"{own + others} of the {PICTURES + 8} held-out samples" in text
        and f"{own} of them among the {PICTURES} " in text
    )
    assert 0 < own + others < PICTURES + 8


def test_a_split_that_cannot_be_made_again_is_not_guessed(told: Any) -> None:
    setup, said = told
    data = {"spec": SPEC, "digest": setup.dataset.digest}
    for broken in ({"sha256": "x"}, {"train": "many"}, {"train": 40}, {"seed": None}):
        assert (
            "may have seen any"
            in said(data=data, split=split_record(setup, **broken))
            == said(data=data)
        )


Ends = tuple[float, float]


def verdict(
    condition: str = "face_landmark", ratio: Ends | None = None, **gaps: Ends | None
) -> tuple[Verdict, Verdict]:
    def measure(ends: Ends | None) -> Measure:
        gap = None if ends is None else Estimate(value=sum(ends) / 2, low=ends[0], high=ends[1])
        return Measure(value=0.5, pictures=9, difference=gap)

    measures = {name: measure(ends) for name, ends in gaps.items()}
    if ratio is not None:
        measures["frechet_ratio"] = Measure(
            value=sum(ratio) / 2, low=ratio[0], high=ratio[1], pictures=9
        )
    rows = (
        Row(name="base", label="base", role="base", measures=measures),
        Row(name="controlnet", label="ControlNet", role="control"),
        Row(
            name="plugin",
            label="plugin",
            role="control",
            measures=measures,
            missing={"frechet_ratio": "too small"},
        ),
    )
    first, second = verdicts_of(rows, "controlnet", condition)
    return first, second


@pytest.mark.parametrize(
    ("nme", "share", "outcome"),
    [
        ((-0.02, 0.0), (0.0, 0.1), "holds"),
        ((-0.02, -0.01), (-0.1, 0.1), "cannot tell"),
        ((-0.02, -0.01), (-0.1, -0.05), "does not hold"),  # a lower error, on fewer faces
        ((0.01, 0.02), (0.01, 0.1), "does not hold"),
        ((-0.01, 0.01), (0.01, 0.1), "cannot tell"),
        (None, (0.01, 0.1), "cannot tell"),
    ],
)
def test_error_and_share_of_faces_decide_together(
    nme: Ends | None, share: Ends, outcome: str
) -> None:
    first, _ = verdict(nme=nme, nme_8=share)
    assert (first.row, first.claim, first.outcome) == (
        "plugin",
        "control error no worse than ControlNet's",
        outcome,
    )
    assert "NME under 8 %" in first.why


def test_edges_are_better_where_f1_is_higher() -> None:
    assert verdict("canny", edge_f1=(0.0, 0.1))[0].outcome == "holds"
    assert verdict("canny", edge_f1=(-0.1, -0.01))[0].outcome == "does not hold"


def test_other_conditions_cannot_be_told() -> None:
    first, _ = verdict("depth")
    assert first.outcome == "cannot tell" and "no control error" in first.why


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [
        ((0.5, 0.9), "holds"),
        ((0.95, 1.01), "holds"),
        ((0.95, 1.02), "cannot tell"),
        ((1.011, 1.2), "does not hold"),
    ],
)
def test_a_ratio_is_within_one_percent(ratio: Ends, outcome: str) -> None:
    _, second = verdict(ratio=ratio)
    assert (second.claim, second.outcome) == (
        "Fréchet distance within 1 % of ControlNet's",
        outcome,
    )
    assert f"({ratio[0]:.3f} to {ratio[1]:.3f})" in second.why


def test_without_a_ratio_the_reason_stands() -> None:
    assert (verdict()[1].outcome, verdict()[1].why) == ("cannot tell", "too small")


def test_without_the_reference_there_are_none() -> None:
    assert verdicts_of((Row(name="plugin", label="plugin", role="control"),), None, "canny") == ()
