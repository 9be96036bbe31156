"""The models of a release: the oracle, its references, and what forgot."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unplug.core import CheckpointError, counted, hold, seconds
from unplug.plugins import Checkpoint
from unplug.sdk.forgetting.unlearning import (
    DEFAULT_METHOD,
    check_oracle,
    checked_method,
    forget,
    needs_answers,
    request_price,
    slow_clock,
)
from unplug.sdk.learning.data import keyed
from unplug.sdk.learning.training import training_dir

from .evidence import ReleaseEvidence
from .material import ReleaseMaterial
from .stage import UNKNOWN, Left, Stage, Taken


class Oracle(Stage):
    """The model retrained without the forgotten, given or made here."""

    gives = "retrained"

    def check(self, material: ReleaseMaterial) -> None:
        """Checks that a given oracle is the original's recipe on everybody else."""
        if material.oracle is not None:
            check_oracle(material.oracle, material.split, material.task.recipe)
            material.task.check_twin(material.oracle)

    def name(self, material: ReleaseMaterial) -> str:
        """It says whether it was given."""
        return "retrain without them" if material.oracle is None else "retrained model (given)"

    def wanted(self, material: ReleaseMaterial) -> bool:
        """Whether nothing stands in its place."""
        return material.oracle is not None or material.needs_oracle

    def recorded(self, material: ReleaseMaterial) -> bool:
        """What is given needs no record."""
        return material.oracle is None

    def takes(self, material: ReleaseMaterial) -> Taken | None:
        """The time of the original's training."""
        return _training(material) if material.oracle is None else None

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """Its seed."""
        return {"seeds": {"retrained": material.config.seed}}

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """A training of the original's recipe."""
        made = _retrained(material, "retrained", material.config.seed)
        return Left(files=[made.path], result=made)

    def load(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, facts: Mapping[str, Any]
    ) -> Checkpoint:
        """The model."""
        return material.model("retrained") if material.oracle is None else material.oracle


class ReferenceModels(Stage):
    """Retrainings with other seeds: attacks see by them how much a training differs by chance."""

    gives = "references"
    costs_by = ("references",)

    def name(self, material: ReleaseMaterial) -> str:
        """The name with their number."""
        return f"train {counted(material.config.references, 'reference model')}"

    def wanted(self, material: ReleaseMaterial) -> bool:
        """Whether attacks are asked for and have no fleet."""
        return not material.exact and material.fleet is None

    def takes(self, material: ReleaseMaterial) -> Taken | None:
        """The time of as many trainings of the original."""
        count = material.config.references
        took, source = _training(material)
        return (None if took is None else took * count, source) if count else None

    def _seeds(self, material: ReleaseMaterial) -> dict[str, int]:
        config = material.config
        return {
            f"reference-{number}": config.seed + 1000 + number
            for number in range(config.references)
        }

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """Their seeds."""
        return {"seeds": self._seeds(material)}

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """A training each."""
        made = [_retrained(material, name, seed) for name, seed in self._seeds(material).items()]
        return Left(files=[item.path for item in made], result=made)

    def load(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, facts: Mapping[str, Any]
    ) -> list[Checkpoint]:
        """The models."""
        return [material.model(name) for name in self._seeds(material)]


class Forget(Stage):
    """The forget step: by the design where the original has one, else by a method, else the oracle
    itself.
    """

    gives = "unlearned"
    costs_by = ("method", "options", "budget")

    def check(self, material: ReleaseMaterial) -> None:
        """Checks that the method can do it: its settings, what it reads, and a budget that covers a
        step.
        """
        config = material.config
        if material.design is None and self.recorded(material):
            checked_method(
                config.method or DEFAULT_METHOD,
                config.options,
                material.task,
                material.split,
                config.budget,
                original=material.original,
                answers=material.fleet is not None,
            )

    def name(self, material: ReleaseMaterial) -> str:
        """The name with the method."""
        if not self.recorded(material):
            return "forget by retraining: the oracle is what ships"
        return f"forget by {material.config.method or material.design or DEFAULT_METHOD}"

    def recorded(self, material: ReleaseMaterial) -> bool:
        """A retraining is there already."""
        return material.design is not None or material.config.method != "retrain"

    def takes(self, material: ReleaseMaterial) -> Taken | None:
        """A method its whole budget of a training, a design what it says itself."""
        if not self.recorded(material):
            return None
        config, training = material.config, _training(material)[0]
        if material.design is None:
            source = f"at most: its budget is {100 * config.budget:.3g} % of retraining"
            return None if training is None else training * config.budget, source
        if config.method == "retrain":
            return training, "a refit"
        price = request_price(material.original, material.dataset, material.forget_ids)
        if training is None or not price:
            return UNKNOWN
        return training * price, f"the design asks {100 * price:.3g} % of a refit"

    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """The method, and the models that it may look at."""
        config, retrained = material.config, evidence.retrained
        return {
            "method": config.method,
            "options": config.options,
            "budget": config.budget,
            "seed": config.seed,
            "oracle": None if retrained is None else retrained.sha256,
            "retrain_cost": None if retrained is None else retrained.record.get("cost"),
            "fleet": None if material.fleet is None else material.fleet.sha256,
        }

    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """One forget step."""
        config, more = material.config, {}
        if material.design is None:
            fleet = material.fleet if needs_answers(config.method) else None
            names = material.split.there(material.dataset).forget
            outside = None if fleet is None else fleet.out_of_fold(names, config.seed)
            more = {
                "budget": config.budget,
                "options": config.options,
                "oracle": evidence.retrained,
                "outside": outside,
            }
        made = _forgotten(material, config.method, material.work / "unlearned", config.seed, **more)
        return Left(files=[made.path], result=made)

    def load(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, facts: Mapping[str, Any]
    ) -> Checkpoint:
        """The model."""
        if self.recorded(material) or evidence.retrained is None:
            return material.model("unlearned")
        check_oracle(evidence.retrained, material.split, material.task.recipe)
        return evidence.retrained

    def remarks(self, result: Checkpoint) -> str | None:
        """Whether its clock can be believed."""
        return slow_clock(result.record["forget"]["cost"])


def _training(material: ReleaseMaterial) -> Taken:
    """A training is taken to last as long as the original's, by its record, in proportion to the
    samples that stay.
    """
    took = (material.original.record.get("cost") or {}).get("wall_s")
    split = material.split
    if not isinstance(took, int | float) or took <= 0 or not split.train:
        # it was adopted, say
        return (
            None,
            "the original's record does not say how long its training took",
        )
    share = len(split.retain) / len(split.train)
    return (
        took * share,
        f"the original's training took {seconds(took)}, and {100 * share:.3g} % of its samples stay",
    )


def _retrained(material: ReleaseMaterial, name: str, seed: int) -> Checkpoint:
    """The oracle or a reference model; a folder that fits the request and the seed is used
    again.
    """
    path = material.work / name
    if path.is_dir() and (fitting := _fitting(material, path, seed)) is not None:
        with hold(path):  # a kill may have come between the model and the end of its training
            shutil.rmtree(training_dir(path), ignore_errors=True)
        return fitting
    return _forgotten(material, "retrain", path, seed)


def _fitting(material: ReleaseMaterial, path: Path, seed: int) -> Checkpoint | None:
    try:
        model = material.model(path.name)
    except CheckpointError:
        return None
    record = model.record
    fits = (
        record.get("split", {}).get("sha256") == keyed(material.split).sha256
        and record.get("seed") == seed
        and record.get("lineage", {}).get("original_sha256") == material.original.sha256
    )
    return model if fits else None


def _forgotten(
    material: ReleaseMaterial, method: str | None, path: Path, seed: int, **options: Any
) -> Checkpoint:
    # A design goes by features and sums of its own, not by the tensors.
    known: dict[str, Any] = (
        {} if material.design is not None else {"split": material.split, "sets": material.sets}
    )
    return forget(
        material.original,
        material.dataset,
        material.forget_ids,
        method,
        path,
        task=material.task,
        seed=seed,
        device=material.device,
        show=material.show,
        restart=material.restart,
        **known,
        **options,
    )
