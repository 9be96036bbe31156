"""``unplug adopt``: a model that was trained elsewhere becomes a checkpoint that every command
works on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from unplug.core import InputError, OutputError, one_writer, sha256_file
from unplug.plugins import ADOPTED, Adopted, Checkpoint, load_checkpoint, save_checkpoint
from unplug.sdk.learning.data import Dataset, Split, as_trained, fitting
from unplug.sdk.learning.training import Recipe, check_place

from .first_check import check_network
from .groups import GroupTask
from .picture_training import check_size, record_of


@one_writer
def adopt(
    kind: type[GroupTask],
    adopted: Adopted,
    weights: Path,
    dataset: Dataset,
    split: Split,
    recipe: Recipe,
    out: Path,
    *,
    seed: int = 0,
    device: torch.device,
) -> Checkpoint:
    """Saves a network that was trained elsewhere, measured on the sets of a split.

    Args:
        kind: the task of the predictor.
        adopted: how the network is built; it answers pictures with one logit an age group or class.
        weights: safetensors, with the network's own names of tensors.
        dataset: a data set with ages or labels, at ``recipe.image_size``.
        split: the split into those who trained it (``train``) and those who did not: only its owner
            can know.
        recipe: a recipe of size "adopted", with ``edges`` in the order of the logits; it says how a
            model without the forgotten would be trained, which budgets are measured against.
        out: checkpoint folder.
        seed: the seed that retraining starts from.
        device: the device to measure on.

    Returns:
        The saved checkpoint.

    Raises:
        CheckpointError: the weights are a pickle, or not this network's.
        InputError: see `check_network`.
        OutputError: something is at `out`.
        DataError: a split of other data, or a sample without an age or label.
    """
    dataset = as_trained(dataset, split, show=True)
    fitting(split, dataset)
    check_size(dataset, recipe)
    check_new(out)
    check_place(out)
    if recipe.size != ADOPTED:
        raise InputError(
            f"size {recipe.size!r}", "it is one of ours", f"Give a recipe of size {ADOPTED!r}"
        )
    task = kind.of_data(recipe, dataset, split)
    size = recipe.image_size
    checked = check_network(adopted, size, task.answers, weights=weights, device=device)
    assert checked.model.adopted is not None
    network = checked.model.adopted.to_dict()
    task = replace(task, adopted=network)
    sets = task.sets(dataset, split, device)
    task.refresh(checked.model, sets.train)
    model = checked.model.to(device).eval()
    cost = {"forward": 0, "backward": 0, "wall_s": 0.0, "device": "trained elsewhere"}
    record = record_of(task, model, sets, dataset, split, seed=seed, role="original", cost=cost)
    record |= {
        "adopted": {
            **network,
            "weights_sha256": sha256_file(weights),
            "notes": list(checked.notes),
        },
        "history": [],
    }
    save_checkpoint(model.cpu(), out, record=record, card=task.card(record))
    return load_checkpoint(out, expect=task.model_type)


def check_new(out: Path) -> None:
    """`OutputError` where something is at `out`: a model that was trained elsewhere cannot be made
    here again.
    """
    if out.exists():
        raise OutputError(
            str(out), "something is there already", "Choose another `out`, or remove it"
        )
