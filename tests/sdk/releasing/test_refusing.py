"""What is said of a release that may not ship: what surely failed, or what would make it conclude."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unplug.sdk.evidence.auditing import AuditReport, Estimate
from unplug.sdk.releasing import Gates
from unplug.sdk.releasing.gates import forgetting_gates
from unplug.sdk.releasing.refusing import refusal, times_as_many

from .test_gates import model, report


def audited(low: float, high: float) -> AuditReport:
    """An unlearned model whose one attack differs from the oracle's by that much."""
    whole = report(model("unlearned", "unlearned", 0.55, 0.5), model("retrained", "retrained", 0.5))
    unlearned, oracle = whole.models
    gap = Estimate(value=(low + high) / 2, low=low, high=high)
    attack = replace(unlearned.attacks["loss"], minus_retrained_together=gap)
    return replace(whole, models=(replace(unlearned, attacks={"loss": attack}), oracle))


def test_an_inconclusive_release_says_how_many_people_would_decide_it_and_what_is_exact(
    tmp_path: Path,
) -> None:
    audit = audited(-0.3, 0.35)
    error = refusal(
        forgetting_gates(Gates(), audit), audit, Gates(), tmp_path / "age.unplug", tmp_path / "work"
    )
    assert error.what == "release inconclusive"
    assert (
        error.why.startswith("forgotten (loss): 0.35 AUC above retrained at most, must be <= 0.1")
        and "1 gate more" in error.why
    )
    assert "About 11 times as many people, forgotten and unseen, would decide it." in error.fix
    assert (
        "`method=retrain`, not timed here yet" in error.fix
        and "--forgettable closed-form" in error.fix
        and "\n" not in str(error)
    )


def test_a_refused_release_names_what_surely_failed(tmp_path: Path) -> None:
    audit = audited(0.02, 0.4)
    gates = forgetting_gates(Gates(), audit)
    (tmp_path / "age.unplug").mkdir()
    error = refusal(gates, audit, Gates(), tmp_path / "age.unplug", tmp_path / "work")
    assert error.what == "release refused" and error.why.startswith("forgotten (loss): 0.4 ")
    assert "earlier release is still at" in error.fix and "times as many" not in error.fix
    openly = [*gates, replace(gates[0], name="rounding", inconclusive=True)]
    assert (
        "; 1 gate more inconclusive"
        in refusal(openly, audit, Gates(), tmp_path / "x", tmp_path / "work").why
    )


def test_widths_go_with_one_over_the_root_of_the_people() -> None:
    assert (
        times_as_many(audited(-0.2, 0.2), Gates()) == 4
        and times_as_many(audited(-0.41, 0.41), Gates()) == 17
    )
    assert times_as_many(audited(-0.2, 0.2), Gates(max_auc_below_retrained=0.05)) == 16
    assert times_as_many(audited(0.0, 0.15), Gates()) is None, (
        "narrow enough: what is wrong is where it lies"
    )
    few = replace(audited(-0.2, 0.2), skipped={"forget interval": "fewer than five subjects"})
    assert (
        times_as_many(few, Gates()) is None
        and times_as_many(audited(-0.2, 0.2), Gates(max_auc_above_retrained=0.0)) is None
    )
