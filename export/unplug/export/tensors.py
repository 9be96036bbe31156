"""Named input arrays: checks, random ones, digests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from unplug.core import Array, InputError, IOSpec, TensorSpec

RANGE_SLACK = (
    1e-6  # of the range's width: what rounding to float32 may add to an image scaled to [0, 1]
)
CHECK_SAMPLES = 256  # samples checked at a time, so that a memory-mapped set is never read in whole


def check_inputs(iospec: IOSpec, inputs: Mapping[str, Array]) -> int:
    """Checks input arrays against an IOSpec.

    Args:
        iospec: the named tensors; their batch axis may be any number here.
        inputs: name to array, N samples each.

    Returns:
        N, the number of samples.

    Raises:
        InputError: names the tensor whose name, type, shape or values are wrong.

    Example:
        >>> spec = IOSpec(inputs=(TensorSpec(name="x", shape=(1, 2), layout="NC", range=(0.0, 1.0)),), outputs=())
        >>> check_inputs(spec, {"x": np.zeros((5, 2), np.float32)})
        5
    """
    names = [tensor.name for tensor in iospec.inputs]
    for name in sorted(set(names) ^ set(inputs)):
        why = "is missing" if name in names else "is not an input of this model"
        raise InputError(f"input {name!r}", why, f"Give {', '.join(names)}")
    counts = {tensor.name: _check_input(tensor, inputs[tensor.name]) for tensor in iospec.inputs}
    if len(set(counts.values())) != 1:
        raise InputError(
            f"inputs {', '.join(names)}",
            f"they hold {counts} samples",
            "Give the same number of each",
        )
    return next(iter(counts.values()))


def _check_input(tensor: TensorSpec, array: Array) -> int:
    what = f"input {tensor.name!r}"
    if not isinstance(array, np.ndarray) or array.dtype != np.dtype(tensor.dtype):
        got = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
        raise InputError(what, f"it is {got}, not a numpy array of {tensor.dtype}", "Convert it")
    if array.ndim != len(tensor.shape) or array.shape[1:] != tensor.shape[1:] or not len(array):
        wanted = ", ".join(str(n) for n in tensor.shape[1:])
        raise InputError(
            what,
            f"its shape is {array.shape}",
            f"Give (N, {wanted}) in {tensor.layout} order, N >= 1",
        )
    for start in range(0, len(array), CHECK_SAMPLES):
        _check_values(tensor, what, array[start : start + CHECK_SAMPLES])
    return len(array)


def _check_values(tensor: TensorSpec, what: str, block: Array) -> None:
    low, high = block.min(), block.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InputError(what, "it holds NaN or infinity", "Look where the images come from")
    if tensor.range is None:
        return
    slack = RANGE_SLACK * (tensor.range[1] - tensor.range[0])
    if low < tensor.range[0] - slack or high > tensor.range[1] + slack:
        why = (
            f"its values reach from {low:g} to {high:g}, and the model expects {tensor.range[0]:g} "
            f"to {tensor.range[1]:g}"
        )
        raise InputError(what, why, "Scale it as the model's card says")


def relaid(
    specs: Sequence[TensorSpec], arrays: Mapping[str, Array], wanted: Sequence[TensorSpec]
) -> dict[str, Array]:
    """Named arrays with their axes in the order of other specs of the same tensors.

    Args:
        specs: the present specs of the arrays.
        arrays: name to array of N samples.
        wanted: the wanted specs.

    Example:
        >>> spec = TensorSpec(name="x", shape=(1, 3, 2, 2), layout="NCHW")
        >>> relaid([spec], {"x": np.zeros((5, 3, 2, 2))}, [spec.in_layout("NHWC")])["x"].shape
        (5, 2, 2, 3)
    """
    layouts = {item.name: item.layout for item in specs}
    return {
        item.name: arrays[item.name].transpose(
            [layouts[item.name].index(axis) for axis in item.layout]
        )
        for item in wanted
        if item.name in arrays
    }


def random_inputs(iospec: IOSpec, samples: int, seed: int) -> dict[str, Array]:
    """Random inputs: uniform within the range, standard normal where a float tensor has none.

    Args:
        iospec: the named tensors.
        samples: N, at least 1.
        seed: the seed of numpy's default generator; the same seed gives the same arrays.

    Raises:
        InputError: N below 1, or an integer tensor without a range.

    Example:
        >>> spec = IOSpec(inputs=(TensorSpec(name="x", shape=(1, 2), layout="NC", range=(0.0, 1.0)),), outputs=())
        >>> random_inputs(spec, 3, seed=0)["x"].shape
        (3, 2)
    """
    if samples < 1:
        raise InputError(f"{samples} samples", "at least one is needed", "Give 1 or more")
    generator = np.random.default_rng(seed)
    return {tensor.name: _random(tensor, samples, generator) for tensor in iospec.inputs}


def _random(tensor: TensorSpec, samples: int, generator: np.random.Generator) -> Array:
    shape = (samples, *tensor.shape[1:])
    if np.issubdtype(np.dtype(tensor.dtype), np.floating):
        if tensor.range is None:
            return generator.standard_normal(shape).astype(tensor.dtype)
        return generator.uniform(*tensor.range, size=shape).astype(tensor.dtype)
    if tensor.range is None:
        raise InputError(
            f"input {tensor.name!r}",
            f"{tensor.dtype} without a range has no random values",
            "Give the inputs",
        )
    low, high = (round(bound) for bound in tensor.range)
    return generator.integers(low, high, size=shape, endpoint=True).astype(tensor.dtype)


def digest_inputs(inputs: Mapping[str, Array]) -> str:
    """SHA-256 over the names, types, shapes and bytes of named arrays, in name order."""
    digest = hashlib.sha256()
    for name in sorted(inputs):
        array = np.ascontiguousarray(inputs[name])
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\n".encode())
        digest.update(array.data.cast("B"))
    return digest.hexdigest()
