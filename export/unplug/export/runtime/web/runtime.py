"""LiteRT.js and onnxruntime-web as runtimes: numbers of a real browser, by the packages that web
apps load.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Array, ArtifactError, InputError, IOSpec, read_json, temporary_folder

from ..base import Placement, Runner, check_tensors
from .server import Server

MODULES_VARIABLE, BROWSER_VARIABLE = "UNPLUG_WEB_MODULES", "UNPLUG_CHROMIUM"
MAX_PACKAGE_BYTES = 2**20
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--mute-audio",
    "--enable-unsafe-webgpu",
    "--enable-features=Vulkan",
    "--use-webgpu-adapter=swiftshader",
)
"""The software adapter makes WebGPU run without a GPU: good for numbers, worthless for times."""


@dataclass(frozen=True)
class Web:
    """A browser runtime; `package` is its npm package."""

    name: str
    suffix: str
    package: str
    modules: tuple[str, ...] = ("numpy",)
    extra: str = "dev"
    delegates: tuple[str, ...] = ("wasm", "webgpu")

    def version(self) -> str | None:
        """The version of the npm package that the page loads."""
        folder = _packages()
        facts = None if folder is None else folder / self.package / "package.json"
        if facts is None or not facts.is_file():
            return None
        return str(read_json(facts, max_bytes=MAX_PACKAGE_BYTES).get("version"))

    def unavailable(self) -> str | None:
        """Why not: no browser, or no packages for it."""
        if find_browser() is None:
            return f"there is no Chromium (set {BROWSER_VARIABLE})"
        folder = _packages()
        if folder is None or not (folder / self.package / "package.json").is_file():
            return (
                f"its npm packages are not here (make web-runtimes, or set {MODULES_VARIABLE} to a "
                "node_modules folder)"
            )
        return None

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Starts a browser that loads the file from a server of its own, on this machine only."""
        for tensor in (*iospec.inputs, *iospec.outputs):
            if tensor.dtype != "float32":
                raise InputError(
                    f"runtime {self.name!r}",
                    f"{tensor.name} is {tensor.dtype}",
                    "Only float32 goes through it",
                )
        modules = _packages()
        assert modules is not None, "unavailable() was asked first"
        server = Server(path, modules)
        browser = contextlib.ExitStack()
        url = f"{server.url}?runtime={self.name}&delegate={delegate}"
        server.browser = browser.enter_context(opened_browser(url))
        atexit.register(browser.close)
        facts = json.loads(server.wait())
        if "error" in facts:
            raise ArtifactError(
                str(path),
                f"{self.name} refuses it on {delegate} ({facts['error'][:500]})",
                "Export it again",
            )
        check_tensors(path, iospec, _described(facts["inputs"]), _described(facts["outputs"]))
        return _WebRunner(
            path, server, iospec, Placement(delegate_asked=delegate, delegate_got=delegate)
        )


def _packages() -> Path | None:
    given = os.environ.get(MODULES_VARIABLE)
    return Path(given).resolve() if given else None


def find_browser() -> str | None:
    """A Chromium: the one that is named, or one on PATH."""
    named = os.environ.get(BROWSER_VARIABLE)
    return named or next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextlib.contextmanager
def opened_browser(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A headless browser that opens an address; it ends, and its profile goes, with the block.

    Raises:
        InputError: there is none, or it cannot be started.
    """
    browser = find_browser()
    if browser is None:
        raise InputError(
            "browser", "there is no Chromium", f"Install one, or set {BROWSER_VARIABLE}"
        )
    # As root its sandbox does not start; it loads nothing but our page and the files that are to be
    # checked.
    sandbox = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    # A short name: Chromium's socket lies below it, its whole path has 107 bytes, and TMPDIR may be
    # a job's own folder.
    with temporary_folder("web-") as profile:
        command = [browser, *FLAGS, *sandbox, f"--user-data-dir={profile}", url]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"TMPDIR": str(profile)},
            )
        except OSError as error:
            raise InputError(
                browser, error.strerror or str(error), f"Set {BROWSER_VARIABLE} to a Chromium"
            ) from error
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _described(found: list[dict[str, Any]]) -> dict[str, tuple[tuple[int, ...], str]]:
    """What the page says of a file's tensors."""
    return {item["name"]: (tuple(item["shape"]), item["dtype"]) for item in found}


class _WebRunner:
    def __init__(self, path: Path, server: Server, iospec: IOSpec, placement: Placement) -> None:
        self.placement = placement
        self._path, self._server, self._iospec = path, server, iospec
        self._sent = b""
        self._answer = b""

    def feed(self, inputs: Mapping[str, Array]) -> None:
        self._sent = b"".join(
            np.ascontiguousarray(inputs[item.name]).tobytes() for item in self._iospec.inputs
        )

    def invoke(self) -> None:
        order = {
            "inputs": [[item.name, list(item.shape)] for item in self._iospec.inputs],
            "outputs": [item.name for item in self._iospec.outputs],
        }
        head = json.dumps(order).encode()
        self._answer = self._server.ask(
            len(head).to_bytes(4, "little") + head + b" " * (-len(head) % 4) + self._sent
        )

    def read(self) -> dict[str, Array]:
        if self._answer[:1] == b"{":
            why = json.loads(self._answer)["error"][:500]
            raise ArtifactError(
                str(self._path), f"it does not run in the browser ({why})", "Export it again"
            )
        outputs, start = {}, 4  # a word that says it is not an error
        for spec in self._iospec.outputs:
            size = int(np.prod(spec.shape))
            outputs[spec.name] = (
                np.frombuffer(self._answer, np.float32, size, start).reshape(spec.shape).copy()
            )
            start += 4 * size
        return outputs


LITERT = Web(name="litert-web", suffix=".tflite", package="@litertjs/core")
ONNX = Web(name="onnx-web", suffix=".onnx", package="onnxruntime-web")
