"""A bench report as lines of ``measurements.jsonl``, the file that Google's leaderboard of LiteRT
models is built from.

Reference: google-ai-edge/litert-samples, benchmark/leaderboard and benchmark/driver, 2026.
"""

from __future__ import annotations

import json
import re

import numpy as np

from unplug.core import InputError

from .bench_report import BenchReport, BenchRow

PLATFORMS = {"Android": "android", "iOS": "ios", "iPadOS": "ios", "macOS": "macos"}
"""The board's word by the first one of `BenchRow.os`."""
TASKS = {
    "age": "image-classification",
    "classes": "image-classification",
    "plugin": "text-to-image",
}


def board_lines(report: BenchReport) -> str:
    """A line of JSON for each ranked row of LiteRT on a platform of the board; what nobody measured
    is null.

    The model's name is its kind: the board wants its repository on the hub, which a report does not
    know.

    Raises:
        InputError: no row belongs on the board.
    """
    rows = [row for row in report.rows if row.runtime == "litert" and row.ranked and _platform(row)]
    if not rows:
        raise InputError(
            "this report",
            "no row of it belongs on LiteRT's board: ranked, run by LiteRT on Android, iOS or macOS",
            "Measure a .tflite file there: `unplug bench FILE.tflite --on adb`",
        )
    version = report.versions.get("unplug", "unknown")
    return "".join(json.dumps(_measurement(row, version)) + "\n" for row in rows)


def _platform(row: BenchRow) -> str | None:
    return PLATFORMS.get(row.os.partition(" ")[0])


def _measurement(row: BenchRow, version: str) -> dict[str, object]:
    place = re.sub(r"[^a-z0-9]+", "-", row.device.lower()).strip("-")
    used = "gpu" if row.delegate_asked == "gpu" else "cpu"
    ran = f"{row.runtime_version}/{_platform(row)}/{place}/{used}"
    return {
        "row_id": f"{row.model_type}:{row.file}@{ran}",
        "model": row.model_type,
        "file": row.file,
        "task": TASKS.get(row.model_type, row.model_type),
        "model_size_mb": None if row.bytes is None else row.bytes / 1e6,
        "platform": _platform(row),
        "device_id": place,
        "device": row.device,
        "os": row.os,
        "accelerator": used,
        "delegate": row.delegate_got,
        "nodes_delegated": row.nodes_delegated,
        "nodes_total": row.nodes_total,
        "partitions": row.partitions,
        "latency_ms": _latency(row),
        "memory_mb": {"init_footprint": None, "overall_footprint": _footprint(row)},
        "runs": None if row.summary is None else row.summary.count,
        "warmup_runs": row.warmup * len(row.repeats),
        "throughput_mb_s": None,
        "source": "unplug-bench/1",
        "runtime": row.runtime,
        "runtime_version": row.runtime_version,
        "binary": f"unplug {version}",
        "runner": "unplug",
        "session": row.artifact_sha256[:16],
        "job": f"{used}-{place}",
        "status": "measured",
        "date": None,
    }


def _latency(row: BenchRow) -> dict[str, float | None]:
    """Milliseconds over all cold starts; the median is that of all runs, as the board's is."""
    known, pooled = row.summary, [run for repeat in row.repeats for run in repeat.latencies_ms]
    return {
        "median": None if known is None else known.p50,
        "avg": None if known is None else known.mean,
        "p5": float(np.percentile(pooled, 5.0)) if pooled else None,
        "p95": None if known is None else known.p95,
        "min": None if known is None else known.min,
        "max": None if known is None else known.max,
        "stddev": None if known is None else known.std,
        "init": row.init_ms_cold,
        "first_inference": row.first_inference_ms,
        "warm_up_avg": None,
    }


def _footprint(row: BenchRow) -> float | None:
    """MiB beyond what the process took before it loaded the file."""
    if row.peak_memory_bytes is None or row.base_memory_bytes is None:
        return None
    return (row.peak_memory_bytes - row.base_memory_bytes) / 2**20
