"""Exported files in a real headless Chromium: LiteRT.js and onnxruntime-web give what Python's
runtimes give.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from unplug.core import ArtifactError, ConversionError, InputError
from unplug.export import (
    RUNTIMES,
    Artifact,
    Session,
    compare,
    measure_parity,
    random_inputs,
    verdict,
)
from unplug.export.runtime.web.server import Server

from .test_session import resigned

SAMPLES = 2
reasons = {name: RUNTIMES.get(name).unavailable() for name in ("litert-web", "onnx-web")}
needs_browser = pytest.mark.skipif(
    any(reasons.values()), reason=str(next(filter(None, reasons.values()), ""))
)


@pytest.fixture(scope="module")
def int8(by_name: Mapping[str, Artifact]) -> dict[str, Artifact]:
    return {
        target: by_name[f"age.int8-static.{suffix}"]
        for target, suffix in (("litert", "tflite"), ("onnx", "onnx"))
    }


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize(
    "name", ["age.fp32.tflite", pytest.param("age.fp16.onnx", marks=pytest.mark.nightly)]
)
def test_webassembly_agrees_with_python(by_name: Mapping[str, Artifact], name: str) -> None:
    item = by_name[name]
    inputs = random_inputs(item.card.iospec, SAMPLES, seed=2)
    here, there = (
        Session(item).run(inputs),
        Session(item, runtime=f"{item.card.target}-web").run(inputs),
    )
    assert all(verdict(compare(here[key], there[key]), 100.0) is None for key in here)


@pytest.mark.nightly
@needs_browser
def test_eight_bits_and_the_command_line_of_parity(
    int8: dict[str, Artifact], checkpoint: Path
) -> None:
    for target, item in int8.items():
        report = measure_parity(
            item,
            checkpoint,
            random_inputs(item.card.iospec, SAMPLES, seed=2),
            runtime=f"{target}-web",
        )
        assert report.passed and {row.runtime for row in report.rows} == {f"{target}-web"}


@pytest.mark.nightly
@needs_browser
@pytest.mark.parametrize("name", ["age.fp16.tflite"])
def test_webgpu_takes_all_of_a_litert_file(by_name: Mapping[str, Artifact], name: str) -> None:
    item = by_name[name]
    inputs = random_inputs(item.card.iospec, SAMPLES, seed=2)
    here, there = (
        Session(item).run(inputs),
        Session(item, runtime="litert-web", delegate="webgpu").run(inputs),
    )
    assert all(verdict(compare(here[key], there[key]), 60.0) is None for key in here)


@pytest.mark.nightly
@needs_browser
def test_what_webgpu_does_not_take_is_no_silent_fallback(int8: dict[str, Artifact]) -> None:
    item = int8["onnx"]
    with pytest.raises(ArtifactError, match="onnx-web refuses it on webgpu"):
        Session(item, runtime="onnx-web", delegate="webgpu").run(
            random_inputs(item.card.iospec, 1, seed=0)
        )


@pytest.mark.nightly
@needs_browser
@pytest.mark.parametrize(
    "name", ["age.fp32.tflite", pytest.param("age.fp32.onnx", marks=pytest.mark.nightly)]
)
def test_a_truncated_file_is_refused_in_the_browser(
    by_name: Mapping[str, Artifact], tmp_path: Path, name: str
) -> None:
    item = by_name[name]
    forged = resigned(item, tmp_path, item.path.read_bytes()[:5000])
    with pytest.raises(ArtifactError, match=f"{item.card.target}-web refuses it on wasm"):
        Session(forged, runtime=f"{item.card.target}-web").run(
            random_inputs(forged.card.iospec, 1, seed=0)
        )


def test_a_browser_that_ends_is_told_at_once(
    by_name: Mapping[str, Artifact], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "onnxruntime-web").mkdir()
    (tmp_path / "onnxruntime-web/package.json").write_text('{"version": "1"}')
    monkeypatch.setenv("UNPLUG_CHROMIUM", "/usr/bin/true")
    monkeypatch.setenv("UNPLUG_WEB_MODULES", str(tmp_path))
    item = by_name["age.fp32.onnx"]
    with pytest.raises(ConversionError, match="the browser ended"):
        Session(item, runtime="onnx-web").run(random_inputs(item.card.iospec, 1, seed=0))


def test_without_its_packages_it_says_how_to_get_them(
    by_name: Mapping[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_CHROMIUM", "/usr/bin/true")
    monkeypatch.delenv("UNPLUG_WEB_MODULES", raising=False)
    with pytest.raises(InputError, match=r"npm packages are not here \(make web-runtimes"):
        Session(by_name["age.fp32.onnx"], runtime="onnx-web")


def test_the_server_gives_out_nothing_else(tmp_path: Path) -> None:
    """No secret, no answer; nothing outside the packages; no answer of a length that is a lie."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "a.js").write_text("1")
    (tmp_path / "secret.txt").write_text("no")
    (tmp_path / "model").write_bytes(b"model")
    server = Server(tmp_path / "model", tmp_path / "modules")

    def get(url: str, body: bytes | None = None) -> bytes:
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=10) as reply:
            return bytes(reply.read())

    assert server.secret.encode() in get(server.url) and get(server.url + "model") == b"model"
    assert get(server.url + "modules/a.js") == b"1"
    root = server.url.replace(server.secret + "/", "")
    inside = (
        "modules/../secret.txt",
        "modules/%2e%2e/secret.txt",
        "secret.txt",
        "modules//etc/passwd",
    )
    for url in (root, root + "model", root + "x/model", *(server.url + path for path in inside)):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(url)
    for url, body in (
        (root + "answer", b"x"),
        (server.url + "other", b"x"),
        (server.url + "answer", b""),
    ):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(url, body)
    threading.Timer(0.2, lambda: get(server.url + "answer", b"yes")).start()
    assert server.wait() == b"yes"
