"""What the workers of a leaderboard do: train a model (or a stack of them), unlearn one, measure
it. One result a model.

Shapes: F forget, T test, V validation, R retain samples; G groups or classes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.studies.stacks.room import stack_width
from benchmarks.studies.stacks.stacked import fit_stacked
from unplug.core import InputError
from unplug.sdk.evidence.fleet import (
    FleetJob,
    Order,
    Result,
    job_fingerprint,
    pack,
    read_result,
    write_result,
)
from unplug.sdk.forgetting.unlearning import (
    ForgetProblem,
    Meter,
    Method,
    RetrainCost,
    TrainingHook,
    apply_method,
    build_method,
    estimate_retraining,
    summary,
)
from unplug.sdk.learning.data import Dataset, Split, load_dataset
from unplug.sdk.learning.training import (
    ImageSet,
    Recipe,
    Sets,
    Task,
    fit_new,
    load_sets,
    new_model,
    pictures,
    predict,
    seeded,
)

from .binding import WEIGHT, arrays_of, bound_sha256, weights_of, weights_sha256
from .plan import original_name
from .protocol import PROTOCOLS
from .protocols import listed

ORIGINALS = ("original",)
MAX_CACHED = 64  # originals in memory per worker
KEPT = 150_000
"""Weights up to which every result keeps its model: whoever wants to attack a board's models finds
them there.
"""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all models of a leaderboard share.

    Args:
        task: how models are built and trained.
        sets: retain (as ``train``), forget, validation and test on the device.
        split: the same as ids.
        dataset: where the pixels come from.
        models: folder of the results.
        device: where to compute.
    """

    task: Task
    sets: Sets
    split: Split
    dataset: Dataset
    models: Path
    device: torch.device
    _originals: dict[str, nn.Module] = field(default_factory=dict)

    @cached_property
    def whole(self) -> ImageSet:
        """Retain and forget set together: what an original is trained on."""
        everything = Split(
            data_digest=self.split.data_digest,
            seed=self.split.seed,
            subject_disjoint=self.split.subject_disjoint,
            train=self.split.train,
            validation=(),
            test=(),
        )
        edges = self.task.edges if self.kind == "age" else None
        return pictures(load_sets(self.dataset, everything, edges, self.device).train)

    def training_set(self, role: str) -> ImageSet:
        """What a model of a role is trained on."""
        return self.whole if role in ORIGINALS else pictures(self.sets.train)

    @property
    def kind(self) -> str:
        """The kind of models, as in `BenchmarkProtocol`."""
        return "class" if bool(torch.isnan(pictures(self.sets.train).age_N).any()) else "age"

    @cached_property
    def retrain(self) -> RetrainCost:
        """What retraining costs here and now; timed once per worker, with the other workers at work
        beside it.
        """
        return estimate_retraining(new_model(self.task, self.sets.train, 0), self.sets, self.task)

    def original(self, seed: int) -> nn.Module:
        """The original of a training seed, as its job left it; must not be changed.

        Raises:
            InputError: its result is not there, of another network, or of other weights than it
                keeps.
        """
        return self._cached(f"{seed}", lambda: self._load(seed))

    def hooked(self, method: TrainingHook, name: str, seed: int) -> nn.Module:
        """The original that a method with a training-time hook needs; trained anew in every worker,
        from the seed alone.
        """
        return self._cached(f"{name} {method!r} {seed}", lambda: self._train_with(method, seed))

    def _cached(self, key: str, make: Any) -> nn.Module:
        if key not in self._originals:
            while len(self._originals) >= MAX_CACHED:
                del self._originals[next(iter(self._originals))]
            self._originals[key] = make()
        return self._originals[key]

    def _load(self, seed: int) -> nn.Module:
        name = original_name(seed)
        result = read_result(self.models, name)
        bound_sha256(result, name)
        model = new_model(self.task, self.whole, 0)
        state = {key: torch.from_numpy(value) for key, value in weights_of(result).items()}
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            raise InputError(
                f"result {name}", f"it is of another network ({error})", "Choose another --out"
            ) from error
        return model.eval()

    def _train_with(self, method: TrainingHook, seed: int) -> nn.Module:
        empty = self.sets.forget.subset([])
        with seeded(seed, -3) as generator:
            problem = ForgetProblem(
                retain=self.whole,
                forget=empty,
                validation=self.sets.validation,
                task=self.task,
                meter=Meter(self.retrain, None),
                seed=seed,
                generator=generator,
            )
            return method.train(problem).eval()


def bench(
    *,
    protocol: str,
    spec: str,
    recipe: Mapping[str, Any],
    width: int,
    seed: int,
    device: str,
    models: str,
    forget: Sequence[str] | None = None,
) -> Bench:
    """The context of the jobs; all arguments are JSON.

    Args:
        protocol: a name of `PROTOCOLS`.
        spec: of the data.
        recipe: of every model, as `Recipe.to_dict` has it.
        width: of the network, where it is a ResNet-18.
        seed: of the split and of the forget set.
        device: for torch.
        models: folder of the results.
        forget: ids of the forget set; None picks the protocol's.

    Raises:
        DataError: some of them are not in the training set.
    """
    chosen = PROTOCOLS.get(protocol)
    pick = None if forget is None else listed(forget)
    chosen = chosen.with_(recipe=Recipe.from_dict(dict(recipe)).to_dict(), width=width, pick=pick)
    dataset = load_dataset(spec, chosen.recipe.image_size, show=False)
    split = chosen.forget_split(dataset, seed)
    task, place = chosen.task(dataset), torch.device(device)
    sets = load_sets(dataset, split, task.edges if chosen.kind == "age" else None, place)
    return Bench(
        task=task, sets=sets, split=split, dataset=dataset, models=Path(models), device=place
    )


def train(context: Bench, *, role: str, seed: int) -> Result:
    """Trains an original (on everything) or a retrained model (on the retain set) and measures it."""
    done = fit_new(context.task, context.training_set(role), context.sets.validation, seed=seed)
    return trained(context, role, seed, done.model, done.wall_s)


def trained(context: Bench, role: str, seed: int, model: nn.Module, wall_s: float) -> Result:
    """The result of a training, bound to the weights that came of it; originals keep them, and all
    small models.
    """
    tensors, weights = measure(model, context.sets), arrays_of(model)
    if role in ORIGINALS or _small(weights):
        tensors |= _kept(weights)
    facts = {
        "role": role,
        "seed": seed,
        "wall_s": wall_s,
        "passes": context.task.recipe.epochs * len(context.training_set(role)),
        "weights_sha256": weights_sha256(weights),
    }
    return Result(tensors=tensors, facts=facts)


def unlearn(
    context: Bench,
    *,
    method: str,
    settings: Mapping[str, str],
    budget: float | None,
    original: int,
    seed: int,
) -> Result:
    """Runs a method on an original within its budget and measures what comes out; refusals are
    typed errors.
    """
    built: Method = build_method(method, settings)
    hook = built if isinstance(built, TrainingHook) else None
    retrain = context.retrain
    if hook is not None:  # a training of its own, which a request over the budget can do without
        passes = hook.price(context.whole.ids, context.sets.train.ids, context.task, original)
        Meter(retrain, budget).charge(forward=passes, backward=passes)
    before = context.original(original) if hook is None else context.hooked(hook, method, original)
    model, cost = apply_method(
        built, before, context.sets, context.task, retrain, budget, seed=seed
    )
    weights = arrays_of(model)
    facts = {
        "role": "unlearned",
        "method": method,
        "original": original,
        "seed": seed,
        "wall_s": cost.wall_s,
        "cost": summary(cost, retrain, budget),
        "weights_sha256": weights_sha256(weights),
        "original_sha256": None if hook is not None else weights_sha256(arrays_of(before)),
    }
    kept = _kept(weights) if _small(weights) else {}
    return Result(tensors={**measure(model, context.sets), **kept}, facts=facts)


def _small(weights: Mapping[str, np.ndarray]) -> bool:
    return sum(value.size for value in weights.values()) <= KEPT


def _kept(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{WEIGHT}{name}": value for name, value in weights.items()}


def measure(model: nn.Module, sets: Sets) -> dict[str, np.ndarray]:
    """All that scoring needs of a model.

    Returns:
        Per set ``NAME_logits`` (N, G) of forget, test and validation; ``retain_margin`` (R,) = ln
        p_y - ln(1 - p_y) and ``retain_correct`` (R,); and ``NAME_age`` (N,) in years where the
        model predicts ages. All float32 or boolean.
    """
    tensors: dict[str, np.ndarray] = {}
    for name, part in (
        ("forget", sets.forget),
        ("test", sets.test),
        ("validation", sets.validation),
        ("retain", sets.train),
    ):
        says = predict(model, pictures(part))
        if name == "retain":
            tensors["retain_margin"] = says.confidence_N.astype(np.float32)
            tensors["retain_correct"] = says.correct_N
        else:
            tensors[f"{name}_logits"] = says.logits_NG.astype(np.float32)
        if not np.isnan(says.age_N).any():
            tensors[f"{name}_age"] = says.age_N.astype(np.float32)
    return tensors


def train_stacked(
    context: Bench, jobs: Sequence[FleetJob], given: str, *, show: bool = False
) -> float:
    """Carries out training jobs, a stack after the other; each stack is written when it is
    finished.

    Args:
        context: data, task and folder.
        jobs: of `plan.training_jobs`; the loop over `train` is its oracle.
        given: fingerprint that the results carry.
        show: progress bar.

    Returns:
        Seconds of wall time.

    Raises:
        InputError: the architecture cannot be stacked.
        TrainingError: a loss is not finite.
    """
    began = time.monotonic()
    for role, group in groupby(jobs, key=lambda job: str(job.arguments["role"])):
        same, data = list(group), context.training_set(role)
        width = stack_width(new_model(context.task, data, 0), data, context.task.recipe.batch_size)
        for start in range(0, len(same), width):
            _train_part(context, role, same[start : start + width], given, show)
    return time.monotonic() - began


def _train_part(
    context: Bench, role: str, jobs: Sequence[FleetJob], given: str, show: bool
) -> None:
    seeds = [int(job.arguments["seed"]) for job in jobs]
    began = time.monotonic()
    models = fit_stacked(
        context.task, context.training_set(role), context.sets.validation, seeds=seeds, show=show
    )
    each = (time.monotonic() - began) / len(jobs)
    for job, seed, model in zip(jobs, seeds, models, strict=True):
        order = Order(job=job, fingerprint=job_fingerprint(job, None, given), given=given)
        write_result(
            context.models, job.name, pack(trained(context, role, seed, model, each), order)
        )
