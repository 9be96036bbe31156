"""What LiteRT files say of their tensors, read by MediaPipe's generated reader of the same schema."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as litert_schema

from unplug.core import TensorSpec
from unplug.export import Artifact
from unplug.export.targets.litert_metadata import FIELD, MetadataTable, Number, packed, tensor_table


@pytest.fixture(scope="module")
def reader() -> Any:
    """Its folder is no package, and importing mediapipe itself would load TensorFlow where that is
    installed.
    """
    found = importlib.util.find_spec("mediapipe")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("mediapipe is not installed")
    path = Path(
        found.submodule_search_locations[0], "tasks/metadata/metadata_schema_py_generated.py"
    )
    spec = importlib.util.spec_from_file_location("metadata_schema", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_it_names_describes_and_scales_tensors(
    channels_last: Mapping[str, Artifact], reader: Any
) -> None:
    item = channels_last["age.fp32.tflite"]
    model = litert_schema.ModelT.InitFromPackedBuf(item.path.read_bytes(), 0)
    (entry,) = [entry for entry in model.metadata if entry.name == FIELD.encode()]
    raw = bytes(model.buffers[entry.buffer].data)
    assert reader.ModelMetadata.ModelMetadataBufferHasIdentifier(raw, 0)
    facts = reader.ModelMetadataT.InitFromPackedBuf(raw, 0)
    assert (
        facts.name == b"age"
        and facts.description == b"Face image to age-group logits and an expected age."
    )
    (graph,) = facts.subgraphMetadata
    (image,), outputs = graph.inputTensorMetadata, graph.outputTensorMetadata
    spec = item.card.iospec
    assert (image.name, image.description) == (b"image", spec.inputs[0].description.encode())
    assert image.dimensionNames == [b"batch", b"height", b"width", b"channels"]
    side, properties = spec.inputs[0].height, image.content.contentProperties
    assert (properties.colorSpace, properties.defaultSize.width, properties.defaultSize.height) == (
        1,
        side,
        side,
    )
    scale = image.processUnits[0].options
    assert (
        ((np.array([0.0, 255.0]) - scale.mean) / scale.std).tolist()
        == [0.0, 1.0]
        == [*image.stats.min, *image.stats.max]
    )
    # In the order of the graph, which need not be that of the names.
    ends = {end.tensorIndex: end.name for end in model.signatureDefs[0].outputs}
    assert [tensor.name for tensor in outputs] == [
        ends[int(index)] for index in model.subgraphs[0].outputs
    ]
    assert {tensor.name for tensor in outputs} == {b"age_logits", b"expected_age"}


def test_a_range_from_minus_one(reader: Any) -> None:
    """(x - mean) / std takes 0 to 255 to [-1, 1] with mean 127.5 and std 127.5."""
    spec = TensorSpec(
        name="condition", shape=(1, 3, 4, 8), layout="NCHW", range=(-1.0, 1.0), colour="RGB"
    )
    tensor = reader.TensorMetadataT.InitFromPackedBuf(packed(tensor_table(spec, scaled=True)), 0)
    assert (tensor.processUnits[0].options.mean, tensor.processUnits[0].options.std) == (
        [127.5],
        [127.5],
    )
    size = tensor.content.contentProperties.defaultSize
    assert (size.width, size.height) == (8, 4)
    made = reader.TensorMetadataT.InitFromPackedBuf(packed(tensor_table(spec, scaled=False)), 0)
    assert made.processUnits is None and made.content.contentProperties.colorSpace == 1, (
        "pictures that come out are not scaled"
    )


def test_a_table_by_hand(reader: Any) -> None:
    size = reader.ImageSizeT.InitFromPackedBuf(
        packed(MetadataTable({0: Number(640, 32), 1: Number(7, 32)})), 0
    )
    assert (size.width, size.height) == (640, 7)
