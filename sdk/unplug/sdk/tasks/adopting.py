"""``unplug adopt``: a model that was trained elsewhere becomes a checkpoint that every command works on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from unplug.core import CheckpointError, InputError, one_writer, settled, sha256_file
from unplug.plugins import ADOPTED, Adopted, AgePredictor, Checkpoint, load_checkpoint, load_weights, save_checkpoint
from unplug.sdk.data import Dataset, Split
from unplug.sdk.training import Recipe, check_place, edges_of

from .age import AgeTask
from .age_training import age_record, check_data


@one_writer
def adopt(
    adopted: Adopted, weights: Path, dataset: Dataset, split: Split, recipe: Recipe, out: Path, *, seed: int = 0,
    device: torch.device,
) -> Checkpoint:  # fmt: skip
    """Saves a network that was trained elsewhere, measured on the sets of a split.

    Args:
        adopted: how the network is built; it answers pictures with one logit an age group.
        weights: safetensors, with the network's own names of tensors.
        dataset: with ages, at ``recipe.image_size``.
        split: who trained it (``train``) and who did not: nobody but its owner can know.
        recipe: of size "adopted", with ``edges`` in the order of the logits; how a model without the forgotten would be
            trained, which budgets are measured against.
        out: checkpoint folder.
        seed: that retraining starts from.
        device: where it is measured.

    Returns:
        The saved checkpoint.

    Raises:
        CheckpointError: the weights are a pickle, or not this network's.
        InputError: the network cannot be built, or answers otherwise.
        DataError: a split of other data, or a sample without an age.
    """
    check_data(dataset, split, recipe)
    check_place(out)
    if recipe.size != ADOPTED:
        raise InputError(f"size {recipe.size!r}", "it is one of ours", f"Give a recipe of size {ADOPTED!r}")
    task = AgeTask(recipe=recipe, edges=edges_of(dataset, recipe.edges), adopted=adopted.to_dict())
    sets = task.sets(dataset, split, device)
    model = check_network(adopted, recipe.image_size, task.edges)
    assert model.network is not None
    task.refresh(model, sets.train)
    try:
        load_weights(model.network.inner, weights)
    except CheckpointError as error:
        fix = "Save the state dict of just this network: safetensors.torch.save_file(network.state_dict(), FILE)"
        raise CheckpointError(error.what, error.why, fix) from error
    model = model.to(device).eval()
    cost = {"forward": 0, "backward": 0, "wall_s": 0.0, "device": "trained elsewhere"}
    record = age_record(task, model, sets, dataset, split, seed=seed, role="original", cost=cost)
    record |= {"adopted": {**adopted.to_dict(), "weights_sha256": sha256_file(weights)}, "history": []}
    save_checkpoint(model.cpu(), out, record=record, card=task.card(record))
    return load_checkpoint(out, expect=task.model_type)


@settled
def check_network(adopted: Adopted, image_size: int, edges: Sequence[float]) -> AgePredictor:
    """An untrained predictor around a network that answers each picture with one logit an age group.

    Args:
        adopted: how the network is built.
        image_size: side of the pictures in pixels.
        edges: G + 1 age-group borders in years.

    Raises:
        InputError: it cannot be built, or answers otherwise; says what it answers with.
    """
    model = AgePredictor(size=ADOPTED, image_size=image_size, age_edges=edges, network=adopted.to_dict())
    assert model.network is not None
    try:
        with torch.no_grad():
            answer = model.network.eval()(torch.zeros(2, 3, image_size, image_size))
    except Exception as error:  # whatever the code of others raises is told as its own
        told = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        why = f"on pictures of {image_size} pixels it raised {told}"
        raise InputError(f"network {adopted.factory}", why[:300], "Check --image-size") from error
    if not isinstance(answer, torch.Tensor) or answer.shape != (2, model.groups):
        gave = list(answer.shape[1:]) if isinstance(answer, torch.Tensor) else type(answer).__name__
        why = f"it answers a picture with {gave} where the borders make {model.groups} groups"
        fix = "Give --edges with one border more than it has answers; a network that says one number has no groups to decide by"
        raise InputError(f"network {adopted.factory}", why, fix)
    return model
