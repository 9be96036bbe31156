"""Published numbers: each has a source, none that nobody read has a value, and a broken file is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import ReportError
from unplug.mobile_bench import NOT_OURS, load_baselines
from unplug.mobile_bench import listing as listed
from unplug.mobile_bench.baselines import SHIPPED
from unplug.sdk.cli.bench_table import baselines

Json = dict[str, Any]


@pytest.fixture
def raw() -> Json:
    found: Json = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return found


def test_every_number_has_a_source_that_names_its_place_and_its_day() -> None:
    found = load_baselines()
    assert {row.source for row in found.rows} == set(found.sources)  # and none is left over
    assert all(source.url.startswith("https://") and source.title for source in found.sources.values())
    assert all(source.published or source.commit for source in found.sources.values())
    keys = [
        (row.model, row.device, row.accelerator, row.precision, row.threads, row.measures, row.source) for row in found.rows
    ]
    assert len(set(keys)) == len(keys)


def test_what_the_issue_asks_for_is_there() -> None:
    found = load_baselines()
    plugin = [row for row in found.rows if row.series == "plugin"]
    assert {row.device for row in plugin} == {
        "Pixel 4", "Pixel 6", "Pixel 7", "Samsung Galaxy S23", "iPhone 12 Pro", "iPhone 13 Pro",
    }  # fmt: skip
    assert not any(row.verified or row.value is not None or row.calibrates for row in plugin)
    assert all("could not be read" in row.note for row in plugin)
    known = {(row.model, row.device, row.accelerator, row.precision): row.value for row in found.rows}
    assert known["MobileNetV2 1.0 224", "Pixel 3", "gpu", "float32"] == 6.2
    assert known["MobileNetV2 1.0 224", "Pixel 1", "cpu", None] == 73.8
    assert known["ControlNet (Canny)", "Samsung Galaxy S24", "npu", "w8a16"] == 58.723
    assert {row.value for row in found.rows if row.model == "ControlNet, training"} == {34.0, 23.0}
    assert NOT_OURS == "published, not measured here"


def test_only_checked_latencies_with_known_work_calibrate() -> None:
    rows = [row for row in load_baselines().rows if row.calibrates]
    assert len(rows) > 40
    assert all(row.unit == "ms" and row.macs and row.value and row.verified and row.measures == "one run" for row in rows)


def test_the_listing_says_what_could_not_be_read() -> None:
    header, rows = listed(load_baselines())
    assert all(len(row) == len(header) for row in rows)
    assert sum("not read here" in row for row in rows) == 6
    assert any("https://arxiv.org/abs/2302.05543" in row and "34 %" in row for row in rows)


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
def test_a_source_that_cannot_be_is_refused(raw: Json, tmp_path: Path, key: str, value: str, why: str) -> None:
    raw["sources"]["slim"][key] = value
    path = tmp_path / "b.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ReportError, match=why):
        load_baselines(path)


def test_the_command_says_that_they_are_not_ours() -> None:
    done = CliRunner().invoke(baselines, [])
    assert done.exit_code == 0 and done.output.startswith("published, not measured here (read on ")
    told = json.loads(CliRunner().invoke(baselines, ["--json"]).output)
    assert told["schema"] == "unplug-baselines/1" and len(told["rows"]) == len(load_baselines().rows)
