"""Section about who might attack: what they hold, what was tried of it, and what was not tested."""

from __future__ import annotations

from unplug.core import count, plain
from unplug.sdk.evidence.auditing import ModelAudit, Threat, threat_model

from .inputs import Inputs
from .models import all_models, main_audit, model_cell, why_no_attacks
from .page import Block, Cell, Column, Missing, Section, Table, estimate_cell, words


def threats(inputs: Inputs) -> Section | Missing:
    """One row for each kind of attacker; then the shares that models still use, and the most
    remembered people.
    """
    audit = main_audit(inputs)
    if audit is None or not any(model.attacks for model in audit.models):
        return Missing("Threat model", why_no_attacks(audit))
    models = all_models(inputs)
    rows = audit.threats or threat_model(audit)
    blocks: list[Block] = [_table(rows)]
    blocks += [table for table in (_usage(models), _vulnerable(models)) if table is not None]
    open_ends = sum(not row.covered for row in rows)
    lead = (
        "This page's results hold for attackers who have what a tried row names. "
        f"{count(open_ends)} of {count(len(rows))} rows were not tested."
    )
    return Section("threats", "Who might attack", lead, blocks)


def _table(attackers: tuple[Threat, ...]) -> Table:
    columns = [
        words("Somebody who holds", wide=True),
        words("tried by", wide=True),
        words("not run", wide=True),
    ]
    rows = [
        [Cell(plain(threat.holds, 120)), _tried(threat), Cell(_missing(threat))]
        for threat in attackers
    ]
    return Table.of("The threat model of this audit", columns, rows)


def _tried(item: Threat) -> Cell:
    if not item.covered:
        return Cell("not tested", chip="warn")
    return Cell(", ".join(plain(name, 30) for name in item.covered))


def _missing(item: Threat) -> str:
    return "; ".join(f"{plain(name, 30)}: {plain(why, 200)}" for name, why in item.missing.items())


def _usage(models: tuple[ModelAudit, ...]) -> Table | None:
    shares = [(model, model.usage) for model in models if model.usage is not None]
    if not shares:
        return None
    columns = [
        words("Model"),
        Column("of the forget set"),
        Column("of the retain set"),
    ]
    rows = [
        [
            model_cell(model),
            estimate_cell(share.forget, 2),
            estimate_cell(share.retain, 2),
        ]
        for model, share in shares
    ]
    caption = "How much of what the original used is still used: the oracle's numbers are the goal"
    return Table.of(caption, columns, rows)


def _vulnerable(models: tuple[ModelAudit, ...]) -> Table | None:
    people = [(model, model.vulnerable) for model in models if model.vulnerable is not None]
    if not people:
        return None
    columns = [
        words("Model"),
        Column("AUC"),
        Column("minus oracle"),
    ]
    rows = [
        [
            model_cell(model),
            estimate_cell(person.auc),
            estimate_cell(person.minus_retrained, sign=True),
        ]
        for model, person in people
    ]
    first = people[0][1]
    caption = (
        f"The {count(first.people)} of {count(first.of)} forgotten people whom models of the fleet "
        "remember most"
    )
    return Table.of(caption, columns, rows)
