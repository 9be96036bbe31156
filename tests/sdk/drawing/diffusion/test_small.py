"""The parts of the small base: every text in tokens that give it back, and an autoencoder whose
loss is by hand.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import to_image
from unplug.sdk.drawing.diffusion.tokenizer import (
    _words,
    encode,
    learn_merges,
    open_tokenizer,
    train_tokenizer,
)
from unplug.sdk.drawing.diffusion.vae import (
    KL_WEIGHT,
    Crops,
    VAELoss,
    psnr,
    reconstruction,
    scaling_factor,
)
from unplug.sdk.learning.data import Dataset, Sample

from .conftest import CPU, WORDS, tiny_vae

LENGTH = 12


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train_tokenizer(WORDS, tmp_path_factory.mktemp("words"), vocabulary=560, length=LENGTH)


def model_of(tokenizer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    return {key: found[key] for key in ("vocab", "merges")}


@given(text=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40))
def test_any_text_is_tokens_that_give_it_back(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text).input_ids
    start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    assert (ids[0], ids[-1]) == (start, end) and not {start, end, tokenizer.unk_token_id} & set(
        ids[1:-1]
    )
    normal = tokenizer.backend_tokenizer.normalizer.normalize_str(text)
    assert "".join(tokenizer.decode(ids, skip_special_tokens=True).split()) == "".join(
        normal.split()
    )
    assert len(ids) - 2 <= len(normal.encode())  # a byte a token at worst


@given(words=st.lists(st.text("abc", min_size=1, max_size=7), max_size=12), most=st.integers(0, 12))
def test_against_counting_anew_after_every_merge(words: list[str], most: int) -> None:
    """Each merge is of a pair that is in most places; of equals the trainer takes which it likes,
    always the same.
    """
    spelled = [[*word[:-1], f"{word[-1]}</w>"] for word in words]
    merges = learn_merges(words, most)
    for merge in merges:
        pairs = Counter(pair for symbols in spelled for pair in itertools.pairwise(symbols))
        assert pairs[merge] == max(pairs.values())
        for symbols in spelled:
            place = 0
            while place < len(symbols) - 1:
                if (symbols[place], symbols[place + 1]) == merge:
                    symbols[place : place + 2] = ["".join(merge)]
                place += 1
    made = {"".join(merge) for merge in merges}
    assert len(made) == most or (len(made) < most and all(len(symbols) == 1 for symbols in spelled))
    assert learn_merges(words, most) == merges


def test_every_process_learns_the_same_and_the_folder_gives_the_same_ids(
    tokenizer: Any, tmp_path: Path
) -> None:
    # The trainer numbers letters at the end of words by a hash table, where they are not told to
    # it.
    code = (
        "from unplug.sdk.drawing.diffusion.tokenizer import learn_merges; "
        f"print(learn_merges({_words(WORDS)!r}, 46))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    merges = [tuple(pair) for pair in model_of(tokenizer)["merges"]]
    assert ast.literal_eval(done.stdout) == merges == learn_merges(_words(WORDS), 46)
    made = train_tokenizer(WORDS, tmp_path, vocabulary=560, length=LENGTH)
    assert model_of(open_tokenizer(tmp_path)) == model_of(made)
    short, empty, long = encode(open_tokenizer(tmp_path), ["a child", "", "zebra " * 50]).tolist()
    start, end = made.bos_token_id, made.eos_token_id
    assert empty == [start] + [end] * (LENGTH - 1)
    assert short[0] == start and end not in short[1:3] and short[3:] == [end] * (LENGTH - 3)
    assert len(long) == LENGTH and (long[0], long[-1]) == (start, end) and end not in long[1:-1]


def test_merges_counted_by_hand(tmp_path: Path) -> None:
    # l-o is in three words, every other pair in two at most; the words' order and number do not
    # count.
    made = train_tokenizer(["low lower", "lowest"], tmp_path, vocabulary=515, length=8)
    assert [tuple(pair) for pair in model_of(made)["merges"]] == [("l", "o")]
    assert made.tokenize("low") == ["lo", "w</w>"]
    assert sorted(made.get_vocab().values()) == list(range(515))
    why = r"vocabulary 513: too small for the bytes. Use 514 or more"
    with pytest.raises(InputError, match=why):
        train_tokenizer(WORDS, tmp_path / "none", vocabulary=513, length=8)
    assert not (tmp_path / "none").exists()


def mapped(count: int = 3, side: int = 24) -> Dataset:
    """Pictures that say at every pixel where it is: red its row, green its column, blue the
    picture.
    """
    place = np.arange(side, dtype=np.uint8)
    images = np.zeros((count, side, side, 3), np.uint8)
    images[..., 0], images[..., 1] = place[:, None], place[None, :]
    images[..., 2] = np.arange(count)[:, None, None]
    samples = tuple(Sample(id=str(index), payload=index) for index in range(count))
    digest = hashlib.sha256(images.tobytes()).hexdigest()
    return Dataset(
        spec="test:",
        images=images,
        rows=np.arange(count),
        samples=samples,
        problems=(),
        digest=digest,
    )


def test_numbers_by_hand() -> None:
    # Errors [[1, 0], [0, 0]]: 1/4, and half of (1 + 0)/2 to the right and (1 + 0)/2 below.
    error = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]])
    assert float(reconstruction(error, 0 * error)) == pytest.approx(0.25 + 0.5 * (0.5 + 0.5))
    level = torch.full((2, 3, 4, 4), 0.3)  # no edges
    assert float(reconstruction(level, 0 * level)) == pytest.approx(0.3)
    pixels = np.array([[[[0, 255, 51]]]], np.uint8)
    assert to_image(pixels, CPU).flatten().tolist() == pytest.approx([-1.0, 1.0, -0.6])
    # 10 log10(4 / 0.04) = 20 and 10 log10(4 / 0.0004) = 40 over a range of two; what leaves the
    # range is cut.
    image = torch.zeros(2, 3, 8, 8)
    assert psnr(Off(0.2, 0.02), image) == pytest.approx(30.0, abs=1e-4)
    assert psnr(Off(3.0, 3.0), image + 0.8) == pytest.approx(20.0, abs=1e-4)
    latent = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0)) * 7
    assert float((latent * scaling_factor(latent)).std()) == pytest.approx(1.0)


def test_crops_are_cut_from_the_pictures() -> None:
    draws, generator = Crops(mapped(), [0, 2], 16, CPU), torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(120):
        pixels = ((draws(generator, 4)["image_BCHW"] + 1) * 127.5).round().int()
        assert tuple(pixels.shape) == (4, 3, 16, 16)
        for red, green, blue in pixels:
            top, left, number = int(red[0, 0]), int(green.min()), int(blue[0, 0])
            mirrored = bool(green[0, 0] > green[0, 1])
            columns = torch.arange(left, left + 16)
            assert (red == torch.arange(top, top + 16).view(-1, 1)).all() and (blue == number).all()
            assert (green == (columns.flip(0) if mirrored else columns)).all()
            seen.add((top, left, number, mirrored))
    tops, lefts, numbers, mirrors = map(set, zip(*seen, strict=True))
    assert tops == lefts == set(range(24 - 16 + 1)) and len(seen) > 40
    assert mirrors == {False, True} and numbers == {0, 2}
    small = Crops(mapped(side=16), [0], 64, CPU)(torch.Generator(), 2)
    assert tuple(small["image_BCHW"].shape) == (2, 3, 16, 16)


class Off(torch.nn.Module):
    """An autoencoder that is off by a known amount."""

    def __init__(self, *errors: float) -> None:
        super().__init__()
        self.errors = torch.tensor(errors).view(-1, 1, 1, 1)

    def forward(self, image_BCHW: Tensor) -> Any:
        return SimpleNamespace(sample=image_BCHW + self.errors)


@pytest.fixture(scope="module")
def vae() -> Any:
    torch.manual_seed(2)
    return tiny_vae().eval()


def test_the_loss_is_of_a_sample_of_the_posterior(vae: Any) -> None:
    image = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)) * 2 - 1
    model = VAELoss(vae)
    with torch.no_grad():
        loss = float(model(image, torch.Generator().manual_seed(5)))
        assert loss == float(model(image, torch.Generator().manual_seed(5)))
        mean, log_variance = vae.quant_conv(vae.encoder(image)).chunk(2, dim=1)
        divergence = (
            0.5
            * (mean**2 + log_variance.exp() - 1 - log_variance).sum(dim=(1, 2, 3))
            / (3 * 16 * 16)
        )
        assert float(divergence.mean()) > 0
        noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(5))
        decoded = vae.decode(mean + (0.5 * log_variance).exp() * noise).sample
        pairs = zip(model.features(decoded), model.features(image), strict=True)
        perceived = sum(float((ours - its).abs().mean()) for ours, its in pairs) / 3
        expected = reconstruction(decoded, image) + KL_WEIGHT * divergence.mean() + 0.5 * perceived
    assert loss == pytest.approx(float(expected), rel=1e-5)
    for encoder in (True, False):
        model = VAELoss(tiny_vae(), encoder=encoder)
        model(torch.rand(2, 3, 16, 16) * 2 - 1, torch.Generator().manual_seed(0)).backward()
        still = {
            name.split(".")[1]
            for name, value in model.named_parameters()
            if value.grad is None or not value.grad.any()
        }
        assert still == {"layers"} | (set() if encoder else {"encoder", "quant_conv"})
