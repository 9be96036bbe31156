"""``python -m tests.vectors.statistics.make``: what a benchmark's latencies come to, and how near
outputs are to a reference.

``latencies.json``: summaries, the typical latency with its interval, the spread, windows of a
sustained run. ``parity.json``: decibels between arrays. Numbers are float64 unless said; tolerances
stand in each file.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from unplug.export import compare
from unplug.mobile_bench.statistics import relative_spread, summarize, typical_latency
from unplug.mobile_bench.sustained import windows

HERE = Path(__file__).parent


def latencies() -> dict[str, Any]:
    """Short and long runs, equal ones, and one of a thousand."""
    rng = np.random.default_rng(20261124)
    runs = [
        [5.0],
        [1.0, 2.0],
        [3.0] * 9,
        *(rng.lognormal(1.0, 0.3, count).tolist() for count in (3, 10, 50, 999, 1000)),
    ]
    starts = [
        [2.0],
        [1.0, 2.0, 4.0],
        *(rng.lognormal(0.5, 0.1, count).tolist() for count in (5, 7, 31, 32)),
        [0.0, 1.0],
    ]
    typical = []
    for medians in starts:
        latency = typical_latency(medians)
        row = None if latency is None else {"value": latency.value, "ends": latency.ends}
        typical.append({"medians": medians, "typical": row, "spread": relative_spread(medians)})
    sustained = []
    for count in (1, 3, 400):
        spent = rng.lognormal(1.0, 0.4, count)
        ends = np.cumsum(spent) / 1e3
        found_windows = [asdict(item) for item in windows(ends.tolist(), spent.tolist())]
        sustained.append(
            {"ends_s": ends.tolist(), "latencies_ms": spent.tolist(), "windows": found_windows}
        )
    return {
        "tolerance": {"summary": 1e-12, "typical": 1e-5, "windows": 1e-12},
        "why": "typical: Student's quantiles stand in ports as a table of six digits, and as 1.96 beyond 30 degrees "
        "of freedom, where ends may differ by 2 % of the interval",
        "summaries": [{"latencies_ms": run, "summary": asdict(summarize(run))} for run in runs],
        "starts": typical,
        "sustained": sustained,
    }


def parity() -> dict[str, Any]:
    """Equal, near, far, zero, not finite and of another size."""
    rng = np.random.default_rng(3)
    reference = rng.normal(size=40).astype(np.float32)
    pairs: list[tuple[str, Any, Any]] = [
        ("equal", reference, reference),
        ("near", reference, reference + np.float32(1e-4)),
        ("far", reference, rng.normal(size=40).astype(np.float32)),
        ("zeros", np.zeros(4, np.float32), np.zeros(4, np.float32)),
        ("zero reference", np.zeros(4, np.float32), np.ones(4, np.float32)),
        (
            "one off",
            reference,
            np.where(np.arange(40) == 7, np.float32(3), reference).astype(np.float32),
        ),
    ]
    cases = []
    for what, wanted, got in pairs:
        near = compare(wanted[None], got[None])
        cases.append(
            {
                "what": what,
                "reference": wanted.astype(float).tolist(),
                "output": got.astype(float).tolist(),
                "exact": near.exact,
                "psnr_db": near.psnr_db,
                "defined": near.exact or near.psnr_db is not None,
            }
        )
    return {"tolerance_db": 1e-6, "cases": cases}


def files() -> dict[str, str]:
    """File name to text."""
    made = {"latencies.json": latencies(), "parity.json": parity()}
    return {name: json.dumps(value, indent=0) + "\n" for name, value in made.items()}


if __name__ == "__main__":
    for name, text in files().items():
        (HERE / name).write_text(text, encoding="utf-8")
