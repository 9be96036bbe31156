"""The page on a plain web server: a bundle is dropped on it, checked, timed and tried, light and
dark, on a small screen.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from unplug.mobile_bench import BenchReport

pytestmark = pytest.mark.nightly

QUERY = "?repeats=2&iterations=3&warmup=1"
CAMERA = "document.querySelector('video').srcObject !== null"
SHOW = (
    "Reflect.deleteProperty(document, 'hidden') && document.dispatchEvent(new "
    "Event('visibilitychange'))"
)
HIDE = SHOW.replace(
    "deleteProperty(document, 'hidden')",
    "defineProperty(document, 'hidden', {value: true, configurable: true})",
)


def zipped(bundle: Path, out: Path, changed: dict[str, bytes] | None = None) -> Path:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(item for item in bundle.rglob("*") if item.is_file()):
            name = file.relative_to(bundle).as_posix()
            archive.writestr(f"age.unplug/{name}", (changed or {}).get(name, file.read_bytes()))
    return out


@pytest.fixture(scope="session")
def visit(
    browser: Any, static_url: str, bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """One long visit of a phone; what its steps found, by name."""
    folder = tmp_path_factory.mktemp("web-visit")
    archive = zipped(bundle, folder / "age.zip")
    damaged = zipped(bundle, folder / "bad.zip", {"test_vectors/0-image.f32": bytes(12288)})
    (folder / "text.zip").write_text("no zip")
    Image.new("RGB", (80, 60), (200, 150, 120)).save(folder / "face.png")
    named: list[tuple[str, list[Any]]] = [
        ("", ["open", QUERY]),
        ("empty", ["axe"]),
        ("", ["scheme", "dark"]),
        ("empty dark", ["axe"]),
        ("", ["files", "#pick-files", str(folder / "text.zip")]),
        ("", ["wait", "#alert:not([hidden])"]),
        ("no zip", ["text", "#alert"]),
        ("alert", ["axe"]),
        ("", ["files", "#pick-files", str(damaged)]),
        ("", ["until", "was changed"]),
        ("damaged", ["text", "#alert"]),
        ("", ["files", "#pick-files", str(archive)]),
        ("", ["wait", "#start"]),
        ("ready", ["text", "#bench"]),
        ("", ["click", "#start"]),
        ("", ["wait", "[data-state=running]"]),
        ("", ["evaluate", HIDE]),
        ("", ["evaluate", SHOW]),
        ("", ["wait", "#download"]),
        ("states", ["texts", ".state"]),
        ("", ["click", "summary"]),
        ("done dark", ["axe"]),
        ("", ["scheme", "light"]),
        ("done", ["axe"]),
        ("wide", ["overflow"]),
        ("", ["size", 320, 640]),
        ("narrow", ["overflow"]),
        ("", ["download", "#download", str(folder / "bench.json")]),
        ("", ["click", "#tab-demo"]),
        ("", ["files", "#demo-file", str(folder / "face.png")]),
        ("", ["wait", "#age"]),
        ("age", ["text", "#age"]),
        ("groups", ["texts", ".groups li"]),
        ("demo", ["axe"]),
        ("demo narrow", ["overflow"]),
        ("", ["scheme", "dark"]),
        ("demo dark", ["axe"]),
        ("", ["files", "#demo-file", str(folder / "text.zip")]),
        ("", ["until", "is no picture"]),
        ("", ["evaluate", "document.querySelector('.answer').replaceChildren()"]),
        ("", ["click", "#demo-camera"]),
        ("", ["wait", "#age"]),
        ("camera on", ["evaluate", CAMERA]),
        ("", ["click", "#tab-bench"]),
        ("camera off", ["evaluate", CAMERA]),
        ("", ["press", "ArrowRight"]),
        ("focus", ["evaluate", "document.activeElement?.id"]),
    ]
    result = browser(static_url, [step for _, step in named])
    found = {name: value for (name, _), value in zip(named, result["found"], strict=True) if name}
    return {
        **found,
        **{name: result[name] for name in ("strangers", "errors")},
        "report": folder / "bench.json",
    }


def test_a_dropped_bundle_is_checked_and_timed(visit: dict[str, Any]) -> None:
    assert "files agree with the manifest" in visit["ready"]
    assert visit["states"] == ["ok", "ok"]
    report = BenchReport.load(visit["report"])
    assert [(row.delegate_asked, row.status, row.valid, row.where) for row in report.rows] == [
        ("wasm", "ok", True, "emulated"),
        ("webgpu", "ok", True, "emulated"),
    ]
    for row in report.rows:
        assert row.parity_reference == "checkpoint" and row.timed_until == "read_back"
        assert all(repeat.parity_db is None or repeat.parity_db >= 100 for repeat in row.repeats)
        assert [len(repeat.latencies_ms) for repeat in row.repeats] == [3, 3]
    assert [text for row in report.rows for text in row.interruptions] == [
        "the page was hidden in cold start 1, which was made again"
    ]


def test_bad_bundles_are_one_clear_line(visit: dict[str, Any]) -> None:
    assert visit["no zip"] == "this is no zip file, or it is cut off"
    assert visit["damaged"].startswith("test_vectors/0-image.f32 was changed")


def test_the_demo_tells_an_age(visit: dict[str, Any]) -> None:
    assert 0 <= int(visit["age"]) <= 100
    assert len(visit["groups"]) == 13 and visit["groups"][0].startswith("0–5")
    assert visit["groups"][-1].startswith("80 and over")


def test_the_camera_stops_on_leaving(visit: dict[str, Any]) -> None:
    assert (visit["camera on"], visit["camera off"], visit["focus"]) == (True, False, "tab-demo")


@pytest.mark.parametrize(
    "state", ["empty", "empty dark", "alert", "done", "done dark", "demo", "demo dark"]
)
def test_accessible(visit: dict[str, Any], state: str) -> None:
    assert visit[state] == []


def test_nothing_is_wider_than_the_screen(visit: dict[str, Any]) -> None:
    assert {visit[name] for name in ("wide", "narrow", "demo narrow")} == {0}


def test_nothing_comes_from_elsewhere(visit: dict[str, Any]) -> None:
    assert visit["strangers"] == []
    assert not any(
        "Content Security Policy" in line or "Uncaught" in line for line in visit["errors"]
    ), visit["errors"]


def test_inputs_digest_is_pythons(visit: dict[str, Any], bundle: Path) -> None:
    import numpy as np

    from unplug.export import digest_inputs

    vectors = json.loads((bundle / "test_vectors" / "vectors.json").read_text())["samples"]
    images = [
        np.fromfile(bundle / "test_vectors" / item["inputs"]["image"]["file"], "<f4")
        for item in vectors
    ]
    wanted = digest_inputs({"image": np.stack([image.reshape(3, 32, 32) for image in images])})
    assert {row.inputs_sha256 for row in BenchReport.load(visit["report"]).rows} == {wanted}
