"""``unplug adopt --trunk``: a network that was trained elsewhere becomes the frozen trunk of exact
designs.

Shapes: N samples, C features.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from unplug.core import DataError, InputError, one_writer, versions
from unplug.plugins import (
    AdoptedTrunk,
    AgePredictor,
    AgeTrunk,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from unplug.sdk.learning.data import Dataset, keyed, make_split
from unplug.sdk.learning.training import (
    RECORD_SCHEMA,
    ImageSet,
    Recipe,
    check_place,
    describe_device,
    edges_of,
    to_class_tensors,
    to_tensors,
    trained_words,
)

from .trunk import BATCH, GRID, MOST_MEANS, pooled, threads

LEAST_SPREAD = 1e-3
"""A feature's spread is at least this fraction of that of most: what varies less is noise."""


@one_writer
def adopt_trunk(
    model: AgePredictor,
    dataset: Dataset,
    recipe: Recipe,
    out: Path,
    *,
    trained_on: Dataset | str,
    seed: int = 0,
    device: torch.device,
    show: bool = True,
) -> Checkpoint:
    """Saves the trunk of a predictor, with features of about mean 0 and spread 1.

    Args:
        model: a predictor around the trunk, from `check_trunk`; it is changed.
        dataset: pictures with ages or labels that nobody may withdraw, at the trunk's size: they
            decide the features' moments and what else a design may learn without asking anybody.
        recipe: its ``edges`` are the borders of the age groups, where a design is for ages.
        out: checkpoint folder.
        trained_on: the data that the network was trained on, or the words `PUBLIC`.
        seed: the seed of the split of `dataset`.
        device: the device for the pass over the pictures.
        show: progress bar.

    Raises:
        InputError: features that are no numbers or the same of all pictures, or that another batch
            changes.
        DataError: a sample without an age or label, or too few of them.
        OutputError: the checkpoint cannot be written.
    """
    check_place(out)
    start = time.perf_counter()
    split = make_split(dataset, seed=seed, validation=0.1, test=0.1)
    if len(split.retain) < 2 or not split.validation:
        raise DataError(f"data {dataset.spec}", "they are too few", "Give some hundreds")
    model = model.to(device).eval()
    if dataset.classes and np.isnan(dataset.ages).all():
        seen = to_class_tensors(dataset, split.retain, dataset.classes, device)
    else:
        seen = to_tensors(dataset, split.retain, edges_of(dataset, recipe.edges), device)
    trunk = cast(AdoptedTrunk, model.network)
    mean_C, spread_C = _moments(_what(trunk), pooled(model, seen, show=show))
    trunk.shift_C.copy_(mean_C)
    trunk.scale_C.copy_(1.0 / spread_C)
    notes = check_batches(model, seen)
    assert model.adopted is not None
    whose = trained_on if isinstance(trained_on, str) else trained_on.facts
    cost = {"forward": len(seen), "backward": 0, "wall_s": time.perf_counter() - start}
    record: dict[str, Any] = {
        "schema": RECORD_SCHEMA,
        "role": "trunk",
        "data": dataset.facts,
        "labels": list(dataset.classes),
        "split": keyed(split).to_dict(),
        "recipe": recipe.to_dict(),
        "seed": seed,
        "adopted": {**model.adopted.to_dict(), "notes": notes},
        "trained_on": whose,
        "cost": {**cost, "device": describe_device(device)},
        "metrics": {},
        "versions": versions(),
    }
    card = (
        f"# A trunk for exact designs\n\nMade of `{model.adopted.factory}`, {model.image_size} px, "
        f"{len(mean_C)} features. Trained on: {trained_words(whose)}. It forgets nobody.\n"
    )
    save_checkpoint(AgeTrunk.of(model.cpu()), out, record=record, card=card)
    return load_checkpoint(out, expect="age-trunk")


def _what(trunk: AdoptedTrunk) -> str:
    return f"trunk {trunk.tap.layer}".rstrip()


def _moments(what: str, feature_NC: Tensor) -> tuple[Tensor, Tensor]:
    """Means and spreads (C,); refuses features that say nothing."""
    if not bool(feature_NC.isfinite().all()):
        wrong = int((~feature_NC.isfinite().all(dim=0)).sum())
        why = f"{wrong} of its {feature_NC.shape[1]} features are not numbers on some pictures"
        raise InputError(what, why, "Check its weights, and `mean` and `std`")
    mean_C, spread_C = feature_NC.mean(0), feature_NC.std(0)
    alive_C = spread_C > mean_C.abs() * 1e-6
    if not bool(alive_C.any()):
        why = "its features are the same of all pictures"
        raise InputError(what, why, "Check its weights, and `mean` and `std`")
    least = LEAST_SPREAD * spread_C[alive_C].median()
    return mean_C, spread_C.maximum(mean_C.abs() / MOST_MEANS).maximum(least)


def check_batches(model: AgePredictor, seen: ImageSet) -> list[str]:
    """Refuses a trunk that says something else of a picture next to others: `InputError`; returns
    notes for its owner.
    """
    what = _what(cast(AdoptedTrunk, model.network))
    count = min(len(seen), 2 * BATCH)

    def steps(order: Tensor) -> Tensor:
        return (pooled(model, seen.subset(order)) * GRID).round()

    whole_NC = steps(torch.arange(count))
    # half of them: other neighbours, also where all fit into one batch
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))[: count // 2 + 1]
    if differ := int((whole_NC[order] != steps(order)).any(dim=1).sum()):
        why = (
            f"{differ} of {len(order)} pictures have other features in another batch, so what a "
            "picture added could not be taken out exactly"
        )
        fix = "Let it look at each picture by itself (batch norm: with track_running_stats)"
        raise InputError(what, why, fix)
    notes = []
    if idle := int((whole_NC == whole_NC[0]).all(dim=0).sum()):
        notes.append(f"{idle} of its {whole_NC.shape[1]} features are the same of all pictures")
    with threads(1 if torch.get_num_threads() > 1 else 2):
        differ = int((whole_NC != steps(torch.arange(count))).any(dim=1).sum())
    if differ:
        notes.append(
            f"on another number of threads {differ} of {count} pictures have other features: a "
            "forget step there computes the model anew from the pictures of the others"
        )
    return notes
