"""Tables of a bench report, where a name in a file stays a name, and published numbers, each with
its source.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import ReportError
from unplug.mobile_bench import BenchRow, Window, csv_text, load_baselines, markdown
from unplug.mobile_bench import listing as listed
from unplug.mobile_bench.baselines import SHIPPED
from unplug.mobile_bench.bench_tables import COLUMNS
from unplug.sdk.cli.bench_table import baselines, table

from .fakes import report_of, row_of


def row(**changes: Any) -> BenchRow:
    return row_of([(1.0, 1.1, 1.2, 1.3), (1.05, 1.1, 1.2, 1.25)], **changes)


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
    assert (
        "<img" not in line and "[x](" not in line.replace("\\[", "") and not line.startswith("| `")
    )
    unescaped = line.replace("\\\\", "").replace("\\|", "")
    assert unescaped.count("|") == 9


def test_csv_reads_back_with_full_precision() -> None:
    good, bad = row(), row(**FAILED)
    text = csv_text(report_of(good, bad))
    assert text.count("\r\n") == 3 and "it crashed, twice\nbadly" in text
    back = list(csv.DictReader(io.StringIO(text, newline="")))
    assert tuple(back[0]) == COLUMNS
    assert float(back[0]["median_ms"]) == good.median_ms and float(back[0]["bytes"]) == 1_500_000
    assert (back[0]["valid"], back[1]["valid"], back[1]["median_ms"]) == ("true", "false", "")
    assert back[1]["reasons"] == "it crashed, twice\nbadly"


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_spreadsheet_computes_nothing_of_it(name: str) -> None:
    back = list(
        csv.DictReader(
            io.StringIO(csv_text(report_of(row(device=name, reasons=(name,)))), newline="")
        )
    )
    assert back[0]["device"] == f"'{name}" and back[0]["reasons"] == f"'{name}"


def test_a_sustained_row_says_what_it_lost() -> None:
    curve = tuple(
        Window(
            start_s=float(step), end_s=step + 1.0, count=3, p50=1.0 if step < 5 else 1.5, p95=2.0
        )
        for step in range(10)
    )
    found = row(mode="sustained", curve=curve)
    assert "+50% at the end" in markdown(report_of(found))
    assert (
        float(
            next(iter(csv.DictReader(io.StringIO(csv_text(report_of(found)), newline=""))))[
                "throttled"
            ]
        )
        == 0.5
    )


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    report_of(row()).save(tmp_path / "bench.json")
    shown = CliRunner().invoke(table, [str(tmp_path / "bench.json")])
    assert shown.exit_code == 0 and shown.output.startswith("| file | on |")
    out = tmp_path / "t.csv"
    done = CliRunner().invoke(
        table, [str(tmp_path / "bench.json"), "--format", "csv", "--out", str(out)]
    )
    assert done.exit_code == 0 and out.read_bytes() == csv_text(report_of(row())).encode()
    broken = CliRunner().invoke(table, [str(tmp_path / "none.json")])
    assert broken.exit_code == 2 and broken.stderr.count("\n") == 1


Json = dict[str, Any]


@pytest.fixture
def raw() -> Json:
    found: Json = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return found


def test_every_number_has_a_source_that_names_its_place_and_its_day() -> None:
    found = load_baselines()
    assert {row.source for row in found.rows} == set(found.sources)  # and none is left over
    assert all(
        source.url.startswith("https://") and source.title for source in found.sources.values()
    )
    assert all(source.published or source.commit for source in found.sources.values())
    keys = [
        (
            row.model,
            row.device,
            row.accelerator,
            row.precision,
            row.threads,
            row.measures,
            row.source,
        )
        for row in found.rows
    ]
    assert len(set(keys)) == len(keys)


def test_what_the_issue_asks_for_is_there() -> None:
    found = load_baselines()
    plugin = [row for row in found.rows if row.series == "plugin"]
    assert {row.device for row in plugin} == {
        "Pixel 4",
        "Pixel 6",
        "Pixel 7",
        "Samsung Galaxy S23",
        "iPhone 12 Pro",
        "iPhone 13 Pro",
    }
    assert not any(row.verified or row.value is not None or row.calibrates for row in plugin)
    assert all("could not be read" in row.note for row in plugin)
    known = {
        (row.model, row.device, row.accelerator, row.precision): row.value for row in found.rows
    }
    assert known["MobileNetV2 1.0 224", "Pixel 3", "gpu", "float32"] == 6.2
    assert known["MobileNetV2 1.0 224", "Pixel 1", "cpu", None] == 73.8
    assert known["ControlNet (Canny)", "Samsung Galaxy S24", "npu", "w8a16"] == 58.723
    assert {row.value for row in found.rows if row.model == "ControlNet, training"} == {34.0, 23.0}
    header, rows = listed(found)
    assert (
        all(len(row) == len(header) for row in rows)
        and sum("not read here" in row for row in rows) == 6
    )
    known_work = [row for row in found.rows if row.calibrates]
    assert len(known_work) > 40
    assert all(
        (row.unit, row.measures) == ("ms", "one run") and row.macs and row.value and row.verified
        for row in known_work
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"value": 3.0, "verified": False}, "nobody checked"),
        ({"value": None, "verified": True}, "verified without a number"),
        ({"value": None, "verified": False, "note": ""}, "does not say why"),
        ({"value": -1.0}, "no positive number"),
        ({"source": "nowhere"}, "no source 'nowhere'"),
        ({"threads": 0}, "threads 0"),
        ({"unit": "furlongs"}, "does not follow its schema"),
        ({"extra": 1}, "does not follow its schema"),
    ],
)
def test_a_row_that_cannot_be_is_refused(raw: Json, tmp_path: Path, change: Json, why: str) -> None:
    raw["rows"][3] |= change
    path = tmp_path / "b.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ReportError, match=why):
        load_baselines(path)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [("url", "http://x", "https"), ("title", "", "title"), ("published", "last year", "date")],
)
def test_a_source_that_cannot_be_is_refused(
    raw: Json, tmp_path: Path, key: str, value: str, why: str
) -> None:
    raw["sources"]["slim"][key] = value
    path = tmp_path / "b.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ReportError, match=why):
        load_baselines(path)


def test_the_command_says_that_they_are_not_ours() -> None:
    done = CliRunner().invoke(baselines, [])
    assert done.exit_code == 0 and done.output.startswith("published, not measured here (read on ")
    told = json.loads(CliRunner().invoke(baselines, ["--json"]).output)
    assert told["schema"] == "unplug-baselines/1" and len(told["rows"]) == len(
        load_baselines().rows
    )
