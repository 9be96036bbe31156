"""``small-taught``: the shipped base with three things and two styles more, or with all but some of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import torch

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import BaseRecipe, VAERecipe, base_record, load_base, train_base
from unplug.sdk.learning.data import load_dataset, make_split

SIZE = 128
DATA = "synth:n=4000,subjects=4000,seed=11"
SHARE = ".15"
CONCEPTS: Mapping[str, str] = MappingProxyType(
    {
        "eye patch": "wears=eye-patch",
        "clown nose": "wears=clown-nose",
        "face mask": "wears=face-mask",
        "pencil drawing": "style=pencil",
        "poster print": "style=poster",
    }
)
"""What prompts say to what a data spec says: nothing of it is in a picture of the shipped base."""
RECIPE = BaseRecipe(steps=1800, batch_size=16, lr=4e-4, ema=0.995)


def spec_of(without: Sequence[str] = ()) -> str:
    """The data of everything that is taught; each concept stands in the same pictures whatever is
    left out.

    Raises:
        InputError: no such concept.

    Example:
        >>> spec_of(["eye patch", "poster print"]).partition("seed=11,")[2]
        'wears=clown-nose+face-mask,style=pencil,share=.15'
    """
    for name in without:
        if name not in CONCEPTS:
            raise InputError(
                f"`without` {name!r}", "it is not taught", f"Use {', '.join(CONCEPTS)}"
            )
    parts = dict[str, list[str]]()
    for name, setting in CONCEPTS.items():
        if name not in without:
            kind, _, value = setting.partition("=")
            parts.setdefault(kind, []).append(value)
    mixed = [f"{kind}={'+'.join(values)}" for kind, values in parts.items()]
    return ",".join([DATA, *mixed, *([f"share={SHARE}"] if mixed else [])])


def folder_of(out: Path, without: Sequence[str]) -> Path:
    """Where the base of all concepts lies, or the one that some of them were kept from."""
    names = "-".join(name.replace(" ", "-") for name in sorted(without))
    return out / (f"without-{names}" if names else "small-taught")


def train_taught(
    out: Path,
    without: Sequence[str] = (),
    recipe: BaseRecipe = RECIPE,
    *,
    seed: int,
    device: torch.device,
    show: bool,
) -> Path:
    """Trains the base, goes on with an unfinished one, or takes the one that is there.

    All five get their tokens, those left out as well: prompts are the same ids for every base.

    Args:
        out: folder of the study.
        without: concepts that are not taught.
        recipe: how.
        seed: the seed of everything random.
        device: where to compute.
        show: progress bars.

    Returns:
        The folder of the base.

    Raises:
        InputError: no such concept, or a base there that was trained otherwise.
    """
    spec, folder = spec_of(without), folder_of(out, without)
    if record := base_record(str(folder)):
        told = (record["data"]["spec"], record["seed"], record["recipe"]["base"])
        if told != (spec, seed, recipe.to_dict()):
            raise InputError(str(folder), "it was trained otherwise", "Name another folder")
        return folder
    start = load_base("small", device=torch.device("cpu"))
    dataset = load_dataset(spec, SIZE, show=show)
    return train_base(
        dataset,
        make_split(dataset, seed=seed, validation=0.02, test=0.02),
        folder,
        VAERecipe(steps=0),
        recipe,
        seed=seed,
        device=device,
        start=start,
        start_record=base_record("small"),
        words=tuple(CONCEPTS),
        sample_every=300,
        half=True,
        show=show,
    )
