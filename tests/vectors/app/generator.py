"""``python -m tests.vectors.app.generator``: a whole generator of tiny ONNX files, and pictures
that Python draws with it.

``generator/`` is the folder as `unplug export` leaves one, ``variants/`` one whose UNet has slots
for LoRA weights, with two variants and two packs, ``unguided/`` one whose UNet is asked about the prompt alone;
``pictures.json`` of each has orders, and of each picture the latent and what the decoder gave. A
port draws with the same files and ONNX Runtime, and must come within the decibels there. ``python
-m tests.vectors.app.generator FOLDER FILE`` draws with another folder's ONNX files instead, say the
base's that ships.
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.vectors.pipeline.make import SCHEDULES

from unplug.core import sha256_file
from unplug.sdk.drawing.conditions import Steering
from unplug.sdk.drawing.device import (
    Part,
    PartFile,
    Pipeline,
    PipelineDefaults,
    PluginPart,
    Words,
    generate,
    load_pipeline,
    read_variant,
    stack_rows,
    variants_for,
    write_variant,
)

from .networks import LATENT, RESIDUAL, SIDE, SLOTS, SPECS, TOKENIZER, TYPES, write

HERE = Path(__file__).parent
FOLDERS = {"generator": "unet", "variants": "slotted_unet", "unguided": "unguided_unet"}
"""Folder to its UNet."""
MIN_DB = 100.0
"""Of pictures and latents: ONNX Runtime's builds for Python and the JVM may add numbers up in
another order.
"""
ORDERS: tuple[dict[str, Any], ...] = (
    {"prompt": "a child", "seed": 0},
    {
        "prompt": "an elderly person, smiling",
        "negative": "a hat",
        "seed": 7,
        "steps": 6,
        "guidance": 5.0,
        "solver": "dpm++",
    },
    {"prompt": "", "seed": 2**64 - 1, "steps": 1, "guidance": 1.0},
    {"prompt": "child " * 60, "seed": 3, "strength": 1.0},
    {"prompt": "caf\u00e9 \u65e5\u672c\u8a9e 42", "seed": 3, "strength": 0.25, "solver": "dpm++"},
)
VARIANT_ORDERS: tuple[dict[str, Any], ...] = (
    {"prompt": "a child", "seed": 0},
    {"prompt": "a child", "seed": 0, "variant": "few-steps"},
    {"prompt": "a child", "seed": 0, "variant": "style", "strength": 0.5},
    {
        "prompt": "an elderly person",
        "seed": 7,
        "variant": "few-steps",
        "steps": 5,
        "guidance": 2.0,
        "solver": "ddim",
    },
    {"prompt": "a child, Eye-Patches", "seed": 0},
    {"prompt": "clown noses and an eye patch", "seed": 0, "strength": 0.5},
    {"prompt": "an eye patch", "seed": 7, "variant": "style"},
    {"prompt": "a child", "negative": "an eye patch", "seed": 0},
)
"""A picture of the bare base first; what an order does not say is the variant's own. Then packs that
prompts ask for: one, both, one behind a variant's rows; and one that is only steered away from.
"""
UNGUIDED_ORDERS: tuple[dict[str, Any], ...] = (
    {"prompt": "a child", "seed": 0},
    {"prompt": "an elderly person", "seed": 7, "strength": 1.0, "steps": 6, "solver": "dpm++"},
)
ROWS = {
    "few-steps": (
        np.array([[0.5, -0.25, 0.75, 1.0]], np.float32),
        PipelineDefaults(steps=2, guidance=1.0, solver="dpm++"),
    ),
    "style": (np.array([[1, 0.5, 0, -1], [0.25, -1, 0.5, 0]], np.float32), None),
    "eye-patch": (np.array([[0.5, 1, -0.75, 0.25]], np.float32), None, "eye patch"),
    "clown-nose": (np.array([[-1, 0.25, 0.5, 0.5]], np.float32), None, "clown nose"),
}


def condition(side: int = SIDE) -> NDArray[np.uint8]:
    """Lines, and a slope in one channel."""
    found_HWC = np.zeros((side, side, 3), np.uint8)
    found_HWC[3:5] = 255
    found_HWC[8, :, 1] = np.arange(side) * 16
    return found_HWC


def write_pipeline(folder: Path, unet: str = "unet") -> None:
    """The folder's networks, cards and ``pipeline.json``; with slots also its variants."""
    parts, slotted = {}, unet == "slotted_unet"
    for part in ("text_encoder", "unet", "decoder", "plugins.canny"):
        name = unet if part == "unet" else part
        path = write(folder, name, part.removeprefix("plugins."))
        file = PartFile(
            target="onnx",
            precision="fp32",
            file=path.relative_to(folder).as_posix(),
            sha256=sha256_file(path),
            bytes=path.stat().st_size,
        )
        parts[part] = Part(model_type=TYPES[name], iospec=SPECS[name], files=(file,))
    Pipeline(
        name="tiny",
        image_size=SIDE,
        latent_shape=LATENT,
        tokenizer=TOKENIZER,
        schedule=SCHEDULES["v_prediction, zero terminal SNR"],
        text_encoder=parts["text_encoder"],
        unet=parts["unet"],
        decoder=parts["decoder"],
        plugins={"canny": PluginPart(condition="canny", part=parts["plugins.canny"])},
        residuals=(RESIDUAL,),
        scaling_factor=0.5,
        shift_factor=0.0,
        defaults=PipelineDefaults(
            steps=4, guidance=1.0 if unet == "unguided_unet" else 3.0, solver="ddim"
        ),
        versions={},
        git_revision=None,
        lora=SLOTS if slotted else None,
        variants={name: write_variant(folder, name, *held) for name, held in ROWS.items()}
        if slotted
        else {},
    ).save(folder)


def pictures(folder: Path) -> dict[str, Any]:
    """What Python draws with the folder's files."""
    import onnxruntime

    pipeline = load_pipeline(folder)
    chosen = {
        name: next(
            item.file for item in part.files if (item.target, item.precision) == ("onnx", "fp32")
        )
        for name, part in pipeline.parts().items()
    }
    sessions = {
        name: onnxruntime.InferenceSession(str(folder / file)) for name, file in chosen.items()
    }
    networks = {
        name: lambda given, own=session: dict(
            zip([item.name for item in own.get_outputs()], own.run(None, dict(given)), strict=True)
        )
        for name, session in sessions.items()
    }
    rows = []
    for order in (
        UNGUIDED_ORDERS
        if not pipeline.guided
        else ORDERS
        if pipeline.lora is None
        else VARIANT_ORDERS
    ):
        variant = order.get("variant")
        usual = {} if variant is None else asdict(pipeline.defaults_of(variant))
        words = Words(
            **(
                usual
                | {
                    key: value
                    for key, value in order.items()
                    if key not in ("seed", "strength", "variant")
                }
            )
        )
        named = variants_for(pipeline, words.prompt, variant)
        lora_RK = pipeline.lora and stack_rows(
            pipeline.lora, {name: read_variant(pipeline, folder, name) for name in named}
        )
        steers = (
            (
                Steering(
                    plugin="canny", image=condition(pipeline.image_size), strength=order["strength"]
                ),
            )
            if "strength" in order
            else ()
        )
        made = generate(
            pipeline, networks, words, seed=order["seed"], steerings=steers, lora_RK=lora_RK
        )
        rows.append(
            {
                **order,
                "seed": str(order["seed"]),
                "tokens": words.read(pipeline)[0].tokens,
                "latent": floats(made.latent),
                "decoded": floats(made.decoded),
            }
        )
    return {
        "min_db": MIN_DB,
        "condition": base64.b64encode(condition(pipeline.image_size).tobytes()).decode(),
        "orders": rows,
    }


def floats(array: NDArray[np.float32]) -> str:
    """Little-endian float32, row by row, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def main() -> None:
    """Writes the folders."""
    for name, unet in FOLDERS.items():
        folder = HERE / name
        write_pipeline(folder, unet)
        (folder / "pictures.json").write_text(
            json.dumps(pictures(folder), indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        Path(sys.argv[2]).write_text(json.dumps(pictures(Path(sys.argv[1]))), encoding="utf-8")
    else:
        main()
