"""The judge: a small classifier that reads a face's attributes, trained from scratch on held-in synthetic faces.

Shapes: B batch, D features, A attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from unplug.plugins import ConvNormAct, init_weights

FEATURES = 192
"""D, in front of the heads."""
CELLS, CHANNELS = 8, 32
SIDE = 128
"""Larger pictures are averaged down to it."""
IGNORED = -100
BATCH = 64


class Judge(nn.Module):
    """Faces to a word for each attribute: one trunk, one linear head an attribute.

    Plain convolutions instead of depthwise ones: on a CPU they train several times faster, and the judge never ships. The
    heads see where in the picture something is (eight by eight cells): clothes are at the bottom, hair is at the top.

    Args:
        words: the words of each attribute, in the order of their logits.

    Example:
        >>> Judge({"age": ("baby", "child"), "skin": ("fair",)})(torch.zeros(2, 3, 64, 64))["age"].shape
        torch.Size([2, 2])
    """

    def __init__(self, words: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.words = {name: tuple(options) for name, options in words.items()}
        self.body = nn.Sequential(
            nn.PixelUnshuffle(4),  # four by four pixels at once: the fine layers are most of the cost, and words need few
            ConvNormAct(48, 64, kernel=1),
            ConvNormAct(64, 96, stride=2),
            ConvNormAct(96, 96),
            ConvNormAct(96, 128, stride=2),
            ConvNormAct(128, 128),
            ConvNormAct(128, CHANNELS, kernel=1),
            nn.AdaptiveAvgPool2d(CELLS),
            nn.Flatten(),
        )
        self.neck = nn.Sequential(nn.Linear(CHANNELS * CELLS**2, FEATURES), nn.BatchNorm1d(FEATURES), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(FEATURES, len(options)) for options in self.words.values())
        self.apply(init_weights)

    def features(self, image_BCHW: Tensor) -> Tensor:
        """What the heads see (B, D), of RGB images in [0, 1]."""
        if image_BCHW.shape[-1] > SIDE:
            image_BCHW = F.adaptive_avg_pool2d(image_BCHW, SIDE)
        feature_BD: Tensor = self.neck(self.body(image_BCHW * 2.0 - 1.0))
        return feature_BD

    def read(self, feature_BD: Tensor) -> dict[str, Tensor]:
        """Logits of each attribute."""
        return {name: head(feature_BD) for name, head in zip(self.words, self.heads, strict=True)}

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        """Logits of each attribute, of RGB images in [0, 1]."""
        return self.read(self.features(image_BCHW))


class JudgeLoss(nn.Module):
    """L = mean_a CE_a over the attributes that a face shows.

    Args:
        judge: what is trained.
    """

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge

    def forward(self, image_BCHW: Tensor, target_BA: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of a batch; the generator is for signatures that all trainings share."""
        logits = self.judge(image_BCHW)
        parts = [
            F.cross_entropy(one.float(), target_BA[:, index], ignore_index=IGNORED)
            for index, one in enumerate(logits.values())
            if bool((target_BA[:, index] != IGNORED).any())
        ]
        return torch.stack(parts).mean()


def vocabulary(words: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The words of each attribute that occur, sorted; attributes that never occur are left out."""
    found = {name: tuple(sorted({own[name] for own in words if name in own})) for name in names}
    return {name: options for name, options in found.items() if options}


def targets(words: Sequence[Mapping[str, str]], known: Mapping[str, Sequence[str]]) -> NDArray[np.int64]:
    """Positions of the words (N, A); `IGNORED` where a face has no such attribute, or a word that is not known."""
    number = {name: {word: index for index, word in enumerate(options)} for name, options in known.items()}
    return np.array([[number[name].get(own.get(name, ""), IGNORED) for name in known] for own in words], np.int64)


class Faces:
    """Draws batches of faces, shifted by up to a sixteenth of their side; half the batches are mirrored.

    Args:
        images: (rows, S, S, 3) uint8. rows: which of them (N,). target_NA: their words. device: where they go.
    """

    def __init__(
        self, images: NDArray[np.uint8], rows: NDArray[np.int64], target_NA: NDArray[np.int64], device: torch.device
    ) -> None:
        self.images, self.rows, self.device = images, rows, device
        self.target_NA = torch.from_numpy(target_NA)

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """``image_BCHW`` in [0, 1] and ``target_BA``."""
        index_B = torch.randint(len(self.rows), (count,), generator=generator)
        room = self.images.shape[1] // 16
        down, right, mirrored = (
            int(torch.randint(most, (1,), generator=generator)) for most in (2 * room + 1, 2 * room + 1, 2)
        )
        image_BCHW = to_unit(np.array(self.images[self.rows[index_B.numpy()]]), self.device)
        padded = F.pad(image_BCHW, (room,) * 4, mode="replicate")
        side = image_BCHW.shape[-1]
        image_BCHW = padded[..., down : down + side, right : right + side]
        image_BCHW = image_BCHW.flip(3) if mirrored else image_BCHW
        return {
            "image_BCHW": image_BCHW.contiguous(memory_format=torch.channels_last),
            "target_BA": self.target_NA[index_B].to(self.device),
        }


def to_unit(pixels_NHWC: NDArray[np.uint8], device: torch.device) -> Tensor:
    """uint8 pixels as floats (N, 3, H, W) in [0, 1]."""
    return torch.from_numpy(pixels_NHWC).to(device).permute(0, 3, 1, 2).float().div_(255.0)


@torch.no_grad()
def examine(
    judge: Judge, pixels_NHWC: NDArray[np.uint8], device: torch.device
) -> tuple[NDArray[np.float64], dict[str, list[str]]]:
    """Features (N, D) of pictures, and the word read for each attribute (N each)."""
    judge.to(device).eval()
    features, read = [], dict[str, list[str]]({name: [] for name in judge.words})
    for start in range(0, len(pixels_NHWC), BATCH):
        feature_BD = judge.features(to_unit(np.array(pixels_NHWC[start : start + BATCH]), device))
        for name, logits_BK in judge.read(feature_BD).items():
            read[name] += [judge.words[name][int(index)] for index in logits_BK.argmax(dim=1)]
        features.append(feature_BD.double().cpu().numpy())
    return np.concatenate(features), read


def agreement(read: Mapping[str, Sequence[str]], wanted: Sequence[Mapping[str, str]]) -> dict[str, list[float | None]]:
    """For each attribute and picture 1 where the word is read as wanted, 0 where another is, None where none is wanted."""
    return {
        name: [None if name not in own else float(own[name] == word) for word, own in zip(words, wanted, strict=True)]
        for name, words in read.items()
    }


def parameters(module: Any) -> int:
    """Numbers in a network."""
    return sum(parameter.numel() for parameter in module.parameters())
