"""What a release would do, and how long that takes as far as anybody knows: a dry run computes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unplug.core import InputError, ReportError, counted, read_dataclass
from unplug.plugins import Checkpoint
from unplug.sdk.unlearning import DEFAULT_METHOD, request_price

from .finished import FILE, MAX_BYTES, StageRecords
from .stages import Stages

HERE = "as long as it took in this work folder"
UNKNOWN = "not known before its first run here"
AT_MOST, SOON = "at most", 1.0
"""Of what only writes and signs."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that a release does.

    Args:
        what: in words, as progress lines say it.
        seconds: of wall time, an estimate; None where nothing is known.
        source: how that is known.
        finished: an earlier run has left its result, which is used again if it was made from the same.
    """

    what: str
    seconds: float | None
    source: str
    finished: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All steps of a release, in their order."""

    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float | None:
        """Of those steps that are not finished and of which a time is known; None where that says nothing of the work."""
        left = [step for step in self.steps if not step.finished]
        if self.unknown and all(step.seconds is None or step.source == AT_MOST for step in left):
            return None
        return sum(step.seconds for step in left if step.seconds is not None)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Steps of which nobody knows how long they take."""
        return tuple(step.what for step in self.steps if step.seconds is None and not step.finished)

    def price(self, hourly: float) -> float | None:
        """What the known part costs, at so much an hour of this machine."""
        return None if self.seconds is None else hourly * self.seconds / 3600


def plan_release(stages: Stages, oracle: Checkpoint | None = None, *, on_record: bool = False, signed: bool = False) -> Plan:
    """The plan of a release that `prepare` has let through.

    A training is taken to last as long as the original's, by its record, in proportion to the samples that stay; a method to
    use its whole budget of that; a design what it says itself. Everything else is known from an earlier run in the work folder,
    or not at all.

    Args:
        stages: of the release.
        oracle: the retrained model where it is given.
        on_record: whether a ledger is told.
        signed: whether the bundle is signed.
    """
    known: Mapping[str, float] = {}
    with contextlib.suppress(InputError):  # there was no earlier run, or what it left is not whole
        found = read_dataclass(StageRecords, stages.work / FILE, ReportError, max_bytes=MAX_BYTES).stages
        known = {name: record.seconds for name, record in found.items()}
    steps = [
        Step(what=name, seconds=known[name], source=HERE, finished=True) if name in known
        else Step(what=name, seconds=seconds, source=source)
        for name, seconds, source in _stages(stages, oracle)
    ]  # fmt: skip
    last = ["judge by every gate", "write the bundle"]
    if on_record:
        last = ["judge by every gate, and tell the ledger", "write the bundle with the ledger's head"]
    last += ["sign it", "publish it in one step"] if signed else ["publish it in one step"]
    last += ["tell the ledger that it is published"] if on_record else []
    return Plan(steps=(*steps, *(Step(what=what, seconds=SOON, source=AT_MOST) for what in last)))


def _stages(stages: Stages, oracle: Checkpoint | None) -> Sequence[tuple[str, float | None, str]]:
    """Name, seconds and how they are known of each stage, in the order of `gather`."""
    config, (training, source) = stages.config, _training(stages)
    found: list[tuple[str, float | None, str]] = []
    retrains = oracle is None and stages.needs_oracle
    if retrains:
        found.append(("retrain (oracle)", training, source))
    if (retrains or oracle is not None) and not stages.exact and stages.fleet is None and config.references:
        seconds = None if training is None else training * config.references
        found.append((f"train {counted(config.references, 'reference model')}", seconds, source))
    if stages.design is not None or config.method != "retrain":
        found.append((f"forget by {config.method or stages.design or DEFAULT_METHOD}", *_forgetting(stages, training)))
    found.append(("export", None, UNKNOWN))
    found.append(("parity", None, UNKNOWN))
    if config.rounding:
        found.append(("export the original and the oracle alike", None, UNKNOWN))
    found.append(("audit", None, UNKNOWN))
    if config.decision is not None:
        found.append(("decision", None, UNKNOWN))
    if config.evaluate is not None:
        found.append(("evaluation", None, UNKNOWN))
    if config.faces and "ages" not in stages.task.lacks:
        found.append(("pictures of people", None, UNKNOWN))
    return [*found, ("bench", None, UNKNOWN)]


def _training(stages: Stages) -> tuple[float | None, str]:
    took = (stages.original.record.get("cost") or {}).get("wall_s")
    split = stages.split
    if not isinstance(took, int | float) or took <= 0 or not split.train:  # nobody trained an adopted network here
        return None, "the original's record does not say how long its training took"
    share = len(split.retain) / len(split.train)
    return took * share, f"the original's training took {took:.3g} s, and {100 * share:.3g} % of its samples stay"


def _forgetting(stages: Stages, training: float | None) -> tuple[float | None, str]:
    if stages.design is not None and stages.config.method != "retrain":
        price = request_price(stages.original, stages.dataset, stages.forget_ids)
        if training is None or not price:
            return None, UNKNOWN
        return training * price, f"the design asks {100 * price:.3g} % of a refit"
    if stages.design is not None:
        return training, "a refit"
    budget = stages.config.budget
    return None if training is None else training * budget, f"at most: its budget is {100 * budget:.3g} % of retraining"
