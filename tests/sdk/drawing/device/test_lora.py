"""LoRA slots: zeros are the bare UNet, a file's weights are diffusers' own LoRA; variants and merged
weights by the commands.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file

from unplug.core import InputError, read_json, sha256_file, write_json
from unplug.export import psnr_db
from unplug.plugins import LORA_RANK, load_checkpoint
from unplug.plugins.lora_slots import slots_of
from unplug.sdk.drawing.device import (
    PIPELINE,
    LoraSlots,
    Slot,
    Words,
    draw,
    latent,
    load_pipeline,
    pack_loras,
)
from unplug.sdk.drawing.diffusion import base_digest, load_base, load_loras, tell_foreign

from ...cli.calls import fail
from ..diffusion.conftest import CPU, save_lora
from .test_exported import said

SLOTS = LoraSlots(
    rank=3,
    slots=(Slot(layer="a.to_q", fan_in=4, fan_out=2), Slot(layer="b.conv1", fan_in=18, fan_out=3)),
)
SHAPES = {
    "a.to_q.lora_A": (1, 4),
    "a.to_q.lora_B": (2, 1),
    "b.conv1.lora_A": (1, 2, 3, 3),
    "b.conv1.lora_B": (3, 1, 1, 1),
}
STUDENT = {
    "schema": "unplug-student/1",
    "teacher": "0" * 64,
    "sampling": {"steps": 2, "guidance": 1.0, "solver": "ddim"},
}


def lora_file(path: Path, **changes: Any) -> Path:
    """A LoRA of rank 1 on both layers of `SLOTS`, in peft's names."""
    rng = np.random.default_rng(0)
    tensors = {
        f"unet.{name}.weight": rng.standard_normal(shape).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    save_file(tensors | changes, path)
    return path


def slots_in(unet: Any) -> LoraSlots:
    slots = (
        Slot(layer=one.layer, fan_in=one.fan_in, fan_out=one.fan_out) for one in slots_of(unet)
    )
    return LoraSlots(rank=LORA_RANK, slots=tuple(slots))


def test_rows_hold_the_factors_in_the_order_of_the_slots(tmp_path: Path) -> None:
    """Of several files below each other; strengths count once."""
    one, two = lora_file(tmp_path / "1.safetensors"), lora_file(tmp_path / "2.safetensors")
    given, packed = load_file(one), pack_loras(SLOTS, [one, two], [1.0, -0.5])
    assert packed.shape == (3, 27) and not packed[2:].any()
    factors = np.split(packed, [4, 6, 24], axis=1)
    for factor, name in zip(factors, SHAPES, strict=True):
        wanted = given[f"unet.{name}.weight"].ravel()
        np.testing.assert_array_equal(factor[0], wanted)
        np.testing.assert_allclose(factor[1], wanted * (-0.5 if name.endswith("B") else 1.0))
    with pytest.raises(InputError, match="4 ranks together"):
        pack_loras(SLOTS, [one] * 4)
    with pytest.raises(InputError, match="strength"):
        pack_loras(SLOTS, [one], [float("nan")])


@pytest.fixture(scope="module")
def lora(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_lora(base_folder, tmp_path_factory.mktemp("lora") / "lora", 1)


@pytest.fixture
def student(lora: Path, tmp_path: Path) -> Path:
    """The same weights with the record of a student."""
    folder = Path(shutil.copytree(lora, tmp_path / "student"))
    write_json(folder / "unplug.json", STUDENT)
    return folder


@torch.no_grad()
def test_slots_of_zeros_are_the_guided_unet_and_filled_ones_diffusers_lora(
    base_folder: Path, lora: Path
) -> None:
    unet = load_checkpoint(base_folder / "unet", view="slotted_unet").model
    plain = load_checkpoint(base_folder / "unet", view="guided_unet").model
    base = load_base(str(base_folder), device=CPU)
    slots = slots_in(base.unet)
    generator = torch.Generator().manual_seed(0)
    asked = [torch.randn(one.shape, generator=generator) for one in unet.iospec.inputs[:-1]]
    assert unet.iospec.inputs[-1].shape == (1, LORA_RANK, slots.width)
    bare = unet(*asked, torch.zeros(1, LORA_RANK, slots.width))
    assert all(map(torch.equal, bare, plain(*asked)))
    load_loras(base, [lora])
    z, time, text, _, *residuals = asked
    added = [residual + 0.0 for residual in residuals]  # a UNet adds to some of them in place
    wanted = base.unet(z, time, text, down_intrablock_additional_residuals=added).sample
    filled, _ = unet(*asked, torch.from_numpy(pack_loras(slots, [lora])[None]))
    assert torch.allclose(filled, wanted, atol=1e-5)
    assert not torch.allclose(bare[0], wanted, atol=1e-3)


def test_weights_that_were_trained_on_another_base_are_told(
    base_folder: Path, lora: Path, student: Path
) -> None:
    base, lines = load_base(str(base_folder), device=CPU), list[str]()
    assert tell_foreign(base, [lora, student], "tiny", lines.append) == [student]
    (line,) = lines
    assert "student was trained on other weights than those of tiny: pictures may be worse" in line
    write_json(student / "unplug.json", STUDENT | {"teacher": base_digest(base)})
    assert tell_foreign(base, [lora, student], "tiny", lines.append) == [] and len(lines) == 1


@pytest.mark.long
def test_one_file_serves_the_base_and_its_variants(
    base_folder: Path, lora: Path, student: Path, generator: Path, tmp_path: Path
) -> None:
    """By the commands: weights whose record says how they draw come back by name, and as a file
    that is given draws.
    """
    out = tmp_path / "files"
    named = [f"few-steps={student}", f"twice={student}", f"twice={lora}"]
    variants = [word for one in named for word in ("--variant", one)]
    value = said(
        "export", base_folder, "--to", "onnx", "--precision", "fp32", *variants, "--out", out
    )
    pipeline = load_pipeline(out)
    assert pipeline.lora is not None and "lora" not in read_json(generator / PIPELINE)
    assert list(value["variants"]) == list(pipeline.variants) == ["few-steps", "twice"]
    few, twice = (variant.bytes for variant in pipeline.variants.values())
    assert few * 2 == twice == 4 * 4 * pipeline.lora.width
    words = Words(prompt="a portrait", steps=2, guidance=1.0, solver="ddim")
    bare, given = draw(out, words).decoded[0], draw(out, words, loras=(lora,)).decoded[0]
    by_name = draw(out, words, variant="few-steps")
    assert np.abs(bare - draw(generator, words).decoded[0]).max() < 1e-4
    assert np.abs(bare - given).max() > 1e-3
    np.testing.assert_array_equal(given, by_name.decoded[0])
    call = ("generate", "--base", out, "--prompt", "a portrait", "--out", tmp_path / "x.png")
    value = said(*call, "--variant", "few-steps")
    how = {name: value[name] for name in ("steps", "guidance", "solver", "variant")}
    assert how == STUDENT["sampling"] | {"variant": "few-steps"}  # type: ignore[operator]
    picture = np.asarray(Image.open(tmp_path / "x.png").convert("RGB"))
    np.testing.assert_array_equal(picture, by_name.images[0])
    assert "It has few-steps, twice" in fail(*call, "--variant", "other").line
    assert "both fill the slots" in fail(*call, "--variant", "twice", "--lora", lora).line
    with pytest.raises(InputError, match="without slots"):
        draw(generator, words, loras=(lora,))


@pytest.mark.long
def test_weights_made_part_of_a_base_draw_as_their_record_says(
    base_folder: Path, lora: Path, student: Path, tmp_path: Path
) -> None:
    """Without guidance the UNet's file is asked about the prompt alone, and draws what diffusers
    draws with the adapter.
    """
    from diffusers import DDIMScheduler

    out = tmp_path / "files"
    export = ("export", base_folder, "--to", "onnx", "--precision", "fp32", "--out", out, "--lora")
    value = said(*export, student)
    assert value["foreign_loras"] == [str(student)] and value["guided"] is False
    digest = sha256_file(student / "pytorch_lora_weights.safetensors")
    assert value["loras"] == [{"path": str(student), "sha256": digest}]
    pipeline = load_pipeline(out)
    assert not pipeline.guided and pipeline.lora is None
    assert (pipeline.defaults.steps, pipeline.defaults.guidance) == (2, 1.0)
    assert pipeline.name == value["base"] == "base + student"
    assert pipeline.unet.files[0].file == "unet/unet.fp32.onnx"
    base = load_base(str(base_folder), device=CPU)
    load_loras(base, [lora])
    base.scheduler = DDIMScheduler.from_config(base.scheduler.config)
    side = {"height": pipeline.image_size, "width": pipeline.image_size}
    how = {"num_inference_steps": 2, "guidance_scale": 1.0, "output_type": "latent"} | side
    with torch.no_grad():
        z = torch.from_numpy(latent(5, pipeline.latent_shape))
        wanted = base("a portrait", latents=z, **how).images
    drawn = draw(out, Words(prompt="a portrait"), seeds=(5,))
    assert psnr_db(wanted.numpy(), drawn.latents[0]) >= 60.0
    call = ("generate", "--base", out, "--prompt", "a portrait", "--out", tmp_path / "x.png")
    assert "base + student draws without" in fail(*call, "--guidance", "3").line


def test_wrong_variants_and_loras_end_in_one_line_before_any_work(
    base_folder: Path, lora: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for base, option, given, words in (
        (base_folder, "--variant", "name", "'name' is not a name with weights"),
        (base_folder, "--variant", f"={lora}", "is not a name with weights"),
        (base_folder, "--variant", f"../x={lora}", "it names a file"),
        (base_folder, "--variant", "x=gone", "gone: no such file"),
        (base_folder / "unet", "--variant", f"x={lora}", "is for a whole base"),
        (base_folder / "unet", "--lora", lora, "is for a whole base"),
        (base_folder, "--lora", tmp_path / "gone", "no such file"),
    ):
        how = ("--to", "onnx", "--precision", "fp32", "--out", out)
        assert words in fail("export", base, *how, option, given).line
    assert not (out / PIPELINE).exists()
