"""Numbers that others published: a section and a series of their own, so that nobody takes them for
measurements.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from unplug.core import counted, plain

from .page import Block, Cell, Column, Figure, FigureGrid, Section, Table, both_widths, words
from .plots.bench import published_svg

if TYPE_CHECKING:
    from unplug.mobile_bench import Baselines, PublishedRow

WIDTHS = (992, 322)  # a frame with room stands around this section
DRAWN = {
    "MobileNetV2 1.0 224": (
        "The same network on phones by the numbers of others; hollow marks, because nobody here "
        "ran it."
    ),
    "MediaPipe diffusion plugin": (
        "The source names neither accelerator, precision nor runtime: no estimate uses these."
    ),
}
"""Networks of which the section shows a plot, each with its caption."""
SERIES = {
    "plugin": "Conditioning plugins",
    "controlnet": "ControlNet",
    "adapter": "Adapters",
    "diffusion": "Diffusion",
    "classifier": "Classifiers on phones",
}


def published(baselines: Baselines) -> Section:
    """What others published; the page has it when it was asked for."""
    from unplug.mobile_bench import NOT_OURS

    lead = (
        "Read in the sources named, with their own protocols: none of these numbers was measured "
        "here, none is ranked, "
        "and none may be compared with a measurement as if the two were alike."
    )
    blocks: list[Block] = [
        FigureGrid([_figure(baselines, model) for model in DRAWN], columns=1),
        _table(baselines),
    ]
    return Section("published", "Published numbers", lead, blocks, chip=NOT_OURS)


def _figure(baselines: Baselines, model: str) -> Figure:
    rows = [
        row
        for row in baselines.rows
        if row.model == model and row.value is not None and row.unit == "ms"
    ]
    bars = [(plain(_label(row), 48), row.value or 0.0) for row in rows]
    bars.sort(key=lambda bar: -bar[1])
    name = f"published-{list(DRAWN).index(model)}"
    draw = partial(published_svg, bars, title=model)
    return both_widths(draw, WIDTHS, name=name, caption=DRAWN[model])


def _label(row: PublishedRow) -> str:
    """The device and, as far as the source tells, what ran on it."""
    return ", ".join(part for part in (row.device, _place(row)) if part)


def _place(row: PublishedRow) -> str:
    parts = [
        row.accelerator or "",
        counted(row.threads, "thread") if row.threads else "",
        row.precision or "",
    ]
    return ", ".join(part for part in parts if part)


def _table(baselines: Baselines) -> Table:
    columns = [
        words("Model"),
        Column("value"),
        words("device", wide=True),
        words("of", wide=True),
        words("source", wide=True),
    ]
    groups = [(heading, _group(baselines, series)) for series, heading in SERIES.items()]
    return Table(
        f"Published, not measured here; sources read on {plain(baselines.retrieved, 20)}",
        columns,
        [(heading, rows) for heading, rows in groups if rows],
    )


def _group(baselines: Baselines, series: str) -> list[list[Cell]]:
    """One row a number; those that could not be read are one row for all devices of a model."""
    rows = [row for row in baselines.rows if row.series == series]
    unread: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in rows:
        if row.value is None:
            unread.setdefault((row.model, row.source), []).append(row)
    merged = [
        replace(same[0], device=", ".join(row.device for row in same if row.device))
        for same in unread.values()
    ]
    return [
        _row(row, baselines) for row in (*(row for row in rows if row.value is not None), *merged)
    ]


def _row(row: PublishedRow, baselines: Baselines) -> list[Cell]:
    source = baselines.sources[row.source]
    value = "not read here" if row.value is None else f"{row.value:g} {row.unit}"
    when = source.published or "undated"
    # text, no link: the page names no address that a browser could open
    address = source.url.removeprefix("https://")
    return [
        Cell(plain(row.model, 60)),
        Cell(value),
        Cell(plain(row.device or "", 120), note=plain(_place(row), 80)),
        Cell(plain(row.measures, 60)),
        Cell(
            f"{plain(source.title, 120)}, {when}",
            note=plain(f"{address}. {row.note}".rstrip(" ."), 400),
        ),
    ]
