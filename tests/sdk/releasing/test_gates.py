"""Each gate at its threshold, and a gate that measured nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from unplug.core import InputError
from unplug.sdk.evidence.auditing import (
    SWITCHED_OFF,
    AttackResult,
    AuditReport,
    Estimate,
    ModelAudit,
    PersonRow,
    Relearning,
    Standing,
    Utility,
    WorstSubject,
)
from unplug.sdk.evidence.auditing.audit_report import Role
from unplug.sdk.releasing import Gates, gates_from
from unplug.sdk.releasing.evidence import ReleaseEvidence
from unplug.sdk.releasing.gate import Rule
from unplug.sdk.releasing.gates import forgetting_gates
from unplug.sdk.releasing.gates_files import EditKept, FilesAgree, FilesLeakNoMore, FilesRun
from unplug.sdk.releasing.gates_forgetting import ForgetCostLimit, FurtherAttacks, RelearnTimeLimit
from unplug.trust.bundle import RANKED, Gate

WIDTH = 0.0625  # of both sides of an interval; an exact number in binary


def model(
    name: str,
    role: Role,
    auc: float,
    oracle: float | None = None,
    mae: float = 8.0,
    retain: float = 0.5,
) -> ModelAudit:
    gap = (
        None
        if oracle is None
        else Estimate(value=auc - oracle, low=auc - oracle - WIDTH, high=auc - oracle + WIDTH)
    )
    attack = AttackResult(
        auc=Estimate(value=auc, low=auc - 0.05, high=auc + 0.05),
        minus_retrained=gap,
        threshold_accuracy=None,
        tpr={},
        forget_scores=(0.0,),
        unseen_scores=(0.0,),
    )
    utility = Utility(
        n=1, accuracy=Estimate(value=0.5), mae=Estimate(value=mae), loss=1.0, per_group=()
    )
    kept = replace(utility, accuracy=Estimate(value=retain))
    worst = WorstSubject(
        value=2.0, null_low=1.0, null_high=2.0, p_value=0.03, auc=0.7, subjects=5, samples=3
    )
    return ModelAudit(
        name=name,
        role=role,
        sha256="0" * 64,
        utility={"test": utility, "retain": kept},
        attacks={"loss": attack},
        worst_subject=worst,
    )


def report(*models: ModelAudit, **skipped: str) -> AuditReport:
    return AuditReport(
        data={},
        forget={},
        models=models,
        oracle_band={},
        skipped=skipped,
        alarms=(),
        settings={},
        versions={},
    )


def judged(rule: Rule, **results: Any) -> list[Gate]:
    return list(rule.judge(ReleaseEvidence(results=results)))


def budget_gate(cost: dict[str, Any]) -> Gate:
    unlearned = SimpleNamespace(record={"forget": {"method": "msg", "cost": cost}})
    return judged(ForgetCostLimit(), unlearned=unlearned)[0]


def bench_gate(report: Any, limit: float | None = None) -> Gate:
    return judged(FilesRun(max_host_latency_ms=limit), bench=report)[0]


def forgetting(auc: float, mae: float = 8.0, **limits: float) -> dict[str, Gate]:
    found = report(
        model("unlearned", "unlearned", auc, 0.5, mae), model("retrained", "retrained", 0.5)
    )
    return {gate.name: gate for gate in forgetting_gates(Gates(**limits), found)}


@pytest.mark.parametrize(
    ("auc", "above", "below"),
    [
        (0.5, True, True),
        (0.6875, True, True),
        (0.6876, False, True),
        (0.3125, True, True),
        (0.3124, True, False),
    ],
)
def test_the_end_of_the_interval_is_within_the_margin_on_both_sides(
    auc: float, above: bool, below: bool
) -> None:
    found = forgetting(auc, max_auc_above_retrained=0.25, max_auc_below_retrained=0.25)
    assert found["forgotten (loss)"].passed is above
    assert found["not over-forgotten (loss)"].passed is below


def test_a_gap_that_was_seen_is_refused_and_one_that_may_be_nothing_is_inconclusive() -> None:
    for auc, seen in ((0.5 + 1.01 * WIDTH, True), (0.5 + 0.99 * WIDTH, False)):
        above = forgetting(auc, max_auc_above_retrained=0.01)["forgotten (loss)"]
        below = forgetting(1.0 - auc, max_auc_below_retrained=0.01)["not over-forgotten (loss)"]
        assert not above.passed and not below.passed
        assert above.inconclusive is below.inconclusive is not seen


def test_too_few_people_are_inconclusive_however_narrow_the_interval() -> None:
    """With one person the interval holds the unseen side's chance only: half of all untouched
    originals would pass.
    """
    found = report(
        model("unlearned", "unlearned", 0.5, 0.5),
        model("retrained", "retrained", 0.5),
        **{"forget interval": "one person"},
    )
    gates = {
        gate.name: gate for gate in forgetting_gates(Gates(max_auc_above_retrained=1.0), found)
    }
    gate = gates["forgotten (loss)"]
    assert (
        gate.value is None
        and gate.inconclusive
        and not gate.passed
        and "one person" in gate.explain()
    )


def test_nobody_stands_out_and_those_who_stay_keep_their_use() -> None:
    gates = forgetting(0.5)
    assert (
        gates["worst person"].passed
        and gates["accuracy (retain)"].passed
        and gates["utility (retain)"].passed
    )
    unlearned = model("unlearned", "unlearned", 0.5, 0.5, retain=0.35)
    assert unlearned.worst_subject is not None
    stands_out = replace(unlearned, worst_subject=replace(unlearned.worst_subject, value=2.1))
    oracle = model("retrained", "retrained", 0.5)
    found = {gate.name: gate for gate in forgetting_gates(Gates(), report(stands_out, oracle))}
    assert not found["worst person"].passed and not found["accuracy (retain)"].passed
    for reason, there in (
        ("every unseen sample is a subject of its own, so subjects are not known", 0),
        ("too few", 1),
    ):
        item = report(replace(unlearned, worst_subject=None), oracle, **{"worst subject": reason})
        open_gates = [
            gate for gate in forgetting_gates(Gates(), item) if gate.name == "worst person"
        ]
        assert len(open_gates) == there and all(gate.inconclusive for gate in open_gates)


def test_where_people_are_ranked_their_p_says_whether_somebody_stands_out() -> None:
    """The worst person's parametric null is not asked then, whatever it says."""
    standing = Standing(
        value=0.0,
        mean=0.0,
        spread=1.0,
        low=-1.0,
        high=1.0,
        rank=3,
        models=8,
        people=40,
        p_value=0.5,
    )
    for p_value, holds in ((0.5, True), (0.01, False)):
        row = PersonRow(samples=3, confidence=replace(standing, p_value=p_value))
        own = model("unlearned", "unlearned", 0.5, 0.5)
        assert own.worst_subject is not None
        own = replace(own, people=(row,), worst_subject=replace(own.worst_subject, value=9.0))
        gates = {
            gate.name: gate
            for gate in forgetting_gates(Gates(), report(own, model("retrained", "retrained", 0.5)))
        }
        assert gates[RANKED].passed is holds and "worst person" not in gates


def test_no_oracle_no_release() -> None:
    found = report(model("unlearned", "unlearned", 0.5), model("retrained", "retrained", 0.5))
    gates = {gate.name: gate for gate in forgetting_gates(Gates(), found)}
    assert gates["forgotten (loss)"].value is None and not gates["forgotten (loss)"].passed
    assert "nothing measured" in gates["forgotten (loss)"].explain()
    assert not gates["not over-forgotten (loss)"].passed


@pytest.mark.parametrize(("mae", "holds"), [(8.0, True), (7.0, True), (8.5, True), (8.5001, False)])
def test_utility(mae: float, holds: bool) -> None:
    assert forgetting(0.5, mae, max_mae_above_retrained=0.5)["utility"].passed is holds


@pytest.mark.parametrize(("fraction", "holds"), [(0.05, True), (0.04, True), (0.050001, False)])
def test_budget(fraction: float, holds: bool) -> None:
    passes = {"forward": 1, "backward": 1}
    cost = {"compute_fraction": fraction, **passes, "retrain": passes}
    assert budget_gate(cost).passed is holds


def rows(*statuses: str) -> Any:
    made = [
        SimpleNamespace(status=status, file="age.fp32.tflite", output="age", reason="why")
        for status in statuses
    ]
    return SimpleNamespace(rows=made, not_run=[row for row in made if row.status == "not_run"])


@pytest.mark.parametrize(
    ("statuses", "allow", "holds"),
    [
        (("pass", "pass"), True, True),
        (("pass", "fail"), True, False),
        (("pass", "not_run"), True, True),
        (("pass", "not_run"), False, False),
        (("not_run", "not_run"), True, False),  # nothing was measured at all
        ((), True, False),
    ],
)
def test_parity(statuses: tuple[str, ...], allow: bool, holds: bool) -> None:
    assert judged(FilesAgree(allow_not_run=allow), parity=rows(*statuses))[0].passed is holds


@pytest.mark.parametrize(
    ("shipped", "holds"),
    [(0.5, True), (0.625, True), (0.375, True), (0.6251, False), (0.3749, False)],
)
def test_audit_on_artifacts(shipped: float, holds: bool) -> None:
    unlearned = model("unlearned", "unlearned", 0.5)
    near, far = model("near", "artifact", 0.5), model("far.tflite", "artifact", shipped)
    (gate,) = judged(
        FilesLeakNoMore(max_artifact_auc_shift=0.125), audit=report(unlearned, near, far)
    )
    assert gate.passed is holds
    if not holds:
        assert "far.tflite" in gate.detail


def test_no_artifact_could_be_run() -> None:
    (gate,) = judged(FilesLeakNoMore(), audit=report(model("unlearned", "unlearned", 0.5)))
    assert gate.value is None and not gate.passed


def rounded(kept: float | None, outcome: str = "open", *notes: str) -> Any:
    return SimpleNamespace(
        kept=None if kept is None else Estimate(value=kept),
        outcome=outcome,
        model="age.fp16.tflite",
        notes=notes,
    )


@pytest.mark.parametrize(
    ("files", "holds", "inconclusive"),
    [
        ([rounded(1.0), rounded(0.95)], True, False),
        ([rounded(1.3), rounded(0.9499)], False, False),
        ([rounded(1.0, "easier to attack")], False, False),
        ([rounded(None, "open", "the forget step changed no output")], False, True),
        ([], False, True),
    ],
)
def test_rounding_brings_nothing_back(files: list[Any], holds: bool, inconclusive: bool) -> None:
    found = SimpleNamespace(rounding=files, skipped={"rounding": "Core ML cannot run here"})
    (gate,) = judged(EditKept(), audit=found)
    assert (gate.passed, gate.inconclusive) == (holds, inconclusive)
    off = SimpleNamespace(rounding=(), skipped={"rounding": SWITCHED_OFF})
    assert judged(EditKept(), audit=off) == []


@pytest.mark.parametrize(
    ("passes", "holds", "inconclusive"),
    [
        ((90.0, 110.0), True, False),
        ((44.0, 60.0), False, True),
        ((10.0, 30.0), False, False),
        (None, False, True),
    ],
)
def test_relearning_takes_as_long_as_the_oracle(
    passes: tuple[float, float] | None, holds: bool, inconclusive: bool
) -> None:
    def took(ends: tuple[float, float] | None) -> Relearning:
        mean = None if ends is None else Estimate(value=sum(ends) / 2, low=ends[0], high=ends[1])
        return Relearning(
            passes=(1, 2, 3), mean=mean, reason=None if mean else "2 of 3 runs were stopped"
        )

    own = replace(model("unlearned", "unlearned", 0.5), relearning=took(passes))
    oracle = replace(model("retrained", "retrained", 0.5), relearning=took((80.0, 100.0)))
    (gate,) = judged(RelearnTimeLimit(min_relearn_of_retrained=0.5), audit=report(own, oracle))
    assert (gate.passed, gate.inconclusive) == (holds, inconclusive), gate
    assert judged(RelearnTimeLimit(), audit=report(own, oracle)) == []


def bench(
    *items: tuple[str, bool, float], reason: str = "parity: 9 dB", gate: str | None = None
) -> Any:
    return SimpleNamespace(
        rows=[
            SimpleNamespace(
                status=status,
                valid=valid,
                summary=SimpleNamespace(p50=p50),
                file="f",
                reasons=() if valid else (reason,),
                repeats=(),
                mode="burst",
                thermal_gate=gate,
            )
            for status, valid, p50 in items
        ]
    )


def test_bench_rows_must_be_valid() -> None:
    assert bench_gate(bench(("ok", True, 1.0), ("not_run", False, 0.0))).passed
    refused = bench_gate(bench(("ok", True, 1.0), ("ok", False, 1.0)))
    assert not refused.passed and "first: f: parity: 9 dB" in refused.detail
    assert not bench_gate(bench(("not_run", False, 0.0))).passed


def test_a_hot_machine_is_not_the_files_fault_unless_a_limit_is_set_on_its_times() -> None:
    gate = "gave up after 9 s"
    hot = bench(
        ("ok", True, 1.0),
        ("ok", False, 1.0),
        reason=f"the device was too hot to begin: {gate}",
        gate=gate,
    )
    found = bench_gate(hot)
    assert found.passed and found.detail == "2 rows", "what differs from run to run is not signed"
    assert not bench_gate(hot, 5.0).passed


@pytest.mark.parametrize(("limit", "holds"), [(2.0, True), (1.9999, False)])
def test_latency_limit_looks_at_the_slowest(limit: float, holds: bool) -> None:
    assert bench_gate(bench(("ok", True, 1.0), ("ok", True, 2.0)), limit).passed is holds


def test_latency_limit_does_not_hide_refused_rows() -> None:
    """A limit on latency is an extra condition: a refused row must not drop out of sight because of
    it.
    """
    assert not bench_gate(bench(("ok", True, 1.0), ("ok", False, 9.0)), 5.0).passed
    assert not bench_gate(bench(("ok", False, 1.0)), 5.0).passed


@pytest.mark.parametrize("fraction", [math.nan, math.inf])
def test_a_value_that_is_no_number_does_not_hold(fraction: float) -> None:
    passes = {"forward": 1, "backward": 1}
    assert not budget_gate({"compute_fraction": fraction, **passes, "retrain": passes}).passed


def test_gates_from_text() -> None:
    assert gates_from({}, 0.05) == Gates(max_compute=0.05)
    assert gates_from({"max_mae_above_retrained": "0.5"}, 0.2) == Gates(
        max_compute=0.2, max_mae_above_retrained=0.5
    )
    assert gates_from({"max_compute": "0.01"}, 0.2).max_compute == 0.01
    assert gates_from({"allow_not_run": "False"}, 0.05).allow_not_run is False
    assert gates_from({"allow_not_run": "true"}, 0.05).allow_not_run is True


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("max_mea", "1", "no such gate"),
        ("max_compute", "small", "not a number"),
        ("max_compute", "nan", "not a number"),
        ("max_compute", "inf", "not a number"),
        ("allow_not_run", "maybe", "true or false"),
    ],
)
def test_gates_that_cannot_be_read(key: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        gates_from({key: text}, 0.05)


def criticised(**gaps: tuple[float, float]) -> AuditReport:
    """An audit with attacks that read more than its sets, by the ends of their intervals."""
    plain = model("unlearned", "unlearned", 0.5, 0.5)
    further = {
        name.replace("_", "-"): replace(
            plain.attacks["loss"],
            minus_retrained_together=Estimate(value=(low + high) / 2, low=low, high=high),
        )
        for name, (low, high) in gaps.items()
    }
    return report(replace(plain, further=further), model("retrained", "retrained", 0.5))


@pytest.mark.parametrize(
    ("gaps", "seen"),
    [
        (
            {"views": (-0.4, 0.4), "features": (-0.1, 0.0)},
            0,
        ),  # wide is not seen: equivalence is asked of the others
        (
            {"views": (0.01, 0.4), "features": (-0.1, 0.0)},
            0,
        ),  # without zero by less than intervals miss of people
        ({"views": (0.05, 0.4), "features": (-0.1, 0.0)}, 1),
        ({"views": (0.05, 0.4), "features": (-0.1, -0.01), "best_view": (-0.2, 0.2)}, 2),
        ({"two_versions": (0.3, 0.4), "head_difference": (0.3, 0.4), "views": (-0.1, 0.1)}, 0),
    ],
)
def test_a_further_attack_refuses_where_it_surely_tells(
    gaps: dict[str, tuple[float, float]], seen: int
) -> None:
    (gate,) = judged(FurtherAttacks(), audit=criticised(**gaps))
    assert gate.value == seen and gate.passed is (seen == 0) and not gate.inconclusive
    assert ("not judged: head-difference, two-versions" in gate.detail) is ("two_versions" in gaps)
    found = forgetting_gates(Gates(), criticised(**gaps))
    assert gate in found and sum(item.name == "further attacks" for item in found) == 1


def test_no_further_gate_where_nothing_could_be_judged() -> None:
    assert judged(FurtherAttacks(), audit=report(model("unlearned", "unlearned", 0.5, 0.5))) == []
    assert judged(FurtherAttacks(), audit=criticised(two_versions=(0.3, 0.4))) == []
    few = criticised(views=(0.1, 0.2))
    assert (
        judged(
            FurtherAttacks(), audit=replace(few, skipped={"forget interval": "under five people"})
        )
        == []
    )
