"""Our attacks on the arrays on which two public tools were run; golden_attacks.json says which, and
how.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logit

from unplug.sdk.evidence.auditing import Signals
from unplug.sdk.evidence.auditing.attacks.rmia import RMIA
from unplug.sdk.evidence.auditing.attacks.views import ViewsAttack

from .planted import says

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden_attacks.json").read_text())
TINY = 1e-9
"""Ours adds 1e-12 to both sides of a ratio of probabilities."""


def signals(forget: Any, population: Any) -> Signals:
    forget, population = (says(logit(np.array(part))) for part in (forget, population))
    return Signals(forget=forget, unseen=forget, population=population, retain=population)


@pytest.mark.parametrize("a", ["0", "0.3", "1"])
def test_rmia_is_privacy_meters(a: str) -> None:
    rows = GOLDEN["rmia"]
    target = signals(rows["target"], rows["population_target"])
    references = [
        signals(*pair)
        for pair in zip(rows["references"], rows["population_references"], strict=True)
    ]
    forget_F, unseen_U = RMIA(a=float(a))(target, references)
    np.testing.assert_allclose(forget_F, rows["scores"][a], atol=TINY)
    np.testing.assert_allclose(unseen_U, rows["scores"][a], atol=TINY)


def test_the_mean_over_views_is_privacy_meters_range_score() -> None:
    rows = np.array(GOLDEN["range"]["scores"])  # samples by views, in log p
    # log probabilities are below 0, and a shift of all leaves the means shifted
    phi = rows - np.abs(rows).max() - 1.0
    views = tuple((says(logit(np.exp(part))), says(logit(np.exp(part)))) for part in phi.T)
    first = says([0.0] * len(rows))
    ours = Signals(forget=first, unseen=first, population=first, retain=first, views=views)
    forget_F, _ = ViewsAttack()(ours, [])
    np.testing.assert_allclose(forget_F + np.abs(rows).max() + 1.0, GOLDEN["range"]["mean"])
