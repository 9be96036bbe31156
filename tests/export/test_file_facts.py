"""What exported files say of themselves, read by the stock reader of each format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from ai_edge_litert import schema_py_generated as litert_schema

from unplug.core import VERSION, IOSpec, TensorSpec
from unplug.export.file_facts import file_facts
from unplug.plugins import Checkpoint

from .conftest import Files

IMAGE = "float32 1x3x32x32 NCHW RGB 0..1"


def told(card: Any) -> dict[str, str]:
    """What a file of the tests' age model says, by hand."""
    return {
        "model_name": "age",
        "unplug_version": VERSION,
        "checkpoint_sha256": card.checkpoint_sha256,
        "input_image": IMAGE,
        "output_age_logits": "float32 1x13 NC",
        "output_expected_age": "float32 1x1 NC 3..90",
    }


@pytest.mark.long
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8-static"])
def test_onnx_tells_it_to_its_own_reader(by_name: Files, precision: str) -> None:
    file = by_name[f"age.{precision}.onnx"]
    props = onnx.load(file.path, load_external_data=False).metadata_props
    found = {item.key: item.value for item in props}
    assert told(file.card).items() <= found.items()


@pytest.mark.long
def test_litert_keeps_it_in_a_buffer_of_its_own(by_name: Files) -> None:
    file = by_name["age.int8-static.tflite"]
    model = litert_schema.ModelT.InitFromPackedBuf(file.path.read_bytes(), 0)
    (entry,) = [entry for entry in model.metadata if entry.name == b"UNPLUG"]
    assert json.loads(bytes(model.buffers[entry.buffer].data)) == told(file.card)


@pytest.mark.long
def test_core_ml_has_it_beside_its_converters_own(by_name: Files) -> None:
    from coremltools.models import MLModel

    file = by_name["age.fp16.mlpackage"]
    found = MLModel(str(file.path), skip_model_load=True).user_defined_metadata
    assert told(file.card).items() <= dict(found).items()


def card_of(folder: Path, text: str, **record: Any) -> dict[str, str]:
    (folder / "README.md").write_text(text, encoding="utf-8")
    spec = TensorSpec(name="condition", shape=(1, 3, 8, 8), layout="NCHW", range=(-1.0, 1.0))
    made = Checkpoint(
        path=folder, model_type="plugin", model=None, sha256="c" * 64, record=dict(record)
    )
    return file_facts(made, IOSpec(inputs=(spec,), outputs=(replace(spec, name="out"),)))


def test_a_plugin_names_its_base_its_data_and_its_cards_license(tmp_path: Path) -> None:
    record = {
        "base": {"name": "somebody's/place", "sha256": "b" * 64},
        "data": {"spec": "csv:/home/anna/faces.csv", "digest": "d" * 64},
    }
    assert card_of(tmp_path, "---\nlibrary_name: x\nlicense: apache-2.0\n---\n# A\n", **record) == {
        "model_name": "plugin",
        "model_license": "apache-2.0",
        "unplug_version": VERSION,
        "checkpoint_sha256": "c" * 64,
        "base_sha256": "b" * 64,
        "data": "csv",
        "input_condition": "float32 1x3x8x8 NCHW -1..1",
        "output_out": "float32 1x3x8x8 NCHW -1..1",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "license: mit\n",
        "---\nlicense: [a, b]\n---\n",
        "---\n---\nlicense: mit\n",
        "---\nlicense: mit",
    ],
)
def test_a_license_that_no_front_matter_names_is_none(tmp_path: Path, text: str) -> None:
    assert "model_license" not in card_of(tmp_path, text, base="x", data={"digest": 7})
