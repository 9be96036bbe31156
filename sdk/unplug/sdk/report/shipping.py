"""Sections about what ships: release gates, artifacts, latency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unplug.export.runtime.stand_in import STAND_INS
from unplug.sdk.audit.report import ModelAudit

from .figures.latency import MAX_DOTS, Timing, latency_svg
from .inputs import Inputs
from .models import all_models, main_models
from .page import Block, Cell, Chip, Column, Figure, FigureGrid, Missing, Section, Table
from .schemas import Gate, Release
from .text import MINUS, NONE, count, fixed, milliseconds, percent, plain, short, size, span, threads
from .verdict import headline_attack

if TYPE_CHECKING:
    from unplug.export.artifact import Card
    from unplug.export.parity import ParityRow
    from unplug.mobile_bench.report import BenchRow

WIDE, NARROW = 1056, 354
MAX_PLOTS = 8


def gates(inputs: Inputs) -> Section | Missing:
    """Every condition of the release, passed or failed."""
    if not inputs.releases:
        return Missing(what="Release gates", why="no unplug-release/1 file was given (unplug release)")
    tables = [_gate_table(release) for release in inputs.releases]
    failed = sum(not gate.passed for release in inputs.releases for gate in release.gates)
    total = sum(len(release.gates) for release in inputs.releases)
    refused = any(not release.passed for release in inputs.releases)
    unknown = sum(gate.value is None for release in inputs.releases for gate in release.gates)
    lead = f"{failed} of {total} gates failed, so nothing ships." if failed else f"All {total} gates hold."
    if unknown:
        lead += f" Not measured: {unknown}."
    if refused and not failed:
        lead = "The release was refused although every gate holds; look at its log."
    return Section(id="gates", heading="Release gates", lead=lead, blocks=tables)


def _gate_table(release: Release) -> Table:
    columns = [
        Column(label="Gate", number=False), Column(label="outcome", number=False), Column(label="value"),
        Column(label="must be"), Column(label="unit", number=False), Column(label="detail", number=False, wide=True),
    ]  # fmt: skip
    outcome = "passed" if release.passed else "refused"
    rows = [_gate_row(gate) for gate in release.gates]
    return Table(caption=f"{plain(release.title, 120)}: {outcome}", columns=columns, groups=[("", rows)])


def _gate_row(gate: Gate) -> list[Cell]:
    sign = "≤" if gate.comparison == "<=" else "≥"
    # What was let through unmeasured is not shown in green.
    chip: Chip = "fail" if not gate.passed else "neutral" if gate.value is None else "pass"
    return [
        Cell(text=plain(gate.name)),
        Cell(text="pass" if gate.passed else "fail", chip=chip),
        Cell(text="not measured" if gate.value is None else f"{gate.value:.4g}".replace("-", MINUS, 1)),
        Cell(text=f"{sign} {gate.limit:.4g}".replace("-", MINUS, 1)),
        Cell(text=plain(gate.unit.strip(), 40)),
        Cell(text=plain(gate.detail, 300)),
    ]


def artifacts(inputs: Inputs) -> Section | Missing:
    """One row an artifact, put together by SHA-256 from cards, parity, audit and bench."""
    files, parity = _files(inputs), _by_sha(inputs)
    if not files:
        return Missing(what="Artifacts", why="no artifact card, parity or bench report was given (unplug export)")
    audited = {model.sha256: model for model in all_models(inputs) if model.role == "artifact"}
    attack = headline_attack(main_models(inputs))
    columns = [
        Column(label="Artifact", number=False), Column(label="size"),
        Column(label="parity", unit="dB by output", number=False, wide=True),
        Column(label="AUC on the artifact", unit=f"{plain(attack, 20)} attack" if attack else ""),
        Column(label="median run", unit="ms"), Column(label="delegated", unit="operators"),
    ]  # fmt: skip
    sizes = {card.sha256: card.bytes for card in inputs.cards}
    rows = [
        [
            Cell(text=f"{plain(target, 20)} {plain(precision, 20)}", note=f"{plain(name)}, {short(sha)}"),
            Cell(text=size(sizes.get(sha))),
            _parity_cell(parity[sha]),
            _audit_cell(audited.get(sha), attack),
            _latency_cell(inputs, sha),
            _delegate_cell(inputs, sha),
        ]
        for sha, (name, target, precision) in files.items()
    ]
    table = Table(caption="Exported artifacts, measured on the very bytes that ship", columns=columns, groups=[("", rows)])
    lead = "Parity compares each named output with the checkpoint's; the attack is run again on the exported file itself."
    work = dict.fromkeys(_work(card) for card in inputs.cards)
    lead += "".join(f" {text}." for text in work if text)
    return Section(id="artifacts", heading="Artifacts", lead=lead, blocks=[table])


def _files(inputs: Inputs) -> dict[str, tuple[str, str, str]]:
    found = {card.sha256: (card.file, card.target, card.precision) for card in inputs.cards}
    reports: tuple[Any, ...] = (*inputs.parities, *inputs.benches)
    for row in (row for report in reports for row in report.rows):
        found.setdefault(row.artifact_sha256, (row.file, row.target, row.precision))
    return found


def _by_sha(inputs: Inputs) -> dict[str, list[ParityRow]]:
    found: dict[str, list[ParityRow]] = defaultdict(list)
    for report in inputs.parities:
        for row in report.rows:
            found[row.artifact_sha256].append(row)
    return found


def _parity_cell(rows: Sequence[ParityRow]) -> Cell:
    if not rows:
        return Cell(text="not measured")
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
    return Cell(text=status, chip=chips[status], note="; ".join([*parts, *reasons]))


def _decibels(row: ParityRow) -> str:
    if row.exact:
        return "exact"
    return f"{row.psnr_db:.1f}" if row.psnr_db is not None else NONE


def _audit_cell(model: ModelAudit | None, attack: str | None) -> Cell:
    if model is None or attack is None or attack not in model.attacks:
        return Cell(text="not audited")
    auc = model.attacks[attack].auc
    return Cell(text=fixed(auc.value), note=span(auc.low, auc.high))


def _latency_cell(inputs: Inputs, sha: str) -> Cell:
    timed = [row for bench in inputs.benches for row in bench.rows if row.artifact_sha256 == sha and row.summary]
    rows = [row for row in timed if row.valid]
    if not rows:
        return Cell(text="not ranked" if timed else "not timed")
    best = min(rows, key=lambda row: row.summary.p50 if row.summary else 0.0)
    return Cell(text=milliseconds(best.summary.p50 if best.summary else None), note=f"{best.where}, {threads(best.threads)}")


def _delegate_cell(inputs: Inputs, sha: str) -> Cell:
    """What a delegate took, where the runtime tells."""
    told = [row for bench in inputs.benches for row in bench.rows if row.artifact_sha256 == sha and row.nodes_total]
    if not told:
        return Cell(text=NONE)
    row = told[0]
    pieces = "" if row.partitions is None else f" in {row.partitions}"
    return Cell(text=f"{row.nodes_delegated} of {row.nodes_total}{pieces}", note=plain(row.delegate_got or "", 20))


def _work(card: Card) -> str:
    if card.parameters is None or card.flops is None:
        return ""
    return f"{plain(card.model_type, 20)}: {card.parameters / 1e6:.2f} M parameters, {card.flops / 2e9:.3f} GMAC a run"


def latency(inputs: Inputs) -> Section | Missing:
    """Medians with intervals over the raw runs, and the table behind them."""
    rows = [row for bench in inputs.benches for row in bench.rows]
    if not rows:
        return Missing(what="Latency", why="no bench report was given (unplug bench)")
    places: dict[tuple[str, str, int], list[Timing]] = defaultdict(list)
    for row in rows:
        runs = [time for repeat in row.repeats for time in repeat.latencies_ms]
        if row.summary and runs:
            low, high = row.median_ci95_ms or (None, None)
            text = f"{row.target} {row.precision}, {row.delegate_got or row.delegate_asked}" + (
                "" if row.valid else ", not ranked"
            )
            timing = Timing(label=plain(text, 44), runs_N=np.array(runs), median=row.summary.p50, low=low, high=high)
            places[row.device, row.where, row.threads].append(timing)
    drawn = list(places.items())[:MAX_PLOTS]
    figures = [_latency_figure(number, place, timings) for number, (place, timings) in enumerate(drawn, start=1)]
    table = _bench_table(rows)
    rest = f"{len(places) - len(drawn)} more places are in the table alone." if len(places) > len(drawn) else ""
    blocks: list[Block] = [FigureGrid(figures=figures, columns=1, caption=rest), table] if figures else [table]
    hosts = {row.where for row in rows}
    lead = "Taken on the host, not on a phone: compare rows with one another, not with a device." if hosts == {"host"} else ""
    return Section(id="latency", heading="Latency", lead=lead, blocks=blocks)


def _latency_figure(number: int, place: tuple[str, str, int], timings: Sequence[Timing]) -> Figure:
    device, where, workers = place
    title = f"{where}, {threads(workers)}"
    wide, narrow = (
        latency_svg(timings, name=f"latency-{number}-{width}", title=title, width=width) for width in (WIDE, NARROW)
    )
    caption = (
        f"Measured on {plain(device, 100)}. Dots: single runs, {MAX_DOTS} at most; diamond: median; bar: its 95 % interval."
    )
    return Figure(svg=wide, narrow=narrow, caption=caption)


def _bench_table(rows: Sequence[BenchRow]) -> Table:
    columns = [
        Column(label="Artifact", number=False), Column(label="runtime", number=False), Column(label="threads"),
        Column(label="median", unit="ms"), Column(label="p90", unit="ms"), Column(label="first run", unit="ms"),
        Column(label="cold start", unit="ms"), Column(label="spread", unit="of repeats"), Column(label="peak memory"),
        Column(label="runs"), Column(label="ranked", number=False, wide=True),
    ]  # fmt: skip
    places: dict[str, list[list[Cell]]] = defaultdict(list)
    for row in rows:
        places[f"{row.where}: {plain(row.device, 100)}"].append(_bench_row(row))
    return Table(caption="Every timed artifact; medians with 95 % intervals", columns=columns, groups=list(places.items()))


def _bench_row(row: BenchRow) -> list[Cell]:
    low, high = row.median_ci95_ms or (None, None)
    ends = f"{milliseconds(low)} to {milliseconds(high)}" if low is not None else ""
    state: Chip = "pass" if row.valid else "warn" if row.status == "not_run" else "fail"
    word = "yes" if row.valid else "not run" if row.status == "not_run" else "no"
    got = plain(row.delegate_got or row.delegate_asked, 30)
    return [
        Cell(text=f"{plain(row.target, 20)} {plain(row.precision, 20)}", note=plain(row.file, 60)),
        Cell(text=f"{plain(row.runtime, 30)} {plain(row.runtime_version or '', 20)}", note=got),
        Cell(text=count(row.threads)),
        Cell(text=milliseconds(row.summary.p50 if row.summary else None), note=ends),
        Cell(text=milliseconds(row.summary.p90 if row.summary else None)),
        Cell(text=milliseconds(row.first_inference_ms)),
        Cell(text=milliseconds(row.init_ms_cold)),
        Cell(text=percent(row.spread)),
        Cell(text=size(row.peak_memory_bytes)),
        Cell(text=count(row.summary.count if row.summary else None)),
        Cell(text=word, chip=state, note="; ".join(plain(reason, 160) for reason in row.reasons)),
    ]
