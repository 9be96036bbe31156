"""Tables of a bench report: every row is in them, and a name in a file stays a name."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.mobile_bench import BenchReport, BenchRow, Repeat, Window, csv_text, markdown, summarize
from unplug.mobile_bench.rows import derived
from unplug.mobile_bench.tables import COLUMNS
from unplug.sdk.cli.bench_table import table


def timed(*latencies: float) -> Repeat:
    return Repeat(
        init_ms=3.0, first_inference_ms=2.0, latencies_ms=latencies, summary=summarize(latencies), compared=1, parity_db=80.0,
        parity_reason=None,
    )  # fmt: skip


def row(**changes: object) -> BenchRow:
    base = BenchRow(
        file="age.fp32.tflite", model_type="age", model_sha256="0" * 64, artifact_sha256="1" * 64, target="litert",
        precision="fp32", bytes=1_500_000, where="device", device="Google Pixel 7", os="Android 14", runtime="litert",
        runtime_version="2.3.0", threads=2, delegate_asked="xnnpack", status="ok", valid=True, reasons=(), warmup=1,
        iterations=4,
        repeats=(timed(1.0, 1.1, 1.2, 1.3), timed(1.05, 1.1, 1.2, 1.25)), parity_reference="checkpoint", inputs_sha256="2" * 64,
        flops=10,
    )  # fmt: skip
    return replace(derived(base), **changes)  # type: ignore[arg-type]


def report(*rows: BenchRow) -> BenchReport:
    return BenchReport(rows=rows, seed=0, versions={}, git_revision=None)


FAILED = {"status": "failed", "valid": False, "reasons": ("it crashed, twice\nbadly",), "repeats": (), "summary": None,
          "median_ms": None, "median_ci95_ms": None}  # fmt: skip


def test_markdown_has_every_row_and_its_reason() -> None:
    text = markdown(report(row(), row(**FAILED)))
    lines = text.splitlines()
    assert len([line for line in lines if line.startswith("| age")]) == 2
    assert "| 1.15 (" in lines[2] and "1.50 MB" in lines[2] and lines[2].endswith("| yes |")
    assert lines[3].endswith("| **no**; it crashed, twice badly |")
    assert "device: Google Pixel 7, Android 14." in text
    assert {line.replace("\\|", "").count("|") for line in lines[:4]} == {9}


@pytest.mark.parametrize("name", ["a|b", "<img src=x>", "[x](http://y)", "`x`", "a\nb", "\\|"])
def test_hostile_names_stay_inside_their_cell_of_markdown(name: str) -> None:
    line = markdown(report(row(file=name))).splitlines()[2]
    assert "<img" not in line and "[x](" not in line.replace("\\[", "") and not line.startswith("| `")
    unescaped = line.replace("\\\\", "").replace("\\|", "")
    assert unescaped.count("|") == 9


def test_csv_reads_back_with_full_precision() -> None:
    good, bad = row(), row(**FAILED)
    text = csv_text(report(good, bad))
    assert text.count("\r\n") == 3 and "it crashed, twice\nbadly" in text
    back = list(csv.DictReader(io.StringIO(text, newline="")))
    assert tuple(back[0]) == COLUMNS
    assert float(back[0]["median_ms"]) == good.median_ms and float(back[0]["bytes"]) == 1_500_000
    assert (back[0]["valid"], back[1]["valid"], back[1]["median_ms"]) == ("true", "false", "")
    assert back[1]["reasons"] == "it crashed, twice\nbadly"


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_spreadsheet_computes_nothing_of_it(name: str) -> None:
    back = list(csv.DictReader(io.StringIO(csv_text(report(row(device=name, reasons=(name,)))), newline="")))
    assert back[0]["device"] == f"'{name}" and back[0]["reasons"] == f"'{name}"


def test_a_sustained_row_says_what_it_lost() -> None:
    curve = tuple(
        Window(start_s=float(step), end_s=step + 1.0, count=3, p50=1.0 if step < 5 else 1.5, p95=2.0) for step in range(10)
    )
    found = row(mode="sustained", curve=curve)
    assert "+50% at the end" in markdown(report(found))
    assert float(next(iter(csv.DictReader(io.StringIO(csv_text(report(found)), newline=""))))["throttled"]) == 0.5


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    report(row()).save(tmp_path / "bench.json")
    shown = CliRunner().invoke(table, [str(tmp_path / "bench.json")])
    assert shown.exit_code == 0 and shown.output.startswith("| file | on |")
    out = tmp_path / "t.csv"
    done = CliRunner().invoke(table, [str(tmp_path / "bench.json"), "--format", "csv", "--out", str(out)])
    assert done.exit_code == 0 and out.read_bytes() == csv_text(report(row())).encode()
    broken = CliRunner().invoke(table, [str(tmp_path / "none.json")])
    assert broken.exit_code == 2 and broken.stderr.count("\n") == 1
