"""An ONNX file answering pictures in this process, several in one run.

Exported files have a batch of one, as phones do. Here the first axis is freed in memory: of the
inputs and outputs, and of the shapes that reshapes name. What that gives is believed only where it
answers random pictures as the file itself does, one by one; a file that does not is run one by one.
Which of the two it is a child process finds out, with a bound on memory and time: the file may ask
for all that a machine has.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import (
    Array,
    ArtifactError,
    InputError,
    IOSpec,
    Job,
    Reply,
    TensorSpec,
    call_in_child,
    explain_memory,
    memory_for,
    out_of_memory,
    read_regular,
    require_modules,
    seconds_for,
)
from unplug.export import MAX_ARTIFACT_BYTES, Artifact, load_artifact, random_inputs
from unplug.sdk.drawing.conditions import scaled, takes_pictures
from unplug.sdk.learning.data import decode_image, square

from .answer import class_rows, group_rows
from .crop import parse_box

TRIAL = 3
"""Pictures that are run together and one by one before a freed batch is believed."""
TRIAL_SECONDS = 60.0
UNBOUNDED = ("Loop", "Scan", "If")
"""Operators whose work depends on the picture: a trial says nothing about the next one. No exported
file has them.
"""
TOLERANCE = 1e-3
"""Between the two: fp16 files sum in another order; what a wrong axis does is of the size of the
outputs themselves.
"""


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A model that answers pictures.

    Args:
        path: the file's path.
        sha256: the SHA-256 of the bytes that were loaded; every answer names it.
        model_type: the model type of its card.
        tensor: its one input.
        config: the card's ``config``.
        batched: whether several pictures go through it at once.
        session: ONNX Runtime's.
        iospec: its named tensors.
    """

    path: Path
    sha256: str
    model_type: str
    tensor: TensorSpec
    config: Mapping[str, Any]
    batched: bool
    session: Any
    iospec: IOSpec

    def pixels(self, raw: bytes, box: str | None = None) -> NDArray[np.uint8]:
        """What the model sees of a picture file: (side, side, 3).

        Args:
            raw: JPEG, PNG, WebP or BMP, from anybody.
            box: "left,top,right,bottom" in pixels; None takes the centre square.

        Raises:
            DataError: broken, too large, or made to keep a decoder busy.
            InputError: a box that does not lie in the picture.
        """
        image = decode_image(raw, "the picture")
        return square(
            image if box is None else image.crop(parse_box(box, image)), self.tensor.height
        )

    def answer(self, pixels: Sequence[NDArray[np.uint8]]) -> list[dict[str, Any]]:
        """Outputs of N pictures, JSON-ready: of an age model ``age`` in years and ``groups``, of a
        classifier ``label``, ``probability`` and ``labels``, else all ``outputs`` by name.

        Raises:
            ArtifactError: the model gave something other than numbers.
        """
        inputs = scaled(np.stack(pixels), self.tensor)
        named = self._run(inputs)
        if not all(np.isfinite(array).all() for array in named.values()):
            raise ArtifactError(
                self.path.name, "it answered with something other than numbers", "Export it again"
            )
        if "age_edges" in self.config:
            edges, years = self.config["age_edges"], named["expected_age"].reshape(-1)
            return [
                {"age": float(age), "groups": group_rows(logits, edges)}
                for logits, age in zip(named["age_logits"], years, strict=True)
            ]
        if "classes" in self.config:
            return class_rows(named["logits"], self.config["classes"])
        return [
            {"outputs": {name: array[row].tolist() for name, array in named.items()}}
            for row in range(len(inputs))
        ]

    def _run(self, inputs: Array) -> dict[str, Array]:
        names = [tensor.name for tensor in self.iospec.outputs]
        parts = [inputs] if self.batched else [inputs[row : row + 1] for row in range(len(inputs))]
        runs = [self.session.run(names, {self.tensor.name: part}) for part in parts]
        return {
            name: np.concatenate([run[place] for run in runs]).astype(np.float64)
            for place, name in enumerate(names)
        }


def load_embedded(path: str | Path, *, threads: int = 1) -> Embedded:
    """Opens an ONNX file with its card: the bytes that were hashed are those that run.

    Args:
        path: an exported ``.onnx`` file of a model that takes one RGB picture.
        threads: the number of ONNX Runtime's threads for one run.

    Raises:
        ArtifactError: not as its card says, broken, of another target, or with loops.
        InputError: a model that takes something else than a picture.
        ConversionError: it took more memory or time than a model of pictures may, or ended the
            child process.
        MissingExtraError: ``[serve]`` is not installed.
    """
    require_modules(("onnx", "onnxruntime"), "serve")
    artifact, raw = _read(path)
    card = artifact.card
    batched = call_in_child(
        "unplug.sdk.drawing.inference.embedded:tried",
        {"path": str(artifact.path.resolve()), "threads": threads},
        what=f"trying {artifact.path}",
        memory=memory_for(artifact.path),
        timeout=seconds_for(TRIAL, TRIAL_SECONDS),
    ).values["batched"]
    return Embedded(
        path=artifact.path,
        sha256=card.sha256,
        model_type=card.model_type,
        tensor=_one_picture(card.iospec, path),
        config=card.config,
        batched=batched,
        iospec=card.iospec,
        session=_opened(free_batch(raw) if batched else raw, threads, path),
    )


def _read(path: str | Path) -> tuple[Artifact, bytes]:
    """A file with its card, and the bytes that the card names: all that is done with it is done
    with those.
    """
    artifact = load_artifact(path)
    raw = read_regular(artifact.path, max_bytes=MAX_ARTIFACT_BYTES, error=ArtifactError)
    if artifact.card.target != "onnx" or hashlib.sha256(raw).hexdigest() != artifact.card.sha256:
        raise ArtifactError(
            str(path),
            "it is not an ONNX file, or changed while it was read",
            "Give one that `unplug export` wrote",
        )
    return artifact, raw


def tried(job: Job) -> Reply:
    """The child's side of `load_embedded`: whether several pictures at once get the answers that
    they get one by one.
    """
    artifact, raw = _read(job.values["path"])
    path, threads, iospec = artifact.path, job.values["threads"], artifact.card.iospec
    tensor = _one_picture(iospec, path)
    session = _opened(raw, threads, path)
    if operator := _unbounded(raw):
        why = f"it holds the operator {operator}, whose work depends on the picture"
        raise ArtifactError(
            str(path), why, "Build the model without loops and branches, and export it again"
        )
    trial = random_inputs(iospec, TRIAL, 0)[tensor.name]
    apart = _apart(session, tensor.name, trial, path)
    freed = _opened_or_none(raw, threads)
    return Reply(values={"batched": freed is not None and _agree(freed, tensor.name, trial, apart)})


def _unbounded(raw: bytes) -> str | None:
    import onnx

    model = onnx.load_from_string(raw)
    nodes = itertools.chain(model.graph.node, *(function.node for function in model.functions))
    return next((node.op_type for node in nodes if node.op_type in UNBOUNDED), None)


def _one_picture(iospec: IOSpec, path: str | Path) -> TensorSpec:
    if iospec.inputs[0].layout != "NCHW" or not takes_pictures(iospec):
        why = "it takes something else than one square RGB picture"
        raise InputError(str(path), why, "Serve a model of pictures")
    return iospec.inputs[0]


def _opened(raw: bytes, threads: int, path: str | Path) -> Any:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # what fails is raised
    broken = (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NotImplemented,
    )
    try:
        return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    except (*broken, state.RuntimeException) as error:
        raise ArtifactError(
            str(path), f"ONNX Runtime cannot load it ({error})", "Export it again"
        ) from error


def _opened_or_none(raw: bytes, threads: int) -> Any:
    try:
        return _opened(free_batch(raw), threads, "the same with a free batch")
    except (ArtifactError, ValueError):  # ValueError: of protobuf and onnx
        return None


def _apart(session: Any, name: str, trial: Array, path: Path) -> list[list[Array]]:
    """What the file says of each picture by itself."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    try:
        return [session.run(None, {name: trial[row : row + 1]}) for row in range(len(trial))]
    except (state.Fail, state.InvalidArgument, state.RuntimeException) as error:
        fix = explain_memory(memory_for(path)) if out_of_memory(str(error)) else "Export it again"
        raise ArtifactError(
            str(path), f"it cannot be run ({' '.join(str(error).split())})", fix
        ) from error


def _agree(many: Any, name: str, trial: Array, apart: list[list[Array]]) -> bool:
    """Whether N pictures at once are answered as one by one."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    try:
        together = many.run(None, {name: trial})
    except (state.Fail, state.InvalidArgument, state.RuntimeException):
        return False
    singles = [np.concatenate([run[place] for run in apart]) for place in range(len(together))]
    return all(
        left.shape == right.shape and np.allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE)
        for left, right in zip(together, singles, strict=True)
    )


def free_batch(raw: bytes) -> bytes:
    """The same ONNX graph with a first axis of any length.

    Inputs and outputs get a named axis; a reshape to the constant (1, ...) gets (-1, ...) where
    nothing else is -1 in it.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(raw)
    graph = model.graph
    del graph.value_info[:]  # shapes in between that were worked out for one
    for value in itertools.chain(graph.input, graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    constants = {item.name: item for item in graph.initializer}
    for number, node in enumerate(graph.node):
        if node.op_type != "Reshape" or node.input[1] not in constants:
            continue
        shape = numpy_helper.to_array(constants[node.input[1]])
        # A reshape may leave one length open; where one is open already, the first stays 1.
        if shape.size > 1 and shape[0] == 1 and -1 not in shape:
            name = f"free_batch_{number}"
            graph.initializer.append(
                numpy_helper.from_array(np.array([-1, *shape[1:]], np.int64), name)
            )
            node.input[1] = name
    return bytes(model.SerializeToString())
