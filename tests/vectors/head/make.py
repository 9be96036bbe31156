"""``python -m tests.vectors.head.make`` writes the runs of two small heads that every language's
implementation repeats: of ages here, of classes in ``classes``.

``start.safetensors`` is a head that ten made-up pictures are in, ``steps.json`` what is added and
removed with the commitment of each, ``end.safetensors`` what must be left, byte for byte in its
tensors, and the JSON's last part what it then answers. ``own.json`` is its owner's picture, that of
``app/bundle.json``, through the tiny trunk beside it, and what the head says of it before and after
it was added. ``limits.json`` has how many groups a head may have, and changes to what a first head
says of itself that every reader refuses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.vectors.app.bundle import PICTURE, run
from tests.vectors.app.make import noise
from tests.vectors.app.networks import CLASSES, SIDE, SPECS, write

from unplug.core import Array
from unplug.sdk.drawing.conditions import scaled
from unplug.sdk.drawing.inference import DeviceHead, HeadFacts, class_rows, load_head
from unplug.sdk.drawing.inference.head import MAX_GROUPS
from unplug.sdk.learning.data import square

HERE = Path(__file__).parent
CHANNELS, FEATURES = 6, 8
SETTINGS: dict[str, Any] = {"trunk_sha256": "0" * 64, "grid": 2.0**-9, "ridge": 0.03, "scale": 2.5}
KINDS: dict[str, dict[str, Any]] = {
    ".": {"edges": (0.0, 20.0, 50.0, 100.0)},
    "classes": {"classes": CLASSES},
}
"""Folders, and what tells their heads apart."""
SEEDS = {".": 20261124, "classes": 20261126}
TRUTHS = {".": 31.0, "classes": 2.0}
"""Of the owner's picture; with these seeds it changes the answer."""
ORDER = "add 10, add 11, remove 3, add 12, remove 10, remove 0, add 13"
TOLERANCE = 1e-9
"""Of weights and answers, relative to the largest: two solvers of the same well-conditioned
equations in float64.
"""
REFUSED: dict[str, list[dict[str, Any]]] = {
    ".": [
        {"edges": None},
        {"edges": [0.0, 50.0]},
        {"edges": [0.0, 50.0, 20.0, 100.0]},
        {"classes": []},
        {"classes": ["cat", "dog", "owl"]},
        {"edges": None, "classes": ["cat", "dog", "owl"]},
    ],
    "classes": [
        {"classes": None},
        {"classes": []},
        {"classes": ["cat"]},
        {"classes": ["cat", "dog", "owl"]},
        {"classes": ["cat", "dog", "owl", "cat"]},
        {"classes": ["cat", "dog", "owl", ""]},
        {"classes": ["cat", "dog", "owl", "x" * 101]},
        {"classes": ["cat", "dog", "owl", 4]},
        {"classes": None, "edges": [0.0, 20.0, 40.0, 60.0, 80.0]},
        {"edges": []},
        {"edges": [0.0, 20.0, 40.0, 60.0, 80.0]},
        {"code": "x"},
        {"grid": 1e-13},
        {"grid": 1025.0},
        {"ridge": 1e-10},
        {"ridge": 1e7},
        {"scale": 1e-7},
        {"scale": 1e7},
    ],
}
"""Changes to what a head says of itself; null: it does not say it."""


def main() -> None:
    """Draws, adds, removes, writes."""
    trunk = write(HERE, "age-trunk", "", checkpoint=SETTINGS["trunk_sha256"])
    for kind, seed in SEEDS.items():
        rng, folder = np.random.default_rng(seed), HERE / kind
        folder.mkdir(exist_ok=True)
        walk(rng, empty(rng, **KINDS[kind]), folder)
        written(folder / "own.json", owned(trunk, folder))
    limits = {"schema": "unplug-head-limits/1", "groups": MAX_GROUPS, "refused": REFUSED}
    written(HERE / "limits.json", limits)


def empty(rng: np.random.Generator, **kind: Sequence[Any]) -> DeviceHead:
    """A head that nobody is in."""
    coarse = np.round(rng.normal(size=(FEATURES, CHANNELS + 1)) * 2**12) / 2**12
    facts = HeadFacts(**SETTINGS, **kind)
    centers = np.zeros(len(CLASSES)) if facts.classes else np.array([10.0, 35.0, 70.0])
    size = FEATURES + 1 + len(centers) + (not facts.classes)
    return DeviceHead(
        facts=facts,
        lift_DC=coarse[:, :-1],
        offset_D=coarse[:, -1],
        center_G=centers,
        sums_KK=np.zeros((size, size), np.int64),
        committed=frozenset(),
    )


def walk(rng: np.random.Generator, head: DeviceHead, folder: Path) -> None:
    """Writes the start, the steps, the end and its answers."""
    truths = (0, len(CLASSES)) if head.facts.classes else (1, 90)
    pictures = [
        (f"picture-{number}", np.abs(rng.normal(size=CHANNELS)), float(rng.integers(*truths)))
        for number in range(14)
    ]
    for picture in pictures[:10]:
        head = head.add(*picture)
    head.save(folder / "start.safetensors")
    steps = []
    for what, number in (step.split() for step in ORDER.split(", ")):
        name, pooled_C, truth = picture = pictures[int(number)]
        head = (head.add if what == "add" else head.remove)(*picture)
        step = {"do": what, "name": name, "features": pooled_C.tolist(), "truth": truth}
        steps.append(step | {"commitment": head.commitment(*picture).hex()})
    head.save(folder / "end.safetensors")
    weight_KD, bias_K = load_head(folder / "end.safetensors").weights()
    asked_NC: Array = np.abs(rng.normal(size=(3, CHANNELS)))
    facts = {
        "schema": "unplug-head-vectors/1",
        "tolerance": TOLERANCE,
        "steps": steps,
        "weights": weight_KD.tolist(),
        "bias": bias_K.tolist(),
        "asked": asked_NC.tolist(),
    }
    said = {name: value.tolist() for name, value in head.answer(asked_NC).items()}
    written(folder / "steps.json", facts | said)


def owned(trunk: Path, folder: Path) -> dict[str, Any]:
    """What the first head says of its owner's picture, without it and with it."""
    seen = scaled(
        square(Image.fromarray(noise(*PICTURE)), SIDE)[None], SPECS["age-trunk"].inputs[0]
    )
    pooled_C, start = run(trunk, seen)["features"][0], load_head(folder / "start.safetensors")
    truth = TRUTHS["classes" if start.facts.classes else "."]
    told = {"features": pooled_C.tolist(), "truth": truth}
    for when, head in (("before", start), ("now", start.add("me-1", pooled_C, truth))):
        answers = head.answer(pooled_C[None])
        if start.facts.classes:
            row = class_rows(answers["logits"], start.facts.classes)[0]
            told |= {when: row["probability"], f"label_{when}": row["label"]}
        else:
            told[when] = float(answers["expected_age"][0, 0])
    return told


def written(path: Path, value: dict[str, Any]) -> None:
    """JSON, a line a value."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
