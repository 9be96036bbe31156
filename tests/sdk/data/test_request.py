"""Forget files: lines, comments, subjects, JSON, and everything that is none of these."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unplug.core import DataError
from unplug.sdk.data import Dataset, Sample, describe_request, load_dataset, read_forget_file, same_pictures

SUBJECTS = {
    "a.png": "anna", "b.png": "bob", "c.png": "anna", "d.png": None, "#1": "eve", "1": "one", "2": "two", "x #1": "12",
    "e\u2028f": None,
}  # fmt: skip


@pytest.fixture
def dataset() -> Dataset:
    samples = tuple(Sample(id=name, payload=0, subject=subject) for name, subject in SUBJECTS.items())
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
        ("a.png", ("a.png",)), ("d.png\n\n  a.png  \n# b.png\nd.png\n", ("a.png", "d.png")),
        ("a.png\r\nb.png\r\n", ("a.png", "b.png")), ("\ufeffa.png\n", ("a.png",)),
        ("subject:anna\nb.png", ("a.png", "b.png", "c.png")), ("subject: bob", ("b.png",)),
        ("x #1\ne\u2028f", ("x #1", "e\u2028f")), ("subject:12", ("x #1",)), ('{"samples": ["#1"]}', ("#1",)),
        ('{"samples": ["d.png"], "subjects": ["anna"]}', ("a.png", "c.png", "d.png")),
        (' \n{"subjects": ["bob"]}', ("b.png",)),
    ],
)  # fmt: skip
def test_names_become_ids_in_the_datas_order(tmp_path: Path, dataset: Dataset, content: str, ids: tuple[str, ...]) -> None:
    assert read(tmp_path, dataset, content) == ids


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "names nothing"), ("# only a comment\n\n", "names nothing"), ("{}", "names nothing"),
        ("a.png\nx.png\ny.png", r"2 unknown names \(x\.png, y\.png\)"),
        ("6\n7\n8\n9", r"4 unknown names \(6, 7, 8, \.\.\.\)"), ("subject:nobody", r"1 unknown names \(subject:nobody\)"),
        ("anna", "1 unknown names"), ("subject:x", "1 unknown names"),
        ("d.png # why", "a comment stands on a line of its own"), ("d.png\u2028a.png", "1 unknown names"),
        ("#1", "comment and the id of a sample"), ('{"subjects": "12"}', "subjects is not a list of strings"),
        ('{"subjects": [12]}', "subjects is not a list of strings"), ('{"subject": ["12"]}', "a key 'subject'"),
        ('{"subjects": ["one"], "subjects": ["two"]}', "a key stands in it twice"), ('{"samples": 3}', "not a valid request"),
        ('{"samples": null}', "not a valid request"), ('{"samples": [', "not a valid request"),
        ('{"samples": ' + "[" * 100_000, "not a valid request"), (b"\xff\xd8\xff\xe0 a jpeg", "not UTF-8"),
        (bytes(range(256)), "not UTF-8"), (b"\0\0\0\0", "unknown names"),
    ],
)  # fmt: skip
def test_files_that_name_nothing_known_are_refused(tmp_path: Path, dataset: Dataset, content: str | bytes, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read(tmp_path, dataset, content)
    assert "forget.txt" in str(caught.value)


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
    assert line == "forgets 4 of 9 pictures: all 2 of subject anna; all 1 of subject bob; d.png without a subject"
    assert describe_request(("a.png",), dataset) == "forgets 1 of 9 pictures: 1 of 2 of subject anna"
    many = describe_request(dataset.ids, dataset)
    assert many.endswith("and 3 more") and "\u2028" not in many
    dataset.images[1] = dataset.images[0]
    assert same_pictures(("a.png",), dataset) == (("a.png", "b.png"),)
    assert "a.png is b.png" in describe_request(("a.png",), dataset)
    assert same_pictures(("a.png", "b.png"), dataset) == same_pictures((), dataset) == ()


@pytest.mark.parametrize(
    ("name", "reason"), [("subject:12.png", "stand for a person"), (os.fsdecode(b"f\xff.png"), "is not UTF-8")]
)
def test_ids_that_no_request_could_name_are_refused(tmp_path: Path, name: str, reason: str) -> None:
    for file in (name, "fine.png"):
        Image.new("RGB", (8, 8), "red" if file == name else "blue").save(tmp_path / file, format="png")
    with pytest.raises(DataError, match=reason):
        load_dataset(f"imagefolder:{tmp_path}", 8, show=False)
    assert load_dataset(f"imagefolder:{tmp_path}", 8, on_bad="skip", show=False).ids == ("fine.png",)
