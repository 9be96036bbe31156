"""``python -m tests.vectors.pipeline.make``: the numbers that ports of the device loop are held to;
docs/formats.md says how.

``tokenizer.json`` is data, recorded from the first base that shipped; the rest is made from it and
from formulas. Floats of float32 are written with nine digits, which give the same float32 back.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.drawing.device import (
    SOLVERS,
    Schedule,
    Tokenizer,
    advance,
    asks_for,
    check_words,
    guided,
    normals,
    philox,
    sampling_table,
    to_pixels,
    uniforms,
    words,
)
from unplug.sdk.drawing.device.base_folder import noise_levels
from unplug.sdk.drawing.device.tokenizer import AddedToken

HERE = Path(__file__).parent
PROMPTS: tuple[dict[str, Any], ...] = (
    {"text": ""},
    {"text": "a portrait of a child, smiling, red bob, fair skin, mint dots background"},
    {"text": "  An ELDERLY\t person,\n white   curly hair "},
    {"text": "a xylophone of zirconium quarks"},
    {"text": "it's they're I'LL don't rock'n'roll"},
    {"text": "42 faces, 3.14 smiles & 100% joy!?..."},
    {"text": "\U0001f642 a \U0001f468\u200d\U0001f469\u200d\U0001f467 family \u2764\ufe0f"},
    {"text": "caf\u00e9 cafe\u0301 na\u00efve \u00c5ngstr\u00f6m \u212b"},
    {"text": "\u65e5\u672c\u8a9e \u0420\u0443\u0441\u0441\u043a\u0438\u0439 \u03a3\u0391\u03a3"},
    {"text": "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0967\u0968"},
    {"text": "\u00a0no\u3000break\u2003spaces\u0085and\u001cseparators"},
    {"text": "<|startoftext|>a<|endoftext|> written out"},
    {"text": "child " * 60},
    {"text": "a", "times": 10_000},
    {"text": "\U0001f642", "times": 5_000},
)
"""Golden prompts; ``times`` repeats the text, so that the file stays small."""
ADDED: tuple[dict[str, Any], ...] = (
    {"content": "<my-look>", "normalized": True},
    {"content": "<my-look>-two", "normalized": True},
    {"content": "wug", "single_word": True, "normalized": True},
    {"content": "<Left>", "lstrip": True},
    {"content": "<right>", "rstrip": True, "normalized": True},
    {"content": "\u00c4rger  X", "lstrip": True, "rstrip": True, "normalized": True},
    {"content": "Dot.", "single_word": True},
    {"content": "\U0001f431", "normalized": True},
    {"content": "<|startoftext|>", "normalized": True},
    {"content": "<|endoftext|>"},
    {"content": "!"},
)
"""Learned words and marks that are cut out of a text whole, with all flags that transformers knows.
"""
ADDED_PROMPTS = (
    "a child, <my-look> today",
    "a child, <MY-LOOK>",
    "x<my-look>y <my-look>-two<my-look>-tw",
    "<my- look>",
    "wug wugs a-wug _wug wug\u0301 \u24d0wug wug\u200d (WUG)\u00a0wug9 wug",
    "a  <Left>  b <left>",
    "\u3000<Left><Left>",
    "a <RIGHT> \t b <right>",
    "a \u00c4RGER \n X , a\u0308rger x<Left>",
    "Dot. aDot. dot. Dot.! Dot.a",
    "cat\U0001f431\U0001f431 cat \U0001f42f",
    "<|STARTOFTEXT|><|EndOfText|> <|endoftext|>",
    "hi!! !",
    "<|ENDOFTEXT|>:<|STARTOFTEXT|>.",
    "caf\u00e9 <my-loo\u212a>",
)
PACK_PROMPTS = (
    "a portrait of an adult, eye patch",
    "An EYE-PATCH!",
    "two eye_patches; ladies",
    "an eye, a patch",
    "eye\npatchwork",
    "eye\u2764\ufe0fpatch \u2764\ufe0f",
    "M\u00c4DELS in Stra\u00dfe",
    "ma\u0308del\u2026 STRASSE",
    "jose\u0301's \u212a9",
    "jose k9s",
    "\u039f\u0394\u039f\u03a3, \u0130zmir",
    "\u03bf\u03b4\u03bf\u03c2 i\u0307zmir",
    "u10007 glasses, boxes; 3.14",
    "u100071 glas bus gas",
    "\U0001f576\ufe0f \u65e5\u672c\u8a9e \u0661\u0662",
    "\u65e5\u672c \U0001d7d9\U0001d552s",
    "\u0301eye patch\u200d patch",
    "",
)
PACK_WORDS = (
    "eye patch",
    "Eye patches",
    "lady",
    "m\u00e4del",
    "stra\u00dfe",
    "Jos\u00e9",
    "k9",
    "\u03bf\u03b4\u03bf\u03c3",
    "\u0130ZMIR",
    "u10007",
    "glass",
    "box",
    "3 14",
    "gas",
    "bu",
    "\u65e5\u672c\u8a9e",
    "\u0661\u0662",
    "\U0001d7d9\U0001d552s",
)
PACK_NONE = (
    "",
    "!?",
    "\u2764\ufe0f",
    " eye patch",
    "eye  patch",
    "eye\tpatch",
    "eye\u00a0patch",
    "eye\u001cpatch",
    "eye patch\n",
    "a b c d e f g h i",
    "a-b-c-d-e-f-g-h-i",
    "\U0001d552" * 65,
)
"""Words of packs: those that hold, asked about in every prompt, and those that no record may have."""
STABLE = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
}
SCHEDULES = {
    "epsilon": Schedule(
        alphas_cumprod=tuple(noise_levels(HERE, STABLE).tolist()),
        final_alpha_cumprod=float(noise_levels(HERE, STABLE)[0]),
        prediction="epsilon",
        spacing="leading",
        steps_offset=1,
    ),
    "v_prediction, zero terminal SNR": Schedule(
        alphas_cumprod=tuple(
            noise_levels(HERE, {**STABLE, "rescale_betas_zero_snr": True}).tolist()
        ),
        final_alpha_cumprod=1.0,
        prediction="v_prediction",
        spacing="trailing",
        steps_offset=0,
        guidance="linear",
    ),
}
STEPS = (1, 2, 5, 16, 25)
RECORDED_STEPS, SHAPE, GUIDANCE, SEED = 5, (1, 2, 2, 3), 3.0, 7
TOLERANCES = {
    "tokens": "equal",
    "words": "equal",
    "uniforms": "equal",
    "normals": (
        "4 units in the last place of float32, or 1e-7 where that is more: logarithms and cosines "
        "differ by a bit"
    ),
    "pixels": "bytes equal; what plugins take within 1e-7",
    "timesteps": "equal",
    "table": "relative 2e-6, or absolute 1e-6 where that is more",
    "latents": "relative 1e-5 of the largest of each step",
}


def short(values: NDArray[Any]) -> list[Any]:
    """float32 with nine digits, in the shape that it has."""
    rounded = [float(f"{value:.9g}") for value in np.asarray(values, np.float32).ravel().tolist()]
    return list(np.array(rounded, np.float64).reshape(np.shape(values)).tolist())


def read_tokenizer() -> Tokenizer:
    """The recorded one."""
    raw = json.loads((HERE / "tokenizer.json").read_text(encoding="utf-8"))
    return Tokenizer(
        **{**raw, "vocabulary": tuple(raw["vocabulary"]), "merges": tuple(raw["merges"])}
    )


def added_tokenizer() -> Tokenizer:
    """The recorded one, with the tokens of `ADDED` behind it."""
    plain = read_tokenizer()
    vocabulary = tuple(dict.fromkeys((*plain.vocabulary, *(item["content"] for item in ADDED))))
    flags = [{name: value for name, value in item.items() if name != "content"} for item in ADDED]
    places = [vocabulary.index(item["content"]) for item in ADDED]
    added = tuple(AddedToken(id=place, **item) for place, item in zip(places, flags, strict=True))
    return replace(plain, vocabulary=vocabulary, added=added)


def tokens() -> dict[str, Any]:
    """Ids of the golden prompts."""
    bpe, rows = read_tokenizer(), []
    for prompt in PROMPTS:
        encoded = bpe.encode(prompt["text"] * prompt.get("times", 1))
        rows.append({**prompt, "ids": list(encoded.ids), "tokens": encoded.tokens})
    learned, beside = added_tokenizer(), []
    for text in ADDED_PROMPTS:
        encoded = learned.encode(text)
        beside.append(
            {
                "text": text,
                "ids": list(encoded.ids),
                "tokens": encoded.tokens,
                "spelled": list(encoded.spelled),
            }
        )
    more = {
        "words": learned.vocabulary[len(bpe.vocabulary) :],
        "added": [asdict(prompt) for prompt in learned.added],
    }
    return {"prompts": rows, "learned": {**more, "prompts": beside}}


def noise() -> dict[str, Any]:
    """Blocks of Philox, and words, uniforms and normals of some streams."""
    counters = ([0] * 4, [2**32 - 1] * 4, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344])
    keys = ((0, 0), (2**32 - 1, 2**32 - 1), (0xA4093822, 0x299F31D0))
    blocks = [
        {
            "counter": counter,
            "key": list(key),
            "words": philox(np.array([counter], np.uint32), key)[0].tolist(),
        }
        for counter, key in zip(counters, keys, strict=True)
    ]
    streams = [
        {
            "seed": str(seed),
            "stream": stream,
            "words": words(seed, stream, 16).tolist(),
            "uniforms": uniforms(words(seed, stream, 16)).tolist(),
            "normals": short(normals(seed, stream, 16)),
            "normal_2047": short(normals(seed, stream, 2048)[2047:]),
        }
        for seed, stream in ((0, 0), (7, 0), (7, 1), (2**31 - 1, 0), (2**64 - 1, 3))
    ]
    return {"philox": blocks, "streams": streams}


def tables() -> dict[str, Any]:
    """Timesteps and coefficients, by schedule, solver and number of steps."""
    rows = []
    for name, schedule in SCHEDULES.items():
        for solver in SOLVERS:
            for steps in STEPS:
                table = vars(sampling_table(schedule, steps, solver))
                rows.append(
                    {
                        "schedule": name,
                        "solver": solver,
                        "steps": steps,
                        "timestep": table["timestep_S"].tolist(),
                        **{
                            key.removesuffix("_S"): short(table[key])
                            for key in table
                            if key != "timestep_S"
                        },
                    }
                )
    return {"schedules": {name: vars(item) for name, item in SCHEDULES.items()}, "tables": rows}


def sampling() -> dict[str, Any]:
    """A recorded problem: what a network said at each step, and the latents that come of it."""
    count = int(np.prod(SHAPE))
    predictions = normals(SEED, 1, 2 * RECORDED_STEPS * count).reshape(RECORDED_STEPS, 2, *SHAPE)
    rows = []
    for name, schedule in SCHEDULES.items():
        for solver in SOLVERS:
            table = sampling_table(schedule, RECORDED_STEPS, solver)
            z, before, latents = (
                normals(SEED, 0, count).reshape(SHAPE),
                np.zeros(SHAPE, np.float32),
                [],
            )
            for step in range(RECORDED_STEPS):
                z, before = advance(
                    table,
                    step,
                    z,
                    guided(predictions[step, 0], predictions[step, 1], table.scale(step, GUIDANCE)),
                    before,
                )
                latents.append(short(z.ravel()))
            rows.append({"schedule": name, "solver": solver, "latents": latents})
    return {
        "shape": list(SHAPE),
        "seed": SEED,
        "guidance": GUIDANCE,
        "steps": RECORDED_STEPS,
        "runs": rows,
        "predictions": [short(item.ravel()) for item in predictions[:, 0]],
        "negative_predictions": [short(item.ravel()) for item in predictions[:, 1]],
    }


def pixels() -> dict[str, Any]:
    """Both ends: what a decoder gives, to bytes; and bytes of a condition, to what plugins of two
    ranges take.
    """
    decoded = np.array(
        [-0.1, 0.0, 0.5 / 255, 1.5 / 255, 2.5 / 255, 0.2, 0.5, 0.7, 0.999, 1.0, 1.5], np.float32
    )
    given = np.array([0, 1, 64, 127, 128, 254, 255], np.uint8)
    bytes_of = to_pixels(np.broadcast_to(decoded, (1, 3, 1, len(decoded))))[0, :, 0]
    unit = given.astype(np.float32) / np.float32(255.0)
    return {
        "decoded": short(decoded),
        "bytes": bytes_of.tolist(),
        "condition": given.tolist(),
        "range_0_1": short(unit),
        "range_-1_1": short(unit * np.float32(2) + np.float32(-1)),
    }


def edges() -> dict[str, Any]:
    """OpenCV's edges of pictures from the noise stream: grain, smooth hills, boxes with exact ties,
    a gradient that is weak.
    """
    from unplug.plugins.conditions import Canny

    rows, cases = (
        [],
        (
            (32, 32, 1, 100, 200),
            (40, 24, 4, 100, 200),
            (33, 47, 8, 40, 90),
            (24, 24, 12, 100, 200),
            (48, 16, 3, 0, 255),
        ),
    )
    for number, (width, height, side, low, high) in enumerate(cases):
        across, down = -(-width // side), -(-height // side)
        coarse = (
            uniforms(words(SEED, number, 3 * across * down)).reshape(down, across, 3) * 256
        ).astype(np.uint8)
        picture_HWC = np.repeat(np.repeat(coarse, side, axis=0), side, axis=1)[:height, :width]
        found_HW = Canny(low=low, high=high)(np.ascontiguousarray(picture_HWC))[:, :, 0] > 0
        rows.append(
            {
                "width": width,
                "height": height,
                "low": low,
                "high": high,
                "rgb": base64.b64encode(picture_HWC.tobytes()).decode(),
                "edges": base64.b64encode(np.packbits(found_HW)).decode(),
            }
        )
    return {"cases": rows}


def packs() -> dict[str, Any]:
    """Of each pack's word the places of the prompts that ask for it; and words that are none."""

    def holds(word: str) -> bool:
        try:
            return check_words(word) == word
        except InputError:
            return False

    assert all(map(holds, PACK_WORDS)) and holds("\U0001d552" * 64), "words that hold"
    return {
        "prompts": list(PACK_PROMPTS),
        "words": {
            word: [at for at, prompt in enumerate(PACK_PROMPTS) if asks_for(prompt, word)]
            for word in PACK_WORDS
        },
        "none": [word for word in PACK_NONE if not holds(word)],
    }


MADE = {
    "canny.json": edges,
    "pixels.json": pixels,
    "tokens.json": tokens,
    "noise.json": noise,
    "packs.json": packs,
    "tables.json": tables,
    "sampling.json": sampling,
}


def text_of(name: str) -> str:
    """One file as the repository keeps it."""
    return (
        json.dumps(
            {"tolerances": TOLERANCES, **MADE[name]()}, sort_keys=True, separators=(",", ":")
        )
        + "\n"
    )


def main() -> None:
    """Writes all of them."""
    for name in MADE:
        (HERE / name).write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
