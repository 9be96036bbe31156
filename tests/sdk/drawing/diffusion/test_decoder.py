"""Quick decoders: trained, gone on with after a kill, drawn with by torch, kept with a base; a mark's loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from unplug.core import CheckpointError, DataError, InputError, read_json
from unplug.plugins import READER_SIDE, MarkReader, load_checkpoint, read_config
from unplug.sdk.drawing.device import OWN, decoder_folder, latents_sha256
from unplug.sdk.drawing.diffusion import (
    WEATHERS,
    DecoderRecipe,
    MarkLoss,
    draw_pictures,
    load_base,
    quick_decoder,
    train_decoder,
    weathered,
    write_pipeline,
)
from unplug.sdk.drawing.diffusion import run_decoder as module
from unplug.sdk.learning.data import Dataset, load_dataset, make_split

from .conftest import CPU, SPEC, shrink

FEW = DecoderRecipe(
    steps=6, batch_size=4, warmup=1, size="nano", crop=32, drawn=3, lr=2e-3, precision="fp32"
)


def train(base_folder: Path, faces: Dataset, out: Path, **how: Any) -> dict[str, Any]:
    recipe = how.pop("recipe", FEW)
    base = load_base(str(base_folder), device=CPU)
    split = make_split(faces, seed=0, validation=0.2, test=0.2)
    return train_decoder(
        base, str(base_folder), faces, split, out, recipe, seed=3, device=CPU, show=False, **how
    )


@pytest.fixture(scope="session")
def decoder_checkpoint(
    base_folder: Path, faces: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("decoder") / "quick"
    train(base_folder, faces, out, half=True)
    return out


def test_it_learns_and_says_what_it_reached(
    base_folder: Path, faces: Dataset, tmp_path: Path
) -> None:
    """A random autoencoder gives back grey; sixty steps of a decoder for it find the colours."""
    record = train(base_folder, faces, tmp_path / "d", recipe=DecoderRecipe(**FEW_MORE))
    psnr = record["metrics"]["psnr_db"]
    assert psnr["decoder"] > psnr["autoencoder"] + 2
    assert record["history"][-1]["loss"] < record["history"][0]["loss"]
    assert read_json(tmp_path / "d/unplug.json")["metrics"] == record["metrics"]
    assert not (tmp_path / ".d.training").exists()
    assert read_config(tmp_path / "d")[1]["latents_sha256"] == latents_sha256(base_folder)


FEW_MORE: dict[str, Any] = FEW.to_dict() | {"steps": 60, "drawn": 0}


def test_a_killed_run_goes_on_to_the_same_weights(
    base_folder: Path, faces: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch)
    train(base_folder, faces, tmp_path / "whole")
    real, calls = module.DecoderLoss.forward, []

    def killed(self: Any, *given: Any, **how: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(self, *given, **how)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module.DecoderLoss, "forward", killed)
        train(base_folder, faces, tmp_path / "cut")
    drawn: list[int] = []
    monkeypatch.setattr(module, "draw_latents", lambda *_, **__: drawn.append(1))
    train(base_folder, faces, tmp_path / "cut")
    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert not drawn  # what the base drew was kept
    assert all(torch.equal(value, cut[name]) for name, value in whole.items())


def test_torch_draws_with_it_and_a_saved_base_keeps_it(
    base_folder: Path, decoder_checkpoint: Path, tmp_path: Path
) -> None:
    quick = load_base(str(base_folder), device=CPU, decoder=str(decoder_checkpoint))
    own = load_base(str(base_folder), device=CPU)
    assert quick_decoder(own) is None
    how: dict[str, Any] = {"seeds": [1], "steps": 2, "guidance": 1.0}
    ours, theirs = (draw_pictures(base, ["a child"], **how)[0][0] for base in (quick, own))
    assert np.asarray(ours).shape == np.asarray(theirs).shape
    assert not np.array_equal(ours, theirs)
    write_pipeline(quick, tmp_path / "saved", half=False)
    again = load_base(str(tmp_path / "saved"), device=CPU)
    assert np.array_equal(draw_pictures(again, ["a child"], **how)[0][0], ours)
    plain = load_base(str(tmp_path / "saved"), device=CPU, decoder="autoencoder")
    assert np.array_equal(draw_pictures(plain, ["a child"], **how)[0][0], theirs)
    assert decoder_folder(tmp_path / "saved") == tmp_path / "saved" / OWN
    assert decoder_folder(base_folder) is None


def test_a_decoder_of_other_latents_is_refused(
    base_folder: Path, decoder_checkpoint: Path, faces: Dataset, tmp_path: Path
) -> None:
    base = load_base(str(base_folder), device=CPU)
    write_pipeline(base, tmp_path / "half", half=True)
    assert decoder_folder(tmp_path / "half", str(decoder_checkpoint)) == decoder_checkpoint
    write_pipeline(base, tmp_path / "other", half=False)
    path = tmp_path / "other/vae/diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    tensors["encoder.conv_in.bias"] += 1
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="other latents"):
        load_base(str(tmp_path / "other"), device=CPU, decoder=str(decoder_checkpoint))
    with pytest.raises(CheckpointError, match="other latents"):
        train(tmp_path / "other", faces, tmp_path / "x", start=decoder_checkpoint)
    with pytest.raises(CheckpointError, match="model_type"):
        decoder_folder(base_folder, str(base_folder / "vae"))
    assert not (tmp_path / "x").exists()


def test_what_cannot_be_learned_from_is_refused_first(
    base_folder: Path, faces: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="pictures of 64 px"):
        train(base_folder, load_dataset(SPEC, 32, show=False), tmp_path / "x")
    (tmp_path / "key").write_text("123")
    with pytest.raises(InputError, match="12 hexadecimal digits"):
        train(base_folder, faces, tmp_path / "x", mark=tmp_path / "key")
    with pytest.raises(InputError, match="hub"):
        split = make_split(faces, seed=0, validation=0.2, test=0.2)
        base = load_base(str(base_folder), device=CPU)
        train_decoder(base, "a/b", faces, split, tmp_path / "x", FEW, seed=0, device=CPU)
    assert not (tmp_path / "x").exists()


def test_going_on_starts_at_the_other_s_weights(
    base_folder: Path, decoder_checkpoint: Path, faces: Dataset, tmp_path: Path
) -> None:
    recipe = DecoderRecipe(**FEW.to_dict() | {"steps": 1, "lr": 1e-8, "ema": 0.0})
    record = train(base_folder, faces, tmp_path / "d", recipe=recipe, start=decoder_checkpoint)
    before, after = (
        load_checkpoint(path).model.state_dict() for path in (decoder_checkpoint, tmp_path / "d")
    )
    assert record["start"] is not None and not record["marked"]
    first = read_json(decoder_checkpoint / "unplug.json")
    # whom the start learned, and the base, whose record lists nobody, twice: it drew for both
    nobody = {"data": None}
    assert record["earlier"] == [first["split"], nobody, nobody]
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


@pytest.mark.parametrize("kind", WEATHERS)
def test_weather_keeps_shape_and_gradient_and_follows_its_generator(kind: Any) -> None:
    image = torch.rand(2, 3, 64, 64) * 2 - 1
    image.requires_grad_(True)
    one, two = (weathered(image, torch.Generator().manual_seed(4), kind) for _ in range(2))
    assert one.shape == image.shape and torch.equal(one, two)
    assert (kind == "none") == torch.equal(one, image)
    one.sum().backward()  # type: ignore[no-untyped-call]
    assert image.grad is not None and float(image.grad.abs().sum()) > 0


class _Colour(nn.Module):
    """Bit 0 is red, bit 1 is green."""

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        return {"bits": 20 * (image_BCHW.mean((2, 3))[:, :2] - 0.5)}


def test_the_mark_s_loss_pulls_pictures_to_the_key_and_leaves_the_reader() -> None:
    image = torch.zeros(1, 3, 32, 32, requires_grad=True)
    loss = MarkLoss(_Colour(), READER_SIDE, torch.tensor([1.0, 0.0]), lambda x, _: x)
    generator = torch.Generator()
    value = loss(image, generator)
    assert float(value.detach()) == pytest.approx(np.log(2), abs=1e-6)  # grey: each bit is a toss
    value.backward()
    assert image.grad is not None
    red, green, blue = image.grad.sum((0, 2, 3)).tolist()
    assert red < 0 < green and blue == 0
    assert not list(MarkLoss(MarkReader(), READER_SIDE, torch.zeros(48)).state_dict())
