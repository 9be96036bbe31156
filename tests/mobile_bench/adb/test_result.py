"""The benchmark tool's result files and log: golden bytes by hand, contradictions, and anything at all."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import ArtifactError, DeviceError
from unplug.mobile_bench.adb.result import check_log, read_placement, read_result

GOOD = {1: 2.0, 2: 1.0, 3: 4.0, 4: 0.5, 5: 1.5, 6: 1.0, 7: 3.5, 8: 30.0, 9: 9.0, 10: 5.0}
"""Fields of LatencyMetrics: average, least, most, deviation, median, p5, p95, init, first inference, warm-ups."""


def encoded(latencies: dict[int, float], runs: int = 50, peak_mb: float | None = None) -> bytes:
    """By the wire format, not by protobuf: tags, floats of four bytes, varints below 128."""
    inner = b"".join(bytes([number << 3 | 5]) + struct.pack("<f", value) for number, value in latencies.items())
    memory = b"" if peak_mb is None else bytes([3 << 3 | 5]) + struct.pack("<f", peak_mb)
    misc = bytes([2 << 3, runs, 3 << 3, 1])
    parts = ((2, inner), (3, memory), (4, misc))
    return b"".join(bytes([number << 3 | 2, len(part)]) + part for number, part in parts)


def test_golden_bytes() -> None:
    found = read_result(encoded(GOOD, peak_mb=2.5), 50, "a.tflite")
    assert (found.init_ms, found.first_inference_ms, found.peak_memory_bytes) == (30.0, 9.0, round(2.5 * 2**20))
    told = found.summary
    assert (told.count, told.p50, told.p95, told.p90, told.mean, told.std, told.min, told.max) == (
        50, 1.5, 3.5, None, 2.0, 0.5, 1.0, 4.0,
    )  # fmt: skip


def test_fields_that_newer_builds_add_are_skipped() -> None:
    assert read_result(encoded(GOOD) + bytes([9 << 3, 7]), 50, "a").summary.count == 50


@pytest.mark.parametrize(
    ("changes", "runs", "words"),
    [
        ({5: None}, 50, "has no median_ms"),
        ({5: float("nan")}, 50, "impossible times"),
        ({1: -1.0}, 50, "impossible times"),
        ({3: float("inf")}, 50, "impossible times"),
        ({5: 9.0}, 50, "contradict one another"),
        ({}, 49, "it made 50 runs where 49 were asked for"),
    ],
)
def test_results_that_cannot_be(changes: dict[int, Any], runs: int, words: str) -> None:
    latencies = {number: value for number, value in (GOOD | changes).items() if value is not None}
    with pytest.raises(ArtifactError, match=words):
        read_result(encoded(latencies), runs, "a.tflite")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_result_or_an_error(raw: bytes) -> None:
    for read in (lambda: read_result(raw, None, "a"), lambda: read_placement("", raw, "gpu")):
        try:
            read()
        except ArtifactError as error:
            assert "\n" not in str(error)


def test_what_ran_the_operators() -> None:
    log = "\n".join(
        (
            "INFO: Explicitly applied GPU delegate, and the model graph will be partially executed by the delegate.",
            "VERBOSE: Replacing 40 out of 45 node(s) with delegate (TfLiteGpuDelegateV2) node, yielding 3 partitions for it.",
        )
    )
    found = read_placement(log, None, "gpu-fp16")
    assert (found.delegate_got, found.nodes_delegated, found.nodes_total, found.partitions) == ("gpu-fp16", 40, 45, 3)
    assert read_placement(log, None, "nnapi").delegate_got == "none"
    assert (
        read_placement("Though GPU delegate is explicitly applied, the model graph will not be executed", None, "gpu")
        is not None
    )
    assert read_placement("WARN: GPU acceleration is unsupported on this platform.", None, "gpu").delegate_got == "none"


def test_what_xnnpack_took_behind_the_gpu_is_not_the_gpus() -> None:
    """By hand: a subgraph of five nodes, one behind the GPU, four behind XNNPACK."""

    def field(number: int, payload: bytes) -> bytes:
        return bytes([number << 3 | 2, len(payload)]) + payload

    def replaced(name: str, nodes: list[int]) -> bytes:
        return field(8, field(1, name.encode()) + b"".join(bytes([2 << 3, node]) for node in nodes))

    nodes = [b"\x08" + bytes([node]) for node in range(5)]
    nodes += [replaced("TfLiteGpuDelegateV2", [0]), replaced("TfLiteXNNPackDelegate", [1, 2, 3, 4])]
    details = field(2, b"".join(field(3, node) for node in nodes))
    log = (
        "Explicitly applied GPU delegate, and the model graph will be partially executed by the delegate w/ 1 delegate kernels."
    )
    found = read_placement(log, details, "gpu")
    assert (found.delegate_got, found.nodes_delegated, found.nodes_total, found.partitions) == ("gpu", 1, 5, 1)


def test_logs_that_mean_trouble() -> None:
    check_log("INFO: all is well", 0, "a")
    with pytest.raises(DeviceError, match="does not know result_file_path, use_gpu"):
        check_log("Unconsumed cmdline flags: --result_file_path=r --use_gpu=true", 0, "a")
    with pytest.raises(DeviceError, match="the device cannot execute it"):
        check_log("sh: ./benchmark_model: not executable: 64-bit ELF file", 126, "a")
    with pytest.raises(ArtifactError, match="killed by signal 11"):
        check_log("", 139, "a")
    with pytest.raises(ArtifactError, match="ended with 1: Failed to load model a; Benchmarking failed"):
        check_log("ERROR: Failed to load model a\nERROR: Benchmarking failed.", 1, "a")
