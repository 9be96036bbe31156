"""Variants: named weights beside a generator's files, drawn with by name, with their own defaults;
hostile ones are refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from unplug.core import (
    ArtifactError,
    CheckpointError,
    InputError,
    ReportError,
    read_json,
    write_json,
)
from unplug.sdk.drawing.device import (
    PIPELINE,
    PipelineDefaults,
    VariantSource,
    Words,
    generate,
    load_pipeline,
    pack_variants,
    read_variant,
    stack_rows,
    web_files,
)
from unplug.sdk.drawing.diffusion import sampling_of_lora

from .test_lora import SLOTS as TWO_LAYERS
from .test_lora import lora_file
from .toy import SLOTS, change, gone, networks, toy

FEW = PipelineDefaults(steps=2, guidance=1.0, solver="ddim")
ROWS = {
    "few-steps": np.array([[0.5, -0.25, 0.125, 1.0]], np.float32),
    "style": np.array([[1, 0, 0, 1], [0, -1, 1, 0]], np.float32),
}
FILE = "variants/few-steps.lora"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy(tmp_path / "files", {"few-steps": (ROWS["few-steps"], FEW), "style": (ROWS["style"], None)})
    return tmp_path / "files"


def test_rows_come_back_with_zeros_below_them_and_each_draws(folder: Path, tmp_path: Path) -> None:
    pipeline, words, parts = load_pipeline(folder), Words(prompt="a child"), networks()
    drawn = [generate(toy(tmp_path / "bare"), parts, words).latent]
    np.testing.assert_array_equal(generate(pipeline, parts, words).latent, drawn[0])
    for name, rows in ROWS.items():
        lora_RK = stack_rows(SLOTS, {name: read_variant(pipeline, folder, name)})
        assert lora_RK is not None and lora_RK.shape == (SLOTS.rank, SLOTS.width)
        assert not lora_RK[len(rows) :].any()
        np.testing.assert_array_equal(lora_RK[: len(rows)], rows)
        drawn.append(generate(pipeline, parts, words, lora_RK=lora_RK).latent)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(drawn[one] - drawn[other]).max() > 0.1
    usual = pipeline.defaults
    assert [pipeline.defaults_of(name) for name in (*ROWS, None)] == [FEW, usual, usual]
    assert {FILE, "variants/style.lora"} < web_files(folder).keys()


def test_a_record_without_variants_has_no_such_key(folder: Path, tmp_path: Path) -> None:
    bare = toy(tmp_path / "bare")
    assert not read_json(tmp_path / "bare" / PIPELINE).keys() & {"lora", "variants"}
    why = r"variant style: toy was exported without it\. .*`unplug export --variant"
    with pytest.raises(InputError, match=why):
        read_variant(bare, tmp_path / "bare", "style")
    with pytest.raises(InputError, match="It has few-steps, style"):
        read_variant(load_pipeline(folder), folder, "other")


def without_slots(raw: dict[str, Any]) -> dict[str, Any]:
    inputs = raw["unet"]["iospec"]["inputs"][:-1]
    iospec = raw["unet"]["iospec"] | {"inputs": inputs}
    return gone(raw, "lora") | {"unet": raw["unet"] | {"iospec": iospec}}


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("", lambda raw: gone(raw, "lora"), "its residuals are not the inputs"),
        ("", without_slots, "variant few-steps, and its unet has no slots"),
        ("variants ../x", {"file": "x", "sha256": "", "bytes": 1}, "is not the name of a variant"),
        ("variants style file", "../../x", "its variant style lies at .* not a plain path"),
        ("variants style bytes", 48, "has 48 bytes, where 1 to 2 rows of 16 are needed"),
        ("variants style bytes", 20, "has 20 bytes"),
        ("variants style bytes", 0, "has 0 bytes"),
        ("variants few-steps defaults steps", 0, "its defaults of few-steps are 0 steps"),
        ("variants few-steps defaults guidance", 99, "a guidance of 99"),
        ("variants few-steps defaults solver", "euler", "schema"),
        ("variants style", [], "schema"),
        ("lora rank", 3, "its slots of rank 3 do not make an input"),
    ],
)
def test_records_that_do_not_hold(folder: Path, place: str, value: object, words: str) -> None:
    change(folder, place, value)
    with pytest.raises(ReportError, match=words):
        load_pipeline(folder)


def test_an_input_that_fills_the_memory_is_refused(folder: Path) -> None:
    slot = {"layer": "mix", "fan_in": 2**19, "fan_out": 2**19}
    change(folder, "lora", {"rank": 2**20, "slots": [slot]})
    change(folder, "unet iospec inputs 5 shape", [1, 2**20, 2**20])
    change(folder, "variants", {})
    with pytest.raises(ReportError, match="its slots of rank 1048576 do not make an input"):
        load_pipeline(folder)


NONE = "of another size than the record says, or holds something other than numbers"


@pytest.mark.parametrize(
    ("body", "known", "words"),
    [
        (lambda good: good[:-4], False, "another file"),
        (lambda good: good * 2, False, "larger than 16 bytes"),
        (lambda good: bytes(16), False, "another file"),
        # Its digest is right, since whoever made the record made the file.
        (lambda good: np.full(4, np.nan, "<f4").tobytes(), True, NONE),
        (lambda good: np.ones(3, "<f4").tobytes(), True, NONE),
        (None, False, "No such file"),
        ("link", False, "it is a link"),
    ],
)
def test_files_that_do_not_hold(
    folder: Path, tmp_path: Path, body: Any, known: bool, words: str
) -> None:
    file = folder / FILE
    good = file.read_bytes()
    if callable(body):
        file.write_bytes(body(good))
    else:
        file.rename(tmp_path / "elsewhere")
    if body == "link":
        file.symlink_to(tmp_path / "elsewhere")
    if known:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        change(folder, "variants few-steps sha256", digest)
    with pytest.raises(ArtifactError, match=words):
        read_variant(load_pipeline(folder), folder, "few-steps")
    with pytest.raises(ArtifactError, match=words):
        web_files(folder)


def test_only_rows_that_are_used_are_kept(tmp_path: Path) -> None:
    one, two = lora_file(tmp_path / "1.safetensors"), lora_file(tmp_path / "2.safetensors")
    sources = {"one": VariantSource(loras=(one,)), "both": VariantSource(loras=(one, two))}
    packed = pack_variants(TWO_LAYERS, sources)
    assert [len(rows) for rows in packed.values()] == [1, 2]
    np.testing.assert_array_equal(packed["both"][0], packed["one"][0])
    blank = {name: np.zeros_like(value) for name, value in load_file(one).items()}
    none = lora_file(tmp_path / "3.safetensors", **blank)
    with pytest.raises(InputError, match="variant none: its weights are all zero"):
        pack_variants(TWO_LAYERS, {"none": VariantSource(loras=(none,))})
    with pytest.raises(InputError, match="2 ranks together, and the exported UNet has slots for 1"):
        pack_variants(replace(TWO_LAYERS, rank=1), {"all": VariantSource(loras=(one, two, one))})


def test_what_a_students_record_tells(tmp_path: Path) -> None:
    file = lora_file(tmp_path / "pytorch_lora_weights.safetensors")
    assert sampling_of_lora(tmp_path) is None
    sampling = {"steps": 4, "guidance": 1.0, "solver": "ddim"}
    record = {"schema": "unplug-student/1", "sampling": sampling}
    write_json(tmp_path / "unplug.json", record)
    for place in (tmp_path, file):
        how = sampling_of_lora(place)
        assert how is not None and (how.steps, how.guidance, how.solver) == (4, 1.0, "ddim")
    beside = sampling_of_lora(lora_file(tmp_path / "style.safetensors"))
    assert beside is None, "other weights beside a record are not its own"
    write_json(tmp_path / "unplug.json", record | {"sampling": sampling | {"steps": 0}})
    with pytest.raises(CheckpointError, match="to draw with"):
        sampling_of_lora(tmp_path)
