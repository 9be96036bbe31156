"""What an unlearning method is, and the registry of those that unplug knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from unplug.core import InputError, Registry
from unplug.sdk.forgetting.tasks import Need
from unplug.sdk.learning.training import Batch, Recipe, SampleSet, StateFile, Task, autocast

from .budget import Meter


@dataclass(frozen=True, kw_only=True)
class ForgetProblem:
    """All that a method may look at. What it did not declare in `Method.needs` is empty here.

    Args:
        retain, forget, validation: data on the device.
        outside_FG: logits of the forget samples by models that never saw whose they are (F, G), on
            the device.
        task: how a model is built and trained, its loss and its logits.
        meter: the meter of what may be spent; `outputs` charges it.
        seed: the seed of everything random.
        generator: a CPU generator that follows from `seed`.
        state: the file for a long method's state, or None.
        show: progress bars.
        history: a method that trains in epochs adds its rows, as in ``metrics.jsonl``.
    """

    retain: SampleSet
    forget: SampleSet
    validation: SampleSet
    task: Task
    meter: Meter
    seed: int
    generator: torch.Generator
    state: StateFile | None = None
    show: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)
    outside_FG: Tensor | None = None

    @property
    def recipe(self) -> Recipe:
        """How the original was trained."""
        return self.task.recipe

    @property
    def classes(self) -> int:
        """G, the number of age groups or classes."""
        return len(self.task.edges) - 1

    @property
    def ignorance(self) -> float:
        """The loss of a model that knows nothing: ln G nats for G classes, else what the task says."""
        return self.task.ignorance

    def outputs(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Runs a model and charges for it: forward, and backward too where gradients are on.

        A method that freezes a part still pays for the whole backward pass; its wall time shows
        what it saved.

        Raises:
            InputError: a batch of one, and a batch norm after the pooling that needs two to train.
        """
        # charged before it runs, so that a budget is never exceeded by one batch
        passes = len(batch)
        self.meter.charge(forward=passes, backward=passes if torch.is_grad_enabled() else 0)
        try:
            with autocast(batch.device):
                outputs: dict[str, Tensor] = model(*batch.inputs)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            fix = (
                "Forget it together with others, or by a method that steps on the retain set alone "
                "(msg, finetune)"
            )
            raise InputError(
                "forget step", "a batch norm of this network cannot train on one picture alone", fix
            ) from error
        return outputs

    def logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Class logits (B, G) in float32, charged."""
        return self.task.logits(self.outputs(model, batch))

    def log_prob(self, model: nn.Module, batch: Batch) -> Tensor:
        """log p(truth) of each sample (B,), charged."""
        return self.task.log_prob(self.outputs(model, batch), batch)

    def losses(self, model: nn.Module, batch: Batch) -> Tensor:
        """Training loss of each sample (B,), charged."""
        return self.task.loss(model, self.outputs(model, batch), batch)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean training loss of a batch, charged."""
        return self.losses(model, batch).mean()

    def view(self, batch: Batch) -> Batch:
        """The batch as the recipe augments it."""
        return self.retain.view(batch, self.recipe.augment, self.generator)

    def batches(self, data: SampleSet, batch_size: int) -> Batches:
        """Endless augmented batches of a set, reshuffled every epoch."""
        return Batches(self, data, batch_size)

    def orders(self, data: SampleSet, batch_size: int) -> Iterator[Tensor]:
        """Endless indices (B,) into a set, reshuffled every epoch; smaller sets come whole."""
        if len(data) == 0:
            raise InputError(
                "forget step", "a set that the method reads is empty", "Choose another method"
            )
        # the generator of the problem: one seed decides every order of a run
        while True:
            yield from data.shuffled(min(batch_size, len(data)), self.generator)


class Batches(Iterator[Batch]):
    """The augmented batches of `ForgetProblem.orders`.

    Attributes:
        size: samples of each but the last of an epoch; fewer than were asked for of a smaller set.
    """

    def __init__(self, problem: ForgetProblem, data: SampleSet, batch_size: int) -> None:
        self.size = min(batch_size, len(data))
        orders = problem.orders(data, batch_size)
        self._views = (problem.view(data.batch(index_B)) for index_B in orders)

    def __next__(self) -> Batch:
        return next(self._views)


@dataclass(frozen=True, kw_only=True)
class OutOfFold:
    """What models that never saw some people say of their samples, one model a person.

    Args:
        ids: the ids of the samples (F,).
        logits_FG: the answer for each.
        facts: the models that said it, for the record of the forget step: attacks must not use them
            again.
    """

    ids: tuple[str, ...]
    logits_FG: Tensor
    facts: Mapping[str, Any]

    def logits(self, ids: Sequence[str]) -> Tensor:
        """The logits of some samples (N, G); `InputError` where one is not among them."""
        place = {name: row for row, name in enumerate(self.ids)}
        if missing := [name for name in ids if name not in place]:
            why = f"{len(missing)} of {len(ids)} forget samples have none"
            raise InputError("out-of-fold answers", why, "Give those of this request")
        return self.logits_FG[[place[name] for name in ids]]


class Method(Protocol):
    """A frozen dataclass of hyperparameters that turns an original into an unlearned model.

    Attributes:
        needs: the data that it reads; all else is withheld, and a problem that lacks them is
            refused before it starts.
        default_budget: fraction of retraining when the caller names none; None is unlimited.
    """

    needs: ClassVar[tuple[Need, ...]]
    default_budget: ClassVar[float | None]

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Changes `model` in place or builds another; returns it in eval mode."""


@runtime_checkable
class TrainingHook(Protocol):
    """A method that must already take part in the training of the original; it refreshes what its
    models count themselves.
    """

    def train(self, problem: ForgetProblem) -> nn.Module:
        """An original on the whole training set (``problem.retain``) that the method can later
        unlearn from.
        """

    def prepared(self, original: nn.Module) -> bool:
        """True where `original` is one that `train` made."""

    def price(self, before: Sequence[str], after: Sequence[str], task: Task, seed: int) -> int:
        """Training passes of unlearning, known before `train`: ids of the training set before and
        after, seed.
        """


METHODS: Registry[Callable[[], Method]] = Registry(
    "method",
    {
        "retrain": "unplug.sdk.forgetting.unlearning.methods.retrain:RetrainFromScratch",
        "short-retrain": "unplug.sdk.forgetting.unlearning.methods.short_retrain:ShortRetrain",
        "finetune": "unplug.sdk.forgetting.unlearning.methods.finetune:Finetune",
        "noise": "unplug.sdk.forgetting.unlearning.methods.noise:WeightNoise",
        "cf-k": "unplug.sdk.forgetting.unlearning.methods.cf_k:CFk",
        "eu-k": "unplug.sdk.forgetting.unlearning.methods.eu_k:EUk",
        "neggrad": "unplug.sdk.forgetting.unlearning.methods.neggrad:NegGrad",
        "neggrad+": "unplug.sdk.forgetting.unlearning.methods.neggrad_plus:NegGradPlus",
        "scrub": "unplug.sdk.forgetting.unlearning.methods.scrub:SCRUB",
        "scrub+r": "unplug.sdk.forgetting.unlearning.methods.scrub_r:SCRUBR",
        "salun": "unplug.sdk.forgetting.unlearning.methods.salun:SalUn",
        "ssd": "unplug.sdk.forgetting.unlearning.methods.ssd:SSD",
        "ssd-label-free": "unplug.sdk.forgetting.unlearning.methods.ssd_label_free:LabelFreeSSD",
        "l1-sparse": "unplug.sdk.forgetting.unlearning.methods.l1_sparse:L1Sparse",
        "bad-teacher": "unplug.sdk.forgetting.unlearning.methods.bad_teacher:BadTeacher",
        "unsir": "unplug.sdk.forgetting.unlearning.methods.unsir:UNSIR",
        "laf": "unplug.sdk.forgetting.unlearning.methods.laf:LAF",
        "iau": "unplug.sdk.forgetting.unlearning.methods.iau:IAU",
        "acu": "unplug.sdk.forgetting.unlearning.methods.acu:ACU",
        "sisa": "unplug.sdk.forgetting.unlearning.methods.sisa:SISA",
        "distil-to-delete": "unplug.sdk.forgetting.unlearning.methods.distil_to_delete:DistilToDelete",
        "blindspot": "unplug.sdk.forgetting.unlearning.methods.blindspot:Blindspot",
        "gaussian-amnesiac": "unplug.sdk.forgetting.unlearning.methods.gaussian_amnesiac:GaussianAmnesiac",
        "rurk": "unplug.sdk.forgetting.unlearning.methods.rurk:RURK",
        "fcs": "unplug.sdk.forgetting.unlearning.methods.fcs:FCS",
        "msg": "unplug.sdk.forgetting.unlearning.methods.msg:MSG",
        "cfw": "unplug.sdk.forgetting.unlearning.methods.cfw:CFW",
        "prmq": "unplug.sdk.forgetting.unlearning.methods.prmq:PRMQ",
        "ct": "unplug.sdk.forgetting.unlearning.methods.ct:CT",
        "kde": "unplug.sdk.forgetting.unlearning.methods.kde:KDE",
        "rni": "unplug.sdk.forgetting.unlearning.methods.rni:RNI",
        "lens": "unplug.sdk.forgetting.unlearning.methods.lens:Lens",
        "folds": "unplug.sdk.forgetting.unlearning.methods.folds:Folds",
    },
    group="unplug.methods",
)
DEFAULT_METHOD = "msg"
T = TypeVar("T")


def build_method(name: str, options: Mapping[str, str] | None = None) -> Method:
    """A method with some hyperparameters set from text (``--set lr=0.01``).

    Raises:
        InputError: an unknown method or hyperparameter, or a value of the wrong type.

    Example:
        >>> build_method("finetune", {"lr": "0.001"}).lr
        0.001
    """
    return with_settings(METHODS.get(name)(), options or {}, f"method {name}")


def with_settings(default: T, options: Mapping[str, Any], what: str) -> T:
    """A frozen dataclass of hyperparameters with some of them replaced, from text or as numbers.

    Raises:
        InputError: an unknown hyperparameter, or a value of the wrong type or out of range.
    """
    known = [field.name for field in fields(default)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, given in options.items():
        if key not in known:
            raise InputError(
                what, f"it has no setting {key!r}", f"Known: {', '.join(known) or 'none'}"
            )
        # of the default: text from a command line becomes what the method computes with
        kind = type(getattr(default, key))
        try:
            values[key] = kind(given)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{what} {key}={given}", f"not a value of type {kind.__name__}", "Write KEY=NUMBER"
            ) from error
    return replace(default, **values)  # type: ignore[type-var]
