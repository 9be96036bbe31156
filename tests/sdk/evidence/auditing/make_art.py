"""Writes ``golden_art.json``: what the Adversarial Robustness Toolbox says of some arrays; the
tests do not install it.

``pip install adversarial-robustness-toolbox packaging``, then ``python
tests/sdk/evidence/auditing/make_art.py``. Three of its attacks: the label-only gap attack, a
logistic regression on the loss with its probabilities, and its true-positive rates at low
false-positive rates, each on the logits of members and of strangers.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

MEMBERS, STRANGERS, CLASSES = 120, 300, 5
RATES = (0.05, 0.1, 0.25)


def arrays() -> dict[str, Any]:
    """Logits (N, K) in three decimals and true classes (N,) of both sides; members are a little
    surer.
    """
    rng = np.random.default_rng(23)
    result: dict[str, Any] = {}
    for side, count, shift in (("members", MEMBERS, 1.2), ("strangers", STRANGERS, 0.4)):
        true_N = rng.integers(CLASSES, size=count)
        logits_NK = rng.normal(0.0, 1.5, (count, CLASSES))
        logits_NK[np.arange(count), true_N] += shift
        result[side] = {"logits": np.round(logits_NK, 3).tolist(), "true": true_N.tolist()}
    return result


def answers(data: dict[str, Any]) -> dict[str, Any]:
    """What the toolbox says: members by the gap attack, probabilities of its regression on the
    loss, rates of these.
    """
    from art.attacks.inference.membership_inference import (
        LabelOnlyGapAttack,
        MembershipInferenceBlackBox,
    )
    from art.estimators.classification import BlackBoxClassifier
    from art.metrics.privacy.worst_case_mia_score import get_roc_for_multi_fprs

    classifier = BlackBoxClassifier(softmax, input_shape=(CLASSES,), nb_classes=CLASSES)
    sides = [
        (np.array(data[side]["logits"]), np.array(data[side]["true"]))
        for side in ("members", "strangers")
    ]
    gap = [LabelOnlyGapAttack(classifier).infer(*side).tolist() for side in sides]
    loss_F1, loss_U1 = (
        -np.log(softmax(x_NK)[np.arange(len(y_N)), y_N])[:, None] for x_NK, y_N in sides
    )
    attack = MembershipInferenceBlackBox(
        classifier, input_type="prediction", attack_model_type="lr"
    )
    attack.fit(pred=loss_F1, test_pred=loss_U1)
    sure = [
        attack.infer(None, pred=loss_N1, probabilities=True)[:, -1].astype(float)
        for loss_N1 in (loss_F1, loss_U1)
    ]
    member_N = np.repeat([1, 0], [MEMBERS, STRANGERS])
    _, rate, _ = get_roc_for_multi_fprs(np.concatenate(sure), member_N, np.array(RATES))
    return {
        "gap": gap,
        "regression": [side.tolist() for side in sure],
        "rates": {f"{limit:g}": float(value) for limit, value in zip(RATES, rate, strict=True)},
    }


def softmax(x_NK: np.ndarray) -> np.ndarray:
    """The network that is attacked: its inputs are logits."""
    power_NK = np.exp(x_NK - x_NK.max(axis=1, keepdims=True))
    return np.asarray(power_NK / power_NK.sum(axis=1, keepdims=True))


def main() -> None:
    """Writes the file."""
    data = arrays()
    result = {
        "tool": f"adversarial-robustness-toolbox {version('adversarial-robustness-toolbox')}",
        **data,
        "says": answers(data),
    }
    Path(__file__).with_name("golden_art.json").write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
