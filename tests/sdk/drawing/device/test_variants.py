"""Variants: named weights beside a generator's files, drawn with by name, with their own defaults;
hostile ones are refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from unplug.core import ArtifactError, CheckpointError, InputError, ReportError
from unplug.sdk.drawing.device import (
    PIPELINE,
    PipelineDefaults,
    VariantSource,
    Words,
    generate,
    load_pipeline,
    pack_variants,
    read_variant,
    web_files,
)
from unplug.sdk.drawing.diffusion import sampling_of_lora

from .test_lora import SLOTS as TWO_LAYERS
from .test_lora import lora_file
from .test_pipeline import change
from .toy import SLOTS, networks, toy

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


def test_rows_come_back_with_zeros_below_them(folder: Path) -> None:
    pipeline = load_pipeline(folder)
    for name, rows in ROWS.items():
        found = read_variant(pipeline, folder, name)
        assert found.shape == (SLOTS.rank, SLOTS.width) and not found[len(rows) :].any()
        np.testing.assert_array_equal(found[: len(rows)], rows)
    assert (pipeline.defaults_of("few-steps"), pipeline.defaults_of("style")) == (
        FEW,
        pipeline.defaults,
    )
    assert pipeline.defaults_of(None) == pipeline.defaults


def test_each_draws_another_picture_and_zeros_are_the_base(folder: Path, tmp_path: Path) -> None:
    pipeline, words = load_pipeline(folder), Words(prompt="a child")
    own: Any = networks()
    bare = generate(toy(tmp_path / "bare"), own, words).latent
    np.testing.assert_array_equal(generate(pipeline, own, words).latent, bare)
    drawn = [
        generate(pipeline, own, words, lora_RK=read_variant(pipeline, folder, name)).latent
        for name in ROWS
    ]
    assert (
        all(np.abs(item - bare).max() > 0.1 for item in drawn)
        and np.abs(drawn[0] - drawn[1]).max() > 0.1
    )


def test_a_record_without_variants_has_no_such_key(folder: Path, tmp_path: Path) -> None:
    toy(tmp_path / "bare")
    assert (
        json.loads((tmp_path / "bare" / PIPELINE).read_text()).keys() & {"lora", "variants"}
        == set()
    )
    pipeline = load_pipeline(tmp_path / "bare")
    with pytest.raises(
        InputError, match=r"variant style: toy was exported without it\. .*`unplug export --variant"
    ):
        read_variant(pipeline, tmp_path / "bare", "style")
    with pytest.raises(InputError, match="It has few-steps, style"):
        read_variant(load_pipeline(folder), folder, "other")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda raw: raw.pop("lora"), "its residuals are not the inputs"),
        (
            lambda raw: (raw.pop("lora"), raw["unet"]["iospec"]["inputs"].pop()),
            "variant few-steps, and its unet has no slots",
        ),
        (
            lambda raw: raw["variants"].update({"../x": raw["variants"]["style"]}),
            "is no name of a variant",
        ),
        (
            lambda raw: raw["variants"]["style"].update(file="../../x"),
            "its variant style lies at .* no plain path",
        ),
        (
            lambda raw: raw["variants"]["style"].update(bytes=48),
            "has 48 bytes, where 1 to 2 rows of 16 are needed",
        ),
        (lambda raw: raw["variants"]["style"].update(bytes=20), "has 20 bytes"),
        (lambda raw: raw["variants"]["style"].update(bytes=0), "has 0 bytes"),
        (
            lambda raw: raw["variants"]["few-steps"]["defaults"].update(steps=0),
            "its defaults of few-steps are 0 steps",
        ),
        (
            lambda raw: raw["variants"]["few-steps"]["defaults"].update(guidance=99),
            "a guidance of 99",
        ),
        (lambda raw: raw["variants"]["few-steps"]["defaults"].update(solver="euler"), "schema"),
        (lambda raw: raw["variants"].update(style=[]), "schema"),
        (lambda raw: raw["lora"].update(rank=3), "its slots of rank 3 do not make an input"),
    ],
)
def test_records_that_do_not_hold(
    folder: Path, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    change(folder, edit)
    with pytest.raises(ReportError, match=words):
        load_pipeline(folder)


def test_an_input_that_fills_the_memory_is_refused(folder: Path) -> None:
    def grow(raw: dict[str, Any]) -> None:
        raw["lora"] = {
            "rank": 2**20,
            "slots": [{"layer": "mix", "fan_in": 2**19, "fan_out": 2**19}],
        }
        raw["unet"]["iospec"]["inputs"][-1]["shape"] = [1, 2**20, 2**20]
        raw["variants"] = {}

    change(folder, grow)
    with pytest.raises(ReportError, match="its slots of rank 1048576 do not make an input"):
        load_pipeline(folder)


def read(folder: Path) -> None:
    read_variant(load_pipeline(folder), folder, "few-steps")


def test_files_that_do_not_hold(folder: Path, tmp_path: Path) -> None:
    file = folder / FILE
    good = file.read_bytes()
    for body, words in (
        (good[:-4], "another file"),
        (good + good, "larger than 16 bytes"),
        (bytes(16), "another file"),
    ):
        file.write_bytes(body)
        for reading in (read, web_files):
            with pytest.raises(ArtifactError, match=words):
                reading(folder)
    file.unlink()
    with pytest.raises(ArtifactError, match="No such file"):
        read(folder)
    (tmp_path / "elsewhere").write_bytes(good)
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="it is a link"):
        read(folder)


@pytest.mark.parametrize("body", [np.full(4, np.nan, "<f4").tobytes(), np.ones(3, "<f4").tobytes()])
def test_what_is_no_number_or_no_row(folder: Path, body: bytes) -> None:
    """Its digest is right, since whoever made the record made the file."""
    (folder / FILE).write_bytes(body)
    change(
        folder,
        lambda raw: raw["variants"]["few-steps"].update(sha256=hashlib.sha256(body).hexdigest()),
    )
    with pytest.raises(
        ArtifactError, match="of another size than the record says, or holds what is no number"
    ):
        read(folder)


def test_a_page_gets_them(folder: Path) -> None:
    found = web_files(folder)
    assert found[FILE] == folder / FILE and "variants/style.lora" in found


def test_only_rows_that_are_used_are_kept(tmp_path: Path) -> None:
    one, two = lora_file(tmp_path / "1.safetensors"), lora_file(tmp_path / "2.safetensors")
    packed = pack_variants(
        TWO_LAYERS, {"one": VariantSource(loras=(one,)), "both": VariantSource(loras=(one, two))}
    )
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
    record = {
        "schema": "unplug-student/1",
        "sampling": {"steps": 4, "guidance": 1.0, "solver": "ddim"},
    }
    (tmp_path / "unplug.json").write_text(json.dumps(record))
    for place in (tmp_path, file):
        how = sampling_of_lora(place)
        assert how is not None and (how.steps, how.guidance, how.solver) == (4, 1.0, "ddim")
    assert sampling_of_lora(lora_file(tmp_path / "style.safetensors")) is None, (
        "other weights beside a record are not its own"
    )
    (tmp_path / "unplug.json").write_text(
        json.dumps({**record, "sampling": {"steps": 0, "guidance": 1, "solver": "ddim"}})
    )
    with pytest.raises(CheckpointError, match="to draw with"):
        sampling_of_lora(tmp_path)
