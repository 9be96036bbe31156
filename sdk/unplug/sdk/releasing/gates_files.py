"""Gates on the exported files: the checkpoint's numbers come out of them, nothing forgotten comes
back, and they run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from unplug import export, mobile_bench
from unplug.core import counted
from unplug.sdk.evidence.auditing import SWITCHED_OFF
from unplug.trust.bundle import Gate

from .evidence import ReleaseEvidence
from .gate import Counts, Foreseen, Question, Rule

KEPT = Question(
    name="rounding",
    asks="Export brought nothing back that was forgotten",
    limit="min_edit_kept",
    unit=" of the edit kept",
    comparison=">=",
)
SAME_OUTPUTS = Question(
    name="parity",
    asks="Outputs of every file are the checkpoint's, within their tolerance",
    limit="fixed: none may be outside",
    unit=" outputs out of tolerance",
)
LEAKS_NO_MORE = Question(
    name="audit on artifacts",
    asks="An exported file leaks as little as the checkpoint",
    limit="max_artifact_auc_shift",
    unit=" AUC from the checkpoint",
)
RUNS = Question(
    name="bench",
    asks="Every file runs on this machine and finishes its work",
    limit="fixed: no row may be refused",
    unit=" rows refused",
)
FAST = Question(
    name="host latency",
    asks="Every file is as fast on this machine as was asked for",
    limit="max_host_latency_ms",
    unit=" rows slower than {} ms",
)


@dataclass(frozen=True, kw_only=True)
class EditKept(Rule):
    """Rounding brought nothing of the original back in any file that runs here; no gate where that
    was switched off.

    The forget set is all of it, not a sample, so what was kept needs no interval.

    Args:
        min_edit_kept: the smallest share of the edit that every exported file of an approximately
            forgotten model keeps. That share is the distance of its answers on the forgotten from
            those of the original's own export, over the checkpoint's distance from the original.
            Where rounding is not measured (`rounding` is false) there is no such gate.
    """

    min_edit_kept: float = 0.95

    questions: ClassVar[tuple[Question, ...]] = (KEPT,)

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """The least that any file kept."""
        report = evidence.audit
        off = not report.rounding and report.skipped.get("rounding") == SWITCHED_OFF
        if evidence.equal or off:
            return
        known = [(item.kept.value, item) for item in report.rounding if item.kept is not None]
        if not known:
            notes = [note for item in report.rounding for note in item.notes]
            why = notes[0] if notes else report.skipped.get("rounding", "no file could be run")
            yield KEPT.judged(None, self.min_edit_kept, why, inconclusive=True)
            return
        value, worst = min(known, key=lambda pair: pair[0])
        gate = KEPT.judged(
            value, self.min_edit_kept, f"{counted(len(known), 'file')}; least: {worst.model}"
        )
        if easier := [item.model for item in report.rounding if item.outcome == "easier to attack"]:
            gate = replace(
                gate,
                passed=False,
                detail=f"easier to attack than the checkpoint: {', '.join(easier)}",
            )
        yield gate


@dataclass(frozen=True, kw_only=True)
class MayNotRun:
    """What several rules ask of files that cannot run here.

    Args:
        allow_not_run: artifacts whose target cannot run here (Core ML off macOS) do not fail
            parity; the report says so.
    """

    allow_not_run: bool = True


@dataclass(frozen=True, kw_only=True)
class FilesAgree(MayNotRun, Rule):
    """No output fails parity (or could not be run, where that is not allowed), and anything ran at
    all.
    """

    questions: ClassVar[tuple[Question, ...]] = (SAME_OUTPUTS,)

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """Outputs that are out of tolerance."""
        members = (evidence.members or {}).values()
        reports = [evidence.parity, *(item.parity for item in members)]
        rows = [row for report in reports for row in report.rows]
        wrong = ("fail",) if self.allow_not_run else ("fail", "not_run")
        bad = [row for row in rows if row.status in wrong]
        ran = sum(row.status != "not_run" for row in rows)
        first = f"; first: {bad[0].file} {bad[0].output}: {bad[0].reason}" if bad else ""
        detail = f"{counted(ran, 'output')} checked, {len(rows) - ran} not run here{first}"
        yield SAME_OUTPUTS.judged(float(len(bad)) if ran else None, 0.0, detail)


@dataclass(frozen=True, kw_only=True)
class FilesLeakNoMore(Rule):
    """An exported file leaks as little as the checkpoint; no gate where an equality holds and
    nothing was attacked.

    Args:
        max_artifact_auc_shift: how far an attack's AUC on an exported file may be from that on the
            checkpoint.
    """

    max_artifact_auc_shift: float = 0.02

    questions: ClassVar[tuple[Question, ...]] = (LEAKS_NO_MORE,)

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """Largest change of an attack's AUC between the checkpoint and a file."""
        unlearned = evidence.audit.model("unlearned")
        if evidence.equal and not unlearned.attacks:
            return
        shifts = [
            (
                abs(item.attacks[name].auc.value - unlearned.attacks[name].auc.value),
                f"{item.name}, {name}",
            )
            for item in evidence.audit.models
            if item.role == "artifact"
            for name in unlearned.attacks
            if name in item.attacks
        ]
        value, where = max(shifts, key=lambda shift: shift[0], default=(None, ""))
        detail = f"worst: {where}" if where else "no artifact could be run"
        yield LEAKS_NO_MORE.judged(value, self.max_artifact_auc_shift, detail)


@dataclass(frozen=True, kw_only=True)
class FilesRun(Rule):
    """No row is refused for what the file or its runtime did; with a latency limit, none is slower
    either.

    Where this machine was busy or hot its times are not ranked; that says nothing of the file,
    unless a limit is set on them. Times themselves are in no gate: gates are signed, and times
    differ from run to run. They stand in ``bench.json``.

    Args:
        max_host_latency_ms: median on this machine, of each file; None leaves it open (it says
            nothing about a phone).
    """

    max_host_latency_ms: float | None = None

    questions: ClassVar[tuple[Question, ...]] = (RUNS, FAST)

    def foresee(self, counts: Counts) -> Iterator[Foreseen]:
        """Targets none of which can be timed here."""
        runtimes = {
            name: export.RUNTIMES.get(export.TARGETS.get(name).runtime) for name in counts.targets
        }
        reasons = {name: runtime.unavailable() for name, runtime in runtimes.items()}
        if all(reasons.values()):
            what = f"files of {', '.join(reasons)} alone"
            why = f"none can be timed on this machine: {next(iter(reasons.values()))}"
            yield Foreseen(asked=RUNS, what=what, why=why, fix="Add a target that runs here: onnx")

    def judge(self, evidence: ReleaseEvidence) -> Iterator[Gate]:
        """Rows that are refused, or too slow."""
        limit = self.max_host_latency_ms
        members = (evidence.members or {}).values()
        reports = [evidence.bench, *(item.bench for item in members)]
        rows = [row for report in reports for row in report.rows]
        ran = [row for row in rows if row.status != "not_run"]
        spoilt = [row for row in ran if row.reasons and not mobile_bench.at_fault(row)]
        bad = [row for row in ran if not row.valid and (row not in spoilt or limit is not None)]
        asked, judged = RUNS, counted(len(ran), "row")
        if limit is not None and not bad:
            asked, judged = FAST, f"medians of {judged}"
            bad = [row for row in ran if row.summary is not None and row.summary.p50 > limit]
        reasons = "; ".join(bad[0].reasons) if bad else ""
        first = f"; first: {bad[0].file}{': ' if reasons else ''}{reasons}" if bad else ""
        value = float(len(bad)) if ran else None
        yield asked.judged(
            value, 0.0, f"{judged}{first}", unit="" if limit is None else f"{limit:g}"
        )
