"""The tables of docs/leaderboard.md: ``python -m benchmarks.studies.leaderboard.document
docs/leaderboard.md BOARD DESIGNS``.

BOARD is the leaderboard.json of ``python -m benchmarks.studies leaderboard``, DESIGNS what
``benchmarks.studies.exact_designs`` wrote. What stands between the markers of the page is
replaced; the rest of it is written by hand.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

from scipy.stats import kendalltau

from benchmarks.pages import filled
from unplug.core import NONE, atomic_path, read_json, seconds

from ..exact_designs import designs_markdown
from . import METRICS, PROTOCOLS, LeaderboardReport, Measure, all_methods, read_leaderboard
from .cells import head_of, leaderboard_markdown, number, title_of, with_interval

OWN = "lens"
UNPLACED = ("score_gap", "test_accuracy_gap", "test_mae_gap", "compute", "wall", "wall_s")
"""Differences from what is there, and costs."""
SOURCES = ("leaderboard-people.json", "leaderboard-designs.json")
"""What docs/leaderboard.md is made of, in docs/data."""
LEFT_OUT = ("f", "phi_sd", "wall")
"""Columns of the command's ranking that the page does not show; the JSON has them."""
BARE = ("score", "phi_shift", "compute")
"""Columns of the page without their intervals."""
EXACT = "retrain@exact"
BESIDE = (
    "loss_auc",
    "rmia_auc",
    "ulira_auc",
    "two_versions_auc",
    "relearn",
    "test_ratio",
    "wall_s",
)
ORDERS = (
    "score",
    "f_ratio",
    "phi_shift",
    "loss_auc",
    "rmia_auc",
    "ulira_auc",
    "klom_forget",
    "test_mae_gap",
)
RECIPE = ("size", "image_size", "epochs")
"""What the command can change of a recipe."""


def metrics_markdown() -> str:
    """What each number is, and which way it is better."""
    lines = ["| number | what it is | better |", "|---|---|---|"]
    for metric in METRICS.values():
        label = f"{metric.label}, {metric.unit}" if metric.unit else metric.label
        lines.append(f"| {label} | {_cell(metric.says)} | {metric.better} |")
    return "\n".join(lines) + "\n"


def board_markdown(report: LeaderboardReport) -> str:
    """A board: its facts, its ranking, and what stands beside it."""
    forget, seeds = report.forget, report.seeds
    groups = ", ".join(f"{name}: {count}" for name, count in dict(forget.get("groups", {})).items())
    facts = (
        f"Data `{report.data.get('spec')}`. The forget set has {forget.get('samples')} samples of "
        f"{forget.get('subjects')} subjects ({groups}). There are {len(seeds['originals'])} "
        f"originals, {len(seeds['retrained'])} retrained models and as many unlearned ones per "
        f"method: {report.recipe['size']} at {report.recipe['image_size']} px, "
        f"{report.recipe['epochs']} epochs. One retraining took "
        f"{seconds(float(report.retraining['wall_s']))} on {report.data.get('device')}."
    )
    notes = "".join(f"\n{note}\n" for note in report.notes)
    command = f"```console\n{command_of(report)}\n```\n"
    ranking = leaderboard_markdown(report, without=LEFT_OUT, bare=BARE)
    table = ranking + numbers(report) + agreement(report) + standing(report)
    return (
        f"\n## {report.protocol}\n\n{first(report)}{report.summary}\n\n{command}\n{facts}\n"
        f"{notes}\n{table}"
    )


def first(report: LeaderboardReport) -> str:
    """Where our own method does not lead, before anything else is said; and whether an exact method
    scores as it has to.
    """
    ranked = {row.rank: row for row in report.rows if row.rank is not None}
    ours = next((row for row in ranked.values() if row.name == OWN), None)
    lines = []
    if ours is not None and ours.rank != 1 and "score_gap" in ours.metrics:
        gap = ours.metrics["score_gap"]
        away = "" if gap.high is not None and gap.high < 0 else ", which chance may explain"
        lines.append(
            f"**Our method does not lead.** `{OWN}` is number {ours.rank} of {len(ranked)}, and "
            f"`{ranked[1].name}` is first. Their scores differ by "
            f"{with_interval(gap, 'score_gap')}{away}."
        )
    again = None if ours is None else ours.metrics.get("relearn")
    if (
        again is not None
        and again.oracle is not None
        and again.high is not None
        and again.high < again.oracle
    ):
        lines.append(
            f"**Our method leaves traces.** `{OWN}` relearns the forget set in "
            f"{with_interval(again, 'relearn')} epochs; a retrained model needs {again.oracle:.1f}."
        )
    exact = next((row for row in report.rows if row.name == EXACT), None)
    if exact is not None and "f_ratio" in exact.metrics:
        lines.append(
            f"The board checks itself: {exact.models} more retrained models, entered as a method "
            f"(`{EXACT}`), have F / F_null {with_interval(exact.metrics['f_ratio'], 'f_ratio')} "
            f"and a shift of phi of {with_interval(exact.metrics['phi_shift'], 'phi_shift')}."
        )
    return "".join(f"{line}\n\n" for line in lines)


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


def agreement(report: LeaderboardReport) -> str:
    """Kendall's tau between the order by the first number and the orders by others."""
    ranked = [row for row in report.rows if row.rank is not None]
    names = [name for name in ORDERS if all(name in row.metrics for row in ranked)]
    if len(ranked) < 5 or len(names) < 2:
        return ""
    values = {
        name: [_badness(row.metrics[name], METRICS[name].better) for row in ranked]
        for name in names
    }
    first, *others = names
    taus = [float(kendalltau(values[first], values[other]).statistic) for other in others]
    label = METRICS[first].label
    return (
        f"\nThe numbers order the {len(ranked)} ranked methods differently. Kendall's tau with the "
        f"order by {label}:\n\n"
        f"| {' | '.join(METRICS[name].label for name in others)} |\n|{'--:|' * len(others)}\n"
        f"| {' | '.join(f'{tau:.2f}' for tau in taus)} |\n"
    )


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


def command_of(report: LeaderboardReport) -> str:
    """The command that makes a report again; settings that were given with --set are in the
    report's rows.
    """
    protocol = PROTOCOLS.get(report.protocol)
    usual, settings, seeds = protocol.recipe.to_dict(), report.settings, report.seeds
    ran = [row.name for row in report.rows if row.role == "unlearned"]
    options = {
        "data": None if report.data["spec"] == protocol.default_data else report.data["spec"],
        "forget": report.forget.get("file"),
        "methods": _methods(ran),
        "models": len(seeds["retrained"]),
        "originals": len(seeds["originals"]),
        "budget": None if settings["budget"] == protocol.budget else settings["budget"],
        **{name: value for name in RECIPE if (value := report.recipe.get(name)) != usual[name]},
        "settings": "docs/data/leaderboard-settings.json"
        if report.protocol in ("people", "people-wide")
        else None,
        "challenge-rule": None
        if settings["challenge_rule"] == "code"
        else settings["challenge_rule"],
        "seed": seeds["split"][0] or None,
    }
    given = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in options.items()
        if value is not None
    ]
    return " ".join(
        [
            "python -m benchmarks.studies leaderboard --protocol",
            report.protocol,
            *given,
            "--out DIR",
        ]
    )


def _methods(ran: list[str]) -> str | None:
    """As ``--methods`` takes them; None where all is meant."""
    more, whole = sorted(set(ran) - set(all_methods())), set(ran) >= set(all_methods())
    if not whole:
        return ",".join(sorted(ran))
    return ",".join(["all", *more]) if more else None


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(page: Path, sources: list[Path]) -> None:
    """Reads a board, and the designs beside it where they are given; writes their tables."""
    text = page.read_text(encoding="utf-8")
    text = filled(text, "metrics", metrics_markdown())
    text = filled(text, "board", board_markdown(read_leaderboard(sources[0])))
    if sources[1:]:
        text = filled(text, "designs", designs_markdown(read_json(sources[1])))
    with atomic_path(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
