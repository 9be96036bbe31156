"""Inputs that look like a model's real ones: what parity compares on and what a bundle's test
vectors hold.

Pictures are procedural faces, or those of a folder. An age predictor sees them as they are; a
conditioning plugin sees their edges, or the folder's condition images as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import CheckpointError, InputError, IOSpec, TensorSpec
from unplug.export import random_inputs
from unplug.plugins import Checkpoint
from unplug.plugins.conditions import build_condition
from unplug.sdk.learning.data import Dataset, Split, load_dataset, opened

from .exact import conditions_of
from .scaling import scaled, takes_pictures

Part = Literal["retain", "test"]
SEED = 20231
LATENT = ("unet", "guided_unet", "slotted_unet", "decoder", "quick_decoder", "text_encoder")
"""Model types that are compared on unit noise or random ids: they take latents, text states and
tokens, not pictures.
"""
LOW_RANK = 0.02
"""Spread of low-rank updates that a UNet is compared with: of unit spread sixteen of them are many
times its weights.
"""
CONDITION, DRAWN_AS = "condition", "canny"
"""An input of this name is steered by a picture of edges; they need no task file, whatever the
model was trained on.
"""


def example_inputs(
    model_type: str, iospec: IOSpec, count: int, *, images: Path | None = None, seed: int = SEED
) -> dict[str, NDArray[np.float32]]:
    """Named inputs: for a model that takes one image pictures, for a part of a diffusion base
    noise.

    Args:
        model_type: key of `unplug.plugins.checkpoint.MODELS`.
        iospec: its named tensors.
        count: N, at least 1; fewer come where the folder holds fewer.
        images: a folder of pictures (for a plugin: of condition images); None draws faces.
        seed: the seed of the faces.

    Returns:
        Input name to (N, C, H, W), scaled to the tensor's range.

    Raises:
        InputError: the model's input is not a square image, or pictures for a model that takes
            none.
        DataError: no such folder, or a broken picture in it.

    Example:
        >>> spec = TensorSpec(name="condition", shape=(1, 3, 32, 32), layout="NCHW", range=(-1.0, 1.0))
        >>> array = example_inputs("plugin", IOSpec(inputs=(spec,), outputs=()), 2)["condition"]
        >>> array.shape, sorted(set(array.ravel().tolist()))
        ((2, 3, 32, 32), [-1.0, 1.0])
    """
    if model_type in LATENT:
        if images is not None:
            raise InputError(
                f"model of type {model_type}",
                "it takes latents, not pictures",
                "Leave the pictures out",
            )
        drawn = random_inputs(iospec, count, seed)
        if model_type == "slotted_unet":
            drawn[iospec.inputs[-1].name] *= LOW_RANK
        return drawn
    tensor = _image_of(model_type, iospec)
    spec = f"imagefolder:{images}" if images else f"synth:n={count},subjects={count},seed={seed}"
    dataset = load_dataset(spec, tensor.height, show=False)
    pixels_NHWC: NDArray[np.uint8] = dataset.pixels(range(min(count, len(dataset))))
    if images is None and tensor.name == CONDITION:
        with build_condition(DRAWN_AS) as condition:
            pixels_NHWC = np.stack([condition(image_HWC) for image_HWC in pixels_NHWC])
    return {tensor.name: scaled(pixels_NHWC, tensor)}


def real_inputs(
    checkpoint: Checkpoint,
    dataset: Dataset,
    count: int,
    *,
    part: Part,
    iospec: IOSpec | None = None,
    seed: int = SEED,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, NDArray[np.float32]]:
    """Named inputs from real data: what activations are calibrated on ("retain"), and what a file
    is compared on ("test").

    Args:
        checkpoint: the checkpoint of an age predictor or a plugin.
        dataset: pictures of the model's size.
        count: N, at most; samples in which a plugin's condition is not found are left out.
        part: the part of the split; see `part_of`.
        iospec: the iospec of the file that takes them, if its layout is not the checkpoint's.
        seed: the seed of the draw.
        say: told where the samples come from.

    Returns:
        Input name to N samples in the tensor's layout, scaled to its range.

    Raises:
        InputError: the model's input is not a square image, or no sample is left.
        DataError, ConversionError: broken pictures, and what finding conditions raises.
    """
    tensor = _image_of(checkpoint.model_type, iospec or checkpoint.model.iospec)
    chosen, where = part_of(checkpoint, dataset, part)
    say(f"samples are drawn from {where}")
    drawn = np.random.default_rng(seed).permutation(len(chosen))[:count]
    places = sorted(chosen[place] for place in drawn)
    if tensor.name == CONDITION:
        samples = tuple(dataset.samples[place] for place in places)
        some = replace(dataset, rows=dataset.rows[places], samples=samples)
        rows_NHWC, found_N = conditions_of(some, *_condition_of(checkpoint), tensor.height)
        pixels_NHWC = rows_NHWC[found_N]
    else:
        pixels_NHWC = dataset.pixels(places)
    if not len(pixels_NHWC):
        raise InputError(f"data {dataset.spec}", f"no sample is left of {where}", "Give other data")
    return {tensor.name: scaled(pixels_NHWC, tensor)}


def _condition_of(checkpoint: Checkpoint) -> tuple[str, dict[str, str]]:
    """Kind and settings of what a plugin was trained on."""
    match checkpoint.record.get("condition"):
        case {"kind": str(kind), "settings": dict(settings)}:
            return kind, settings
    why = "its unplug.json does not say what its conditions are made by"
    fix = "Use a plugin that `unplug train plugin` wrote"
    raise CheckpointError(str(checkpoint.path), why, fix)


def part_of(checkpoint: Checkpoint, dataset: Dataset, part: Part) -> tuple[list[int], str]:
    """Which samples of some data may calibrate a model ("retain") or judge it ("test"), and where
    they are from in words.

    Of the data that the model was trained on, that part of its split: nothing that was forgotten
    calibrates a model and nothing that it was trained on judges it. Of other data, any sample but
    those with the id of one that it forgot.

    Returns:
        Places in the data, and one line.
    """
    raw = checkpoint.record.get("split")
    split = opened(Split.from_dict(raw), dataset) if isinstance(raw, dict) else None
    if split is not None and split.data_digest == dataset.digest:
        wanted = set(getattr(split, part))
        return [
            place for place, name in enumerate(dataset.ids) if name in wanted
        ], f"the {part} part of the model's split"
    gone = set(() if split is None else split.forget)
    places = [place for place, name in enumerate(dataset.ids) if name not in gone]
    left = (
        f", but for {len(dataset) - len(places)} with the id of one that it forgot"
        if len(places) < len(dataset)
        else ""
    )
    return places, f"all of this data, which is not what the model was trained on{left}"


def _image_of(model_type: str, iospec: IOSpec) -> TensorSpec:
    if not takes_pictures(iospec) or iospec.inputs[0].dtype != "float32":
        inputs = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in iospec.inputs)
        why = f"its inputs are {inputs}, not one square RGB image"
        fix = "Give its inputs through the Python interface"
        raise InputError(f"model of type {model_type}", why, fix)
    return iospec.inputs[0]
