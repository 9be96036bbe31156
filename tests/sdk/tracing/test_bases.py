"""A person is met in the bases and decoders that learned her pictures, and in what they started
from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unplug.core import write_json
from unplug.sdk.drawing.diffusion import LORA_SCHEMA
from unplug.sdk.drawing.diffusion.told import told_data
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.tracing import person_in, trace
from unplug.sdk.tracing.records import HOW
from unplug.trust.certificates.places import KINDS

SPEC = "synth:n=12,subjects=6,seed=2"
OLD: dict[str, Any] = {"split": {"sha256": "0" * 64, "seed": 0, "train": 9, "validation": 1}}
"""As records were that counted people and listed none."""


@pytest.fixture(scope="module")
def told() -> tuple[dict[str, Any], str, str]:
    """What a record says of six people, somebody it learned, and somebody it was measured on."""
    dataset = load_dataset(SPEC, 32)
    split = make_split(dataset, seed=0)
    return told_data(dataset, split), split.train[0], split.test[0]


def standing(
    folder: Path, record: dict[str, Any], who: str, schema: str = "unplug-base/1"
) -> tuple[str, str, str] | None:
    write_json(folder / "unplug.json", {"schema": schema, **record})
    places, _ = trace(SPEC, person_in(SPEC, who), [folder])
    found = [place for place in places if place.path.startswith(str(folder))]
    return (found[0].kind, found[0].standing, found[0].goes_by) if found else None


def test_a_base_and_a_decoder_say_whom_they_learned(
    told: tuple[dict[str, Any], str, str], tmp_path: Path
) -> None:
    record, learned, measured = told
    for kind in ("base", "decoder"):
        found = standing(tmp_path, record, learned, f"unplug-{kind}/1")
        assert found is not None
        assert found[:2] == (kind, "remembers") and found[2].startswith("train it again")
    named = standing(tmp_path, record, measured)
    assert named is not None and named[1] == "names"


def test_a_training_on_all_pictures_says_so(
    told: tuple[dict[str, Any], str, str], tmp_path: Path
) -> None:
    """A student has no test set: it learned everybody, and what its teacher had learned."""
    others = load_dataset("synth:n=12,subjects=6,seed=3", 32)
    record = told_data(load_dataset(SPEC, 32), None, told_data(others, make_split(others, seed=0)))
    for who in told[1:]:
        found = standing(tmp_path, record, who, LORA_SCHEMA)
        assert found is not None and found[:2] == ("LoRA", "remembers")


def test_a_certificate_counts_all_weights_among_checkpoints() -> None:
    assert {KINDS.get(kind) for kind, _ in HOW.values()} == {"checkpoints"}


def test_what_a_training_started_from_counts(
    told: tuple[dict[str, Any], str, str], tmp_path: Path
) -> None:
    record, learned, _ = told
    others = load_dataset("synth:n=12,subjects=6,seed=3", 32)
    split = make_split(others, seed=0)
    second = told_data(others, split, record)
    third = told_data(others, split, second)
    assert [one["sha256"] for one in third["earlier"]] == [split.sha256, record["split"]["sha256"]]
    for later in (second, third):
        found = standing(tmp_path, later, learned)
        assert found is not None and found[1] == "remembers"


def test_a_record_that_lists_nobody(told: tuple[dict[str, Any], str, str], tmp_path: Path) -> None:
    """Nobody is procedural data; of other data nothing can be told."""
    _, learned, _ = told
    drawn, photographs = ({"data": {"spec": spec}} for spec in ("synth:n=9", "csv:faces.csv"))
    assert standing(tmp_path, OLD | drawn, learned) is None
    others = load_dataset("synth:n=12,subjects=6,seed=3", 32)
    for start in (OLD | photographs, {}):
        later = told_data(others, make_split(others, seed=0), start)
        for found in (standing(tmp_path, later, learned), standing(tmp_path, OLD, learned)):
            assert found is not None and found[1] == "unknown"
            assert "lists no people" in found[2]
