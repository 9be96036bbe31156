"""``pipeline.json`` is hostile input: every broken, swapped or foreign folder ends in one typed line."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import ArtifactError, InputError, ReportError
from unplug.sdk.drawing.device import PIPELINE, PipelineDefaults, load_pipeline, open_files

from .toy import RESIDUAL, SLOTS, SPECS, change, gone, toy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy(tmp_path / "files")
    return tmp_path / "files"


def opened(folder: Path, target: str | None = None, precision: str | None = None) -> Any:
    return open_files(load_pipeline(folder), folder, target=target, precision=precision)


def test_a_whole_folder_is_read_and_opened(folder: Path) -> None:
    pipeline = load_pipeline(folder)
    assert pipeline == load_pipeline(folder / PIPELINE) and pipeline.residuals == (RESIDUAL,)
    assert {name: file.card.iospec for name, file in opened(folder).items()} == SPECS
    change(folder, "", lambda raw: gone(raw, "noise"))
    assert load_pipeline(folder) == pipeline  # it has a default, which is the only value


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "unplug-pipeline/2"}', "[" * 100_000])
def test_what_is_no_pipeline(folder: Path, text: str) -> None:
    (folder / PIPELINE).write_text(text)
    with pytest.raises(ReportError, match="does not follow its schema"):
        load_pipeline(folder)


OUTSIDE = ("../x.tflite", "/etc/passwd", "unet/../../x", "./unet/x", "unet//x", ".hidden", "C:\\x")
OUTSIDE += ("unet\\x", "", "a/b/c/d/e/f", "a\0b")


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_that_lead_out_of_the_folder(folder: Path, path: str) -> None:
    change(folder, "unet files 0 file", path)
    with pytest.raises(
        ReportError, match=r"its unet lies at .* not a plain path inside the folder"
    ):
        load_pipeline(folder)


def unguided(unet: dict[str, Any]) -> dict[str, Any]:
    """Without both tensors of the negative prompt, and nothing else."""
    return unet | {"inputs": gone(unet["inputs"], 3), "outputs": gone(unet["outputs"], 1)}


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("extra", 1, "schema"),
        ("noise", "mersenne", "schema"),
        ("schedule prediction", "x0", "schema"),
        ("schedule guidance", "cosine", "schema"),
        ("schedule steps_offset", 10**6, "steps_offset of 1000000"),
        ("tokenizer length", 50, r"input_ids of shape \(1, 48\) where \(1, 50\)"),
        ("tokenizer vocabulary", lambda held: [*held, "new"], "819 tokens, more than its text en"),
        ("latent_shape", [4, 2, 2], "its unet has sample of shape"),
        ("image_size", 32, "its decoder has image of shape"),
        ("residuals", [], "its residuals are not the inputs"),
        ("unet files", [], "its unet has no files"),
        ("unet files", lambda held: held * 2, "two of one target and precision"),
        ("defaults steps", 0, "its defaults are 0 steps"),
        ("defaults guidance", 0.5, "a guidance of 0.5"),
        ("plugins", lambda held: {"../x": held["canny"]}, "is not the name of a plugin"),
        (
            "plugins canny part iospec outputs 0 shape",
            [1, 5, 2, 2],
            r"its plugin canny was made for another base: it gives \[1, 5, 2, 2\] as adapter_res_s",
        ),
        (
            "plugins canny part iospec inputs 0 shape",
            [1, 3, 8, 8],
            "takes no condition of 16 pixels",
        ),
        ("unet iospec inputs 0 dtype", "int8", "its unet has sample of int8 where float32"),
        (
            "unet iospec inputs",
            lambda held: gone(held, 3),
            "a negative prompt, and no input",
        ),
        ("unet iospec", unguided, "a guidance of 3, and its unet answers for no negative prompt"),
        (
            "unet iospec inputs",
            lambda held: [*held[:3], held[4], held[3]],
            "its residuals are not the inputs",
        ),
        ("unet iospec outputs", lambda held: held[:1], "has noise_pred_negative of shape None"),
        ("text_encoder iospec inputs", [], "has input_ids of shape None"),
    ],
)
def test_records_that_do_not_fit_together(
    folder: Path, place: str, value: object, words: str
) -> None:
    change(folder, place, value)
    with pytest.raises(ReportError, match=words):
        load_pipeline(folder)


UNET = "unet/guided_unet.fp32.tflite"


def swap(folder: Path) -> None:
    """For a file of another export of the same shapes: the card agrees, pipeline.json does not."""
    path, body = folder / "decoder/decoder.fp32.tflite", b"another file"
    path.write_bytes(body)
    card = path.with_name(f"{path.name}.json")
    facts = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
    card.write_text(json.dumps(json.loads(card.read_text()) | facts))


def link(path: Path) -> None:
    moved = path.with_name("elsewhere")
    shutil.move(path, moved)
    path.symlink_to(moved)


def exchange(raw: dict[str, Any]) -> dict[str, Any]:
    decoder, unet = raw["decoder"], raw["unet"]
    return raw | {
        "decoder": decoder | {"files": unet["files"]},
        "unet": unet | {"files": decoder["files"]},
    }


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda folder: (folder / UNET).unlink(), r"guided_unet.fp32.tflite: no such file"),
        (
            lambda folder: (folder / UNET).write_bytes(b"FILE of unet"),
            "SHA-256 differs from its card",
        ),
        (swap, r"it is another file than pipeline\.json says"),
        (
            lambda folder: change(folder, "", exchange),
            "its tensors are not those that pipeline.json",
        ),
        (lambda folder: link(folder / UNET), "it is a link, or lies below one"),
        (lambda folder: link(folder / "unet"), "it is a link, or lies below one"),
    ],
    ids=["missing", "edited", "swapped with its card", "exchanged", "a link", "behind a link"],
)
def test_files_that_are_not_those_of_the_record(folder: Path, harm: Any, words: str) -> None:
    harm(folder)
    with pytest.raises(ArtifactError, match=words):
        opened(folder)


def test_a_target_or_precision_that_is_not_there(folder: Path) -> None:
    with pytest.raises(InputError, match="its text_encoder has no such file, but litert fp32"):
        opened(folder, target="onnx")
    with pytest.raises(InputError, match="litert fp16: its text_encoder"):
        opened(folder, precision="fp16")


def test_of_a_unet_without_guidance_no_variant_has_one(tmp_path: Path) -> None:
    few = PipelineDefaults(steps=2, guidance=1.0, solver="ddim")
    toy(tmp_path, {"few": (np.ones((1, SLOTS.width), np.float32), few)}, guided=False)
    assert not load_pipeline(tmp_path).guided
    change(tmp_path, "variants few defaults guidance", 3.0)
    with pytest.raises(ReportError, match="its defaults of few have a guidance of 3"):
        load_pipeline(tmp_path)
