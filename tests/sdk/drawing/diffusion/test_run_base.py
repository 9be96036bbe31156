"""Training a base: killed in either phase and continued to the same bytes, refused where it would
harm, an ordinary folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from unplug.core import CheckpointError, DataError, InputError, OutputError, TrainingError
from unplug.sdk.drawing.diffusion import (
    BaseRecipe,
    VAERecipe,
    base_record,
    image_size_of,
    load_base,
    to_image,
    train_base,
)
from unplug.sdk.drawing.diffusion import run_base as module
from unplug.sdk.drawing.diffusion.base_files import prefix_text_encoder
from unplug.sdk.drawing.diffusion.base_training import BaseLoss, TextPairs, tokenize
from unplug.sdk.drawing.diffusion.digest import base_digest, weights_digest
from unplug.sdk.drawing.diffusion.measure import LEVELS, batch_losses
from unplug.sdk.drawing.diffusion.run_base import base_metrics
from unplug.sdk.drawing.diffusion.small import (
    build_scheduler,
    build_text_encoder,
)
from unplug.sdk.drawing.diffusion.tokenizer import (
    encode,
    plain_tokenizer,
    spelled_words,
    teach_words,
    train_tokenizer,
)
from unplug.sdk.drawing.diffusion.vae import Crops
from unplug.sdk.learning.data import Dataset, Split, load_dataset, make_split

from .conftest import CPU, SIZE, Killed, kill_after, shrink, tiny_unet

VAE = VAERecipe(steps=4, batch_size=2, crop=32, channels=4, warmup=1, precision="fp32")
BASE = BaseRecipe(steps=4, batch_size=2, warmup=1, captions=2, precision="fp32")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.fixture(scope="module")
def split(faces: Dataset) -> Split:
    return make_split(faces, seed=0, validation=0.2, test=0.2)


Run = Callable[..., Path]


@pytest.fixture
def run(faces: Dataset, split: Split) -> Run:
    def train(out: Path, **more: Any) -> Path:
        given = {
            "dataset": faces,
            "split": split,
            "vae_recipe": VAE,
            "recipe": BASE,
            "seed": 1,
            "sample_every": 2,
        } | more
        return train_base(out=out, device=CPU, show=False, **given)

    return train


def weights(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.safetensors"))
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, faces: Dataset, split: Split) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        out = tmp_path_factory.mktemp("whole") / "base"
        return train_base(
            faces, split, out, VAE, BASE, seed=1, device=CPU, sample_every=0, show=False
        )


@pytest.mark.long
def test_an_ordinary_folder_with_its_record(whole: Path, faces: Dataset, split: Split) -> None:
    assert {path.name for path in whole.iterdir()} == set(module.BASE_FILES) - {"decoder"}
    assert not (whole.parent / ".base.training").exists()
    pipe = load_base(str(whole), device=CPU)
    assert image_size_of(pipe) == SIZE and type(pipe).__name__ == "StableDiffusionPipeline"
    assert {
        value.dtype for file in whole.rglob("*.safetensors") for value in load_file(file).values()
    } == {torch.float32}
    record = base_record(str(whole))
    assert record["data"]["digest"] == faces.digest and record["split"]["sha256"] == split.sha256
    assert record["parameters"]["unet"] == sum(value.numel() for value in pipe.unet.parameters())
    assert record["history"]["vae"][-1]["step"] == 4 == record["history"]["base"][-1]["step"]
    assert record["metrics"]["vae_psnr_db"] > 0 and record["metrics"]["n"] == len(split.validation)
    rows = [int(row) for row in faces.indices(split.train)]
    latent = module.encode_all(pipe.vae, faces, rows, CPU) * pipe.vae.config.scaling_factor
    assert float(latent.std()) == pytest.approx(1.0, abs=1e-4)
    card = (whole / "README.md").read_text()
    assert f"{record['parameters']['unet']:,}" in card and "no photograph" in card


@pytest.mark.long
@pytest.mark.parametrize(("drawer", "after"), [(Crops, 2), (TextPairs, 3)])
def test_killed_it_goes_on(
    run: Run, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawer: Any, after: int
) -> None:
    work = tmp_path / ".base.training"
    with monkeypatch.context() as patch:
        kill_after(patch, drawer, after)
        with pytest.raises(Killed):
            run(tmp_path / "base")
    assert not (tmp_path / "base").exists()
    names = {path.name for path in work.iterdir()}
    assert "vae.safetensors" in names and ("unet.safetensors" in names) == (drawer is TextPairs)
    assert "vae-0000004.png" in names or drawer is Crops
    if drawer is TextPairs:
        monkeypatch.setattr(
            module, "train_tokenizer", lambda *_, **__: pytest.fail("it got another tokenizer")
        )
        monkeypatch.setattr(
            Crops, "__call__", lambda *_: pytest.fail("the autoencoder was trained again")
        )
    assert weights(run(tmp_path / "base")) == weights(whole) and not work.exists()


@pytest.mark.long
def test_another_recipe_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And other captions, which the digest of the pixels does not tell; `restart` drops the run."""
    with monkeypatch.context() as patch:
        kill_after(patch, TextPairs, 2)
        with pytest.raises(Killed):
            run(tmp_path / "base")
    why = "an unfinished run of another recipe, data or seed"
    for more in (
        {"recipe": replace(BASE, lr=0.01)},
        {"seed": 2},
        {"vae_recipe": replace(VAE, lr=0.1)},
    ):
        with pytest.raises(CheckpointError, match=why):
            run(tmp_path / "base", **more)
    named = module.captions_of

    def renamed(*given: Any, **how: Any) -> Any:
        return [(f"painting of {texts[0]}", *texts[1:]) for texts in named(*given, **how)]

    monkeypatch.setattr(module, "captions_of", renamed)
    with pytest.raises(CheckpointError, match=why):
        run(tmp_path / "base")
    run(tmp_path / "base", restart=True, recipe=replace(BASE, lr=0.01))
    assert base_record(str(tmp_path / "base"))["recipe"]["base"]["lr"] == 0.01


def test_refused_training(
    run: Run, tmp_path: Path, split: Split, faces: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder of diffusers that this command did not write is somebody else's, too.
    for inside in ("notes.txt", "model_index.json"):
        out = tmp_path / inside.partition(".")[0]
        out.mkdir()
        (out / inside).write_text("{}")
        with pytest.raises(OutputError, match="it exists and was not written by this command"):
            run(out)
        assert [path.name for path in out.iterdir()] == [inside]
    Image.new("RGB", (SIZE, SIZE)).save(tmp_path / "a.png")
    odd = load_dataset("synth:n=6", 36, show=False)
    plain = load_dataset(f"imagefolder:{tmp_path}", SIZE, show=False)
    for more, why in (
        ({"dataset": odd}, "36 px is not a multiple of 8"),
        ({"dataset": plain}, "it has no captions"),
        ({"split": replace(split, validation=())}, "no training or no validation samples"),
    ):
        with pytest.raises(DataError, match=why):
            run(tmp_path / "base", **more)
    monkeypatch.setattr(module, "processes", lambda _: type("Team", (), {"num_processes": 2}))
    with pytest.raises(InputError, match="train base: it runs in one process"):
        run(tmp_path / "base")


@pytest.mark.long
def test_words_become_tokens_and_other_prompts_keep_their_ids(
    run: Run, base_folder: Path, tmp_path: Path
) -> None:
    """With the autoencoder left as it is; exported tokenizers read the same ids."""
    before = load_base(str(base_folder), device=CPU)
    out = run(
        tmp_path / "base",
        start=load_base(str(base_folder), device=CPU),
        words=["Child patch", "patch hat"],
        vae_recipe=replace(VAE, steps=0),
    )
    after, record = load_base(str(out), device=CPU), base_record(str(out))
    assert record["words"] == ["patch", "hat"] and record["history"]["vae"] == []
    assert weights_digest(after.vae) == weights_digest(before.vae)
    size = len(before.tokenizer)
    for prompt in ("a portrait of a child, smiling", "patches, that", ""):
        assert torch.equal(encode(after.tokenizer, [prompt]), encode(before.tokenizer, [prompt]))
    told = "an adult, Patch, HAT"
    ids = encode(after.tokenizer, [told])[0].tolist()
    assert {size, size + 1} < set(ids) and after.text_encoder.config.vocab_size == size + 2
    told_of = plain_tokenizer(after.tokenizer).encode(told)
    assert list(told_of.ids) == ids and {"patch", "hat"}.isdisjoint(told_of.spelled)


def test_a_new_word_starts_as_the_mean_of_its_pieces(base_folder: Path) -> None:
    base = load_base(str(base_folder), device=CPU)
    pieces = base.tokenizer("patch", add_special_tokens=False).input_ids
    table = base.text_encoder.get_input_embeddings().weight.clone()
    assert spelled_words(base.tokenizer, ["a patch", "PATCH"]) == ("patch",)
    taught = teach_words(base.tokenizer, base.text_encoder, ["patch"])
    rows = base.text_encoder.get_input_embeddings().weight
    assert len(pieces) > 1 and len(rows) == len(taught) == len(table) + 1
    torch.testing.assert_close(rows[-1], table[pieces].mean(dim=0))
    assert torch.equal(rows[:-1], table)


def test_words_and_a_kept_autoencoder_need_a_start(run: Run, tmp_path: Path) -> None:
    for more, what in (
        ({"words": ["patch"]}, "`words`"),
        ({"vae_recipe": replace(VAE, steps=0)}, "`vae_steps` 0"),
    ):
        with pytest.raises(InputError, match=f"{what}.*nothing is there to go on from"):
            run(tmp_path / "base", **more)


def test_the_text_encoder_is_named_as_older_transformers_want_it(
    whole: Path, base_folder: Path, tmp_path: Path
) -> None:
    """transformers before 5.1 would start from random numbers; this one takes either form, and
    misses nothing.
    """
    file, prefix = "text_encoder/model.safetensors", "text_model."
    named = load_file(whole / file)
    assert all(name.startswith(prefix) and name.count(prefix) == 1 for name in named)
    loaded = load_base(str(whole), device=CPU).text_encoder.state_dict()
    assert {name.removeprefix(prefix): value.tolist() for name, value in named.items()} == {
        name.removeprefix(prefix): value.tolist() for name, value in loaded.items()
    }
    old = Path(shutil.copytree(base_folder, tmp_path / "old"))
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    digest = base_digest(load_base(str(old), device=CPU))
    for _ in range(2):
        prefix_text_encoder(old)
        changed = [path for path, raw in before.items() if path.read_bytes() != raw]
        assert changed == [old / file]
        assert base_digest(load_base(str(old), device=CPU)) == digest
        assert {path for path in old.rglob("*") if path.is_file()} == before.keys()


@pytest.mark.long
def test_the_state_goes_after_the_result_is_read(
    run: Run, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weight beyond float16, and a disk that loses bytes: the training is not lost with them."""
    fit, save = module.fit_base, module.save_base

    def large(*given: Any, **how: Any) -> Any:
        done = fit(*given, **how)
        done.model.unet.conv_out.bias.data[0] = 1e5
        return done

    def spoil(pipe: Any, out: Path, record: Any, *, half: bool) -> None:
        save(pipe, out, record, half=half)
        (out / "unet/diffusion_pytorch_model.safetensors").write_bytes(b"\0lost")

    for name, harm, error, words in (
        ("fit_base", large, TrainingError, r"conv_out\.bias are NaN or infinite in float16"),
        ("save_base", spoil, CheckpointError, "has 5 bytes"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, harm)
            with pytest.raises(error, match=words):
                run(tmp_path / "base", half=harm is large)
        assert {"vae.safetensors", "unet.safetensors"} <= {
            path.name for path in (tmp_path / ".base.training").iterdir()
        }
    monkeypatch.setattr(TextPairs, "__call__", lambda *_: pytest.fail("it was trained again"))
    assert (
        weights(run(tmp_path / "base")) == weights(whole)
        and not (tmp_path / ".base.training").exists()
    )


def test_what_a_record_says_of_a_base_by_hand(
    base: Any, faces: Dataset, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions = [(f"a child, {number}", "unused") for number in range(len(faces))]
    monkeypatch.setattr(module, "pictures_at_once", lambda _: 3)
    metrics = base_metrics(base, faces, split, captions)
    rows = [int(row) for row in faces.indices(split.validation)]
    assert metrics["n"] == len(rows) == 4
    image = to_image(faces.pixels(rows), CPU)
    with torch.no_grad():
        error = (base.vae(image).sample.clamp(-1, 1) - image).square().mean(dim=(1, 2, 3))
        latent = base.vae.encode(image).latent_dist.mean * base.vae.config.scaling_factor
        text = base.text_encoder(encode(base.tokenizer, [captions[row][0] for row in rows]))[0]
    assert metrics["vae_psnr_db"] == pytest.approx(
        float((10 * (4 / error).log10()).mean()), rel=1e-4
    )
    table = batch_losses(None, None, base, {"latent_Bchw": latent, "text_BLD": text}, LEVELS, 0)
    assert metrics["loss"] == pytest.approx(float(table.mean()), rel=1e-4)


def test_pairs_of_latents_and_prompts(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["one two three"], tmp_path, vocabulary=520, length=8)
    ids = tokenize(tokenizer, [("one", "two"), ("three",), ("one two", "two one")])
    # the only one, repeated
    assert tuple(ids.shape) == (3, 2, 8) and torch.equal(ids[1, 0], ids[1, 1])
    assert torch.equal(ids[2, 1].long(), encode(tokenizer, ["two one"])[0])
    empty = encode(tokenizer, [""])[0]
    latent = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 1, 2, 2)
    for drop in (0.0, 0.3, 1.0):
        batch = TextPairs(latent, ids, empty, drop, CPU)(torch.Generator().manual_seed(2), 300)
        gone = (batch["ids_BL"] == empty).all(dim=1)
        assert float(gone.float().mean()) == pytest.approx(drop, abs=0.1 * (0 < drop < 1))
        rows = batch["latent_Bchw"][~gone, 0, 0, 0].int().tolist()
        for row, words in zip(rows, batch["ids_BL"][~gone], strict=True):
            assert any(torch.equal(words, prompt.long()) for prompt in ids[row])


def test_the_loss_is_of_the_velocity_and_reaches_the_text(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["one two three"], tmp_path, vocabulary=520, length=8)
    torch.manual_seed(0)
    model = BaseLoss(tiny_unet(), build_text_encoder(tokenizer, width=32), build_scheduler())
    latent, ids = torch.randn(2, 4, 8, 8), encode(tokenizer, ["one", "two"])
    loss = model(latent, ids, torch.Generator().manual_seed(6))
    generator = torch.Generator().manual_seed(6)
    step = (torch.rand(2, generator=generator) * 1000).long()
    noise = torch.randn(2, 4, 8, 8, generator=generator)
    noisy = model.scheduler.add_noise(latent, noise, step)
    guess = model.unet(noisy, step, model.text_encoder(ids)[0]).sample
    expected = (guess - model.scheduler.get_velocity(latent, noise, step)).square().mean()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    loss.backward()
    lost = [name for name, value in model.named_parameters() if value.grad is None]
    assert not lost
