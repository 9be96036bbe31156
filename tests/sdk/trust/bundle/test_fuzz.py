"""Signed bundles harmed at random, and bundles whose trusted signer says odd things: refused by a
typed error, or sound.

Sound means that every byte a reader gets is the signed one. Nothing is written but what was asked
for.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.mutations import mutated
from tests.vectors.bundles.recipe import OURS, Recipe, pem, statement, zipped

from unplug.core import UnplugError, peak_rss_bytes
from unplug.trust.bundle import Trust, open_source, pack_bundle, read_manifest, verify
from unplug.trust.bundle.p256 import public_key

FEW, MANY = 40, 2000
WHOLE = Recipe().files()
SIGNED = {name: raw for name, raw in WHOLE.items() if name != "model.sig"}
TRUST = Trust(keys=(public_key(pem(OURS), "test"),))
NOW = datetime(2026, 12, 1, tzinfo=UTC)
MAX_GROWTH = 2**28  # bytes, over all of them
ODD = ("a", "manifest.JSON", "artifacts", "artifacts/age.fp16.tflite/x", "\u00e9", "CON", "a\nb")
NAMES = st.sampled_from([*WHOLE, *ODD])
Files = dict[str, bytes]


def flip(draw: Callable[..., Any], files: Files) -> None:
    name = draw(st.sampled_from(sorted(files)))
    raw = bytearray(files[name] or b"\0")
    place = draw(st.integers(0, len(raw) - 1))
    raw[place] ^= draw(st.integers(1, 255))
    files[name] = bytes(raw)


def cut(draw: Callable[..., Any], files: Files) -> None:
    name = draw(st.sampled_from(sorted(files)))
    files[name] = files[name][: draw(st.integers(0, max(0, len(files[name]) - 1)))]


def insert(draw: Callable[..., Any], files: Files) -> None:
    name = draw(st.sampled_from(sorted(files)))
    place = draw(st.integers(0, len(files[name])))
    files[name] = (
        files[name][:place] + draw(st.binary(min_size=1, max_size=40)) + files[name][place:]
    )


def rename(draw: Callable[..., Any], files: Files) -> None:
    files[draw(NAMES)] = files.pop(draw(st.sampled_from(sorted(files))))


def remove(draw: Callable[..., Any], files: Files) -> None:
    files.pop(draw(st.sampled_from(sorted(files))))


def add(draw: Callable[..., Any], files: Files) -> None:
    files[draw(NAMES)] = draw(st.binary(max_size=100))


def replace_json(draw: Callable[..., Any], files: Files) -> None:
    name = draw(st.sampled_from(["manifest.json", "model.sig"]))
    value = json.loads(WHOLE[name])
    files[name] = next(iter(mutated(value, 1, str(draw(st.integers(0, 2**32))))))


HARMS = (flip, cut, insert, rename, remove, add, replace_json)


@st.composite
def harmed(draw: Callable[..., Any]) -> Files:
    files = dict(WHOLE)
    for _ in range(draw(st.integers(1, 3))):
        if files:
            draw(st.sampled_from(HARMS))(draw, files)
    return files


def read(path: Path, out: Path) -> None:
    """What a user does with a bundle from elsewhere."""
    for use in (read_manifest, lambda bundle: pack_bundle(bundle, out)):
        try:
            use(path)
        except UnplugError as error:
            assert len(str(error)) < 1100
    try:
        with open_source(path) as source:
            verified = verify(source, TRUST, now=NOW)
            assert {name: verified.read(name) for name in verified.files} == SIGNED
    except UnplugError as error:
        assert len(str(error)) < 1100


def place(folder: Path, files: Files, archived: bool, harm: bytes) -> Path | None:
    """The files as a folder, or as a zip with a few bytes of its own changed; None where a disk
    cannot hold them.
    """
    if archived:
        raw = bytearray(base64.b64decode(zipped(files)["zip"]))
        for at in range(0, len(harm) - 2, 3):
            raw[int.from_bytes(harm[at : at + 2], "big") % len(raw)] ^= harm[at + 2]
        (folder / "bundle.zip").write_bytes(raw)
        return folder / "bundle.zip"
    try:
        for name, raw_ in files.items():
            (folder / "bundle" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "bundle" / name).write_bytes(raw_)
    except OSError:  # a file where a folder must be
        return None
    return folder / "bundle"


def law(files: Files, archived: bool, harm: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = place(folder, files, archived, harm)
        if path is None or not path.exists():
            return
        before = {item: item.read_bytes() for item in folder.rglob("*") if item.is_file()}
        read(path, folder / "out.zip")
        after = {
            item: item.read_bytes()
            for item in folder.rglob("*")
            if item.is_file() and item != folder / "out.zip"
        }
        assert after == before


CASES = given(harmed(), st.booleans(), st.binary(max_size=12))
SLACK = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "database": None,
    "derandomize": True,
}


@settings(max_examples=FEW, **SLACK)
@CASES
def test_a_harmed_bundle_is_refused_or_sound(files: Files, archived: bool, harm: bytes) -> None:
    law(files, archived, harm)


@pytest.mark.nightly
def test_thousands_of_harmed_bundles_in_bounded_memory() -> None:
    before = peak_rss_bytes() or 0
    settings(max_examples=MANY, **SLACK)(CASES(law))()
    assert (peak_rss_bytes() or 0) - before < MAX_GROWTH


# What a trusted key signed, and should not have


def signed_oddly(step: str, count: int) -> list[Recipe]:
    """Bundles whose manifest or statement was harmed before it was signed."""
    value = json.loads(WHOLE["manifest.json"])
    if step == "manifest":
        return [
            Recipe(manifest_bytes=lambda _, raw=raw: raw)
            for raw in mutated(value, count, "signed manifest")
        ]
    digests = {name: entry["sha256"] for name, entry in value["files"].items()}
    return [
        replace(Recipe(), payload=lambda _, raw=raw: raw)
        for raw in mutated(
            statement({**digests, "manifest.json": "0" * 64}), count, "signed statement"
        )
    ]


@pytest.mark.parametrize("step", ["manifest", "statement"])
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.nightly)])
def test_odd_words_of_a_trusted_key(step: str, count: int, tmp_path: Path) -> None:
    for number, recipe in enumerate(signed_oddly(step, count)):
        path = place(tmp_path / str(number), recipe.files(), False, b"")
        assert path is not None
        try:
            with open_source(path) as source:
                verified = verify(source, TRUST, now=NOW)
            assert verified.publication.release >= 1 and set(verified.files) == {*SIGNED}
        except UnplugError as error:
            assert len(str(error)) < 1100
