"""``python -m tests.vectors.mark``: pictures before the reader of marks, keys, chances and verdicts,
in every language.

``mark.json``: the colour c of ``readings``' pixel (x, y) is ``x x (c + 3) + 5 x y + 7 y y (c + 1)``
modulo 256, or modulo 256 of the eighth of it; each reading is given as ``bytes``, 255 times every
`EVERY`-th of its values, channels first, base64; values may be `TOLERANCE` apart. ``refused`` sides
are too small. ``verdicts``: logits, once a reading.
"""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.plugins import shipped_path
from unplug.sdk.drawing.device import MARKS, key_bits, read_key
from unplug.sdk.drawing.device.mark import (
    BITS,
    CHANCE,
    DEMONSTRATION,
    LEAST_SIDE,
    READINGS,
    SIDE,
    _found,
    chance_of,
    readings_of,
)

FILE = Path(__file__).with_suffix(".json")
TOLERANCE = 1 / 255
EVERY = 97
SIZES = ((128, 96, 1), (512, 512, 8), (100, 64, 8), (64, 640, 1), (387, 513, 8))
"""Width, height, and by how much the colours are divided."""
KEYS = ("000000000001", "f00000000000", "0123456789ab")
BAD_KEYS = ("", "abc", "0" * 13, "g" * 12)
AGREE = ((48, 24), (41, 30), (30, 41), (40, 40), (24, 24))
"""Bits that agree in each reading."""


def picture(width: int, height: int, divided: int) -> NDArray[np.uint8]:
    """Colours by whole numbers, the same in every language."""
    y_HW1, x_HW1 = (place[..., None] for place in np.mgrid[:height, :width])
    c_3 = np.arange(3)
    value = x_HW1 * x_HW1 * (c_3 + 3) + 5 * x_HW1 * y_HW1 + 7 * y_HW1 * y_HW1 * (c_3 + 1)
    pixels: NDArray[np.uint8] = (value // divided % 256).astype(np.uint8)
    return pixels


def readings(width: int, height: int, divided: int) -> dict[str, Any]:
    """One picture as the reader sees it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.png"
        Image.fromarray(picture(width, height, divided)).save(file)
        seen = readings_of(file)
    kept = [np.rint(one.ravel()[::EVERY] * 255).astype(np.uint8).tobytes() for one in seen]
    told = [base64.b64encode(raw).decode() for raw in kept]
    return {"width": width, "height": height, "divided": divided, "bytes": told}


def verdict(agree: tuple[int, ...], key: str) -> dict[str, Any]:
    """Logits of 1, of -1, and at times of 0, which is no 1, and what they say."""
    rng = np.random.default_rng(sum(agree))
    wrong_NK = np.zeros((len(agree), BITS), bool)
    for row_K, count in zip(wrong_NK, agree, strict=True):
        row_K[rng.permutation(BITS)[count:]] = True
    bits_NK = wrong_NK ^ key_bits(key).astype(bool)
    logits_NK = np.where(bits_NK, 1, np.where(rng.random(bits_NK.shape) < 0.5, -1, 0))
    found = _found(Path("a"), logits_NK > 0, key_bits(key))
    told = {"agree": found.agree, "chance": found.chance, "marked": found.marked}
    return {"key": key, "logits": logits_NK.tolist(), **told}


def vectors() -> dict[str, Any]:
    """All of the file."""
    public = read_key(shipped_path("small", MARKS) / DEMONSTRATION)
    return {
        "tolerance": TOLERANCE,
        "every": EVERY,
        "side": SIDE,
        "shares": list(READINGS),
        "threshold": CHANCE,
        "readings": [readings(*size) for size in SIZES],
        "refused": [LEAST_SIDE - 1, 200],
        "public_key": public,
        "keys": {key: key_bits(key).tolist() for key in (*KEYS, public)},
        "bad_keys": list(BAD_KEYS),
        "chances": [[chance_of(agree, count) for agree in range(BITS + 1)] for count in (1, 2)],
        "verdicts": [verdict(agree, public) for agree in AGREE],
    }


def main() -> None:
    """Writes the file."""
    FILE.write_text(json.dumps(vectors(), sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
