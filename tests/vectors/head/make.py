"""``python -m tests.vectors.head.make`` writes the run of a small head that every language's
implementation repeats.

``start.safetensors`` is a head that ten made-up pictures are in, ``steps.json`` what is added and
removed with the commitment of each, ``end.safetensors`` what must be left, byte for byte in its
tensors, and the JSON's last part what it then answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from unplug.sdk.drawing.inference import DeviceHead, HeadFacts, load_head

HERE = Path(__file__).parent
CHANNELS, FEATURES, GROUPS = 6, 8, 3
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


if __name__ == "__main__":
    main()
