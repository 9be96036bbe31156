"""UnlearnCanvas's metrics: how well styles and objects are unlearned, and how much of the others
stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from unplug.core import Estimate, InputError, read_json
from unplug.sdk.evidence.statistics import share

from .rates import JUDGED

Kind = Literal["style", "object"]
Counts = Mapping[str, tuple[int, int]]
"""Name to pictures in which it was recognised and pictures that asked for it."""
KINDS: Mapping[str, Kind] = {
    name: "style" if setting.startswith("style=") else "object" for name, setting in JUDGED.items()
}
THEIRS = "Stable Diffusion"
SOURCE = "published: Zhang et al., UnlearnCanvas, 2024; 50 styles, 20 objects, 5 seeds"
PUBLISHED: Mapping[str, tuple[tuple[float, ...], tuple[float, ...], float, float]] = {
    "ESD": ((98.6, 81.0, 94.0), (92.2, 55.8, 44.2), 65.6, 6163),
    "UCE": ((98.4, 60.2, 47.7), (94.3, 39.4, 34.7), 182.0, 434),
    "CA": ((60.8, 96.0, 92.7), (46.7, 90.1, 82.0), 54.2, 734),
    "SalUn": ((86.3, 90.4, 95.1), (86.9, 96.4, 99.6), 61.1, 667),
}
"""Of styles and of objects UA, IRA and CRA in percent; Fréchet distance, seconds."""


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """What classifiers recognised in the pictures of one base from which one theme was erased.

    Args:
        theme: a style or an object.
        styles, objects: of every style and object that was asked for, the theme among its own kind.
    """

    theme: str
    styles: Counts
    objects: Counts


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Shares with exact 95 % intervals; None where no picture was asked for it.

    Args:
        ua: unlearning accuracy: pictures that ask for the theme and are not recognised as it.
        ira: in-domain retaining accuracy: pictures of the others of its kind that are recognised.
        cra: cross-domain retaining accuracy: the same of the other kind.
    """

    ua: Estimate | None
    ira: Estimate | None
    cra: Estimate | None


@dataclass(frozen=True, kw_only=True)
class CanvasRow:
    """One method in the table.

    Args:
        method: its name. model: what it erased from.
        style, object: see `Scores`, over all erased themes of the kind.
        frechet: of the audits, in the mean, and that of two draws of the original.
        seconds, bytes: of an erasure, in the mean.
    """

    method: str
    model: str
    style: Scores
    object: Scores
    frechet: tuple[float, float] | None = None
    seconds: float | None = None
    bytes: float | None = None


def scores(answers: Sequence[Recognised]) -> dict[Kind, Scores]:
    """The three metrics of styles and of objects, over the pictures of all erased themes of a kind.

    The authors take the mean of all names' accuracies, which is the same where each is asked for in
    as many pictures.

    Args:
        answers: one of each erased theme.

    Raises:
        InputError: a theme that is asked for as neither.

    Example:
        >>> seen = Recognised(theme="Crayon", styles={"Crayon": (1, 4), "Rust": (4, 4)}, objects={"Cats": (3, 4)})
        >>> found = scores([seen])["style"]
        >>> found.ua.value, found.ira.value, found.cra.value
        (0.75, 1.0, 0.75)

    Reference:
        Zhang et al., UnlearnCanvas, 2024, section 4.
    """
    found: dict[Kind, list[list[tuple[int, int]]]] = {
        "style": [[], [], []],
        "object": [[], [], []],
    }
    for one in answers:
        kind: Kind = "style" if one.theme in one.styles else "object"
        own, cross = (one.styles, one.objects) if kind == "style" else (one.objects, one.styles)
        if one.theme not in own:
            why = "no picture asks for it, as a style or as an object"
            raise InputError(f"theme {one.theme!r}", why, "Draw pictures of what was erased")
        seen, asked = own[one.theme]
        found[kind][0].append((asked - seen, asked))
        found[kind][1] += [count for name, count in own.items() if name != one.theme]
        found[kind][2] += cross.values()
    return {
        kind: Scores(**dict(zip(("ua", "ira", "cra"), map(_pooled, parts), strict=True)))
        for kind, parts in found.items()
    }


def _pooled(counts: Sequence[tuple[int, int]]) -> Estimate | None:
    asked = sum(of for _, of in counts)
    return share(sum(right for right, _ in counts), asked) if asked else None


def canvas_row(method: str, model: str, answers: Sequence[Recognised], **costs: Any) -> CanvasRow:
    """A row of some answers; `costs` are its other fields."""
    both = scores(answers)
    return CanvasRow(
        method=method, model=model, style=both["style"], object=both["object"], **costs
    )


def rows_of_cells(folder: Path) -> Iterator[CanvasRow]:
    """The rows of ``erasure table``: the original, a base that never saw each theme, every method.

    Args:
        folder: has a JSON a cell.

    Raises:
        InputError: no cell is there, or one of a concept that is neither style nor object.
    """
    every = [read_json(path) for path in sorted(folder.glob("*.json"))]
    cells = [cell for cell in every if isinstance(cell, dict) and {"erasure", "audit"} <= set(cell)]
    if not cells:
        why = "no cell of `erasure table` is in it"
        raise InputError(str(folder), why, "Give the --out of that command")
    model = cells[0]["audit"]["models"]["original"]["name"]
    methods = dict[str, list[dict[str, Any]]]()
    for cell in cells:
        done = cell["erasure"]
        name = done["method"] + ("+plugin" if done["plugins"] else "")
        methods.setdefault(name, []).append(cell)
    for role, name in (("original", "nothing erased"), ("oracle", "never saw it")):
        # the same in every method's cells
        told = {cell["audit"]["concepts"][0]["words"]: cell for cell in cells}
        if answers := [one for cell in told.values() if (one := answers_of(cell, role))]:
            yield canvas_row(name, model, answers)
    for name, own in methods.items():
        answers = [one for cell in own if (one := answers_of(cell, "erased"))]
        yield canvas_row(name, model, answers, **_costs(own))


def _costs(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    done = [cell["erasure"] for cell in cells]
    apart = [one for cell in cells if (one := cell["audit"].get("frechet"))]
    return {
        "seconds": fmean(one["cost"]["wall_s"] for one in done),
        "bytes": fmean((one["map"] or one["changed"])["bytes"] for one in done),
        "frechet": (
            (fmean(one["erased"] for one in apart), fmean(one["original"] for one in apart))
            if apart
            else None
        ),
    }


def answers_of(cell: Mapping[str, Any], role: str) -> Recognised | None:
    """What the judges of an audit saw in one base's pictures; None without prompts that say it.

    Args:
        cell: of ``erasure table``.
        role: of the base; of an oracle nothing but the theme is measured.
    """
    audit = cell["audit"]
    (concept,) = audit["concepts"]
    rates = {words: found.get(role) for words, found in audit["beside"].items()}
    for row in concept["rows"]:
        if (row["attack"], row["form"], row["role"]) == ("named", "as it is", role):
            rates[concept["words"]] = row["rate"]
    if rates.get(concept["words"]) is None:
        return None
    counts: dict[Kind, dict[str, tuple[int, int]]] = {"style": {}, "object": {}}
    for words, rate in rates.items():
        if words not in KINDS:
            raise InputError(f"concept {words!r}", "no style or object", f"Use {', '.join(KINDS)}")
        if rate is not None:
            count = audit["pictures"]
            counts[KINDS[words]][words] = round(rate["value"] * count), count
    return Recognised(theme=concept["words"], styles=counts["style"], objects=counts["object"])


def canvas_table(rows: Sequence[CanvasRow]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells in the shape of UnlearnCanvas's table: ours with intervals, then the published
    rows.
    """
    metrics = ("UA", "IRA", "CRA")
    heads = [
        "method",
        "model",
        *(f"{kind} {name}" for kind in ("style", "object") for name in metrics),
    ]
    heads += ["Fréchet", "seconds", "bytes"]
    lines = []
    for row in rows:
        both = [*asdict(row.style).values(), *asdict(row.object).values()]
        apart = "–" if row.frechet is None else "{:.4g} (original {:.4g})".format(*row.frechet)
        spent = [
            "–" if one is None else f"{one:,.{places}f}"
            for one, places in ((row.seconds, 1), (row.bytes, 0))
        ]
        lines.append([row.method, row.model, *map(_told, both), apart, *spent])
    for name, (style, thing, fid, seconds) in PUBLISHED.items():
        accuracies = [f"{one:.1f}" for one in (*style, *thing)]
        lines.append([name, THEIRS, *accuracies, f"FID {fid:.1f}", f"{seconds:,}", "–"])
    return heads, lines


def _told(rate: dict[str, Any] | None) -> str:
    if rate is None:
        return "–"
    return f"{100 * rate['value']:.1f} [{100 * rate['low']:.0f}, {100 * rate['high']:.0f}]"
