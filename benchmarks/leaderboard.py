"""``docs/leaderboard.md`` from leaderboards that were run: ``python -m benchmarks.leaderboard docs/leaderboard.md JSON...``.

Each JSON is the leaderboard.json of ``unplug leaderboard``, or what ``benchmarks.tune`` or ``benchmarks.ablation``
wrote. Nothing in the page is typed in by hand but what it explains.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from scipy.stats import kendalltau

from unplug.core import NONE, atomic_path, read_json, seconds
from unplug.sdk.report import interval_note, leaderboard_markdown, number, title_of
from unplug.sdk.studies.leaderboard import METRICS, PROTOCOLS, LeaderboardReport, Measure, all_methods, read_leaderboard

from .ablation import SCHEMA as ABLATION
from .ablation import ablation_markdown
from .exact_designs import SCHEMA as DESIGNS
from .exact_designs import designs_markdown
from .photograph_cost import SCHEMA as PHOTOGRAPHS
from .photograph_cost import photographs_markdown
from .requests_in_row import SCHEMA as REQUESTS
from .requests_in_row import requests_markdown
from .tune import SCHEMA as TUNING
from .tune import tuning_markdown

OWN = "lens"
UNPLACED = (
    "score_gap",
    "test_accuracy_gap",
    "test_mae_gap",
    "compute",
    "wall",
    "wall_s",
)  # differences from what is there, and costs
SOURCES = (
    "leaderboard-people.json", "leaderboard-people-10.json", "leaderboard-people-20.json", "leaderboard-people-others.json",
    "leaderboard-people-wide.json", "leaderboard-people-nano.json", "leaderboard-people-youngest.json",
    "leaderboard-people-remembered.json", "leaderboard-designs.json", "leaderboard-requests.json",
    "tuning.json", "leaderboard-utkface.json", "leaderboard-photographs.json", "ablation.json",
)  # fmt: skip
"""What docs/leaderboard.md is made of, in docs/data."""
EXACT = "retrain@exact"
DETAILED = ("people",)
FAMILY = ("people", "people-wide")
"""Boards of the same people; settings were tuned for the first of them."""
BESIDE = (
    "loss_auc", "rmia_auc", "ulira_auc", "views_auc", "two_versions_auc", "rounded_auc", "relearn", "retain_mae_gap",
    "retain_ratio", "test_ratio", "wall_s",
)  # fmt: skip
ORDERS = ("score", "f_ratio", "phi_shift", "loss_auc", "rmia_auc", "ulira_auc", "klom_forget", "test_mae_gap")
RECIPE = ("size", "image_size", "epochs")  # what the command can change of a recipe

HEAD = """# Leaderboards

`unplug leaderboard --protocol NAME --out DIR` runs every method on the same data, split, originals and budget, and
ranks them. Seeds stand at three levels: K originals of different training seeds, N retrained models (the oracle), and N
unlearned models per method, spread over the originals; folds, draws and splits of the evaluation have seeds of their
own, and the spread between them is in the JSON. Intervals are 95 %: of means with models of one original as one cluster, of
scores and attacks by bootstrap over subjects and clusters (34 draws for each of three seeds, whose limits are averaged).

A second call does only what is missing, so more models, more methods or other settings can be added later; results are
in `DIR/models`, one file a model, small networks with their weights. They are known by method, settings, budget and seeds:
after a change to a method's *code*, remove its files there. A method that was refused (over budget, or it needs what is not
there) is shown with the reason and has no rank; so is one that had a larger budget than the others, and a method that stands
there once more with other settings (`msg@published`). Runs that took too long by the clock are tried again by the next call:
the machine may be quieter. `--forget FILE` takes a forget set of your own in the place of the protocol's.

**Read F / F_null, not F.** Perfect unlearning does not score 1: two sets of retrained models are told apart by chance
about as often as F_null says. Wherever a column has the oracle's value as its aim, both sides of it are worse: an attack
that does *worse* than on the oracle shows that the forget set stands out.

Attacks compare the forget set with unseen samples of the same age groups or classes, in the forget set's proportions
(the largest such part of the test set, drawn anew per evaluation seed). Forget samples of a group that no unseen sample
has are left out.

| number | what it is | better |
|---|---|---|
"""

OTHERS = """
## A method of your own on a board

As an entry point of the group `unplug.methods` ([methods](methods.md)) it is run, metered and ranked like all others:

```console
unplug leaderboard --protocol people --methods finetune,msg --out DIR
```

As a folder of predictions it stays where it is. The first line writes the originals of a finished board as checkpoints
(`unplug forget` takes them), and `split.json` with the ids to forget, to retain and to answer for; the second scores
the answers of the models that were unlearned from them, and writes `DIR/submission-NAME.json` with a row beside the
board's:

```console
unplug leaderboard --protocol people --out DIR --models-out originals
unplug leaderboard --protocol people --out DIR --submission my-method
```

`my-method` holds one `original-SEED.safetensors` or `.npz` for every original: `logits` (N, G), `age` (N,) in years,
and the N ids (of a safetensors file as JSON in its metadata, under `ids`), of all samples of `answer` in any order. The
row has no rank, since what the method cost was not measured; it says which place the score would have. Refused, with
the reason and the number needed: answers for other samples, values that are not numbers, a model given twice, an
original left out, a board of under four originals, files with labels in them, and answers on the test set that are
better than those of every model of the board by more than three standard deviations between them: whoever knows it that
well has read it. All models of a board of small networks lie in `DIR/models`.
"""

LACKS = """
### What this board does not have

Drawn faces alone, and at 32 pixels: `small` at 64 pixels on photographs is beyond two hardware threads (below). Boards
beside the first have fewer originals (8 to 32), so wider intervals, and F on another scale; settings were tuned for the first
and for its 5 %.
The budget is of compute; wall times are shown. The methods are tuned for the score, which is F times
accuracies and not years: read the error and the shift of phi beside it.
"""
UNTUNED = (
    "The first five of the ranking and exact retraining, with the settings that were tuned for the first board, not again."
)
SCALES = "Scores of unequal numbers of models are on different scales; their orders can be compared."
VARIANTS = {
    "people-wide": ("A larger network", "The same network with twice the channels, three times the weights."),
    "nano": ("Another network", "`nano`, the smallest network that ships (depthwise convolutions), at 32 pixels."),
    "leaderboard-forget-youngest.txt": (
        "The youngest forgotten",
        "As many pictures as on the first board, of the youngest people.",
    ),
    "leaderboard-forget-remembered.txt": (
        "The most remembered forgotten",
        "As many pictures, of the people of whom models that saw them are surest beside models that did not: 32 models of "
        "person folds say so, none of which is on any board (benchmarks/forget_sets.py).",
    ),
}
"""Title and what differs, by protocol, size or forget file."""
EARLIER = """
**Of before the common budget of tuning.** The other methods had about four hand-picked trials each, ours was designed on such
boards, and sixteen models come from four originals: this board says less than the first one.
"""


def page(reports: list[LeaderboardReport], more: dict[str, dict[str, Any]]) -> str:
    """The whole of docs/leaderboard.md but the ablation, from the JSON of its runs.

    Args:
        reports: the board that ranks first, then it again in other settings, then others.
        more: what else was run on the first, by its schema.
    """
    lines = [
        f"| {item.label}{f', {item.unit}' if item.unit else ''} | {_cell(item.says)} | {item.better} |"
        for item in METRICS.values()
    ]
    main, *others = reports
    text = _section(main)
    for schema, write in ((DESIGNS, designs_markdown), (TUNING, tuning_markdown)):
        text += write(more[schema]) if schema in more else ""
    text += "".join(again(main, report) for report in others if _family(main, report))
    text += requests_markdown(more[REQUESTS]) if REQUESTS in more else ""
    rest = [_section(report) for report in others if not _family(main, report)]
    cost = photographs_markdown(more[PHOTOGRAPHS]) if PHOTOGRAPHS in more else ""
    return HEAD + "\n".join(lines) + "\n" + OTHERS + text + LACKS + "".join(rest) + cost


def _family(main: LeaderboardReport, report: LeaderboardReport) -> bool:
    return report.protocol == main.protocol or {main.protocol, report.protocol} <= set(FAMILY)


def again(main: LeaderboardReport, report: LeaderboardReport) -> str:
    """The first board once more: another network, other people forgotten, a larger budget, or other people altogether."""
    budget, count = 100 * float(report.settings["budget"]), len(report.seeds["retrained"])
    command, file = f"```console\n{command_of(report)}\n```\n", str(report.forget.get("file", ""))
    if file or report.protocol != main.protocol or report.recipe["size"] != main.recipe["size"]:
        title, what = next((own for key, own in VARIANTS.items() if key in (report.protocol, file, report.recipe["size"])))
        ages = ", ".join(f"{name}: {number}" for name, number in dict(report.forget["groups"]).items())
        return (
            f"\n### {title}\n\n{first(report)}{what} {UNTUNED} {report.forget['samples']} samples of "
            f"{report.forget['subjects']} people are forgotten ({ages}); {count} originals, {count} retrained models. By "
            f"score: {_order(report)}; on the first board: {_order(main, {row.name for row in report.rows})}. {SCALES}\n\n"
            f"{command}\n{leaderboard_markdown(report)}"
        )
    if report.data["spec"] == main.data["spec"]:
        head = (
            f"\n### With {budget:g} % of retraining\n\nThe first five of the ranking, the same originals and retrained models, "
            f"and the settings that were tuned for {100 * float(main.settings['budget']):g} %.\n\n"
        )
        return head + command + "\n" + leaderboard_markdown(report)
    taus = [(METRICS[name].label, *stability(main, report, name)) for name in ORDERS]
    said = ", ".join(f"{label} {tau:.2f}" for label, tau, _ in taus)
    ranked = [row for row in report.rows if row.rank is not None]
    best = ", ".join(f"`{row.name}` ({number(row.metrics['score'], METRICS['score'])})" for row in ranked[:5])
    own = next((f"; `{OWN}` is place {row.rank}" for row in ranked if row.name == OWN), "")
    return (
        f"\n### On other people\n\nThe same methods and settings on `{report.data['spec']}`, on which nothing was tuned, "
        f"{count} originals and {count} retrained models:\n\n{command}\nThe first five by score: {best}{own}. Kendall's tau "
        f"between the two orders, over {taus[0][2]} methods: {said}. Scores of {count} and of {len(main.seeds['retrained'])} "
        "models are on different scales; their orders can be compared.\n"
    )


def _order(report: LeaderboardReport, among: set[str] | None = None) -> str:
    """Ranked methods from the best on, of those that are asked for."""
    return ", ".join(f"`{row.name}`" for row in report.rows if row.rank is not None and (among is None or row.name in among))


def _section(report: LeaderboardReport) -> str:
    forget, seeds = report.forget, report.seeds
    groups = ", ".join(f"{name}: {count}" for name, count in dict(forget.get("groups", {})).items())
    facts = (
        f"Data `{report.data.get('spec')}`; forget set: {forget.get('samples')} samples, {forget.get('subjects')} subjects "
        f"({groups}). {len(seeds['originals'])} originals, {len(seeds['retrained'])} retrained models, as many unlearned ones "
        f"per method: {report.recipe['size']} at {report.recipe['image_size']} px, {report.recipe['epochs']} epochs. One "
        f"retraining took {seconds(float(report.retraining['wall_s']))} on {report.data.get('device')}."
    )
    earlier = "" if report.protocol in DETAILED else EARLIER
    notes = "".join(f"\n{note}\n" for note in report.notes)
    command = f"```console\n{command_of(report)}\n```\n"
    table = leaderboard_markdown(report) + numbers(report) + agreement(report) + standing(report)
    return f"\n## {report.protocol}\n\n{first(report)}{report.summary}\n{earlier}\n{command}\n{facts}\n{notes}\n{table}"


def first(report: LeaderboardReport) -> str:
    """Where our own method does not lead, before anything else is said; and whether an exact method scores as it has to."""
    ranked = {row.rank: row for row in report.rows if row.rank is not None}
    own = next((row for row in ranked.values() if row.name == OWN), None)
    lines = []
    if own is not None and own.rank != 1 and "score_gap" in own.metrics:
        gap = own.metrics["score_gap"]
        away = "" if gap.high is not None and gap.high < 0 else ", which chance may explain"
        lines.append(
            f"**Ours does not lead.** `{OWN}` is place {own.rank} of {len(ranked)}; the first is `{ranked[1].name}`, and the "
            f"difference of their scores is {_with_interval('score_gap', gap)}{away}."
        )
    again = None if own is None else own.metrics.get("relearn")
    if again is not None and again.oracle is not None and again.high is not None and again.high < again.oracle:
        lines.append(
            f"**Ours leaves traces.** After {_with_interval('relearn', again)} epochs of fine-tuning on the forget set `{OWN}` "
            f"has the original's loss on it back; a retrained model needs {again.oracle:.1f}."
        )
    exact = next((row for row in report.rows if row.name == EXACT), None)
    if exact is not None and "f_ratio" in exact.metrics:
        lines.append(
            f"The board's check of itself: {exact.models} more models that were retrained, entered as if they were a method "
            f"(`{EXACT}`), have F / F_null {_with_interval('f_ratio', exact.metrics['f_ratio'])} and a shift of phi of "
            f"{_with_interval('phi_shift', exact.metrics['phi_shift'])}."
        )
    return "".join(f"{line}\n\n" for line in lines)


def _with_interval(name: str, item: Measure) -> str:
    note = interval_note(item, METRICS[name])
    return number(item, METRICS[name]) + (f" ({note})" if note else "")


def numbers(report: LeaderboardReport) -> str:
    """What stands beside the ranking: attacks and the retain side, without intervals, which are in the JSON."""
    there = [name for name in BESIDE if any(name in row.metrics for row in report.rows)]
    if not there or report.protocol not in DETAILED:
        return ""
    heads = [METRICS[name].label + (f" ({METRICS[name].unit})" if METRICS[name].unit else "") for name in there]
    lines = [f"| method | {' | '.join(heads)} |", f"|---|{'--:|' * len(heads)}"]
    for row in report.rows:
        cells = [number(row.metrics[name], METRICS[name]) if name in row.metrics else NONE for name in there]
        if row.metrics:
            lines.append(f"| {title_of(row)} | {' | '.join(cells)} |")
    head = "\nBeside the ranking (intervals are in the JSON); of attacks the retrained models' value is the aim:\n\n"
    return head + "\n".join(lines) + "\n"


def agreement(report: LeaderboardReport) -> str:
    """Kendall's tau between the orders that different numbers give the ranked methods."""
    ranked = [row for row in report.rows if row.rank is not None]
    names = [name for name in ORDERS if all(name in row.metrics for row in ranked)]
    if len(ranked) < 5 or len(names) < 2 or report.protocol not in DETAILED:
        return ""
    values = {name: [_badness(row.metrics[name], METRICS[name].better) for row in ranked] for name in names}
    lines = [f"| | {' | '.join(METRICS[name].label for name in names)} |", f"|---|{'--:|' * len(names)}"]
    for name in names:
        cells = [f"{float(kendalltau(values[name], values[other]).statistic):.2f}" for other in names]
        lines.append(f"| {METRICS[name].label} | {' | '.join(cells)} |")
    head = f"\nDo the numbers agree? Kendall's tau between the orders of the {len(ranked)} ranked methods:\n\n"
    return head + "\n".join(lines) + "\n"


def stability(one: LeaderboardReport, other: LeaderboardReport, name: str) -> tuple[float, int]:
    """Kendall's tau of one number between two boards, and over how many methods."""
    both = [
        (row.metrics[name], other.row(row.name).metrics[name])
        for row in one.rows
        if row.rank is not None and any(item.name == row.name and name in item.metrics for item in other.rows)
    ]
    bad = [[_badness(item, METRICS[name].better) for item in side] for side in zip(*both, strict=True)]
    return float(kendalltau(*bad).statistic), len(both)


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
        "forget": f"docs/data/{report.forget['file']}" if "file" in report.forget else None,
        "methods": _methods(ran),
        "models": len(seeds["retrained"]),
        "originals": len(seeds["originals"]),
        "budget": None if settings["budget"] == protocol.budget else settings["budget"],
        **{name: value for name in RECIPE if (value := report.recipe.get(name)) != usual[name]},
        "settings": "docs/data/leaderboard-settings.json" if report.protocol in FAMILY else None,
        "challenge-rule": None if settings["challenge_rule"] == "code" else settings["challenge_rule"],
        "seed": seeds["split"][0] or None,
    }
    given = [f"--{name.replace('_', '-')} {value}" for name, value in options.items() if value is not None]
    return " ".join(["unplug leaderboard --protocol", report.protocol, *given, "--out DIR"])


def _methods(ran: list[str]) -> str | None:
    """As ``--methods`` takes them; None where all is meant."""
    more, whole = sorted(set(ran) - set(all_methods())), set(ran) >= set(all_methods())
    if not whole:
        return ",".join(sorted(ran))
    return ",".join(["all", *more]) if more else None


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(out: Path, sources: list[Path]) -> None:
    """Reads the reports and writes the page, tuning behind the first board and ablations last."""
    kinds = {path: str(read_json(path).get("schema")) for path in sources}
    beside = (ABLATION, TUNING, REQUESTS, DESIGNS, PHOTOGRAPHS)
    reports = [read_leaderboard(path) for path, kind in kinds.items() if kind not in beside]
    more = {kind: read_json(path) for path, kind in kinds.items() if kind in beside}
    _write(out, page(reports, more) + (ablation_markdown(more[ABLATION]) if ABLATION in more else ""))


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
