"""A photograph's way to a decision on the page: its eyes are tapped, or found by the browser; else
there is no answer.
"""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from unplug.sdk.drawing.inference import Frame, align

pytestmark = pytest.mark.nightly

BUNDLES = Path(__file__).parents[2] / "vectors" / "app"
WIDTH, HEIGHT, SIDE = 300, 200, 16
EYES = ((120.0, 80.0), (180.0, 92.0))
"""Of the photograph, left and right."""
SEEN = (
    "Array.from(document.querySelector('.picture').getContext('2d').getImageData(0, 0, 16, "
    "16).data)"
)
EYE = "({{type: 'eye', locations: [{{x: {0}, y: {1}}}]}})"
FACE = (
    f"{{landmarks: [{EYE.format(*EYES[1])}, {{type: 'mouth', locations: []}}, "
    f"{EYE.format(*EYES[0])}]}}"
)


def detector(faces: str) -> list[Any]:
    """A browser that finds faces, as the Shape Detection API has it."""
    return [
        "evaluate",
        f"void (globalThis.FaceDetector = class {{ async detect() {{ return {faces}; }} }})",
    ]


def zipped(name: str, out: Path) -> Path:
    files = json.loads((BUNDLES / name).read_text(encoding="utf-8"))["files"]
    with zipfile.ZipFile(out, "w") as archive:
        for path, raw in files.items():
            archive.writestr(path, base64.b64decode(raw))
    return out


def photograph() -> NDArray[np.uint8]:
    """Slopes: whatever is shifted, scaled or turned has other colours."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return np.stack([255 * x / WIDTH, 255 * y / HEIGHT, 255 - 255 * x / WIDTH], axis=2).astype(
        np.uint8
    )


def tapped(eye: tuple[float, float]) -> list[Any]:
    return ["stroke", ".eyes canvas", [[eye[0] / WIDTH, eye[1] / HEIGHT]]]


def visited(browser: Any, url: str, folder: Path) -> dict[str, Any]:
    """What the steps of one visit found, by name."""
    aligned, plain = (
        zipped("aligned.json", folder / "aligned.zip"),
        zipped("bundle.json", folder / "plain.zip"),
    )
    Image.fromarray(photograph()).save(folder / "face.png")
    Image.new("RGB", (WIDTH, HEIGHT), (3, 3, 3)).save(folder / "dark.png")
    chosen, dark = (
        ["files", "#demo-file", str(folder / name)] for name in ("face.png", "dark.png")
    )
    decided, unjudged = ("", ["wait", "#decision"]), ("", ["wait", "#unjudged"])
    named: list[tuple[str, list[Any]]] = [
        ("", ["open"]),
        ("", ["files", "#pick-files", str(aligned)]),
        ("", ["wait", "#tab-demo:not([hidden])"]),
        ("", ["click", "#tab-demo"]),
        ("", chosen),
        ("", ["until", "Tap the middle of each eye"]),
        ("before", ["text", ".answer"]),
        ("asked", ["axe"]),
        ("", tapped(EYES[1])),
        ("", ["until", "Now the other eye."]),
        ("one eye", ["text", ".answer"]),
        ("", tapped(EYES[0])),
        decided,
        ("decision", ["text", ".decision"]),
        ("seen", ["evaluate", SEEN]),
        ("answered", ["axe"]),
        ("", ["scheme", "dark"]),
        ("answered dark", ["axe"]),
        ("wide", ["overflow"]),
        ("", ["size", 320, 640]),
        ("narrow", ["overflow"]),
        ("", ["evaluate", "document.querySelector('.ring').focus()"]),
        ("", ["press", "ArrowLeft"]),
        decided,
        ("moved", ["evaluate", SEEN]),
        *(("", tapped((x, EYES[1][1]))) for x in (140.0, 155.0, 166.0)),  # the nearer ring follows
        unjudged,
        ("small", ["text", ".answer"]),
        ("", dark),
        ("", ["until", "Tap the middle"]),
        ("", tapped(EYES[0])),
        ("", tapped(EYES[1])),
        unjudged,
        ("dark", ["text", ".answer"]),
        ("unjudged", ["axe"]),
        ("", detector("[{}, {}]")),
        ("", chosen),
        unjudged,
        ("two", ["text", ".answer"]),
        ("", detector("[]")),
        ("", chosen),
        ("", ["until", "Tap the middle"]),
        ("none", ["text", ".answer"]),
        ("", detector(f"[{FACE}]")),
        ("", chosen),
        decided,
        ("found", ["evaluate", SEEN]),
        ("", ["click", "#demo-camera"]),
        ("", ["until", "Look into the camera"]),
        ("", ["click", "#demo-camera"]),
        ("", ["wait", "#decision, #unjudged"]),
        ("", ["open"]),
        ("", ["files", "#pick-files", str(plain)]),
        ("", ["wait", "#tab-demo:not([hidden])"]),
        ("", ["click", "#tab-demo"]),
        ("", chosen),
        ("", ["wait", "#age"]),
        ("plain", ["text", ".answer"]),
        ("rings", ["evaluate", "document.querySelector('.eyes').hidden"]),
    ]
    result = browser(url, [step for _, step in named])
    found = {name: value for (name, _), value in zip(named, result["found"], strict=True) if name}
    return {**found, "errors": result["errors"]}


@pytest.fixture(scope="session")
def visit(
    browser: Any, static_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    return visited(browser, static_url, tmp_path_factory.mktemp("web-eyes"))


def apart(rgba: list[int]) -> float:
    """Mean distance of what the model saw to what Python puts in the frame."""
    seen = np.array(rgba).reshape(SIDE, SIDE, 4)[..., :3]
    return float(np.abs(seen - align(photograph(), *EYES, SIDE, Frame()).astype(int)).mean())


def test_two_taps_put_the_face_in_its_frame(visit: dict[str, Any]) -> None:
    assert (visit["before"], visit["one eye"]) == ("", ""), (
        "nothing is answered before both eyes are known"
    )
    assert apart(visit["seen"]) < 1.5 < apart(visit["moved"])
    assert visit["decision"].startswith("Under 18") or visit["decision"].startswith("Over 18"), (
        visit["decision"]
    )
    assert "At most 1 % of minors are called over and 5 % of adults under" in visit["decision"]


def test_eyes_that_the_browser_finds(visit: dict[str, Any]) -> None:
    assert apart(visit["found"]) < 0.01


def test_who_cannot_be_judged_gets_the_reason_alone(visit: dict[str, Any]) -> None:
    fix = "Choose one of a single face, near and well lit."
    assert (
        visit["small"].startswith("Photograph: the face is too small: ")
        and "16 are needed" in visit["small"]
    )
    assert visit["dark"] == f"Photograph: the face is too dark. {fix}"
    assert visit["two"] == f"Photograph: 2 faces found. {fix}"
    assert visit["none"] == ""


def test_a_bundle_that_says_nothing_of_eyes(visit: dict[str, Any]) -> None:
    assert (
        "Nothing says where eyes go: the model saw the centre square." in visit["plain"]
        and visit["rings"] is True
    )
    assert "18" not in visit["plain"].split("years")[0], "and nothing is decided"


@pytest.mark.parametrize("state", ["asked", "answered", "answered dark", "unjudged"])
def test_accessible(visit: dict[str, Any], state: str) -> None:
    assert visit[state] == []


def test_nothing_is_wider_than_the_screen(visit: dict[str, Any]) -> None:
    assert {visit["wide"], visit["narrow"]} == {0} and not any(
        "Uncaught" in line for line in visit["errors"]
    ), visit["errors"]
