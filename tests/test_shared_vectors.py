"""tests/vectors/README.md: which language's tests read which vectors, by their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VECTORS = ROOT / "tests" / "vectors"
PAGE = (VECTORS / "README.md").read_text(encoding="utf-8")
PYTHON = {
    "app": "tests/android/test_app_vectors.py",
    "bundles": "tests/sdk/trust/bundle/test_vectors.py",
    "decision": "tests/sdk/drawing/inference/test_decision_vectors.py",
    "faces": "tests/sdk/drawing/inference/test_alignment.py",
    "family-choice.json": "tests/sdk/drawing/inference/test_family.py",
    "head": "tests/sdk/drawing/inference/test_head.py",
    "hostile": "tests/test_hostile.py",
    "loop": "tests/test_app_vectors.py",
    "mark.json": "tests/sdk/drawing/device/test_mark.py",
    "pictures": "tests/test_app_vectors.py",
    "pipeline": "tests/sdk/drawing/device/test_vectors.py",
    "signatures": "tests/test_app_vectors.py",
    "statistics": "tests/test_app_vectors.py",
}
"""The test that holds a folder to what Python computes."""


def joined(folder: str, pattern: str) -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).glob(pattern))
    )


READ_BY = {
    "TypeScript": (
        joined("mobile_bench/unplug/mobile_bench/web/page/tests", "*.ts"),
        r"tests/vectors/{0}\b|\"\.\./{0}/",
    ),
    "Kotlin": (
        joined("android_demo/core/src/test", "**/*.kt"),
        r"Vectors\.(?:json|file)\(\"{}[\"/]",
    ),
    "Swift": (
        joined("ios_demo/UnplugCore/Tests", "**/*.swift"),
        r"(?:vector|vectorJson|verified|appendingPathComponent)\(\"{}[\"/]",
    ),
}
"""The tests of a language in one text, and how they name what they read."""


def rows() -> Iterator[tuple[str, list[str]]]:
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0].startswith("`"):
            yield cells[0].strip("`"), cells[2:]


ROWS = dict(rows())


def units() -> set[str]:
    """Every folder and file; of `app`, which is of many kinds, what lies in it."""
    folders = {
        path.name for path in VECTORS.iterdir() if path.is_dir() and not path.name.startswith("_")
    }
    inner = {
        f"app/{path.name}"
        for path in (VECTORS / "app").iterdir()
        if path.suffix == ".json" or path.is_dir()
    }
    files = {path.name for path in VECTORS.glob("*.json")}
    return files | folders - {"app"} | {name for name in inner if not name.endswith("__pycache__")}


def test_every_folder_is_a_row() -> None:
    assert ROWS.keys() == units()


def python(unit: str) -> bool:
    folder, _, inner = unit.partition("/")
    text = (ROOT / PYTHON[folder]).read_text(encoding="utf-8")
    known = re.search(rf"vectors\.{folder}\b|\"{folder}\"", text) is not None
    # Of `app` the files of its make.py are all compared; the others have a test of their own each.
    return known and (
        inner.removesuffix(".json") in text
        or inner in (VECTORS / "app/make.py").read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("unit", sorted(ROWS))
def test_a_row_says_what_the_sources_say(unit: str) -> None:
    read = [
        re.search(pattern.format(re.escape(unit)), text) is not None
        for text, pattern in READ_BY.values()
    ]
    found = [python(unit), *read]
    assert ROWS[unit] == ["yes" if one else "–" for one in found]
