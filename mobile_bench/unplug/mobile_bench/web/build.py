"""The page as a folder of static files, built once by npm and Vite and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from unplug.core import DeviceError, check_writable, use_cache

PAGE_VARIABLE = "UNPLUG_WEB_PAGE"
SOURCES = Path(__file__).with_name("page")
LEFT_OUT = ("node_modules", "dist", ".gitignore")
INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
BUILD = ("npm", "exec", "--offline", "--", "vite", "build")
SECONDS = 600
HELP = (
    f"Install Node.js 20.19 or newer, or set {PAGE_VARIABLE} to a folder that was built elsewhere "
    "(docs/web.md)"
)


def built_page() -> Path:
    """The built page: ``$UNPLUG_WEB_PAGE``, or the cache's, or built now (half a minute, with npm's
    registry).

    Raises:
        DeviceError: npm is missing or fails, or the given folder holds no page.
    """
    if given := os.environ.get(PAGE_VARIABLE):
        page = Path(given)
        if not (page / "index.html").is_file():
            raise DeviceError(
                f"{PAGE_VARIABLE}={given}",
                "there is no index.html in it",
                "Give the dist folder of a built page",
            )
        return page.resolve()
    page = use_cache() / "web-page" / sources_digest()[:12]
    if not (page / "index.html").is_file():
        _publish(page)
    return page


def sources_digest() -> str:
    """SHA-256 over the page's sources: another one is another page."""
    digest = hashlib.sha256()
    for file in sorted(item for item in SOURCES.rglob("*") if item.is_file()):
        path = file.relative_to(SOURCES)
        if not set(path.parts) & set(LEFT_OUT):
            digest.update(
                f"{path.as_posix()}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode()
            )
    return digest.hexdigest()


def build_in(folder: Path, *, tools: bool = False) -> Path:
    """Copies the sources into a folder, installs what they need there and builds them; gives the
    built page.

    Args:
        folder: does not exist yet.
        tools: whether to include the tools that only tests and developers need.

    Raises:
        DeviceError: npm is missing, or fails.
    """
    if shutil.which("npm") is None:
        raise DeviceError("the web page", "npm is not installed, and it builds the page", HELP)
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    _npm((*INSTALL, *(() if tools else ("--omit=dev",))), folder)
    _npm(BUILD, folder)
    return folder / "dist"


def _publish(page: Path) -> None:
    check_writable(page.parent)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=page.parent) as temporary:
        built = build_in(Path(temporary) / "page")
        try:
            built.rename(page)
        except OSError as error:
            if not (page / "index.html").is_file():  # another process was faster
                raise DeviceError(
                    "the web page", error.strerror or str(error), f"Look at {page.parent}"
                ) from error


def _npm(command: tuple[str, ...], folder: Path) -> None:
    what = f"`{' '.join(command[:2])}` for the web page"
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(what, str(error), HELP) from error
    if done.returncode:
        lines = [
            line.strip()
            for line in (done.stderr + done.stdout).splitlines()
            if "error" in line.lower()
        ]
        raise DeviceError(what, (lines or [f"it ended with {done.returncode}"])[0][:300], HELP)
