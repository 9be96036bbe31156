"""The sizes of predictors over small pictures, named or written out; known without torch."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unplug.core import InputError

from .bounds import MAX_ACTIVATION, MAX_PARAMETERS, is_whole

MAX_GROUPS = 256  # one a year is far below; a config.json must not be able to ask for gigabytes
MIN_IMAGE_SIZE, MAX_IMAGE_SIZE = 32, 224
HALVINGS = 4
"""How often a new network halves its pictures: 64 pixels to 4, 32 to 2."""


@dataclass(frozen=True, kw_only=True)
class Bottlenecks:
    """A run of inverted bottlenecks: `blocks` of `channels`, `expand` times wider inside; `fused`
    ones expand by a plain convolution.
    """

    channels: int
    blocks: int
    expand: int = 4
    kernel: int = 3
    fused: bool = False


@dataclass(frozen=True, kw_only=True)
class Size:
    """Width and depth of a trunk.

    Args:
        stem: channels of the first convolution.
        stages: runs of inverted bottlenecks.
        head: channels of the last convolution, which are pooled.
        strides: the stride of the stem and of each stage's first block, 1 or 2; empty: by the
            picture's side, see `stage_strides`.
    """

    stem: int
    stages: tuple[Bottlenecks, ...]
    head: int
    strides: tuple[int, ...] = ()

    def strides_at(self, image_size: int) -> tuple[int, ...]:
        """The strides for pictures of a side in pixels."""
        return self.strides or stage_strides(image_size, len(self.stages))

    def parameters(self) -> int:
        """Parameters of all convolutions, without norms and classifier."""
        total, before = 27 * self.stem, self.stem
        for stage in self.stages:
            for _ in range(stage.blocks):
                inside = before * stage.expand
                each = inside * stage.kernel**2
                split = before * inside * (stage.expand > 1) + each
                total += before * each if stage.fused else split
                total += inside * stage.channels
                before = stage.channels
        return total + before * self.head


ADOPTED = "adopted"
"""In the place of a size: a network that was built elsewhere."""
ONNX = "onnx"
"""In the place of a package: a trunk's network is an ONNX file, ``onnx:graph``."""

SIZES: dict[str, Size] = {
    "nano": Size(
        stem=16,
        stages=(
            Bottlenecks(channels=16, blocks=1, expand=1),
            Bottlenecks(channels=24, blocks=2),
            Bottlenecks(channels=32, blocks=2),
            Bottlenecks(channels=64, blocks=3),
            Bottlenecks(channels=96, blocks=2),
        ),
        head=384,
    ),
    "small": Size(
        stem=24,
        stages=(
            Bottlenecks(channels=16, blocks=1, expand=1),
            Bottlenecks(channels=32, blocks=2),
            Bottlenecks(channels=48, blocks=3),
            Bottlenecks(channels=96, blocks=4),
            Bottlenecks(channels=160, blocks=3),
        ),
        head=768,
    ),
    "base": Size(
        stem=32,
        stages=(
            Bottlenecks(channels=24, blocks=1, expand=1),
            Bottlenecks(channels=40, blocks=3),
            Bottlenecks(channels=80, blocks=4),
            Bottlenecks(channels=160, blocks=6, expand=6),
            Bottlenecks(channels=256, blocks=5, expand=6),
        ),
        head=1280,
    ),
}


STAGE = re.compile(r"(\d{1,4})x(\d{1,2})(?:e(\d))?(?:k(\d))?(f?)")
WRITTEN = re.compile(r"(\d{1,4}):((?:\d{1,4}x\d{1,2}(?:e\d)?(?:k\d)?f?,?){1,16}):(\d{1,4})")
HOW = "Write STEM:STAGES:HEAD, a stage as CHANNELSxBLOCKS, say 16:16x1e1,24x2,32x2k5:384:2122"


def size_of(text: str) -> Size:
    """The size that a text names or writes out.

    Args:
        text: a name of `SIZES`, or ``STEM:STAGES:HEAD``: channels of the stem, stages apart by
            commas, pooled channels. A stage is ``CHANNELSxBLOCKS``, then ``eN`` for another
            expansion than 4, ``kN`` for another kernel than 3, ``f`` for fused. ``:STRIDES`` may
            follow either: a digit for the stem and one for each stage.

    Raises:
        InputError: no such name, another form, or a network beyond the bounds of a plugin.

    Example:
        >>> size_of("16:16x1e1,24x2,32x2k5:384:2122").strides
        (2, 1, 2, 2)
        >>> size_of("nano:212221").head
        384
    """
    if not isinstance(text, str):
        raise InputError(f"size {str(text)[:200]}", "it is not a text", HOW)
    name, _, strides = text.partition(":") if text.partition(":")[0] in SIZES else (text, "", "")
    if name in SIZES:
        size = SIZES[name]
    else:
        name, _, strides = text.rpartition(":") if text.count(":") == 3 else (text, "", "")
        size = _written(name, text)
    if strides or text.endswith(":"):
        if len(strides) != 1 + len(size.stages) or set(strides) - set("12"):
            why = f"its strides are not {1 + len(size.stages)} digits, each 1 or 2"
            raise InputError(f"size {text[:200]!r}", why, HOW)
        size = replace(size, strides=tuple(map(int, strides)))
    return size


def check_written(text: str, image_size: int) -> None:
    """Raises `InputError` unless a size can be built for pictures of a side in pixels."""
    size = size_of(text)
    if not is_whole(image_size, MIN_IMAGE_SIZE, MAX_IMAGE_SIZE):
        fix = f"Use {MIN_IMAGE_SIZE} to {MAX_IMAGE_SIZE} pixels"
        raise InputError(f"image size {image_size}", "out of range", fix)
    widest = max([size.stem, *(2 * stage.channels * stage.expand for stage in size.stages)])
    if size.parameters() > MAX_PARAMETERS or image_size**2 * widest > MAX_ACTIVATION:
        why = f"it has {size.parameters():,} parameters, or pictures too large for its width"
        raise InputError(f"size {text[:200]!r}", why, "Make it narrower or shallower")
    if 2 ** sum(stride == 2 for stride in size.strides) > image_size:
        why = f"its strides leave no pixel of {image_size}"
        raise InputError(f"size {text[:200]!r}", why, "Halve less often, or take larger pictures")


def _written(text: str, whole: str) -> Size:
    found = WRITTEN.fullmatch(text)
    if found is None:
        why = f"no such size, and not one written out; named are {', '.join(SIZES)}"
        raise InputError(f"size {whole[:200]!r}", why, HOW)
    stages = tuple(
        Bottlenecks(
            channels=int(channels),
            blocks=int(blocks),
            expand=int(expand or 4),
            kernel=int(kernel or 3),
            fused=bool(fused),
        )
        for channels, blocks, expand, kernel, fused in STAGE.findall(found[2])
    )
    size = Size(stem=int(found[1]), stages=stages, head=int(found[3]))
    counts = [size.stem, size.head, *(n for s in stages for n in (s.channels, s.blocks, s.expand))]
    if min(counts) < 1 or any(stage.kernel not in (3, 5, 7) for stage in stages):
        why = "one of its numbers is 0, or a kernel is not 3, 5 or 7"
        raise InputError(f"size {whole[:200]!r}", why, HOW)
    return size


def stage_strides(image_size: int, stages: int) -> tuple[int, ...]:
    """Strides of a size that names none: the last feature map is 4 to 7 pixels wide.

    New models are not trained so, see `halved`: 48 pixels cost more than 64.

    Args:
        image_size: side of the input in pixels, 32 to 224.
        stages: number of stages after the stem; the first stage always keeps its resolution.

    Returns:
        1 + `stages` strides of 1 or 2.

    Example:
        >>> stage_strides(48, 5), stage_strides(64, 5)
        ((2, 1, 2, 2, 1, 1), (2, 1, 2, 2, 2, 1))
    """
    # the fewest that leave at most 7 pixels
    halvings = (math.ceil(image_size / 7) - 1).bit_length()
    return _strides(halvings, stages)


def halved(text: str, image_size: int) -> str:
    """A size as new models are trained in it: pictures of every side are halved `HALVINGS` times.

    A smaller picture costs less than a larger one then. Strides that a text names stay.

    Args:
        text: see `size_of`.
        image_size: side of the input in pixels.

    Returns:
        The text, with strides where a checkpoint that names none would mean others.

    Raises:
        InputError: see `size_of`.

    Example:
        >>> halved("nano", 48), halved("nano", 64), halved("nano:212211", 48)
        ('nano:212221', 'nano', 'nano:212211')
    """
    size = size_of(text)
    strides = _strides(HALVINGS, len(size.stages))
    if size.strides or strides == size.strides_at(image_size):
        return text
    return f"{text}:{''.join(map(str, strides))}"


def _strides(halvings: int, stages: int) -> tuple[int, ...]:
    return (2, 1, *(2 if index < halvings - 1 else 1 for index in range(stages - 1)))


def check_edges(edges: Sequence[float]) -> None:
    """Refuses borders of age groups that are too few, too many, or do not rise: `InputError`."""
    if not 3 <= len(edges) <= MAX_GROUPS + 1:
        raise InputError(
            "age_edges",
            f"{len(edges)} borders given",
            f"Give 3 to {MAX_GROUPS + 1} rising borders in years",
        )
    if not (all(map(math.isfinite, edges)) and all(a < b for a, b in itertools.pairwise(edges))):
        raise InputError(
            f"age_edges {list(edges)}",
            "they do not rise",
            "Give at least three rising borders in years",
        )
