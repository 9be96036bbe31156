"""The corpus of ``tests/vectors/bundles``: every bundle has the verdict that is written there."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.vectors.bundles.make import corpus

from unplug.trust.bundle import (
    VERDICTS,
    Refused,
    Trust,
    open_source,
    verify,
    verify_generator,
)
from unplug.trust.bundle.manifest import SCHEMA
from unplug.trust.bundle.p256 import public_key

FOLDER = Path(__file__).parents[3] / "vectors" / "bundles"
CASES = sorted(FOLDER.glob("*.json"))
NOT_IN_FILES = {"too-many", "too-large"}
"""Verdicts whose bundles would be too large for the repository; tests of their own make them."""


def written(case: dict[str, Any], folder: Path) -> Path:
    """A bundle of the corpus on the disk."""
    if "zip" in case:
        path = folder / "bundle.zip"
        path.write_bytes(base64.b64decode(case["zip"]))
        return path
    bundle = folder / "bundle"
    for name, text in case["files"].items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(base64.b64decode(text))
    for name in case.get("links", ()):
        (bundle / name).symlink_to("/etc/passwd")
    return bundle


def trust_of(case: dict[str, Any]) -> Trust:
    known = case["trust"]
    return Trust(
        keys=tuple(public_key(text, "corpus") for text in known["keys"]),
        name=known["name"],
        minimum_release=known["minimum_release"],
        revoked=frozenset(known["revoked"]),
        superseded=frozenset(known["superseded"]),
    )


def verdict(case: dict[str, Any], folder: Path) -> str:
    """What the verifier says, as the corpus writes it."""
    now = datetime.strptime(case["now"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    try:
        with open_source(written(case, folder)) as source:
            verified = verify(source, trust_of(case), now=now, schema=case.get("schema", SCHEMA))
            assert verified.read("README.md"), "the bytes verified are the bytes used"
    except Refused as refused:
        return refused.verdict
    return "valid"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_bundle_has_its_verdict(path: Path, tmp_path: Path) -> None:
    case = json.loads(path.read_text())
    assert verdict(case, tmp_path) == case["verdict"]


def test_the_base_of_the_corpus_is_one(tmp_path: Path) -> None:
    case = json.loads((FOLDER / "generator.json").read_text())
    now = datetime(2026, 12, 1, tzinfo=UTC)
    manifest = verify_generator(written(case, tmp_path), trust_of(case), now=now)
    assert manifest.publication is not None and manifest.publication.name == "small"


def unpacked(text: str) -> dict[str, Any]:
    """A case without its zip file, whose bytes are those of one version of zlib."""
    case: dict[str, Any] = json.loads(text)
    return {**case, "zip": "zip" in case}


def test_the_corpus_is_what_its_script_makes_and_shows_every_verdict() -> None:
    made = corpus()
    assert {name: unpacked(text) for name, text in made.items()} == {
        path.name: unpacked(path.read_text()) for path in CASES
    }
    assert sum(len(text) for text in made.values()) < 2**20
    assert {json.loads(text)["verdict"] for text in made.values()} == {
        *VERDICTS,
        "valid",
    } - NOT_IN_FILES
