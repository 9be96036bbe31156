"""Whether the outputs of a cold start are those that they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unplug.core import Array
from unplug.export import Difference, compare, verdict

from .devices.bench_device import BenchJob
from .validity import parity_floor


@dataclass(frozen=True)
class Judgement:
    """Fields of `Repeat`: the worst output of all that were looked at, and why it is too far off."""

    parity_db: float | None
    parity_reason: str | None


class ParityWatch:
    """Looks at the outputs of every run: a runtime that is right once may be wrong the next time.

    Kept of each sample are the outputs of its first run, and those of the run that differed most
    from them; the right one of the two may be either.
    """

    def __init__(self) -> None:
        self._first: dict[int, dict[str, Array]] = {}
        self._worst: dict[int, tuple[float, dict[str, Array]]] = {}
        self.count = 0

    def look(self, sample: int, outputs: dict[str, Array]) -> None:
        """Outputs of one run on one sample; those that equal the sample's first are done with."""
        self.count += 1
        known = self._first.setdefault(sample, outputs)
        distance = max(
            (_distance(known[name], value) for name, value in outputs.items()), default=0.0
        )
        if distance > 0.0 and distance > self._worst.get(sample, (0.0, {}))[0]:
            self._worst[sample] = (distance, outputs)

    def kept(self) -> list[tuple[int, dict[str, Array]]]:
        """Sample and outputs of what must be compared with the reference: at most two of each
        sample.
        """
        worst = [(sample, outputs) for sample, (_, outputs) in self._worst.items()]
        return [*self._first.items(), *worst]


def _distance(known: Array, value: Array) -> float:
    if np.array_equal(known, value):
        return 0.0
    apart = np.abs(np.asarray(value, np.float64) - np.asarray(known, np.float64))
    return float(apart.max()) if np.isfinite(apart).all() else float("inf")


def judge(
    job: BenchJob, wanted: Mapping[str, Array], outputs: Sequence[tuple[int, Mapping[str, Array]]]
) -> Judgement:
    """The worst of some outputs against the reference.

    Args:
        job: the job that ran.
        wanted: name to what the outputs should be, N samples.
        outputs: sample and outputs of runs.
    """
    # one peak for all samples, as `unplug.export.measure_parity` has it
    peaks = {name: float(np.max(np.abs(array))) for name, array in wanted.items()}
    compared = [
        {
            name: compare(wanted[name][sample : sample + 1], array, peaks[name])
            for name, array in arrays.items()
        }
        for sample, arrays in outputs
    ]
    ratios = [
        item.psnr_db
        for differences in compared
        for item in differences.values()
        if item.psnr_db is not None
    ]
    reasons = (_reason(job, differences) for differences in compared)
    return Judgement(
        min(ratios, default=None), next((reason for reason in reasons if reason), None)
    )


def _reason(job: BenchJob, differences: Mapping[str, Difference]) -> str | None:
    card, reference = job.artifact.card, job.reference
    if reference is not None and reference.checkpoint_sha256 != card.checkpoint_sha256:
        return f"the artifact was exported from other weights ({card.checkpoint_sha256[:12]})"
    threshold = parity_floor(card.precision, job.delegate)
    reasons = {name: verdict(difference, threshold) for name, difference in differences.items()}
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason) or None
