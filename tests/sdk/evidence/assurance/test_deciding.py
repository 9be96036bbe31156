"""One decision for several models, of people that none of them learned from; and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.sdk.cli.calls import fail
from tests.sdk.conftest import World
from tests.sdk.evidence.commands import call

from unplug.core import DataError, InputError
from unplug.export import Artifact
from unplug.sdk.drawing.inference import decision_in, read_decision
from unplug.sdk.evidence.assurance import UNKNOWN, Answers, Limits, decide, people_of
from unplug.sdk.evidence.assurance.people import People
from unplug.sdk.learning.data import Split, load_dataset

from .planted import crowd, said, save_pictures

EDGES = (0.0, 18.0, 100.0)
LIMITS = Limits(age=18.0, max_fpr=0.05, max_fnr=0.1)


def people(count: int = 600, **changes: Any) -> People:
    region = [UNKNOWN if index % 50 == 0 else "ab"[index % 2] for index in range(count)]
    ages = np.random.default_rng(0).uniform(5, 40, count)
    facts: dict[str, Any] = {"apart": "other data", "part": None, "subjects_apart": None}
    return crowd(ages, changes.pop("attributes", {"region": region}), **facts | changes)


def answers(own: People, seed: int = 1, noise: float = 1.5, name: str = "age.onnx") -> Answers:
    """A model of two groups whose log odds follow the age."""
    odds_N = (own.age_N - 18) / 3 + np.random.default_rng(seed).normal(0, noise, len(own))
    logits_NG = np.stack([np.zeros(len(own)), odds_N], axis=1)
    return replace(said(own, own.age_N, name, EDGES), logits_NG=logits_NG)


def test_the_strictest_of_several_models_holds_on_each() -> None:
    ours = people()
    both = [answers(ours, 1, 1.0, "good.onnx"), answers(ours, 2, 3.0, "int8.onnx")]
    record, fitted = decide(both, LIMITS)
    good, bad = fitted
    assert record.over_from == bad.decision.over_from > good.decision.over_from
    assert record.under_to == bad.decision.under_to < good.decision.under_to
    assert [model.name for model in record.models] == ["good.onnx", "int8.onnx"]
    assert record.apart == "other data"
    for model, alone in zip(record.models, fitted, strict=True):
        assert (model.over_from, model.under_to) == (
            alone.decision.over_from,
            alone.decision.under_to,
        )
        minors = model.minors
        assert minors.over <= 0.05 and model.adults.under <= 0.1
        assert minors.pictures == record.minors
        assert minors.over + minors.under + minors.unsure == pytest.approx(1.0)


def test_by_group_where_enough_people_are_known() -> None:
    record, fitted = decide([answers(people())], LIMITS, by="region")
    assert {group.name: group.holds for group in record.groups} == {"a": True, "b": True}
    assert fitted[0].unknown == 12 and record.over_from >= fitted[0].whole.minors.at
    tight = decide([answers(people())], replace(LIMITS, max_fpr=0.02), by="region")[0]
    assert not any(group.holds for group in tight.groups)


REFUSED = {
    "nothing says whom the model learned from": (
        people(apart="unknown"),
        {},
        "nothing says whom the model learned from",
    ),
    "ages as ranges": (
        people(ranges=(0.0, 13.0, 20.0, 60.0)),
        {},
        r"18 is not one of their borders \(13 to 20\)",
    ),
    "ages as other ranges": (people(ranges=(20.0, 30.0, 60.0)), {}, "none of them holds it"),
    "no such attribute": (people(), {"by": "sex"}, "no such attribute .they have: region."),
    "half of them missing": (
        people(attributes={"region": ("a", UNKNOWN) * 300}),
        {"by": "region"},
        "nobody knows it of 300 of 600 people",
    ),
    "an age outside of the groups": (people(), {"age": 100.0}, "no output speaks of 100"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    ours, more, why = REFUSED[case]
    limits = replace(LIMITS, age=more.get("age", 18.0))
    with pytest.raises((DataError, InputError), match=why) as refused:
        decide([answers(ours)], limits, by=more.get("by"))
    assert "\n" not in str(refused.value)


def test_somebody_says_that_they_are_unseen() -> None:
    assert decide([answers(people(apart="unknown"))], LIMITS, unseen=True)[0].apart == "said"


def test_ranges_with_the_age_as_a_border_will_do() -> None:
    assert decide([answers(people(ranges=(0.0, 18.0, 60.0)))], LIMITS)[0].age == 18.0


def arguments(world: World, *more: object) -> list[object]:
    return ["threshold", world.original.path, "--data", world.spec, "--over", 40, *more]


LOOSE = ("--max-fpr", 0.5, "--max-fnr", 0.6)


def test_the_command_on_people_held_out(world: World, tmp_path: Path) -> None:
    told = call(*arguments(world, *LOOSE, "--out", tmp_path / "decision.json"))
    record = read_decision(tmp_path / "decision.json")
    count = _people(world, "test")  # of whom some have pictures on both sides
    assert record.apart == "held out" and record.models[0].sha256 == world.original.sha256
    assert max(record.minors, record.adults) <= count <= record.minors + record.adults
    assert "the test set of the training's own data" in told and "over from P(age >= 40)" in told
    few = fail(*arguments(world, "--max-fpr", 0.01)).line
    assert "it takes 299 minors that the model never saw" in few


def _people(world: World, part: str) -> int:
    names = getattr(world.split, part)
    return len({sample.person for sample in world.dataset.samples if sample.id in names})


def test_people_of_the_training_are_refused(world: World, tmp_path: Path) -> None:
    """The planted fault: data that hold nobody but whom the model was trained on, under the same
    names.
    """
    spec = save_pictures(world, world.split.train, tmp_path, renamed=False)
    given = ["--data", spec, "--over", 40, "--max-fpr", 0.5]
    assert "all were learned from" in fail("threshold", world.original.path, *given).line


def test_a_file_of_which_nothing_is_known(
    world: World, artifacts: dict[str, Artifact], tmp_path: Path
) -> None:
    (artifact,) = artifacts.values()
    file = ["threshold", artifact.path, "--data", world.spec, "--over", 40, *LOOSE]
    assert "nothing says whom the model learned from" in fail(*file).line
    call(*file, "--checkpoint", world.unlearned.path)
    told = call(*file, "--unseen-people", "--out", tmp_path / "decision.json")
    assert read_decision(tmp_path / "decision.json").apart == "said"
    assert "as --unseen-people says and nothing shows" in told


def test_run_answers_by_a_decision(world: World, tmp_path: Path) -> None:
    out, photo = tmp_path / "decision.json", tmp_path / "new-0.png"
    call(*arguments(world, *LOOSE, "--out", out))
    save_pictures(world, world.split.test[:1], tmp_path)
    plain = ["run", world.original.path, "--image", photo]
    shown = call(*plain, "--decision", out)
    assert " 40 (P = " in shown and "the decision holds: at most 50 %" in shown
    (row,) = json.loads(call(*plain, "--decision", out, "--json"))["results"]
    rule = decision_in({"decision": json.loads(out.read_text())}, "test").rule
    assert row["decision"]["answer"] == rule.answers(np.array([row["decision"]["over"]]))[0]
    assert "decision" not in json.loads(call(*plain, "--json"))["results"][0]
    other = call("run", world.oracle.path, "--image", photo, "--decision", out)
    assert "no decision, for it was fitted on other models than this one" in other
    assert " 40 (P = " not in other and " years (" in other, "the age alone"


def test_no_other_picture_of_somebody_of_the_training(tmp_path: Path) -> None:
    """A split by pictures, or other data: who was learned from on one picture is no stranger on the
    next.
    """
    rows = ["path,age,subject"]
    for number in range(6):
        pixels = np.full((32, 32, 3), 40 * number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{10 + number},{'ann' if number < 3 else f'p{number}'}")
    (tmp_path / "table.csv").write_text("\n".join(rows))
    dataset = load_dataset(f"csv:{tmp_path / 'table.csv'}", 32, show=False)
    names = tuple(dataset.ids)
    split = Split(
        data_digest=dataset.digest,
        seed=0,
        subject_disjoint=False,
        train=(names[0],),
        validation=(names[5],),
        test=names[1:5],
    )
    assert people_of(dataset, [split])[0].ids == names[3:5]
    assert people_of(dataset, [replace(split, data_digest="0" * 64)])[0].ids == names[3:5]
