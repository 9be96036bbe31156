"""A photograph's way to a decision on the page: its eyes are tapped, or found by the browser; else
there is no answer.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from unplug.sdk.drawing.inference import Frame, align

from .conftest import Browser, zipped

pytestmark = pytest.mark.nightly

BUNDLES = Path(__file__).parents[2] / "vectors" / "app"
WIDTH, HEIGHT, SIDE = 300, 200, 16
EYES = ((120.0, 80.0), (180.0, 92.0))
"""Of the photograph, left and right."""
SEEN = (
    "evaluate Array.from(document.querySelector('.picture').getContext('2d').getImageData(0, 0, "
    "16, 16).data)"
)
EYE = "({{type: 'eye', locations: [{{x: {0}, y: {1}}}]}})"
FACE = (
    f"{{landmarks: [{EYE.format(*EYES[1])}, {{type: 'mouth', locations: []}}, "
    f"{EYE.format(*EYES[0])}]}}"
)


def detector(faces: str) -> str:
    """A browser that finds faces, as the Shape Detection API has it."""
    finder = f"class {{ async detect() {{ return {faces}; }} }}"
    return f"evaluate void (globalThis.FaceDetector = {finder})"


def tapped(x: float, y: float) -> str:
    return f"stroke .eyes canvas | [[{x / WIDTH}, {y / HEIGHT}]]"


def archive(name: str, out: Path) -> Path:
    files = json.loads((BUNDLES / name).read_text(encoding="utf-8"))["files"]
    return zipped({path: base64.b64decode(raw) for path, raw in files.items()}, out)


def photograph() -> NDArray[np.uint8]:
    """Slopes: whatever is shifted, scaled or turned has other colours."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    colours = [255 * x / WIDTH, 255 * y / HEIGHT, 255 - 255 * x / WIDTH]
    return np.stack(colours, axis=2).astype(np.uint8)


@pytest.fixture(scope="session")
def visit(
    browser: Browser, static_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the steps of one visit found, by name."""
    folder = tmp_path_factory.mktemp("web-eyes")
    Image.fromarray(photograph()).save(folder / "face.png")
    Image.new("RGB", (WIDTH, HEIGHT), (3, 3, 3)).save(folder / "dark.png")
    aligned = archive("aligned.json", folder / "aligned.zip")
    plain = archive("bundle.json", folder / "plain.zip")
    chosen = f"files #demo-file | {folder}/face.png"
    left, right = tapped(*EYES[0]), tapped(*EYES[1])
    # the nearer ring follows
    nearer, near, nearest = (tapped(x, EYES[1][1]) for x in (140.0, 155.0, 166.0))
    script = f"""
        open
        files #pick-files | {aligned}
        wait #tab-demo:not([hidden])
        click #tab-demo
        {chosen}
        until Tap the middle of each eye
        before <- text .answer
        axe asked <- axe
        {right}
        until Now the other eye.
        one eye <- text .answer
        {left}
        wait #decision
        decision <- text .decision
        seen <- {SEEN}
        axe answered <- axe
        scheme dark
        axe answered dark <- axe
        wide <- overflow
        size 320 | 640
        narrow <- overflow
        evaluate document.querySelector('.ring').focus()
        press ArrowLeft
        wait #decision
        moved <- {SEEN}
        {nearer}
        {near}
        {nearest}
        wait #unjudged
        small <- text .answer
        files #demo-file | {folder}/dark.png
        until Tap the middle
        {left}
        {right}
        wait #unjudged
        dark <- text .answer
        axe unjudged <- axe
        {detector("[{}, {}]")}
        {chosen}
        wait #unjudged
        two <- text .answer
        {detector("[]")}
        {chosen}
        until Tap the middle
        none <- text .answer
        {detector(f"[{FACE}]")}
        {chosen}
        wait #decision
        found <- {SEEN}
        click #demo-camera
        until Look into the camera
        click #demo-camera
        wait #decision, #unjudged
        open
        files #pick-files | {plain}
        wait #tab-demo:not([hidden])
        click #tab-demo
        {chosen}
        wait #age
        plain <- text .answer
        member <- text #member
        choices <- texts #demo-model option
        rings <- evaluate document.querySelector('.eyes').hidden
    """
    return browser(static_url, script)


def apart(rgba: list[int]) -> float:
    """Mean distance of what the model saw to what Python puts in the frame."""
    seen = np.array(rgba).reshape(SIDE, SIDE, 4)[..., :3]
    return float(np.abs(seen - align(photograph(), *EYES, SIDE, Frame()).astype(int)).mean())


def test_two_taps_put_the_face_in_its_frame(visit: dict[str, Any]) -> None:
    assert (visit["before"], visit["one eye"]) == ("", ""), "nothing before both eyes are known"
    assert apart(visit["seen"]) < 1.5 < apart(visit["moved"])
    decision = visit["decision"]
    assert decision.startswith(("Under 18", "Over 18")), decision
    assert (
        "at most 1 % of minors are called over 18, and at most 5 % of adults under 18" in decision
    )


def test_eyes_that_the_browser_finds(visit: dict[str, Any]) -> None:
    assert apart(visit["found"]) < 0.01


def test_who_cannot_be_judged_gets_the_reason_alone(visit: dict[str, Any]) -> None:
    fix = "Choose one of a single face, near and well lit."
    assert visit["small"].startswith("Photograph: the face is too small: ")
    assert "16 are needed" in visit["small"] and visit["none"] == ""
    assert visit["dark"] == f"Photograph: the face is too dark. {fix}"
    assert visit["two"] == f"Photograph: 2 faces found. {fix}"


def test_a_bundle_that_says_nothing_of_eyes(visit: dict[str, Any]) -> None:
    assert (
        "This bundle does not say where the eyes belong, so the model saw the centre square."
        in visit["plain"]
    )
    assert visit["rings"] is True
    told = "The member nano answers: the best of its family that takes at most 33 ms."
    assert visit["member"] == told
    assert {file.split(" ")[0] for file in visit["choices"]} == {"nano/age.fp32.onnx"}
    assert "18" not in visit["plain"].split("years")[0], "and nothing is decided"


def test_it_is_accessible_and_fits(visit: dict[str, Any]) -> None:
    states = {name: value for name, value in visit.items() if name.startswith("axe ")}
    assert len(states) == 4 and not any(states.values()), states
    assert {visit["wide"], visit["narrow"]} == {0}
