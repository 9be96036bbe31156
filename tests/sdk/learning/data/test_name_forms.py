"""Names in several Unicode forms and what programs did to names in requests: one meaning at every
door.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest
from tests.sdk.learning.data.conftest import Draw, load, reasons

from unplug.core import DataError
from unplug.sdk.learning.data import (
    fingerprint_file,
    make_split,
    picked,
    read_forget_file,
    resolve_names,
    stored_name,
)
from unplug.sdk.learning.data.people import held_in_cache
from unplug.sdk.tracing.search import person_in

CASE = Path(__file__).resolve().parents[3] / "cases" / "unicode-forms"
KEYBOARD, MAC = "Jos\u00e9", "Jose\u0301"


@pytest.fixture
def spec(draw: Draw, tmp_path: Path) -> str:
    """The case's table, beside its pictures."""
    for number in (1, 2):
        draw(f"{number}.png", 10 * number)
    (tmp_path / "t.csv").write_bytes((CASE / "nfd.csv").read_bytes())
    return f"csv:{tmp_path}/t.csv"


def asked(tmp_path: Path, raw: str | bytes, spec: str) -> tuple[str, ...]:
    path = tmp_path / "forget.txt"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return read_forget_file(path, load(spec))


def test_the_case_is_found(tmp_path: Path, spec: str) -> None:
    assert read_forget_file(CASE / "forget.txt", load(spec)) == ("1.png",)


@pytest.mark.parametrize(
    "raw",
    [
        f"subject:{MAC}",
        f"\ufeffsubject: {KEYBOARD}\u200b\u00a0",
        f"subject:{KEYBOARD}\r\n".encode("utf-16"),  # as Windows' editor and its shell write it
        json.dumps({"subjects": [KEYBOARD]}),
        json.dumps({"subjects": [MAC]}),
        json.dumps({"subjects": [f" {MAC}\u00a0"]}),
    ],
)
def test_forget_files_of_every_program_mean_the_same(
    tmp_path: Path, spec: str, raw: str | bytes
) -> None:
    assert asked(tmp_path, raw, spec) == ("1.png",)


def test_two_forms_of_one_name_are_one_person(draw: Draw, tmp_path: Path) -> None:
    """She must not stand on two sides of a split, nor be forgotten by half; the digest of the data
    stays what it was.
    """
    for number in range(1, 7):
        draw(f"{number}.png", 10 * number)
    names = [KEYBOARD, MAC, "ben", "ben", "cleo", "cleo"]
    rows = [f"{number}.png,20,{name}\n" for number, name in enumerate(names, 1)]
    (tmp_path / "t.csv").write_text("path,age,subject\n" + "".join(rows))
    data = load(f"csv:{tmp_path}/t.csv")
    assert resolve_names([f"subject:{MAC}"], data, "names") == ("1.png", "2.png")
    assert make_split(data, validation=0.3, test=0.3).subject_disjoint
    digest = hashlib.sha256()
    for number, name in enumerate(names, 1):
        facts = (
            f"{number}.png",
            20.0,
            None,
            name,
            fingerprint_file(tmp_path / f"{number}.png").hex(),
        )
        digest.update(repr(facts).encode())
    assert data.digest == digest.hexdigest(), (
        "models that were trained before know their data again"
    )


def test_files_of_a_mac_are_found_by_the_names_that_people_type(draw: Draw, tmp_path: Path) -> None:
    draw(f"f/c/{MAC}.png")
    draw("f/c/b.png")
    assert asked(tmp_path, f"c/{KEYBOARD}.png", f"imagefolder:{tmp_path}/f") == (f"c/{MAC}.png",)
    (tmp_path / "f" / "t.csv").write_text(f"path,age\nc/{KEYBOARD}.png,20\n")
    assert load(f"csv:{tmp_path}/f/t.csv").ids == (f"c/{KEYBOARD}.png",)
    draw(f"g/{MAC}.png")
    (tmp_path / "g" / "metadata.jsonl").write_text(
        json.dumps({"file_name": f"{KEYBOARD}.png", "text": "a face"})
    )
    assert load(f"captions:{tmp_path}/g").ids == (f"{MAC}.png",)
    draw(f"h/{MAC}.png")
    (tmp_path / "h" / f"{KEYBOARD}.txt").write_text("a face")
    assert load(f"captions:{tmp_path}/h").ids == (f"{MAC}.png",)
    with tarfile.open(tmp_path / "s.tar", "w") as shard:
        shard.add(tmp_path / "h" / f"{MAC}.png", f"{MAC}.png")
        shard.add(tmp_path / "h" / f"{KEYBOARD}.txt", f"{KEYBOARD}.txt")
    assert len(load(f"webdataset:{tmp_path}/s.tar")) == 1


def test_two_files_whose_names_only_their_forms_tell_apart(draw: Draw, tmp_path: Path) -> None:
    draw(f"f/{MAC}.png", 1)
    draw(f"f/{KEYBOARD}.png", 2)
    dataset = load(f"imagefolder:{tmp_path}/f", "skip")
    assert list(reasons(dataset).values()) == ["the id appears twice, in another Unicode form"]


def test_models_of_pictures_that_are_gone_are_asked_in_every_form(
    draw: Draw, tmp_path: Path
) -> None:
    for number, name in enumerate([MAC, *"abcdefg"]):
        draw(f"f/{name}.png", 10 + number)
    data = load(f"imagefolder:{tmp_path}/f")
    split = make_split(
        data,
        seed=next(seed for seed in range(50) if f"{MAC}.png" in make_split(data, seed=seed).train),
    )
    (tmp_path / "f" / f"{MAC}.png").unlink()
    left = load(f"imagefolder:{tmp_path}/f")
    assert resolve_names([f"{KEYBOARD}.png"], left, "names", split) == (
        stored_name(split, f"{MAC}.png"),
    )


def test_cache_and_traces_know_her_too(spec: str) -> None:
    load(spec)
    assert (
        picked(held_in_cache(), people=[f"subject:{KEYBOARD}"])
        == picked(held_in_cache(), people=[f"subject:{MAC}"])
        != ()
    )
    for name in (KEYBOARD, MAC):
        person = person_in(spec, f"subject:{name}")
        assert person.ids == {"1.png"} and person.called(KEYBOARD) and person.called(MAC)


@pytest.mark.parametrize(
    "name", ["subject:Ben", "subject:\uff42en", "subject:be\u200bn", 'subject:"ben"', "2.PNG"]
)
def test_a_name_that_is_nearly_there_is_told_and_not_taken(
    tmp_path: Path, spec: str, name: str
) -> None:
    with pytest.raises(
        DataError, match=r"1 unknown name .*is there, which differs only in capital letters"
    ):
        asked(tmp_path, name, spec)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("subject:1.00012E+11", "line 2, 'subject:1.00012E\\+11': a spreadsheet rounded it"),
        ("1,23E+11", "line 2, .*a spreadsheet rounded it"),
        ("#NAME?", "line 2, .*a spreadsheet's error"),  # not a comment
        ("subject:01-Mar", "line 2, .*made a date of it"),
    ],
)
def test_what_a_spreadsheet_did_to_a_forget_file_is_refused_with_its_line(
    tmp_path: Path, spec: str, line: str, why: str
) -> None:
    with pytest.raises(DataError, match=why):
        asked(tmp_path, f"subject:ben\n{line}\n", spec)
    if not line.startswith("#"):
        people = line.removeprefix("subject:")
        with pytest.raises(DataError, match="name 1, "):
            asked(
                tmp_path,
                json.dumps({"subjects": [people]} if people != line else {"samples": [line]}),
                spec,
            )


def test_lines_of_signs_are_comments_still(tmp_path: Path, spec: str) -> None:
    assert asked(tmp_path, "########\n# people!\nsubject:ben\n", spec) == ("2.png",)
