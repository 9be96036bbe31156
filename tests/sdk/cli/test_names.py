"""Names that could stand for somebody else, from the training to the request: one person asks, and
that person is forgotten.
"""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from unplug.plugins import load_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import split_of

from .calls import fail, save_face, train

ODD = ("e\u2028f", "x #1", " a", "#7", "12", "\u202egpj")
"""Ids of one picture each that a careless reader of lines would cut, split, strip or skip."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two pictures a person, the odd ids among them; persons are called p0, p1, ..., and the odd
    ones by number.
    """
    rows = [("id", "path", "age", "subject")]
    for number in range(24):
        save_face(tmp_path / f"{number}.jpg", seed=number)
        rows.append(
            (
                ODD[number] if number < len(ODD) else f"f{number}",
                f"{number}.jpg",
                str(20 + number),
                f"p{number // 2}",
            )
        )
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows(rows)
    return tmp_path / "a.csv"


def unplug(*args: object) -> Result:
    done = CliRunner().invoke(main, [*map(str, args)])
    assert done.exit_code == 0, done.output
    return done


def add(table: Path, *row: object) -> None:
    with table.open("a", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerow(row)


def test_requests_with_odd_names_forget_those_and_nobody_else(table: Path, tmp_path: Path) -> None:
    """The same picture under another subject is told as well; every step is a command."""
    (tmp_path / "24.jpg").write_bytes((tmp_path / "20.jpg").read_bytes())
    add(table, "copy", "24.jpg", 40, "someone else")
    spec = f"csv:{table}"
    unplug(*train(spec, tmp_path / "model", "--batch-size", 4))
    split = make_split(load_dataset(spec, 32, show=False))
    odd = [name for name in ODD if name in split.train]
    assert odd, "the split took all of them away"
    request = {"samples": odd, "subjects": ["p10"] if "f20" in split.train else []}
    (tmp_path / "forget.json").write_text(json.dumps(request))
    step = ("forget", tmp_path / "model", "--data", spec, "--forget")
    done = unplug(
        *step,
        tmp_path / "forget.json",
        "--method",
        "neggrad",
        "--budget",
        0.9,
        "--set",
        "batch_size=4",
        "--out",
        tmp_path / "gone",
    )
    first = done.stderr.splitlines()[0]
    assert (
        first.startswith("forgets ") and "\u2028" not in done.output and "\u202e" not in done.output
    )
    if request["subjects"] and "copy" in split.train:
        assert "f20 is copy" in first
    dataset = load_dataset(spec, 32, show=False)
    assert set(split_of(load_checkpoint(tmp_path / "gone"), dataset).forget) == {
        *odd,
        *(("f20", "f21") if request["subjects"] else ()),
    }
    lines = [name for name in odd if not name.startswith("#")]
    (tmp_path / "forget.txt").write_text("".join(f"{name}\n" for name in lines), encoding="utf-8")
    unplug(
        *step,
        tmp_path / "forget.txt",
        "--method",
        "neggrad",
        "--budget",
        0.9,
        "--set",
        "batch_size=4",
        "--out",
        tmp_path / "lines",
    )
    assert set(split_of(load_checkpoint(tmp_path / "lines"), dataset).forget) == set(lines)


@pytest.mark.parametrize("how", ["an id that stands for a person", "a name that is not UTF-8"])
def test_what_no_request_could_name_is_not_trained_on(tmp_path: Path, how: str) -> None:
    for number in range(24):
        save_face(tmp_path / "faces" / f"{20 + number}_0_0_{number}.jpg", seed=number)
    name, why = (
        ("subject:12", "would stand for a person")
        if "person" in how
        else (os.fsdecode(b"30_0_0_\xff.jpg"), "is not UTF-8")
    )
    if "person" in how:
        rows = [
            ("id", "path", "age"),
            *((path.name, path.name, 30) for path in sorted((tmp_path / "faces").iterdir())),
        ]
        with (tmp_path / "faces" / "a.csv").open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle).writerows([*rows[:-1], (name, *rows[-1][1:])])
        spec = f"csv:{tmp_path}/faces/a.csv"
    else:
        save_face(tmp_path / "faces" / name, seed=99)
        spec = f"utkface:{tmp_path}/faces"
    assert why in fail(*train(spec, tmp_path / "out")).line and not (tmp_path / "out").exists()
    unplug(*train(spec, tmp_path / "out", "--on-bad", "skip", "--batch-size", 4))
    record = json.loads((tmp_path / "out" / "unplug.json").read_text())
    ids = [item for part in ("train", "validation", "test") for item in record["split"][part]]
    assert (
        name not in ids
        and len(ids) == (23 if "person" in how else 24)
        and record["data"]["unusable"] == 1
    )
    (tmp_path / "forget.txt").write_bytes(os.fsencode(f"{name}\n"))
    request = (
        "forget",
        tmp_path / "out",
        "--data",
        spec,
        "--on-bad",
        "skip",
        "--forget",
        tmp_path / "forget.txt",
    )
    said = fail(*request, "--out", tmp_path / "gone").line
    assert ("1 unknown names (subject:12)" if "person" in how else "not UTF-8 text") in said
