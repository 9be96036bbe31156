"""Quality x latency x size: which exported files are worth having on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unplug.core import plain, size, threads

from .figures.pareto import Point, pareto_svg
from .inputs import Inputs
from .models import all_models
from .page import Figure, FigureGrid, Notes
from .timing import Place, labels, row_median

WIDE, NARROW = 1056, 354
EXACT_DB = 150.0
"""Where an output that is equal to the last bit is drawn: beyond what single precision can differ by."""
UNSEEN = "test"
FRONT = (
    "Area: bytes of the file. Filled: no other file is as fast, as good and as small, and better in one of these. Dashed: the "
    "front of latency and quality alone. Cross: not ranked."
)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """One number a file, by SHA-256, and what it is."""

    values: Mapping[str, float]
    axis: str
    higher_is_better: bool
    caption: str


def measured_quality(inputs: Inputs) -> Quality | None:
    """What the files are worth: their error in the task where an audit ran them, else their parity with the checkpoint."""
    return _audited(inputs) or _parity(inputs)


def _audited(inputs: Inputs) -> Quality | None:
    years: dict[str, float] = {}
    losses: dict[str, float] = {}
    for model in all_models(inputs):
        if model.role == "artifact" and (use := model.utility.get(UNSEEN)) is not None:
            (years if use.mae is not None else losses)[model.sha256] = use.error.value
    if years:
        return Quality(
            values=years, axis="Mean absolute error (years)", higher_is_better=False, caption="error on unseen samples"
        )
    if losses:
        return Quality(values=losses, axis="Loss", higher_is_better=False, caption="loss on unseen samples")
    return None


def _parity(inputs: Inputs) -> Quality | None:
    worst: dict[str, float] = {}
    for row in (row for report in inputs.parities for row in report.rows):
        value = EXACT_DB if row.exact else row.psnr_db
        if value is not None:
            worst[row.artifact_sha256] = min(value, worst.get(row.artifact_sha256, EXACT_DB))
    if not worst:
        return None
    said = f"parity of the worst output with the checkpoint, exact ones at {EXACT_DB:g} dB (no audit of these files was given)"
    return Quality(values=worst, axis="Parity (dB)", higher_is_better=True, caption=said)


def pareto(inputs: Inputs, places: list[Place]) -> list[FigureGrid | Notes]:
    """Per device, quality against latency with the size as area; nothing where quality or size is not known."""
    quality = measured_quality(inputs)
    if quality is None:
        return [Notes(lines=["No Pareto chart: it needs an audit or a parity report of the files that were timed."])]
    figures = [figure for place in places if (figure := _figure(place, quality, _sizes(inputs))) is not None]
    if not figures:
        return [Notes(lines=["No Pareto chart: none of the timed files has both a known quality and a known size."])]
    caption = f"Quality: {plain(quality.caption, 160)}. {FRONT}"
    return [FigureGrid(figures=figures, columns=1, heading="Quality, latency and size", caption=caption)]


def _sizes(inputs: Inputs) -> dict[str, int]:
    told = {row.artifact_sha256: row.bytes for bench in inputs.benches for row in bench.rows if row.bytes}
    return told | {card.sha256: card.bytes for card in inputs.cards}


def _figure(place: Place, quality: Quality, sizes: Mapping[str, int]) -> Figure | None:
    points, without = [], 0
    for row, label in zip(place.rows, labels(place.rows, 36), strict=True):
        median, own = row_median(row), sizes.get(row.artifact_sha256)
        if median is None or row.mode != "burst":
            continue
        if own is None or row.artifact_sha256 not in quality.values:
            without += 1
            continue
        worth = quality.values[row.artifact_sha256]
        brief = plain(f"{row.precision} {row.delegate_got or row.delegate_asked}", 22)
        points.append(
            Point(label=f"{label}, {size(own)}", short=brief, latency_ms=median, quality=worth, bytes=own, ranked=row.ranked)
        )
    if not points:
        return None
    wide, narrow = (
        pareto_svg(
            points, higher_is_better=quality.higher_is_better, axis=quality.axis, name=f"pareto-{place.number}-{width}",
            title=f"{place.name}, {_threads(place)}", width=width,
        )
        for width in (WIDE, NARROW)
    )  # fmt: skip
    caption = f"Not drawn, because their quality or size is not known: {without}." if without else ""
    return Figure(svg=wide, narrow=narrow, caption=caption, pick=place.pick)


def _threads(place: Place) -> str:
    counts = sorted({row.threads for row in place.rows})
    return threads(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]} threads"
