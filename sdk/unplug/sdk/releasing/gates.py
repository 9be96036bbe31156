"""How to release, and the gates: what must hold before a bundle is written. One function a gate."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from unplug.core import InputError, counted
from unplug.export import ParityReport
from unplug.mobile_bench import BenchReport, at_fault
from unplug.plugins import Checkpoint
from unplug.sdk.auditing import (
    EQUIVALENCE,
    SWITCHED_OFF,
    AttackResult,
    AuditReport,
    Certification,
    ModelAudit,
    Utility,
    inherent,
)
from unplug.sdk.bundle import ANEW, CERTIFIED, RANKED, Gate

STANDS_OUT = 0.05
"""A person whose p is below it stands out."""
EQUAL = 1e-8
"""Weights are equal within this. Solved on one machine, from the same integers, they are the same bit for bit."""


@dataclass(frozen=True, kw_only=True)
class Gates:
    """Thresholds of a release.

    Args:
        max_auc_above_retrained: how far the AUC of an attack on the unlearned model may be above the oracle's. The upper end of
            the interval that holds for all attacks at once is held to it, so that too few people never pass.
        max_auc_below_retrained: how far it may be below (over-forgetting leaks too); the lower end is held to it.
        max_mae_above_retrained: years of test error, and of error on the people who stay, that forgetting may cost over
            retraining.
        max_accuracy_below_retrained: share of the people who stay whose age group it may lose over retraining.
        worst_person: the person who stands out most must stand out no more than chance has it; false leaves that open.
        max_loss_above_retrained: the same for models without years, as a fraction of the oracle's loss on test.
        max_compute: of the forget step, as a fraction of retraining.
        max_artifact_auc_shift: how far an attack's AUC on an exported file may be from that on the checkpoint.
        min_edit_kept: of every exported file of an approximately forgotten model: how far its answers on the forgotten are from
            those of the original's own export, over how far the checkpoint's are from the original's. Rounding may bring
            nothing back. Where rounding is not measured (``--no-rounding``) there is no such gate.
        max_decision_shift: how far forgetting, and then rounding, may change the share of minors called over and of adults
            called under, where a decision is given; both ends of the interval are held to it.
        max_group_shift: the same for the minors of each group, where the decision holds by group.
        max_calibration_shift: how far they may change the calibration error of P(age >= T).
        min_relearn_of_retrained: sample passes until fine-tuning on the forgotten brings the original's loss back, over those
            that the retrained model needs; None does not measure it.
        max_host_latency_ms: median on this machine, of each file; None leaves it open (it says nothing about a phone).
        allow_not_run: artifacts whose target cannot run here (Core ML off macOS) do not fail parity; the report says so.
    """

    max_auc_above_retrained: float = EQUIVALENCE
    max_auc_below_retrained: float = EQUIVALENCE
    max_mae_above_retrained: float = 1.0
    max_accuracy_below_retrained: float = 0.10
    worst_person: bool = True
    max_loss_above_retrained: float = 0.02
    max_compute: float = 0.05
    max_artifact_auc_shift: float = 0.02
    min_edit_kept: float = 0.95
    max_decision_shift: float = 0.02
    max_group_shift: float = 0.05
    max_calibration_shift: float = 0.02
    min_relearn_of_retrained: float | None = None
    max_host_latency_ms: float | None = None
    allow_not_run: bool = True


def gates_from(pairs: dict[str, str], budget: float) -> Gates:
    """Gates with thresholds from text (``--gate max_mae_above_retrained=0.5``); the budget is a gate as well.

    Raises:
        InputError: an unknown gate or a value that is not a number.
    """
    known = {item.name for item in fields(Gates)}
    values: dict[str, Any] = {"max_compute": budget}
    for key, text in pairs.items():
        if key not in known:
            raise InputError(f"--gate {key}", "no such gate", f"Known: {', '.join(sorted(known))}")
        values[key] = _switch(key, text) if key in ("allow_not_run", "worst_person") else _number(key, text)
    return Gates(**values)


def _switch(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InputError(f"--gate {key}={text}", "neither true nor false", "Write true or false")
    return text.lower() == "true"


def _number(key: str, text: str) -> float:
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise InputError(f"--gate {key}={text}", "not a number", "Write for example max_mae_above_retrained=0.5")


@dataclass(frozen=True, kw_only=True)
class ReleaseConfig:
    """How to release.

    Args:
        method: of the forget step; None takes the design's own way, or `DEFAULT_METHOD`.
        options: its hyperparameters, as text.
        budget: fraction of retraining, for a model without a design.
        references: reference models (RMIA needs one, LiRA two), each a retraining with another seed; a design needs none, and
            with a fleet none is trained.
        fleet: folder that `unplug references` made; its models then stand in the oracle's place, and none is trained.
        oracle: train one all the same.
        certification: what `unplug certify` says of the method, at as many people as the request names.
        targets, precisions: what to export.
        gates: what must hold.
        overrides: gate to the reason why it ships all the same where that gate does not hold; stands in report and manifest.
        bench_iterations, bench_repeats, threads: of the host bench.
        workers: targets converted at the same time.
        rounding: export the original and the oracle alike, to measure what export did to the edit.
        others: data spec of other pictures of the same people, which no model saw, for the attack that reads them; None has
            them of procedural faces alone.
        decision: what `unplug threshold` said of the original: nothing may move it, and it ships, fitted anew.
        decision_data: people that no model learned from, by whom that is judged; None takes the test set.
        evaluate: an age protocol, `fate-aev`: what the original, what ships and the oracle are worth at age limits goes into
            the reports and onto the card; None takes no such numbers.
        faces: keep twelve pictures of people of the test set, never of the forgotten, for the local report (age models).
        seed: of everything random.
    """

    method: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    budget: float = 0.05
    references: int = 1
    fleet: Path | None = None
    oracle: bool = False
    certification: Path | None = None
    targets: tuple[str, ...] = ("litert", "coreml", "onnx")
    precisions: tuple[str, ...] = ("fp32", "fp16")
    gates: Gates = field(default_factory=Gates)
    overrides: dict[str, str] = field(default_factory=dict)
    bench_iterations: int = 50
    bench_repeats: int = 3
    threads: int = 2
    workers: int = 2
    rounding: bool = True
    others: str | None = None
    decision: Path | None = None
    decision_data: str | None = None
    evaluate: str | None = None
    faces: bool = False
    seed: int = 0


def equality_gate(unlearned: Checkpoint, retrained: Checkpoint) -> Gate:
    """Of an exact design: the largest difference of any weight from those of the same model computed without the forgotten.

    Where the original was trained elsewhere, both are trainings of ours, and the detail says so: nobody knows what its owner's
    own training would give without them.
    """
    mine, theirs = (model.model.state_dict() for model in (unlearned, retrained))
    worst = max(float((value.double() - theirs[name].double()).abs().max()) for name, value in mine.items())
    same = sum(bool((value == theirs[name]).all()) for name, value in mine.items())
    elsewhere = "weights_sha256" in unlearned.record.get("adopted", {})
    says = f"{ANEW}; no weight of the original is in it" if elsewhere else "no attack is needed to say so"
    detail = f"{same} of {len(mine)} tensors are the same bit for bit; {says}"
    return _upto("equality", worst, EQUAL, " largest difference of a weight from a refit without them", detail)


def forgetting_gates(gates: Gates, report: AuditReport, certified: Certification | None = None) -> list[Gate]:
    """The unlearned model's attacks are equivalent to the oracle's, nobody stands out, and the model is of use as before.

    With a certification of the method forgetting rests on that, and on what this request itself shows: an attack that surely
    sees it, and a person who stands out among models that never saw her, still refuse it. Where people are ranked among such
    models, their p says whether somebody stands out, which assumes nothing; else the worst person's parametric null does.

    Use is compared with the oracle's; where models of a fleet stand in its place, which were trained on fewer people, with the
    original's: nobody who stays may notice.
    """
    unlearned, retrained = report.model("unlearned"), report.model("retrained")
    results = []
    for name, attack in sorted(unlearned.attacks.items()):
        results += _equivalence_gates(gates, name, attack, report.too_few)
    if certified is not None:
        seen = [gate for gate in results if not gate.passed and not gate.inconclusive]
        results = [_certified_gate(gates, certified), *_person_gates(unlearned, report), *seen]
    elif gates.worst_person and unlearned.people:
        results += _person_gates(unlearned, report)
    elif gates.worst_person:
        results += _worst_person_gate(unlearned, report)
    results += further_gate(report)
    trained = retrained.sha256 != (report.settings.get("fleet") or {}).get("sha256")
    base, whose = (retrained, "the oracle's") if trained else (report.model("original"), "the original's")
    results.append(utility_gate(gates, unlearned.utility["test"], base.utility["test"], whose=whose))
    return [*results, *retain_gates(gates, unlearned.utility["retain"], base.utility["retain"], whose)]


WIDENING = 1.15
"""As they are, intervals refused 7.5 % of models that never saw the people; so widened, 2.5 % (docs/auditing.md)."""


def further_gate(report: AuditReport) -> list[Gate]:
    """No attack that reads more than the sets of the split surely tells the forgotten; no gate where none could be judged.

    Held to what is seen (intervals times `WIDENING`), not to equivalence; what an exact retraining fails (`inherent`) is named.
    """
    further = report.model("unlearned").further
    gaps = {name: item.minus_retrained_together for name, item in sorted(further.items()) if not inherent(name)}
    known = {name: gap for name, gap in gaps.items() if gap is not None and gap.low is not None and gap.high is not None}
    if not known or report.too_few:
        return []
    seen = [name for name, gap in known.items() if abs(gap.value) > WIDENING / 2 * ((gap.high or 0.0) - (gap.low or 0.0))]
    told = ", ".join(f"{name} {gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" for name, gap in known.items())
    alone = f"; not judged: {', '.join(sorted(set(further) - set(known)))}" if set(further) - set(known) else ""
    detail = f"minus the oracle's (an interval counts {WIDENING:g} times as wide): {told}{alone}"
    return [_upto("further attacks", float(len(seen)), 0.0, " attacks tell the forgotten from strangers", detail)]


def _certified_gate(gates: Gates, certified: Certification) -> Gate:
    """What the method left of other people at most, in as many requests of this size."""
    ends = [abs(end or 0.0) for leak in certified.leaks.values() for end in (leak.auc.low, leak.auc.high)]
    limit = min(gates.max_auc_above_retrained, gates.max_auc_below_retrained)
    detail = (
        f"{counted(certified.requests, 'request')} of {certified.people} by {certified.method}: {certified.why}; "
        f"exact models would pass in {100 * certified.exact_passes:.0f} %"
    )
    gate = _upto(CERTIFIED, max(ends), limit, " AUC from models that never saw them, at most", detail)
    holds = gate.passed and certified.verdict == "certified"
    return replace(gate, passed=holds, inconclusive=not holds and certified.verdict != "refused")


def _person_gates(unlearned: ModelAudit, report: AuditReport) -> list[Gate]:
    """Nobody of this request stands out among models that never saw her: a check of sanity, and no evidence by itself."""
    if not unlearned.people:
        reason = report.skipped.get("people", "nobody could be ranked")
        return [replace(_upto(RANKED, None, 0.0, "", reason), inconclusive=True)]
    p_value = min(1.0, len(unlearned.people) * min(row.p_value for row in unlearned.people))
    detail = f"{len(unlearned.people)} ranked; an exact model fails in {100 * STANDS_OUT:g} %"
    return [
        Gate(
            name=RANKED, value=p_value, limit=STANDS_OUT, comparison=">=", passed=p_value >= STANDS_OUT,
            unit=" p of whoever stands out most", detail=detail,
        )
    ]  # fmt: skip


def _equivalence_gates(gates: Gates, name: str, attack: AttackResult, too_few: str | None) -> list[Gate]:
    """Both ends of the simultaneous interval of AUC minus the oracle's, each within its margin (two one-sided tests)."""
    gap = attack.gap
    if gap is None or gap.low is None or gap.high is None or too_few:
        low = high = None
        detail = f"AUC {attack.auc.value:.3f}; {too_few or 'no oracle to compare with'}"
    else:
        low, high = gap.low, gap.high
        detail = f"AUC {attack.auc.value:.3f}; minus the oracle's {gap.value:+.3f} ({low:+.3f} to {high:+.3f})"
    below = None if low is None else -low
    sides = (
        (f"forgotten ({name})", high, gates.max_auc_above_retrained, "above", low is not None and low > 0.0),
        (f"not over-forgotten ({name})", below, gates.max_auc_below_retrained, "below", high is not None and high < 0.0),
    )
    found = []
    for title, end, limit, side, seen in sides:
        gate = _upto(title, None if end is None else max(0.0, end), limit, f" AUC {side} retrained at most", detail)
        # An interval that holds zero saw nothing: it is only too wide to say that there is nothing to see.
        found.append(replace(gate, inconclusive=not gate.passed and not seen))
    return found


def _worst_person_gate(unlearned: ModelAudit, report: AuditReport) -> list[Gate]:
    """The person who stands out most stands out no more than chance has it; none where subjects are not known at all."""
    worst = unlearned.worst_subject
    if worst is None:
        reason = report.skipped.get("worst subject", "it was not measured")
        known = "subjects are not known" not in reason
        return [replace(_upto("worst person", None, 0.0, "", reason), inconclusive=True)] if known else []
    among, on = counted(worst.subjects, "person", "people"), counted(worst.samples, "sample")
    detail = f"p = {worst.p_value:.3f} among {among}, AUC {worst.auc:.3f} on {on}"
    return [_upto("worst person", worst.value, worst.null_high, " standard errors", detail)]


_WHOSE = {"the oracle's": "retrained", "the original's": "the original"}


def utility_gate(gates: Gates, unlearned: Utility, retrained: Utility, part: str = "test", whose: str = "the oracle's") -> Gate:
    """What forgetting cost on a set, over retraining: years, or a share of the loss where there are no years."""
    name = "utility" if part == "test" else f"utility ({part})"
    if unlearned.mae is None or retrained.mae is None:
        cost = unlearned.loss / retrained.loss - 1.0
        detail = f"{part} loss {unlearned.loss:.4f}, {whose} {retrained.loss:.4f}"
        return _upto(name, cost, gates.max_loss_above_retrained, f" of {whose} loss above it", detail)
    cost = unlearned.mae.value - retrained.mae.value
    detail = f"{part} MAE {unlearned.mae.value:.2f} years, {whose} {retrained.mae.value:.2f}"
    return _upto(name, cost, gates.max_mae_above_retrained, f" years above {_WHOSE[whose]}", detail)


def retain_gates(gates: Gates, unlearned: Utility, retrained: Utility, whose: str = "the oracle's") -> list[Gate]:
    """What forgetting cost the people who stay: error, and accuracy where there are groups."""
    found = [utility_gate(gates, unlearned, retrained, "retain", whose)]
    if unlearned.accuracy is not None and retrained.accuracy is not None:
        lost = retrained.accuracy.value - unlearned.accuracy.value
        detail = f"retain accuracy {unlearned.accuracy.value:.3f}, {whose} {retrained.accuracy.value:.3f}"
        unit = f" below {_WHOSE[whose]}"
        found.append(_upto("accuracy (retain)", lost, gates.max_accuracy_below_retrained, unit, detail))
    return found


def budget_gate(gates: Gates, cost: dict[str, Any]) -> Gate:
    """Compute of the forget step as a fraction of retraining, in sample passes: what is signed holds no times."""
    passes, whole = (f"{found['forward']:,} forward, {found['backward']:,} back" for found in (cost, cost["retrain"]))
    detail = f"passes {passes}; of retraining {whole}"
    return _upto("budget", float(cost["compute_fraction"]), gates.max_compute, " of retraining", detail)


def parity_gate(gates: Gates, report: ParityReport) -> Gate:
    """Outputs that fail parity (or could not be run, where that is not allowed), and that anything ran at all."""
    bad = [row for row in report.rows if row.status == "fail" or (row.status == "not_run" and not gates.allow_not_run)]
    ran = sum(row.status != "not_run" for row in report.rows)
    first = f"; first: {bad[0].file} {bad[0].output}: {bad[0].reason}" if bad else ""
    detail = f"{counted(ran, 'output')} checked, {len(report.not_run)} not run here{first}"
    return _upto("parity", float(len(bad)) if ran else None, 0.0, " outputs out of tolerance", detail)


def artifact_gate(gates: Gates, report: AuditReport) -> Gate:
    """Largest change of an attack's AUC between the checkpoint and an exported file."""
    unlearned = report.model("unlearned")
    shifts = [
        (abs(item.attacks[name].auc.value - unlearned.attacks[name].auc.value), item, name)
        for item in report.models
        if item.role == "artifact"
        for name in unlearned.attacks
        if name in item.attacks
    ]
    worst: tuple[float, ModelAudit, str] | None = max(shifts, key=lambda shift: shift[0]) if shifts else None
    detail = f"worst: {worst[1].name}, {worst[2]}" if worst else "no artifact could be run"
    value = worst[0] if worst else None
    return _upto("audit on artifacts", value, gates.max_artifact_auc_shift, " AUC from the checkpoint", detail)


def rounding_gates(gates: Gates, report: AuditReport) -> list[Gate]:
    """Rounding brought nothing of the original back in any file that runs here; no gate where that was switched off.

    The forget set is all of it, not a sample, so what was kept needs no interval.
    """
    if not report.rounding and report.skipped.get("rounding") == SWITCHED_OFF:
        return []
    known = [(item.kept.value, item) for item in report.rounding if item.kept is not None]
    easier = [item.model for item in report.rounding if item.outcome == "easier to attack"]
    if not known:
        notes = [note for item in report.rounding for note in item.notes]
        why = notes[0] if notes else report.skipped.get("rounding", "no file could be run")
        return [replace(_atleast("rounding", None, gates.min_edit_kept, " of the edit kept", why), inconclusive=True)]
    value, worst = min(known, key=lambda pair: pair[0])
    detail = f"{counted(len(known), 'file')}; least: {worst.model}"
    gate = _atleast("rounding", value, gates.min_edit_kept, " of the edit kept", detail)
    worse = f"easier to attack than the checkpoint: {', '.join(easier)}"
    return [replace(gate, passed=False, detail=worse) if easier else gate]


def relearn_gates(gates: Gates, report: AuditReport) -> list[Gate]:
    """Relearning takes the unlearned model as long as the oracle, by Student's intervals over runs; none where not asked for.

    Where a run was stopped before it got there no mean is known, and the gate is inconclusive.
    """
    if (limit := gates.min_relearn_of_retrained) is None:
        return []
    own, oracle = (report.model(role).relearning for role in ("unlearned", "retrained"))
    unit = " of the passes that the retrained model needs"
    if own is None or oracle is None or own.mean is None or oracle.mean is None or not oracle.mean.value:
        reason = next((item.reason for item in (own, oracle) if item is not None and item.reason), "it was not measured")
        return [replace(_atleast("relearn time", None, limit, unit, reason), inconclusive=True)]
    low, high = own.mean.low or 0.0, own.mean.high or own.mean.value
    surely, at_most = low / (oracle.mean.high or oracle.mean.value), high / max(oracle.mean.low or 0.0, 1e-9)
    detail = f"{own.mean.value:.0f} passes ({low:.0f} to {high:.0f}), retrained {oracle.mean.value:.0f}"
    gate = _atleast("relearn time", surely, limit, unit, detail)
    return [replace(gate, inconclusive=not gate.passed and at_most >= limit)]


def bench_gate(gates: Gates, report: BenchReport) -> Gate:
    """Rows that ran and are refused for what the file or its runtime did; with a latency limit, those that are slower as well.

    Where this machine was busy or hot its times are not ranked; that says nothing of the file, unless a limit is set on them.
    Times themselves are in no gate: gates are signed, and times differ from run to run. They stand in ``bench.json``.
    """
    ran = [row for row in report.rows if row.status != "not_run"]
    spoilt = [row for row in ran if row.reasons and not at_fault(row)]
    bad = [row for row in ran if not row.valid and (row not in spoilt or gates.max_host_latency_ms is not None)]
    name, unit, rows = "bench", " rows refused", counted(len(ran), "row")
    if gates.max_host_latency_ms is not None and not bad:
        name, unit, rows = "host latency", f" rows slower than {gates.max_host_latency_ms:g} ms", f"medians of {rows}"
        bad = [row for row in ran if row.summary is not None and row.summary.p50 > gates.max_host_latency_ms]
    first = f"; first: {bad[0].file}{': ' if bad[0].reasons else ''}{'; '.join(bad[0].reasons)}" if bad else ""
    return _upto(name, float(len(bad)) if ran else None, 0.0, unit, f"{rows}{first}")


def _atleast(name: str, value: float | None, limit: float, unit: str, detail: str) -> Gate:
    holds = value is not None and value >= limit
    return Gate(name=name, value=value, limit=limit, comparison=">=", passed=holds, unit=unit, detail=detail)


def _upto(name: str, value: float | None, limit: float, unit: str, detail: str) -> Gate:
    holds = value is not None and value <= limit  # a gate that measured nothing does not hold, nor does NaN
    return Gate(name=name, value=value, limit=limit, comparison="<=", passed=holds, unit=unit, detail=detail)
