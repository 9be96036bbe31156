"""The tables of docs/results/leaderboard.md: a board's ranking, what stands next to it, and our own
method's place by every number.
"""

from __future__ import annotations

import math
from dataclasses import replace

from unplug.core import NONE

from . import METRICS, LeaderboardReport, Measure
from .cells import head_of, leaderboard_markdown, number, title_of

OWN = "lens"
UNPLACED = ("score_gap", "test_accuracy_gap", "test_mae_gap", "compute", "wall", "wall_s")
"""Differences from what is there, and costs."""
LEFT_OUT = ("f", "phi_sd", "wall")
"""Columns of the command's ranking that the page does not show; the JSON has them."""
BARE = ("score", "phi_shift", "compute")
"""Columns of the page without their intervals."""
BESIDE = (
    "loss_auc",
    "rmia_auc",
    "ulira_auc",
    "two_versions_auc",
    "relearn",
    "test_ratio",
    "wall_s",
)


def board_markdown(report: LeaderboardReport) -> str:
    """A board's ranking, and what stands next to it."""
    ranking = leaderboard_markdown(report, without=LEFT_OUT, bare=BARE)
    return ranking + numbers(report) + standing(report)


def numbers(report: LeaderboardReport) -> str:
    """What stands beside the ranking: attacks and the retain side, without intervals, which are in
    the JSON.
    """
    there = [name for name in BESIDE if any(name in row.metrics for row in report.rows)]
    if not there:
        return ""
    heads = [head_of(name) for name in there]
    lines = [f"| method | {' | '.join(heads)} |", f"|---|{'--:|' * len(heads)}"]
    for row in report.rows:
        cells = [
            number(row.metrics[name], METRICS[name]) if name in row.metrics else NONE
            for name in there
        ]
        if row.metrics:
            lines.append(f"| {title_of(row)} | {' | '.join(cells)} |")
    head = (
        "\nAttacks, accuracy and time. An attack should do as well as on the retrained models. "
        "More numbers and all intervals are in the JSON.\n\n"
    )
    return head + "\n".join(lines) + "\n"


def standing(report: LeaderboardReport) -> str:
    """Where our own method stands by every number, not by the ranking's alone; a wrecked model may
    lead by some.
    """
    ranked = {row.name: row.metrics for row in report.rows if row.rank is not None}
    if OWN not in ranked or len(ranked) < 2:
        return ""
    lines = []
    for name, metric in METRICS.items():
        measures = {method: metrics[name] for method, metrics in ranked.items() if name in metrics}
        if OWN not in measures or name in UNPLACED:
            continue
        order = sorted(
            measures, key=lambda method: (_badness(measures[method], metric.better), method)
        )
        aim = measures[OWN].oracle
        oracle = NONE if aim is None else number(replace(measures[OWN], value=aim), metric)
        best = f"{order[0]}, {number(measures[order[0]], metric)}"
        lines.append(
            f"| {metric.label} | {metric.better} | {order.index(OWN) + 1} | "
            f"{number(measures[OWN], metric)} | {best} | {oracle} |"
        )
    head = f"\n### Where `{OWN}` stands among the {len(ranked)} ranked methods, by every number\n\n"
    return (
        head
        + f"| number | better | place | {OWN} | best | oracle |\n|---|---|--:|--:|---|--:|\n"
        + "\n".join(lines)
        + "\n"
    )


def _badness(item: Measure, better: str) -> float:
    if better == "oracle":
        return abs(item.value - item.oracle) if item.oracle is not None else math.inf
    return item.value if better == "lower" else -item.value
