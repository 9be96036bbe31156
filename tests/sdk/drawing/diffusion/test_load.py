"""Opening a base: every wrong folder is one typed line, and nothing of it is made up."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError, write_json
from unplug.sdk.drawing.diffusion import (
    OURS,
    base_record,
    drawing_dtype,
    generate,
    image_size_of,
    load_base,
    sampling_of,
)
from unplug.sdk.drawing.diffusion.base_files import save_base
from unplug.sdk.drawing.diffusion.load import is_ours
from unplug.sdk.drawing.diffusion.shipped import USUAL
from unplug.sdk.drawing.diffusion.small import diffusers

from .conftest import CPU, SIZE, picture, tiny_pipeline

DIFFUSERS, TRANSFORMERS = "diffusion_pytorch_model.safetensors", "model.safetensors"
Harm = Callable[[Path], object]


FILE = {"unet": DIFFUSERS, "vae": DIFFUSERS, "text_encoder": TRANSFORMERS}


def edit(path: str, **changes: Any) -> Harm:
    def harm(folder: Path) -> None:
        write_json(folder / path, json.loads((folder / path).read_text()) | changes)

    return harm


def tensors(part: str, change: Callable[[torch.Tensor], torch.Tensor | None]) -> Harm:
    """The first tensor of a part changed, or taken out."""

    def harm(folder: Path) -> None:
        path = folder / part / FILE[part]
        held = load_file(path)
        name = min(held)
        value = change(held.pop(name))
        save_file(held if value is None else held | {name: value}, path, metadata={"format": "pt"})

    return harm


def pickled(part: str, name: str) -> Harm:
    def harm(folder: Path) -> None:
        torch.save(load_file(folder / part / FILE[part]), folder / part / name)
        (folder / part / FILE[part]).unlink()

    return harm


def remove(path: str) -> Harm:
    return lambda folder: (folder / path).unlink()


def write(path: str, text: str) -> Harm:
    return lambda folder: (folder / path).write_text(text)


def broken(value: torch.Tensor) -> torch.Tensor:
    return torch.full_like(value, torch.nan)


INDEX, UNET, WORDS = "model_index.json", "unet/config.json", "tokenizer/tokenizer_config.json"
ON_8_BIT = {"quant_method": "bitsandbytes", "load_in_8bit": True}
SIZE_OF = r"no square sample_size of its UNet \("


def single_file(folder: Path) -> None:
    (folder / INDEX).rename(folder / "sd.safetensors")


def no_words(folder: Path) -> None:
    for file in (folder / "tokenizer").glob("*.json"):
        file.unlink()


WRONG: dict[str, tuple[Harm, str]] = {
    "no index": (remove(INDEX), "not a diffusers folder: no model_index.json in it"),
    "single file": (single_file, r"sd\.safetensors is a single-file checkpoint"),
    "broken index": (write(INDEX, "{"), "model_index.json: not valid JSON"),
    "list index": (write(INDEX, "[]"), "it has no unet, vae, text_encoder"),
    "unet missing": (lambda folder: shutil.rmtree(folder / "unet"), "it has no unet"),
    "unet null": (edit(INDEX, unet=[None, None]), "its unet is"),
    "other unet": (edit(INDEX, unet=["transformers", "CLIPTextModel"]), "its unet is"),
    "a module to import": (edit(INDEX, unet=["antigravity", "fly"]), "its unet is"),
    "sdxl": (edit(INDEX, text_encoder_2=["transformers", "CLIP"]), "text_encoder_2: not a Stable"),
    "broken config": (write(UNET, "{"), "not valid JSON"),
    "no config": (remove(UNET), "no file named config.json"),
    "no weights": (remove(f"unet/{DIFFUSERS}"), f"no file named {DIFFUSERS}"),
    "cut weights": (write(f"unet/{DIFFUSERS}", "\0" * 900), "it begins with zeros"),
    "pickle": (pickled("unet", "diffusion_pytorch_model.bin"), f"no file named {DIFFUSERS}"),
    "text pickle": (pickled("text_encoder", "pytorch_model.bin"), f"no file named {TRANSFORMERS}"),
    "unet lacks": (tensors("unet", lambda _: None), r"its unet lacks the tensor conv_in\.bias"),
    "text lacks": (
        tensors("text_encoder", lambda _: None),
        "its text_encoder lacks the tensor embeddings",
    ),
    "unet nan": (tensors("unet", broken), "its unet holds NaN or infinity in conv_in"),
    "vae nan": (tensors("vae", broken), "its vae holds NaN"),
    "unet shape": (tensors("unet", lambda value: value[:3].clone()), "expected shape"),
    "inpainting": (edit(UNET, in_channels=9), "expected shape"),
    "no words": (no_words, "tokenizer"),
    "endless prompts": (edit(WORDS, model_max_length=10**30), "prompts of 1000.* takes 16"),
    "no size": (edit(UNET, sample_size=None), rf"{SIZE_OF}None\)"),
    "oblong": (edit(UNET, sample_size=[8, 16]), rf"{SIZE_OF}\[8, 16\]\)"),
    "flow": (
        edit(INDEX, scheduler=["diffusers", "FlowMatchEulerDiscreteScheduler"]),
        "without noise levels",
    ),
    "quantized": (edit(UNET, quantization_config=ON_8_BIT), "GPU"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_wrong_folders(
    base_folder: Path, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    harm, words = WRONG[name]
    shutil.copytree(base_folder, tmp_path / "base")
    harm(tmp_path / "base")
    with pytest.raises(CheckpointError, match=words) as caught:
        load_base(str(tmp_path / "base"), device=CPU)
    line = str(caught.value)
    assert "\n" not in line and str(tmp_path) in line and len(line) < 500 + len(str(tmp_path))
    assert capfd.readouterr() == ("", "")


def test_names_that_are_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiny", "a/b/c", "./tiny", "../x/y", "~/base", "/nowhere/base"):
        with pytest.raises(
            CheckpointError,
            match=r"no such folder. Give 'small', a folder that diffusers wrote, or OWNER/NAME",
        ):
            load_base(name, device=CPU)
    (tmp_path / "sd.safetensors").touch()
    with pytest.raises(CheckpointError, match=r"sd\.safetensors: it is a file"):
        load_base(str(tmp_path / "sd.safetensors"), device=CPU)
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        CheckpointError, match="unplug-tests/no-such-base: diffusers cannot load it"
    ) as caught:
        load_base("unplug-tests/no-such-base", device=CPU)
    assert "\n" not in str(caught.value)


def test_a_loaded_base_is_frozen_and_leaves_the_process_as_it_was(
    base: Any, base_folder: Path
) -> None:
    for part in (base.unet, base.vae, base.text_encoder):
        assert not part.training and not any(
            parameter.requires_grad for parameter in part.parameters()
        )
    assert base.safety_checker is None and image_size_of(base) == SIZE
    # Bars and hints of diffusers and transformers belong to whoever runs the process.
    import diffusers
    import transformers

    def state() -> list[object]:
        theirs: tuple[Any, ...] = (diffusers.utils.logging, transformers.utils.logging)
        return [(one.get_verbosity(), one.is_progress_bar_enabled()) for one in theirs] + [
            list(warnings.filters)
        ]

    before = state()
    assert before[0] == (30, True)
    generate(load_base(str(base_folder), device=CPU), ["a child"], seeds=[0], size=SIZE, steps=1)
    assert state() == before


def test_a_hub_name_is_fetched_and_checked(
    base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diffusers import StableDiffusionPipeline

    asked: dict[str, Any] = {}

    def download(name: str, **how: Any) -> str:
        asked.update(name=name, **how)
        return str(tmp_path / "snapshot")

    monkeypatch.setattr(StableDiffusionPipeline, "download", download)
    shutil.copytree(base_folder, tmp_path / "snapshot")
    assert image_size_of(load_base("someone/something", device=CPU)) == SIZE
    assert (
        asked["name"] == "someone/something"
        and asked["use_safetensors"] is True
        and "trust_remote_code" not in asked
    )
    (tmp_path / "snapshot/model_index.json").unlink()
    with pytest.raises(CheckpointError, match="not a diffusers folder"):
        load_base("someone/something", device=CPU)


def test_what_ships_and_how_it_is_drawn(base_folder: Path, tmp_path: Path) -> None:
    assert base_record("small")["schema"] == "unplug-base/1" and base_record(str(base_folder)) == {}
    # Ours, told by their record, in full precision with little guidance; Stable Diffusion as
    # everybody draws it.
    shutil.copytree(base_folder, tmp_path / "ours")
    write_json(tmp_path / "ours/unplug.json", {"schema": "unplug-base/1"})
    cuda = torch.device("cuda", 0)
    for name, ours in (
        ("small", True),
        (str(tmp_path / "ours"), True),
        (str(base_folder), False),
        ("owner/name", False),
    ):
        assert is_ours(name) == ours and sampling_of(name) == (OURS if ours else USUAL)
        assert drawing_dtype(name, cuda) == (torch.float32 if ours else torch.float16)
        assert drawing_dtype(name, CPU) == torch.float32


def test_an_autoencoder_of_another_factor_is_refused(tmp_path: Path) -> None:
    """Plugins, sizes and latents count on 8."""
    pipe = tiny_pipeline(tmp_path / "tokenizer")
    pipe.vae = diffusers().AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=4,
        block_out_channels=(8, 8, 16),
        norm_num_groups=2,
        sample_size=SIZE,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
    )
    pipe.save_pretrained(tmp_path / "base")
    with pytest.raises(
        CheckpointError, match="an autoencoder that shrinks pictures by 4, not by 8"
    ):
        load_base(str(tmp_path / "base"), device=CPU)


def dtypes(pipe: Any) -> set[torch.dtype]:
    parts = (pipe.unet, pipe.vae, pipe.text_encoder)
    return {
        value.dtype
        for part in parts
        for value in part.state_dict().values()
        if value.is_floating_point()
    }


@pytest.mark.long
def test_halves_are_stored_and_floats_are_loaded(tmp_path: Path, base: Any) -> None:
    """By us, and by stock diffusers with and without a type: its parts must agree, or nothing can
    be drawn.
    """
    from diffusers import StableDiffusionPipeline

    halves, numbers = tmp_path / "base", {"unet": 1, "vae": 1, "text_encoder": 1}
    record = {
        "image_size": SIZE,
        "data": {"spec": "synth:n=1"},
        "seed": 0,
        "metrics": {"vae_psnr_db": 1.0},
        "parameters": numbers,
    }
    save_base(tiny_pipeline(tmp_path / "tokenizer"), halves, record, half=True)
    files = sorted(halves.rglob("*.safetensors"))
    assert len(files) == 3 and {
        value.dtype for file in files for value in load_file(file).values()
    } == {torch.float16}
    ours = load_base(str(halves), device=CPU)
    pictures = [picture(ours, output_type="np")]
    for how in ({}, {"dtype": torch.float32}):
        pipe = StableDiffusionPipeline.from_pretrained(halves, **how)
        assert dtypes(pipe) == {torch.float32}
        pictures.append(picture(pipe, output_type="np"))
    assert dtypes(ours) == {torch.float32}
    assert (
        all((other == pictures[0]).all() for other in pictures)
        and abs(pictures[0] - picture(base, output_type="np")).max() < 0.02
    )
    assert dtypes(load_base(str(halves), device=CPU, dtype=torch.float16)) == {torch.float16}
