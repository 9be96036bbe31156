"""NVIDIA Triton: a model repository with the ONNX file, its batch axis freed, and dynamic batching
on.

The version is the release's number, so that a server which polls its repository goes over to a
newer release, and back to none. The file is not the signed one, whose batch is one:
``unplug-pack.json`` has the hash of what lies here and names the bundle.

Reference: Triton Inference Server, Model repository and Model configuration (model_config.proto).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from unplug.core import InputError, TensorSpec, temporary_folder

from .shipment import Shipment

if TYPE_CHECKING:
    from unplug.export import Artifact

TYPES = {
    "float32": "TYPE_FP32",
    "float16": "TYPE_FP16",
    "float64": "TYPE_FP64",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "uint8": "TYPE_UINT8",
    "bool": "TYPE_BOOL",
}
MAX_BATCH, MAX_DELAY_US = 32, 500


def write_triton(shipment: Shipment, folder: Path) -> None:
    """``NAME/config.pbtxt`` and ``NAME/RELEASE/model.onnx``."""
    from unplug.export import free_batch

    name = shipment.identifier()
    version = folder / name / str(shipment.release)
    version.mkdir(parents=True)
    with temporary_folder("unplug-triton-") as place:
        shipment.copy(place / "bundle")
        artifact = _chosen(place / "bundle" / "artifacts", shipment.delivery.precision)
        free_batch(artifact, version / "model.onnx")
    (folder / name / "config.pbtxt").write_text(config(name, artifact), encoding="utf-8")


def _chosen(folder: Path, precision: str) -> Artifact:
    from unplug.export import load_artifact

    artifacts = [load_artifact(path) for path in sorted(folder.glob("*.onnx"))]
    for artifact in artifacts:
        if artifact.card.precision == precision:
            return artifact
    has = ", ".join(artifact.card.precision for artifact in artifacts)
    why = f"no ONNX file of the precision {precision}" + (
        f"; it has {has}" if has else ", nor of any"
    )
    raise InputError("the bundle", why, "Give `precision`, or export with `--to onnx`")


def config(name: str, artifact: Artifact) -> str:
    """``config.pbtxt``: shapes without the batch, which Triton puts before them."""
    spec = artifact.card.iospec
    return "\n".join(
        [
            f"name: {json.dumps(name)}",
            'backend: "onnxruntime"',
            f"max_batch_size: {MAX_BATCH}",
            *(_tensor("input", item) for item in spec.inputs),
            *(_tensor("output", item) for item in spec.outputs),
            f"dynamic_batching {{ max_queue_delay_microseconds: {MAX_DELAY_US} }}",
            "version_policy { latest { num_versions: 1 } }",
            "",
        ]
    )


def _tensor(side: str, spec: TensorSpec) -> str:
    if spec.dtype not in TYPES:
        raise InputError(
            f"the tensor {spec.name[:80]!r}",
            f"Triton has no type {spec.dtype[:40]!r}",
            "Export it in another type",
        )
    dims = ", ".join(str(size) for size in spec.shape[1:])
    reshape = "" if dims else " reshape { shape: [ ] }"
    return (
        f"{side} [ {{ name: {json.dumps(spec.name)} data_type: {TYPES[spec.dtype]} dims: [ "
        f"{dims or 1} ]{reshape} }} ]"
    )
