"""``python -m tests.vectors.loop.make``: whole pictures of a toy generator whose networks are
formulas.

Every language can write them. ``pipeline.json`` is the toy's. ``pictures.json`` has orders with the
latent, the decoder's numbers and the bytes that come of them. The formulas stand in
``tests/sdk/drawing/device/toy.py``: hidden states are ids / 1000, noise = z / 2 + t / 10000 +
mean(residual) + tanh(mean(states) / 10); the image is the sigmoid of the latent's mean over
channels, each number a square of 8 pixels; the plugin gives the mean of its condition.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tests.sdk.drawing.device.toy import SIDE, networks, toy

from unplug.sdk.drawing.conditions import Steering
from unplug.sdk.drawing.device import Words, generate

HERE = Path(__file__).parent
TOLERANCE = 1e-5
"""Of latents, relative to the largest: means are added up in another order elsewhere."""
ORDERS: tuple[dict[str, Any], ...] = (
    {"prompt": "a child", "seed": 0},
    {
        "prompt": "an elderly person, smiling",
        "negative": "sad",
        "seed": 7,
        "steps": 6,
        "guidance": 5.0,
        "solver": "dpm++",
    },
    {"prompt": "", "seed": 2**64 - 1, "steps": 1, "guidance": 1.0},
    {"prompt": "child " * 60, "seed": 3, "strength": 1.0},
    {"prompt": "a child", "seed": 3, "strength": 0.25, "solver": "dpm++"},
)


def condition() -> Any:
    """Two rows of white and a slope."""
    drawn = np.zeros((SIDE, SIDE, 3), np.uint8)
    drawn[3:5] = 255
    drawn[8, :, 1] = np.arange(SIDE) * 16
    return drawn


def files() -> dict[str, str]:
    """File name to text."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = toy(Path(folder))
        text = (Path(folder) / "pipeline.json").read_text(encoding="utf-8")
    orders = []
    for order in ORDERS:
        asked = {key: value for key, value in order.items() if key not in ("seed", "strength")}
        words = Words(**asked)  # type: ignore[arg-type]
        steers = (
            (Steering(plugin="canny", image=condition(), strength=order["strength"]),)
            if "strength" in order
            else ()
        )
        made = generate(pipeline, networks(), words, seed=order["seed"], steerings=steers)
        orders.append(
            {
                **order,
                "seed": str(order["seed"]),
                "tokens": words.read(pipeline)[0].tokens,
                "latent": made.latent.ravel().astype(float).tolist(),
                "decoded": made.decoded[0, :, ::8, ::8].ravel().astype(float).tolist(),
                "rgb": base64.b64encode(made.image_HWC.tobytes()).decode(),
            }
        )
    told = {
        "tolerance": TOLERANCE,
        "condition": base64.b64encode(condition().tobytes()).decode(),
        "orders": orders,
    }
    return {"pipeline.json": text, "pictures.json": json.dumps(told, indent=0) + "\n"}


if __name__ == "__main__":
    for name, text in files().items():
        (Path(sys.argv[1]) if len(sys.argv) > 1 else HERE).joinpath(name).write_text(
            text, encoding="utf-8"
        )
