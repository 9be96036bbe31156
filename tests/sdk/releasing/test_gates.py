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
    names = ("data", "forget", "oracle_band", "settings", "versions")
    empty: dict[str, Any] = {name: {} for name in names}
    return AuditReport(models=models, skipped=skipped, alarms=(), **empty)


def judged(rule: Rule, **results: Any) -> list[Gate]:
    return list(rule.judge(ReleaseEvidence(results=results)))


def asked(*models: ModelAudit, limits: Gates | None = None, **skipped: str) -> dict[str, Gate]:
    """The gates that an audit alone can tell of, beside an oracle."""
    audit = report(*models, model("retrained", "retrained", 0.5), **skipped)
    return {gate.name: gate for gate in forgetting_gates(limits or Gates(), audit)}


def forgetting(auc: float, mae: float = 8.0, **limits: float) -> dict[str, Gate]:
    return asked(model("unlearned", "unlearned", auc, 0.5, mae), limits=Gates(**limits))


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
    gates = forgetting(auc, max_auc_above_retrained=0.25, max_auc_below_retrained=0.25)
    assert gates["forgotten (loss)"].passed is above
    assert gates["not over-forgotten (loss)"].passed is below


@pytest.mark.parametrize(("times", "seen"), [(1.01, True), (0.99, False)])
def test_a_gap_that_was_seen_is_refused_and_one_that_may_be_nothing_is_inconclusive(
    times: float, seen: bool
) -> None:
    auc = 0.5 + times * WIDTH
    above = forgetting(auc, max_auc_above_retrained=0.01)["forgotten (loss)"]
    below = forgetting(1.0 - auc, max_auc_below_retrained=0.01)["not over-forgotten (loss)"]
    assert not above.passed and not below.passed
    assert above.inconclusive is below.inconclusive is not seen


def test_the_use_of_a_classifier_is_how_often_it_is_right() -> None:
    """Under the names that readers of a bundle ask for, and with nothing of years or losses."""

    def classifier(role: Any, wrong: float) -> ModelAudit:
        one = model(role, role, 0.5, 0.5)
        use = replace(
            one.utility["test"],
            accuracy=Estimate(value=1.0 - wrong),
            mae=None,
            wrong=Estimate(value=wrong),
        )
        return replace(one, utility={"test": use, "retain": use})

    audit = report(classifier("unlearned", 0.32), classifier("retrained", 0.2))
    use = {
        gate.name: gate for gate in forgetting_gates(Gates(), audit) if "(loss)" not in gate.name
    }
    assert [name for name in use if "utility" in name or "accuracy" in name] == [
        "utility",
        "utility (retain)",
    ]
    assert use["utility"].value == pytest.approx(0.12) and not use["utility"].passed
    assert use["utility"].detail == "test accuracy 0.680, the oracle's 0.800"
    wide = Gates(max_accuracy_below_retrained=0.13)
    assert all(gate.passed for gate in forgetting_gates(wide, audit) if "utility" in gate.name)


def test_too_few_people_are_inconclusive_however_narrow_the_interval() -> None:
    """With one person the interval holds the unseen side's chance only: half of all untouched
    originals would pass.
    """
    unlearned, limits = (
        model("unlearned", "unlearned", 0.5, 0.5),
        Gates(max_auc_above_retrained=1.0),
    )
    gate = asked(unlearned, limits=limits, **{"forget interval": "one person"})["forgotten (loss)"]
    assert gate.value is None and gate.inconclusive and not gate.passed
    assert "one person" in gate.explain()


def test_no_oracle_no_release() -> None:
    gates = asked(model("unlearned", "unlearned", 0.5))
    for name in ("forgotten (loss)", "not over-forgotten (loss)"):
        assert gates[name].value is None and not gates[name].passed
        assert "nothing measured" in gates[name].explain()


def test_nobody_stands_out_and_those_who_stay_keep_their_use() -> None:
    gates, names = forgetting(0.5), ("worst person", "accuracy (retain)", "utility (retain)")
    assert all(gates[name].passed for name in names)
    unlearned = model("unlearned", "unlearned", 0.5, 0.5, retain=0.35)
    assert unlearned.worst_subject is not None
    gates = asked(replace(unlearned, worst_subject=replace(unlearned.worst_subject, value=2.1)))
    assert not gates["worst person"].passed and not gates["accuracy (retain)"].passed
    nobody = replace(unlearned, worst_subject=None)
    gates = asked(nobody, **{"worst subject": "so subjects are not known"})
    assert "worst person" not in gates
    assert asked(nobody, **{"worst subject": "too few"})["worst person"].inconclusive


@pytest.mark.parametrize(("p_value", "holds"), [(0.5, True), (0.01, False)])
def test_where_people_are_ranked_their_p_says_whether_somebody_stands_out(
    p_value: float, holds: bool
) -> None:
    """The worst person's parametric null is not asked then, whatever it says."""
    ends = {"low": -1.0, "high": 1.0, "rank": 3, "models": 8, "people": 40}
    standing = Standing(value=0.0, mean=0.0, spread=1.0, p_value=p_value, **ends)  # type: ignore[arg-type]
    unlearned = model("unlearned", "unlearned", 0.5, 0.5)
    assert unlearned.worst_subject is not None
    worst = replace(unlearned.worst_subject, value=9.0)
    people = (PersonRow(samples=3, confidence=standing),)
    gates = asked(replace(unlearned, people=people, worst_subject=worst))
    assert gates[RANKED].passed is holds and "worst person" not in gates


@pytest.mark.parametrize(("mae", "holds"), [(8.0, True), (7.0, True), (8.5, True), (8.5001, False)])
def test_utility(mae: float, holds: bool) -> None:
    assert forgetting(0.5, mae, max_mae_above_retrained=0.5)["utility"].passed is holds


@pytest.mark.parametrize(
    ("fraction", "holds"),
    [(0.05, True), (0.04, True), (0.050001, False), (math.nan, False), (math.inf, False)],
)
def test_budget(fraction: float, holds: bool) -> None:
    passes = {"forward": 1, "backward": 1}
    cost = {"compute_fraction": fraction, **passes, "retrain": passes}
    unlearned = SimpleNamespace(record={"forget": {"method": "msg", "cost": cost}})
    assert judged(ForgetCostLimit(), unlearned=unlearned)[0].passed is holds


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
    row = {"file": "age.fp32.tflite", "output": "age", "reason": "why"}
    rows = [SimpleNamespace(status=status, **row) for status in statuses]
    parity = SimpleNamespace(rows=rows, not_run=[row for row in rows if row.status == "not_run"])
    assert judged(FilesAgree(allow_not_run=allow), parity=parity)[0].passed is holds


@pytest.mark.parametrize(
    ("shipped", "holds"),
    [(0.5, True), (0.625, True), (0.375, True), (0.6251, False), (0.3749, False), (None, False)],
)
def test_audit_on_artifacts(shipped: float | None, holds: bool) -> None:
    models = [model("unlearned", "unlearned", 0.5)]
    if shipped is not None:
        models += [model("near", "artifact", 0.5), model("far.tflite", "artifact", shipped)]
    (gate,) = judged(FilesLeakNoMore(max_artifact_auc_shift=0.125), audit=report(*models))
    assert gate.passed is holds and (gate.value is None) is (shipped is None)
    assert holds or shipped is None or "far.tflite" in gate.detail


def rounded(kept: float | None, outcome: str = "open", *notes: str) -> Any:
    value = None if kept is None else Estimate(value=kept)
    return SimpleNamespace(kept=value, outcome=outcome, model="age.fp16.tflite", notes=notes)


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
    audit = SimpleNamespace(rounding=files, skipped={"rounding": "Core ML cannot run here"})
    (gate,) = judged(EditKept(), audit=audit)
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
        return Relearning(passes=(1, 2, 3), mean=mean, reason=None if mean else "stopped")

    unlearned = replace(model("unlearned", "unlearned", 0.5), relearning=took(passes))
    oracle = replace(model("retrained", "retrained", 0.5), relearning=took((80.0, 100.0)))
    audit = report(unlearned, oracle)
    (gate,) = judged(RelearnTimeLimit(min_relearn_of_retrained=0.5), audit=audit)
    assert (gate.passed, gate.inconclusive) == (holds, inconclusive), gate
    assert judged(RelearnTimeLimit(), audit=audit) == []


GOOD, SLOWER, UNABLE = ("ok", 1.0, ""), ("ok", 2.0, ""), ("not_run", 0.0, "no runtime")
WRONG, HOT = (
    ("ok", 1.0, "parity: 9 dB"),
    ("ok", 1.0, "the device was too hot to begin: gave up after 9 s"),
)


@pytest.mark.parametrize(
    ("rows", "limit", "holds", "detail"),
    [
        ((GOOD, UNABLE), None, True, "1 row"),
        ((GOOD, WRONG), None, False, "2 rows; first: f: parity: 9 dB"),
        ((UNABLE,), None, False, "0 rows"),
        # What differs from run to run is not signed, and a hot machine is not the file's fault,
        # unless a limit is set on its times.
        ((GOOD, HOT), None, True, "2 rows"),
        ((GOOD, HOT), 5.0, False, "2 rows; first: f: "),
        ((GOOD, SLOWER), 2.0, True, "medians of 2 rows"),
        ((GOOD, SLOWER), 1.9999, False, "medians of 2 rows; first: f"),
        # A limit is an extra condition: a refused row must not drop out of sight because of it.
        ((GOOD, WRONG), 5.0, False, "2 rows; first: f: parity"),
        ((WRONG,), 5.0, False, "1 row; first: f: parity"),
    ],
)
def test_every_file_runs_and_is_as_fast_as_was_asked_for(
    rows: tuple[tuple[str, float, str], ...], limit: float | None, holds: bool, detail: str
) -> None:
    timed = [
        SimpleNamespace(
            status=status,
            valid=not reason,
            summary=SimpleNamespace(p50=p50),
            file="f",
            reasons=(reason,) if reason else (),
            repeats=(),
            mode="burst",
            thermal_gate="gave up after 9 s" if "too hot" in reason else None,
        )
        for status, p50, reason in rows
    ]
    (gate,) = judged(FilesRun(max_host_latency_ms=limit), bench=SimpleNamespace(rows=timed))
    assert gate.passed is holds and gate.detail.startswith(detail)
    assert not holds or gate.detail == detail


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({}, {"max_compute": 0.2}),
        ({"max_mae_above_retrained": "0.5"}, {"max_compute": 0.2, "max_mae_above_retrained": 0.5}),
        ({"max_compute": "0.01"}, {"max_compute": 0.01}),
        ({"allow_not_run": "False"}, {"max_compute": 0.2, "allow_not_run": False}),
        ({"allow_not_run": "true"}, {"max_compute": 0.2}),
    ],
)
def test_gates_from_text(given: dict[str, str], fields: dict[str, Any]) -> None:
    assert gates_from(given, 0.2) == Gates(**fields)


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("max_mea", "1", "no such gate"),
        *(("max_compute", text, "not a number") for text in ("small", "nan", "inf")),
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
        # wide is not seen: equivalence is asked of the others
        ({"views": (-0.4, 0.4), "features": (-0.1, 0.0)}, 0),
        # without zero by less than intervals miss of people
        ({"views": (0.01, 0.4), "features": (-0.1, 0.0)}, 0),
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
    every = forgetting_gates(Gates(), criticised(**gaps))
    assert gate in every and sum(item.name == "further attacks" for item in every) == 1


def test_no_further_gate_where_nothing_could_be_judged() -> None:
    none = report(model("unlearned", "unlearned", 0.5, 0.5))
    few = criticised(views=(0.1, 0.2))
    few = replace(few, skipped={"forget interval": "under five people"})
    for audit in (none, criticised(two_versions=(0.3, 0.4)), few):
        assert judged(FurtherAttacks(), audit=audit) == []
