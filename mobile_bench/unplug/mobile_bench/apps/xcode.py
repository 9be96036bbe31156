"""Xcode's Core ML performance reports (``NAME.mlperf/report.json``): one latency of a file on a
phone, taken by Apple's tool.

Apple documents neither its fields nor their units, and no such file could be looked at here. So
nothing is guessed: the caller says which number it is and in what unit, and where he does not, the
candidates are listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unplug.core import InputError, read_json
from unplug.export import Artifact

from ..bench_report import BenchRow, Repeat
from ..rows import derived
from ..statistics import summarize

TO_MS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
MAX_BYTES = 64 * 2**20
MAX_DEPTH, MAX_CANDIDATES = 12, 12
MAX_MS = 1e7
UNCHECKED = "parity was not checked: Xcode's report holds no outputs"
LIKELY = ("predict", "inference", "median", "latency")


def read_xcode(
    path: Path,
    artifact: Artifact,
    *,
    at: str | None,
    unit: str | None,
    device: str,
    os: str,
    units: str = "all",
) -> BenchRow:
    """One row of a performance report; it is never ranked, since nobody has seen its outputs.

    Args:
        path: ``NAME.mlperf``, or its report.json.
        artifact: the Core ML file that was measured.
        at: the latency's place in the report: keys and list positions with dots between them; a
            number, or a list of runs.
        unit: the latency's unit, a key of `TO_MS`.
        device, os: the device that it was measured on.
        units: Core ML's compute units that it was given.

    Raises:
        InputError: no such file, or no number there; names candidates.
    """
    # a performance report is a folder
    raw = read_json(path / "report.json" if path.is_dir() else path, max_bytes=MAX_BYTES)
    runs, card = _runs_ms(path, raw, at, unit), artifact.card
    if card.target != "coreml":
        raise InputError(
            artifact.path.name,
            f"it is a file for {card.target}",
            "Give the .mlpackage that was measured",
        )
    repeat = Repeat(
        init_ms=None,
        first_inference_ms=None,
        latencies_ms=tuple(runs) if len(runs) > 1 else (),
        summary=summarize(runs),
        parity_db=None,
        parity_reason=None,
    )
    row = BenchRow(
        file=card.file,
        model_type=card.model_type,
        model_sha256=card.checkpoint_sha256,
        artifact_sha256=card.sha256,
        target=card.target,
        precision=card.precision,
        bytes=card.bytes,
        where="device",
        device=device,
        os=os,
        runtime="xcode",
        runtime_version=None,
        threads=1,
        delegate_asked=units,
        status="ok",
        valid=False,
        reasons=(),
        warmup=0,
        iterations=len(runs),
        repeats=(repeat,),
        parity_reference="first_run",
        inputs_sha256="",
        flops=card.flops,
    )
    return derived(row, reasons=(UNCHECKED,))


def _runs_ms(path: Path, raw: Any, at: str | None, unit: str | None) -> list[float]:
    """The latencies that were named, in milliseconds."""
    if at is None or unit is None:
        likely = ", ".join(f"{name} = {value:g}" for name, value in _candidates(raw))
        raise InputError(
            path.name,
            "Apple documents neither its fields nor their units",
            "Say which number it is: `at` PATH, `unit` s|ms|us|ns. Candidates: "
            + (likely or "none found"),
        )
    runs = [value * TO_MS[unit] for value in _numbers(raw, at, path.name)]
    if not all(0.0 < value < MAX_MS for value in runs):
        raise InputError(f"`at={at}`", f"{runs[0]:g} ms is not a latency", "Look at the unit")
    return runs


def _numbers(raw: Any, at: str, what: str) -> list[float]:
    value = raw
    for part in at.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise InputError(
                f"`at={at}`",
                f"{what} has nothing there ({part!r})",
                "Leave `at` out to see what it has",
            ) from error
    values = value if isinstance(value, list) else [value]
    if not values or not all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in values
    ):
        raise InputError(
            f"`at={at}`",
            "it is neither a number nor a list of numbers",
            "Leave `at` out to see what it has",
        )
    return [float(item) for item in values]


def _candidates(raw: Any) -> list[tuple[str, float]]:
    """Numbers under names that sound like a prediction's time, the likeliest first."""
    likely = [
        (name, value)
        for name, value in _leaves(raw, "", 0)
        if any(word in name.lower() for word in LIKELY)
    ]
    return sorted(likely, key=lambda item: -sum(word in item[0].lower() for word in LIKELY))[
        :MAX_CANDIDATES
    ]


def _leaves(value: Any, name: str, depth: int) -> Iterator[tuple[str, float]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, bool):
        return
    if isinstance(value, int | float) and math.isfinite(value):
        yield name, float(value)
    elif isinstance(value, dict):
        for key, below in list(value.items())[:1000]:
            yield from _leaves(below, f"{name}.{key}".lstrip("."), depth + 1)
    elif isinstance(value, list):
        for index, below in enumerate(value[:3]):
            yield from _leaves(below, f"{name}.{index}".lstrip("."), depth + 1)
