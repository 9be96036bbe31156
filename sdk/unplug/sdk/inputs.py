"""Inputs that look like a model's real ones: what parity compares on and what a bundle's test vectors hold.

Pictures are procedural faces, or those of a folder. An age predictor sees them as they are; a conditioning plugin sees
their edges, or the folder's condition images as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.plugins.conditions import build_condition
from unplug.plugins.errors import InputError
from unplug.plugins.iospec import IOSpec, TensorSpec
from unplug.sdk.data import load_dataset

SEED = 20231
DRAWN_AS = {"plugin": "canny"}
"""Model type to the condition that its procedural inputs are drawn as; edges need no task file, whatever it was trained on."""


def example_inputs(
    model_type: str, iospec: IOSpec, count: int, *, images: Path | None = None, seed: int = SEED
) -> dict[str, NDArray[np.float32]]:
    """Named inputs for a model that takes one image.

    Args:
        model_type: key of `unplug.plugins.checkpoint.MODELS`.
        iospec: its named tensors.
        count: N, at least 1; fewer come where the folder holds fewer.
        images: a folder of pictures (for a plugin: of condition images); None draws faces.
        seed: of the faces.

    Returns:
        Input name to (N, C, H, W), scaled to the tensor's range.

    Raises:
        InputError: the model's input is no square image.
        DataError: no such folder, or a broken picture in it.

    Example:
        >>> spec = TensorSpec(name="condition", shape=(1, 3, 32, 32), layout="NCHW", range=(-1.0, 1.0))
        >>> array = example_inputs("plugin", IOSpec(inputs=(spec,), outputs=()), 2)["condition"]
        >>> array.shape, sorted(set(array.ravel().tolist()))
        ((2, 3, 32, 32), [-1.0, 1.0])
    """
    tensor = _image_of(model_type, iospec)
    spec = f"imagefolder:{images}" if images else f"synth:n={count},subjects={count},seed={seed}"
    dataset = load_dataset(spec, tensor.shape[-1], show=False)
    pixels_NHWC: NDArray[np.uint8] = dataset.pixels(range(min(count, len(dataset))))
    if images is None and model_type in DRAWN_AS:
        with build_condition(DRAWN_AS[model_type]) as condition:
            pixels_NHWC = np.stack([condition(image_HWC) for image_HWC in pixels_NHWC])
    return {tensor.name: as_input(pixels_NHWC, tensor)}


def _image_of(model_type: str, iospec: IOSpec) -> TensorSpec:
    tensor = iospec.inputs[0]
    square = tensor.layout == "NCHW" and tensor.shape[2] == tensor.shape[3]
    if len(iospec.inputs) != 1 or not square or tensor.shape[1] != 3 or tensor.dtype != "float32":
        why = (
            f"its inputs are {', '.join(f'{item.name} {list(item.shape)}' for item in iospec.inputs)}, not one square RGB image"
        )
        raise InputError(f"model of type {model_type}", why, "Give its inputs through the Python interface")
    return tensor


def as_input(pixels_NHWC: NDArray[Any], tensor: TensorSpec) -> NDArray[np.float32]:
    """Pixels of 0 to 255 in the layout and range of an image input.

    Example:
        >>> spec = TensorSpec(name="x", shape=(1, 1, 1, 2), layout="NCHW", range=(-1.0, 1.0))
        >>> as_input(np.array([[[[0], [255]]]], np.uint8), spec).tolist()
        [[[[-1.0, 1.0]]]]
    """
    low, high = tensor.range or (0.0, 1.0)
    unit = np.ascontiguousarray(pixels_NHWC.transpose(0, 3, 1, 2)).astype(np.float32) / np.float32(255.0)
    return unit if (low, high) == (0.0, 1.0) else unit * np.float32(high - low) + np.float32(low)
