"""Graphs that ship without weights: what is filled in is what was taken out, small draws by them what
torch draws, and what they cannot draw is said.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from benchmarks.bare_graphs import write_graphs
from onnx import TensorProto, helper, numpy_helper

from unplug.core import CheckpointError, ConversionError, InputError
from unplug.export import psnr_db
from unplug.plugins.shipped_files import shipped_place
from unplug.sdk import Steering, generate
from unplug.sdk.drawing.device import GeneratorSource, fill, misfit, strip
from unplug.sdk.drawing.diffusion import shipped_folder
from unplug.sdk.generating import Generated

PROMPT = "an adult, smiling, glasses"
LEAST_DB = 60.0


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float16)


def tensors() -> dict[str, Any]:
    norm = {name: random(3) for name in ("weight", "bias", "running_mean")}
    return {
        "words": random(5, 2),
        "linear": random(2, 4),
        "gain": random(7),
        "body.0.weight": random(3, 1, 2, 2),
        **{f"body.1.{name}": value for name, value in norm.items()},
        "body.1.running_var": np.abs(random(3)) + np.float16(0.5),
    }


def graph(weights: dict[str, Any]) -> Any:
    """As an exporter leaves them: transposed, reshaped, norms folded by hand."""
    one = {name: value.astype(np.float32) for name, value in weights.items()}
    scale = one["body.1.weight"] / np.sqrt(one["body.1.running_var"] + np.float32(1e-5))
    left = {
        "a.words": one["words"],
        "val_1": one["linear"].T.copy(),
        "val_2": one["gain"].reshape(1, 7, 1),
        "body.0.weight": one["body.0.weight"] * scale.reshape(3, 1, 1, 1),
        "body.0.bias": one["body.1.bias"] - one["body.1.running_mean"] * scale,
        "mask": np.array([[0, -1], [0, 0]], np.float32),
        "shape": np.array([1, 2]),
    }
    items = [numpy_helper.from_array(value, name) for name, value in left.items()]
    return helper.make_model(helper.make_graph([], "g", [], [], items))


def held(proto: Any) -> dict[str, Any]:
    return {item.name: numpy_helper.to_array(item) for item in proto.graph.initializer}


def test_what_is_filled_in_is_what_was_taken_out() -> None:
    weights = tensors()
    proto = graph(weights)
    wanted = held(proto)
    assert strip(proto, weights) == wanted["mask"].nbytes
    bare = [item.name for item in proto.graph.initializer if not item.HasField("raw_data")]
    assert bare == ["a.words", "val_1", "val_2", "body.0.weight", "body.0.bias"]
    fill(proto, weights, Path("w"))
    found = held(proto)
    assert all(np.array_equal(found[name], value) for name, value in wanted.items())
    onnx.checker.check_model(proto)


def test_other_weights_and_more_words_are_filled_in_too() -> None:
    proto, other = graph(tensors()), {name: value * 2 for name, value in tensors().items()}
    strip(proto, tensors())
    fill(proto, other | {"words": random(9, 2)}, Path("w"))
    found = held(proto)
    assert found["a.words"].shape == (9, 2)
    assert np.array_equal(found["val_1"], other["linear"].T.astype(np.float32))


@pytest.mark.parametrize(
    "change", [{"linear": None}, {"linear": random(3, 4)}, {"gain": random(6)}]
)
def test_weights_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    proto = graph(tensors())
    strip(proto, tensors())
    weights = {name: value for name, value in (tensors() | change).items() if value is not None}
    with pytest.raises(CheckpointError, match=r"linear|gain"):
        fill(proto, weights, Path("w"))


def test_weights_that_cannot_be_told_apart_are_refused() -> None:
    weights = tensors() | {"twin": tensors()["gain"]}
    with pytest.raises(ConversionError, match="2 tensors"):
        strip(graph(weights), weights)


def test_the_graphs_that_ship_are_small_and_hold_no_weights() -> None:
    place = shipped_place()
    assert place is not None
    for path in sorted((place / "graphs").glob("*.onnx")):
        proto = onnx.load(str(path), load_external_data=False)
        kept = [
            len(item.raw_data)
            for item in proto.graph.initializer
            if item.data_type == TensorProto.FLOAT
        ]
        assert path.stat().st_size < 120_000 and sum(kept) < 10_000, path.name


def pixels(drawn: Generated) -> Any:
    return np.stack([np.asarray(picture) / 255 for picture in drawn.pictures])


@pytest.mark.long
def test_small_is_drawn_as_by_torch() -> None:
    edges = np.zeros((128, 128, 3), np.uint8)
    edges[30:90, 40:42] = 255
    steerings = [Steering(plugin=name, image=edges) for name in ("canny", "depth")]
    for guides in ([], steerings):
        how: dict[str, Any] = {"count": 2, "seed": 3, "show": False}
        quick, slow = (generate(PROMPT, guides, engine=name, **how) for name in (None, "torch"))
        assert psnr_db(pixels(slow), pixels(quick)) >= LEAST_DB
        assert (quick.facts["runtime"], quick.kinds) == ("onnx", slow.kinds)
        assert "runtime" not in slow.facts and quick.facts["base"] == slow.facts["base"] == "small"


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({"device": "cuda"}, "on the CPU"),
        ({"loras": ("four-steps",)}, "LoRA weights"),
        ({"size": 64}, "size of their own"),
    ],
)
def test_what_torch_alone_can_draw_is_said(order: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        generate(PROMPT, engine="device", show=False, **order)


def test_latents_of_another_scale_are_not_drawn_by_the_graph_of_small_s(tmp_path: Path) -> None:
    """The scale is a constant of the graph, and no weight that could be filled in."""
    base = shutil.copytree(shipped_folder("small"), tmp_path / "base")
    source = GeneratorSource(name="x", folder=base, guidance=2.5)
    assert misfit(source) is None
    path = base / "vae/config.json"
    path.write_text(path.read_text().replace("0.43346571922302246", "0.5"))
    assert "scaling_factor" in str(misfit(source))


@pytest.mark.nightly
def test_the_graphs_that_ship_are_those_of_the_exporter(tmp_path: Path) -> None:
    place = shipped_place()
    assert place is not None
    write_graphs(tmp_path)
    for path in sorted((place / "graphs").glob("*.onnx")):
        ours, theirs = (
            onnx.load(str(at), load_external_data=False) for at in (path, tmp_path / path.name)
        )
        assert [node.op_type for node in ours.graph.node] == [
            node.op_type for node in theirs.graph.node
        ]
        assert [item.external_data for item in ours.graph.initializer] == [
            item.external_data for item in theirs.graph.initializer
        ]
