"""What export and rounding did to an edit: stored codes that differ, and how far outputs moved from
the original's export.

Shapes: N samples, G groups, R bootstrap replicates, F forget samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unplug.core import MissingExtraError
from unplug.export import (
    READERS,
    Artifact,
    CodeChange,
    check_comparable,
    compare_codes,
    stored_weights,
)
from unplug.sdk.evidence.statistics import MIN_SUBJECTS, mean_estimate, with_interval
from unplug.sdk.learning.training import ClassPredictions, Predictions, Sets

from .attack import Array
from .audit_report import Estimate, OutputDistance, Rounding
from .exports import Exports, not_run_here
from .predictor import check_finite

if TYPE_CHECKING:
    from unplug.sdk.forgetting.tasks import StoredTask

SETS = ("forget", "test")


@dataclass(frozen=True, kw_only=True)
class Said:
    """What one model says of the forget and of the test set."""

    forget: Predictions
    test: Predictions


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What the audit of an artifact hands over, because it has it already.

    Args:
        name: the artifact's name in the report.
        own: the artifact's answers; None where it cannot run here.
        checkpoint: the answers of the unrounded weights that it was exported from; None where they
            were not given.
        original: the original checkpoint's answers.
        auc_shift: AUC on the file minus on the checkpoint, an attack; paired.
        task: the task of the file's model; None where it was not run.
    """

    name: str
    own: Said | None
    checkpoint: Said | None
    original: Said | None
    auc_shift: Mapping[str, Estimate]
    task: StoredTask | None


def total_variation(one: Predictions, other: Predictions) -> Array:
    """sum_g |p_g - q_g| / 2 of every sample (N,), between 0 and 1.

    Example:
        >>> from unplug.sdk.learning.training import ClassPredictions
        >>> a, b = (ClassPredictions.of(np.log([odds]), np.zeros(1)) for odds in ([0.5, 0.5], [0.9, 0.1]))
        >>> total_variation(a, b).round(3)
        array([0.4])
    """
    return np.asarray(np.abs(one.probability_NG - other.probability_NG).sum(axis=1) / 2, np.float64)


def measure_rounding(
    exports: Exports, known: Compared, sets: Sets, weights_RF: NDArray[np.float32], seed: int
) -> Rounding:
    """Both measures on one artifact, with the oracle's.

    Args:
        exports: the file, and the files it is compared with.
        known: the audit's results so far.
        sets: forget and test on the device.
        weights_RF: bootstrap weights of the forget samples, the same as for every other number of
            the report.
        seed: the seed of the intervals of means.

    Raises:
        ArtifactError: files of different targets or precisions, or one that cannot be read.
        InputError: an output that is not a number.
    """
    notes: list[str] = []
    check_comparable(exports.artifact, exports.original)
    codes = _codes(exports.original, exports.artifact, notes)
    retrained_codes = None
    if exports.retrained is not None:
        check_comparable(exports.artifact, exports.retrained)
        retrained_codes = _codes(exports.original, exports.retrained, notes)
    before = oracle = None
    if known.own is None or known.task is None:
        notes.append(not_run_here(exports.artifact) or "it was not run")
    else:
        before = _say(exports.original, sets, known.task)
        oracle = None if exports.retrained is None else _say(exports.retrained, sets, known.task)
    card = exports.artifact.card
    return Rounding(
        model=known.name,
        sha256=card.sha256,
        target=card.target,
        precision=card.precision,
        original_sha256=exports.original.card.sha256,
        original_given=exports.given,
        codes=codes,
        retrained_codes=retrained_codes,
        distance=_distances(known.own, before, sets, seed),
        retrained=_distances(oracle, before, sets, seed),
        checkpoint=_distances(known.checkpoint, known.original, sets, seed),
        kept=_kept(known, before, sets, weights_RF, notes),
        minus_retrained=_minus(known.own, oracle, before, sets, weights_RF),
        auc_shift=dict(known.auc_shift),
        notes=tuple(dict.fromkeys(notes)),
    )


def _codes(one: Artifact, other: Artifact, notes: list[str]) -> CodeChange | None:
    """Stored codes of two files; what keeps them from being compared is written down."""
    if one.card.target not in READERS:
        notes.append(
            "stored codes were not compared: nothing here reads the weights of a file for "
            f"{one.card.target}"
        )
        return None
    try:
        change = compare_codes(stored_weights(one), stored_weights(other))
    except MissingExtraError as error:
        notes.append(f"stored codes were not compared: {str(error).rstrip('.')}")
        return None
    if change.unmatched:
        notes.append(
            f"{change.unmatched} tensors of {one.path.name} or its counterpart have no partner of "
            "the same name, shape and "
            f"type ({change.unmatched_weights} weights): they are not compared"
        )
    return change


def _say(artifact: Artifact, sets: Sets, task: StoredTask) -> Said:
    forget, test = task.predict_artifact(artifact, [sets.forget, sets.test])
    check_finite(
        f"{artifact.card.target} {artifact.card.precision} export {artifact.path.name}",
        (forget, test),
    )
    return Said(forget=forget, test=test)


def _distances(
    own: Said | None, before: Said | None, sets: Sets, seed: int
) -> dict[str, OutputDistance]:
    if own is None or before is None:
        return {}
    distances = {}
    for name in SETS:
        one, other, data = (getattr(part, name) for part in (own, before, sets))
        moved_N = np.abs(one.answer_N - other.answer_N)
        moved = mean_estimate(moved_N, data.subject_N, seed)
        aged = isinstance(one, ClassPredictions) and not one.classes
        distances[name] = OutputDistance(
            **{"years" if aged else "answers": moved},
            variation=mean_estimate(total_variation(one, other), data.subject_N, seed),
        )
    return distances


def _kept(
    known: Compared,
    before: Said | None,
    sets: Sets,
    weights_RF: NDArray[np.float32],
    notes: list[str],
) -> Estimate | None:
    """How much of the edit's distance on the forget set the file still has: a ratio of mean total
    variations, paired.
    """
    if known.own is None or before is None:
        return None
    if known.checkpoint is None or known.original is None:
        notes.append(
            "the checkpoint it was exported from was not given, so what rounding changed cannot be "
            "told apart"
        )
        return None
    # Both distances on the same samples and draws: the ratio's interval is a paired one.
    file_F = total_variation(known.own.forget, before.forget)
    edit_F = total_variation(known.checkpoint.forget, known.original.forget)
    if not edit_F.any():
        notes.append(
            "the forget step changed no output on the forget set, so rounding had nothing to bring "
            "back"
        )
        return None
    value = float(file_F.mean() / edit_F.mean())
    if len(np.unique(sets.forget.subject_N)) < MIN_SUBJECTS:
        return Estimate(value=value)
    # A draw of people on whom the edit changed nothing has no ratio.
    base_R = weights_RF @ edit_F
    return with_interval(value, (weights_RF @ file_F)[base_R > 0] / base_R[base_R > 0])


def _minus(
    own: Said | None,
    oracle: Said | None,
    before: Said | None,
    sets: Sets,
    weights_RF: NDArray[np.float32],
) -> Estimate | None:
    """Distance from the original's export, minus the oracle's file's, on the forget set; total
    variation, paired.
    """
    if own is None or oracle is None or before is None:
        return None
    gap_F = total_variation(own.forget, before.forget) - total_variation(
        oracle.forget, before.forget
    )
    if len(np.unique(sets.forget.subject_N)) < MIN_SUBJECTS:
        return Estimate(value=float(gap_F.mean()))
    return with_interval(float(gap_F.mean()), (weights_RF @ gap_F) / weights_RF.sum(axis=1))
