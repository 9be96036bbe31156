"""Building the page: npm once, the cache afterwards, and one clear line where it fails."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from unplug.core import DeviceError
from unplug.export import PRECISIONS
from unplug.mobile_bench.web import build
from unplug.mobile_bench.web.build import built_page

from .conftest import Built, run_in

VECTORS = Path(__file__).parents[2] / "vectors" / "pipeline"
FAKE_NPM = """#!/bin/sh
echo "$@" >> "$NPM_LOG"
[ "$1" = "$NPM_FAILS" ] && { echo "npm error code E404" >&2; exit 1; }
[ "$1" = exec ] && mkdir dist && echo page > dist/index.html
exit 0
"""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm that writes down what it is asked."""
    tool = tmp_path / "bin" / "npm"
    tool.parent.mkdir()
    tool.write_text(FAKE_NPM)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("NPM_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("NPM_FAILS", "never")
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(build.PAGE_VARIABLE, raising=False)
    return tmp_path / "log"


def test_it_is_built_once(npm: Path, tmp_path: Path) -> None:
    page = built_page()
    assert page.parent == tmp_path / "cache" / "web-page"
    assert (page / "index.html").read_text() == "page\n"
    assert built_page() == page
    first, second = npm.read_text().splitlines()
    assert first == "ci --ignore-scripts --no-audit --no-fund --omit=dev"
    assert second.endswith("vite build")
    assert list(page.parent.iterdir()) == [page], "no temporary folder stays behind"


@pytest.mark.parametrize("step", ["ci", "exec"])
def test_a_failing_npm_is_one_clear_line(
    npm: Path, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_FAILS", step)
    words = f"`npm {step}` for the web page: npm error code E404. Install Node"
    with pytest.raises(DeviceError, match=words) as caught:
        built_page()
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "cache" / "web-page").iterdir()) == []


def test_no_npm(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DeviceError, match="npm is not installed"):
        built_page()


def test_a_page_built_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.PAGE_VARIABLE, str(tmp_path))
    with pytest.raises(DeviceError, match=r"there is no index\.html in it"):
        built_page()
    (tmp_path / "index.html").write_text("")
    assert built_page() == tmp_path


def test_versions_are_pinned_and_no_address_is_in_the_lock_file() -> None:
    package = json.loads((build.SOURCES / "package.json").read_text())
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())
    lock = (build.SOURCES / "package-lock.json").read_text()
    funding = lock.count('"url": "https://')
    assert "resolved" not in lock and "http" not in lock.replace("https://", "", funding)
    locked = json.loads(lock)["packages"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in versions} == versions


def test_thresholds_are_those_of_the_precisions() -> None:
    known = json.loads((build.SOURCES / "src" / "precisions.json").read_text())
    assert known == {name: PRECISIONS.get(name).min_psnr_db for name in PRECISIONS}


@pytest.mark.long
def test_the_page_names_no_other_origin(built: Built) -> None:
    for file in built.page.rglob("*"):
        if file.suffix in (".html", ".css", ".svg") and file.is_file():
            text = file.read_text().replace("http://www.w3.org/2000/svg", "")
            assert "http" not in text.replace("http-equiv", "")
    sizes = [path.stat().st_size for path in built.page.glob("assets/index-*")]
    assert sum(sizes) < 136_000, "the page's own code stays small"


@pytest.mark.long
def test_types_and_units(built: Built) -> None:
    """The compiler finds nothing, TypeScript's own unit tests pass, and its port of the device loop
    agrees with the vectors.
    """
    vite = "npm exec --offline -- vite build --outDir unit --ssr tests/"
    for command in (
        "npm exec --offline -- tsc --noEmit",
        f"{vite}unit.test.ts",
        f"{vite}vectors.test.ts --emptyOutDir false",
        "node --test unit/",
    ):
        run_in(built, command, UNPLUG_VECTORS=str(VECTORS))
