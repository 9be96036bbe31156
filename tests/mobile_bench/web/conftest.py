"""The page built once a session, a nano age model for it, and a real Chromium driven over it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.once import once

from unplug.core import DeviceError
from unplug.export import Artifact, find_browser
from unplug.export.runtime.web.runtime import FLAGS
from unplug.mobile_bench.web import build
from unplug.plugins import load_checkpoint
from unplug.sdk.releasing.contents import write_vectors
from unplug.trust.bundle import Content, write_bundle


@dataclass(frozen=True)
class Built:
    """The folder that npm worked in, and the page in it."""

    folder: Path
    page: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    try:
        root = once(
            tmp_path_factory, "web", lambda folder: build.build_in(folder / "page", tools=True)
        )
    except DeviceError as error:
        unreached = ("ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN", "ETIMEDOUT")
        if any(word in str(error) for word in unreached):
            pytest.skip(f"npm's registry is not reached: {error}")
        raise
    return Built(root / "page", root / "page" / "dist")


@pytest.fixture
def page(built: Built, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(build.PAGE_VARIABLE, str(built.page))
    return built.page


@pytest.fixture(scope="session")
def chromium() -> str:
    browser = find_browser()
    if browser is None:
        pytest.skip("there is no Chromium")
    return browser


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder as any web server has it: no plan, no secret, no headers of ours."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def static_url(built: Built) -> Iterator[str]:
    """The page as any web server has it."""
    with served(built.page) as url:
        yield url


@pytest.fixture(scope="session")
def bundle(litert: Artifact, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web-bundle")
    loaded = load_checkpoint(checkpoint)
    (folder / "vectors").mkdir()
    write_vectors(loaded, folder / "vectors")
    empty = ("preprocessing", "postprocessing", "lineage", "versions")
    facts = {name: {} for name in empty} | {
        "model_type": "age",
        "iospec": loaded.model.iospec.to_dict(),
        "gates": [],
    }
    card = "A test model."
    content = Content(
        artifacts=[litert], reports={}, vectors=folder / "vectors", card=card, facts=facts
    )
    return write_bundle(content, folder / "age.unplug")


def run_in(built: Built, command: str, **environment: str) -> str:
    """What a command prints in the folder that npm worked in; it must not fail."""
    done = subprocess.run(
        command.split(),
        cwd=built.folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout


@dataclass(frozen=True)
class Browser:
    """Runs steps of ``page/tests/browser.mjs``."""

    built: Built
    chromium: str

    def __call__(self, url: str, script: str, timeout: float = 60.0, **more: Any) -> dict[str, Any]:
        """One visit by a script with a step a line: `name <- verb argument | argument`.

        What named steps found comes back by their names, with `errors` of the console. Nothing may
        come from elsewhere, and nothing go wrong in the page itself.
        """
        lines = [line.strip().rpartition("<- ") for line in script.splitlines() if line.strip()]
        steps = [step_of(step) for _, _, step in lines]
        camera = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        flags = [*(flag for flag in FLAGS if not flag.startswith("--headless")), *camera]
        asked = {"url": url, "chromium": self.chromium, "flags": flags, "steps": steps, **more}
        done = subprocess.run(
            ["node", "tests/browser.mjs", json.dumps(asked)],
            cwd=self.built.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=True,
        )
        result: dict[str, Any] = json.loads(done.stdout)
        assert "failed" not in result, result["failed"]
        assert result["strangers"] == []
        bad = ("Content Security Policy", "Uncaught")
        errors = [line for line in result["errors"] if any(word in line for word in bad)]
        assert not errors, errors
        named = zip(lines, result["found"], strict=True)
        return {name.strip(): value for (name, _, _), value in named if name}


def step_of(text: str) -> list[Any]:
    """A verb of ``page/tests/browser.mjs`` and its arguments; numbers and lists as JSON."""
    verb, _, rest = text.partition(" ")
    words: list[Any] = re.split(r" \|(?: |$)", rest) if rest else []
    if verb in ("size", "stroke", "offline"):
        start = int(verb == "stroke")
        words[start:] = map(json.loads, words[start:])
    return [verb, *words]


def zipped(files: Mapping[str, bytes], out: Path, top: str = "") -> Path:
    """An archive of files by their paths in it."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(top + name, body)
    return out


def files_in(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="session")
def browser(built: Built, chromium: str) -> Browser:
    return Browser(built, chromium)
