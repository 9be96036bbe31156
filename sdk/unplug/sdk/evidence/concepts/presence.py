"""The judge of one concept: a small network that says whether a picture shows it, and how often it
errs.

Shapes: B batch, N pictures, S side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from unplug.core import (
    CheckpointError,
    DataError,
    Estimate,
    atomic_dir,
    read_dataclass,
    write_json,
)
from unplug.plugins import ConvNormAct, init_weights, load_weights, safetensors_errors
from unplug.sdk.drawing.diffusion import StepRecipe, to_image, train_steps
from unplug.sdk.evidence.statistics import share
from unplug.sdk.learning.training import StateFile, fingerprint, seeded

from .findings import JudgeFacts
from .pairs import ConceptPairs, at_most

WEIGHTS, RECORD = "presence.safetensors", "presence.json"
CELLS, CHANNELS = 8, 24
"""What the head sees: so many cells across, of so many channels."""
AT_ONCE = 64
MIN_PAIRS = 20


@dataclass(frozen=True, kw_only=True)
class JudgeRecipe(StepRecipe):
    """How a judge is trained.

    Args:
        held_out: share of the pictures of either side that are kept for its own error rates.
    """

    steps: int = 500
    batch_size: int = 32
    lr: float = 2e-3
    warmup: int = 20
    ema: float = 0.98
    held_out: float = 0.3

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        **StepRecipe.ranges,
        "held_out": (0.05, 0.9),
    }


class PresenceNet(nn.Module):
    """Pictures to the logit that they show the concept, 0.3 M parameters.

    Plain convolutions on four by four pixels at once: they train fast on a CPU, and the judge never
    ships. The head sees where something is, in eight by eight cells.

    Example:
        >>> PresenceNet()(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2])
    """

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.PixelUnshuffle(4),
            ConvNormAct(48, 48, kernel=1),
            ConvNormAct(48, 64, stride=2),
            ConvNormAct(64, 64),
            ConvNormAct(64, 96, stride=2),
            ConvNormAct(96, 96),
            ConvNormAct(96, CHANNELS, kernel=1),
            nn.AdaptiveAvgPool2d(CELLS),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(CHANNELS * CELLS**2, 1),
        )
        self.apply(init_weights)

    def forward(self, image_BCHW: Tensor) -> Tensor:
        """Logits (B,) of RGB pictures in [-1, 1], the side a multiple of 16 from 32 on."""
        logit_B: Tensor = self.body(at_most(image_BCHW))[:, 0]
        return logit_B


class PresenceLoss(nn.Module):
    """L = cross-entropy of present and absent, both in every batch."""

    def __init__(self, net: PresenceNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, image_BCHW: Tensor, present_B: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of a batch; the generator is for signatures that all trainings share."""
        return F.binary_cross_entropy_with_logits(self.net(image_BCHW), present_B)


class Views:
    """Draws as many pictures with the concept as without, of one number where they are pairs;
    shifted, half of the batches mirrored, brightness and contrast changed a little.

    Args:
        shown_NCHW, plain_NCHW: pictures. device: where they go.
    """

    def __init__(self, shown_NCHW: Tensor, plain_NCHW: Tensor, device: torch.device) -> None:
        self.sides, self.device = (shown_NCHW, plain_NCHW), device

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """``image_BCHW`` and ``present_B``."""
        draw_B = torch.rand(count // 2, generator=generator)
        parts = [side[(draw_B * len(side)).long()] for side in self.sides]
        image_BCHW = torch.cat(parts).to(self.device)
        change_B2 = torch.rand(len(image_BCHW), 2, generator=generator).to(image_BCHW)
        gain, lift = (change_B2[:, k, None, None, None] * 0.2 - 0.1 for k in (0, 1))
        image_BCHW = self._moved(image_BCHW * (1 + gain) + lift, generator)
        present_B = torch.tensor([1.0, 0.0]).repeat_interleave(count // 2).to(self.device)
        return {"image_BCHW": image_BCHW.clamp(-1, 1), "present_B": present_B}

    def _moved(self, image_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        side = image_BCHW.shape[-1]
        room = side // 16
        down, right, mirrored = (
            int(torch.randint(most, (1,), generator=generator))
            for most in (2 * room + 1, 2 * room + 1, 2)
        )
        padded = F.pad(image_BCHW, (room,) * 4, mode="replicate")
        moved = padded[..., down : down + side, right : right + side]
        return moved.flip(3) if mirrored else moved


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A trained judge.

    Args:
        net: the network in eval mode.
        facts: the facts about it.
    """

    net: PresenceNet
    facts: JudgeFacts

    def presence(self, pictures: Tensor | Sequence[Image.Image]) -> NDArray[np.float64]:
        """The probability (N,) that each picture shows the concept; from a half on it does.

        Args:
            pictures: pictures of one size, (N, 3, S, S) in [-1, 1] or as files have them.
        """
        return _seen(self.net, _images(pictures))


def _images(pictures: Tensor | Sequence[Image.Image]) -> Tensor:
    if isinstance(pictures, Tensor):
        return pictures
    if len({one.size for one in pictures}) > 1:
        raise DataError("pictures", "they are of several sizes", "Give pictures of one size")
    pixels = np.stack([np.asarray(one.convert("RGB")) for one in pictures])
    return to_image(pixels, torch.device("cpu"))


@torch.no_grad()
def _seen(net: PresenceNet, image_NCHW: Tensor) -> NDArray[np.float64]:
    device = next(net.parameters()).device
    parts = [net(part.to(device)).double().cpu() for part in image_NCHW.split(AT_ONCE)]
    seen_N: NDArray[np.float64] = torch.cat(parts).sigmoid().numpy()
    return seen_N


def presence_rate(pictures: Tensor | Sequence[Image.Image], judge: Judge) -> Estimate:
    """The share of pictures in which a judge sees its concept, with the exact 95 % interval.

    Nothing is taken off for the judge's own errors: its `facts` stand next to the rate.

    Args:
        pictures: see `Judge.presence`; drawn independently.
        judge: the judge of the concept.
    """
    seen_N = judge.presence(pictures) >= 0.5
    return share(int(seen_N.sum()), len(seen_N))


def train_judge(
    pairs: ConceptPairs,
    concept: str,
    recipe: JudgeRecipe | None = None,
    *,
    seed: int,
    device: torch.device,
    state_path: Path | None = None,
    show: bool = False,
) -> Judge:
    """Trains a judge and counts its errors on pictures that it never saw.

    Args:
        pairs: the pairs to learn from; pictures of a pair stay together, trained on or held out.
        concept: the concept to look for, for the record.
        recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        state_path: the file for the training's state; an unfinished training there is continued.
        show: progress bar.

    Raises:
        DataError: fewer than 20 pictures on a side, sizes that differ, or a side that is not a
            multiple of 16 from 32 on.
        InputError: the batch size is odd.
        TrainingError: see `unplug.sdk.drawing.diffusion.train_steps`.
    """
    recipe = recipe or JudgeRecipe()
    shown, plain = pairs.with_NCHW, pairs.without_NCHW
    _check(shown, plain)
    (kept, held), (kept_plain, held_plain) = (
        _divided(side, recipe.held_out, seed) for side in (shown, plain)
    )
    with seeded(seed, 61):
        model = PresenceLoss(PresenceNet())
    marks = fingerprint(
        kind="presence", concept=concept, seed=seed, source=pairs.source, recipe=recipe.to_dict()
    )
    done = train_steps(
        model,
        Views(kept, kept_plain, device),
        recipe,
        seed=seed,
        device=device,
        state=None if state_path is None else StateFile(path=state_path, fingerprint=marks),
        show=show,
        label=f"judge of {concept}",
    )
    net: PresenceNet = done.model.net.eval()
    with_it, without = (_seen(net, side) >= 0.5 for side in (held, held_plain))
    facts = JudgeFacts(
        concept=concept,
        recall=share(int(with_it.sum()), len(with_it)),
        false_alarms=share(int(without.sum()), len(without)),
        trained=(len(kept), len(kept_plain)),
        held_out=(len(with_it), len(without)),
        source=pairs.source,
        size=int(shown.shape[-1]),
        seed=seed,
        recipe=recipe.to_dict(),
    )
    return Judge(net=net, facts=facts)


def _check(shown: Tensor, plain: Tensor) -> None:
    few, side = min(len(shown), len(plain)), int(shown.shape[-1])
    if few < MIN_PAIRS:
        raise DataError(
            f"{few} pictures",
            "too few to learn from and to count errors",
            f"Give {MIN_PAIRS} or more",
        )
    if shown.shape[1:] != plain.shape[1:] or side % 16 or side < 32:
        raise DataError(
            f"pictures of {side} and {plain.shape[-1]} px",
            "not one size, a multiple of 16 from 32 on",
            "Load both at 128",
        )


def _divided(side_NCHW: Tensor, share_held: float, seed: int) -> tuple[Tensor, Tensor]:
    """Kept and held out: the same numbers on both sides where there are as many."""
    order_N = torch.from_numpy(np.random.default_rng([seed, 62]).permutation(len(side_NCHW)))
    held = max(1, round(share_held * len(side_NCHW)))
    return side_NCHW[order_N[held:]], side_NCHW[order_N[:held]]


def save_judge(judge: Judge, out: Path) -> None:
    """Writes a judge as a folder of ``presence.safetensors`` and ``presence.json``.

    Raises:
        OutputError: something else is there.
    """
    with atomic_dir(out, owner=RECORD, ours=(RECORD, WEIGHTS)) as temporary:
        path = temporary / WEIGHTS
        with safetensors_errors(path):
            save_file({name: one.cpu() for name, one in judge.net.state_dict().items()}, path)
        write_json(temporary / RECORD, asdict(judge.facts))


def load_judge(folder: Path, *, device: torch.device) -> Judge:
    """Reads what `save_judge` wrote.

    Raises:
        CheckpointError: a record or weights that are not of a judge.
    """
    facts = read_dataclass(JudgeFacts, folder / RECORD, CheckpointError)
    net = PresenceNet()
    load_weights(net, folder / WEIGHTS)
    return Judge(net=net.to(device).eval(), facts=facts)
