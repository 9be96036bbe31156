"""The leaderboard as one HTML document, drawn by the report's own template and style; no script, no outside address."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from unplug.core import NONE, ReportError, atomic_path, count, percent, plain, seconds
from unplug.sdk.studies.leaderboard import METRICS, RANKED_BY, RANKING, LeaderboardReport, Row

from ..models import LABELS
from ..page import Block, Cell, Column, KeyNumber, Notes, Section, Table
from ..render import HERE, MAX_PAGE_BYTES
from ..verdict import Verdict
from .plots import plots
from .words import COLUMNS, cell, main_columns, published_cells, reason, settings_text, title_of

TABLES: tuple[tuple[str, str, str, str], ...] = (
    ("attacks", "Attacks", "attacks", "Membership attacks on single models, forget set against unseen samples of the same "
     "groups. The aim is the oracle's value: below it the forget set stands out too."),
    ("distances", "Distance to the oracle", "distances", "How far the distribution over models is from that over retrained "
     "models; the oracle's row is the distance between retrained models themselves."),
    ("utility", "Utility", "utility", "Forgetting must not cost use. The test set was seen by no model."),
)  # fmt: skip


def render_page(report: LeaderboardReport) -> str:
    """The page; the same report gives the same text.

    Raises:
        ReportError: it would be larger than 2 MB.
    """
    sections = [_ranking(report), plots(report), *_tables(report), _settings(report), *_published(report)]
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    html = environment.get_template("template.html.j2").render(
        title=f"Leaderboard: {plain(report.protocol, 60)}",
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        subject=_subject(report),
        verdict=_verdict(report),
        alarms=[],
        releases=[],
        numbers=_numbers(report),
        sections=sections,
        missing=[],
        provenance=_provenance(report),
        labels=LABELS,
    )
    if (size := len(html.encode("utf-8"))) > MAX_PAGE_BYTES:
        raise ReportError("leaderboard", f"the page would have {size:,} bytes", "Rank fewer methods")
    return html


def write_page(report: LeaderboardReport, path: Path) -> None:
    """Writes the page, atomically."""
    html = render_page(report)
    with atomic_path(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def _subject(report: LeaderboardReport) -> list[str]:
    spec = report.data.get("spec")
    return [plain(str(spec), 100), f"forget set of {_whole(report.forget.get('samples'))} samples"]


def _verdict(report: LeaderboardReport) -> Verdict:
    best = next((row for row in report.rows if row.rank == 1), None)
    ranked = sum(row.rank is not None for row in report.rows)
    methods = sum(row.role == "unlearned" for row in report.rows)
    lead = f"{plain(best.name)} ranks first of {ranked} methods{_level(report)}." if best else "No method could be ranked."
    return Verdict(
        word=f"{ranked} of {methods} ranked", chip="neutral", lead=lead,
        sentence=f"Ranked by {RANKED_BY[report.rank]}.", facts=(plain(report.summary, 1000),),
    )  # fmt: skip


def _level(report: LeaderboardReport) -> str:
    """Who may be as good as the first: the interval of the paired difference reaches zero."""
    gaps = {
        row.name: row.metrics["score_gap"].high for row in report.rows if row.rank is not None and "score_gap" in row.metrics
    }
    level = [name for name, high in gaps.items() if high is not None and high >= 0]
    if not level:
        return ", clearly" if gaps else ""
    others = f" and {len(level) - 1} more are" if len(level) > 1 else " is"
    return f"; {plain(level[0])}{others} not clearly behind"


def _numbers(report: LeaderboardReport) -> list[KeyNumber]:
    seeds = report.seeds
    oracle = next(row for row in report.rows if row.role == "retrained")
    refused = sum(row.refused is not None for row in report.rows)
    methods = sum(row.role == "unlearned" for row in report.rows)
    share = report.forget.get("share")
    return [
        KeyNumber(label="Methods", value=count(methods), note=f"{refused} refused, shown below"),
        KeyNumber(
            label="Models", value=count(sum(row.models for row in report.rows)),
            note=f"{len(seeds.get('originals', []))} originals, {oracle.models} retrained, {oracle.models} per method",
        ),
        KeyNumber(
            label="Forget set", value=_whole(report.forget.get("samples")),
            note=f"{percent(share if isinstance(share, float) else None)} of training, {_groups(report)}",
        ),
        KeyNumber(
            label="One retraining", value=seconds(_number(report.retraining.get("wall_s"))),
            note=f"{_whole(report.retraining.get('passes'))} samples forward and backward",
        ),
    ]  # fmt: skip


def _groups(report: LeaderboardReport) -> str:
    groups = report.forget.get("groups")
    if not isinstance(groups, dict) or not groups:
        return "groups unknown"
    return f"groups {', '.join(plain(str(name), 20) for name in groups)}" if len(groups) <= 3 else f"{len(groups)} groups"


def _ranking(report: LeaderboardReport) -> Section:
    names = main_columns(report)
    blocks: list[Block] = [_table("Best first; 95 % intervals below each number", names, report, places=True)]
    if why := _unranked(report):
        blocks.append(why)
    if report.notes:
        blocks.append(Notes(lines=[plain(note, 500) for note in report.notes]))
    lead = (
        "Every method had the same data, the same originals and the same budget. Refused runs are kept and shown, not ranked."
    )
    return Section(id="ranking", heading="Ranking", lead=lead, blocks=blocks)


def _unranked(report: LeaderboardReport) -> Table | None:
    """Why methods have no rank."""
    reasons = {row.name: reason(row, RANKING[report.rank]) for row in report.rows}
    rows = [[Cell(text=plain(name)), Cell(text=plain(why, 400))] for name, why in reasons.items() if why]
    columns = [Column(label="Method", number=False), Column(label="why", number=False, wide=True)]
    return Table(caption="Not ranked", columns=columns, groups=[("", rows)]) if rows else None


def _tables(report: LeaderboardReport) -> list[Section]:
    made = []
    for name, heading, group, lead in TABLES:
        columns = [metric for metric in COLUMNS[group] if any(metric in row.metrics for row in report.rows)]
        if columns:
            table = _table("; ".join(f"{METRICS[item].label}: {METRICS[item].says}" for item in columns), columns, report)
            made.append(Section(id=name, heading=heading, lead=lead, blocks=[table]))
    return made


def _table(caption: str, names: Sequence[str], report: LeaderboardReport, *, places: bool = False) -> Table:
    heads = [Column(label=METRICS[name].label, unit=METRICS[name].unit) for name in names]
    first = [Column(label="Method", number=False), *([Column(label="rank")] if places else [])]

    def cells(row: Row) -> list[Cell]:
        head = Cell(text=title_of(row), role=row.role)
        place = [Cell(text=NONE if row.rank is None else str(row.rank))] if places else []
        return [head, *place, *(cell(row, name) for name in names)]

    parts = {
        "Oracle and original": [row for row in report.rows if row.role != "unlearned"][::-1],
        "Ranked": [row for row in report.rows if row.rank is not None],
        "Not ranked": [row for row in report.rows if row.role == "unlearned" and row.rank is None and row.metrics],
    }
    groups = [(heading, [cells(row) for row in rows]) for heading, rows in parts.items() if rows]
    return Table(caption=caption, columns=[*first, *heads], groups=groups)


def _settings(report: LeaderboardReport) -> Section:
    rows = [
        [
            Cell(text=plain(row.name)), Cell(text=percent(row.budget)), Cell(text=count(row.models)),
            Cell(text=plain(", ".join(row.needs), 120)), Cell(text=plain(settings_text(row.settings), 240)),
        ]
        for row in report.rows
        if row.role == "unlearned"
    ]  # fmt: skip
    columns = [
        Column(label="Method", number=False), Column(label="budget"), Column(label="models"),
        Column(label="reads", number=False, wide=True), Column(label="settings", number=False, wide=True),
    ]  # fmt: skip
    table = Table(caption="What each method ran with", columns=columns, groups=[("", rows)])
    return Section(id="settings", heading="Settings", lead="", blocks=[table])


def _published(report: LeaderboardReport) -> list[Section]:
    if not report.published:
        return []
    rows = [[Cell(text=text) for text in line] for line in published_cells(report)]
    columns = [
        Column(label="Method", number=False), Column(label="number", number=False), Column(label="published"),
        Column(label="here"), Column(label="here minus published"),
    ]  # fmt: skip
    table = Table(caption="Published numbers beside these", columns=columns, groups=[("", rows)], compact=True)
    lead = "Others' networks and recipes differ, so only the order is comparable."
    return [Section(id="published", heading="Published", lead=lead, blocks=[table])]


def _provenance(report: LeaderboardReport) -> Section:
    parts = {"data": report.data, "forget": report.forget, "recipe": report.recipe, "retraining": report.retraining,
             "evaluation": report.settings}  # fmt: skip
    facts = [(f"{part}: {key}", value) for part, values in parts.items() for key, value in values.items()]
    facts += [(f"seeds: {key}", _seed_text(values)) for key, values in report.seeds.items()]
    facts += [(f"version: {key}", value) for key, value in report.versions.items() if value is not None]
    rows = [
        [
            Cell(text=plain(key.replace("_", " "), 60)),
            Cell(text=plain(value if isinstance(value, str) else json.dumps(value), 240)),
        ]
        for key, value in facts[:120]
    ]
    columns = [Column(label="Fact", number=False), Column(label="value", number=False, wide=True)]
    table = Table(caption="Data, recipe, seeds, versions", columns=columns, groups=[("", rows)])
    return Section(id="provenance", heading="Provenance", lead="", blocks=[table])


def _value(value: object) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value), 240)


def _seed_text(values: Sequence[int]) -> str:
    if len(values) > 3 and list(values) == list(range(values[0], values[0] + len(values))):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def _whole(value: object) -> str:
    return count(value) if isinstance(value, int) else NONE


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
