"""A base drawn with at once: ONNX graphs that ship without weights are filled with a checkpoint's, so
that neither torch nor a converter is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unplug.core import (
    CheckpointError,
    ConversionError,
    InputError,
    read_dataclass,
    sha256_file,
    temporary_folder,
)
from unplug.export import Artifact, Card, card_path, write_card
from unplug.plugins import read_config, shipped_path, weights_files, weights_sha256

from .build import GeneratorSource, save_generator
from .decoders import QUICK
from .pipeline import PARTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Weights = Mapping[str, NDArray[Any]]

GRAPHS = "graphs"
"""The folder of the graphs among the weights that ship."""
EPSILON = 1e-5
"""Batch norms' own."""
NOTES = re.compile(
    r"_.*|architectures|dtype|transformers_version|\w+_token_id|vocab_size|latents_sha256|condition"
)
"""What of a configuration may differ: it changes no graph, or tokens were added to the text encoder."""
AGAIN = "Draw with `engine` torch"


WHOLE = (QUICK, "mark_reader")
"""Model types with a graph of their own name."""


def _graph_of(part: str, checkpoint: Path) -> tuple[Path, Card]:
    """The graph of a part, and the card of the file that it was taken from."""
    kind = read_config(checkpoint)[0]
    name = kind if kind in WHOLE else (part if part in PARTS else "plugin")
    path = shipped_path("small", GRAPHS) / f"{name}.onnx"
    return path, read_dataclass(Card, card_path(path), CheckpointError)


def misfit(source: GeneratorSource) -> str | None:
    """Why a base cannot be drawn with by the graphs that ship, or None where it can."""
    if source.view_of("unet") != "guided_unet":
        return "it draws without guidance"
    try:
        if not source.small:
            return "its weights are larger than small's"
        return next(_misfits(source), None)
    except InputError as error:
        return str(error)


def _misfits(source: GeneratorSource) -> Iterator[str]:
    for part, folder in source.checkpoints().items():
        own = _network(read_config(folder)[1])
        theirs = _network(_graph_of(part, folder)[1].config)
        if own != theirs:
            names = sorted(key for key in own.keys() | theirs if own.get(key) != theirs.get(key))
            yield f"{part} is another network than small's ({', '.join(names[:4])})"
        if len(files := weights_files(folder)) != 1 or files[0].suffix != ".safetensors":
            yield f"the weights of {part} are not one safetensors file"


def _network(config: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in config.items() if value is not None}
    return {key: value for key, value in known.items() if not NOTES.fullmatch(key)}


@contextmanager
def drawn_with(source: GeneratorSource) -> Iterator[Path]:
    """A folder with ``pipeline.json`` and files for ONNX Runtime, as `export_generator` writes it, gone
    afterwards.

    Args:
        source: a base of which `misfit` says nothing.

    Raises:
        CheckpointError: weights that are not those of their configuration.
    """
    with temporary_folder("unplug-draw-") as out:
        made = {part: [filled(part, at, out)] for part, at in source.checkpoints().items()}
        save_generator(source, made, out)
        yield out


def filled(part: str, checkpoint: Path, out: Path) -> Artifact:
    """The ONNX file of a part in a folder below `out`: the graph that ships, with a checkpoint's weights."""
    import onnx

    (graph, card), config = _graph_of(part, checkpoint), read_config(checkpoint)[1]
    proto = onnx.load(str(graph), load_external_data=False)
    (weights,) = weights_files(checkpoint)
    fill(proto, _read(weights), weights)
    path = out / part.removeprefix("plugins.") / f"{card.model_type}.fp32.onnx"
    path.parent.mkdir()
    onnx.save(proto, str(path))
    first = card.iospec.inputs[0]
    if "vocab_size" in config:
        first = replace(first, range=(0.0, float(config["vocab_size"] - 1)))
    card = replace(
        card,
        file=path.name,
        sha256=sha256_file(path),
        bytes=path.stat().st_size,
        config=config,
        checkpoint_sha256=weights_sha256(checkpoint),
        iospec=replace(card.iospec, inputs=(first, *card.iospec.inputs[1:])),
    )
    return write_card(path, card)


def _read(file: Path) -> Weights:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(file)
    except (SafetensorError, TypeError, KeyError) as error:
        raise CheckpointError(str(file), f"its tensors cannot be read: {error}", AGAIN) from error


def fill(proto: Any, tensors: Weights, where: Path) -> None:
    """Puts a checkpoint's tensors where `strip` took them from.

    Args:
        proto: a graph by `strip`; it is changed.
        tensors: name to weights, which are computed with as float32.
        where: the file that they are from, for errors.

    Raises:
        CheckpointError: a tensor is missing, or of another shape.
    """
    for item in proto.graph.initializer:
        told = {entry.key: entry.value for entry in item.external_data}
        if not told:
            continue
        try:
            made_NK = _made(told, tensors)
        except (KeyError, ValueError) as error:
            why = f"it has no {told['location']} that fits: {error}"
            raise CheckpointError(str(where), why[:200], AGAIN) from error
        if "reshaped" in told and made_NK.size == np.prod(item.dims):
            made_NK = made_NK.reshape(item.dims)
        if tuple(item.dims)[1:] != made_NK.shape[1:] or made_NK.ndim != len(item.dims):
            why = f"its {told['location']} has the shape {made_NK.shape}"
            raise CheckpointError(str(where), why, AGAIN)
        item.ClearField("external_data")
        item.ClearField("data_location")
        item.dims[:] = made_NK.shape
        item.raw_data = np.ascontiguousarray(made_NK, dtype="<f4").tobytes()


def _made(told: Mapping[str, str], tensors: Weights) -> NDArray[Any]:
    value: NDArray[Any] = tensors[told["location"]].astype(np.float32)
    if "norm" not in told:
        return value.T if "transposed" in told else value
    norm = {name: tensors[f"{told['norm']}.{name}"].astype(np.float32) for name in NORM}
    scale: NDArray[Any] = norm["weight"] / np.sqrt(norm["running_var"] + np.float32(EPSILON))
    if value.ndim > 1:
        value *= scale.reshape(-1, *(1,) * (value.ndim - 1))
        return value
    shift: NDArray[Any] = norm["bias"] - norm["running_mean"] * scale
    return shift


NORM = ("weight", "bias", "running_mean", "running_var")


def strip(proto: Any, tensors: Weights) -> int:
    """Takes a checkpoint's tensors out of an exported graph; each place then tells what belongs there.

    Args:
        proto: the graph; it is changed. Its float32 weights are tensors as they are, or transposed,
            or convolutions with the batch norm after them.
        tensors: name to weights.

    Returns:
        The bytes of float32 constants that no tensor explains.
    """
    from onnx import TensorProto, numpy_helper

    left = 0
    for item in proto.graph.initializer:
        if item.data_type != TensorProto.FLOAT or len(item.dims) == 0:
            continue
        value = numpy_helper.to_array(item)
        found = [told for told in _ways(tensors) if _explains(told, tensors, value)]
        named = [told for told in found if item.name.endswith(told["location"])]
        if not found:
            left += value.nbytes
            continue
        if len(found) > 1 and len(named) != 1:
            raise ConversionError(item.name, f"it may be {len(found)} tensors", "Name it")
        item.ClearField("raw_data")
        item.data_location = TensorProto.EXTERNAL
        for key, text in (named or found)[0].items():
            item.external_data.add(key=key, value=text)
    return left


def _ways(tensors: Weights) -> Iterator[dict[str, str]]:
    for name, tensor in tensors.items():
        yield {"location": name}
        yield {"location": name, "transposed" if tensor.ndim == 2 else "reshaped": "1"}
        layer, _, kind = name.rpartition(".")
        place, _, index = layer.rpartition(".")
        norm = f"{place}.{int(index) + 1}" if index.isdecimal() else ""
        if kind == "weight" and f"{norm}.running_var" in tensors:
            yield {"location": name, "norm": norm}
            yield {"location": f"{norm}.bias", "norm": norm}


def _explains(told: Mapping[str, str], tensors: Weights, value: NDArray[np.float32]) -> bool:
    made = _made(told, tensors)
    if "reshaped" in told:
        if made.shape == value.shape or made.size != value.size:
            return False
        made = made.reshape(value.shape)
    return made.shape == value.shape and bool(np.allclose(made, value, rtol=1e-5, atol=1e-7))
