"""A generator of dummy files, which can be judged without a converter, and networks that are
formulas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.vectors.pipeline.make import SCHEDULES, read_tokenizer

from unplug.core import Array, IOSpec, TensorSpec, sha256_file
from unplug.export import Card
from unplug.export.artifact import write_card
from unplug.sdk.drawing.device import (
    PIPELINE,
    LoraSlots,
    Part,
    PartFile,
    Pipeline,
    PipelineDefaults,
    PluginPart,
    Slot,
    write_variant,
)

TOKENIZER = read_tokenizer()
TOKENS, WIDTH, SIDE, LATENT = TOKENIZER.length, 4, 16, (2, 2, 2)
RESIDUAL = "adapter_res_samples_00"
PROMPTED = 0.1
"""How far the toy's UNet is moved by the sum of a prompt's states."""


def tensor(name: str, *shape: int, layout: str = "NCHW", **more: object) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, layout=layout, **more)  # type: ignore[arg-type]


ids = tensor(
    "input_ids", 1, TOKENS, layout="NT", dtype="int32", range=(0.0, len(TOKENIZER.vocabulary) - 1.0)
)
states = [
    tensor(name, 1, TOKENS, WIDTH, layout="NTC")
    for name in ("hidden_states", "encoder_hidden_states", "negative_hidden_states")
]
residual = tensor(RESIDUAL, 1, 3, 2, 2)
SPECS = {
    "text_encoder": IOSpec(inputs=(ids,), outputs=(states[0],)),
    "unet": IOSpec(
        inputs=(
            tensor("sample", 1, *LATENT),
            tensor("timestep", 1, layout="N"),
            *states[1:],
            residual,
        ),
        outputs=(tensor("noise_pred", 1, *LATENT), tensor("noise_pred_negative", 1, *LATENT)),
    ),
    "decoder": IOSpec(
        inputs=(tensor("latents", 1, *LATENT),),
        outputs=(tensor("image", 1, 3, SIDE, SIDE, range=(0.0, 1.0)),),
    ),
    "plugins.canny": IOSpec(
        inputs=(tensor("condition", 1, 3, SIDE, SIDE, range=(-1.0, 1.0)),), outputs=(residual,)
    ),
}
TYPES = {
    "text_encoder": "text_encoder",
    "unet": "guided_unet",
    "decoder": "decoder",
    "plugins.canny": "plugin",
    "mark-reader": "mark_reader",
}


SLOTS = LoraSlots(rank=2, slots=(Slot(layer="mix", fan_in=2, fan_out=2),))
"""Where the toy has them: an update of the mixing of its latent's channels, which is none in the
bare base.
"""


def dummy(folder: Path, name: str, spec: IOSpec) -> Part:
    """A file of a few bytes with its card."""
    place = name.removeprefix("plugins.")
    path = folder / place / f"{TYPES[name]}.fp32.tflite"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f"file of {name}".encode())
    digest, size = sha256_file(path), path.stat().st_size
    card = Card(
        target="litert",
        precision="fp32",
        file=path.name,
        sha256=digest,
        bytes=size,
        model_type=TYPES[name],
        iospec=spec,
        config={},
        checkpoint_sha256="0" * 64,
        flops=None,
        versions={},
        seconds=0.0,
        prepare_seconds=0.0,
    )
    write_card(path, card)
    file = PartFile(
        target="litert", precision="fp32", file=f"{place}/{path.name}", sha256=digest, bytes=size
    )
    return Part(model_type=TYPES[name], iospec=spec, files=(file,))


def toy(
    folder: Path,
    variants: Mapping[str, tuple[Array, PipelineDefaults | None]] | None = None,
    *,
    guided: bool = True,
) -> Pipeline:
    """The whole folder, as `unplug export` would leave one; with variants, each its rows and
    defaults, its UNet has slots.
    """
    specs = dict(SPECS)
    if not guided:
        unet = SPECS["unet"]
        specs["unet"] = IOSpec(
            inputs=tuple(item for item in unet.inputs if item.name != "negative_hidden_states"),
            outputs=unet.outputs[:1],
        )
    if variants is not None:
        more = tensor("lora", 1, SLOTS.rank, SLOTS.width, layout="NTC")
        specs["unet"] = replace(specs["unet"], inputs=(*specs["unet"].inputs, more))
    parts = {name: dummy(folder, name, specs[name]) for name in SPECS}
    pipeline = Pipeline(
        name="toy",
        image_size=SIDE,
        latent_shape=LATENT,
        tokenizer=TOKENIZER,
        schedule=SCHEDULES["epsilon"],
        text_encoder=parts["text_encoder"],
        unet=parts["unet"],
        decoder=parts["decoder"],
        plugins={"canny": PluginPart(condition="canny", part=parts["plugins.canny"])},
        residuals=(RESIDUAL,),
        scaling_factor=0.5,
        shift_factor=0.0,
        defaults=PipelineDefaults(steps=4, guidance=3.0 if guided else 1.0, solver="ddim"),
        versions={},
        git_revision=None,
        lora=None if variants is None else SLOTS,
        variants={
            name: write_variant(folder, name, *held) for name, held in (variants or {}).items()
        },
    )
    pipeline.save(folder)
    return pipeline


def networks() -> dict[str, Any]:
    """Formulas in the parts' place: words, timestep and residuals all move the prediction."""

    def text(given: Mapping[str, Array]) -> dict[str, Array]:
        return {
            "hidden_states": np.repeat(given["input_ids"][:, :, None], WIDTH, 2).astype(np.float32)
            / 1000
        }

    def unet(given: Mapping[str, Array]) -> dict[str, Array]:
        moved = (
            given["sample"] * np.float32(0.5)
            + given["timestep"][0] / np.float32(1e4)
            + given[RESIDUAL].mean()
        )
        if "lora" in given:
            first_Ri, second_Ro = given["lora"][0, :, :2], given["lora"][0, :, 2:]
            moved = moved + np.einsum("ro,ri,nihw->nohw", second_Ro, first_Ri, given["sample"])
        asked = {
            "noise_pred": "encoder_hidden_states",
            "noise_pred_negative": "negative_hidden_states",
        }
        return {
            out: (moved + np.tanh(given[name].mean() * PROMPTED)).astype(np.float32)
            for out, name in asked.items()
            if name in given
        }

    def decoder(given: Mapping[str, Array]) -> dict[str, Array]:
        wide = given["latents"].repeat(SIDE // 2, 2).repeat(SIDE // 2, 3).mean(1, keepdims=True)
        return {"image": (1 / (1 + np.exp(-wide))).repeat(3, 1).astype(np.float32)}

    def canny(given: Mapping[str, Array]) -> dict[str, Array]:
        return {RESIDUAL: np.full((1, 3, 2, 2), given["condition"].mean(), np.float32)}

    return {"text_encoder": text, "unet": unet, "decoder": decoder, "plugins.canny": canny}


def with_schedule(pipeline: Pipeline, name: str) -> Pipeline:
    """The toy with another schedule of the vectors."""
    return replace(pipeline, schedule=SCHEDULES[name])


def change(folder: Path, place: str, value: object) -> None:
    """Puts a value at a place of a folder's ``pipeline.json``, its keys and numbers parted by
    spaces; a function makes it of what is there.
    """
    raw: dict[str, Any] = {"": json.loads((folder / PIPELINE).read_text())}
    spot: Any = raw
    *way, last = ["", *place.split()]
    for step in way:
        spot = spot[int(step) if isinstance(spot, list) else step]
    spot[last] = value(spot[last]) if callable(value) else value
    (folder / PIPELINE).write_text(json.dumps(raw[""]))


def gone(held: Any, which: str | int) -> Any:
    """A list or an object of JSON without one of its parts."""
    if isinstance(held, list):
        return [part for number, part in enumerate(held) if number != which]
    return {name: part for name, part in held.items() if name != which}
