"""Rows as cells and as Markdown: which columns a board shows, and how a number is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

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
    "attacks": (
        "loss_auc",
        "logistic_accuracy",
        "attack_distance",
        "rmia_auc",
        "ulira_auc",
        "two_versions_auc",
        "views_auc",
        "rounded_auc",
        "relearn",
    ),
    "distances": (
        "klom_forget",
        "klom_validation",
        "klom_retain",
        "distance_forget",
        "distance_test",
    ),
    "utility": (
        "test_accuracy",
        "test_accuracy_gap",
        "test_mae",
        "test_mae_gap",
        "retain_mae_gap",
        "retain_ratio",
        "test_ratio",
        "nomus",
    ),
}
"""By what ranks a board, by its kind, and what stands on every page."""
CLASS_METHODS = frozenset({"unsir"})
"""What was published for forgetting a whole class, and is asked to forget people here."""


def main_columns(report: LeaderboardReport) -> tuple[str, ...]:
    """The columns of the ranking."""
    there = {name for row in report.rows for name in row.metrics}
    phi = [name for name in COLUMNS["phi"] if name in there]  # boards of before had none
    return (*COLUMNS[report.rank], *phi, *COLUMNS[report.kind], *COLUMNS["cost"])


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


def interval_note(item: Measure, metric: Metric) -> str:
    """An interval as its column writes it; empty where there is none."""
    scale = 100.0 if metric.percent else 1.0
    return span(item.low, item.high, metric.digits, sign=metric.sign, scale=scale)


def with_interval(item: Measure | None, name: str) -> str:
    """A value with its interval in brackets, where it has one; a dash where there is no value."""
    if item is None:
        return NONE
    note = interval_note(item, METRICS[name])
    return number(item, METRICS[name]) + (f" ({note})" if note else "")


def reason(row: Row, rank: str) -> str:
    """Why a method has no rank; empty where it has one."""
    if row.rank is not None or row.role != "unlearned":
        return ""
    if row.refused:
        return f"refused, {row.refused}"
    return row.note or row.missing.get(rank, "no model came out")


def settings_text(settings: Mapping[str, Any]) -> str:
    """Hyperparameters in one line.

    Example:
        >>> settings_text({"lr": 0.003, "batch_size": 32})
        'batch_size 32, lr 0.003'
    """
    return ", ".join(f"{name} {value}" for name, value in sorted(settings.items()))


def leaderboard_markdown(
    report: LeaderboardReport,
    *,
    without: Collection[str] = (),
    bare: Collection[str] = (),
) -> str:
    """The ranking as a Markdown table, with intervals, the original and the oracle below, and what
    was refused.

    Args:
        report: A board.
        without: Columns to leave out.
        bare: Columns to write without their intervals.

    Returns:
        Markdown.
    """
    names = [name for name in main_columns(report) if name not in without]
    lines = [f"Ranked by {RANKED_BY[report.rank]}.", ""]
    lines += [_line(["#", "method", *map(head_of, names)])]
    lines += [_line(["--:", "---", *("--:" for _ in names)])]
    for row in report.rows:
        if row.metrics:
            place = "" if row.rank is None else str(row.rank)
            cells = [
                number(row.metrics[name], METRICS[name])
                if name in bare and name in row.metrics
                else with_interval(row.metrics.get(name), name)
                for name in names
            ]
            lines.append(_line([place, _escape(title_of(row)), *cells]))
    reasons = {row.name: reason(row, RANKING[report.rank]) for row in report.rows}
    stated = [
        f"- {_escape(plain(name))}: {_escape(plain(why, 300))}"
        for name, why in reasons.items()
        if why
    ]
    if stated:
        lines += ["", "Not ranked:", "", *stated]
    if report.published:
        heads = ["model", "number", "published", "here", "here minus published"]
        lines += ["", "Published numbers beside these:", "", _line(heads)]
        lines += [_line(["---", "---", "--:", "--:", "--:"])]
        lines += [_line([_escape(text) for text in line]) for line in published_cells(report)]
    return "\n".join(lines) + "\n"


def published_cells(report: LeaderboardReport) -> list[list[str]]:
    """Model, number, what others report, what came out here (with its interval), and the
    difference.
    """
    rows = {row.name: row for row in report.rows}
    lines = []
    for other in report.published:
        ours = rows[other.model].metrics.get(other.metric) if other.model in rows else None
        label, digits, here, gap = plain(other.metric), 3, NONE, NONE
        if metric := METRICS.get(other.metric):
            label, digits, here = metric.label, metric.digits, with_interval(ours, other.metric)
            gap = NONE if ours is None else signed(ours.value - other.value, digits)
        lines.append([plain(other.model), label, fixed(other.value, digits), here, gap])
    return lines


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    for letter in "\\|<>*_`[]":
        text = text.replace(letter, f"\\{letter}")
    return text
