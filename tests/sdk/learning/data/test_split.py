"""Splits and forget files: laws over random data, official parts, hashes, names, and requests that
cannot be done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
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


def dataset_of(samples: Iterable[Sample]) -> Dataset:
    kept = tuple(samples)
    images = np.random.default_rng(0).integers(0, 256, (len(kept), 8, 8, 3), np.uint8)
    rows = np.arange(len(kept))
    return Dataset(spec="hand:", images=images, rows=rows, samples=kept, problems=(), digest="d")


def people(subjects: Iterable[int | None], parts: Iterable[Any] | None = None) -> Dataset:
    """Samples s0, s1, ... of persons, and of official parts."""
    owners = [None if person is None else f"p{person}" for person in subjects]
    return dataset_of(
        Sample(id=f"s{row}", payload=row, subject=owner, partition=part)
        for row, (owner, part) in enumerate(zip(owners, parts or [None] * len(owners), strict=True))
    )


@pytest.mark.long
@settings(max_examples=60)
@given(
    st.lists(st.none() | st.integers(0, 12), min_size=12, max_size=60),
    st.integers(0, 99),
    st.booleans(),
)
def test_a_split_covers_everything_once_and_no_subject_twice(
    subjects: list[int | None], seed: int, by_subject: bool
) -> None:
    dataset = people(subjects)
    options = {"seed": seed, "validation": 0.2, "test": 0.2, "subject_disjoint": by_subject}
    try:
        split = make_split(dataset, **options)
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
    apart = all(len(parts) == 1 for parts in homes.values())
    assert apart or not by_subject
    assert split.subject_disjoint == (apart and None not in subjects)
    for part in PARTS:  # in the data's order
        assert list(getattr(split, part)) == [name for name in dataset.ids if place[name] == part]
    assert split == make_split(dataset, **options)
    assert Split.from_dict(json.loads(json.dumps(split.to_dict()))) == split


def test_sizes_are_the_fractions_where_subjects_do_not_bind() -> None:
    many = people([None] * 200)
    split = make_split(many, validation=0.1, test=0.25)
    assert (len(split.train), len(split.validation), len(split.test)) == (130, 20, 50)
    assert make_split(many, seed=1).test != make_split(many, seed=2).test
    nan = float("nan")
    for validation, test in ((0, 0.2), (0.1, 0), (0.5, 0.5), (-0.1, 0.2), (nan, 0.2), (0.1, 1)):
        with pytest.raises(DataError, match="leave nothing to train on"):
            make_split(people([None] * 20), validation=validation, test=test)
    for fraction in (0.0, 1.0, -1.0, nan):
        with pytest.raises(DataError, match="out of range"):
            pick_forget(many, split, fraction=fraction, seed=0)
    with pytest.raises(DataError, match="none of the samples that the model remembers"):
        pick_forget(people([None] * 10), split.with_forget(split.train[:-1]), fraction=0.5, seed=0)
    for few, empty in ((people([None] * 4), "validation set empty"), (people([1] * 40), "empty")):
        with pytest.raises(DataError, match=empty):
            make_split(few)


def test_official_parts_are_respected() -> None:
    nobody = [None] * 11
    parts = ["test"] * 3 + ["train"] * 5 + ["validation"] * 2
    split = make_split(people(nobody[:10], parts))
    assert (split.test, split.validation) == (("s0", "s1", "s2"), ("s8", "s9"))
    assert split.train == ("s3", "s4", "s5", "s6", "s7")
    pairs = [row // 2 for row in range(24)]
    split = make_split(people(pairs, ["test"] * 4 + ["train"] * 20), validation=0.2)
    assert split.test == ("s0", "s1", "s2", "s3") and len(split.validation) == 4
    assert {*split.validation, *split.train} == {f"s{row}" for row in range(4, 24)}
    assert split.subject_disjoint
    unsaid = people([None] * 16, ["train"] * 10 + ["test"] * 5 + [None])
    assert len(make_split(unsaid, test=0.5).test) == 8
    assert not make_split(people([1] * 6, PARTS * 2)).subject_disjoint


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
    check_forget(split, split.train[:-1])
    one = split.train[0]
    for names, why in (
        ([], "it is empty"),
        ([one, "nobody"], r"1 of 2 samples were not trained on \(first: nobody; 0 are held out"),
        ([split.test[0], split.validation[0]], r"2 of 2 .* not trained on .*2 are held out"),
        (split.train, "whole train set"),
        ([one, *split.validation], "the validation set would be empty"),
        ([one, *split.test], "the test set would be empty"),
    ):
        with pytest.raises(DataError, match=why):
            check_forget(split, names)


def test_who_is_held_out_as_well_leaves_validation_and_test(split: Split) -> None:
    asked = split.with_forget([split.train[0], split.validation[0], split.test[0]])
    assert asked.forget == split.train[:1] and asked.train == split.train
    assert (asked.validation, asked.test) == (split.validation[1:], split.test[1:])
    data = people([None] * 40)
    again = split_for(asked, data, [split.train[1], split.test[0]])
    assert again == asked.with_forget(split.train[:2]), "what is in no set any more is done"
    for names, why in (
        ([split.test[1]], r"1 of 1 samples were not trained on.*`unplug ledger touch`"),
        ([split.test[0]], "0 are held out"),
        ([split.train[1], "nobody"], "nobody; 0 are held out"),
    ):
        with pytest.raises(DataError, match=why):
            split_for(asked, data, names)


EDITED = "its hash does not match"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"seed": 9}, EDITED),
        ({"data_digest": "x"}, EDITED),
        ({"forget": ["s0"]}, EDITED),
        ({"test": []}, EDITED),
        ({"sha256": "0" * 64}, EDITED),
        ({"train": 5}, ""),
        ({"seed": "x"}, ""),
        ({"schema": "unplug-split/2"}, ""),
        ({"validation": None}, ""),
        ({"train": "ab"}, ""),
        ({"test": [1, 2]}, ""),
        ({"seed": True}, ""),
        ({"subject_disjoint": "no"}, ""),
        ({"data_digest": None}, ""),
        ({"sha256": 7}, ""),
        ({"schema": ["x"] * 10_000}, ""),
        ({"forget": ["\ud800"]}, ""),
        ({"train": {"a": 1}}, ""),
        *((content, "") for content in ([], None, 3, {})),
    ],
)
def test_a_file_that_is_edited_or_no_split_is_refused(
    split: Split, tmp_path: Path, edit: Any, why: str
) -> None:
    content = {**split.to_dict(), **edit} if isinstance(edit, dict) and edit else edit
    (tmp_path / "split.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=rf"split\.json.*{why}"):
        load_split(tmp_path / "split.json")


def test_a_split_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        load_split(tmp_path / "split.json")


@settings(max_examples=30)
@given(st.integers(0, 50), st.floats(0.02, 0.4))
def test_a_random_forget_set_is_whole_subjects_of_train(seed: int, fraction: float) -> None:
    dataset = people([row // 4 for row in range(80)])
    split = make_split(dataset, seed=seed)
    names, again = (pick_forget(dataset, split, fraction=fraction, seed=seed) for _ in range(2))
    assert names == again and len(set(names)) == len(names) >= 1
    chosen = {sample.id for sample in dataset.samples if f"subject:{sample.subject}" in names}
    wanted = max(1, round(fraction * len(split.train)))
    assert chosen <= set(split.train)
    assert wanted <= len(chosen) < wanted + 4, "as few whole subjects as reach the fraction"


@pytest.fixture
def dataset() -> Dataset:
    return dataset_of(
        Sample(id=name, payload=0, subject=subject) for name, subject in SUBJECTS.items()
    )


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
        ("subject:nobody", r"1 unknown name \(subject:nobody\)"),
        ("anna", "1 unknown name"),
        ("subject:x", "1 unknown name"),
        ('{"subjects": ["onee"]}', "Did you mean subject:one?"),
        ("d.png # why", "a comment stands on a line of its own"),
        ("d.png\u2028a.png", "1 unknown name"),
        ("#1", "comment and the id of a sample"),
        ('{"subjects": "12"}', "subjects is not a list of strings"),
        ('{"samples": ["subject:12"]}', "people stand in subjects"),
        ('{"subjects": ["o ne"]}', "1 unknown name"),
        ('{"subjects": [12]}', "subjects is not a list of strings"),
        ('{"subject": ["12"]}', "a key 'subject'"),
        ('{"subjects": ["one"], "subjects": ["two"]}', "it has a key twice"),
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
    for line, name in (
        ("c.png", "c.png"),
        (" f.png\r\r\n", " f.png\r"),
        ('{"samples": [" a.png"]}', " a.png"),
        ('{"subjects": ["bob"]}', "b.png"),
    ):
        assert read(tmp_path, spaced, line) == (name,)


def test_missing_files_folders_and_giants_are_refused(tmp_path: Path, dataset: Dataset) -> None:
    giant = tmp_path / "giant.txt"
    giant.touch()
    os.truncate(giant, 65 * 2**20)
    for path, why in (
        (tmp_path / "none.txt", "No such file"),
        (tmp_path, "directory"),
        (giant, "too large"),
    ):
        with pytest.raises(DataError, match=why):
            read_forget_file(path, dataset)


def test_a_request_is_told_in_one_line_with_the_same_pictures(dataset: Dataset) -> None:
    line = describe_request(("a.png", "b.png", "c.png", "d.png"), dataset)
    assert line == (
        "forgets 4 of 9 pictures: all 2 of subject anna; all 1 of subject bob; d.png without a "
        "subject"
    )
    line = describe_request(("a.png",), dataset)
    assert line == "forgets 1 of 9 pictures: 1 of 2 of subject anna"
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
