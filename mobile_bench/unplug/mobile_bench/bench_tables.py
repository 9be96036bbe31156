"""A bench report as a Markdown table or as CSV: every row, those that may not be ranked included,
with the reason.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from unplug.core import counted, milliseconds

from .bench_report import BenchReport, BenchRow
from .sustained import throttling

COLUMNS = (
    "file",
    "target",
    "precision",
    "bytes",
    "where",
    "device",
    "soc",
    "os",
    "runtime",
    "runtime_version",
    "delegate_asked",
    "delegate_got",
    "nodes_delegated",
    "nodes_total",
    "partitions",
    "threads",
    "mode",
    "status",
    "valid",
    "median_ms",
    "median_low_ms",
    "median_high_ms",
    "p90_ms",
    "p95_ms",
    "cold_starts",
    "runs",
    "init_ms",
    "first_inference_ms",
    "peak_memory_bytes",
    "energy_mj",
    "throttled",
    "artifact_sha256",
    "reasons",
    "warnings",
)
"""The columns of the CSV, in order: numbers in full precision, empty where nobody measured."""
FORMULA = re.compile(r"[=+\-@\t\r\n]")
"""What a spreadsheet takes for a formula at the head of a cell, or strips to find one."""


def markdown(report: BenchReport) -> str:
    """A table for a README or a pull request; what may not be ranked says so.

    Example:
        >>> print(markdown(BenchReport(rows=(), seed=0, versions={}, git_revision=None)).splitlines()[0])
        | file | on | median ms (95 %) | p90 ms | first run ms | memory | size | ranked |
    """
    heads = ("file", "on", "median ms (95 %)", "p90 ms", "first run ms", "memory", "size", "ranked")
    lines = [_line(heads), "|---|---|--:|--:|--:|--:|--:|---|"]
    lines += [_line(_markdown_row(row)) for row in report.rows]
    devices = dict.fromkeys(f"{row.where}: {row.device}, {row.os}" for row in report.rows)
    notes = [f"{_cell(place)}." for place in devices]
    return "\n".join([*lines, "", *notes]) + "\n"


def _markdown_row(row: BenchRow) -> tuple[str, ...]:
    ends = (
        ""
        if row.median_ci95_ms is None
        else " ({}–{})".format(*map(milliseconds, row.median_ci95_ms))
    )
    lost = throttling(row.curve)
    ranked = (
        "yes"
        if row.ranked
        else row.unranked_because or ("not run" if row.status == "not_run" else "**no**")
    )
    notes = [
        *row.reasons,
        *row.warnings,
        *([] if lost is None else [f"{lost:+.0%} at the end of a sustained run"]),
    ]
    device = f"{row.device} (emulated)" if row.where == "emulated" else row.device
    threads = counted(row.threads, "thread")
    return (
        row.file,
        f"{device}, {row.runtime} {row.delegate_got or row.delegate_asked}, {threads}",
        _ms(row.median_ms) + ends,
        _ms(None if row.summary is None else row.summary.p90),
        _ms(row.first_inference_ms),
        _megabytes(row.peak_memory_bytes),
        _megabytes(row.bytes),
        "; ".join([ranked, *notes]),
    )


def csv_text(report: BenchReport) -> str:
    r"""RFC 4180: commas, double quotes, CR LF. A cell of text that a spreadsheet would compute gets
    an apostrophe in front.

    Example:
        >>> csv_text(BenchReport(rows=(), seed=0, versions={}, git_revision=None)).startswith("file,target,precision,")
        True

    Reference:
        Shafranovich, Common Format and MIME Type for CSV Files, RFC 4180, 2005; OWASP, CSV
        Injection.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, dialect="excel")
    writer.writerow(COLUMNS)
    for row in report.rows:
        writer.writerow([_plain(_value(row, name)) for name in COLUMNS])
    return out.getvalue()


_DERIVED: dict[str, Callable[[BenchRow], object]] = {
    "median_low_ms": lambda row: None if row.median_ci95_ms is None else row.median_ci95_ms[0],
    "median_high_ms": lambda row: None if row.median_ci95_ms is None else row.median_ci95_ms[1],
    "p90_ms": lambda row: None if row.summary is None else row.summary.p90,
    "p95_ms": lambda row: None if row.summary is None else row.summary.p95,
    "cold_starts": lambda row: len(row.repeats),
    "runs": lambda row: None if row.summary is None else row.summary.count,
    "init_ms": lambda row: row.init_ms_cold,
    "throttled": lambda row: throttling(row.curve),
    "reasons": lambda row: "; ".join(row.reasons),
    "warnings": lambda row: "; ".join(row.warnings),
}


def _value(row: BenchRow, name: str) -> object:
    return _DERIVED[name](row) if name in _DERIVED else getattr(row, name)


def _plain(value: object) -> object:
    """One cell of CSV: text that begins like a formula is made text for a spreadsheet too.

    Example:
        >>> _plain("=1+1"), _plain("-x"), _plain(-1.5), _plain(None), _plain(True)
        ("'=1+1", "'-x", -1.5, '', 'true')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """Text that stays inside its cell: no line breaks, no bars, no markup that a file could bring.

    Example:
        >>> _cell("a|b\\n<b>c")
        'a\\\\|b &lt;b>c'
    """
    clean = " ".join(text.split()).replace("\\", "\\\\")
    return (
        clean.replace("|", "\\|")
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace("[", "\\[")
        .replace("`", "\\`")
    )


def _ms(value: float | None) -> str:
    return "" if value is None else milliseconds(value)


def _megabytes(value: int | None) -> str:
    return "" if value is None else f"{value / 1e6:.2f} MB"
