"""What is measured on every row of a comparison, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a row.

    Args:
        label: head of its column.
        better: which way is better.
        says: what it is, in a sentence.
        digits: decimals shown.
        percent: shown as one.
        aside: left out where there is room for few columns.
    """

    label: str
    better: Literal["lower", "higher"]
    says: str
    digits: int = 3
    percent: bool = False
    aside: bool = False


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "found": Metric(
            label="faces found", better="higher", percent=True, digits=1,
            says="share of pictures in which the Face Landmarker finds a face",
        ),
        "nme": Metric(
            label="NME", better="lower", percent=True, digits=2,
            says="mean distance of the 478 landmarks from the source picture's, over the source's outer eye distance, where a "
            "face is found",
        ),
        "nme_8": Metric(
            label="NME under 8 %", better="higher", percent=True, digits=1,
            says="share of pictures in which a face is found with an NME under 8 %; a missing face fails",
        ),
        "true_nme": Metric(
            label="NME, drawn landmarks", better="lower", percent=True, digits=2, aside=True,
            says="the same against where the renderer put its named landmarks; the source row has what the two conventions "
            "differ by",
        ),
        "edge_f1": Metric(
            label="edge F1", better="higher",
            says="harmonic mean of edge precision and edge recall, mean over pictures",
        ),
        "edge_precision": Metric(
            label="edge precision", better="higher", aside=True,
            says="share of the picture's Canny edges that lie at one of the condition, within a pixel at 128",
        ),
        "edge_recall": Metric(
            label="edge recall", better="higher", aside=True,
            says="share of the condition's edges at which the picture has one",
        ),
        "frechet": Metric(
            label="Fréchet distance", better="lower", digits=2,
            says="between Gaussians fitted to features of the row's pictures and of other held-out pictures, extrapolated to "
            "endless samples",
        ),
        "frechet_ratio": Metric(
            label="Fréchet, of ControlNet's", better="lower", aside=True,
            says="the row's Fréchet distance over the reference control's",
        ),
        "frechet_finite": Metric(
            label="Fréchet, not extrapolated", better="lower", digits=2, aside=True,
            says="the same at this number of pictures, biased upwards",
        ),
        "kid": Metric(
            label="KID", better="lower", digits=4,
            says="kernel distance between the same pictures in all features, kernel (x.y/d + 1)^3, unbiased",
        ),
        "consistency": Metric(
            label="prompt kept", better="higher", percent=True, digits=1,
            says="share of the attributes named in the prompts that the judge reads as named; what was not asked for is not "
            "judged",
        ),
        "loss": Metric(
            label="noise loss", better="lower", digits=4,
            says="squared error of the predicted noise on held-out samples, mean over eight noise levels",
        ),
    }
)  # fmt: skip
"""In the order of the columns. Seconds, parameters and operations have fields of their own."""

CONTROL_ERROR: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"face_landmark": ("found", "nme", "nme_8", "true_nme"), "canny": ("edge_f1", "edge_precision", "edge_recall")}
)
"""What says how well a picture follows a condition; other conditions have no such number."""

JUDGED: Mapping[str, tuple[str, ...]] = MappingProxyType({"face_landmark": ("nme", "nme_8"), "canny": ("edge_f1",)})
"""Those of `CONTROL_ERROR` that the verdict goes by: NME alone would reward a control that loses the difficult faces."""
