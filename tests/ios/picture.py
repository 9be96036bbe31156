"""``python -m tests.ios.picture FILES OUT``: what Python draws with a folder of ONNX files, for
Swift to draw again.

FILES is of ``unplug export small face_landmark --to onnx --precision fp32 --out FILES``. OUT gets
`expected.json` and raw float32 beside it; ``ios_demo/check`` draws the same where
UNPLUG_IOS_PICTURE names OUT, and prints the decibels between both.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from unplug.sdk.drawing.conditions import Steering, draw_conditions
from unplug.sdk.drawing.device import Words, draw, load_pipeline

ORDERS = (
    {
        "prompt": "a portrait of a child, smiling, red bob, mint dots background",
        "seed": 0,
        "plugin": None,
    },
    {"prompt": "an elderly person", "seed": 4, "plugin": "face_landmark"},
)
ROOT = Path(__file__).parents[2]


def main(files: Path, out: Path) -> None:
    """Draws and writes."""
    out.mkdir(parents=True, exist_ok=True)
    pipeline = load_pipeline(files)
    steering = Steering(plugin="face_landmark", image=ROOT / "examples" / "face_landmark.png")
    (condition_HWC,) = draw_conditions([steering], ["face_landmark"], pipeline.image_size)
    (out / "condition.rgb").write_bytes(condition_HWC.tobytes())
    told = []
    for number, order in enumerate(ORDERS):
        made = draw(
            files,
            Words(prompt=str(order["prompt"])),
            seeds=(int(str(order["seed"])),),
            steerings=[steering] if order["plugin"] else [],
            target="onnx",
            precision="fp32",
        )
        (out / f"{number}-latent.f32").write_bytes(
            np.ascontiguousarray(made.latents[0], "<f4").tobytes()
        )
        (out / f"{number}-decoded.f32").write_bytes(
            np.ascontiguousarray(made.decoded[0], "<f4").tobytes()
        )
        (out / f"{number}.rgb").write_bytes(made.images[0].tobytes())
        told.append({**order, "seed": str(order["seed"])})
    text = json.dumps({"files": str(files.resolve()), "orders": told}, indent=1)
    (out / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
