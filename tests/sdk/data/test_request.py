"""Forget files: lines, comments, subjects, JSON, and everything that is none of these."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from unplug.core import DataError
from unplug.sdk.data import Dataset, Sample, read_forget_file

SUBJECTS = {"a.png": "anna", "b.png": "bob", "c.png": "anna", "d.png": None, "subject:x": None}


@pytest.fixture
def dataset() -> Dataset:
    samples = tuple(Sample(id=name, payload=0, subject=subject) for name, subject in SUBJECTS.items())
    return Dataset(
        spec="hand:", images=np.zeros((5, 8, 8, 3), np.uint8), rows=np.arange(5), samples=samples, problems=(), digest="d"
    )


def read(tmp_path: Path, dataset: Dataset, content: str | bytes) -> tuple[str, ...]:
    path = tmp_path / "forget.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_forget_file(path, dataset)


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ("a.png", ("a.png",)),
        ("d.png\n\n  a.png  \n# b.png\nd.png # why\n", ("a.png", "d.png")),
        ("a.png\r\nb.png\r\n", ("a.png", "b.png")),
        ("\ufeffa.png\n", ("a.png",)),
        ("subject:anna\nb.png", ("a.png", "b.png", "c.png")),
        ("subject: bob", ("b.png",)),
        ("subject:x", ("subject:x",)),
        ('{"samples": ["d.png"], "subjects": ["anna"]}', ("a.png", "c.png", "d.png")),
        (' \n{"subjects": ["bob"]}', ("b.png",)),
    ],
)
def test_names_become_ids_in_the_order_of_the_data(
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
        ("1\n2\n3\n4", r"4 unknown names \(1, 2, 3, \.\.\.\)"),
        ("subject:nobody", r"1 unknown names \(subject:nobody\)"),
        ("anna", "1 unknown names"),
        ('{"samples": 3}', "not a valid request"),
        ('{"samples": null}', "not a valid request"),
        ('{"samples": [', "not a valid request"),
        ('{"samples": ' + "[" * 100_000, "not a valid request"),
        (b"\xff\xd8\xff\xe0 a jpeg", "not UTF-8"),
        (bytes(range(256)), "not UTF-8"),
        (b"\0\0\0\0", "unknown names"),
    ],
)
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
