"""The page on a plain web server: a bundle is dropped on it, checked, timed and tried, light and
dark, on a small screen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unplug.export import digest_inputs
from unplug.mobile_bench import BenchReport

from .conftest import Browser, files_in, zipped

pytestmark = pytest.mark.nightly

CAMERA = "evaluate document.querySelector('video').srcObject !== null"
SHOW = (
    "evaluate Reflect.deleteProperty(document, 'hidden') && document.dispatchEvent(new "
    "Event('visibilitychange'))"
)
HIDE = SHOW.replace(
    "deleteProperty(document, 'hidden')",
    "defineProperty(document, 'hidden', {value: true, configurable: true})",
)


@pytest.fixture(scope="session")
def visit(
    browser: Browser, static_url: str, bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """One long visit of a phone; what its steps found, by name."""
    folder, files = tmp_path_factory.mktemp("web-visit"), files_in(bundle)
    archive = zipped(files, folder / "age.zip", "age.unplug/")
    damaged = files | {"test_vectors/0-image.f32": bytes(12288)}
    zipped(damaged, folder / "bad.zip", "age.unplug/")
    (folder / "text.zip").write_text("no zip")
    Image.new("RGB", (80, 60), (200, 150, 120)).save(folder / "face.png")
    script = f"""
        open ?repeats=2&iterations=3&warmup=1
        axe empty <- axe
        scheme dark
        axe empty dark <- axe
        files #pick-files | {folder}/text.zip
        wait #alert:not([hidden])
        no zip <- text #alert
        axe alert <- axe
        files #pick-files | {folder}/bad.zip
        until was changed
        damaged <- text #alert
        files #pick-files | {archive}
        wait #start
        ready <- text #bench
        click #start
        wait [data-state=running]
        {HIDE}
        {SHOW}
        wait #download
        states <- texts .state
        click summary
        axe done dark <- axe
        scheme light
        axe done <- axe
        wide <- overflow
        size 320 | 640
        narrow <- overflow
        download #download | {folder}/bench.json
        click #tab-demo
        files #demo-file | {folder}/face.png
        wait #age
        age <- text #age
        groups <- texts .groups li
        axe demo <- axe
        demo narrow <- overflow
        scheme dark
        axe demo dark <- axe
        files #demo-file | {folder}/text.zip
        until is not a picture
        evaluate document.querySelector('.answer').replaceChildren()
        click #demo-camera
        wait #age
        camera on <- {CAMERA}
        click #tab-bench
        camera off <- {CAMERA}
        press ArrowRight
        focus <- evaluate document.activeElement?.id
    """
    return {**browser(static_url, script), "report": folder / "bench.json"}


def test_a_dropped_bundle_is_checked_and_timed(visit: dict[str, Any], bundle: Path) -> None:
    assert "files agree with the manifest" in visit["ready"] and visit["states"] == ["ok", "ok"]
    rows = BenchReport.load(visit["report"]).rows
    assert [row.delegate_asked for row in rows] == ["wasm", "webgpu"]
    for row in rows:
        assert (row.status, row.valid, row.where) == ("ok", True, "emulated")
        assert (row.parity_reference, row.timed_until) == ("checkpoint", "read_back")
        assert all(repeat.parity_db is None or repeat.parity_db >= 100 for repeat in row.repeats)
        assert [len(repeat.latencies_ms) for repeat in row.repeats] == [3, 3]
    hidden = "the page was hidden in cold start 1, which was made again"
    assert [text for row in rows for text in row.interruptions] == [hidden]
    vectors = bundle / "test_vectors"
    samples = json.loads((vectors / "vectors.json").read_text())["samples"]
    files = [vectors / sample["inputs"]["image"]["file"] for sample in samples]
    images = np.stack([np.fromfile(file, "<f4").reshape(3, 32, 32) for file in files])
    assert {row.inputs_sha256 for row in rows} == {digest_inputs({"image": images})}


def test_bad_bundles_are_one_clear_line(visit: dict[str, Any]) -> None:
    assert visit["no zip"] == "this is not a zip file, or it is cut off"
    assert visit["damaged"].startswith("test_vectors/0-image.f32 was changed")


def test_the_demo_tells_an_age(visit: dict[str, Any]) -> None:
    assert 0 <= int(visit["age"]) <= 100
    assert len(visit["groups"]) == 13 and visit["groups"][0].startswith("0–5")
    assert visit["groups"][-1].startswith("80 and over")


def test_the_camera_stops_on_leaving(visit: dict[str, Any]) -> None:
    assert (visit["camera on"], visit["camera off"], visit["focus"]) == (True, False, "tab-demo")


def test_it_is_accessible_and_fits(visit: dict[str, Any]) -> None:
    states = {name: value for name, value in visit.items() if name.startswith("axe ")}
    assert len(states) == 7 and not any(states.values()), states
    assert {visit[name] for name in ("wide", "narrow", "demo narrow")} == {0}
