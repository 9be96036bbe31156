"""The numbers of a leaderboard: what they are called, how they are written, which way is better,
and what may rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower", "oracle", "neither"]
Kind = Literal["age", "class"]
Rank = Literal["challenge", "nomus", "attack"]
RANKED_BY: dict[Rank, str] = {
    "challenge": "challenge score: F times the retain- and test-accuracy ratios (higher is better)",
    "nomus": (
        "NoMUS: half accuracy, half closeness of the attack to a coin (higher is better; read the "
        "accuracy beside it)"
    ),
    "attack": "distance of the loss attack's accuracy from the retrained models' (lower is better)",
}
RANKING: dict[Rank, str] = {"challenge": "score", "nomus": "nomus", "attack": "attack_distance"}
"""The metric behind each."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One column.

    Args:
        label: head of the column.
        better: "oracle" where the retrained models' value is the aim and both sides of it are
            worse.
        says: one line of explanation.
        unit: behind the head.
        percent: written as percent.
        digits: decimals, after scaling to percent.
        sign: written with its sign.
    """

    label: str
    better: Better
    says: str
    unit: str = ""
    percent: bool = False
    digits: int = 3
    sign: bool = False


METRICS: dict[str, Metric] = {
    "score": Metric(
        label="score",
        better="higher",
        says="F times the retain- and the test-accuracy ratio: the challenge's number",
    ),
    "score_gap": Metric(
        label="score",
        unit="minus the best",
        better="higher",
        sign=True,
        says=(
            "score minus the first row's, paired over models and subjects: an interval below 0 is "
            "a clear loss"
        ),
    ),
    "f": Metric(
        label="F",
        better="oracle",
        says="forgetting quality; perfect unlearning has that of retrained models",
    ),
    "f_ratio": Metric(
        label="F / F_null",
        better="oracle",
        digits=2,
        says="F over that of retrained against retrained: 1 is perfect",
    ),
    "retain_ratio": Metric(
        label="RA ratio", better="higher", says="retain accuracy over the retrained models'"
    ),
    "test_ratio": Metric(
        label="TA ratio", better="higher", says="test accuracy over the retrained models'"
    ),
    "nomus": Metric(
        label="NoMUS",
        better="higher",
        says="half test accuracy, half 1 - 2 |attack accuracy - 0.5|",
    ),
    "test_accuracy": Metric(
        label="test accuracy",
        better="higher",
        percent=True,
        digits=1,
        says="share of right groups or classes",
    ),
    "test_accuracy_gap": Metric(
        label="test accuracy",
        unit="minus retrained, points",
        better="higher",
        percent=True,
        digits=1,
        sign=True,
        says="test accuracy minus the retrained models'",
    ),
    "test_mae": Metric(
        label="test MAE",
        unit="years",
        better="lower",
        digits=2,
        says="mean absolute error of the age",
    ),
    "test_mae_gap": Metric(
        label="test MAE",
        unit="minus retrained, years",
        better="lower",
        digits=2,
        sign=True,
        says="test error minus the retrained models'",
    ),
    "retain_mae_gap": Metric(
        label="retain MAE",
        unit="minus retrained, years",
        better="lower",
        digits=2,
        sign=True,
        says=(
            "error on the retain set minus the retrained models'; below 0 is what longer training "
            "on it does"
        ),
    ),
    "phi_shift": Metric(
        label="shift of phi",
        unit="sd",
        better="oracle",
        digits=2,
        says=(
            "|mean phi of unlearned - of retrained models| per forget sample, in the latter's sd; "
            "half the models a side"
        ),
    ),
    "phi_sd": Metric(
        label="sd ratio of phi",
        better="oracle",
        digits=2,
        says=(
            "spread of phi over unlearned models, over that of retrained ones; half the models a "
            "side"
        ),
    ),
    "two_versions_auc": Metric(
        label="two versions AUC",
        better="oracle",
        says=(
            "AUC of phi(original) - phi(this model), forget against unseen samples: who holds both "
            "files"
        ),
    ),
    "views_auc": Metric(
        label="views AUC",
        better="oracle",
        says=(
            "AUC of the mean score over shifts by 1 and 2 px and crops; of the first models whose "
            "weights are kept"
        ),
    ),
    "rounded_auc": Metric(
        label="loss AUC after int8",
        better="oracle",
        says=(
            "loss AUC after weights were rounded to 8 bits per output channel; of the same models "
            "as views"
        ),
    ),
    "relearn": Metric(
        label="relearn",
        unit="epochs",
        better="oracle",
        digits=1,
        says=(
            "epochs of fine-tuning on the forget set until the original's loss is back, 50 at "
            "most; of the first 8 models"
        ),
    ),
    "loss_auc": Metric(
        label="loss AUC",
        better="oracle",
        says="AUC of the loss, forget against unseen samples of the same groups or classes",
    ),
    "logistic_accuracy": Metric(
        label="loss attack",
        better="oracle",
        says="balanced accuracy of a logistic regression on the loss, 10 folds",
    ),
    "attack_distance": Metric(
        label="attack distance",
        better="lower",
        says="|loss attack's accuracy - the retrained models'|",
    ),
    "rmia_auc": Metric(
        label="RMIA AUC", better="oracle", says="AUC of RMIA with retrained models as references"
    ),
    "ulira_auc": Metric(
        label="population LiRA AUC",
        better="oracle",
        says="AUC of telling unlearned from retrained models by one sample",
    ),
    "klom_forget": Metric(
        label="KLOM forget", unit="nats", better="lower", says="KL of margins, forget set"
    ),
    "klom_validation": Metric(
        label="KLOM validation", unit="nats", better="lower", says="KL of margins, validation set"
    ),
    "klom_retain": Metric(
        label="KLOM retain", unit="nats", better="lower", says="KL of margins, retain set"
    ),
    "distance_forget": Metric(
        label="distance, forget",
        unit="years",
        better="lower",
        digits=2,
        says="|predicted age - the oracle mean|, forget set",
    ),
    "distance_test": Metric(
        label="distance, test",
        unit="years",
        better="lower",
        digits=2,
        says="|predicted age - the oracle mean|, test set",
    ),
    "compute": Metric(
        label="compute", unit="of retraining", better="lower", percent=True, digits=1, says="passes"
    ),
    "wall": Metric(
        label="wall time",
        unit="of retraining",
        better="lower",
        percent=True,
        digits=1,
        says="seconds",
    ),
    "wall_s": Metric(
        label="wall time", unit="s", better="lower", digits=1, says="seconds of one run"
    ),
}


@dataclass(frozen=True, kw_only=True)
class PublishedNumber:
    """A number that others printed for the same setting; the protocol's summary says what differs.

    Args:
        model: "original", "retrained" or a method's name.
        metric: a name of `METRICS`.
        value: as printed.
    """

    model: str
    metric: str
    value: float
