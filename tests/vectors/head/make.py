"""``python -m tests.vectors.head.make`` writes the run of a small head that every language's
implementation repeats.

``start.safetensors`` is a head that ten made-up pictures are in, ``steps.json`` what is added and
removed with the commitment of each, ``end.safetensors`` what must be left, byte for byte in its
tensors, and the JSON's last part what it then answers. ``own.json`` is its owner's picture, that of
``app/bundle.json``, through the tiny trunk beside it, and what the head says of it before and after
it was added.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.vectors.app.bundle import PICTURE, run
from tests.vectors.app.make import noise
from tests.vectors.app.networks import SIDE, SPECS, write

from unplug.sdk.drawing.conditions import scaled
from unplug.sdk.drawing.inference import DeviceHead, HeadFacts, load_head
from unplug.sdk.learning.data import square

HERE = Path(__file__).parent
CHANNELS, FEATURES, GROUPS = 6, 8, 3
AGE = 31.0
TOLERANCE = 1e-9
"""Of weights and answers, relative to the largest: two solvers of the same well-conditioned
equations in float64.
"""


def main() -> None:
    """Draws, adds, removes, writes."""
    rng = np.random.default_rng(20261124)
    coarse = np.round(rng.normal(size=(FEATURES, CHANNELS + 1)) * 2**12) / 2**12
    size = FEATURES + GROUPS + 2
    empty = DeviceHead(
        facts=HeadFacts(
            trunk_sha256="0" * 64,
            grid=2.0**-9,
            ridge=0.03,
            scale=2.5,
            edges=(0.0, 20.0, 50.0, 100.0),
        ),
        lift_DC=coarse[:, :-1],
        offset_D=coarse[:, -1],
        center_G=np.array([10.0, 35.0, 70.0]),
        sums_KK=np.zeros((size, size), np.int64),
        committed=frozenset(),
    )
    pictures = [
        (f"picture-{number}", np.abs(rng.normal(size=CHANNELS)), float(rng.integers(1, 90)))
        for number in range(14)
    ]
    head = empty
    for name, pooled_C, age in pictures[:10]:
        head = head.add(name, pooled_C, age)
    head.save(HERE / "start.safetensors")
    steps: list[dict[str, Any]] = []
    order = [
        ("add", 10),
        ("add", 11),
        ("remove", 3),
        ("add", 12),
        ("remove", 10),
        ("remove", 0),
        ("add", 13),
    ]
    for what, number in order:
        name, pooled_C, age = pictures[number]
        head = (head.add if what == "add" else head.remove)(name, pooled_C, age)
        digest = head.commitment(name, pooled_C, age).hex()
        steps.append(
            {
                "do": what,
                "name": name,
                "features": pooled_C.tolist(),
                "age": age,
                "commitment": digest,
            }
        )
    head.save(HERE / "end.safetensors")
    weight_KD, bias_K = load_head(HERE / "end.safetensors").weights()
    asked_NC = np.abs(rng.normal(size=(3, CHANNELS)))
    said = head.answer(asked_NC)
    facts = {
        "schema": "unplug-head-vectors/1",
        "tolerance": TOLERANCE,
        "steps": steps,
        "weights": weight_KD.tolist(),
        "bias": bias_K.tolist(),
        "asked": asked_NC.tolist(),
        "age_logits": said["age_logits"].tolist(),
        "expected_age": said["expected_age"].tolist(),
    }
    (HERE / "steps.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    trunk = write(HERE, "age-trunk", "", checkpoint=empty.facts.trunk_sha256)
    own = json.dumps(owned(trunk), indent=1)
    (HERE / "own.json").write_text(own + "\n", encoding="utf-8")


def owned(trunk: Path) -> dict[str, Any]:
    """What the first head says of its owner's picture, without it and with it."""
    seen = scaled(
        square(Image.fromarray(noise(*PICTURE)), SIDE)[None], SPECS["age-trunk"].inputs[0]
    )
    pooled_C, start = run(trunk, seen)["features"][0], load_head(HERE / "start.safetensors")
    before, now = (
        float(head.answer(pooled_C[None])["expected_age"][0, 0])
        for head in (start, start.add("me-1", pooled_C, AGE))
    )
    return {"features": pooled_C.tolist(), "age": AGE, "before": before, "now": now}


if __name__ == "__main__":
    main()
