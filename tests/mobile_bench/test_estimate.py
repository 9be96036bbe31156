"""Estimates: operators counted as by hand, more work never faster, held-out errors honest, and
always called what they are.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from unplug.core import ArtifactError, InputError, sha256_tree
from unplug.export import Artifact
from unplug.export.artifact import write_card
from unplug.mobile_bench import (
    LABEL,
    BenchRow,
    EstimateReport,
    estimate_artifacts,
    fit,
    leave_one_out,
)
from unplug.mobile_bench.estimate.devices import device_slug, pick_device
from unplug.mobile_bench.estimate.model import COLUMNS
from unplug.mobile_bench.estimate.operators import KINDS, MAC_KINDS, Features, read_features
from unplug.mobile_bench.estimate.published import numeric_of, throughput
from unplug.sdk.cli.bench_estimate import estimate

from .fakes import report_of, row_of

pytest.importorskip("ai_edge_litert")


def features(
    conv: float = 0.0, depthwise: float = 0.0, moved: float = 0.0, operators: int = 1
) -> Features:
    macs = dict.fromkeys(KINDS, 0) | {"conv1x1": int(conv), "depthwise": int(depthwise)}
    return Features(
        macs=macs, bytes=dict.fromkeys(KINDS, 0) | {"conv1x1": int(moved)}, operators=operators
    )


def tiny(path: Path, side: int) -> None:
    """A file of a 1x1 convolution 3 -> 8, a 3x3 depthwise one with stride 2, a 3x3 one 8 -> 4, an
    addition, a dense layer.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    half = side // 2
    shapes = {
        "x": [1, side, side, 3],
        "w1": [8, 1, 1, 3],
        "a": [1, side, side, 8],
        "w2": [1, 3, 3, 8],
        "b": [1, half, half, 8],
        "w3": [4, 3, 3, 8],
        "c": [1, half, half, 4],
        "d": [1, half, half, 4],
        "w4": [10, half * half * 4],
        "y": [1, 10],
    }
    graph = schema.SubGraphT()
    graph.tensors, names = [], list(shapes)
    for shape in shapes.values():
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer = shape, schema.TensorType.FLOAT32, 0
        graph.tensors.append(tensor)
    code = schema.BuiltinOperator
    steps = [
        (code.CONV_2D, ["x", "w1"], "a"),
        (code.DEPTHWISE_CONV_2D, ["a", "w2"], "b"),
        (code.CONV_2D, ["b", "w3"], "c"),
        (code.ADD, ["c", "c"], "d"),
        (code.FULLY_CONNECTED, ["d", "w4"], "y"),
    ]
    model = schema.ModelT()
    model.version, model.subgraphs, model.buffers, model.operatorCodes, graph.operators = (
        3,
        [graph],
        [schema.BufferT()],
        [],
        [],
    )
    for number, (builtin, inputs, output) in enumerate(steps):
        kind, operator = schema.OperatorCodeT(), schema.OperatorT()
        kind.builtinCode = kind.deprecatedBuiltinCode = builtin
        operator.opcodeIndex, operator.outputs = number, [names.index(output)]
        # The convolution has no bias: LiteRT writes -1 for an input that is left out.
        operator.inputs = (
            [*(names.index(name) for name in inputs), -1]
            if builtin == code.CONV_2D
            else [*map(names.index, inputs)]
        )
        model.operatorCodes.append(kind)
        graph.operators.append(operator)
    graph.inputs, graph.outputs = [0], [len(names) - 1]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


@pytest.fixture(scope="session")
def files(onnx: Artifact, tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    """Six tiny LiteRT files, from 8 to 64 pixels."""
    folder, found = tmp_path_factory.mktemp("tiny"), []
    for side in (8, 16, 24, 32, 48, 64):
        path = folder / f"tiny-{side}.tflite"
        tiny(path, side)
        digest, size = sha256_tree(path)
        card = replace(
            onnx.card, target="litert", file=path.name, sha256=digest, bytes=size, precision="fp32"
        )
        found.append(write_card(path, card))
    return found


def row(artifact: Artifact, milliseconds: float, **changes: Any) -> BenchRow:
    own = {"file": artifact.card.file, "artifact_sha256": artifact.card.sha256}
    return row_of([[0.99 * milliseconds], [milliseconds], [1.01 * milliseconds]], **own | changes)


def saved(rows: list[BenchRow], path: Path) -> Path:
    report_of(*rows).save(path)
    return path


def test_operators_are_counted_as_by_hand(files: list[Artifact]) -> None:
    (found,) = read_features(files[:1])  # 8 pixels: 8 x 8 x 3 in, 4 x 4 behind the stride
    assert found.macs == dict.fromkeys(KINDS, 0) | {
        "conv1x1": 8 * 8 * 8 * 3,
        "depthwise": 4 * 4 * 8 * 9,
        "conv": 4 * 4 * 4 * 9 * 8,
        "dense": 10 * 64,
    }
    assert found.bytes == dict.fromkeys(KINDS, 0) | {
        "conv1x1": 4 * (192 + 24 + 512),
        "depthwise": 4 * (512 + 72 + 128),
        "conv": 4 * (128 + 288 + 64),
        "elementwise": 4 * (64 + 64 + 64),
        "dense": 4 * (64 + 640 + 10),
    }
    assert found.operators == 5


def test_a_network_has_the_work_that_its_card_says(litert: Artifact) -> None:
    (found,) = read_features([litert])
    # torch counted this one
    assert litert.card.flops is not None and found.total_macs == litert.card.flops // 2


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40, b"\x00" * 200])
def test_a_broken_file_is_one_clear_error(
    files: list[Artifact], tmp_path: Path, damage: bytes
) -> None:
    path = tmp_path / files[0].path.name
    whole = files[0].path.read_bytes()
    path.write_bytes(
        whole[:8] + damage + whole[8 + len(damage) * 2 :] if damage else b"nothing at all"
    )
    with pytest.raises(ArtifactError, match=r"broken|begin|impossible"):
        read_features([replace(files[0], path=path)])


@given(
    st.lists(
        st.tuples(
            st.floats(1e3, 1e9),
            st.floats(0, 1e8),
            st.floats(1e3, 1e8),
            st.integers(1, 200),
            st.floats(0.01, 1e3),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([*MAC_KINDS, *KINDS]),
    st.integers(1, 10**9),
)
@settings(max_examples=60, deadline=None)
def test_more_work_is_never_faster(
    rows: list[tuple[float, float, float, int, float]], kind: str, more: int
) -> None:
    known = [features(*item[:4]) for item in rows]
    predictor = fit(known, [item[4] for item in rows])
    assert min(predictor.costs.values()) >= 0.0 and set(predictor.costs) == set(COLUMNS)
    base = known[0]
    harder = replace(
        base, macs=base.macs | {kind: base.macs[kind] + more} if kind in MAC_KINDS else base.macs
    )
    moving = replace(base, bytes=base.bytes | {kind: base.bytes[kind] + more})
    for other in (harder, moving, replace(base, operators=base.operators + 1)):
        assert predictor.latency_ms(other) >= predictor.latency_ms(base)


def test_a_machine_of_known_costs_is_found_again() -> None:
    generator = np.random.default_rng(0)
    amounts = generator.uniform([1e6, 1e5, 1e5, 10], [1e9, 1e8, 1e8, 100], (40, 4))
    known = [features(*map(float, item[:3]), operators=int(item[3])) for item in amounts]
    truth = [
        2e-8 * f.macs["conv1x1"]
        + 8e-8 * f.macs["depthwise"]
        + 1e-8 * f.total_bytes
        + 0.002 * f.operators
        for f in known
    ]
    predictor = fit(known[:30], truth[:30])
    errors = [
        abs(predictor.latency_ms(file) / wanted - 1.0)
        for file, wanted in zip(known[30:], truth[30:], strict=True)
    ]
    assert np.median(errors) < 0.05 and max(errors) < 0.2  # what is left is the pull of the prior


def test_one_row_gives_one_throughput() -> None:
    predictor = fit([features(conv=1e6, moved=1e6, operators=10)], [4.0])
    assert predictor.latency_ms(features(conv=1e6, moved=1e6, operators=10)) == pytest.approx(4.0)
    assert 4.0 < predictor.latency_ms(features(conv=2e6, moved=1e6, operators=10)) < 8.0
    unseen = predictor.latency_ms(features(depthwise=1e6, moved=1e6, operators=10))
    assert unseen == pytest.approx(4.0)  # a kind that no row has costs what the others do


def test_held_out_leaves_whole_models_out() -> None:
    rows = [("a", 1.0), ("a", 1.1), ("b", 2.0), ("c", 4.0)]
    seen: list[set[str]] = []

    def predicted(kept: Any, item: tuple[str, float]) -> float:
        seen.append({name for name, _ in kept} & {item[0]})
        return 2.0

    found = leave_one_out(
        rows, model_of=lambda item: item[0], measured=lambda item: item[1], predicted=predicted
    )
    assert found is not None and not any(seen)
    assert (found.low, found.high, found.rows, found.models, found.coverage) == (
        0.5,
        2.0,
        4,
        3,
        0.5,
    )
    assert (
        leave_one_out(
            rows[:2],
            model_of=lambda item: item[0],
            measured=lambda item: item[1],
            predicted=predicted,
        )
        is None
    )


@pytest.mark.long
def test_rows_of_a_device_calibrate(files: list[Artifact], tmp_path: Path) -> None:
    known = read_features(files)
    timed = [
        row(file, 1e-5 * work.total_macs + 0.1)
        for file, work in zip(files[:5], known, strict=False)
    ]
    refused = row(files[5], 999.0, valid=False, reasons=("it throttled",))
    emulated, unfound = (
        row(files[5], 999.0, where="emulated"),
        row(files[5], 999.0, artifact_sha256="9" * 64),
    )
    report = saved([*timed, refused, emulated, unfound], tmp_path / "bench.json")
    found = estimate_artifacts(
        files[5:], device="pixel-7", rows=[report], files=[files[0].path.parent]
    )
    (one,) = found.estimates
    assert found.kind == one.kind == "estimate" and found.source == "measured rows"
    assert found.held_out is not None and (found.held_out.rows, found.held_out.models) == (5, 5)
    assert sorted(found.left_out) == [
        "1 row: its file was not found (`artifacts`)",
        "1 row: not valid",
        "1 row: of an emulator",
    ]
    assert one.low_ms is not None and one.high_ms is not None and one.low_ms <= one.high_ms
    assert one.latency_ms == pytest.approx(1e-5 * known[5].total_macs + 0.1, rel=0.4)
    assert one.low_ms == pytest.approx(one.latency_ms * found.held_out.low)
    found.save(tmp_path / "e.json")
    assert EstimateReport.load(tmp_path / "e.json") == found


def test_a_file_that_was_measured_says_so(files: list[Artifact], tmp_path: Path) -> None:
    report = saved(
        [row(file, 1.0 + index) for index, file in enumerate(files)], tmp_path / "bench.json"
    )
    found = estimate_artifacts(
        files[:1], device="Google Pixel 7", rows=[report], files=[file.path for file in files]
    )
    assert any("was measured (1 ms)" in warning for warning in found.estimates[0].warnings)


def test_the_host_is_one_machine(files: list[Artifact], tmp_path: Path) -> None:
    rows = [row(files[index], 1.0, where="host", device=f"CPU {index}") for index in (0, 1)]
    report = saved(rows, tmp_path / "bench.json")
    with pytest.raises(InputError, match="these reports have 2 of them"):
        estimate_artifacts(files[:1], device="host", rows=[report], files=[files[0].path.parent])
    found = estimate_artifacts(
        files[:1], device="cpu-1", rows=[report], files=[files[0].path.parent]
    )
    assert found.held_out is None and found.estimates[0].low_ms is None
    assert "unknown: fewer than two models" in found.error_text()


def test_published_numbers_calibrate_a_device_without_rows(files: list[Artifact]) -> None:
    found = estimate_artifacts(files[5:], device="pixel-1")
    assert found.source == "published numbers" and found.setting.delegate == "cpu"
    assert (
        found.held_out is not None
        and found.held_out.models == 10
        and 0.5 < found.held_out.low < 1.0 < found.held_out.high < 2
    )
    assert found.costs_ms["MACs"] == pytest.approx(73.8 / 300e6, rel=0.25)
    assert all("github.com/tensorflow/models" in source for source in found.sources)
    assert any("extrapolates" in warning for warning in found.estimates[0].warnings)
    lone = estimate_artifacts(files[5:], device="pixel-4")
    assert lone.held_out is None and lone.estimates[0].high_ms is None


def test_the_numbers_of_the_plugin_post_calibrate_nothing(files: list[Artifact]) -> None:
    for device in ("pixel-7", "iphone-13-pro"):
        with pytest.raises(InputError, match="could not be read"):
            estimate_artifacts(files[:1], device=device)


def test_what_nothing_supports_is_refused(files: list[Artifact], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean pixel-3"):
        estimate_artifacts(files[:1], device="pixl-3")
    with pytest.raises(InputError, match="no published number of pixel-3"):
        estimate_artifacts(files[:1], device="pixel-3", delegate="npu")
    report = saved([row(files[0], 1.0)], tmp_path / "bench.json")
    with pytest.raises(InputError, match="other settings: fp32 xnnpack 2 threads"):
        estimate_artifacts(
            files[:1], device="pixel-7", rows=[report], files=[files[0].path], threads=4
        )
    with pytest.raises(InputError, match="LiteRT"):
        read_features([replace(files[0], card=replace(files[0].card, target="onnx"))])


def test_names_of_devices() -> None:
    assert device_slug("Samsung Galaxy S23 Ultra (8 Gen 2, Android 13)") == "galaxy-s23-ultra"
    assert device_slug("AMD EPYC 7B13") == "amd-epyc-7b13" and device_slug("Apple") == "apple"
    with pytest.raises(InputError, match="`rows`"):
        pick_device("x", [])
    with pytest.raises(InputError, match="pixel-7"):
        pick_device("pixel-7-pro", ["pixel-7"])  # near is not the same
    assert [numeric_of(name) for name in ("fp32", "int8-dynamic", "int8-weight", "int4-mixed")] == [
        "float",
        "int8",
        "float",
        None,
    ]
    with pytest.raises(ValueError):
        throughput([])


@pytest.mark.long
def test_the_command_says_that_it_is_an_estimate(files: list[Artifact], tmp_path: Path) -> None:
    report = saved(
        [row(file, 1.0 + index) for index, file in enumerate(files)],
        files[0].path.parent / "bench.json",
    )
    runner, args = CliRunner(), [str(files[2].path), "--device", "pixel-7", "--rows", str(report)]
    done = runner.invoke(estimate, args)
    assert done.exit_code == 0 and done.output.startswith(
        f"{LABEL}: pixel-7, xnnpack, threads: 2, fp32"
    )
    assert "from 6 held-out rows of 6 models" in done.output
    told = json.loads(
        runner.invoke(estimate, [*args, "--json", "--out", str(tmp_path / "e.json")]).output
    )
    assert (
        told["kind"] == told["estimates"][0]["kind"] == "estimate"
        and told["schema"] == "unplug-estimate/1"
    )
    listed = runner.invoke(estimate, ["--list", "--rows", str(report)])
    assert "pixel-7" in listed.output and "published numbers" in listed.output
    for wrong in ([], [str(files[0].path)], [str(files[0].path), "--device", "nokia-3310"]):
        failed = runner.invoke(estimate, wrong)
        assert failed.exit_code == 2 and failed.stderr.count("\n") == 1
    assert (
        "phone" not in runner.invoke(estimate, ["--help"]).output
        and "pixel-3" in runner.invoke(estimate, ["--help"]).output
    )
