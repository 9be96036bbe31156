"""Sizes of predictors over small pictures: inverted bottlenecks, some of them fused, whose width,
depth, expansion, kernels and strides are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unplug.core import InputError
from unplug.mobile_bench import KINDS, MAC_KINDS, Features
from unplug.plugins import SIZES, Size, check_written, halved, size_of

STEMS, BLOCKS, EXPANDS, KERNELS = (8, 12, 16, 24, 32), (1, 2, 3, 4), (2, 3, 4, 6), (3, 3, 5)
POOLED = (2, 3, 4)
"""Pooled channels, as multiples of the last stage's."""
FUSED = 0.15
"""Share of fused stages."""
MAX_CHANNELS, MAX_POOLED, FLOAT = 256, 1280, 4

Operator = tuple[str, int, int]
"""Kind, multiply-accumulates, and the numbers that it reads and writes."""


class PictureSpace:
    """Stems of 8 to 32 channels, three to five stages that widen, four halvings or three.

    Example:
        >>> space = PictureSpace(image_size=64, answers=10)
        >>> size = space.draw(np.random.default_rng(0))
        >>> space.work(size).total_macs > 0
        True
    """

    tail: tuple[Operator, ...] = ()
    """The operators that follow the logits."""

    def __init__(self, image_size: int, answers: int) -> None:
        self.image_size, self.answers = image_size, answers

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The named sizes, with the strides that new networks have."""
        return tuple(halved(name, self.image_size) for name in SIZES)

    def draw(self, rng: np.random.Generator) -> str:
        """A size at random, written out; one that can be built for the pictures."""
        while True:
            size = _drawn(rng)
            try:
                check_written(size, self.image_size)
            except InputError:  # too wide for its pictures, or strides that leave no pixel
                continue
            return size

    def work(self, size: str) -> Features:
        """The operators of its exported float32 file, counted without exporting it."""
        macs, moved, number = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0), 0
        body = _operators(size_of(size), self.image_size, self.answers)
        for kind, work, numbers in (*body, *self.tail):
            macs[kind] += work
            moved[kind] += FLOAT * numbers
            number += 1
        assert all(kind in MAC_KINDS or not work for kind, work in macs.items())
        return Features(macs=macs, bytes=moved, operators=number)


class AgeSpace(PictureSpace):
    """`PictureSpace` of face-age predictors, which answer with an expected age as well."""

    def __init__(self, image_size: int, answers: int) -> None:
        super().__init__(image_size, answers)
        softmax = ("elementwise", 0, 2 * answers)
        weighted = ("elementwise", 0, 3 * answers)
        self.tail = (softmax, weighted, ("pool", 0, answers + 2))


def _drawn(rng: np.random.Generator) -> str:
    stem, count, halvings = int(rng.choice(STEMS)), int(rng.integers(3, 6)), int(rng.integers(3, 5))
    growth, channels = rng.uniform(1.25, 1.9), stem * rng.choice((0.5, 0.75, 1.0))
    stages = list[str]()
    for index in range(count):
        width = min(MAX_CHANNELS, max(8, 8 * round(channels * growth**index / 8)))
        plain, fused = index == 0 and rng.random() < 0.5, rng.random() < FUSED
        expand, blocks = 1 if plain else int(rng.choice(EXPANDS)), int(rng.choice(BLOCKS))
        kernel = 3 if fused else int(rng.choice(KERNELS))
        stages.append(f"{width}x{1 if plain else blocks}e{expand}k{kernel}{'f' * fused}")
    head = min(MAX_POOLED, width * int(rng.choice(POOLED)))
    # the stem halves always; which of the stages do is drawn
    halving = set(rng.choice(count, size=min(halvings - 1, count), replace=False).tolist())
    strides = "2" + "".join("2" if index in halving else "1" for index in range(count))
    return f"{stem}:{','.join(stages)}:{head}:{strides}"


def _operators(size: Size, side: int, answers: int) -> Iterator[Operator]:
    picture = 3 * side**2
    # to [-1, 1], then channels last
    yield from 2 * [("elementwise", 0, 2 * picture + 1)]
    yield "other", 0, 2 * picture + 4
    first, *strides = size.strides_at(side)
    yield from _convolution("conv", side, 3, size.stem, 3, first)
    side, channels = _halved(side, first), size.stem
    for stage, stage_stride in zip(size.stages, strides, strict=True):
        for index in range(stage.blocks):
            stride, inside = stage_stride if index == 0 else 1, channels * stage.expand
            if stage.fused:
                yield from _convolution("conv", side, channels, inside, stage.kernel, stride)
            else:
                if stage.expand > 1:
                    yield from _convolution("conv1x1", side, channels, inside, 1, 1)
                yield from _convolution("depthwise", side, inside, inside, stage.kernel, stride)
            side = _halved(side, stride)
            yield from _convolution("conv1x1", side, inside, stage.channels, 1, 1)
            if stride == 1 and channels == stage.channels:
                yield "elementwise", 0, 3 * channels * side**2
            channels = stage.channels
    yield from _convolution("conv1x1", side, channels, size.head, 1, 1)
    yield "pool", 0, size.head * (side**2 + 1) + 2
    yield "dense", size.head * answers, size.head * (answers + 1) + 2 * answers


def _convolution(
    kind: str, side: int, channels: int, out: int, kernel: int, stride: int
) -> Iterator[Operator]:
    padded, after = side, _halved(side, stride)
    if stride > 1:
        # what a framework pads on both sides, LiteRT's own padding does not say
        padded = side + kernel - 1
        yield "other", 0, channels * (side**2 + padded**2) + 8
    weights = out * kernel**2 * (1 if kind == "depthwise" else channels)
    yield kind, weights * after**2, channels * padded**2 + weights + out * (1 + after**2)


def _halved(side: int, stride: int) -> int:
    return -(-side // stride)
