"""Wrote the ONNX files of this folder, with their cards; needs the package ``onnx``: python -m
tests.vectors.hostile.graphs.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from unplug.core import IOSpec, TensorSpec, write_json
from unplug.export import Card

HERE = Path(__file__).parent
IMAGE = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 4, 4])
OUT = [
    helper.make_tensor_value_info("age_logits", TensorProto.FLOAT, [1, 2]),
    helper.make_tensor_value_info("expected_age", TensorProto.FLOAT, [1, 1]),
]
SPEC = IOSpec(
    inputs=(TensorSpec(name="image", shape=(1, 3, 4, 4), layout="NCHW", range=(0.0, 1.0)),),
    outputs=(
        TensorSpec(name="age_logits", shape=(1, 2), layout="NC"),
        TensorSpec(name="expected_age", shape=(1, 1), layout="NC"),
    ),
)


def _mean(source: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("ReduceMean", [source], ["mean"], keepdims=0),
        helper.make_node("Reshape", ["mean", "one_by_one"], ["expected_age"]),
        helper.make_node("Concat", ["expected_age", "expected_age"], ["age_logits"], axis=1),
    ]


def _constant(name: str, values: list[int], dtype: type = np.int64) -> TensorProto:
    return numpy_helper.from_array(np.asarray(values, dtype), name)


SHAPE = _constant("one_by_one", [1, 1])


def memory() -> onnx.GraphProto:
    """16 GiB from a few bytes: a tensor of a shape that the file says, with the image in its
    corner.
    """
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ReduceMax", ["image"], ["top"], keepdims=0),
        helper.make_node("Add", ["zeros", "top"], ["sum"]),
        *_mean("sum"),
    ]
    return helper.make_graph(
        nodes, "memory", [IMAGE], OUT, [_constant("shape", [2**16, 2**15]), SHAPE]
    )


def loop() -> onnx.GraphProto:
    """A loop without an end."""
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    on, goes_on = (
        helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("on", "goes_on")
    )
    body_in, body_out = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 4, 4]) for name in ("a", "b")
    )
    half = numpy_helper.from_array(np.float32(0.5), "half")
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["a", "half"], ["b"]),
            helper.make_node("Identity", ["on"], ["goes_on"]),
        ],
        "body",
        [number, on, body_in],
        [goes_on, body_out],
        [half],
    )
    nodes = [helper.make_node("Loop", ["", "yes", "image"], ["last"], body=body), *_mean("last")]
    return helper.make_graph(
        nodes, "loop", [IMAGE], OUT, [numpy_helper.from_array(np.array(True), "yes"), SHAPE]
    )


def elsewhere() -> onnx.GraphProto:
    """Numbers that lie in another file of the machine."""
    tensor = TensorProto(
        name="secret",
        data_type=TensorProto.FLOAT,
        dims=[1, 3, 4, 4],
        data_location=TensorProto.EXTERNAL,
    )
    tensor.external_data.add(key="location", value="../../../../../../etc/passwd")
    nodes = [helper.make_node("Add", ["image", "secret"], ["sum"]), *_mean("sum")]
    return helper.make_graph(nodes, "elsewhere", [IMAGE], OUT, [tensor, SHAPE])


def main() -> None:
    """Writes every graph and its card."""
    for name, graph in {"memory": memory(), "loop": loop(), "elsewhere": elsewhere()}.items():
        raw = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
        file = HERE / f"{name}.onnx"
        file.write_bytes(raw)
        digest = hashlib.sha256(raw).hexdigest()
        card = Card(
            target="onnx",
            precision="fp32",
            file=file.name,
            sha256=digest,
            bytes=len(raw),
            model_type="age",
            iospec=SPEC,
            config={"age_edges": [0.0, 20.0, 100.0]},
            checkpoint_sha256="0" * 64,
            flops=None,
            versions={},
            seconds=0.0,
            prepare_seconds=0.0,
        )
        write_json(file.with_name(f"{file.name}.json"), asdict(card))


if __name__ == "__main__":
    main()
