"""An ONNX graph of somebody else with our head joined to it: the file of a model whose trunk no
torch network computes.

Shapes: F features, K answers, V = 2 K, C = F + V, D random features, G age groups or classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from torch import nn

from unplug.plugins import AdoptedTrunk, OnnxGraph

from .base import TargetSource

THEIRS = "trunk_"
"""In front of all of their names, so that none is one of ours."""


def onnx_trunk(model: Any) -> AdoptedTrunk | None:
    """The trunk of a model that ONNX Runtime computes, or None of other models."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    for part in parts:
        if isinstance(part, AdoptedTrunk) and isinstance(part.inner, OnnxGraph):
            return part
    return None


def joined(source: TargetSource, trunk: AdoptedTrunk) -> Any:
    """The graph for one picture, in operators that every opset from 7 on has alike."""
    import onnx
    from onnx import TensorProto, compose, helper

    inner = cast(OnnxGraph, trunk.inner)
    proto = onnx.load_from_string(inner.graph.cpu().numpy().tobytes())
    proto = compose.add_prefix(proto, THEIRS)
    # before that every constant was an input as well
    proto.ir_version = max(proto.ir_version, 4)
    graph = proto.graph
    outputs = [item.name for item in graph.output]
    constants = {tensor.name for tensor in graph.initializer}
    (taken,) = [item.name for item in graph.input if item.name not in constants]
    picture = source.iospec.inputs[0]
    before = _Piece(proto)
    name = picture.name
    if picture.layout == "NHWC":
        name = before.node("Transpose", [name], perm=[0, 3, 1, 2])
    name = before.node("Sub", [name, before.constant(trunk.network.mean_C11[None])])
    before.node("Div", [name, before.constant(trunk.network.std_C11[None])], out=taken)
    after = _Piece(proto)
    name = after.node("Flatten", [outputs[0]], axis=1)
    if trunk.tap.answers:
        likely = after.node("Flatten", [outputs[1]], axis=1)
        likely = after.node("Softmax", [likely], axis=1) if trunk.tap.logits else likely
        views = after.node("MatMul", [likely, after.constant(trunk.views_KV)])
        name = after.node("Concat", [name, views], axis=1)
    name = after.node("Sub", [name, after.constant(trunk.shift_C[None])])
    head = next((part for part in source.model.modules() if hasattr(part, "lift")), None)
    made = [tensor.name for tensor in source.iospec.outputs]
    whole = made[0] if head is None else None
    name = after.node("Mul", [name, after.constant(trunk.scale_C[None])], out=whole)
    if head is not None:
        _head(after, head, name, made)
    nodes = [*before.nodes, *graph.node, *after.nodes]
    kept = [item for item in graph.input if item.name in constants]
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    for end, tensors in (
        (graph.input, source.iospec.inputs),
        (graph.output, source.iospec.outputs),
    ):
        end.extend(
            helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.shape)
            for tensor in tensors
        )
    graph.input.extend(kept)
    return proto


def _head(part: _Piece, head: Any, name: str, made: Sequence[str]) -> None:
    """Logits, and of ages the age, as `AgePredictor.forward` computes them."""
    lifted = part.node("Relu", [part.linear(name, head.lift.weight, head.lift.bias)])
    weight_KD, bias_K = head.classifier.weight, head.classifier.bias
    groups = head.groups
    part.linear(lifted, weight_KD[:groups], bias_K[:groups], out=made[0])
    if not head.more:
        return
    youngest, oldest = head.age_edges[0], head.age_edges[-1]
    age = part.linear(lifted, weight_KD[groups:], bias_K[groups:] - youngest)
    above = part.node("Relu", [age])
    left = part.node("Relu", [part.node("Sub", [part.constant(oldest - youngest), above])])
    part.node("Sub", [part.constant(oldest), left], out=made[1])


class _Piece:
    """Nodes with names of their own; their constants go into the graph."""

    def __init__(self, proto: Any) -> None:
        self.graph, self.nodes = proto.graph, list[Any]()

    def node(self, kind: str, inputs: Sequence[str], *, out: str | None = None, **how: Any) -> str:
        from onnx import helper

        name = out or f"{kind.lower()}_{len(self.nodes)}_{len(self.graph.initializer)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **how))
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.graph.initializer)}"
        number = value.detach().cpu().numpy() if hasattr(value, "detach") else np.float32(value)
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(number), name))
        return name

    def linear(self, name: str, weight_OI: Any, bias_O: Any, out: str | None = None) -> str:
        weights = [self.constant(weight_OI), self.constant(bias_O)]
        return self.node("Gemm", [name, *weights], transB=1, out=out)
