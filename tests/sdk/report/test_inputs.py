"""Reading: what is refused, and that a refusal is one typed error that says what to do."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unplug.core import ReportError
from unplug.sdk.report import collect

Json = dict[str, Any]
Write = Callable[..., list[Path]]


def test_reads_every_kind_in_the_order_given(write: Write, parts: dict[str, Json]) -> None:
    found = collect(write(**parts))
    assert [source.schema for source in found.sources] == [value["schema"] for value in parts.values()]
    assert [record.role for record in found.records] == ["original", "unlearned", "retrained"]
    assert found.sources[1].name == "original/unplug.json"
    kinds = (found.audits, found.parities, found.benches, found.cards, found.faces, found.releases)
    assert [len(kind) for kind in kinds] == [1] * 6


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not valid JSON"),
        ("[]", "names no schema"),
        ('{"schema": 3}', "names no schema"),
        ('{"schema": "unplug-audit/2"}', "this unplug reads unplug-audit/1"),
        ('{"schema": "shopping-list/1"}', "no place in a report"),
        ('{"schema": "unplug-release/1", "gates": NaN}', "impossible number"),
        ('{"schema": "unplug-release/1", "gates": 1e300}', "impossible number"),
        ('{"schema": "unplug-release/1", "gates": ' + "9" * 400 + "}", "impossible number"),
        ('{"schema": "unplug-release/1", "gates": ' + "[" * 100_000, "not valid JSON"),
        ('{"schema": "unplug-release/1", "gates": ' + "[" * 600 + "]" * 600 + "}", "schema"),
        ('{"schema": "unplug-release/1", "title": "' + "x" * 200_000 + '"}', "a text of 200000 characters"),
        ('{"schema": "unplug-release/1", "title": "\\ud800"}', "schema"),
    ],
)
def test_refuses_broken_files(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReportError, match=why) as caught:
        collect([path])
    assert caught.value.fix


def test_refuses_missing_files_and_odd_numbers_of_them(tmp_path: Path) -> None:
    for paths in ([tmp_path / "none.json"], [tmp_path], [], [tmp_path / "x.json"] * 65):
        with pytest.raises(ReportError):
            collect(paths)


def _set(value: Json, path: str, new: Any) -> None:
    *way, last = path.split(".")
    item: Any = value
    for step in way:
        item = item[int(step) if step.isdigit() else step]
    item[last] = new


@pytest.mark.parametrize(
    ("part", "path", "new"),
    [
        ("audit", "surplus", 1),
        ("audit", "models.0.attacks.loss.auc.value", "0.5"),
        ("audit", "models.0.attacks.loss.auc.value", 1.5),
        ("audit", "models.0.attacks.loss.forget_scores", []),
        ("audit", "models.0.role", "stranger"),
        ("audit", "models.0.utility.test.per_group", [{"ages": "0-1", "n": 1, "accuracy": None, "mae": None}] * 30),
        ("bench", "rows.0.where", "moon"),
        ("bench", "rows.0.threads", 2.5),
        ("parity", "rows.0.status", "maybe"),
        ("card", "bytes", "many"),
        ("original/unplug", "history", [{"epoch": 1}]),
        ("unlearned/unplug", "forget.cost.retrain", None),
        ("release", "gates.0.comparison", "=="),
        ("release", "passed", True),
        ("release", "seconds", {str(n): 1.0 for n in range(300)}),
        ("faces", "faces.0.set", "train"),
        ("faces", "faces.0.predictions", {"original": True}),
    ],
)
def test_refuses_values_outside_the_schema(write: Write, parts: dict[str, Json], part: str, path: str, new: Any) -> None:
    _set(parts[part], path, new)
    with pytest.raises(ReportError):
        collect(write(**{part: parts[part]}))


def test_a_checkpoint_record_may_hold_more_than_the_page_shows(write: Write, parts: dict[str, Json]) -> None:
    parts["original/unplug"]["something_new"] = {"a": 1}
    assert collect(write(**{"original/unplug": parts["original/unplug"]})).records[0].seed == 3


def test_refuses_audits_of_two_requests(write: Write, parts: dict[str, Json]) -> None:
    other = json.loads(json.dumps(parts["audit"]))
    other["settings"]["split_sha256"] = "f" * 64
    with pytest.raises(ReportError, match="different splits"):
        collect(write(a=parts["audit"], b=other))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, *, noise: bytes = b"", break_it: bool = False) -> str:
    body = zlib.compress(b"\0" * (height * (width * 3 + 1)))
    data = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    data += _chunk(b"IDAT", body) + (_chunk(b"tEXt", b"a\0" + noise) if noise else b"") + _chunk(b"IEND", b"")
    return base64.b64encode(data[:45] + b"\xff" + data[46:] if break_it else data).decode()


@pytest.mark.parametrize(
    ("png", "why"),
    [
        ("not base64!", "not base64"),
        ("", "not a PNG"),
        (base64.b64encode(b"<svg onload=alert(1)>" * 3).decode(), "not a PNG"),
        (_png(513, 4), "513 x 4"),
        (_png(8, 0), "8 x 0"),
        (_png(8, 8, noise=b"n" * 70_000), "larger than"),
        (_png(8, 8, break_it=True), "damaged"),
    ],
)
def test_refuses_thumbnails_that_are_no_small_png(write: Write, parts: dict[str, Json], png: str, why: str) -> None:
    parts["faces"]["faces"][1]["png"] = png
    with pytest.raises(ReportError, match=why):
        collect(write(faces=parts["faces"]))


def test_bounds_the_number_and_the_sum_of_thumbnails(write: Write, parts: dict[str, Json]) -> None:
    face = parts["faces"]["faces"][0]
    with pytest.raises(ReportError, match="65 faces"):
        collect(write(faces={**parts["faces"], "faces": [face] * 65}))
    heavy = {**face, "png": _png(8, 8, noise=b"n" * 60_000)}
    with pytest.raises(ReportError, match="together"):
        collect(write(faces={**parts["faces"], "faces": [heavy] * 20}))
