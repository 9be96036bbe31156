"""Ways to draw the whole picture, none of which the shipped base ever showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import cv2
import numpy as np

from ._raster import F32, U8

_INKS = np.array([(30, 30, 70), (214, 40, 90), (245, 140, 60), (252, 228, 170)], np.uint8)
"""The inks of a poster, from dark to light."""


def _blurred(light: F32, share: float) -> F32:
    """Blurred over a share of the side."""
    return cv2.GaussianBlur(light, (0, 0), share * len(light)).astype(np.float32, copy=False)


def _pencil(canvas: U8) -> U8:
    """Grey lines where it is darker than around, and a little tone, on white paper."""
    light = cv2.cvtColor(canvas, cv2.COLOR_RGB2GRAY).astype(np.float32)
    smooth = _blurred(light, 1 / 160)
    lines = (smooth / np.maximum(_blurred(smooth, 1 / 24), 1.0)).clip(0, 1) ** 2.2
    tone = 0.62 + 0.38 * (light / 190.0).clip(0, 1)
    grey = (248.0 * lines * tone).astype(np.uint8)
    return cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB).astype(np.uint8, copy=False)


def _poster(canvas: U8) -> U8:
    """Four flat inks by brightness, half of the picture's and half of the surroundings' (else a
    dark face would be one ink), with outlines in the darkest.
    """
    light = cv2.cvtColor(canvas, cv2.COLOR_RGB2GRAY)
    smooth = _blurred(cv2.medianBlur(light, (len(light) // 24) | 1).astype(np.float32), 0.01)
    low, high = np.percentile(smooth, (3, 97))
    there = (smooth - low) / max(float(high - low), 1.0)
    around = smooth / np.maximum(_blurred(smooth, 0.2), 1.0)
    ink = np.digitize(0.5 * there + 0.5 * (around - 0.5), (0.16, 0.36, 0.56))
    sharp = light.astype(np.float32)
    ink[_blurred(sharp, 1 / 200) < _blurred(sharp, 1 / 60) - 6.0] = 0
    inked: U8 = _INKS[ink]
    return inked


STYLES: Mapping[str, Callable[[U8], U8]] = {"pencil drawing": _pencil, "poster print": _poster}
"""Name, which is also the words for prompts, to what draws a canvas (S, S, 3) anew."""


def styled(canvas: U8, style: str) -> U8:
    """The canvas in a style; as it is where that is ``none``."""
    return canvas if style == "none" else STYLES[style](canvas)
