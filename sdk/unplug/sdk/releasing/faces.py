"""Thumbnails of forgotten faces with what each model says of them: for the local report, never for a bundle."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from unplug.plugins import Checkpoint
from unplug.sdk.training import Sets, predict

SCHEMA = "unplug-faces/1"
SHOWN = 12


def face_samples(sets: Sets, models: dict[str, Checkpoint], *, count: int = SHOWN) -> dict[str, Any]:
    """``unplug-faces/1``: up to `count` forget samples, spread over the set, with predictions per model.

    Args:
        sets: where the forget set is.
        models: name in the report to checkpoint.
        count: how many.
    """
    index = np.unique(np.linspace(0, len(sets.forget) - 1, count).round().astype(int))
    chosen = sets.forget.subset(index.tolist())
    device = chosen.age_N.device
    ages = {name: predict(item.model.to(device), chosen).age_N for name, item in models.items()}
    pixels = chosen.image_NCHW.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    return {
        "schema": SCHEMA,
        "faces": [
            {
                "png": base64.b64encode(_png(pixels[position])).decode(),
                "set": "forget",
                "age": float(chosen.age_N[position]),
                "predictions": {name: float(values[position]) for name, values in ages.items()},
            }
            for position in range(len(chosen))
        ],
    }


def _png(pixels: Sequence[Any] | np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(pixels)).save(buffer, "PNG")
    return buffer.getvalue()
