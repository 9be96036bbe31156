"""The results of one row, read and put beside the truth.

Shapes: M models, N samples, G groups or classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.auditing import Signals
from unplug.sdk.evidence.fleet import Result, read_result
from unplug.sdk.learning.training import ClassPredictions, ImageSet, Sets, pictures

from .binding import bound_sha256

Array = NDArray[np.float64]
PARTS = ("forget", "test", "validation")


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Labels and subjects of a set.

    Args:
        group_N, age_N, subject_N: as in `ImageSet`.
    """

    group_N: NDArray[np.int64]
    age_N: Array
    subject_N: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.group_N)


@dataclass(frozen=True, kw_only=True)
class Truths:
    """Labels of the four sets."""

    forget: Truth
    test: Truth
    validation: Truth
    retain: Truth

    @classmethod
    def of(cls, sets: Sets) -> Truths:
        """The labels of a set without its pixels."""
        parts = {
            "forget": sets.forget,
            "test": sets.test,
            "validation": sets.validation,
            "retain": sets.train,
        }
        return cls(**{name: _truth(pictures(part)) for name, part in parts.items()})


@dataclass(frozen=True, kw_only=True)
class Pool:
    """What the models of one row say of every set.

    Args:
        models: M results.
        clusters: the original that each came from.
        truths: labels.
        weights_sha256: of the weights of each.
    """

    models: tuple[Result, ...]
    clusters: tuple[int, ...]
    truths: Truths
    weights_sha256: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.models)

    @cached_property
    def says(self) -> tuple[dict[str, ClassPredictions], ...]:
        """Predictions of every model on forget, test and validation."""
        return tuple(
            {part: _predictions(model, part, getattr(self.truths, part)) for part in PARTS}
            for model in self.models
        )

    def margin(self, part: str) -> Array:
        """phi of every model on a set (M, N)."""
        if part == "retain":
            return np.stack(
                [model.tensors["retain_margin"].astype(np.float64) for model in self.models]
            )
        return np.stack([own[part].confidence_N for own in self.says])

    def age(self, part: str) -> Array:
        """Expected age of every model on a set (M, N)."""
        return np.stack([own[part].age_N for own in self.says])

    def per_model(self, name: str) -> Array:
        """A number of every model (M,): retain_accuracy, retain_mae, test_accuracy, test_mae,
        compute, wall or wall_s.
        """
        makers = {
            "retain_accuracy": lambda number: self.models[number].tensors["retain_correct"].mean(),
            "retain_mae": lambda number: abs(
                self.models[number].tensors["retain_age"] - self.truths.retain.age_N
            ).mean(),
            "test_accuracy": lambda number: self.says[number]["test"].correct_N.mean(),
            "test_mae": lambda number: self.says[number]["test"].error_N.mean(),
            "compute": lambda number: self.models[number].facts["cost"]["compute_fraction"],
            "wall": lambda number: self.models[number].facts["cost"]["wall_fraction"],
            "wall_s": lambda number: self.models[number].facts["wall_s"],
        }
        return np.array([float(makers[name](number)) for number in range(len(self))])

    def signals(self, forget: NDArray[np.int64], unseen: NDArray[np.int64]) -> tuple[Signals, ...]:
        """What the attacks read, on some forget and some test samples; the retain set is empty."""
        return tuple(
            Signals(
                forget=_pick(own["forget"], forget),
                unseen=_pick(own["test"], unseen),
                population=own["validation"],
                retain=_pick(own["test"], np.zeros(0, np.int64)),
            )
            for own in self.says
        )


def read_pool(
    folder: Path,
    names: Sequence[tuple[str, int]],
    truths: Truths,
    failed: Mapping[str, str] = MappingProxyType({}),
    originals: Mapping[int, str] = MappingProxyType({}),
) -> tuple[Pool, dict[str, str]]:
    """Reads the results of a row.

    Args:
        folder: of the results.
        names: name of each result, and its cluster.
        truths: labels.
        failed: runs that left no result, and the end of their tracebacks.
        originals: SHA-256 of the weights that results must have been made from, by cluster.

    Returns:
        The models that came out, and why others did not, by name.

    Raises:
        InputError: a result that is not of this data, not bound to weights, or made from another
            original.
    """
    results: list[tuple[Result, int, str]] = []
    refused: dict[str, str] = {}
    for name, cluster in names:
        if name in failed:
            refused[name] = f"it failed: {failed[name].strip().splitlines()[-1]}"
            continue
        result = read_result(folder, name)
        if result.refused is not None:
            refused[name] = f"{result.refused['what']}: {result.refused['why']}"
            continue
        _check(result, truths, name)
        results.append((result, cluster, bound_sha256(result, name, originals.get(cluster))))
    models, clusters, digests = zip(*results, strict=True) if results else ((), (), ())
    return Pool(models=models, clusters=clusters, truths=truths, weights_sha256=digests), refused


def _check(result: Result, truths: Truths, name: str) -> None:
    groups = len(np.unique(truths.retain.group_N))
    for part in PARTS:
        logits = result.tensors.get(f"{part}_logits")
        whole = (
            logits is not None and logits.ndim == 2 and len(logits) == len(getattr(truths, part))
        )
        if not whole or logits is None or logits.shape[1] < groups or not np.isfinite(logits).all():
            raise InputError(
                f"result {name}",
                f"its {part} logits are not of this data",
                "Remove it and run again",
            )
    retain = result.tensors.get("retain_margin"), result.tensors.get("retain_correct")
    if any(value is None or value.shape != (len(truths.retain),) for value in retain):
        raise InputError(
            f"result {name}", "its retain margins are not of this data", "Remove it and run again"
        )


def _truth(part: ImageSet) -> Truth:
    return Truth(
        group_N=part.group_N.cpu().numpy(),
        age_N=part.age_N.double().cpu().numpy(),
        subject_N=np.asarray(part.subject_N),
    )


def _predictions(model: Result, part: str, truth: Truth) -> ClassPredictions:
    ages = model.tensors.get(f"{part}_age")
    return ClassPredictions(
        logits_NG=model.tensors[f"{part}_logits"].astype(np.float64),
        age_N=np.full(len(truth), np.nan) if ages is None else ages.astype(np.float64),
        true_age_N=truth.age_N,
        true_group_N=truth.group_N,
    )


def _pick(says: ClassPredictions, index: NDArray[np.int64]) -> ClassPredictions:
    return replace(
        says,
        logits_NG=says.logits_NG[index],
        age_N=says.age_N[index],
        true_age_N=says.true_age_N[index],
        true_group_N=says.true_group_N[index],
    )
