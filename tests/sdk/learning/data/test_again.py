"""Data that are opened again after a training: rows that are gone are told, rows that changed are
refused, and what is left goes by the training's digest.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from unplug.core import DataError, operator_key
from unplug.sdk.learning.data import (
    Dataset,
    Split,
    as_trained,
    compared,
    fitting,
    keyed,
    load_again,
    make_split,
    opened,
    opened_again,
)

from .conftest import Draw, load

ROWS = [f"{number}.png,{20 + number},p{number // 2}" for number in range(12)]
PLACE = Path("model")


@pytest.fixture
def spec(draw: Draw, tmp_path: Path) -> str:
    for number in range(12):
        draw(f"{number}.png", 10 * number)
    write(tmp_path, ROWS)
    return f"csv:{tmp_path}/t.csv"


def write(folder: Path, rows: list[str]) -> None:
    (folder / "t.csv").write_text("\n".join(["path,age,subject", *rows]) + "\n")


@pytest.fixture
def split(spec: str) -> Split:
    return make_split(load(spec), test=0.2, validation=0.2)


def left_of(spec: str, split: Split, gone: int = 2) -> Dataset:
    """The data without the first rows that were trained on."""
    lost = split.train[:gone]
    write(Path(spec[4:]).parent, [row for row in ROWS if row.partition(",")[0] not in lost])
    return load(spec)


def test_a_mark_covers_id_age_label_person_and_picture(spec: str, split: Split) -> None:
    content = hashlib.sha256(Path(spec[4:]).with_name("3.png").read_bytes()).hexdigest()
    text = repr(("3.png", 23.0, None, "p1", content))
    assert load(spec).marks[3] == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert split.rows == tuple(sorted(load(spec).marks)) and len(set(split.rows)) == 12
    assert Split.from_dict(json.loads(json.dumps(split.to_dict()))) == split
    old = replace(split, rows=())
    assert "rows" not in old.to_dict() and old.sha256 != split.sha256
    with pytest.raises(DataError, match="rows is not a list of names"):
        Split.from_dict(split.to_dict() | {"rows": [1]})
    with pytest.raises(DataError, match=r"hash does not match.*restore it"):
        Split.from_dict(split.to_dict() | {"rows": list(split.rows[1:])})


def test_rows_that_are_gone_are_told(
    spec: str, split: Split, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, less = load(spec), left_of(spec, split)
    assert less.digest != whole.digest and as_trained(whole, split) is whole
    same = as_trained(less, split)
    assert (same.digest, same.content) == (whole.digest, less.digest)
    assert same.told == ("2 rows gone since the training",)
    here = opened_again(split, less, PLACE)
    assert here == split, "who was trained on stays written down"
    assert here.there(less).train == split.train[2:]
    again = load_again(spec, 8, {"split": split.to_dict()})
    assert again.digest == whole.digest and "2 rows gone since" in capsys.readouterr().err
    assert make_split(less).data_digest == less.digest, "as they are, where no model is meant"
    with pytest.raises(DataError, match="all rows of the validation set are gone"):
        split.there(whole.only(split.train))


def test_a_training_goes_by_what_is_left(spec: str, split: Split) -> None:
    less = left_of(spec, split)
    assert fitting(split, load(spec)).train == split.train[2:]
    made = fitting(split, less)
    assert (made.data_digest, made.rows) == (less.digest, tuple(sorted(less.marks)))
    assert (made.validation, made.test) == (split.validation, split.test)


@pytest.mark.parametrize("change", ["age", "person", "picture"])
def test_a_row_that_changed_is_refused(spec: str, split: Split, draw: Draw, change: str) -> None:
    name = split.train[0]
    row = next(row for row in ROWS if row.startswith(f"{name},"))
    one = row.replace(",2", ",4") if change == "age" else row.replace("p", "q").replace("q", "p", 1)
    one = row if change == "picture" else one
    if change == "picture":
        draw(name, 201)
    write(Path(spec[4:]).parent, [one if item == row else item for item in ROWS[:-1]])
    data = load(spec)
    assert compared(split, data).changed == (name,) and as_trained(data, split) is data
    why = rf"digest differs: 1 row changed since.*first: {name}.*rows may go"
    with pytest.raises(DataError, match=why):
        opened_again(split, data, PLACE)
    with pytest.raises(DataError, match=why):
        fitting(split, data)


def test_other_data_and_older_splits(spec: str, split: Split, draw: Draw) -> None:
    other = load("synth:n=12,subjects=6", size=16)
    with pytest.raises(DataError, match=r"model was trained on \(digest differs\)"):
        opened_again(split, other, PLACE)
    assert as_trained(other, split) is other
    less = left_of(spec, split)
    with pytest.raises(DataError, match="digest differs"):
        opened_again(replace(split, rows=()), less, PLACE)
    write(Path(spec[4:]).parent, ROWS[::-1])
    sorted_otherwise = as_trained(load(spec), split)
    assert sorted_otherwise.digest == split.data_digest and sorted_otherwise.told == ()
    draw("new.png", 7)
    write(Path(spec[4:]).parent, [*ROWS[1:], "new.png,30,zoe"])
    more = as_trained(load(spec), split)
    assert more.digest == split.data_digest
    assert more.told == ("1 row gone since the training, and 1 new, which the model has not seen",)


def test_after_a_request_marks_name_nobody_either(spec: str, split: Split) -> None:
    whole = load(spec)
    asked = split.with_forget(split.train[:2])
    stored = keyed(asked)
    assert not set(stored.rows) & set(split.rows) and len(stored.rows) == 12
    digest = operator_key().digest(split.rows[0], split.data_digest)
    assert f"hmac:{digest[:16]}" in stored.rows
    assert opened(stored, whole) == asked and keyed(opened(stored, whole)) == stored
    less = left_of(spec, split)
    assert as_trained(less, stored).digest == whole.digest
    here = opened_again(stored, less, PLACE)
    assert here.retain == split.train[2:] and len(here.forget) == 2
    assert keyed(here) == stored
    write(Path(spec[4:]).parent, [row.replace(",2", ",4") for row in ROWS])
    assert len(compared(stored, load(spec)).changed) > 2
