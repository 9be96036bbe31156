"""``docs/leaderboard.md`` from leaderboards that were run: ``python -m benchmarks.leaderboard docs/leaderboard.md JSON...``.

Each JSON is the leaderboard.json of ``unplug leaderboard``, or what ``benchmarks.ablation`` wrote. Nothing in the page is typed
in by hand but what it explains.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

from unplug.core import NONE, atomic_path, percent, read_json, seconds
from unplug.sdk.report import leaderboard_markdown, number
from unplug.sdk.studies.leaderboard import METRICS, PROTOCOLS, LeaderboardReport, Measure, all_methods, read_leaderboard

from .ablation import SCHEMA as ABLATION
from .ablation import ablation_markdown

OWN = "lens"
UNPLACED = (
    "score_gap",
    "test_accuracy_gap",
    "test_mae_gap",
    "compute",
    "wall",
    "wall_s",
)  # differences from what is there, and costs
RECIPE = ("size", "image_size", "epochs")  # what the command can change of a recipe

HEAD = """# Leaderboards

`unplug leaderboard --protocol NAME --out DIR` runs every method on the same data, split, originals and budget, and
ranks them. Seeds stand at three levels: K originals of different training seeds, N retrained models (the oracle), and N
unlearned models per method, spread over the originals; folds, draws and splits of the evaluation have seeds of their
own, and the spread between them is in the JSON. Intervals are 95 %: of means with models of one original as one cluster, of
scores and attacks by bootstrap over subjects and clusters (34 draws for each of three seeds, whose limits are averaged).

A second call does only what is missing, so more models, more methods or other settings can be added later; results are
in `DIR/models`, one file a model. They are known by method, settings, budget and seeds: after a change to a method's
*code*, remove its files there. A method that was refused (over budget, or it needs what is not there) is shown with the
reason and has no rank; so is one that had a larger budget than the others. Runs that took too long by the clock are tried
again by the next call: the machine may be quieter.

**Read F / F_null, not F.** Perfect unlearning does not score 1: two sets of retrained models are told apart by chance
about as often as F_null says. Wherever a column has the oracle's value as its aim, both sides of it are worse: an attack
that does *worse* than on the oracle shows that the forget set stands out.

Attacks compare the forget set with unseen samples of the same age groups or classes, in the forget set's proportions
(the largest such part of the test set, drawn anew per evaluation seed). Forget samples of a group that no unseen sample
has are left out.

| number | what it is | better |
|---|---|---|
"""


def page(reports: list[LeaderboardReport]) -> str:
    """The whole of docs/leaderboard.md, from the JSON of its runs."""
    lines = [
        f"| {item.label}{f', {item.unit}' if item.unit else ''} | {_cell(item.says)} | {item.better} |"
        for item in METRICS.values()
    ]
    return HEAD + "\n".join(lines) + "\n" + "".join(_section(report) for report in reports)


def _section(report: LeaderboardReport) -> str:
    forget, seeds = report.forget, report.seeds
    groups = ", ".join(f"{name}: {count}" for name, count in dict(forget.get("groups", {})).items())
    facts = (
        f"Data `{report.data.get('spec')}`; forget set: {forget.get('samples')} samples, {forget.get('subjects')} subjects "
        f"({groups}). {len(seeds['originals'])} originals, {len(seeds['retrained'])} retrained models, as many unlearned ones "
        f"per method: {report.recipe['size']} at {report.recipe['image_size']} px, {report.recipe['epochs']} epochs. One "
        f"retraining took {seconds(float(report.retraining['wall_s']))} on {report.data.get('device')}."
    )
    notes = "".join(f"\n{note}\n" for note in report.notes)
    command = f"```console\n{command_of(report)}\n```\n"
    table = leaderboard_markdown(report) + published_gap(report) + standing(report)
    return f"\n## {report.protocol}\n\n{report.summary}\n\n{command}\n{facts}\n{notes}\n{table}"


def published_gap(report: LeaderboardReport) -> str:
    """Why the starting kit's numbers are others here."""
    if report.protocol != "starting-kit":
        return ""
    said = {row.name: percent(row.metrics["test_accuracy"].value, 0) for row in report.rows if "test_accuracy" in row.metrics}
    original, tuned, oracle = (said.get(name, NONE) for name in ("original", "finetune", "retrained"))
    gone, kept = int(report.forget["samples"]), int(report.data["retain"])
    unseen = int(report.data["test"]) + int(report.data["validation"])
    return f"""
Why they differ. The published networks saw 50,000 pictures; these saw {gone + kept:,} JPEG copies (by name the first
{(gone + kept) // 10} of every class in train and the first {unseen // 10} in test), which two cores can train five times
in half an hour. With fewer pictures the gap between training and test is wider (test accuracy of the original: {original}), and
that gap is what the attack reads. The kit's fine-tuning (SGD 0.1) has
{5 * math.ceil(kept / 128)} steps in its five epochs instead of some 1,800; it ends at {tuned} where retraining has {oracle}:
the attack is gone with the skill. The retrained models' value is the attack's own zero; {gone} forget samples leave it that
much noise.
"""


def standing(report: LeaderboardReport) -> str:
    """Where our own method stands by every number, not by the ranking's alone; a wrecked model may lead by some."""
    ranked = {row.name: row.metrics for row in report.rows if row.rank is not None}
    if OWN not in ranked or len(ranked) < 2:
        return ""
    lines = []
    for name, metric in METRICS.items():
        found = {method: metrics[name] for method, metrics in ranked.items() if name in metrics}
        if OWN not in found or name in UNPLACED:
            continue
        order = sorted(found, key=lambda method: (_badness(found[method], metric.better), method))
        oracle = NONE if found[OWN].oracle is None else number(replace(found[OWN], value=found[OWN].oracle), metric)
        best = f"{order[0]}, {number(found[order[0]], metric)}"
        lines.append(
            f"| {metric.label} | {metric.better} | {order.index(OWN) + 1} | {number(found[OWN], metric)} | {best} | {oracle} |"
        )
    head = f"\n### Where `{OWN}` stands among the {len(ranked)} ranked methods, by every number\n\n"
    return head + f"| number | better | place | {OWN} | best | oracle |\n|---|---|--:|--:|---|--:|\n" + "\n".join(lines) + "\n"


def _badness(item: Measure, better: str) -> float:
    if better == "oracle":
        return abs(item.value - item.oracle) if item.oracle is not None else math.inf
    return item.value if better == "lower" else -item.value


def command_of(report: LeaderboardReport) -> str:
    """The command that makes a report again; settings that were given with --set are in the report's rows."""
    protocol = PROTOCOLS.get(report.protocol)
    usual, settings, seeds = protocol.recipe.to_dict(), report.settings, report.seeds
    ran = [row.name for row in report.rows if row.role == "unlearned"]
    options = {
        "data": None if report.data["spec"] == protocol.default_data else report.data["spec"],
        "methods": None if set(ran) == set(all_methods()) else ",".join(sorted(ran)),
        "models": len(seeds["retrained"]),
        "originals": len(seeds["originals"]),
        "budget": None if settings["budget"] == protocol.budget else settings["budget"],
        **{name: value for name in RECIPE if (value := report.recipe.get(name)) != usual[name]},
        "challenge-rule": None if settings["challenge_rule"] == "code" else settings["challenge_rule"],
        "seed": seeds["split"][0] or None,
    }
    given = [f"--{name.replace('_', '-')} {value}" for name, value in options.items() if value is not None]
    return " ".join(["unplug leaderboard --protocol", report.protocol, *given, "--out DIR"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(out: Path, sources: list[Path]) -> None:
    """Reads the reports and writes the page, ablations last."""
    ablations = [path for path in sources if read_json(path).get("schema") == ABLATION]
    reports = [read_leaderboard(path) for path in sources if path not in ablations]
    _write(out, page(reports) + "".join(ablation_markdown(read_json(path)) for path in ablations))


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
