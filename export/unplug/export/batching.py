"""An ONNX file whose first axis is free, for servers that answer several requests in one run.

Exports have a static batch of one, which phones want. Freeing the first axis changes shapes alone,
no weight; whether the graph then treats its samples apart is not argued but measured: a batch
against the same samples one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unplug.core import (
    ArtifactError,
    ConversionError,
    Job,
    Reply,
    call_in_child,
    memory_for,
    require_modules,
)

from .artifact import Artifact
from .metrics import psnr_db
from .tensors import random_inputs

AXIS = "batch"
SAMPLES = 3
MIN_DB = 60.0
"""The PSNR of a batch against single runs of the file as it came. They differ in the order of sums
alone; a graph that mixes its samples, or norms over them, is far below.
"""


def free_batch(artifact: Artifact, out: Path) -> float:
    """Writes a copy of an ONNX artifact that takes any number of samples.

    Args:
        artifact: an ONNX artifact with a static batch of one.
        out: the file to write.

    Returns:
        The smallest PSNR of an output, in dB: a batch of the new file against single runs of the
        old one.

    Raises:
        ArtifactError: it is not an ONNX file with a batch of one, or cannot be run.
        ConversionError: with a batch it answers otherwise than sample by sample.
        MissingExtraError: `onnx` is not installed.
    """
    firsts = {tensor.shape[:1] for tensor in artifact.card.iospec.inputs}
    if artifact.card.target != "onnx" or firsts != {(1,)}:
        why = "it is not an ONNX file with a batch of one"
        raise ArtifactError(str(artifact.path), why, "Give one that `unplug export` wrote")
    require_modules(["onnx", "onnxruntime"], "onnx")
    reply = call_in_child(
        "unplug.export.batching:freed",
        {"path": str(artifact.path), "out": str(out)},
        random_inputs(artifact.card.iospec, SAMPLES, seed=0),
        what=f"{artifact.path.name}: freeing its batch",
        memory=memory_for(artifact.path),
    )
    worst = min(
        psnr_db(reply.arrays[f"single {item.name}"], reply.arrays[f"batch {item.name}"])
        for item in artifact.card.iospec.outputs
    )
    if not worst >= MIN_DB:
        out.unlink(missing_ok=True)
        why = f"a batch differs from single runs ({worst:.1f} dB, and {MIN_DB:g} are needed)"
        raise ConversionError(str(artifact.path), why, "Serve it one by one")
    return worst


def freed(job: Job) -> Reply:
    """The file, and the answers of both, computed in a child process."""
    import numpy as np
    import onnx
    import onnxruntime

    proto = onnx.load(job.values["path"])
    free_axis(proto)
    onnx.save(proto, job.values["out"])
    old, new = (
        onnxruntime.InferenceSession(job.values[name], providers=["CPUExecutionProvider"])
        for name in ("path", "out")
    )
    inputs = {name: np.asarray(array) for name, array in job.arrays.items()}
    names = [item.name for item in old.get_outputs()]
    singles = [
        old.run(names, {key: value[at : at + 1] for key, value in inputs.items()})
        for at in range(SAMPLES)
    ]
    arrays = {
        f"batch {name}": array for name, array in zip(names, new.run(names, inputs), strict=True)
    }
    arrays |= {
        f"single {name}": np.concatenate(parts)
        for name, parts in zip(names, zip(*singles, strict=True), strict=True)
    }
    return Reply(values={}, arrays=arrays)


def free_axis(proto: Any) -> None:
    """Frees the first axis of every input and output, and of every `Reshape` to a constant shape
    that begins with one.
    """
    from onnx import numpy_helper

    graph = proto.graph
    for tensor in (*graph.input, *graph.output):
        tensor.type.tensor_type.shape.dim[0].dim_param = AXIS
    del graph.value_info[:]
    known = {tensor.name: tensor for tensor in graph.initializer}
    for number, node in enumerate(graph.node):
        if node.op_type != "Reshape" or node.input[1] not in known:
            continue
        shape = numpy_helper.to_array(known[node.input[1]]).copy()
        if not len(shape) or shape[0] != 1:
            continue
        zero_copies = (shape[1:] == -1).any()
        shape[0] = 0 if zero_copies else -1
        # a second -1 is not allowed, and 0 takes the input's own axis unless allowzero says
        # otherwise
        if zero_copies:
            kept = [tensor for tensor in node.attribute if tensor.name != "allowzero"]
            del node.attribute[:]
            node.attribute.extend(kept)
        name = f"{node.input[1]}_{AXIS}_{number}"
        graph.initializer.append(numpy_helper.from_array(shape, name))
        node.input[1] = name
