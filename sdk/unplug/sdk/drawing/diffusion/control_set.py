"""What a control is trained on: latents, text embeddings and conditions, all computed once.

Shapes: N samples, K prompts a sample, U different prompts, L tokens, D text width, B batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unplug.core import DataError, json_sha256, use_cache
from unplug.plugins.conditions import build_condition, identity
from unplug.sdk.drawing.conditions import conditions_of, with_exact
from unplug.sdk.learning.data import Dataset, captions_digest, captions_of, note_people

from .digest import base_digest as base_digest
from .latent_cache import latents, text_embeddings
from .load import check_size_of


@dataclass(frozen=True, kw_only=True)
class ControlSet:
    """Samples in memory maps; a subset shares them.

    Args:
        ids: N sample ids.
        rows: their rows in the arrays below (N,).
        latent: (rows, c, h, w) float16, scaled. condition: (rows, S, S, 3) uint8.
        text: (U, L, D) float16. prompt: (rows, K) positions in `text`. empty: (L, D), the empty
            prompt's.
        subject: an integer per subject (rows,).
        prompts: U texts.
    """

    ids: tuple[str, ...]
    rows: NDArray[np.int64]
    latent: NDArray[np.float16]
    condition: NDArray[np.uint8]
    text: NDArray[np.float16]
    prompt: NDArray[np.int64]
    empty: NDArray[np.float16]
    subject: NDArray[np.int64]
    prompts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def captions_sha256(self) -> str:
        """SHA-256 over the prompts of all rows, as `captions_digest` counts it."""
        return captions_digest(
            [[self.prompts[number] for number in numbers] for numbers in self.prompt]
        )

    def subset(self, ids: Sequence[str]) -> ControlSet:
        """The samples of some ids, in their order; ids that are not here are left out."""
        place = {name: position for position, name in enumerate(self.ids)}
        kept = [name for name in ids if name in place]
        return replace(self, ids=tuple(kept), rows=self.rows[[place[name] for name in kept]])

    def batch(
        self, index_B: Tensor, device: torch.device, *, variant_B: Tensor | None = None
    ) -> dict[str, Tensor]:
        """``latent_Bchw``, ``text_BLD`` and ``condition_BCHW`` in [0, 1]; `variant_B` chooses
        prompts (default: the first).
        """
        rows = self.rows[index_B.numpy()]
        which = (
            np.zeros(len(rows), np.int64)
            if variant_B is None
            else variant_B.numpy() % self.prompt.shape[1]
        )
        condition_BHWC = torch.from_numpy(np.asarray(self.condition[rows])).to(device)
        return {
            "latent_Bchw": torch.from_numpy(np.asarray(self.latent[rows])).to(device).float(),
            "text_BLD": torch.from_numpy(np.asarray(self.text[self.prompt[rows, which]]))
            .to(device)
            .float(),
            "condition_BCHW": condition_BHWC.permute(0, 3, 1, 2).float().div_(255.0),
        }


class ControlDraws:
    """Draws batches at random, with some prompts left out.

    Args:
        data: the set to draw from. drop: share of prompts replaced by the empty one. device: the
            device for the batches.
        clutter: share of conditions with lines missing and others too many, see `clutter`.
    """

    def __init__(
        self, data: ControlSet, drop: float, device: torch.device, *, clutter: float = 0.0
    ) -> None:
        if not len(data):
            raise DataError(
                "training set", "no sample has the condition", "Use pictures in which it is found"
            )
        self.data, self.drop, self.device, self.clutter = data, drop, device, clutter

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """See `ControlSet.batch`."""
        index_B = torch.randint(len(self.data), (count,), generator=generator)
        variant_B = torch.randint(2**31, (count,), generator=generator)
        batch = self.data.batch(index_B, self.device, variant_B=variant_B)
        gone_B = torch.rand(count, generator=generator) < self.drop
        batch["text_BLD"][gone_B] = (
            torch.from_numpy(np.array(self.data.empty)).to(self.device).float()
        )
        if self.clutter:
            batch["condition_BCHW"] = clutter(batch["condition_BCHW"], self.clutter, generator)
        return batch


PATCHES = 6
"""Patches of a condition that are wiped, or filled with another's lines, at most each."""


def clutter(condition_BCHW: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Conditions as a photograph gives them: in some, patches are wiped and patches of another's
    lines are laid over.

    Edges of a photograph break off, and its background and light draw lines that no face has; a
    plugin that has only seen clean drawings follows all of them.

    Args:
        condition_BCHW: conditions in [0, 1], left as they are.
        share: the share of conditions to change, each on its own.
        generator: a generator on the CPU; draws places and sizes, an eighth to a third of the side.

    Example:
        >>> lines = torch.rand(4, 3, 32, 32)
        >>> torch.equal(clutter(lines, 0.0, torch.Generator().manual_seed(0)), lines)
        True
    """
    changed_BCHW, side = condition_BCHW.clone(), condition_BCHW.shape[-1]
    for number in (
        (torch.rand(len(condition_BCHW), generator=generator) < share).nonzero().flatten().tolist()
    ):
        other = int(torch.randint(len(condition_BCHW), (1,), generator=generator))
        wiped, added = torch.randint(PATCHES + 1, (2,), generator=generator).tolist()
        for patch in range(wiped + added):
            y, x, high, wide = (
                (
                    torch.rand(4, generator=generator)
                    * torch.tensor([side, side, side / 5, side / 5])
                )
                .long()
                .tolist()
            )
            place = (
                number,
                slice(None),
                slice(y, y + high + side // 8),
                slice(x, x + wide + side // 8),
            )
            changed_BCHW[place] = (
                0.0
                if patch < wiped
                else torch.maximum(changed_BCHW[place], condition_BCHW[other, *place[1:]])
            )
    return changed_BCHW


def load_control_set(
    base: Any,
    dataset: Dataset,
    kind: str,
    options: Mapping[str, str] | None = None,
    *,
    captions: int = 2,
    seed: int = 0,
    show: bool = True,
) -> tuple[ControlSet, int]:
    """Everything that training a control needs, from the cache or into it.

    Args:
        base: the frozen pipeline.
        dataset: pictures with captions.
        kind: name of the condition.
        options: its settings; see `with_exact` for the depth of drawn faces.
        captions: prompts a picture.
        seed: the seed of the prompts.
        show: progress bars.

    Returns:
        The samples in which the condition was found, and the number of those in which it was not.

    Raises:
        DataError: no captions, pictures of another size than the base's, or no sample has the
            condition.
        InputError: an unknown condition or setting, a missing task file.
    """
    check_size_of(dataset, base)
    options = with_exact(kind, options, dataset)
    words = captions_of(dataset, seed=seed, variants=captions)
    prompts = tuple(dict.fromkeys(["", *(text for texts in words for text in texts)]))
    number = {text: position for position, text in enumerate(prompts)}
    most = max(map(len, words))
    text = text_embeddings(base, prompts, show=show)
    where = _condition_place(dataset, kind, options)
    # first: what a kill leaves unfinished is of them too
    note_people(where, dataset.spec, dataset.samples)
    condition, found_N = conditions_of(dataset, kind, options, dataset.size, out=where, show=show)
    rows = np.flatnonzero(found_N)
    if not len(rows):
        why = f"{kind} was found in none of {len(dataset)} samples"
        raise DataError(f"data {dataset.spec}", why, "Use other pictures")
    owners: dict[str, int] = {}
    subject = [owners.setdefault(sample.person, len(owners)) for sample in dataset.samples]
    prompt = [[number[texts[place % len(texts)]] for place in range(most)] for texts in words]
    data = ControlSet(
        ids=tuple(dataset.ids[int(row)] for row in rows),
        rows=rows,
        latent=latents(base, dataset, show=show),
        condition=condition,
        text=text,
        prompt=np.array(prompt),
        empty=text[number[""]],
        subject=np.array(subject),
        prompts=prompts,
    )
    return data, len(dataset) - len(rows)


def _condition_place(dataset: Dataset, kind: str, options: Mapping[str, str]) -> Path:
    """The place in the cache, by the settings alone: versions have their place next to the file,
    and what is of another one is drawn over.
    """
    settings = json_sha256(identity(build_condition(kind, options))["settings"])[:8]
    name = f"condition-{kind}-{dataset.content[:24]}-{settings}-{dataset.size}px.npy"
    return use_cache() / "diffusion" / name
