"""Exported files in a real headless Chromium: LiteRT.js and onnxruntime-web give what Python's
runtimes give.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from unplug.core import ArtifactError, ConversionError, InputError
from unplug.export import RUNTIMES, Session, compare, measure_parity, verdict
from unplug.export.runtime.web.server import Server

from .conftest import Files, given, resigned

reasons = {name: RUNTIMES.get(name).unavailable() for name in ("litert-web", "onnx-web")}
needs_browser = pytest.mark.skipif(
    any(reasons.values()), reason=str(next(filter(None, reasons.values()), ""))
)
nightly = pytest.mark.nightly


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize(
    ("name", "delegate", "least_db"),
    [
        ("age.fp32.tflite", "wasm", 100.0),
        pytest.param("age.fp16.onnx", "wasm", 100.0, marks=nightly),
        pytest.param("age.fp16.tflite", "webgpu", 60.0, marks=nightly),
    ],
)
def test_a_browser_agrees_with_python(
    by_name: Files, name: str, delegate: str, least_db: float
) -> None:
    file = by_name[name]
    inputs, runtime = given(file, 2, seed=2), f"{file.card.target}-web"
    here = Session(file).run(inputs)
    there = Session(file, runtime=runtime, delegate=delegate).run(inputs)
    assert all(verdict(compare(here[key], there[key]), least_db) is None for key in here)


@nightly
@needs_browser
@pytest.mark.parametrize("name", ["age.int8-static.tflite", "age.int8-static.onnx"])
def test_parity_of_eight_bits(by_name: Files, checkpoint: Path, name: str) -> None:
    file = by_name[name]
    runtime = f"{file.card.target}-web"
    report = measure_parity(file, checkpoint, given(file, 2, seed=2), runtime=runtime)
    assert report.passed and {row.runtime for row in report.rows} == {runtime}


@nightly
@needs_browser
@pytest.mark.parametrize(
    ("name", "delegate", "keep"),
    [
        # what WebGPU does not take is no silent fallback
        ("age.int8-static.onnx", "webgpu", None),
        ("age.fp32.tflite", "wasm", 5000),
        ("age.fp32.onnx", "wasm", 5000),
    ],
)
def test_what_the_browser_refuses(
    by_name: Files, tmp_path: Path, name: str, delegate: str, keep: int | None
) -> None:
    file = resigned(by_name[name], tmp_path, by_name[name].path.read_bytes()[:keep])
    runtime = f"{file.card.target}-web"
    with pytest.raises(ArtifactError, match=f"{runtime} refuses it on {delegate}"):
        Session(file, runtime=runtime, delegate=delegate).run(given(file))


def test_a_browser_that_ends_is_told_at_once(
    by_name: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "onnxruntime-web").mkdir()
    (tmp_path / "onnxruntime-web/package.json").write_text('{"version": "1"}')
    monkeypatch.setenv("UNPLUG_CHROMIUM", "/usr/bin/true")
    monkeypatch.setenv("UNPLUG_WEB_MODULES", str(tmp_path))
    file = by_name["age.fp32.onnx"]
    with pytest.raises(ConversionError, match="the browser ended"):
        Session(file, runtime="onnx-web").run(given(file))
    monkeypatch.delenv("UNPLUG_WEB_MODULES")
    with pytest.raises(InputError, match=r"npm packages are not here \(make web-runtimes"):
        Session(file, runtime="onnx-web")


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

    own, root = server.url, server.url.replace(server.secret + "/", "")
    assert server.secret.encode() in get(own) and get(own + "model") == b"model"
    assert get(own + "modules/a.js") == b"1"
    inside = ("modules/../secret.txt", "modules/%2e%2e/secret.txt", "secret.txt", "modules//etc/x")
    wrong: list[tuple[str, bytes | None]] = [
        *((url, None) for url in (root, root + "model", root + "x/model")),
        *((own + path, None) for path in inside),
        *((root + "answer", b"x"), (own + "other", b"x"), (own + "answer", b"")),
    ]
    for url, body in wrong:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(url, body)
    threading.Timer(0.2, lambda: get(own + "answer", b"yes")).start()
    assert server.wait() == b"yes"
