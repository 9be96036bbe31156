"""What LiteRT files say of their tensors, read by MediaPipe's generated reader of the same schema."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as litert_schema

from unplug.core import TensorSpec
from unplug.export.targets.litert_metadata import FIELD, MetadataTable, Number, packed, tensor_table

from .conftest import Files


@pytest.fixture(scope="module")
def reader() -> Any:
    """Its folder is no package, and importing mediapipe itself would load TensorFlow where that is
    installed.
    """
    package = importlib.util.find_spec("mediapipe")
    if package is None or package.submodule_search_locations is None:
        pytest.skip("mediapipe is not installed")
    folder = Path(package.submodule_search_locations[0], "tasks/metadata")
    spec = importlib.util.spec_from_file_location(
        "metadata_schema", folder / "metadata_schema_py_generated.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_it_names_describes_and_scales_tensors(channels_last: Files, reader: Any) -> None:
    file = channels_last["age.fp32.tflite"]
    model = litert_schema.ModelT.InitFromPackedBuf(file.path.read_bytes(), 0)
    (entry,) = [entry for entry in model.metadata if entry.name == FIELD.encode()]
    raw = bytes(model.buffers[entry.buffer].data)
    assert reader.ModelMetadata.ModelMetadataBufferHasIdentifier(raw, 0)
    facts = reader.ModelMetadataT.InitFromPackedBuf(raw, 0)
    description = b"Face image to age-group logits and an expected age."
    assert (facts.name, facts.description) == (b"age", description)
    (graph,) = facts.subgraphMetadata
    (image,), outputs = graph.inputTensorMetadata, graph.outputTensorMetadata
    spec = file.card.iospec.inputs[0]
    assert (image.name, image.description) == (b"image", spec.description.encode())
    assert image.dimensionNames == [b"batch", b"height", b"width", b"channels"]
    properties = image.content.contentProperties
    size = properties.defaultSize
    assert (properties.colorSpace, size.width, size.height) == (1, spec.height, spec.height)
    scale = image.processUnits[0].options
    ends = ((np.array([0.0, 255.0]) - scale.mean) / scale.std).tolist()
    assert ends == [0.0, 1.0] == [*image.stats.min, *image.stats.max]
    # In the order of the graph, which need not be that of the names.
    named = {end.tensorIndex: end.name for end in model.signatureDefs[0].outputs}
    order = [named[int(index)] for index in model.subgraphs[0].outputs]
    assert [tensor.name for tensor in outputs] == order
    assert set(order) == {b"age_logits", b"expected_age"}


@pytest.mark.parametrize("scaled", [True, False])
def test_a_range_from_minus_one(reader: Any, scaled: bool) -> None:
    """(x - mean) / std takes 0 to 255 to [-1, 1] with mean 127.5 and std 127.5; pictures that come
    out are not scaled.
    """
    shape: Any = {"shape": (1, 3, 4, 8), "layout": "NCHW", "range": (-1.0, 1.0)}
    spec = TensorSpec(name="condition", colour="RGB", **shape)
    tensor = reader.TensorMetadataT.InitFromPackedBuf(packed(tensor_table(spec, scaled=scaled)), 0)
    units = [(unit.options.mean, unit.options.std) for unit in tensor.processUnits or ()]
    assert units == ([([127.5], [127.5])] if scaled else [])
    properties = tensor.content.contentProperties
    size = properties.defaultSize
    assert (properties.colorSpace, size.width, size.height) == (1, 8, 4)


def test_a_table_by_hand(reader: Any) -> None:
    table = MetadataTable({0: Number(640, 32), 1: Number(7, 32)})
    size = reader.ImageSizeT.InitFromPackedBuf(packed(table), 0)
    assert (size.width, size.height) == (640, 7)
