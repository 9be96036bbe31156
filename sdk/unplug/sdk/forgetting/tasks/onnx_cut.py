"""An ONNX file as a trunk: what may be one, and the same file with the features as outputs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unplug.core import InputError, check_content, require_modules
from unplug.plugins import ONNX

MAX_BYTES = 2**29
"""Among the weights of a checkpoint it lies in memory several times."""
OLDEST_OPSET = 7
"""Before that, operators did not broadcast."""


def check_file(path: Path) -> None:
    """Refuses, by its size and by names in it alone, what no trunk can be: `InputError`."""
    from unplug.export import external_tensor

    require_modules(["onnx", "onnxruntime"], ONNX)
    if not path.is_file():
        raise InputError(str(path), "no such file", "Check the path")
    if (size := path.stat().st_size) > MAX_BYTES:
        why = f"it has {size:,} bytes, and a trunk at most {MAX_BYTES:,}"
        raise InputError(str(path), why, "Take a smaller network")
    check_content(path, InputError)
    if (name := external_tensor(path)) is not None:
        why = f"its tensor {name[:100]} lies in another file"
        raise InputError(str(path), why, "Save it as one file (onnx.save with no external data)")


def cut(path: Path, tensor: str, image_size: int, *, answer: bool) -> bytes:
    """The file with the features, and after them the answer, as its only outputs.

    Args:
        path: an ONNX file.
        tensor: the features; empty for its first output.
        image_size: side of the pictures in pixels.
        answer: whether its first output is read as well.

    Raises:
        InputError: it is broken, takes other pictures, or has no such tensor.
    """
    import onnx
    from onnx import TensorProto, helper

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise InputError(str(path), "it is not a whole ONNX file", "Export it again") from error
    version = max((item.version for item in model.opset_import if not item.domain), default=0)
    if version < OLDEST_OPSET:
        why = f"its operators are of opset {version}"
        raise InputError(str(path), why, f"Export it with opset {OLDEST_OPSET} or newer")
    graph = model.graph
    _check_input(graph, path, image_size)
    known = [name for node in graph.node for name in node.output if name]
    first = graph.output[0].name if graph.output else ""
    wanted = [tensor or first] + [first] * answer
    if wanted[0] not in known:
        raise unknown(f"{path}", "tensor", wanted[0], known)
    if len({*wanted}) < len(wanted):
        why = "its first output is the features already"
        raise InputError(str(path), why, "Name a tensor before it in `features`, or no `answer`")
    del graph.output[:]
    graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in wanted
    )
    made: bytes = model.SerializeToString()
    return made


def _check_input(graph: Any, path: Path, image_size: int) -> None:
    from onnx import TensorProto

    constants = {tensor.name for tensor in graph.initializer}
    inputs = [item for item in graph.input if item.name not in constants]
    kinds = [item.type.tensor_type for item in inputs]
    # a size that is a name, or is not said, takes any
    shapes = [[part.dim_value or None for part in kind.shape.dim] for kind in kinds]
    wanted = [None, 3, image_size, image_size]
    fits = len(inputs) == 1 and len(shapes[0]) == 4 and kinds[0].elem_type == TensorProto.FLOAT
    if fits and shapes[0][0] is not None:
        why = f"it takes {shapes[0][0]} pictures at a time, and no other number"
        raise InputError(str(path), why, "Export it with a dynamic batch")
    if not fits or any(
        have not in (None, want) for have, want in zip(shapes[0], wanted, strict=True)
    ):
        why = f"it takes {shapes}, where pictures are [batch, 3, {image_size}, {image_size}]"
        raise InputError(str(path), why, "Export it so, or give its side with `image_size`")


def unknown(what: str, kind: str, name: str, known: Iterable[str]) -> InputError:
    """An error for a name that is not there, with those that are like it."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=2) or names[-3:]
    return InputError(what, f"it has no {kind} {name[:80]!r}", f"Did you mean {' or '.join(near)}?")
