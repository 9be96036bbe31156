"""Rows as Markdown: which columns a board shows, and how a number is written."""

from __future__ import annotations

from unplug.core import NONE, PERCENT, fixed, plain, signed, span

from .metrics import METRICS, RANKED_BY, RANKING, Metric
from .report import LeaderboardReport, Measure, Row

COLUMNS: dict[str, tuple[str, ...]] = {
    "challenge": ("score", "score_gap", "f_ratio", "f"),
    "nomus": ("nomus", "test_accuracy", "logistic_accuracy", "f_ratio"),
    "attack": ("attack_distance", "logistic_accuracy", "test_accuracy", "f_ratio"),
    "age": ("test_mae_gap",),
    "phi": ("phi_shift", "phi_sd"),
    "class": ("test_accuracy_gap",),
    "cost": ("compute", "wall"),
}
"""By what ranks a board, by its kind, and what every board has; older boards had other ones."""
CLASS_METHODS = frozenset({"unsir"})
"""What was published for forgetting a whole class, and is asked to forget people here."""


def title_of(row: Row) -> str:
    """A row's name as a reader knows it."""
    if row.name in CLASS_METHODS:
        return f"{plain(row.name)} (made to forget a class)"
    return "retrained (oracle)" if row.role == "retrained" else plain(row.name)


def head_of(name: str) -> str:
    """What stands above a column: the number, and its unit where it has one."""
    metric = METRICS[name]
    return f"{metric.label} ({metric.unit})" if metric.unit else metric.label


def number(item: Measure, metric: Metric) -> str:
    """A value as its column writes it.

    Example:
        >>> number(Measure(value=0.25), METRICS["score"])
        '0.250'
    """
    scale = 100.0 if metric.percent else 1.0
    text = (signed if metric.sign else fixed)(item.value * scale, metric.digits)
    return f"{text}{PERCENT}" if metric.percent and not metric.sign else text


def with_interval(item: Measure | None, name: str) -> str:
    """A value with its interval in brackets, where it has one; a dash where there is no value."""
    if item is None:
        return NONE
    metric = METRICS[name]
    scale = 100.0 if metric.percent else 1.0
    note = span(item.low, item.high, metric.digits, sign=metric.sign, scale=scale)
    return number(item, metric) + (f" ({note})" if note else "")


def reason(row: Row, rank: str) -> str:
    """Why a method has no rank; empty where it has one."""
    if row.rank is not None or row.role != "unlearned":
        return ""
    if row.refused:
        return f"refused, {row.refused}"
    return row.note or row.missing.get(rank, "no model came out")


def leaderboard_markdown(report: LeaderboardReport) -> str:
    """The ranking as a Markdown table, with intervals, the original and the oracle below, and what
    was refused.
    """
    there = {name for row in report.rows for name in row.metrics}
    phi = [name for name in COLUMNS["phi"] if name in there]  # boards of before had none
    names = (*COLUMNS[report.rank], *phi, *COLUMNS[report.kind], *COLUMNS["cost"])
    lines = [f"Ranked by {RANKED_BY[report.rank]}.", ""]
    lines += [_line(["#", "method", *map(head_of, names)])]
    lines += [_line(["--:", "---", *("--:" for _ in names)])]
    for row in report.rows:
        if row.metrics:
            place = "" if row.rank is None else str(row.rank)
            cells = [with_interval(row.metrics.get(name), name) for name in names]
            lines.append(_line([place, _escape(title_of(row)), *cells]))
    reasons = {row.name: reason(row, RANKING[report.rank]) for row in report.rows}
    stated = [
        f"- {_escape(plain(name))}: {_escape(plain(why, 300))}"
        for name, why in reasons.items()
        if why
    ]
    if stated:
        lines += ["", "Not ranked:", "", *stated]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    for letter in "\\|<>*_`[]":
        text = text.replace(letter, f"\\{letter}")
    return text
