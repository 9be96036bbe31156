"""The same picture under another name: who was learned from is found by pixels, and what cannot be
compared is said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.exported import age_checkpoint
from tests.sdk.cli.calls import fail
from tests.sdk.conftest import World
from tests.sdk.evidence.commands import call

from unplug.core import DataError, InputError
from unplug.sdk.evidence.assurance import (
    Asking,
    Copies,
    ask,
    card_text,
    judge,
    people_of,
    read_evaluation,
)
from unplug.sdk.evidence.assurance.copies import pixel_digests, trained_pixels, training_data
from unplug.sdk.evidence.assurance.fate_aev import FATE_AEV
from unplug.sdk.learning.data import Dataset, keyed, load_dataset, make_split, save_split
from unplug.sdk.report.assurance import assurance_words

from .planted import save_pictures

SIDE = 32
PLAIN = [(f"t{number}.png", number, 10 + number, "") for number in range(10)]
"""Ten pictures of nobody in particular."""
Table = Callable[[Sequence[tuple[str, int, int, str]]], Dataset]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Data from rows of a name, the seed of the picture, an age and who is in it."""

    def made(rows: Sequence[tuple[str, int, int, str]]) -> Dataset:
        folder = tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        lines = ["path,age,subject"]
        for name, seed, age, who in rows:
            pixels = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name)
            lines.append(f"{name},{age},{who}")
        (folder / "table.csv").write_text("\n".join(lines))
        return load_dataset(f"csv:{folder / 'table.csv'}", SIDE, show=False)

    return made


def test_the_same_picture_under_another_name_is_left_out_with_the_others_of_whom_it_shows(
    table: Table,
) -> None:
    data = table(PLAIN)
    split = make_split(data)
    learned, chosen, held = (
        int(part[0][1]) for part in (split.train, split.validation, split.test)
    )
    ann = [("a.png", learned, 30, "ann"), ("b.png", 50, 31, "ann")]
    other = table([*ann, ("c.png", 51, 32, "bob"), ("d.png", 52, 33, "")])
    by_name, _ = people_of(other, [split])
    assert by_name.ids == ("a.png", "b.png", "c.png", "d.png")  # names say nothing
    trained = len(split.train)
    why = "nothing says where its pictures lie"
    assert by_name.copies == Copies(left_out=0, compared=0, trained=trained, why=why)
    training = {data.digest: data}
    people, index_N = people_of(other, [split], training=training)
    assert people.ids == ("c.png", "d.png") and index_N.tolist() == [2, 3]
    assert people.copies == Copies(left_out=2, compared=trained, trained=trained, why=None)
    assert people.left_out == 2
    # A picture of its test set is nobody whom it learned from; one that chose among its epochs is,
    # of other data, as with names.
    for seed, stays in ((held, ("a.png", "b.png")), (chosen, ("b.png",))):
        again = table([("a.png", seed, 30, ""), ("b.png", 50, 31, "")])
        assert people_of(again, [split], training=training)[0].ids == stays
    with pytest.raises(DataError, match="all were learned from, under these names or others"):
        people_of(table([("z.png", learned, 30, "")]), [split], training=training)


def test_copies_within_the_data_of_the_training(table: Table) -> None:
    split = make_split(table(PLAIN))
    twin = [
        (name, int(split.train[0][1]) if name == split.test[0] else seed, *rest)
        for name, seed, *rest in PLAIN
    ]
    data = table(twin)
    split = replace(split, data_digest=data.digest)
    people, _ = people_of(data, [split])
    assert people.apart == "held out" and people.ids == split.test[1:]
    assert people.copies.left_out == 1 and people.copies.why is None


def test_pictures_that_are_gone_are_counted_and_forgotten_ones_still_compared(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are digests once somebody was forgotten, and her pictures left the data: the others are
    still compared.
    """
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "operator.key"))
    data = table(PLAIN)
    split = make_split(data)
    gone, stays = split.train[0], split.train[1]
    stored = keyed(split.with_forget([gone]))
    seen, whole = trained_pixels(table(PLAIN[:1]), [stored], {data.digest: data})
    assert whole.why is None and whole.compared == len(split.train)
    # who was forgotten is no stranger either
    assert set(pixel_digests(data, data.indices([gone, stays]))) <= seen
    rest = table([row for row in PLAIN if row[0] != gone])
    result = training_data(stored, [rest.spec], SIDE, show=False)
    assert isinstance(result, Dataset)
    seen, partly = trained_pixels(table(PLAIN[:1]), [stored], {data.digest: result})
    assert partly.compared == partly.trained - 1
    assert partly.why == "the data changed since the training"
    assert set(pixel_digests(data, data.indices([stays]))) <= seen
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "another.key"))
    with pytest.raises(InputError):
        people_of(table(PLAIN[:1]), [stored], training={data.digest: data})


def test_where_the_training_lay_is_tried_and_never_told(table: Table, tmp_path: Path) -> None:
    data = table(PLAIN)
    split, other = make_split(data), table([("a.png", 60, 20, "")])
    lost = "its pictures cannot be read from here"
    elsewhere = "where its pictures lay is other data"
    for specs, why in (
        ([], "nothing says where its pictures lie"),
        ([f"csv:{tmp_path}/ann-miller.csv"], lost),
        ([other.spec], elsewhere),
        (["synth:n=500"], elsewhere),  # nothing drawn
    ):
        assert training_data(split, specs, SIDE, show=False) == why
    result = training_data(split, [other.spec, data.spec], SIDE, show=False)
    assert isinstance(result, Dataset) and result.digest == data.digest


def test_the_commands_leave_copies_out_and_say_so(world: World, tmp_path: Path) -> None:
    """The planted fault: pictures of the training among strangers, every one under a new name."""
    spec = save_pictures(world, [*world.split.train[:3], *world.split.test], tmp_path)
    words = ["threshold", world.original.path, "--data", spec, "--over", 40, "--max-fpr"]
    trained = len(world.split.train)
    told = (
        f"3 pictures left out whose very pixels the training holds under another name ({trained} "
        f"of its {trained} pictures"
    )
    answers = call(*words, 0.5, "--max-fnr", 0.6)
    assert told in answers and "by their names" not in answers
    left = "3 pictures are left out, for the training has their names or their pixels"
    assert left in fail(*words, 0.001).line
    value = json.loads(call(*words, 0.5, "--max-fnr", 0.6, "--json"))
    assert value["copies"] == {"left_out": 3, "compared": trained, "trained": trained, "why": None}
    report = judge(ask([world.original.path], spec, show=False), FATE_AEV, Asking(replicates=20))
    assert report.people.copies.left_out == 3
    assert told in card_text(report, report.models[0])
    assert any(told in fact for fact in assurance_words(report)["facts"])
    report.save(tmp_path / "evaluation.json")
    assert read_evaluation(tmp_path / "evaluation.json").people.copies == report.people.copies


def test_a_split_without_its_pictures_is_said_to_be_compared_by_names(
    world: World, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bare = [age_checkpoint(tmp_path_factory)]
    save_split(world.split, tmp_path / "split.json")
    spec, splits = save_pictures(world, world.split.test, tmp_path), [tmp_path / "split.json"]
    report = judge(ask(bare, spec, splits=splits, show=False), FATE_AEV, Asking(replicates=20))
    assert "give `training_data`" in report.refused["pictures of the training under other names"]
    (answers,) = ask(bare, spec, splits=splits, training=[world.spec], show=False)
    assert answers.people.copies.why is None
    with pytest.raises(DataError, match="no such file"):
        ask(bare, spec, training=["csv:none.csv"], show=False)
