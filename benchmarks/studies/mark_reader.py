"""Train the reader of marks that ships, once: ``python -m benchmarks.studies.mark_reader FOLDER``.

An embedder, needed in training alone, writes random bits into drawn faces; the reader learns to read
them after what happens to pictures. Then its bits are whitened over unmarked pictures. The state is
kept in FOLDER.training: run it again after a kill and it goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from unplug.core import make_folder
from unplug.plugins import MARK_BITS, READER_SIDE, ConvNormAct, MarkReader, save_checkpoint
from unplug.sdk.drawing.diffusion import (
    StepRecipe,
    state_at,
    to_image,
    train_steps,
    weathered,
)
from unplug.sdk.learning.data import load_dataset
from unplug.sdk.learning.training import seeded, training_dir

DATA = "synth:n=6000,subjects=6000,seed=31"
RECIPE = StepRecipe(steps=8000, batch_size=48, lr=2e-3, weight_decay=1e-4, ema=0.995)
TILE = 16
"""Side of the repeated pattern, in averages of 2x2 pixels."""
STRONG, FAINT = 0.4, 0.06
"""How much a pattern changes a picture in [-1, 1], at first and in the end."""
CALM, FADING, FADED = 200, 400, 1200
"""Steps before which nothing happens to pictures, and between which the pattern fades."""


class Embedder(nn.Module):
    """One of two patterns of brightness a bit, summed and repeated, stronger where a picture hides it.

    Example:
        >>> Embedder()(torch.zeros(1, 3, 128, 128), torch.zeros(1, 48)).shape
        torch.Size([1, 3, 128, 128])
    """

    def __init__(self) -> None:
        super().__init__()
        self.tiles = nn.Parameter(0.4 / MARK_BITS**0.5 * torch.randn(2, MARK_BITS, 1, TILE, TILE))
        self.where = nn.Sequential(ConvNormAct(3, 16), nn.Conv2d(16, 1, 3, padding=1))

    def forward(self, image_BCHW: Tensor, bits_BK: Tensor) -> Tensor:
        """The pattern (B, 1, H, W) in [-1, 1] of bits that are 0 or 1."""
        small_BCHW = functional.avg_pool2d(image_BCHW, 2)
        zero_BCtt, one_BCtt = (
            torch.einsum("bk,kcyx->bcyx", bits, tile)
            for bits, tile in zip((1 - bits_BK, bits_BK), self.tiles, strict=True)
        )
        tile_BCtt = zero_BCtt + one_BCtt
        tile_BCtt = tile_BCtt - tile_BCtt.mean((2, 3), keepdim=True)
        times = small_BCHW.shape[-1] // TILE
        pattern_BCHW = tile_BCtt.repeat(1, 1, times, times) * 2 * self.where(small_BCHW).sigmoid()
        return functional.interpolate(
            pattern_BCHW.tanh(), scale_factor=2, mode="bilinear", align_corners=False
        )


class ReaderLoss(nn.Module):
    """L = - log p(bits | weathered x + s P(x, bits)) + 5 |s P|^2, where s fades with the steps.

    Args:
        reader: trained here.
    """

    def __init__(self, reader: MarkReader) -> None:
        super().__init__()
        self.reader, self.embedder = reader, Embedder()
        self.step: Tensor
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    @property
    def strength(self) -> float:
        """s of the step that comes."""
        share = (int(self.step) - FADING) / (FADED - FADING)
        return float(STRONG * (FAINT / STRONG) ** min(1.0, max(0.0, share)))

    def forward(self, image_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of images in [-1, 1]."""
        bits_BK = torch.randint(2, (len(image_BCHW), MARK_BITS), generator=generator).float()
        changed_BCHW = self.strength * self.embedder(image_BCHW, bits_BK)
        marked_BCHW = (image_BCHW + changed_BCHW).clamp(-1, 1)
        if int(self.step) >= CALM:
            parts = [weathered(part, generator) for part in marked_BCHW.chunk(4)]
            marked_BCHW = torch.cat(parts)
        logits_BK = self.reader(marked_BCHW / 2 + 0.5)["bits"]
        self.step += 1
        loss: Tensor = functional.binary_cross_entropy_with_logits(logits_BK, bits_BK)
        return loss.add(changed_BCHW.square().mean(), alpha=5)


@torch.no_grad()
def whiten(reader: MarkReader, image_NCHW: Tensor) -> None:
    """Gives a reader's logits mean 0, unit spread and no correlation over unmarked pictures, as near to
    the bits that it learned as that allows: z' = C^(-1/2) (z - m).

    Args:
        reader: in eval mode, changed in place.
        image_NCHW: in [0, 1], N far above the number of bits.

    Reference:
        Kessy et al., Optimal Whitening and Decorrelation, 2018, section 3 (ZCA).
    """
    logits_NK = torch.cat([reader(part)["bits"] for part in image_NCHW.split(100)]).double()
    mean_K = logits_NK.mean(0)
    values_K, vectors_KK = torch.linalg.eigh((logits_NK - mean_K).T.cov())
    root_KK = vectors_KK @ torch.diag(values_K.clamp(min=1e-6).rsqrt()) @ vectors_KK.T
    head = reader.head
    head.bias.copy_(root_KK @ (head.bias.double() - mean_K))
    head.weight.copy_(root_KK @ head.weight.double())


def train_reader(out: Path, recipe: StepRecipe = RECIPE, data: str = DATA) -> dict[str, Any]:
    """Trains a reader and saves it in float16.

    Returns:
        The record.
    """
    dataset = load_dataset(data, READER_SIDE)
    pixels = np.asarray(dataset.pixels(range(len(dataset))))
    cpu = torch.device("cpu")

    def draw(generator: torch.Generator, count: int) -> dict[str, Tensor]:
        rows = torch.randint(len(pixels), (count,), generator=generator).numpy()
        image_BCHW = to_image(pixels[rows], cpu)
        mirrored = bool(torch.randint(2, (1,), generator=generator))
        return {"image_BCHW": image_BCHW.flip(3) if mirrored else image_BCHW}

    work = training_dir(out)
    make_folder(work, 0o700)
    facts = {"data": dataset.digest}
    with seeded(0, 51):
        model = ReaderLoss(MarkReader())
    state = state_at(work / "reader.safetensors", "mark", recipe, 0, facts)
    done = train_steps(model, draw, recipe, seed=1, device=cpu, state=state, label="reader")
    reader: MarkReader = done.model.reader.eval()
    whiten(reader, to_image(pixels[:2000], cpu) / 2 + 0.5)
    record = {
        "schema": "unplug-mark-reader/1",
        "recipe": recipe.to_dict(),
        "seed": 0,
        "data": {"spec": data, **facts, "samples": len(dataset)},
        "history": list(done.history),
        "cost": {"wall_s": done.wall_s, "device": "cpu"},
    }
    save_checkpoint(reader.half(), out, record=record, card=CARD)
    return record


CARD = """\
# Reader of marks

Reads 48 bits that a decoder of `unplug train decoder --mark` leaves in its pictures. Made by
`python -m benchmarks.studies.mark_reader`, on drawn faces alone.
"""


if __name__ == "__main__":
    train_reader(Path(sys.argv[1]))
