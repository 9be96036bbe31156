"""Our scores and rates on the arrays on which the Adversarial Robustness Toolbox was run; see
make_art.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.sdk.evidence.auditing import Signals
from unplug.sdk.evidence.auditing.attacks.loss import LossAttack
from unplug.sdk.evidence.statistics import auc, tpr_or_reason
from unplug.sdk.learning.training import ClassPredictions

from . import make_art

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden_art.json").read_text())
SAYS = GOLDEN["says"]


def said(side: str) -> ClassPredictions:
    logits_NK, true_N = np.array(GOLDEN[side]["logits"]), np.array(GOLDEN[side]["true"])
    unknown = np.full(len(true_N), np.nan)
    return ClassPredictions(
        logits_NG=logits_NK, age_N=unknown, true_age_N=unknown, true_group_N=true_N
    )


FORGET, UNSEEN = said("members"), said("strangers")


def test_the_arrays_are_those_of_the_script() -> None:
    assert make_art.arrays() == {side: GOLDEN[side] for side in ("members", "strangers")}


def test_where_the_tool_is_installed_it_says_the_same_again() -> None:
    pytest.importorskip("art")
    again = make_art.answers(GOLDEN)
    assert again["gap"] == SAYS["gap"] and again["rates"] == pytest.approx(SAYS["rates"])
    for ours, stored in zip(again["regression"], SAYS["regression"], strict=True):
        np.testing.assert_allclose(ours, stored, atol=1e-6)


def test_who_is_a_member_by_the_gap_attack_is_who_is_answered_rightly() -> None:
    gap_F, gap_U = SAYS["gap"]
    np.testing.assert_array_equal(FORGET.correct_N, np.array(gap_F, bool))
    np.testing.assert_array_equal(UNSEEN.correct_N, np.array(gap_U, bool))
    result = auc(FORGET.correct_N.astype(float), UNSEEN.correct_N.astype(float))
    assert result == pytest.approx((1 + np.mean(gap_F) - np.mean(gap_U)) / 2)


def test_the_loss_attack_orders_samples_as_its_regression_on_the_loss_does() -> None:
    signals = Signals(forget=FORGET, unseen=UNSEEN, population=UNSEEN, retain=FORGET)
    forget_F, unseen_U = LossAttack()(signals, [])
    sure_F, sure_U = map(np.array, SAYS["regression"])
    assert auc(forget_F, unseen_U) == pytest.approx(auc(sure_F, sure_U), abs=1e-6)
    np.testing.assert_array_equal(
        np.argsort(forget_F, kind="stable"), np.argsort(sure_F, kind="stable")
    )
    for rate, theirs in SAYS["rates"].items():
        assert tpr_or_reason(forget_F, unseen_U, float(rate)) == pytest.approx(theirs)
