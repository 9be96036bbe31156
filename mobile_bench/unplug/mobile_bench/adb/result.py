"""LiteRT's `benchmark_model`: its flags, what it prints, and its two result files in binary
protobuf.

Reference:
    LiteRT, tflite/tools/benchmark (benchmark_tflite_model.cc, proto/benchmark_result.proto),
    tflite/profiling/proto/ model_runtime_info.proto.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from unplug.core import ArtifactError, DeviceError, MissingExtraError
from unplug.export import Placement

from ..statistics import Summary

WHERE = (
    "Fetch android_aarch64_benchmark_model of LiteRT's nightly builds (ai.google.dev/edge/litert, "
    "'Measurement'), or build "
    "//tflite/tools/benchmark:benchmark_model"
)
DELEGATES: dict[str, tuple[str, ...]] = {
    "xnnpack": ("--use_xnnpack=true",),
    "gpu": ("--use_gpu=true", "--gpu_precision_loss_allowed=false"),
    "gpu-fp16": ("--use_gpu=true", "--gpu_precision_loss_allowed=true"),
    "nnapi": ("--use_nnapi=true", "--disable_nnapi_cpu=true", "--nnapi_allow_fp16=false"),
    "nnapi-fp16": ("--use_nnapi=true", "--disable_nnapi_cpu=true", "--nnapi_allow_fp16=true"),
}
"""Delegates by the flags that ask for them. "fp16" lets the delegate compute a float32 file in half
precision.
"""
SPOKEN = {"xnnpack": "XNNPACK", "gpu": "GPU", "nnapi": "NNAPI"}
UNKNOWN = re.compile(r"Unconsumed cmdline flags: (.+)$", re.MULTILINE)
APPLIED = re.compile(
    r"Explicitly applied (\w+) delegate, and the model graph will be (completely|partially) "
    r"executed"
)
REPLACED = re.compile(
    r"Replacing (\d+) out of (\d+) node\(s\) with delegate \((\w+)\) node, yielding (\d+) "
    r"partitions"
)
REFUSED = re.compile(r"^(?:ERROR|FATAL): ?(.+)$", re.MULTILINE)
MAX_FILE_BYTES = 2**26
MAX_MS = 1e9

FIELDS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "LatencyMetrics": tuple(
        (number, name, "float")
        for number, name in enumerate(
            (
                "avg_ms",
                "min_ms",
                "max_ms",
                "stddev_ms",
                "median_ms",
                "p5_ms",
                "p95_ms",
                "init_ms",
                "first_inference_ms",
                "average_warm_up_ms",
            ),
            start=1,
        )
    ),
    "MemoryMetrics": (
        (1, "init_footprint_kb", "int64"),
        (2, "overall_footprint_kb", "int64"),
        (3, "peak_mem_mb", "float"),
    ),
    "MiscMetrics": (
        (1, "model_size_mb", "float"),
        (2, "num_runs", "int32"),
        (3, "num_warmup_runs", "int32"),
    ),
    "BenchmarkResult": (
        (1, "name", "string"),
        (2, "latency_metrics", "LatencyMetrics"),
        (3, "memory_metrics", "MemoryMetrics"),
        (4, "misc_metrics", "MiscMetrics"),
    ),
    "DelegateNodeDetails": (
        (1, "delegate_name", "string"),
        (2, "tflite_node_ids_replaced", "int32*"),
    ),
    "Node": (
        (1, "id", "int32"),
        (2, "name", "string"),
        (3, "type", "string"),
        (8, "delegate_node_details", "DelegateNodeDetails"),
    ),
    "RuntimeSubgraph": ((1, "subgraph_id", "int32"), (3, "nodes", "Node*")),
    "ModelRuntimeDetails": ((1, "model_name", "string"), (2, "subgraphs", "RuntimeSubgraph*")),
}
"""Messages of both files, as far as they are read here; everything else in them is skipped."""


@dataclass(frozen=True, kw_only=True)
class AdbResult:
    """What one process of the tool measured.

    Args:
        init_ms, first_inference_ms: see `Repeat`.
        summary: the summary of the timed runs.
        peak_memory_bytes: the peak memory of the process, or None if not asked for.
    """

    init_ms: float
    first_inference_ms: float
    summary: Summary
    peak_memory_bytes: int | None


@cache
def _messages() -> dict[str, Any]:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingExtraError("protobuf", "bench") from error
    file = descriptor_pb2.FileDescriptorProto(
        name="unplug/benchmark_model.proto", package="unplug", syntax="proto2"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            made = message.field.add(name=field, number=number)
            made.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            plain = kind.rstrip("*")
            if plain in FIELDS:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".unplug.{plain}"
            else:
                made.type = getattr(kinds, f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    wanted = ("BenchmarkResult", "ModelRuntimeDetails")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"unplug.{name}"))
        for name in wanted
    }


def _parsed(kind: str, raw: bytes, what: str) -> Any:
    message = _messages()[kind]()
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise ArtifactError(
            what,
            f"its result file is broken ({error})",
            "Run it again; if it stays so, use another build",
        ) from error
    return message


def read_result(raw: bytes, runs: int | None, what: str) -> AdbResult:
    """The tool's ``result_file_path``.

    Args:
        raw: a serialized BenchmarkResult.
        runs: how many there should be, or None where time decided.
        what: the artifact, for messages.

    Raises:
        ArtifactError: it is broken, incomplete, or holds impossible numbers.
    """
    message = _parsed("BenchmarkResult", raw, what)
    latency, count = message.latency_metrics, int(message.misc_metrics.num_runs)
    if (problem := _problem(latency, count, runs)) is not None:
        raise ArtifactError(
            what, problem, "Run it again; if it stays so, use another build of benchmark_model"
        )
    peak = message.memory_metrics.peak_mem_mb
    return AdbResult(
        init_ms=latency.init_ms,
        first_inference_ms=latency.first_inference_ms,
        summary=Summary(
            count=count,
            p50=latency.median_ms,
            p90=None,
            p95=latency.p95_ms if latency.HasField("p95_ms") else None,
            p99=None,
            mean=latency.avg_ms,
            std=latency.stddev_ms,
            min=latency.min_ms,
            max=latency.max_ms,
        ),
        peak_memory_bytes=round(peak * 2**20) if math.isfinite(peak) and peak > 0.0 else None,
    )


def _problem(latency: Any, count: int, runs: int | None) -> str | None:
    """What cannot be in a result, or None."""
    numbers = [getattr(latency, name) for _, name, _ in FIELDS["LatencyMetrics"]]
    needed = ("avg_ms", "min_ms", "max_ms", "median_ms", "init_ms", "first_inference_ms")
    if missing := [name for name in needed if not latency.HasField(name)]:
        return f"its result file has no {missing[0]}"
    if not all(math.isfinite(number) and 0.0 <= number < MAX_MS for number in numbers):
        return "its result file holds impossible times"
    if not latency.min_ms <= latency.median_ms <= latency.max_ms:
        return "the times in its result file contradict one another"
    if count < 1 or (runs is not None and count != runs):
        return f"it made {count} runs where {runs} were asked for"
    return None


def read_placement(log: str, details: bytes | None, asked: str) -> Placement:
    """What ran the operators, by the log and the tool's ``model_runtime_info_output_file``.

    Args:
        log: the log that it printed.
        details: a serialized ModelRuntimeDetails, or None.
        asked: key of `DELEGATES`.
    """
    kind = asked.partition("-")[0]
    applied = APPLIED.search(log)
    got = asked if applied is not None and applied[1] == SPOKEN[kind] else "none"
    replaced = next((found for found in REPLACED.finditer(log) if kind in found[3].lower()), None)
    taken, total, partitions = (
        (int(replaced[1]), int(replaced[2]), int(replaced[4])) if replaced else (None, None, None)
    )
    if details is not None:
        nodes = [
            node
            for graph in _parsed("ModelRuntimeDetails", details, "benchmark_model").subgraphs
            for node in graph.nodes
        ]
        delegated = [
            node.delegate_node_details for node in nodes if node.HasField("delegate_node_details")
        ]
        # XNNPACK takes what another delegate leaves, and stands in the same list.
        ours = [item for item in delegated if kind in item.delegate_name.lower()]
        total, partitions = len(nodes) - len(delegated), len(ours)
        taken = sum(len(item.tflite_node_ids_replaced) for item in ours)
    return Placement(
        delegate_asked=asked,
        delegate_got=got,
        nodes_delegated=taken,
        nodes_total=total,
        partitions=partitions,
    )


def check_log(log: str, code: int, what: str) -> None:
    """Raises unless the tool understood every flag and ended well.

    Raises:
        DeviceError: it does not know a flag: it is too old, or the newer tool of the same name that
            writes no outputs; or it cannot be executed.
        ArtifactError: it refused the file, or crashed on it.
    """
    if code in (126, 127) or "Exec format error" in log or "not executable" in log:
        raise DeviceError(
            "benchmark_model",
            f"the device cannot execute it ({_last(log)})",
            f"Use a build for its ABI. {WHERE}",
        )
    if (unknown := UNKNOWN.search(log)) is not None:
        names = ", ".join(re.findall(r"--(\w+)", unknown[1])[:4])
        why = (
            f"this build does not know {names}: it is too old, or the newer tool of this name, "
            "which writes no outputs"
        )
        raise DeviceError("benchmark_model", why, WHERE)
    if code:
        killed = f"it was killed by signal {code - 128}" if code > 128 else f"it ended with {code}"
        reasons = "; ".join(dict.fromkeys(REFUSED.findall(log)))[:300] or _last(log)
        raise ArtifactError(
            what,
            f"benchmark_model does not run it ({killed}: {reasons})",
            "Export another precision or delegate",
        )


def _last(log: str) -> str:
    return next(
        (line.strip() for line in reversed(log.splitlines()) if line.strip()), "it said nothing"
    )[:200]
