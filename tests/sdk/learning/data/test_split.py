"""Splits and forget files: laws over random data, official parts, hashes, names, and requests that
cannot be done.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from unplug.core import DataError, InputError
from unplug.sdk.learning.data import (
    Dataset,
    Sample,
    Split,
    describe_request,
    load_dataset,
    load_split,
    make_split,
    pick_forget,
    read_forget_file,
    same_pictures,
    save_split,
    split_for,
)
from unplug.sdk.learning.data.split import PARTS, check_forget


def dataset_of(samples: list[Sample]) -> Dataset:
    images = np.zeros((len(samples), 8, 8, 3), np.uint8)
    rows = np.arange(len(samples))
    return Dataset(
        spec="hand:", images=images, rows=rows, samples=tuple(samples), problems=(), digest="d"
    )


def people(subjects: list[int | None], **fields: Any) -> Dataset:
    return dataset_of(
        [
            Sample(
                id=f"s{row}",
                payload=row,
                subject=None if person is None else f"p{person}",
                **fields,
            )
            for row, person in enumerate(subjects)
        ]
    )


subject_lists = st.lists(st.none() | st.integers(0, 12), min_size=12, max_size=60)


@pytest.mark.long
@settings(max_examples=60)
@given(subject_lists, st.integers(0, 99), st.booleans())
def test_a_split_covers_everything_once_and_no_subject_twice(
    subjects: list[int | None], seed: int, by_subject: bool
) -> None:
    dataset = people(subjects)
    try:
        split = make_split(
            dataset, seed=seed, validation=0.2, test=0.2, subject_disjoint=by_subject
        )
    except DataError as error:  # a few large subjects can leave a set empty, which is said
        assert "set empty" in str(error)
        assume(False)
        raise
    assert sorted(split.train + split.validation + split.test) == sorted(dataset.ids)
    place = {name: part for part in PARTS for name in getattr(split, part)}
    homes: dict[int, set[str]] = {}
    for row, person in enumerate(subjects):
        if person is not None:
            homes.setdefault(person, set()).add(place[f"s{row}"])
    if by_subject:
        assert all(len(parts) == 1 for parts in homes.values())
    assert split.subject_disjoint == (
        None not in subjects and all(len(parts) == 1 for parts in homes.values())
    )
    for part in PARTS:
        assert list(getattr(split, part)) == [
            name for name in dataset.ids if place[name] == part
        ], "the data's order"
    assert split == make_split(
        dataset, seed=seed, validation=0.2, test=0.2, subject_disjoint=by_subject
    )
    assert Split.from_dict(json.loads(json.dumps(split.to_dict()))) == split


def test_sizes_are_the_fractions_where_subjects_do_not_bind() -> None:
    split = make_split(people([None] * 200), validation=0.1, test=0.25)
    assert (len(split.train), len(split.validation), len(split.test)) == (130, 20, 50)
    assert (
        make_split(people([None] * 200), seed=1).test
        != make_split(people([None] * 200), seed=2).test
    )
    for validation, test in (
        (0, 0.2),
        (0.1, 0),
        (0.5, 0.5),
        (-0.1, 0.2),
        (float("nan"), 0.2),
        (0.1, 1),
    ):
        with pytest.raises(DataError, match="leave nothing to train on"):
            make_split(people([None] * 20), validation=validation, test=test)
    for fraction in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(DataError, match="out of range"):
            pick_forget(people([None] * 200), split, fraction=fraction, seed=0)
    with pytest.raises(DataError, match="none of the samples that the model remembers"):
        pick_forget(people([None] * 10), split.with_forget(split.train[:-1]), fraction=0.5, seed=0)
    with pytest.raises(DataError, match="validation set empty"):
        make_split(people([None] * 4))
    with pytest.raises(DataError, match="set empty"):
        make_split(people([1] * 40))


def parted(*parts: str | None, subjects: bool = False) -> Dataset:
    return dataset_of(
        [
            Sample(
                id=f"s{row}",
                payload=row,
                partition=part,
                subject=f"p{row // 2}" if subjects else None,
            )  # type: ignore[arg-type]
            for row, part in enumerate(parts)
        ]
    )


def test_official_parts_are_respected() -> None:
    split = make_split(parted(*["test"] * 3, *["train"] * 5, *["validation"] * 2))
    assert (
        split.test == ("s0", "s1", "s2")
        and split.validation == ("s8", "s9")
        and len(split.train) == 5
    )
    dataset = parted(*["test"] * 4, *["train"] * 20, subjects=True)
    split = make_split(dataset, validation=0.2)
    assert split.test == ("s0", "s1", "s2", "s3") and len(split.validation) == 4
    assert {*split.validation, *split.train} == {
        f"s{row}" for row in range(4, 24)
    } and split.subject_disjoint
    split = make_split(parted(*["train"] * 10, *["test"] * 5, None), test=0.5)
    assert len(split.test) == 8
    dataset = dataset_of(
        [
            Sample(id=f"s{row}", payload=row, partition=part, subject="same")
            for row, part in enumerate(PARTS * 2)
        ]  # type: ignore[arg-type]
    )
    assert not make_split(dataset).subject_disjoint


@pytest.fixture
def split() -> Split:
    return make_split(people([None] * 40))


def test_files_and_forget_sets_come_back(split: Split, tmp_path: Path) -> None:
    save_split(split.with_forget(split.train[:2]), tmp_path / "split.json")
    assert load_split(tmp_path / "split.json") == replace(split, forget=split.train[:2])
    wanted = (split.train[5], split.train[1], split.train[5])
    with_forget = split.with_forget(wanted)
    assert with_forget.forget == (split.train[1], split.train[5])
    assert with_forget.retain == tuple(name for name in split.train if name not in wanted)
    assert (with_forget.validation, with_forget.test) == (split.validation, split.test)
    assert with_forget.sha256 != split.sha256
    with pytest.raises(DataError, match="it is empty"):
        check_forget(split, [])
    with pytest.raises(
        DataError, match=r"1 of 2 samples were not trained on \(first: nobody; 0 are held out"
    ):
        check_forget(split, [split.train[0], "nobody"])
    with pytest.raises(DataError, match=r"2 of 2 samples were not trained on .*2 are held out"):
        check_forget(split, [split.test[0], split.validation[0]])
    with pytest.raises(DataError, match="whole train set"):
        check_forget(split, split.train)
    for part, ids in (("validation", split.validation), ("test", split.test)):
        with pytest.raises(DataError, match=f"the {part} set would be empty"):
            check_forget(split, [split.train[0], *ids])
    check_forget(split, split.train[:-1])


def test_who_is_held_out_as_well_leaves_validation_and_test(split: Split) -> None:
    asked = split.with_forget([split.train[0], split.validation[0], split.test[0]])
    assert asked.forget == split.train[:1] and asked.train == split.train
    assert (asked.validation, asked.test) == (split.validation[1:], split.test[1:])
    data = people([None] * 40)
    again = split_for(asked, data, [split.train[1], split.test[0]])
    assert again == asked.with_forget(split.train[:2]), "what is in no set any more is done"
    with pytest.raises(
        DataError, match=r"1 of 1 samples were not trained on.*`unplug ledger touch`"
    ):
        split_for(asked, data, [split.test[1]])
    with pytest.raises(DataError, match="0 are held out"):
        split_for(asked, data, [split.test[0]])
    with pytest.raises(DataError, match="nobody; 0 are held out"):
        split_for(asked, data, [split.train[1], "nobody"])


@pytest.mark.parametrize(
    "edit",
    [{"seed": 9}, {"data_digest": "x"}, {"forget": ["s0"]}, {"test": []}, {"sha256": "0" * 64}],
)
def test_an_edited_split_file_is_noticed(
    split: Split, tmp_path: Path, edit: dict[str, Any]
) -> None:
    (tmp_path / "split.json").write_text(json.dumps(split.to_dict() | edit))
    with pytest.raises(DataError, match="its hash does not match"):
        load_split(tmp_path / "split.json")


@pytest.mark.parametrize(
    "edit",
    [
        {"train": 5},
        {"seed": "x"},
        {"schema": "unplug-split/2"},
        {"validation": None},
        {"train": "ab"},
        {"test": [1, 2]},
        {"seed": True},
        {"subject_disjoint": "no"},
        {"data_digest": None},
        {"sha256": 7},
        {"schema": ["x"] * 10_000},
        {"forget": ["\ud800"]},
        {"train": {"a": 1}},
    ],
)
def test_a_file_that_is_no_split_is_refused(
    split: Split, tmp_path: Path, edit: dict[str, Any]
) -> None:
    for content in (json.dumps(split.to_dict() | edit), "[]", "null", "3", "{}"):
        (tmp_path / "split.json").write_text(content)
        with pytest.raises(DataError, match=r"split\.json"):
            load_split(tmp_path / "split.json")
    (tmp_path / "split.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        load_split(tmp_path / "split.json")


@settings(max_examples=30)
@given(st.integers(0, 50), st.floats(0.02, 0.4))
def test_a_random_forget_set_is_whole_subjects_of_train(seed: int, fraction: float) -> None:
    dataset = people([row // 4 for row in range(80)])
    split = make_split(dataset, seed=seed)
    names = pick_forget(dataset, split, fraction=fraction, seed=seed)
    assert (
        names == pick_forget(dataset, split, fraction=fraction, seed=seed)
        and len(set(names)) == len(names) >= 1
    )
    chosen = {sample.id for sample in dataset.samples if f"subject:{sample.subject}" in names}
    assert chosen <= set(split.train)
    wanted = max(1, round(fraction * len(split.train)))
    assert wanted <= len(chosen) < wanted + 4, "as few whole subjects as reach the fraction"


SUBJECTS = {
    "a.png": "anna",
    "b.png": "bob",
    "c.png": "anna",
    "d.png": None,
    "#1": "eve",
    "1": "one",
    "2": "two",
    "x #1": "12",
    "e\u2028f": None,
}


@pytest.fixture
def dataset() -> Dataset:
    samples = tuple(
        Sample(id=name, payload=0, subject=subject) for name, subject in SUBJECTS.items()
    )
    return Dataset(
        spec="hand:",
        images=np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), np.uint8),
        rows=np.arange(9),
        samples=samples,
        problems=(),
        digest="d",
    )


def read(tmp_path: Path, dataset: Dataset, content: str | bytes) -> tuple[str, ...]:
    path = tmp_path / "forget.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_forget_file(path, dataset)


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ("a.png", ("a.png",)),
        ("d.png\n\n  a.png  \n# b.png\nd.png\n", ("a.png", "d.png")),
        ("a.png\r\nb.png\r\n", ("a.png", "b.png")),
        ("\ufeffa.png\n", ("a.png",)),
        ("subject:anna\nb.png", ("a.png", "b.png", "c.png")),
        ("subject: bob", ("b.png",)),
        ("x #1\ne\u2028f", ("x #1", "e\u2028f")),
        ("subject:12", ("x #1",)),
        ('{"samples": ["#1"]}', ("#1",)),
        ('{"samples": ["d.png"], "subjects": ["anna"]}', ("a.png", "c.png", "d.png")),
        (' \n{"subjects": ["bob"]}', ("b.png",)),
    ],
)
def test_names_become_ids_in_the_datas_order(
    tmp_path: Path, dataset: Dataset, content: str, ids: tuple[str, ...]
) -> None:
    assert read(tmp_path, dataset, content) == ids


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "names nothing"),
        ("# only a comment\n\n", "names nothing"),
        ("{}", "names nothing"),
        ("a.png\nx.png\ny.png", r"2 unknown names \(x\.png, y\.png\)"),
        ("6\n7\n8\n9", r"4 unknown names \(6, 7, 8, \.\.\.\)"),
        ("subject:nobody", r"1 unknown names \(subject:nobody\)"),
        ("anna", "1 unknown names"),
        ("subject:x", "1 unknown names"),
        ("d.png # why", "a comment stands on a line of its own"),
        ("d.png\u2028a.png", "1 unknown names"),
        ("#1", "comment and the id of a sample"),
        ('{"subjects": "12"}', "subjects is not a list of strings"),
        ('{"samples": ["subject:12"]}', "people stand in subjects"),
        ('{"subjects": ["o ne"]}', "1 unknown names"),
        ('{"subjects": [12]}', "subjects is not a list of strings"),
        ('{"subject": ["12"]}', "a key 'subject'"),
        ('{"subjects": ["one"], "subjects": ["two"]}', "a key stands in it twice"),
        ('{"samples": 3}', "not a valid request"),
        ('{"samples": null}', "not a valid request"),
        ('{"samples": [', "not a valid request"),
        ('{"samples": ' + "[" * 100_000, "not a valid request"),
        (b"\xff\xd8\xff\xe0 a jpeg", "not UTF-8"),
        (bytes(range(256)), "not UTF-8"),
        (b"\0\0\0\0", "NUL"),
        (b'{"samples": ["a.png\\u0000"]}', "NUL"),
    ],
)
def test_files_that_name_nothing_known_are_refused(
    tmp_path: Path, dataset: Dataset, content: str | bytes, words: str
) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read(tmp_path, dataset, content)
    assert "forget.txt" in str(caught.value)


def test_white_space_that_tells_two_names_apart(tmp_path: Path, dataset: Dataset) -> None:
    """A line is never taken for one of two."""
    twins = (Sample(id=" a.png", payload=0, subject="bob "), Sample(id=" f.png\r", payload=0))
    spaced = replace(dataset, samples=(*dataset.samples[:-2], *twins))
    for line in ("a.png", " a.png", "subject:bob", "subject:bob \n", "subject: bob "):
        with pytest.raises(DataError, match="differ in white space alone"):
            read(tmp_path, spaced, line)
    assert read(tmp_path, spaced, "c.png") == ("c.png",) and read(
        tmp_path, spaced, " f.png\r\r\n"
    ) == (" f.png\r",)
    assert read(tmp_path, spaced, '{"samples": [" a.png"]}') == (" a.png",)
    assert read(tmp_path, spaced, '{"subjects": ["bob"]}') == ("b.png",)


def test_missing_files_folders_and_giants_are_refused(tmp_path: Path, dataset: Dataset) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_forget_file(tmp_path / "none.txt", dataset)
    with pytest.raises(DataError, match="directory"):
        read_forget_file(tmp_path, dataset)
    giant = tmp_path / "giant.txt"
    giant.touch()
    os.truncate(giant, 65 * 2**20)
    with pytest.raises(DataError, match="too large"):
        read_forget_file(giant, dataset)


def test_a_request_is_told_in_one_line_with_the_same_pictures(dataset: Dataset) -> None:
    line = describe_request(("a.png", "b.png", "c.png", "d.png"), dataset)
    assert line == (
        "forgets 4 of 9 pictures: all 2 of subject anna; all 1 of subject bob; d.png without a "
        "subject"
    )
    assert (
        describe_request(("a.png",), dataset) == "forgets 1 of 9 pictures: 1 of 2 of subject anna"
    )
    many = describe_request(dataset.ids, dataset)
    assert many.endswith("and 3 more") and "\u2028" not in many
    dataset.images[1] = dataset.images[0]
    assert same_pictures(("a.png",), dataset) == (("a.png", "b.png"),)
    assert "a.png is b.png" in describe_request(("a.png",), dataset)
    assert same_pictures(("a.png", "b.png"), dataset) == same_pictures((), dataset) == ()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("subject:12.png", "stand for a person"), (os.fsdecode(b"f\xff.png"), "is not UTF-8")],
)
def test_ids_that_no_request_could_name_are_refused(tmp_path: Path, name: str, reason: str) -> None:
    for file in (name, "fine.png"):
        Image.new("RGB", (8, 8), "red" if file == name else "blue").save(
            tmp_path / file, format="png"
        )
    with pytest.raises(DataError, match=reason):
        load_dataset(f"imagefolder:{tmp_path}", 8, show=False)
    assert load_dataset(f"imagefolder:{tmp_path}", 8, on_bad="skip", show=False).ids == (
        "fine.png",
    )
