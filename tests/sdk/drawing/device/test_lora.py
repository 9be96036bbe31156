"""LoRA slots: zeros are the bare UNet, a file's weights are diffusers' own LoRA, and what does not
fit is refused.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from safetensors.numpy import load_file, save_file

from unplug.core import CheckpointError, InputError, read_json, sha256_file, write_json
from unplug.export import psnr_db
from unplug.plugins import LORA_RANK, load_checkpoint
from unplug.sdk.cli import main
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
from unplug.sdk.drawing.diffusion import base_digest, foreign_loras, load_base, load_loras

from ...cli.calls import fail
from ..diffusion.conftest import CPU, save_lora
from .test_exported import said

SLOTS = LoraSlots(
    rank=3,
    slots=(Slot(layer="a.to_q", fan_in=4, fan_out=2), Slot(layer="b.conv1", fan_in=18, fan_out=3)),
)


def lora_file(path: Path, **changes: Any) -> Path:
    """A LoRA of rank 1 on both layers of `SLOTS`, in peft's names."""
    generator = np.random.default_rng(0)
    shapes = {
        "unet.a.to_q.lora_A.weight": (1, 4),
        "unet.a.to_q.lora_B.weight": (2, 1),
        "unet.b.conv1.lora_A.weight": (1, 2, 3, 3),
        "unet.b.conv1.lora_B.weight": (3, 1, 1, 1),
    }
    tensors = {
        name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    save_file(
        {name: value for name, value in (tensors | changes).items() if value is not None}, path
    )
    return path


def test_rows_hold_the_factors_in_the_order_of_the_slots(tmp_path: Path) -> None:
    file = lora_file(tmp_path / "x.safetensors")
    given, packed = load_file(file), pack_loras(SLOTS, [file])
    assert packed.shape == (3, 27) and not packed[1:].any()
    parts = (packed[0, :4], packed[0, 4:6], packed[0, 6:24], packed[0, 24:])
    for part, name in zip(
        parts, ("a.to_q.lora_A", "a.to_q.lora_B", "b.conv1.lora_A", "b.conv1.lora_B"), strict=True
    ):
        np.testing.assert_array_equal(part, given[f"unet.{name}.weight"].ravel())


def test_several_stand_below_each_other_and_strengths_count_once(tmp_path: Path) -> None:
    one, two = lora_file(tmp_path / "1.safetensors"), lora_file(tmp_path / "2.safetensors")
    packed = pack_loras(SLOTS, [one, two], [1.0, -0.5])
    np.testing.assert_array_equal(packed[1, :4], packed[0, :4])
    np.testing.assert_allclose(packed[1, 4:6], -0.5 * packed[0, 4:6])


def test_alpha_scales_the_second_factor(tmp_path: Path) -> None:
    plain = pack_loras(SLOTS, [lora_file(tmp_path / "1.safetensors")])
    scaled = pack_loras(
        SLOTS,
        [
            lora_file(
                tmp_path / "2.safetensors", **{"unet.a.to_q.alpha": np.array(0.25, np.float32)}
            )
        ],
    )
    np.testing.assert_allclose(scaled[0, 4:6], 0.25 * plain[0, 4:6])
    np.testing.assert_array_equal(scaled[0, 6:], plain[0, 6:])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {
                "unet.c.to_q.lora_A.weight": np.ones((1, 4), np.float32),
                "unet.c.to_q.lora_B.weight": np.ones((2, 1), np.float32),
            },
            "no slot",
        ),
        ({"unet.a.to_q.lora_B.weight": None}, "one factor"),
        ({"unet.a.to_q.lora_A.weight": np.ones((1, 5), np.float32)}, "its update of a.to_q"),
        ({"unet.a.to_q.lora_B.weight": np.full((2, 1), np.nan, np.float32)}, "not finite"),
        ({"text_encoder.stranger": np.ones(3, np.float32)}, "no factor"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=why):
        pack_loras(SLOTS, [lora_file(tmp_path / "x.safetensors", **changes)])


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    broken, good = tmp_path / "x.safetensors", lora_file(tmp_path / "y.safetensors")
    broken.write_bytes(b"\xff" * 64)
    for path, why in (
        (broken, "cannot be read"),
        (tmp_path / "gone.safetensors", "no such file"),
        (tmp_path, "no such file"),
    ):
        with pytest.raises(CheckpointError, match=why):
            pack_loras(SLOTS, [path])
    with pytest.raises(InputError, match="4 ranks together"):
        pack_loras(SLOTS, [good] * 4)
    with pytest.raises(InputError, match="strength"):
        pack_loras(SLOTS, [good], [float("nan")])


def questions(unet: Any, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    specs = unet.iospec.inputs
    return [torch.randn(item.shape, generator=generator) for item in specs[:-1]]


@pytest.fixture(scope="module")
def lora(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_lora(base_folder, tmp_path_factory.mktemp("lora") / "lora", 1)


def slots_in(base_folder: Path) -> tuple[Any, LoraSlots]:
    unet = load_checkpoint(base_folder / "unet", view="slotted_unet").model
    own = tuple(
        Slot(layer=item.layer, fan_in=item.fan_in, fan_out=item.fan_out) for item in unet.slots
    )
    return unet, LoraSlots(rank=LORA_RANK, slots=own)


@torch.no_grad()
def test_zeros_are_the_guided_unet(base_folder: Path) -> None:
    unet, slots = slots_in(base_folder)
    plain = load_checkpoint(base_folder / "unet", view="guided_unet").model
    asked = questions(unet)
    assert unet.iospec.inputs[-1].shape == (1, LORA_RANK, slots.width)
    for own, other in zip(
        unet(*asked, torch.zeros(1, LORA_RANK, slots.width)), plain(*asked), strict=True
    ):
        assert torch.equal(own, other)


@torch.no_grad()
def test_a_lora_is_the_one_of_diffusers(base_folder: Path, lora: Path) -> None:
    unet, slots = slots_in(base_folder)
    asked = questions(unet)
    base = load_base(str(base_folder), device=CPU)
    load_loras(base, [lora])
    z, time, text, *residuals = (asked[place] for place in (0, 1, 2, *range(4, len(asked))))
    expected = base.unet(
        z, time, text, down_intrablock_additional_residuals=[item + 0.0 for item in residuals]
    ).sample
    found, _ = unet(*asked, torch.from_numpy(pack_loras(slots, [lora])[None]))
    bare, _ = unet(*asked, torch.zeros(1, LORA_RANK, slots.width))
    assert torch.allclose(found, expected, atol=1e-5) and not torch.allclose(
        bare, expected, atol=1e-3
    )


@pytest.mark.long
def test_one_file_serves_the_base_and_its_variants(
    base_folder: Path, lora: Path, generator: Path, tmp_path: Path
) -> None:
    """By the commands: weights whose record says how they draw come back by name, and as a file
    that is given draws.
    """
    out, student = tmp_path / "files", Path(shutil.copytree(lora, tmp_path / "student"))
    sampling = {"steps": 2, "guidance": 1.0, "solver": "ddim"}
    write_json(student / "unplug.json", {"schema": "unplug-student/1", "sampling": sampling})
    named = (
        "--variant",
        f"few-steps={student}",
        "--variant",
        f"twice={student}",
        "--variant",
        f"twice={lora}",
    )
    value = said("export", base_folder, "--to", "onnx", "--precision", "fp32", *named, "--out", out)
    found = load_pipeline(out)
    assert found.lora is not None and "lora" not in read_json(generator / PIPELINE)
    assert list(value["variants"]) == list(found.variants) == ["few-steps", "twice"]
    assert (
        found.variants["few-steps"].bytes * 2
        == found.variants["twice"].bytes
        == 4 * 4 * found.lora.width
    )
    words = Words(prompt="a portrait", steps=2, guidance=1.0, solver="ddim")
    bare, given, by_name = (
        draw(out, words),
        draw(out, words, loras=(lora,)),
        draw(out, words, variant="few-steps"),
    )
    assert np.abs(bare.decoded[0] - draw(generator, words).decoded[0]).max() < 1e-4
    assert np.abs(bare.decoded[0] - given.decoded[0]).max() > 1e-3
    np.testing.assert_array_equal(given.decoded[0], by_name.decoded[0])
    call = ("generate", "--base", out, "--prompt", "a portrait", "--out", tmp_path / "x.png")
    value = said(*call, "--variant", "few-steps")
    assert (value["steps"], value["guidance"], value["solver"], value["variant"]) == (
        2,
        1.0,
        "ddim",
        "few-steps",
    )
    np.testing.assert_array_equal(
        np.asarray(Image.open(tmp_path / "x.png").convert("RGB")), by_name.images[0]
    )
    assert "It has few-steps, twice" in fail(*call, "--variant", "other").line
    assert "both fill the slots" in fail(*call, "--variant", "twice", "--lora", lora).line
    with pytest.raises(InputError, match="without slots"):
        draw(generator, words, loras=(lora,))


def test_weights_that_were_trained_on_another_base_are_told(
    base_folder: Path, lora: Path, tmp_path: Path
) -> None:
    base, student = (
        load_base(str(base_folder), device=CPU),
        Path(shutil.copytree(lora, tmp_path / "student")),
    )
    record = {
        "schema": "unplug-student/1",
        "sampling": {"steps": 1, "guidance": 1.0, "solver": "ddim"},
    }
    call = (
        "generate",
        "--base",
        base_folder,
        "--prompt",
        "a",
        "--lora",
        student,
        "--out",
        tmp_path / "x.png",
    )
    for teacher, told in ((base_digest(base), False), ("0" * 64, True)):
        write_json(student / "unplug.json", {**record, "teacher": teacher})
        assert foreign_loras(base, [lora, student]) == [student] * told
        result = CliRunner().invoke(main, [*map(str, call)], catch_exceptions=False)
        assert (
            result.exit_code == 0
            and ("student was trained on other weights than those of" in result.stderr) == told
        )


@pytest.mark.long
def test_weights_made_part_of_a_base_draw_as_their_record_says(
    base_folder: Path, lora: Path, tmp_path: Path
) -> None:
    """Without guidance the UNet's file is asked about the prompt alone, and draws what diffusers
    draws with the adapter.
    """
    from diffusers import DDIMScheduler

    out, student = tmp_path / "files", Path(shutil.copytree(lora, tmp_path / "student"))
    write_json(
        student / "unplug.json",
        {
            "schema": "unplug-student/1",
            "teacher": "0" * 64,
            "sampling": {"steps": 2, "guidance": 1.0, "solver": "ddim"},
        },
    )
    value = said(
        "export",
        base_folder,
        "--to",
        "onnx",
        "--precision",
        "fp32",
        "--lora",
        student,
        "--out",
        out,
    )
    assert (
        value["foreign_loras"] == [str(student)]
        and value["guided"] is False
        and value["base"] == "base + student"
    )
    assert value["loras"] == [
        {"path": str(student), "sha256": sha256_file(student / "pytorch_lora_weights.safetensors")}
    ]
    found = load_pipeline(out)
    assert (
        not found.guided
        and found.lora is None
        and (found.defaults.steps, found.defaults.guidance) == (2, 1.0)
    )
    assert found.name == "base + student" and found.unet.files[0].file == "unet/unet.fp32.onnx"
    base = load_base(str(base_folder), device=CPU)
    load_loras(base, [lora])
    base.scheduler = DDIMScheduler.from_config(base.scheduler.config)
    z = latent(5, found.latent_shape)
    with torch.no_grad():
        wanted = base(
            "a portrait",
            num_inference_steps=2,
            guidance_scale=1.0,
            latents=torch.from_numpy(z),
            output_type="latent",
            height=found.image_size,
            width=found.image_size,
        ).images
    drawn = draw(out, Words(prompt="a portrait"), seeds=(5,))
    assert psnr_db(wanted.numpy(), drawn.latents[0]) >= 60.0
    call = ("generate", "--base", out, "--prompt", "a portrait", "--out", tmp_path / "x.png")
    assert "base + student draws without" in fail(*call, "--guidance", "3").line
    assert (
        "is for a whole base"
        in fail("export", base_folder / "unet", "--lora", lora, "--out", tmp_path / "y").line
    )
    assert (
        "no such file"
        in fail("export", base_folder, "--lora", tmp_path / "gone", "--out", tmp_path / "y").line
    )


def test_wrong_variants_end_in_one_line_before_any_work(
    base_folder: Path, lora: Path, tmp_path: Path
) -> None:
    call = (
        "export",
        base_folder,
        "--to",
        "onnx",
        "--precision",
        "fp32",
        "--out",
        tmp_path / "out",
        "--variant",
    )
    for given, words in {
        "name": "'name' is no name with weights",
        f"={lora}": "is no name with weights",
        f"../x={lora}": "it names a file",
        "x=gone": "gone: no such file",
    }.items():
        assert words in fail(*call, given).line
    assert (
        "is for a whole base" in fail("export", base_folder / "unet", *call[2:], f"x={lora}").line
    )
    assert not (tmp_path / "out" / PIPELINE).exists()
