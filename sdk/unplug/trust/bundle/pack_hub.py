"""The Hugging Face Hub: a model repository, its card with metadata, and the bundle in a folder of
it.

The bundle's own README.md is signed and stays as it is; the repository's says how to verify it.
Texts of the bundle stand in the metadata as JSON strings, which YAML reads as nothing else.

Reference: Hugging Face Hub documentation, Model cards.
"""

from __future__ import annotations

import json
from pathlib import Path

from unplug.core import plain

from .manifest import Gate
from .shipment import Shipment
from .source import MANIFEST, SIGNATURE

PIPELINES = {
    "age": "image-classification",
    "classes": "image-classification",
    "plugin": "text-to-image",
}
LARGE = ("onnx", "tflite", "bin", "pte", "safetensors", "f32", "sig")
"""Endings that the hub keeps in its large-file store."""


def write_hub(shipment: Shipment, folder: Path) -> None:
    """``README.md``, ``.gitattributes`` and the bundle."""
    directory = f"{shipment.name}.unplug"
    shipment.copy(folder / directory)
    (folder / "README.md").write_text(
        "\n".join([*_metadata(shipment), "", *_text(shipment, directory)]), encoding="utf-8"
    )
    lines = (f"*.{ending} filter=lfs diff=lfs merge=lfs -text\n" for ending in LARGE)
    # A line ending that git changes is another file than the one that was signed.
    (folder / ".gitattributes").write_text("* -text\n" + "".join(lines), encoding="utf-8")


def _metadata(shipment: Shipment) -> list[str]:
    manifest = shipment.manifest
    targets = {name.rsplit(".", 1)[-1] for name in manifest.files if name.startswith("artifacts/")}
    tags = [
        "unplug",
        "machine-unlearning",
        *sorted(targets & {"onnx", "tflite", "mlpackage", "pte"}),
    ]
    lines = ["---", "library_name: unplug-sdk"]
    if shipment.delivery.license:
        lines.append(f"license: {json.dumps(shipment.delivery.license)}")
    if manifest.model_type in PIPELINES:
        pipeline = PIPELINES[manifest.model_type]
        lines.append(f"pipeline_tag: {pipeline}")
        results = {
            "task": {"type": pipeline},
            "dataset": {"type": "unplug", "name": f"digest {manifest.lineage.data_digest:.16}"},
            "metrics": [
                {"type": gate.name, "value": gate.value}
                for gate in manifest.gates
                if gate.value is not None
            ],
        }
        index = [{"name": shipment.name, "results": [results]}]
        lines.append(f"model-index: {json.dumps(index)}")
    return [*lines, "tags:", *(f"- {tag}" for tag in tags), "---"]


def _text(shipment: Shipment, directory: str) -> list[str]:
    """Nothing here is a stranger's markup: names were checked, and the rest is a number or made
    plain.
    """
    manifest, lineage = shipment.manifest, shipment.manifest.lineage
    signed = (
        f"signed by the key `{shipment.key}`"
        if shipment.key
        else "**not signed**: this shows integrity, not origin"
    )
    trust = " --trust KEY.pub" if shipment.key else ""
    return [
        f"# {shipment.name}, release {shipment.release}",
        "",
        f"A model (`{_cell(manifest.model_type)}`) that has forgotten {lineage.forget_samples} "
        "training samples by "
        f"`{_cell(lineage.method)}`, at {100 * lineage.compute_fraction:.1f} % of a retraining. "
        f"The bundle is {signed}.",
        "",
        "## Verify before use",
        "",
        "```sh",
        f"unplug bundle verify {directory}{trust}",
        "```",
        "",
        f"Its id, the SHA-256 of `{directory}/{MANIFEST}`, must be `{shipment.id}`."
        + (
            f" `{SIGNATURE}` is over every file; get the key from whom you trust, not from here."
            if shipment.key
            else ""
        ),
        "",
        *_without_unplug(shipment, directory),
        "## What it was judged by",
        "",
        "| gate | value | limit | |",
        "|---|---:|---:|---|",
        *(_gate(gate) for gate in manifest.gates),
        "",
        "## Files",
        "",
        "| file | bytes | SHA-256 |",
        "|---|---:|---|",
        *(
            f"| `{name}` | {entry.bytes:,} | `{_cell(entry.sha256)}` |"
            for name, entry in sorted(manifest.files.items())
        ),
        "",
    ]


def _without_unplug(shipment: Shipment, directory: str) -> list[str]:
    """How ONNX Runtime alone opens it, where there is a file for that."""
    files = [name for name in shipment.manifest.files if name.endswith(".onnx")]
    if not files:
        return []
    path = json.dumps(f"{directory}/{min(files, key=len)}")
    return [
        "## Open it without unplug",
        "",
        "```python",
        "import numpy",
        "import onnxruntime",
        "",
        f"session = onnxruntime.InferenceSession({path})",
        "print(session.get_modelmeta().custom_metadata_map)",
        "blank = {one.name: numpy.zeros(one.shape, numpy.float32) for one in session.get_inputs()}",
        "print(session.run(None, blank))",
        "```",
        "",
    ]


def _gate(gate: Gate) -> str:
    value = "not measured" if gate.value is None else f"{gate.value:.4g}{_cell(gate.unit)}"
    word = "" if gate.override is None else f"overridden: {_cell(gate.override)}"
    return (
        f"| {_cell(gate.name)} | {value} | {gate.comparison} {gate.limit:.4g}{_cell(gate.unit)} | "
        f"{word} |"
    )


def _cell(text: str) -> str:
    """A stranger's text as a cell of a table: one line, no markup."""
    return "".join(
        f"&#{ord(mark)};" if mark in "|`<>&*_[]()!#~\\\"'" else mark for mark in plain(text, 200)
    )
