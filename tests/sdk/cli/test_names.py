"""Names that could stand for somebody else, from the training to the request: one person asks, and
that person is forgotten.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from unplug.plugins import load_checkpoint
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import split_of

from .calls import refused, run, save_face, train

ODD = ("e\u2028f", "x #1", " a", "#7", "12", "\u202egpj")
"""Ids of one picture each that a careless reader of lines would cut, split, strip or skip."""
PEOPLE = [(f"f{number}", f"{number}.jpg", 20 + number, f"p{number // 2}") for number in range(24)]
"""Two pictures a person."""


def write_table(folder: Path, head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([head, *rows])
    return f"csv:{folder}/a.csv"


def test_requests_with_odd_names_forget_those_and_nobody_else(tmp_path: Path) -> None:
    """The same picture under another subject is told as well; every step is a command."""
    for number in range(len(PEOPLE)):
        save_face(tmp_path / f"{number}.jpg", seed=number)
    (tmp_path / "24.jpg").write_bytes((tmp_path / "20.jpg").read_bytes())
    rows = [(odd, *row[1:]) for odd, row in zip(ODD, PEOPLE, strict=False)]
    rows += [*PEOPLE[len(ODD) :], ("copy", "24.jpg", 40, "someone else")]
    spec = write_table(tmp_path, ("id", "path", "age", "subject"), rows)
    run(train(spec, tmp_path / "model", "--epochs 1 --batch-size 4"))
    dataset = load_dataset(spec, 32, show=False)
    split = make_split(dataset)
    odd = [name for name in ODD if name in split.train]
    assert odd, "the split took all of them away"

    def forgotten(file: str, request: str) -> tuple[str, set[str]]:
        (tmp_path / file).write_text(request, encoding="utf-8")
        how = "--method neggrad --budget 0.9 --set batch_size=4"
        named = f"--data {spec} --forget {tmp_path}/{file} --out {tmp_path}/gone"
        done = run(f"forget {tmp_path}/model {named} {how}")
        assert "\u2028" not in done.output and "\u202e" not in done.output
        first = done.stderr.splitlines()[0]
        return first, set(split_of(load_checkpoint(tmp_path / "gone"), dataset).forget)

    both = "f20" in split.train
    request = {"samples": odd, "subjects": ["p10"] if both else []}
    first, gone = forgotten("forget.json", json.dumps(request))
    assert first.startswith("forgets ") and gone == {*odd, *(("f20", "f21") if both else ())}
    if both and "copy" in split.train:
        assert "f20 is copy" in first
    lines = [name for name in odd if not name.startswith("#")]
    assert forgotten("forget.txt", "".join(f"{name}\n" for name in lines))[1] == set(lines)


@pytest.mark.parametrize("how", ["an id that stands for a person", "a name that is not UTF-8"])
def test_what_no_request_could_name_is_not_trained_on(tmp_path: Path, how: str) -> None:
    faces, out = tmp_path / "faces", tmp_path / "out"
    for number in range(24):
        save_face(faces / f"{20 + number}_0_0_{number}.jpg", seed=number)
    if "person" in how:
        name, why, kept, answer = (
            "subject:12",
            "would stand for a person",
            23,
            "1 unknown name (subject:12)",
        )
        files = sorted(path.name for path in faces.iterdir())
        rows = [(file, file, 30) for file in files]
        rows[-1] = (name, files[-1], 30)
        spec = write_table(faces, ("id", "path", "age"), rows)
    else:
        name, why, kept, answer = (
            os.fsdecode(b"30_0_0_\xff.jpg"),
            "is not UTF-8",
            24,
            "not UTF-8 text",
        )
        save_face(faces / name, seed=99)
        spec = f"utkface:{faces}"
    assert why in refused(train(spec, out)) and not out.exists()
    run(train(spec, out, "--epochs 1 --on-bad skip --batch-size 4"))
    record = json.loads((out / "unplug.json").read_text())
    ids = [id for part in ("train", "validation", "test") for id in record["split"][part]]
    assert name not in ids and len(ids) == kept and record["data"]["unusable"] == 1
    (tmp_path / "forget.txt").write_bytes(os.fsencode(f"{name}\n"))
    request = f"--data {spec} --on-bad skip --forget {tmp_path}/forget.txt"
    assert answer in refused(f"forget {out} {request} --out {tmp_path}/gone")
