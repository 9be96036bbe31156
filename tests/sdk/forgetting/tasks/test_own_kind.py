"""A kind of model from another package, with nothing of pictures or ages in it: sentences that are
for or against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import InputError, Registry, registry
from unplug.plugins import Checkpoint
from unplug.sdk.evidence.auditing import CheckpointPredictor, audit
from unplug.sdk.forgetting.tasks import Footprint, Need, StoredTask, footprint_of, stored, task_of
from unplug.sdk.forgetting.unlearning import apply_method, build_method, estimate_retraining
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import (
    ClassPredictions,
    Fit,
    LabelledBatch,
    LabelledSet,
    Predictions,
    Recipe,
    SampleSet,
    Sets,
    StateFile,
    fit_new,
    predict,
    summarize,
)

CPU = torch.device("cpu")
WORDS, LENGTH, CLASSES = 40, 6, 2


@dataclass(frozen=True, kw_only=True)
class SentenceBatch(LabelledBatch):
    token_BL: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (self.token_BL,)


@dataclass(frozen=True, kw_only=True)
class SentenceSet(LabelledSet):
    token_NL: Tensor

    @property
    def device(self) -> torch.device:
        return self.token_NL.device

    @property
    def eval_batch(self) -> int:
        return 16

    def holds(self) -> frozenset[str]:
        return frozenset({"class logits", *(["labels"] if bool((self.group_N >= 0).all()) else [])})

    def shown(self, *, labels: bool, ages: bool) -> SentenceSet:
        return self if labels else replace(self, group_N=torch.full_like(self.group_N, -1))

    def batch(self, index_B: Tensor) -> SentenceBatch:
        return SentenceBatch(token_BL=self.token_NL[index_B], group_B=self.group_N[index_B])

    def view(self, batch: SentenceBatch, kind: Any, generator: torch.Generator) -> SentenceBatch:
        return batch

    def subset(self, index: Sequence[int] | Tensor) -> SentenceSet:
        where = torch.as_tensor(index, dtype=torch.long)
        return SentenceSet(
            ids=tuple(self.ids[place] for place in where),
            subject_N=self.subject_N[where.numpy()],
            token_NL=self.token_NL[where],
            group_N=self.group_N[where],
        )

    def relabelled(self, group_N: Tensor, edges: tuple[float, ...]) -> SentenceSet:
        return replace(self, group_N=group_N)

    def predictions(self, model: nn.Module) -> ClassPredictions:
        says = torch.cat([model(*batch.inputs)["says"] for batch in self.in_order(16)])
        return ClassPredictions.of(says.numpy(), self.group_N.numpy())


class BagOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(WORDS, 8), nn.Linear(8, CLASSES)

    def forward(self, token_BL: Tensor) -> dict[str, Tensor]:
        return {"says": self.out(self.words(token_BL).mean(dim=1))}


@dataclass(frozen=True, kw_only=True)
class SentenceTask(StoredTask):
    """All that unplug must know of the kind."""

    output: ClassVar[str] = "says"
    model_type: ClassVar[str] = "sentences"
    schema: ClassVar[str] = "sentences/1"
    unit: ClassVar[str] = "loss"
    lacks: ClassVar[tuple[Need, ...]] = ("ages",)
    error_name: ClassVar[str] = "Loss on unseen sentences"
    error_digits: ClassVar[int] = 3

    @classmethod
    def open(
        cls, checkpoint: Checkpoint, *, device: torch.device, base: str | None
    ) -> SentenceTask:
        return cls(recipe=Recipe(**checkpoint.record["recipe"]), edges=(0.0, 1.0, 2.0))

    # How a model is trained

    @property
    def ignorance(self) -> float:
        return float(np.log(CLASSES))

    def build(self, train: SampleSet) -> nn.Module:
        return BagOfWords()

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        pass

    def fit(
        self,
        train: SampleSet,
        validation: SampleSet,
        *,
        seed: int,
        state: StateFile | None,
        show: bool,
        label: str,
    ) -> Fit:
        return fit_new(self, train, validation, seed=seed, state=state, show=show, label=label)

    def loss(self, model: nn.Module, outputs: Mapping[str, Tensor], batch: SentenceBatch) -> Tensor:
        return F.cross_entropy(outputs["says"], batch.group_B, reduction="none")

    def log_prob(self, outputs: Mapping[str, Tensor], batch: SentenceBatch) -> Tensor:
        return -F.cross_entropy(outputs["says"], batch.group_B, reduction="none")

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        return outputs["says"]

    # What becomes of its checkpoints

    @property
    def image_size(self) -> int:
        return 0

    def sets(
        self, dataset: Dataset, split: Split, device: torch.device, *, show: bool = False
    ) -> Sets:
        raise InputError(f"data {dataset.spec}", "it holds pictures", "Give sentences")

    def network(self, model: nn.Module) -> nn.Module:
        return model

    def stored(self, network: nn.Module) -> nn.Module:
        return network

    def metrics(self, network: nn.Module, part: SampleSet) -> dict[str, Any]:
        return summarize(predict(network, part), self.edges)

    def describe(self, row: dict[str, Any]) -> str:
        return f"accuracy {row['accuracy']:.2f}"

    def facts(self) -> dict[str, Any]:
        return {}

    def check_twin(self, other: Checkpoint) -> None:
        pass

    def card(self, record: dict[str, Any]) -> str:
        return "# Sentences\n"

    def title(self, checkpoint: Checkpoint) -> str:
        return "A classifier of sentences"

    def processing(self, checkpoint: Checkpoint) -> dict[str, Any]:
        return {"preprocessing": {"words": WORDS}, "postprocessing": {}}

    def footprint(self, network: nn.Module, device: torch.device) -> Footprint:
        def example(count: int) -> tuple[Tensor]:
            return (torch.zeros(count, LENGTH, dtype=torch.long),)

        return footprint_of(network, example, 8 * LENGTH, device)

    def resident(self, samples: int) -> int:
        return 8 * samples * (LENGTH + 1)

    def predict_artifact(self, artifact: Any, parts: Sequence[SentenceSet]) -> list[Predictions]:
        raise InputError(str(artifact), "sentences are not exported", "Leave it out")


def sentences(count: int, seed: int) -> SentenceSet:
    draw = torch.Generator().manual_seed(seed)
    token_NL = torch.randint(WORDS, (count, LENGTH), generator=draw)
    group_N = torch.arange(count) % CLASSES
    token_NL[:, 0] = group_N  # one word tells; the rest can only be remembered
    wrong_N = torch.rand(count, generator=draw) < 0.2
    group_N = torch.where(wrong_N, 1 - group_N, group_N)
    return SentenceSet(
        ids=tuple(f"{seed}-{n}" for n in range(count)),
        subject_N=np.arange(count),
        token_NL=token_NL,
        group_N=group_N,
    )


RECIPE = {
    "epochs": 30,
    "batch_size": 8,
    "lr": 0.02,
    "augment": "none",
    "ema": 0.0,
    "dropout": 0.0,
}


def checkpoint(model: nn.Module, name: str) -> Checkpoint:
    record = {"recipe": RECIPE}
    return Checkpoint(
        path=Path(name), model_type="sentences", model=model, sha256=name, record=record
    )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kind, as its package's entry point brings it."""

    def entry_points(*, group: str) -> list[EntryPoint]:
        entry = EntryPoint("sentences", f"{__name__}:SentenceTask", group)
        return [entry] if group == "unplug.tasks" else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    monkeypatch.setattr(stored, "TASKS", Registry("task", {}, group="unplug.tasks"))
    return task_of(checkpoint(BagOfWords(), "new"), device=CPU)


@pytest.fixture
def sets() -> Sets:
    whole = sentences(72, 0)
    return Sets(
        train=whole.subset(range(48)),
        forget=whole.subset(range(48, 72)),
        validation=sentences(24, 2),
        test=sentences(24, 3),
    )


def unlearned(opened: Any, model: nn.Module, sets: Sets, name: str, **options: str) -> nn.Module:
    cost = estimate_retraining(model, sets, opened)
    after, spent = apply_method(
        build_method(name, options), model, sets, opened, cost, 50.0, seed=0
    )
    assert spent.forward > 0
    return after


def test_it_is_trained_forgotten_with_and_audited(opened: Any, sets: Sets) -> None:
    original = fit_new(opened, sentences(72, 0), sets.validation, seed=0).model
    retrained = fit_new(opened, sets.train, sets.validation, seed=0).model
    models = {"original": original, "retrained": retrained}
    for name, options in {
        "finetune": {"lr": "0.01"},
        "neggrad+": {"lr": "0.01"},
        "scrub": {},
        "salun": {},
        "ssd": {"alpha": "1"},
    }.items():
        models[name] = unlearned(opened, original, sets, name, **options)
        before, after = (model.state_dict() for model in (original, models[name]))
        assert any(not torch.equal(before[key], after[key]) for key in before)
    roles: Any = dict.fromkeys(models, "unlearned") | {
        name: name for name in ("original", "retrained")
    }
    predictors = [
        CheckpointPredictor(
            name=name, role=roles[name], checkpoint=checkpoint(model, name), task=opened
        )
        for name, model in models.items()
    ]
    split: Any = SimpleNamespace(sha256="split", subject_disjoint=True, forget=())
    report = audit(predictors, sets, split, edges=(0.0, 1.0), data={}, show=False)
    auc = {model.name: model.attacks["loss"].auc.value for model in report.models}
    assert auc["original"] > 0.6 > auc["retrained"] - 0.1 and auc["neggrad+"] < auc["original"]
    assert report.skipped["error"] == "the model answers with no number, or the data have none"


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("rurk", "its samples are not pictures"),
        ("blindspot", "it needs ages, and there is none"),
    ],
)
def test_a_method_that_needs_pictures_or_ages_says_so(
    opened: Any, sets: Sets, method: str, why: str
) -> None:
    with pytest.raises(InputError, match=why):
        unlearned(opened, BagOfWords(), sets, method)
