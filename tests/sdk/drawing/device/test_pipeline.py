"""``pipeline.json`` is hostile input: every broken, swapped or foreign folder ends in one typed
line.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import ArtifactError, InputError, ReportError
from unplug.sdk.drawing.device import PIPELINE, PipelineDefaults, load_pipeline, open_files

from .toy import RESIDUAL, SLOTS, SPECS, toy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy(tmp_path / "files")
    return tmp_path / "files"


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    raw = json.loads((folder / PIPELINE).read_text())
    edit(raw)
    (folder / PIPELINE).write_text(json.dumps(raw))


def unguided(raw: dict[str, Any]) -> None:
    """Takes both tensors of the negative prompt out of the UNet, and nothing else."""
    raw["unet"]["iospec"]["inputs"].pop(3)
    raw["unet"]["iospec"]["outputs"].pop(1)


def swap(raw: dict[str, Any]) -> None:
    inputs = raw["unet"]["iospec"]["inputs"]
    inputs[3], inputs[4] = inputs[4], inputs[3]


def test_a_whole_folder_is_read_and_opened(folder: Path) -> None:
    found = load_pipeline(folder)
    assert found == load_pipeline(folder / PIPELINE) and found.residuals == (RESIDUAL,)
    files = open_files(found, folder, target=None, precision=None)
    assert set(files) == set(SPECS) and all(
        item.card.iospec == SPECS[name] for name, item in files.items()
    )


BROKEN: tuple[tuple[str, str], ...] = (
    ("", "does not follow its schema"),
    ("{", "does not follow its schema"),
    ("[]", "does not follow its schema"),
    ('{"schema": "unplug-pipeline/2"}', "does not follow its schema"),
    ("[" * 100_000, "does not follow its schema"),
)


@pytest.mark.parametrize(("text", "words"), BROKEN)
def test_what_is_no_pipeline(folder: Path, text: str, words: str) -> None:
    (folder / PIPELINE).write_text(text)
    with pytest.raises(ReportError, match=words):
        load_pipeline(folder)


@pytest.mark.parametrize(
    "path",
    [
        "../x.tflite",
        "/etc/passwd",
        "unet/../../x",
        "./unet/x",
        "unet//x",
        ".hidden",
        "C:\\x",
        "unet\\x",
        "",
        "a/b/c/d/e/f",
        "a\0b",
    ],
)
def test_paths_that_lead_out_of_the_folder(folder: Path, path: str) -> None:
    change(folder, lambda raw: raw["unet"]["files"][0].update(file=path))
    with pytest.raises(ReportError, match=r"its unet lies at .* no plain path inside the folder"):
        load_pipeline(folder)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda raw: raw.update(extra=1), "schema"),
        (lambda raw: raw.pop("noise"), "no error"),
        (lambda raw: raw.update(noise="mersenne"), "schema"),
        (lambda raw: raw["schedule"].update(prediction="x0"), "schema"),
        (lambda raw: raw["schedule"].update(guidance="cosine"), "schema"),
        (lambda raw: raw["schedule"].update(steps_offset=10**6), "steps_offset of 1000000"),
        (
            lambda raw: raw["tokenizer"].update(length=50),
            "input_ids of shape \\(1, 48\\) where \\(1, 50\\)",
        ),
        (
            lambda raw: raw["tokenizer"]["vocabulary"].append("new"),
            "819 tokens, more than its text encoder takes",
        ),
        (lambda raw: raw.update(latent_shape=[4, 2, 2]), "its unet has sample of shape"),
        (lambda raw: raw.update(image_size=32), "its decoder has image of shape"),
        (lambda raw: raw.update(residuals=[]), "its residuals are not the inputs"),
        (lambda raw: raw["unet"].update(files=[]), "its unet has no files"),
        (
            lambda raw: raw["unet"]["files"].append(raw["unet"]["files"][0]),
            "two of one target and precision",
        ),
        (lambda raw: raw["defaults"].update(steps=0), "its defaults are 0 steps"),
        (lambda raw: raw["defaults"].update(guidance=0.5), "a guidance of 0.5"),
        (
            lambda raw: raw["plugins"].update({"../x": raw["plugins"]["canny"]}),
            "is no name of a plugin",
        ),
        (
            lambda raw: raw["plugins"]["canny"]["part"]["iospec"]["outputs"][0].update(
                shape=[1, 5, 2, 2]
            ),
            "its plugin canny was made for another base: it gives \\[1, 5, 2, 2\\] as "
            "adapter_res_samples_00",
        ),
        (
            lambda raw: raw["plugins"]["canny"]["part"]["iospec"]["inputs"][0].update(
                shape=[1, 3, 8, 8]
            ),
            "takes no condition of 16 pixels",
        ),
        (
            lambda raw: raw["unet"]["iospec"]["inputs"][0].update(dtype="int8"),
            "its unet has sample of int8 where float32",
        ),
        (
            lambda raw: raw["unet"]["iospec"]["inputs"].pop(3),
            "a negative prompt that it is not asked about",
        ),
        (
            unguided,
            "its defaults have a guidance of 3, and its unet answers for no negative prompt",
        ),
        (swap, "its residuals are not the inputs"),
        (
            lambda raw: raw["unet"]["iospec"]["outputs"].pop(1),
            "has noise_pred_negative of shape None",
        ),
        (
            lambda raw: raw["text_encoder"]["iospec"].update(inputs=[]),
            "has input_ids of shape None",
        ),
    ],
)
def test_records_that_do_not_fit_together(
    folder: Path, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    change(folder, edit)
    if words == "no error":  # it has a default, which is the only value
        load_pipeline(folder)
        return
    with pytest.raises(ReportError, match=words):
        load_pipeline(folder)


def opened(folder: Path) -> None:
    open_files(load_pipeline(folder), folder, target=None, precision=None)


def test_a_file_that_is_missing(folder: Path) -> None:
    (folder / "unet/guided_unet.fp32.tflite").unlink()
    with pytest.raises(ArtifactError, match=r"guided_unet.fp32.tflite: no such file"):
        opened(folder)


def test_a_file_that_was_edited(folder: Path) -> None:
    (folder / "unet/guided_unet.fp32.tflite").write_bytes(b"FILE of unet")
    with pytest.raises(ArtifactError, match="its SHA-256 differs from its card"):
        opened(folder)


def test_a_file_that_was_swapped_with_its_card(folder: Path, tmp_path: Path) -> None:
    """Of another export of the same shapes: the card agrees, and pipeline.json does not."""
    other = tmp_path / "other"
    toy(other)
    path = other / "decoder/decoder.fp32.tflite"
    path.write_bytes(b"another file")
    card = json.loads((path.parent / f"{path.name}.json").read_text())
    import hashlib

    card |= {"sha256": hashlib.sha256(b"another file").hexdigest(), "bytes": 12}
    (path.parent / f"{path.name}.json").write_text(json.dumps(card))
    shutil.copytree(other / "decoder", folder / "decoder", dirs_exist_ok=True)
    with pytest.raises(ArtifactError, match=r"it is another file than pipeline\.json says"):
        opened(folder)


def test_files_of_two_parts_exchanged(folder: Path) -> None:
    def exchange(raw: dict[str, Any]) -> None:
        raw["decoder"]["files"], raw["unet"]["files"] = (
            raw["unet"]["files"],
            raw["decoder"]["files"],
        )

    change(folder, exchange)
    with pytest.raises(ArtifactError, match=r"its tensors are not those that pipeline.json says"):
        opened(folder)


@pytest.mark.parametrize("link", ["unet/guided_unet.fp32.tflite", "unet"])
def test_links(folder: Path, tmp_path: Path, link: str) -> None:
    place = folder / link
    moved = tmp_path / "elsewhere"
    shutil.move(place, moved)
    place.symlink_to(moved)
    with pytest.raises(ArtifactError, match="it is a link, or lies behind one"):
        opened(folder)


@pytest.mark.parametrize(
    ("target", "precision", "words"),
    [
        ("onnx", None, "its text_encoder has no such file, but litert fp32"),
        (None, "fp16", "litert fp16: its text_encoder"),
    ],
)
def test_a_target_or_precision_that_is_not_there(
    folder: Path, target: str | None, precision: str | None, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        open_files(load_pipeline(folder), folder, target=target, precision=precision)


def test_of_a_unet_without_guidance_no_variant_has_one(tmp_path: Path) -> None:
    few = PipelineDefaults(steps=2, guidance=1.0, solver="ddim")
    toy(tmp_path, {"few": (np.ones((1, SLOTS.width), np.float32), few)}, guided=False)
    assert not load_pipeline(tmp_path).guided
    change(tmp_path, lambda raw: raw["variants"]["few"]["defaults"].update(guidance=3.0))
    with pytest.raises(ReportError, match="its defaults of few have a guidance of 3"):
        load_pipeline(tmp_path)
