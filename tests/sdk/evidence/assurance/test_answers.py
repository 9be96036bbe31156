"""What models say of people that they never saw: the same arrays from a checkpoint and from its
file, of the right people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.exported import age_checkpoint, files_of
from tests.sdk.conftest import World

from unplug.core import DataError, InputError
from unplug.sdk import evaluate
from unplug.sdk.evidence.assurance import UNKNOWN, ask, people_of
from unplug.sdk.learning.data import Dataset, Sample, load_dataset, make_split, save_split
from unplug.sdk.learning.training import predict
from unplug.sdk.releasing import Release

SIDE = 32


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures of eight people, one of whom has no age, one picture broken."""
    root = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    lines = ["path,age,subject"]
    for index in range(12):
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(
            root / f"{index}.png"
        )
        lines.append(f"{index}.png,{'' if index == 7 else 10 + index},p{index % 8}")
    (root / "broken.png").write_bytes(b"no picture")
    (root / "table.csv").write_text("\n".join([*lines, "broken.png,30,p9", "0.png,wrong,p9"]))
    return root / "table.csv"


def test_a_checkpoint_is_asked_about_its_own_test_set(world: World) -> None:
    (result,) = ask([world.original.path], world.dataset, show=False)
    people = result.people
    assert people.ids == world.split.test and people.subjects_apart
    assert (people.apart, people.part, result.role) == ("held out", "test", "original")
    assert people.left_out + len(people) == people.listed == len(world.dataset)
    ours = predict(world.original.model, world.sets.test)
    np.testing.assert_allclose(result.logits_NG, ours.logits_NG, atol=1e-4)
    np.testing.assert_allclose(result.expected_age_N, ours.age_N, atol=1e-4)
    assert np.array_equal(people.age_N, ours.true_age_N) and result.seconds > 0
    over_G = np.array(result.edges[:-1]) >= 13
    np.testing.assert_allclose(result.over(13.0), ours.probability_NG[:, over_G].sum(axis=1))
    (other,) = ask([world.original.path], world.dataset, part="validation", show=False)
    assert other.people.ids == world.split.validation


def test_several_models_answer_for_the_same_people_and_forgotten_ones_are_learned_from(
    world: World,
) -> None:
    paths = [world.original.path, world.unlearned.path, world.oracle.path]
    answers = ask(paths, world.spec, show=False)
    assert [model.role for model in answers] == ["original", "unlearned", "retrained"]
    assert {model.people.ids for model in answers} == {world.split.test}
    assert not set(world.forget_ids) & set(answers[0].people.ids)


def test_a_file_says_what_its_checkpoint_says_once_somebody_tells_what_that_saw(
    tmp_path_factory: pytest.TempPathFactory, table: Path, tmp_path: Path
) -> None:
    checkpoint = age_checkpoint(tmp_path_factory)
    artifact = files_of(tmp_path_factory, ("onnx",))["age.fp32.onnx"]
    spec = f"csv:{table}"
    weights, file = ask([checkpoint, artifact.path], spec, on_bad="skip", show=False)
    np.testing.assert_allclose(weights.logits_NG, file.logits_NG, atol=1e-3)
    assert (file.precision, file.target) == ("fp32", "onnx")
    people = file.people
    assert file.checkpoint_sha256 == weights.sha256 and weights.people.ids == people.ids
    assert people.apart == "unknown" and people.part is None  # its record says nothing
    assert (people.without_age, people.persons, len(people), people.listed) == (0, 7, 11, 12), (
        "a row without an age is not a picture that failed: on_bad=skip left it out"
    )
    assert [problem.id for problem in people.failures] == ["broken.png"]
    dataset = load_dataset(spec, SIDE, on_bad="skip", show=False)
    save_split(split := make_split(dataset), tmp_path / "split.json")
    (held,) = ask([artifact.path], dataset, splits=[tmp_path / "split.json"], show=False)
    assert held.people.apart == "held out"
    assert held.people.ids == tuple(name for name in split.test if name != "7.png")


def with_samples(table: Path, change: Callable[[int, Sample], Sample]) -> Dataset:
    """The data of the table with other facts about its pictures."""
    dataset = load_dataset(f"csv:{table}", SIDE, on_bad="skip", show=False)
    samples = tuple(change(number, sample) for number, sample in enumerate(dataset.samples))
    return replace(dataset, samples=samples)


def test_pictures_that_were_learned_from_are_left_out_of_other_data(
    world: World, table: Path
) -> None:
    name = world.split.train[0]  # an id that was trained on
    other = with_samples(table, lambda n, old: old if n else Sample(id=name, payload=0, age=3.0))
    people, index_N = people_of(other, [world.split])
    assert people.apart == "other data" and people.left_out == 1
    assert name not in people.ids and 0 not in index_N


def test_what_a_file_was_exported_from_must_fit(
    world: World, tmp_path_factory: pytest.TempPathFactory, table: Path
) -> None:
    artifact = files_of(tmp_path_factory, ("onnx",))["age.fp32.onnx"]
    with pytest.raises(InputError, match="not exported from any of the checkpoints given"):
        ask([artifact.path], world.dataset, checkpoints=[world.original.path], show=False)
    with pytest.raises(InputError, match="no such checkpoint, exported file or bundle"):
        ask([table.parent / "none"], world.dataset, show=False)


def test_data_without_anybody_left_are_refused(world: World, table: Path) -> None:
    nobody = with_samples(table, lambda _, old: Sample(id=old.id, payload=0))
    with pytest.raises(DataError, match="none of its 11 pictures has an age"):
        people_of(nobody, [])
    names = world.split.train
    seen = with_samples(table, lambda n, _: Sample(id=names[n], payload=0, age=3.0))
    with pytest.raises(DataError, match="all were learned from"):
        people_of(seen, [world.split])


def test_attributes_are_frozen_and_change_no_digest(table: Path) -> None:
    sample = Sample(id="a", payload=0, attributes={"sex": "female"})
    with pytest.raises(TypeError):
        sample.attributes["sex"] = "male"
    named = with_samples(
        table, lambda n, old: old if n else replace(old, attributes={"sex": "male"})
    )
    people, _ = people_of(named, [])
    assert people.attributes["sex"] == ("male", *(UNKNOWN,) * 10)


@pytest.mark.long
def test_a_bundle_answers_with_all_its_files(world: World, released: Release) -> None:
    report = evaluate(
        [released.bundle, world.original], world.dataset, checkpoints=[world.unlearned], splits=[]
    )
    file, original = report.models
    assert (file.name, original.name) == ("age.unplug/age.fp32.tflite", "original")
    assert report.people.apart == "held out" and original.minus_first is not None
    assert file.checkpoint_sha256 == world.unlearned.sha256 and file.bytes
    lone = evaluate([released.bundle], world.dataset)
    assert lone.people.apart == "unknown" and lone.people.pictures == len(world.dataset)
    assert "training-people" in {alarm.kind for alarm in lone.alarms}
