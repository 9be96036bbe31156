"""Sections about what ships: release gates and artifacts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unplug.core import MINUS, NONE, counted, milliseconds, plain, short, size
from unplug.export import STAND_INS
from unplug.sdk.evidence.auditing import ModelAudit
from unplug.trust.bundle import Gate

from .inputs import Inputs
from .latency import row_median, sizes_of
from .models import all_models, main_models
from .page import Cell, Chip, Column, Missing, Section, Table, estimate_cell, words
from .schemas import ReleaseRecord, Try
from .verdict import headline_attack

if TYPE_CHECKING:
    from unplug.export import Card, ParityRow
    from unplug.mobile_bench import BenchRow


def gates(inputs: Inputs) -> Section | Missing:
    """Every condition of the release, passed or failed."""
    if not inputs.releases:
        return Missing("Release gates", "no unplug-release/1 file was given (unplug release)")
    tables = [_gate_table(release) for release in inputs.releases]
    tables += [_tries_table(release.tries) for release in inputs.releases if len(release.tries) > 1]
    every = [gate for release in inputs.releases for gate in release.gates]
    failed = sum(not gate.ships for gate in every)
    overridden = sum(gate.override is not None for gate in every)
    still_open = sum(gate.inconclusive for gate in every)
    unknown = sum(gate.value is None for gate in every)
    lead = (
        f"{failed} of {len(every)} gates do not hold, so nothing ships."
        if failed
        else f"All {len(every) - overridden} gates hold."
    )
    if overridden:
        lead += f" {overridden} more did not, and were overridden: each has its reason."
    if still_open:
        lead += f" {still_open} of them are inconclusive: too little is known to say either way."
    if unknown:
        lead += f" Not measured: {unknown}."
    if not failed and not all(release.passed for release in inputs.releases):
        lead = "The release was refused although every gate holds; look at its log."
    return Section("gates", "Release gates", lead, tables)


def _gate_table(release: ReleaseRecord) -> Table:
    columns = [
        words("Gate"),
        words("outcome"),
        Column("value"),
        Column("must be"),
        words("unit"),
        words("detail", wide=True),
    ]
    outcome = "passed" if release.passed else "refused"
    rows = [_gate_row(gate) for gate in release.gates]
    return Table.of(f"{plain(release.title, 120)}: {outcome}", columns, rows)


def _tries_table(tries: Sequence[Try]) -> Table:
    """Every try of one request, the last one last."""
    columns = [
        Column("Try"),
        words("forgotten by"),
        Column("budget"),
        Column("seed"),
        words("outcome"),
        words("gates that did not hold", wide=True),
    ]
    rows = [_try_row(number, one) for number, one in enumerate(tries, 1)]
    caption = f"{len(tries)} tries of the same request: with enough of them one passes by chance"
    return Table.of(caption, columns, rows)


def _try_row(number: int, item: Try) -> list[Cell]:
    options = ", ".join(f"{key} {value}" for key, value in sorted(item.options.items()))
    changed = ", ".join(f"{key} {value}" for key, value in sorted(item.gates.items()))
    return [
        Cell(f"{number}"),
        Cell(plain(item.method), note=plain(options, 120)),
        Cell(f"{100 * item.budget:.3g} %"),
        Cell(f"{item.seed}"),
        _outcome(item),
        Cell(
            plain(", ".join(item.failed) or NONE, 300),
            note=plain(f"with {changed}" if changed else "", 160),
        ),
    ]


def _outcome(item: Try) -> Cell:
    if item.passed:
        return Cell("passed", chip="pass")
    return (
        Cell("shipped by override", chip="warn")
        if item.failed == item.overridden
        else Cell("refused", chip="fail")
    )


def _gate_row(gate: Gate) -> list[Cell]:
    sign = "≤" if gate.comparison == "<=" else "≥"
    # What was let through unmeasured is not shown in green.
    failed: tuple[str, Chip] = ("inconclusive", "warn") if gate.inconclusive else ("fail", "fail")
    text, chip = (
        failed if not gate.passed else ("pass", "neutral" if gate.value is None else "pass")
    )
    reason = ""
    if gate.override is not None:
        text, chip, reason = "overridden", "warn", f"shipped all the same: {gate.override}"
    return [
        Cell(plain(gate.name)),
        Cell(text, chip=chip),
        Cell("not measured" if gate.value is None else f"{gate.value:.4g}".replace("-", MINUS, 1)),
        Cell(f"{sign} {gate.limit:.4g}".replace("-", MINUS, 1)),
        Cell(plain(gate.unit.strip(), 40)),
        Cell(plain(gate.detail, 300), note=plain(reason, 300)),
    ]


def artifacts(inputs: Inputs) -> Section | Missing:
    """One row an artifact, put together by SHA-256 from cards, parity, audit and bench."""
    files, parity = _files(inputs), _by_sha(inputs)
    if not files:
        return Missing(
            "Artifacts",
            "no artifact card, parity or bench report was given (unplug export)",
        )
    audited = {model.sha256: model for model in all_models(inputs) if model.role == "artifact"}
    attack = headline_attack(main_models(inputs))
    unit = f"{plain(attack, 20)} attack" if attack else ""
    auc = [] if inputs.timed_only else [Column("AUC on the artifact", unit=unit)]
    columns = [
        words("Artifact"),
        Column("size"),
        words("parity", unit="dB by output", wide=True),
        *auc,
        Column("median run", unit="ms"),
        Column("delegated", unit="operators"),
    ]
    sizes = sizes_of(inputs)
    rows = [
        [
            Cell(
                f"{plain(target, 20)} {plain(precision, 20)}",
                note=f"{plain(name)}, {short(sha)}",
            ),
            Cell(size(sizes.get(sha))),
            _parity_cell(parity[sha]),
            *(_audit_cell(audited.get(sha), attack) for _ in auc),
            _latency_cell(inputs, sha),
            _delegate_cell(inputs, sha),
        ]
        for sha, (name, target, precision) in files.items()
    ]
    table = Table.of(
        "Exported artifacts, measured on the very bytes that ship",
        columns,
        rows,
    )
    lead = "Parity compares each named output with the checkpoint's"
    lead += "." if inputs.timed_only else "; the attack is run again on the exported file itself."
    work = dict.fromkeys(_work(card) for card in inputs.cards)
    lead += "".join(f" {text}." for text in work if text)
    return Section("artifacts", "Artifacts", lead, [table])


def _files(inputs: Inputs) -> dict[str, tuple[str, str, str]]:
    files = {card.sha256: (card.file, card.target, card.precision) for card in inputs.cards}
    rows: tuple[ParityRow | BenchRow, ...] = (*inputs.parity_rows, *inputs.bench_rows)
    for row in rows:
        files.setdefault(row.artifact_sha256, (row.file, row.target, row.precision))
    return files


def _by_sha(inputs: Inputs) -> dict[str, list[ParityRow]]:
    rows_of: dict[str, list[ParityRow]] = defaultdict(list)
    for row in inputs.parity_rows:
        rows_of[row.artifact_sha256].append(row)
    return rows_of


def _parity_cell(rows: Sequence[ParityRow]) -> Cell:
    if not rows:
        return Cell("not measured")
    status = (
        "fail"
        if any(row.status == "fail" for row in rows)
        else "not run"
        if any(row.status == "not_run" for row in rows)
        else "pass"
    )
    chips: dict[str, Chip] = {"fail": "fail", "not run": "neutral", "pass": "pass"}
    parts = [f"{plain(row.output, 40)} {_decibels(row)} (≥ {row.threshold_db:g})" for row in rows]
    reasons = dict.fromkeys(plain(row.reason, 160) for row in rows if row.reason)
    if any(row.runtime in STAND_INS.values() for row in rows):
        reasons["evaluated operator by operator with torch, not run by Core ML itself"] = None
    return Cell(status, chip=chips[status], note="; ".join([*parts, *reasons]))


def _decibels(row: ParityRow) -> str:
    if row.exact:
        return "exact"
    return f"{row.psnr_db:.1f}" if row.psnr_db is not None else NONE


def _audit_cell(model: ModelAudit | None, attack: str | None) -> Cell:
    if model is None or attack is None or attack not in model.attacks:
        return Cell("not audited")
    return estimate_cell(model.attacks[attack].auc)


def _latency_cell(inputs: Inputs, sha: str) -> Cell:
    timed = [row for row in inputs.bench_rows if row.artifact_sha256 == sha]
    rows = [
        (median, row) for row in timed if row.ranked and (median := row_median(row)) is not None
    ]
    if not rows:
        return Cell("not ranked" if timed else "not timed")
    median, best = min(rows, key=lambda pair: pair[0])
    return Cell(milliseconds(median), note=f"{best.where}, {counted(best.threads, 'thread')}")


def _delegate_cell(inputs: Inputs, sha: str) -> Cell:
    """What a delegate took, where the runtime tells."""
    told = [row for row in inputs.bench_rows if row.artifact_sha256 == sha and row.nodes_total]
    if not told:
        return Cell(NONE)
    row = told[0]
    pieces = "" if row.partitions is None else f" in {row.partitions}"
    return Cell(
        f"{row.nodes_delegated} of {row.nodes_total}{pieces}",
        note=plain(row.delegate_got or "", 20),
    )


def _work(card: Card) -> str:
    if card.parameters is None or card.flops is None:
        return ""
    return (
        f"{plain(card.model_type, 20)}: {card.parameters / 1e6:.2f} M parameters, "
        f"{card.flops / 2e9:.3f} GMAC a run"
    )
