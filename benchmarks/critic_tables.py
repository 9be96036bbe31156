"""``python -m benchmarks.critic_tables``: the tables of docs/attacks.md, of the committed run of `benchmarks.critic`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

FILE = Path(__file__).parents[1] / "docs" / "data" / "critic.json"
ORDINARY = ("original", "msg", "finetune", "retrained")
"""Columns of `benchmarks.critic`; those of `benchmarks.critic_models` stand in its JSON."""
MODELS = ("critic-demo.json", "critic-utkface.json")
"""Of `benchmarks.critic_models`, beside `FILE`."""
DESIGNED = {"original": "closed-form", "unlearned": "closed-form, forgot", "retrained": "closed-form, refitted"}


def attack_markdown(facts: Mapping[str, Any]) -> str:
    """AUC of every attack on every model; the difference to the oracle's stands below in bold where it is surely not zero."""
    cells: dict[tuple[str, str, str], str] = {}
    for row in facts["attacks"]:
        cells[row["design"], row["model"], row["attack"]] = _against(row["auc"], row["minus_retrained"])
    ordinary = facts.get("columns", ORDINARY)
    designed = DESIGNED if any(row["design"] == "closed-form" for row in facts["models"]) else {}
    columns = [("none", name) for name in ordinary] + [("closed-form", name) for name in designed]
    names = sorted({attack for _, _, attack in cells})
    head = ["attack", *ordinary, *designed.values()]
    lines = [_line(head), f"|---|{'--:|' * len(columns)}"]
    lines += [_line([f"`{name}`", *(cells.get((*column, name), "") for column in columns)]) for name in names]
    return "\n".join([*lines, *_model_lines(facts, columns)])


def _model_lines(facts: Mapping[str, Any], columns: Sequence[tuple[str, str]]) -> list[str]:
    """Shares used and use, in the same columns."""
    rows = {(row["design"], row["model"]): row for row in facts["models"]}
    found = []
    for label, part in (("share of the forget set used", "forget"), ("share of the retain set used", "retain")):
        shares = [rows[column]["usage"] for column in columns]
        if not any(shares):
            continue
        found.append(_line([label, *("" if item is None else _span(item[part], 2) for item in shares)]))
    found.append(_line(["test MAE, years", *(f"{rows[column]['test_mae']['value']:.2f}" for column in columns)]))
    return found


def _against(auc: Mapping[str, float], gap: Mapping[str, float] | None) -> str:
    """The AUC, in bold where its difference to the oracle's has an interval without zero."""
    text = f"{auc['value']:.3f}"
    if gap is None or gap["low"] is None or gap["low"] <= 0 <= gap["high"]:
        return text
    return f"**{text}**"


def batch_markdown(facts: Mapping[str, Any]) -> str:
    """Two versions of the exact design: deletions in batches."""
    lines = [
        "| people forgotten in one step | steps | `two-versions` | `head-difference` | new file alone (`task-loss`) | "
        "reconstruction, cosine | nearest picture is hers |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in facts["remedies"]["batches"]:
        measured = ("two-versions", "head-difference", "new file alone", "reconstruction cosine")
        numbers = [_span(row[name], 2) for name in measured]
        first = f"{100 * row['reconstruction first']['value']:.0f} %"
        lines.append(_line([str(row["people"]), str(row["draws"]), *numbers, first]))
    return "\n".join(lines)


def noise_markdown(facts: Mapping[str, Any]) -> str:
    """The same with noise on the new head, five people a step."""
    lines = ["| noise on the head | `two-versions` | `head-difference` | test MAE, years |", "|--:|--:|--:|--:|"]
    for row in facts["remedies"]["noise"]:
        numbers = [_span(row[name], 2) for name in ("two-versions", "head-difference", "test MAE")]
        lines.append(_line([f"{100 * row['noise']:g} %", *numbers]))
    return "\n".join(lines)


def canary_markdown(facts: Mapping[str, Any]) -> str:
    """The lower bound on epsilon of every method and budget."""
    lines = ["| model | budget | guessed right | epsilon, at least |", "|---|--:|--:|--:|"]
    for row in facts["canaries"]["rows"]:
        budget = "" if row["budget"] is None else f"{100 * row['budget']:g} %"
        lines.append(_line([row["model"], budget, f"{row['correct']} of {row['guesses']}", f"{row['epsilon']:.2f}"]))
    return "\n".join(lines)


def _span(item: Mapping[str, float], digits: int) -> str:
    text = f"{item['value']:.{digits}f}"
    return text if item["low"] is None else f"{text} ({item['low']:.{digits}f} to {item['high']:.{digits}f})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


@click.command()
def main() -> None:
    """Prints the tables of docs/attacks.md, in their order there, from the JSON of `benchmarks.critic`."""
    facts = json.loads(FILE.read_text(encoding="utf-8"))
    for table in (attack_markdown, batch_markdown, noise_markdown, canary_markdown):
        click.echo(f"{table(facts)}\n")
    for name in MODELS:
        click.echo(f"{attack_markdown(json.loads(FILE.with_name(name).read_text(encoding='utf-8')))}\n")


if __name__ == "__main__":
    main()
