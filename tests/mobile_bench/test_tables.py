"""Tables of a bench report, where a name in a file stays a name, and published numbers, each with
its source.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import InputError, ReportError
from unplug.mobile_bench import (
    BenchRow,
    Window,
    board_lines,
    csv_text,
    listing,
    load_baselines,
    markdown,
)
from unplug.mobile_bench.baselines import SHIPPED
from unplug.mobile_bench.bench_tables import COLUMNS
from unplug.sdk.cli.bench_table import baselines, table

from .fakes import report_of, row_of


def row(**changes: Any) -> BenchRow:
    return row_of([(1.0, 1.1, 1.2, 1.3), (1.05, 1.1, 1.2, 1.25)], **changes)


def cells(*rows: BenchRow) -> list[dict[str, str]]:
    """The CSV read back."""
    return list(csv.DictReader(io.StringIO(csv_text(report_of(*rows)), newline="")))


FAILED = {
    "status": "failed",
    "valid": False,
    "reasons": ("it crashed, twice\nbadly",),
    "repeats": (),
    "summary": None,
    "median_ms": None,
    "median_ci95_ms": None,
}


def test_markdown_has_every_row_and_its_reason() -> None:
    text = markdown(report_of(row(), row(**FAILED)))
    lines = text.splitlines()
    assert len([line for line in lines if line.startswith("| age")]) == 2
    assert "| 1.15 (" in lines[2] and "1.50 MB" in lines[2] and lines[2].endswith("| yes |")
    assert lines[3].endswith("| **no**; it crashed, twice badly |")
    assert "device: Google Pixel 7, Android 14." in text
    assert {line.replace("\\|", "").count("|") for line in lines[:4]} == {9}


@pytest.mark.parametrize("name", ["a|b", "<img src=x>", "[x](http://y)", "`x`", "a\nb", "\\|"])
def test_hostile_names_stay_inside_their_cell_of_markdown(name: str) -> None:
    line = markdown(report_of(row(file=name))).splitlines()[2]
    assert "<img" not in line and "[x](" not in line.replace("\\[", "")
    assert not line.startswith("| `")
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == 9


def test_csv_reads_back_with_full_precision() -> None:
    text = csv_text(report_of(row(), row(**FAILED)))
    assert text.count("\r\n") == 3 and "it crashed, twice\nbadly" in text
    good, bad = cells(row(), row(**FAILED))
    assert tuple(good) == COLUMNS
    assert float(good["median_ms"]) == row().median_ms and float(good["bytes"]) == 1_500_000
    assert (good["valid"], bad["valid"], bad["median_ms"]) == ("true", "false", "")
    assert bad["reasons"] == "it crashed, twice\nbadly"


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_spreadsheet_computes_nothing_of_it(name: str) -> None:
    (line,) = cells(row(device=name, reasons=(name,)))
    assert line["device"] == line["reasons"] == f"'{name}"


def test_a_sustained_row_says_what_it_lost() -> None:
    ends = {"count": 3, "p95": 2.0}
    curve = [
        Window(start_s=step, end_s=step + 1.0, p50=1.0 if step < 5 else 1.5, **ends)  # type: ignore[arg-type]
        for step in map(float, range(10))
    ]
    slowed = row(mode="sustained", curve=tuple(curve))
    assert "+50% at the end" in markdown(report_of(slowed))
    assert float(cells(slowed)[0]["throttled"]) == 0.5


def test_a_line_of_litert_s_board_has_its_fields() -> None:
    """Golden, by hand; names and their order are those of a line of the board's own file."""
    known = row(peak_memory_bytes=3 * 2**20, base_memory_bytes=2**20, delegate_got="XNNPACK")
    refused = [row(**FAILED), row(os="Linux-6.1"), row(where="emulated"), row(runtime="litert-web")]
    (line,) = board_lines(report_of(known, *refused)).splitlines()
    told = json.loads(line)
    assert told.pop("latency_ms") == pytest.approx(
        {
            "median": 1.15,
            "avg": 1.15,
            "p5": 1.0175,
            "p95": 1.2825,
            "min": 1.0,
            "max": 1.3,
            "stddev": 0.1035098,
            "init": known.init_ms_cold,
            "first_inference": known.first_inference_ms,
            "warm_up_avg": None,
        }
    )
    assert told == {
        "row_id": "age:age.fp32.tflite@2.3.0/android/google-pixel-7/cpu",
        "model": "age",
        "file": "age.fp32.tflite",
        "task": "image-classification",
        "model_size_mb": 1.5,
        "platform": "android",
        "device_id": "google-pixel-7",
        "device": "Google Pixel 7",
        "os": "Android 14",
        "accelerator": "cpu",
        "delegate": "XNNPACK",
        "nodes_delegated": None,
        "nodes_total": None,
        "partitions": None,
        "memory_mb": {"init_footprint": None, "overall_footprint": 2.0},
        "runs": 8,
        "warmup_runs": 2,
        "throughput_mb_s": None,
        "source": "unplug-bench/1",
        "runtime": "litert",
        "runtime_version": "2.3.0",
        "binary": "unplug unknown",
        "runner": "unplug",
        "session": "1" * 16,
        "job": "cpu-google-pixel-7",
        "status": "measured",
        "date": None,
    }
    (line,) = board_lines(report_of(row(delegate_asked="gpu"))).splitlines()
    assert json.loads(line)["accelerator"] == "gpu"
    with pytest.raises(InputError, match="no row of it belongs"):
        board_lines(report_of(*refused))


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    source, out = str(tmp_path / "bench.json"), tmp_path / "t.csv"
    report_of(row()).save(source)
    shown = CliRunner().invoke(table, [source])
    assert shown.exit_code == 0 and shown.output.startswith("| file | on |")
    done = CliRunner().invoke(table, [source, "--format", "csv", "--out", str(out)])
    assert done.exit_code == 0 and out.read_bytes() == csv_text(report_of(row())).encode()
    broken = CliRunner().invoke(table, [str(tmp_path / "none.json")])
    assert broken.exit_code == 2 and broken.stderr.count("\n") == 1


def test_every_published_number_has_a_source_and_one_row() -> None:
    published = load_baselines()
    sources = published.sources.values()
    assert {row.source for row in published.rows} == set(published.sources)  # none is left over
    assert all(source.url.startswith("https://") and source.title for source in sources)
    assert all(source.published or source.commit for source in sources)
    same = ("model", "device", "accelerator", "precision", "threads", "measures", "source")
    keys = [tuple(getattr(row, name) for name in same) for row in published.rows]
    assert len(set(keys)) == len(keys)
    header, lines = listing(published)
    assert {len(line) for line in lines} == {len(header)}
    assert not any("not read here" in line for line in lines)


STUDY = {
    "Stable Diffusion 1.5": (10.32, 0.26, 5.0, 11.5),
    "Stable Diffusion 1.5 with ControlNet": (6.51, 0.31, 7.4, 18.2),
    "Stable Diffusion 1.5 with the plugin": (6.50, 0.30, 5.0, 11.8),
}
"""FID, CLIP, seconds on a V100 and on a Galaxy S23, as the post on MediaPipe's plugins has them."""
PHONES_MS = {
    "Pixel 4": 128,
    "Pixel 6": 68,
    "Pixel 7": 50,
    "Samsung Galaxy S23": 48,
    "iPhone 12 Pro": 73,
    "iPhone 13 Pro": 63,
}


def test_the_plugins_study_stands_beside_and_calibrates_nothing() -> None:
    plugin = [row for row in load_baselines().rows if row.series == "plugin"]
    alone = {row.device: row.value for row in plugin if row.unit == "ms"}
    assert alone == PHONES_MS
    units = ("FID", "CLIP similarity", "s", "s")
    assert [(row.model, row.unit, row.value) for row in plugin if row.unit != "ms"] == [
        (model, unit, value)
        for model, values in STUDY.items()
        for unit, value in zip(units, values, strict=True)
    ]
    assert all(row.verified and row.source == "plugin" for row in plugin)
    assert not any(row.calibrates for row in plugin)


def test_what_calibrates_was_read_and_names_work_and_accelerator() -> None:
    known = [row for row in load_baselines().rows if row.calibrates]
    for lost in ({"macs": None}, {"accelerator": None}, {"unit": "FID"}, {"verified": False}):
        assert not replace(known[0], **lost).calibrates
    assert len(known) > 40 and all(row.macs and row.value and row.verified for row in known)
    assert {(row.unit, row.measures) for row in known} == {("ms", "one run")}


@pytest.mark.parametrize(
    ("place", "change", "why"),
    [
        *(
            (("rows", 3), change, why)
            for change, why in [
                ({"value": 3.0, "verified": False}, "nobody checked"),
                ({"value": None, "verified": True}, "verified without a number"),
                ({"value": None, "verified": False, "note": ""}, "does not say why"),
                ({"value": -1.0}, "not a positive number"),
                ({"source": "nowhere"}, "no source 'nowhere'"),
                ({"threads": 0}, "threads 0"),
                ({"unit": "furlongs"}, "does not follow its schema"),
                ({"extra": 1}, "does not follow its schema"),
            ]
        ),
        (("sources", "slim"), {"url": "http://x"}, "https"),
        (("sources", "slim"), {"title": ""}, "title"),
        (("sources", "slim"), {"published": "last year"}, "date"),
    ],
)
def test_published_numbers_that_cannot_be(
    tmp_path: Path, place: tuple[str, Any], change: dict[str, Any], why: str
) -> None:
    raw = json.loads(SHIPPED.read_text(encoding="utf-8"))
    raw[place[0]][place[1]] |= change
    (tmp_path / "b.json").write_text(json.dumps(raw))
    with pytest.raises(ReportError, match=why):
        load_baselines(tmp_path / "b.json")


def test_the_command_says_that_they_are_not_ours() -> None:
    done = CliRunner().invoke(baselines, [])
    assert done.exit_code == 0 and done.output.startswith("published, not measured here (read on ")
    told = json.loads(CliRunner().invoke(baselines, ["--json"]).output)
    assert told["schema"] == "unplug-baselines/1" and len(told["rows"]) == len(
        load_baselines().rows
    )
