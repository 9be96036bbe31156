"""The verdict follows the paired intervals against the oracle; reading refuses what is broken by
one typed error.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import CheckpointError, ReportError
from unplug.sdk.report import collect
from unplug.sdk.report.plots.bench import Timing, latency_svg
from unplug.sdk.report.plots.canvas import canvas, to_svg
from unplug.sdk.report.render import HERE
from unplug.sdk.report.verdict import verdict
from unplug.trust.bundle import ANEW

from .conftest import Json, Write


def _gaps(audit: Json, role: str, *ends: tuple[float, float] | None) -> None:
    model = next(model for model in audit["models"] if model["role"] == role)
    for attack, pair in zip(model["attacks"].values(), ends, strict=True):
        ends = pair and {"value": sum(pair) / 2, "low": pair[0], "high": pair[1]}
        attack["minus_retrained"] = ends


GROUP = {"ages": "0-1", "n": 1, "accuracy": None, "mae": None}
AROUND, ABOVE, BELOW = (-0.02, 0.03), (0.01, 0.2), (-0.2, -0.01)


@pytest.mark.parametrize(
    ("original", "unlearned", "word"),
    [
        ((ABOVE, ABOVE), (AROUND, AROUND), "Forgotten"),
        ((ABOVE, AROUND), (AROUND, AROUND), "Forgotten"),
        ((ABOVE, ABOVE), (AROUND, ABOVE), "Not forgotten"),
        ((ABOVE, ABOVE), (BELOW, AROUND), "Over-forgotten"),
        ((ABOVE, ABOVE), (BELOW, ABOVE), "Not forgotten"),
        ((AROUND, AROUND), (AROUND, AROUND), "Inconclusive"),
        ((ABOVE, ABOVE), (AROUND, None), "Not compared"),
    ],
)
def test_the_word(
    write: Write, parts: dict[str, Json], original: Any, unlearned: Any, word: str
) -> None:
    _gaps(parts["audit"], "original", *original)
    _gaps(parts["audit"], "unlearned", *unlearned)
    assert verdict(collect(write(audit=parts["audit"]))).word == word


def test_the_sentence_is_about_the_attack_that_still_works(
    write: Write, parts: dict[str, Json]
) -> None:
    _gaps(parts["audit"], "unlearned", AROUND, ABOVE)
    assert "AUC of the rmia attack" in verdict(collect(write(audit=parts["audit"]))).sentence


@pytest.mark.parametrize(
    ("said", "word"), [("", "Forgotten exactly"), (f"; {ANEW}", "Trained anew, without them")]
)
def test_equality_with_a_training_of_ours_is_not_the_owners(
    write: Write, parts: dict[str, Json], said: str, word: str
) -> None:
    gate = {
        **parts["release"]["gates"][0],
        "name": "equality",
        "value": 0.0,
        "detail": f"9 of 9 tensors{said}",
    }
    parts["release"] |= {"gates": [gate], "passed": True}
    assert verdict(collect(write(audit=parts["audit"], release=parts["release"]))).word == word


@pytest.mark.parametrize("runs", [[0.0, 0.0], [-1.0, 2.0], [1e-9, 1e12]])
def test_latency_plots_any_number(runs: list[float]) -> None:
    timing = Timing(label="a $x^{ <b>", runs_N=np.array(runs), median=runs[0], low=None, high=None)
    assert "&lt;b&gt;" in latency_svg([timing, timing], name="n", title="t", width=354)


def test_the_clean_up_leaves_text_alone() -> None:
    with canvas(300, 200) as (figure, axes):
        axes.set_title('0.87654 href="#a" url(#b) #010203')
        svg = to_svg(figure, "p", 'a "label" & more')
    assert '0.87654 href="#a" url(#b) #010203' in svg
    assert 'aria-label="a &quot;label&quot; &amp; more"' in svg
    assert "font-family" not in svg and "<style" not in svg and "metadata" not in svg


def _luminance(colour: str) -> float:
    parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_and_marks_have_contrast_in_light_and_dark() -> None:
    blocks = re.findall(
        r":root \{(.*?)\}", (HERE / "style.css").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    assert len(blocks) == 3  # light, dark, print
    for block in blocks:
        colour = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for name in ("ink", "muted", "accent", "original", "unlearned", "retrained"):
            assert _contrast(colour[name], colour["paper"]) >= 4.5, name
        for name in ("good", "bad", "warn"):
            assert _contrast(colour[name], colour[f"{name}-soft"]) >= 4.5, name
        assert _contrast(colour["muted"], colour["panel"]) >= 4.5
        assert _contrast(colour["artifact"], colour["paper"]) >= 3.0  # a mark, never text


def test_reads_every_kind_in_the_order_given(write: Write, parts: dict[str, Json]) -> None:
    inputs = collect(write(**parts))
    assert [source.schema for source in inputs.sources] == [
        value["schema"] for value in parts.values()
    ]
    assert [record.role for record in inputs.records] == ["original", "unlearned", "retrained"]
    assert inputs.sources[1].name == "original/unplug.json"
    kinds = (
        inputs.audits,
        inputs.parities,
        inputs.benches,
        inputs.cards,
        inputs.faces,
        inputs.releases,
    )
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
        ('{"schema": "unplug-release/1", "title": "' + "x" * 200_000 + '"}', "a text of 200000"),
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
    place: Any = value
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = new


@pytest.mark.parametrize(
    ("part", "path", "new"),
    [
        ("audit", "surplus", 1),
        ("audit", "models.0.attacks.loss.auc.value", "0.5"),
        ("audit", "models.0.attacks.loss.auc.value", 1.5),
        ("audit", "models.0.attacks.loss.forget_scores", []),
        ("audit", "models.0.role", "stranger"),
        ("audit", "models.0.utility.test.per_group", [GROUP] * 30),
        ("bench", "rows.0.where", "moon"),
        ("bench", "rows.0.threads", 2.5),
        ("parity", "rows.0.status", "maybe"),
        ("card", "bytes", "many"),
        ("original/unplug", "history", [{"epoch": 1}]),
        ("unlearned/unplug", "forget.cost.retrain", None),
        ("release", "gates.0.comparison", "=="),
        ("release", "passed", True),
        ("release", "seconds", {str(n): 1.0 for n in range(300)}),
        ("faces", "faces.0.set", "forget"),
        ("faces", "faces.0.predictions", {"original": True}),
    ],
)
def test_refuses_values_outside_the_schema(
    write: Write, parts: dict[str, Json], part: str, path: str, new: Any
) -> None:
    _set(parts[part], path, new)
    with pytest.raises(ReportError):
        collect(write(**{part: parts[part]}))


def test_refuses_audits_of_two_requests(write: Write, parts: dict[str, Json]) -> None:
    other = json.loads(json.dumps(parts["audit"]))
    other["settings"]["split_sha256"] = "f" * 64
    with pytest.raises(ReportError, match="different splits"):
        collect(write(a=parts["audit"], b=other))


def test_a_record_describes_an_audited_model_and_the_weights_beside_it(
    write: Write, parts: dict[str, Json], tmp_path: Path
) -> None:
    """The original under the oracle's record, say: costs and numbers of two models on one page."""
    parts["retrained/unplug"]["weights_sha256"] = parts["audit"]["models"][0]["sha256"]
    with pytest.raises(
        ReportError, match=r"the retrained model that it describes .* is none of those in the audit"
    ):
        collect(write(**parts))
    alone = tmp_path / "retrained"
    alone.mkdir(exist_ok=True)
    (alone / "unplug.json").write_text(json.dumps(parts["retrained/unplug"]))
    assert collect([alone / "unplug.json"]).records
    (alone / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(CheckpointError, match="describes other weights"):
        collect([alone / "unplug.json"])


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, *, noise: bytes = b"", break_it: bool = False) -> str:
    body = zlib.compress(b"\0" * (height * (width * 3 + 1)))
    data = b"\x89PNG\r\n\x1a\n" + _chunk(
        b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    )
    data += (
        _chunk(b"IDAT", body)
        + (_chunk(b"tEXt", b"a\0" + noise) if noise else b"")
        + _chunk(b"IEND", b"")
    )
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
def test_refuses_thumbnails_that_are_no_small_png(
    write: Write, parts: dict[str, Json], png: str, why: str
) -> None:
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


def less_useful(audit: Json) -> None:
    audit["models"][1]["utility"]["test"]["mae"] = {"value": 9.0, "low": 8.5, "high": 9.5}


def original_alone(audit: Json) -> None:
    del audit["models"][1:]


@pytest.mark.parametrize(
    ("change", "word"),
    [(less_useful, "Forgotten, but less useful"), (original_alone, "Not compared")],
)
def test_lost_use_and_missing_models_are_told(
    write: Write, parts: dict[str, Json], change: Callable[[Json], None], word: str
) -> None:
    change(parts["audit"])
    assert verdict(collect(write(audit=parts["audit"]))).word == word
    assert verdict(collect(write(card=parts["card"]))).word == "Not audited"
