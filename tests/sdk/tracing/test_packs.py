"""A person is met in the packs that were trained on her, and in the exported bases that carry
them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from unplug.core import sha256_file, write_json
from unplug.sdk.drawing.device import PIPELINE, WEIGHTS_NAME, load_pipeline, variant_sha256
from unplug.sdk.drawing.diffusion import PACK_SCHEMA
from unplug.sdk.learning.data import Split
from unplug.sdk.tracing import person_in, trace

from ..drawing.device.toy import SLOTS, toy
from ..trust.commands import called

SPEC = "synth:n=6,subjects=3,seed=2"
ROW = np.array([[1, 2, 3, 4]], np.float32)
"""What the toy's UNet takes of the weights of `pack`."""


def pack(folder: Path, word: str, who: str, scale: float = 1.0) -> Path:
    """A pack of rank 1 of the toy's one layer, trained on a person."""
    folder.mkdir()
    layers = {"lora_A": np.array([[1, 2]]), "lora_B": np.array([[3], [4]]) * scale}
    save_file(
        {f"unet.mix.{name}.weight": value.astype(np.float32) for name, value in layers.items()},
        folder / WEIGHTS_NAME,
    )
    ids = tuple(sorted(person_in(SPEC, who).ids))
    split = Split(
        data_digest="0" * 64, seed=0, subject_disjoint=True, train=ids, validation=(), test=()
    )
    record = {
        "schema": PACK_SCHEMA,
        "word": word,
        "weights_sha256": sha256_file(folder / WEIGHTS_NAME),
        "split": split.to_dict(),
    }
    write_json(folder / "unplug.json", record)
    return folder


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packs, and an exported base that carries both, one of nobody knows whom, and a style."""
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    pack(work / "hers", "red hat", HER)
    pack(work / "his", "eye patch", "subject:person-1", scale=2.0)
    variants: Any = {
        "hat": (ROW, None, "red hat"),
        "patch": (ROW * [1, 1, 2, 2], None, "eye patch"),
        "nose": (ROW * 5, None, "nose"),
        "style": (ROW * 7, None),
    }
    toy(work / "files", variants)
    return work


HER = "subject:person-0"


def found(work: Path, **how: Any) -> dict[str, tuple[str, str]]:
    """Places but for the parts of the base, whose weights are not where is searched."""
    told, _ = trace(SPEC, person_in(SPEC, HER), [work], **how)
    places = [place for place in told if not place.path.endswith(".tflite")]
    inside = (place for place in places if place.path.startswith(str(work)))
    return {os.path.relpath(place.path, work): (place.kind, place.standing) for place in inside}


def test_a_variant_is_known_again_by_the_bytes_of_its_weights(work: Path) -> None:
    made = load_pipeline(work / "files").variants
    assert variant_sha256(SLOTS, work / "hers") == made["hat"].sha256
    assert variant_sha256(SLOTS, work / "his") == made["patch"].sha256
    assert variant_sha256(SLOTS, work / "none") is None


def test_her_pack_is_found_and_what_carries_it(work: Path) -> None:
    assert found(work) == {
        "hers": ("pack", "remembers"),
        "files/variants/hat.lora": ("exported file", "derived"),
        "files/variants/nose.lora": ("exported file", "unknown"),
    }


def test_after_it_was_deleted_from_both_nothing_is_found(work: Path) -> None:
    for word in ("nose", "red hat"):
        called(f"forget {work / 'files'} --pack '{word}' --yes")
    assert found(work) == {"hers": ("pack", "remembers")}
    for path in (work / "hers").iterdir():
        path.unlink()
    assert found(work) == {}


def test_where_the_pack_alone_is_gone_what_carries_it_is_told_as_unknown(work: Path) -> None:
    (work / "hers" / "unplug.json").unlink()
    assert found(work)["files/variants/hat.lora"] == ("exported file", "unknown")


def test_a_variant_without_a_word_is_met_where_it_is_her_pack(work: Path) -> None:
    toy(work / "chosen", {"hat": (ROW, None), "style": (ROW * 7, None)})
    told = {path: say for path, say in found(work).items() if path.startswith("chosen")}
    assert told == {"chosen/variants/hat.lora": ("exported file", "derived")}


def test_a_broken_record_of_an_exported_base_is_told(work: Path) -> None:
    (work / "files" / PIPELINE).write_text('{"schema": "unplug-pipeline/1", "variants": {"x": 1}}')
    assert found(work)[f"files/{PIPELINE}"] == ("exported file", "unknown")


def test_a_search_knows_copies_of_the_weights(work: Path, tmp_path: Path) -> None:
    copy = work / "renamed.bin"
    copy.write_bytes((work / "hers" / WEIGHTS_NAME).read_bytes())
    told = found(work, deep=[work])
    assert told["renamed.bin"] == ("weights", "remembers")
    assert told["files/variants/hat.lora"] == ("exported file", "derived")
    assert "hers/" + WEIGHTS_NAME not in told
