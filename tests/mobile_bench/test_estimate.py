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

from unplug.core import ArtifactError, InputError
from unplug.export import Artifact
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

from .conftest import resigned
from .fakes import report_of, row_of

pytest.importorskip("ai_edge_litert")
NONE = dict.fromkeys(KINDS, 0)


def features(
    conv: float = 0.0, depthwise: float = 0.0, moved: float = 0.0, operators: int = 1
) -> Features:
    macs = {"conv1x1": int(conv), "depthwise": int(depthwise)}
    return Features(macs=NONE | macs, bytes=NONE | {"conv1x1": int(moved)}, operators=operators)


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
    # The convolutions have no bias: LiteRT writes -1 for an input that is left out.
    steps = [
        ("CONV_2D", ["x", "w1", None], "a"),
        ("DEPTHWISE_CONV_2D", ["a", "w2"], "b"),
        ("CONV_2D", ["b", "w3", None], "c"),
        ("ADD", ["c", "c"], "d"),
        ("FULLY_CONNECTED", ["d", "w4"], "y"),
    ]
    names, graph, model = list(shapes), schema.SubGraphT(), schema.ModelT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [0], [len(names) - 1]
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    model.operatorCodes = []
    for shape in shapes.values():
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer = shape, schema.TensorType.FLOAT32, 0
        graph.tensors.append(tensor)
    for number, (name, inputs, output) in enumerate(steps):
        kind, operator = schema.OperatorCodeT(), schema.OperatorT()
        kind.builtinCode = kind.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
        operator.opcodeIndex, operator.outputs = number, [names.index(output)]
        operator.inputs = [-1 if given is None else names.index(given) for given in inputs]
        model.operatorCodes.append(kind)
        graph.operators.append(operator)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


@pytest.fixture(scope="session")
def files(onnx: Artifact, tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    """Six tiny LiteRT files, from 8 to 64 pixels."""
    folder, made = tmp_path_factory.mktemp("tiny"), []
    for side in (8, 16, 24, 32, 48, 64):
        path = folder / f"tiny-{side}.tflite"
        tiny(path, side)
        made.append(resigned(onnx, path, target="litert", precision="fp32"))
    return made


def row(artifact: Artifact, milliseconds: float, **changes: Any) -> BenchRow:
    own = {"file": artifact.card.file, "artifact_sha256": artifact.card.sha256}
    return row_of([[0.99 * milliseconds], [milliseconds], [1.01 * milliseconds]], **own | changes)


@pytest.fixture
def rows_of(tmp_path: Path, files: list[Artifact]) -> Any:
    """Options of an estimate: a report of some rows, and where their files are."""

    def save(*rows: BenchRow) -> dict[str, Any]:
        report_of(*rows).save(tmp_path / "bench.json")
        return {"rows": [tmp_path / "bench.json"], "files": [files[0].path.parent]}

    return save


def test_operators_are_counted_as_by_hand(files: list[Artifact]) -> None:
    (counted,) = read_features(files[:1])  # 8 pixels: 8 x 8 x 3 in, 4 x 4 behind the stride
    assert counted.macs == NONE | {
        "conv1x1": 8 * 8 * 8 * 3,
        "depthwise": 4 * 4 * 8 * 9,
        "conv": 4 * 4 * 4 * 9 * 8,
        "dense": 10 * 64,
    }
    assert counted.bytes == NONE | {
        "conv1x1": 4 * (192 + 24 + 512),
        "depthwise": 4 * (512 + 72 + 128),
        "conv": 4 * (128 + 288 + 64),
        "elementwise": 4 * (64 + 64 + 64),
        "dense": 4 * (64 + 640 + 10),
    }
    assert counted.operators == 5


def test_a_network_has_the_work_that_its_card_says(litert: Artifact) -> None:
    (counted,) = read_features([litert])
    # torch counted this one
    assert litert.card.flops is not None and counted.total_macs == litert.card.flops // 2


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40, b"\x00" * 200])
def test_a_broken_file_is_one_clear_error(
    files: list[Artifact], tmp_path: Path, damage: bytes
) -> None:
    path, whole = tmp_path / files[0].path.name, files[0].path.read_bytes()
    harmed = whole[:8] + damage + whole[8 + len(damage) * 2 :]
    path.write_bytes(harmed if damage else b"nothing at all")
    with pytest.raises(ArtifactError, match=r"broken|begin|impossible"):
        read_features([replace(files[0], path=path)])


AMOUNTS = st.tuples(
    st.floats(1e3, 1e9), st.floats(0, 1e8), st.floats(1e3, 1e8), st.integers(1, 200)
)


@given(
    st.lists(st.tuples(AMOUNTS, st.floats(0.01, 1e3)), min_size=1, max_size=8),
    st.sampled_from([*MAC_KINDS, *KINDS]),
    st.integers(1, 10**9),
)
@settings(max_examples=60, deadline=None)
def test_more_work_is_never_faster(rows: list[tuple[Any, float]], kind: str, more: int) -> None:
    known = [features(*amounts) for amounts, _ in rows]
    predictor, base = fit(known, [time for _, time in rows]), known[0]
    assert min(predictor.costs.values()) >= 0.0 and set(predictor.costs) == set(COLUMNS)
    macs = {kind: base.macs[kind] + more} if kind in MAC_KINDS else {}
    for other in (
        replace(base, macs=base.macs | macs),
        replace(base, bytes=base.bytes | {kind: base.bytes[kind] + more}),
        replace(base, operators=base.operators + 1),
    ):
        assert predictor.latency_ms(other) >= predictor.latency_ms(base)


def test_a_machine_of_known_costs_is_found_again() -> None:
    generator = np.random.default_rng(0)
    amounts = generator.uniform([1e6, 1e5, 1e5, 10], [1e9, 1e8, 1e8, 100], (40, 4)).astype(int)
    known = [features(*row.tolist()) for row in amounts]
    truth = amounts @ np.array([2e-8, 8e-8, 1e-8, 0.002])
    predictor = fit(known[:30], truth[:30].tolist())
    guesses = np.array([predictor.latency_ms(file) for file in known[30:]])
    errors = np.abs(guesses / truth[30:] - 1.0)
    assert np.median(errors) < 0.05 and max(errors) < 0.2  # what is left is the pull of the prior


def test_one_row_gives_one_throughput() -> None:
    same: dict[str, Any] = {"moved": 1e6, "operators": 10}
    predictor = fit([features(conv=1e6, **same)], [4.0])
    assert predictor.latency_ms(features(conv=1e6, **same)) == pytest.approx(4.0)
    assert 4.0 < predictor.latency_ms(features(conv=2e6, **same)) < 8.0
    unseen = predictor.latency_ms(features(depthwise=1e6, **same))
    assert unseen == pytest.approx(4.0)  # a kind that no row has costs what the others do


def test_held_out_leaves_whole_models_out() -> None:
    rows, seen = [("a", 1.0), ("a", 1.1), ("b", 2.0), ("c", 4.0)], list[bool]()

    def predicted(kept: Any, row: tuple[str, float]) -> float:
        seen.append(row[0] in dict(kept))
        return 2.0

    how: Any = {
        "model_of": lambda row: row[0],
        "measured": lambda row: row[1],
        "predicted": predicted,
    }
    error = leave_one_out(rows, **how)
    assert error is not None and not any(seen)
    assert (error.low, error.high, error.rows, error.models) == (0.5, 2.0, 4, 3)
    assert error.coverage == 0.5 and leave_one_out(rows[:2], **how) is None


@pytest.mark.long
def test_rows_of_a_device_calibrate(files: list[Artifact], rows_of: Any, tmp_path: Path) -> None:
    macs = [counted.total_macs for counted in read_features(files)]
    timed = [row(file, 1e-5 * macs[place] + 0.1) for place, file in enumerate(files[:5])]
    left = ({"valid": False}, {"where": "emulated"}, {"artifact_sha256": "9" * 64})
    others = [row(files[5], 999.0, **change) for change in left]
    report = estimate_artifacts(files[5:], device="pixel-7", **rows_of(*timed, *others))
    (one,), error = report.estimates, report.held_out
    assert report.kind == one.kind == "estimate" and report.source == "measured rows"
    assert error is not None and (error.rows, error.models) == (5, 5)
    assert sorted(report.left_out) == [
        "1 row: its file was not found (`artifacts`)",
        "1 row: not valid",
        "1 row: of an emulator",
    ]
    assert one.latency_ms == pytest.approx(1e-5 * macs[5] + 0.1, rel=0.4)
    ends = [one.latency_ms * error.low, one.latency_ms * error.high]
    assert [one.low_ms, one.high_ms] == pytest.approx(ends) and ends[0] <= ends[1]
    report.save(tmp_path / "e.json")
    assert EstimateReport.load(tmp_path / "e.json") == report


def test_a_file_that_was_measured_says_so(files: list[Artifact], rows_of: Any) -> None:
    known = rows_of(*(row(file, 1.0 + place) for place, file in enumerate(files)))
    report = estimate_artifacts(files[:1], device="Google Pixel 7", **known)
    assert any("was measured (1.00" in warning for warning in report.estimates[0].warnings)


def test_the_host_is_one_machine(files: list[Artifact], rows_of: Any) -> None:
    known = rows_of(*(row(files[n], 1.0, where="host", device=f"CPU {n}") for n in (0, 1)))
    with pytest.raises(InputError, match="these reports have 2 of them"):
        estimate_artifacts(files[:1], device="host", **known)
    report = estimate_artifacts(files[:1], device="cpu-1", **known)
    assert report.held_out is None and report.estimates[0].low_ms is None
    assert "unknown: fewer than two models" in report.error_text()


def test_published_numbers_calibrate_a_device_without_rows(files: list[Artifact]) -> None:
    report = estimate_artifacts(files[5:], device="pixel-1")
    error = report.held_out
    assert report.source == "published numbers" and report.setting.delegate == "cpu"
    assert error is not None and error.models == 10 and 0.5 < error.low < 1.0 < error.high < 2
    assert report.costs_ms["MACs"] == pytest.approx(73.8 / 300e6, rel=0.25)
    assert all("github.com/tensorflow/models" in source for source in report.sources)
    assert any("extrapolates" in warning for warning in report.estimates[0].warnings)
    lone = estimate_artifacts(files[5:], device="pixel-4")
    assert lone.held_out is None and lone.estimates[0].high_ms is None
    assert "plugin" not in " ".join(lone.calibration).lower()  # 128 ms on it are published


@pytest.mark.parametrize(
    ("how", "words"),
    [
        # the plugin's post names neither multiply-accumulates nor accelerators
        ({"device": "pixel-7"}, "On-device diffusion plugins.*names no multiply-accumulates"),
        ({"device": "iphone-13-pro"}, "names no multiply-accumulates or no accelerator"),
        ({"device": "galaxy-s23"}, "names no multiply-accumulates or no accelerator"),
        ({"device": "pixl-3"}, "Did you mean pixel-3"),
        ({"device": "pixel-3", "delegate": "npu"}, "no published number of pixel-3"),
        (
            {"device": "pixel-7", "threads": 4, "known": True},
            "other settings: fp32 xnnpack 2 threads",
        ),
    ],
)
def test_what_nothing_supports_is_refused(
    files: list[Artifact], rows_of: Any, how: dict[str, Any], words: str
) -> None:
    known = rows_of(row(files[0], 1.0)) if how.pop("known", False) else {}
    with pytest.raises(InputError, match=words):
        estimate_artifacts(files[:1], **how, **known)


def test_only_litert_files_are_read(onnx: Artifact) -> None:
    with pytest.raises(InputError, match="LiteRT"):
        read_features([onnx])


def test_names_of_devices() -> None:
    assert device_slug("Samsung Galaxy S23 Ultra (8 Gen 2, Android 13)") == "galaxy-s23-ultra"
    assert device_slug("AMD EPYC 7B13") == "amd-epyc-7b13" and device_slug("Apple") == "apple"
    with pytest.raises(InputError, match="`rows`"):
        pick_device("x", [])
    with pytest.raises(InputError, match="pixel-7"):
        pick_device("pixel-7-pro", ["pixel-7"])  # near is not the same
    assert numeric_of("int8-weight") == "float" and numeric_of("int4-mixed") is None
    with pytest.raises(ValueError):
        throughput([])


@pytest.mark.long
def test_the_command_says_that_it_is_an_estimate(
    files: list[Artifact], rows_of: Any, tmp_path: Path
) -> None:
    known = rows_of(*(row(file, 1.0 + place) for place, file in enumerate(files)))
    rows = ["--rows", str(known["rows"][0])]
    args = [str(files[2].path), "--on", "pixel-7", *rows]
    args += [word for file in files for word in ("--artifacts", str(file.path))]

    def told(*words: str) -> Any:
        return CliRunner().invoke(estimate, words)

    done = told(*args)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{LABEL}: pixel-7, xnnpack, threads: 2, fp32")
    assert "from 6 held-out rows of 6 models" in done.output
    value = json.loads(told(*args, "--json", "--out", str(tmp_path / "e.json")).output)
    assert value["kind"] == value["estimates"][0]["kind"] == "estimate"
    assert value["schema"] == "unplug-estimate/1"
    listed = told(*rows).output
    assert "pixel-7" in listed and "published numbers" in listed
    file = str(files[0].path)
    for wrong in ([file], [file, "--on", "nokia-3310"]):
        failed = told(*wrong)
        assert failed.exit_code == 2 and failed.stderr.count("\n") == 1
    assert "phone" not in told("--help").output and "pixel-3" in told("--help").output
