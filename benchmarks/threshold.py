"""Whether a threshold holds its limit on people never used, how often it is unsure, and what forgetting and rounding move.

    python -m benchmarks.threshold --training utkface:DIR --people utkface:OTHER --work DIR

A model with 18 among its borders is trained on 70 % of one set of photographs, forgets 2 % of them, and is exported; the oracle
is trained anew without those. Thresholds are fitted on other photographs, of which no model saw any, under whatever name: 200
times on half as many people drawn from them with replacement, so that the share of errors among all of them is the truth of
that draw; and the people who were not drawn are asked as well. Nobody knows who is on UTKFace's photographs: each counts as a
person of her own.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from unplug.core import DataError, versions, write_json
from unplug.export import export_checkpoint
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.assurance import Answers, JudgedModels, Limits, ask, decide, decision_shift, fit_decision
from unplug.sdk.conditions import real_inputs
from unplug.sdk.data import load_dataset, make_split, pick_forget, resolve_names
from unplug.sdk.tasks import train_age
from unplug.sdk.training import Recipe, split_of
from unplug.sdk.unlearning import forget

SIZE, SIDE, EPOCHS = "nano", 64, 12
AGE, DRAWS = 18.0, 200
FRACTION, METHOD, BUDGET = 0.02, "msg", 0.05
ASKED = (
    ("clopper-pearson", 0.01, 0.0), ("clopper-pearson", 0.02, 0.0), ("clopper-pearson", 0.05, 0.0),
    ("conformal", 0.01, 0.0), ("conformal", 0.05, 0.0), ("clopper-pearson", 0.05, 13.0),
)  # fmt: skip
"""Method, limit of minors (adults get as much) and youngest age of minors."""
MARKS = ("<!-- limits -->", "<!-- moved -->")
CPU = torch.device("cpu")


def models(spec: str, work: Path) -> tuple[Checkpoint, Checkpoint, Checkpoint, list[Path]]:
    """The original, the unlearned model, the oracle, and the unlearned one's files; what is in the folder is used again."""
    recipe = Recipe(size=SIZE, image_size=SIDE, epochs=EPOCHS)
    dataset = load_dataset(spec, recipe.image_size)
    if not (work / "original" / "config.json").exists():
        train_age(dataset, make_split(dataset, seed=0), recipe, work / "original", seed=0, device=CPU)
    original = load_checkpoint(work / "original", expect="age")
    names = pick_forget(dataset, make_split(dataset, seed=0), fraction=FRACTION, seed=0)
    ids = resolve_names(names, dataset, "forget set")
    if not (work / "unlearned" / "config.json").exists():
        forget(original, dataset, ids, METHOD, work / "unlearned", budget=BUDGET, seed=0, device=CPU)
    if not (work / "retrained" / "config.json").exists():
        forget(original, dataset, ids, "retrain", work / "retrained", seed=0, device=CPU)
    unlearned, retrained = (load_checkpoint(work / name, expect="age") for name in ("unlearned", "retrained"))
    if not (work / "files").exists():
        calibration = real_inputs(unlearned, dataset, 128, part="retain")
        export_checkpoint(
            unlearned.path, targets=("litert",), precisions=("fp32", "int8-static"), out=work / "files", calibration=calibration
        )
    return original, unlearned, retrained, sorted((work / "files").glob("*.tflite"))


def limits_of(method: Any, limit: float, youngest: float) -> Limits:
    """What a threshold is asked to hold in one row of the table: the same limit for minors and for adults."""
    return Limits(age=AGE, max_fpr=limit, max_fnr=limit, method=method, minors_from=youngest)


def held(answers: Answers, limits: Limits) -> dict[str, Any]:
    """How often the limits are exceeded over draws of half as many people, and how often a model is unsure."""
    people, over_N = answers.people, answers.over(AGE)
    minor_N = (people.age_N < AGE) & (people.age_N >= limits.minors_from)
    adult_N = people.age_N >= AGE
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(DRAWS):
        drawn = rng.integers(0, len(people), len(people) // 2)
        rule = fit_decision(over_N[drawn], people.age_N[drawn], drawn, limits).decision
        left_N = np.ones(len(people), bool)
        left_N[drawn] = False
        over, under = over_N >= rule.over_from, over_N <= rule.under_to
        rows.append(
            [
                over[minor_N].mean(), under[adult_N].mean(), over[minor_N & left_N].mean(), under[adult_N & left_N].mean(),
                (~over & ~under)[minor_N & left_N].mean(), (~over & ~under)[adult_N & left_N].mean(),
                over[adult_N & left_N].mean(),
            ]
        )  # fmt: skip
    minors, adults, *never = np.array(rows).T
    names = ("minors_over", "adults_under", "minors_unsure", "adults_unsure", "adults_over")
    return {
        "minors": int(minor_N.sum()), "adults": int(adult_N.sum()), "draws": DRAWS, "people_a_draw": len(people) // 2,
        "exceeded": {"minors": float((minors > limits.max_fpr).mean()), "adults": float((adults > limits.max_fnr).mean())},
        "never_used": {name: float(values.mean()) for name, values in zip(names, never, strict=True)},
    }  # fmt: skip


def limits_table(facts: dict[str, Any]) -> str:
    """Limits, how often they were exceeded, and answers."""
    lines = [
        "| model | method | limit | minors | exceeded: minors | adults | people not drawn: minors over | minors unsure "
        "| adults over | adults unsure | adults under |",
        "|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in facts["limits"]:
        said, who = row["never_used"], "all" if not row["minors_from"] else f"from {row['minors_from']:g}"
        shares = [row["exceeded"]["minors"], row["exceeded"]["adults"]]
        shares += [said[name] for name in ("minors_over", "minors_unsure", "adults_over", "adults_unsure", "adults_under")]
        cells = [row["model"], row["method"], f"{100 * row['limit']:g} %", f"{who} ({row['minors']})"]
        lines.append(f"| {' | '.join([*cells, *(f'{100 * share:.1f} %' for share in shares)])} |")
    return "\n".join(lines) + "\n"


def moved_table(facts: dict[str, Any]) -> str:
    """What forgetting and rounding moved, at the original's rule."""
    lines = ["| step | minors called over | adults called under | calibration error |", "|---|---|---|---|"]
    for row in facts["moved"]:
        cells = [
            f"{100 * item['value']:+.2f} ({100 * item['low']:+.2f} to {100 * item['high']:+.2f}) points"
            for item in (row[name] for name in ("false_positives", "false_negatives", "calibration"))
        ]
        lines.append(f"| {row['step']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--training", required=True, metavar="SPEC", help="What the model is trained on.")
@click.option("--people", "spec", required=True, metavar="SPEC", help="Whom it never saw.")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Models and files; used again.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/data/threshold-utkface.json"), show_default=True)
@click.option("--page", type=click.Path(path_type=Path), default=Path("docs/threshold.md"), show_default=True)
def main(training: str, spec: str, work: Path, out: Path, page: Path) -> None:
    """Trains, forgets, exports, asks and writes JSON and page."""
    original, unlearned, retrained, files = models(training, work)
    answers = ask(JudgedModels(models=[original.path, unlearned.path, retrained.path, *files], data=spec, training=[training]))
    copies = answers[0].people.copies
    if copies is None or copies.why is not None:
        raise DataError(f"data {training}", "its pictures were not all compared", "Give the data of the training")
    facts: dict[str, Any] = {
        "schema": "unplug-threshold-benchmark/1", "training": training.partition(":")[0], "people": answers[0].people.persons,
        "digest": answers[0].people.data["digest"], "apart": answers[0].people.apart, "edges": list(answers[0].edges),
        "copies": asdict(copies), "age": AGE, "epochs": EPOCHS, "size": SIZE, "image_size": SIDE,
        "forgotten": len(split_of(unlearned).forget),
        "method": METHOD, "budget": BUDGET, "fraction": FRACTION,
        "test_mae": {item.path.name: item.record["metrics"]["test"]["mae"] for item in (original, unlearned, retrained)},
        "parameters": answers[0].parameters, "limits": [], "moved": [],
    }  # fmt: skip
    for item in answers:
        for method, limit, youngest in ASKED if item.target is None else ASKED[:1]:
            row = held(item, limits_of(method, limit, youngest))
            facts["limits"].append({"model": item.name, "method": method, "limit": limit, "minors_from": youngest, **row})
            click.echo(facts["limits"][-1])
    record, _ = decide([answers[0]], limits_of(*ASKED[0]))
    first, own, oracle, *rounded = answers
    steps = [
        ("forgetting", first, own),
        ("training anew without them", first, oracle),
        *((f"rounding: {item.name}", own, item) for item in rounded),
    ]
    for step, before, after in steps:
        shift = decision_shift(
            before.over(AGE), after.over(AGE), after.people.age_N, after.people.person_N, record.rule, name=after.name,
            sha256=after.sha256,
        )  # fmt: skip
        facts["moved"].append({"step": step, **asdict(shift)})
    facts["decision"] = asdict(record)
    facts["shipped"] = asdict(decide([own, *rounded], limits_of(*ASKED[0]))[0])
    write_json(out, {**facts, "versions": versions()})
    text = page.read_text(encoding="utf-8")
    for mark, table in zip(MARKS, (limits_table(facts), moved_table(facts)), strict=True):
        before_mark, _, after_mark = text.split(mark)
        text = f"{before_mark}{mark}\n{table}{mark}{after_mark}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
