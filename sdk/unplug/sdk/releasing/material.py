"""What a release is made from, in one object: each thing in it is loaded or worked out once, when
it is first asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from unplug.core import InputError, versions
from unplug.export import looks_at_samples
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.drawing.conditions import real_inputs
from unplug.sdk.drawing.inference import DecisionRecord, read_decision
from unplug.sdk.evidence.assurance import PROTOCOLS, AgeProtocol, people_of
from unplug.sdk.evidence.auditing import Certification, Inputs, read_certification
from unplug.sdk.evidence.fleet import References, load_references
from unplug.sdk.forgetting.tasks import StoredTask
from unplug.sdk.forgetting.unlearning import DEFAULT_METHOD, design_of, request_split
from unplug.sdk.learning.data import Dataset, Split, keyed, parse_spec
from unplug.sdk.learning.training import Sets, describe_device

from .gate import Counts
from .release_config import ReleaseConfig

CALIBRATION_SAMPLES = 128


def _silent(_line: str) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class ReleaseMaterial:
    """What all stages of one release share.

    Args:
        original: the trained model.
        dataset: the data that it was trained on.
        forget_ids: the ids that the request names.
        config: how to release.
        work: folder of the intermediate results.
        device: the device to compute on.
        task: the task of `original`.
        oracle: the retrained model, where it is given.
        say: told of what a stage has to say besides its name and its time.
        show: progress bars.
        restart: drop unfinished trainings instead of continuing them.
    """

    original: Checkpoint
    dataset: Dataset
    forget_ids: Sequence[str]
    config: ReleaseConfig
    work: Path
    device: torch.device
    task: StoredTask
    oracle: Checkpoint | None = None
    say: Callable[[str], None] = _silent
    show: bool = True
    restart: bool = False

    @cached_property
    def split(self) -> Split:
        """The original's split with this request's forget set."""
        return request_split(self.original, self.dataset, self.forget_ids)

    @property
    def counts(self) -> Counts:
        """What gates can be foreseen by."""
        split, config = self.split, self.config
        unseen = self._people(split.test)
        return Counts(
            exact=self.exact,
            certified=self.certified,
            pictures=len(split.forget),
            forgotten=len(self._people(split.forget)),
            unseen=len(unseen),
            ranked=self.fleet is not None or max(unseen.values(), default=1) == 1,
            targets=tuple(config.targets),
            sides=None if self.decision is None else self._sides(self.decision),
        )

    def _people(self, ids: Sequence[str]) -> Counter[str]:
        wanted = set(ids)
        return Counter(item.person for item in self.dataset.samples if item.id in wanted)

    def _sides(self, record: DecisionRecord) -> tuple[int, int]:
        """Minors and adults about whom a decision is asked, by the ages that the data say."""
        spec, test = self.config.decision_data, {*self.split.test}
        samples = [item for item in self.dataset.samples if item.id in test]
        if spec is not None:
            samples = [*parse_spec(spec).listing().samples]
        aged = [(item.person, item.age) for item in samples if item.age is not None]
        minors = {who for who, age in aged if record.minors_from <= age < record.age}
        return len(minors), len({who for who, age in aged if age >= record.age})

    @cached_property
    def sets(self) -> Sets:
        """The tensors of that split, on the device."""
        return self.task.sets(self.dataset, self.split, self.device, show=self.show)

    @cached_property
    def common(self) -> dict[str, Any]:
        """What every stage is made from, JSON-ready."""
        split = keyed(self.split)
        return {
            "original": self.original.sha256,
            "data": [self.dataset.spec, self.dataset.content],
            "split": split.sha256,
            "forget": split.forget_sha256,
            "task": self.task.facts(),
            "device": describe_device(self.device),
            "versions": versions(),
        }

    @cached_property
    def design(self) -> str | None:
        """The original's design, or None."""
        return design_of(self.original)

    @property
    def exact(self) -> bool:
        """Whether forgetting is exact by construction, so that an equality shows it and no attack
        has to.
        """
        return self.design is not None or self.config.method == "retrain"

    @property
    def attacked(self) -> bool:
        """Whether attacks are made: an equality needs none, and they illustrate it where asked."""
        return not self.exact or self.config.audit == "full"

    @property
    def needs_oracle(self) -> bool:
        """Whether a model must be retrained: a fleet has models that never saw them."""
        return self.exact or self.config.oracle or self.config.fleet is None

    @cached_property
    def fleet(self) -> References | None:
        """References that left people out, where a fleet is given."""
        folder = self.config.fleet
        return (
            None
            if folder is None
            else load_references(Path(folder), self.original, self.task, self.dataset)
        )

    @cached_property
    def certified(self) -> Certification | None:
        """What is known of the method, where a certification is given; see `read_certification`."""
        config = self.config
        if config.certification is None:
            return None
        gone = set(self.forget_ids)
        people = {sample.person for sample in self.dataset.samples if sample.id in gone}
        return read_certification(
            Path(config.certification),
            self.original,
            self.dataset,
            config.method or DEFAULT_METHOD,
            config.options,
            config.budget,
            None if self.fleet is None else self.fleet.sha256,
            len(people),
        )

    @cached_property
    def decision(self) -> DecisionRecord | None:
        """The decision that is in force before the forget step, where one is given.

        Raises:
            InputError: it cannot be read, or was fitted on other models than the original.
        """
        path = self.config.decision
        if path is None:
            if self.config.decision_data is not None:
                fix = "Add `decision` FILE, or leave it out"
                raise InputError("`decision_data`", "no decision is given", fix)
            return None
        record = read_decision(path)
        if self.original.sha256 not in {item.sha256 for item in record.models}:
            why = (
                "it was fitted on other models than this original, so whether forgetting moves it "
                "cannot be said"
            )
            raise InputError(str(path), why, f"Run `unplug threshold {self.original.path} ...`")
        return record

    @cached_property
    def protocol(self) -> AgeProtocol | None:
        """How models are judged at age limits, where that is asked for.

        Raises:
            InputError: no such protocol, or a model that says no age.
            DataError: data that its numbers cannot be had of.
        """
        name = self.config.evaluate
        if name is None:
            return None
        protocol = PROTOCOLS.get(name)
        if self.original.model_type != "age":
            why = f"a {self.original.model_type} model says no age"
            raise InputError(f"`evaluate` {name}", why, "Leave it out")
        protocol.check(people_of(self.dataset, [self.split])[0])
        return protocol

    def model(self, name: str) -> Checkpoint:
        """A model that a stage of an earlier run left in the work folder."""
        return load_checkpoint(self.work / name, expect=self.task.model_type)

    def calibration(self, unlearned: Checkpoint) -> Inputs | None:
        """Samples of the retain set, where a precision looks at any."""
        if not looks_at_samples(self.config.precisions):
            return None
        return real_inputs(unlearned, self.dataset, CALIBRATION_SAMPLES, part="retain")
