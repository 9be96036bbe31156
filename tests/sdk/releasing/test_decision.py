"""The gate that forgetting may not move the decision: planted shifts, harmless steps, and a
decision on its way to a bundle.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from scipy.special import expit, logit
from tests.sdk.cli.calls import fail
from tests.sdk.conftest import QUICK, World

from unplug.core import InputError
from unplug.sdk.cli import main
from unplug.sdk.drawing.inference import Decision, DecisionRecord, decision_in
from unplug.sdk.evidence.assurance import Limits, Shift, ask, decide, decision_shift
from unplug.sdk.releasing import Gates, Release, explain_gates
from unplug.sdk.releasing.decided import Decided, decision_card
from unplug.sdk.releasing.evidence import ReleaseEvidence
from unplug.sdk.releasing.gates_decision import DecisionStays
from unplug.trust.bundle import Gate, read_manifest, verify_bundle

from .conftest import releasing

RULE = Decision(age=18.0, over_from=0.85, under_to=0.3)
AFTER = "decision (false positives)"


def record(world: World, **limits: float) -> DecisionRecord:
    """Of the world's original, at an age that its few held-out people lie on both sides of."""
    answers = ask([world.original.path], world.spec, show=False)
    return decide(answers, Limits(age=40.0, **({"max_fpr": 0.5, "max_fnr": 0.6} | limits)))[0]  # type: ignore[arg-type]


def shifted(by: float, count: int = 3000, sd: float = 0.02, *, only: str | None = None) -> Shift:
    """A step that moves the log odds of everybody, or of one group of a third; half of them are
    minors.
    """
    rng = np.random.default_rng(0)
    age_N = np.where(np.arange(count) % 2, 12.0, 30.0)
    group_N = [("a", "b", "c")[index % 3] for index in range(count)]
    before_N = expit((age_N - 18) / 3 + rng.normal(0, 1.5, count))
    moved_N = np.array([only is None or item == only for item in group_N])
    after_N = expit(logit(before_N) + by * moved_N + rng.normal(0, sd, count))
    return decision_shift(
        before_N,
        after_N,
        age_N,
        np.arange(count),
        RULE,
        name="after",
        sha256="a" * 64,
        group_N=group_N,
    )


def decision_gates(decided: Decided, **limits: Any) -> list[Gate]:
    return list(DecisionStays(**limits).judge(ReleaseEvidence(results={"decided": decided})))


def judged(world: World, forgetting: Shift, *rounding: Shift, **limits: float) -> dict[str, Gate]:
    decided = Decided(record=record(world), forgetting=forgetting, rounding=rounding, not_run={})
    return {gate.name: gate for gate in decision_gates(decided, **limits)}


def test_a_harmless_step_passes(world: World) -> None:
    gates = judged(world, shifted(0.0), shifted(0.0))
    assert len(gates) == 8 and all(gate.passed and not gate.inconclusive for gate in gates.values())
    assert (
        explain_gates(list(gates.values()), Gates())[0].source
        == "the default of max_decision_shift"
    )
    assert all(item.asks for item in explain_gates(list(gates.values()), Gates()))


@pytest.mark.parametrize("by", [1.5, -1.5])
def test_a_forget_step_that_shifts_the_decision_is_caught(world: World, by: float) -> None:
    """Planted: everybody looks older, or younger; test error and attacks need not notice."""
    gates = judged(world, shifted(by), shifted(0.0))
    errs = AFTER if by > 0 else "decision (false negatives)"
    for name in (errs, "decision (calibration)"):
        assert not gates[name].passed and not gates[name].inconclusive
    assert all(gate.passed for name, gate in gates.items() if name.startswith("decision, rounding"))


def test_rounding_that_shifts_it_is_caught_and_names_the_file(world: World) -> None:
    gates = judged(world, shifted(0.0), shifted(0.0), replace(shifted(1.5), name="age.int8.tflite"))
    assert gates[AFTER].passed and not gates["decision, rounding (false positives)"].passed
    assert gates["decision, rounding (false positives)"].detail.startswith("age.int8.tflite: +")


def test_a_shift_in_one_group_is_caught_where_all_together_hide_it(world: World) -> None:
    gates = judged(world, shifted(1.5, only="b"), max_decision_shift=0.1, max_calibration_shift=0.5)
    assert gates[AFTER].passed and not gates["decision (worst group)"].passed
    assert (
        "b +" in gates["decision (worst group)"].detail
        and "gap between groups" in gates["decision (worst group)"].detail
    )


def test_a_member_that_forgetting_shifts_is_caught_and_named(world: World) -> None:
    """Planted: the reference stays, another size of its family looks older."""
    moved = replace(shifted(1.5), name="members/nano/nano")
    decided = Decided(
        record=record(world),
        forgetting=shifted(0.0),
        members=(moved,),
        rounding=(),
        not_run={},
    )
    (gate,) = (item for item in decision_gates(decided) if item.name == AFTER)
    assert not gate.passed and gate.detail.startswith("members/nano/nano: +")


def test_few_people_are_no_evidence(world: World) -> None:
    gates = judged(world, shifted(0.0, count=60, sd=0.0))
    assert not gates[AFTER].passed and gates[AFTER].inconclusive and gates[AFTER].value > 0.02
    assert (
        gates["decision (worst group)"].value is None
        and "fewer than 72 minors: a, b, c" in gates["decision (worst group)"].detail
    )


def test_a_file_that_was_not_run(world: World) -> None:
    decided = Decided(
        record=record(world),
        forgetting=shifted(0.0),
        rounding=(),
        not_run={"age.mlpackage": "no macOS"},
    )
    names = {gate.name for gate in decision_gates(decided)}
    assert (
        "decision (files not run)" not in names
        and "age.mlpackage was not run here" in decision_card(decided)
    )
    strict = decision_gates(decided, allow_not_run=False)[-1]
    assert strict.name == "decision (files not run)" and not strict.passed


def released_with(world: World, folder: Path, found: DecisionRecord, **limits: float) -> Release:
    (folder / "decision.json").write_text(json.dumps(asdict(found)))
    gates = replace(QUICK.gates, **limits)
    return releasing(world, folder, replace(QUICK, decision=folder / "decision.json", gates=gates))


@pytest.mark.long
def test_a_decision_on_its_way_into_a_bundle(world: World, tmp_path: Path) -> None:
    """Refused for want of people first; with open gates it ships, fitted anew on the file, and
    answers in `unplug run`.
    """
    before = record(world)
    with pytest.raises(InputError, match="minors: 183 are needed"):
        released_with(world, tmp_path, before)
    limits = ("max_decision_shift", "max_group_shift", "max_calibration_shift")
    done = released_with(world, tmp_path, before, **dict.fromkeys(limits, 1.0))
    verify_bundle(done.bundle)
    carried = decision_in(read_manifest(done.bundle).postprocessing, "manifest.json")
    assert carried is not None and carried.apart == "held out"
    assert [item.name for item in carried.models] == ["unlearned", "age.fp32.tflite"]
    assert {item.sha256 for item in carried.models} >= {world.unlearned.sha256}
    told = json.loads((done.bundle / "reports" / "decision.json").read_text())
    assert told["forgetting"]["sha256"] == world.unlearned.sha256
    assert "*over* from P(age >= 40)" in (done.bundle / "README.md").read_text()
    Image.fromarray(world.dataset.pixels(np.array([0]))[0]).save(tmp_path / "face.png")
    shown = CliRunner().invoke(
        main, ["run", str(done.bundle), "--image", str(tmp_path / "face.png")]
    )
    assert shown.exit_code == 0 and " 40 (P = " in shown.stdout, shown.stderr


def test_a_decision_of_another_model_is_refused(world: World, tmp_path: Path) -> None:
    other = replace(record(world), models=())
    with pytest.raises(InputError, match="fitted on other models than this original"):
        released_with(world, tmp_path, other)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--gate", "max_decision_shift=0.1"), "there is no decision to compare"),
        (("--decision-data", "synth:n=9"), "no decision is given"),
    ],
)
def test_a_gate_of_a_decision_that_nobody_gave(
    world: World, tmp_path: Path, more: tuple[str, ...], why: str
) -> None:
    arguments = ("--data", world.spec, "--forget", world.forget_file, "--out", tmp_path / "b")
    more = (*more, "--budget", "0.6")
    assert why in fail("release", world.original.path, *arguments, *more).line
