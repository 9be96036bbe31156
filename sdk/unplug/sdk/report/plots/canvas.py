"""The ground all plots share: matplotlib without pyplot, and SVG text that a page can hold.

Matplotlib draws in placeholder colours; `to_svg` puts CSS variables in their place, so that the
same drawing follows ``prefers-color-scheme``. Ids are made unique to the plot, and everything that
names an outside address is dropped.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.typing import NDArray

Array = NDArray[np.float64]

INK, MUTED, GRID, PAPER = "#010203", "#010204", "#010205", "#010206"
COLOUR = {
    "original": "#010207",
    "unlearned": "#010208",
    "retrained": "#010209",
    "artifact": "#01020a",
}
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--line",
    PAPER: "--paper",
    **{colour: f"--{role}" for role, colour in COLOUR.items()},
}
LINE: dict[str, Any] = {"original": "-", "unlearned": "-", "retrained": (0, (4, 2))}
MARK = {"original": "s", "unlearned": "o", "retrained": "D", "artifact": "^"}
"""Line style and marker repeat what the colour says, for readers and printers without colour."""

DOTTED, DASHED = (0, (1, 2)), (0, (4, 2))
LOG_FROM = 8.0  # ratio of the slowest to the fastest from which a logarithmic axis reads better
ROOMY = 600  # CSS pixels from which names stand in full next to what they name
MAX_POINTS = 300  # of a line: a step of a 300 px plot per point
FONT_PX = 11
LETTER, KEY = 5.9, 40.0
"""CSS pixels: of a letter of a legend, and of what stands next to each of its names."""
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "unplug",
    "text.parse_math": False,  # a "$" in a file's name is not a formula
    "font.family": "DejaVu Sans",
    "font.size": FONT_PX,
    "axes.labelsize": FONT_PX,
    "axes.titlesize": FONT_PX + 1,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 8.0,
    "axes.titlecolor": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": FONT_PX - 0.5,
    "ytick.labelsize": FONT_PX - 0.5,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "legend.frameon": False,
    "legend.fontsize": FONT_PX - 0.5,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.0,
}


@contextmanager
def canvas(width: int, height: int) -> Iterator[tuple[Figure, Axes]]:
    """A figure of that many CSS pixels with one set of axes; one point of matplotlib is one pixel
    of the page.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever a user's matplotlibrc says, the page looks the same
        matplotlib.rcParams.update(_RC)
        # Matplotlib counts in inches, of 72 points each.
        figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, figure.add_subplot()


@contextmanager
def stacked(width: int, heights: Sequence[int]) -> Iterator[tuple[Figure, list[Axes]]]:
    """`canvas` with several sets of axes, one above the other, of those heights, with one common x
    axis.
    """
    with canvas(width, sum(heights)) as (figure, lone):
        lone.remove()
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        first = figure.add_subplot(grid[0])
        yield (
            figure,
            [
                first,
                *(figure.add_subplot(grid[row], sharex=first) for row in range(1, len(heights))),
            ],
        )


def to_svg(figure: Figure, name: str, label: str) -> str:
    """The drawing as an ``<svg>`` element.

    Args:
        figure: drawn in a `canvas`.
        name: prefix of its ids, unique on the page.
        label: the text for screen readers; states the main numbers.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings():
        # The browser brings its own fonts; that matplotlib's lacks a letter only makes its estimate
        # of a width rough.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return _clean(buffer.getvalue(), name, label)


def _clean(svg: str, name: str, label: str) -> str:
    svg = svg[svg.index("<svg") :]
    for noise in (
        r"<metadata>.*?</metadata>",
        r"<style.*?</style>",
        r"<!--.*?-->",
        r"<defs>\s*</defs>",
    ):
        svg = re.sub(noise, "", svg, flags=re.DOTALL)
    named = frozenset(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    box = svg.split('viewBox="', 1)[1].split('"', 1)[0]
    # Inside of tags alone: what stands between them is text that came from a file.
    body = re.sub(
        r"<[^>]+>", lambda tag: _clean_tag(tag[0], name, named), svg[svg.index(">") + 1 :]
    )
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" style="max-width: '
        f'{box.split()[2]}px" '
        f'role="img" aria-label="{escape(label)}">'
    )
    return re.sub(r"\n\s*", "\n", opening + body).strip()


def _clean_tag(tag: str, name: str, named: frozenset[str]) -> str:
    """One tag with unique ids, CSS variables for colours, the page's font, and two decimals."""
    tag = re.sub(
        r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in named else "", tag
    )
    tag = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', tag).replace("url(#", f"url(#{name}-")
    tag = re.sub(
        r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), tag
    )
    tag = re.sub(r" font-family: [^;\"]*;| transform=\"rotate\(-0 [^\"]*\"", "", tag)
    for placeholder, variable in _VARIABLES.items():
        tag = tag.replace(placeholder, f"var({variable})")
    return tag


def finish(axes: Axes, *, title: str = "", x: str = "", y: str = "") -> None:
    """Titles and axis names, in the page's manner: the plot's name bold at the left, no box around
    it.
    """
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def head(figure: Figure, title: str) -> None:
    """A plot's name from the left edge of the drawing on: names of rows leave the axes too little
    width for it.
    """
    figure.suptitle(title, x=0.0, ha="left", fontsize=FONT_PX + 1, fontweight="bold")


def legend_below(figure: Figure, axes: Axes) -> None:
    """What each labelled line or bar means, in rows below the plot, which becomes that much higher:
    nothing is covered.
    """
    handles, labels = axes.get_legend_handles_labels()
    width, height = figure.get_size_inches() * 72
    columns = max(1, min(len(labels), int(width // (LETTER * max(map(len, labels)) + KEY))))
    figure.set_figheight((height + FONT_PX * 1.6 * -(-len(labels) // columns)) / 72)
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, labelcolor=MUTED)


def log_x(axes: Axes) -> None:
    """A logarithmic horizontal axis with plain numbers on it: powers of ten, and where it shows
    few of them, twice and five times these.
    """

    def between(value: float, _: float) -> str:
        low, high = axes.get_xlim()
        digit = round(value / 10 ** math.floor(math.log10(value)))
        return f"{value:g}" if high < 20 * low and digit in (2, 5) else ""

    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(between)


def thin(points: Array, limit: int = MAX_POINTS) -> Array:
    """Takes at most `limit` evenly chosen entries, both ends kept."""
    return (
        points
        if len(points) <= limit
        else points[np.linspace(0, len(points) - 1, limit).round().astype(int)]
    )
