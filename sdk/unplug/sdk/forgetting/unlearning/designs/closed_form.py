"""Closed form: a ridge head over a trunk that saw nobody's personal data, whose sums give people
back exactly.

Shapes: N samples, C pooled channels, D random features, G age groups or classes, K = G + 1 (groups and age), of
    classes K = G.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from unplug.core import InputError
from unplug.plugins import AgePredictor, Checkpoint, PictureModel
from unplug.sdk.drawing.inference import RIDGES, DeviceHead, HeadFacts

from ..design import build_design
from ..ridge import RidgeHead, best_scale
from ..settings import check_range
from .family import family_of
from .over_trunk import Kept, OverTrunk
from .trunk import Consented, TrunkRows, coarse, group_targets

FEATURE_RANGE, AGE_RANGE = 6, 7
"""Powers of two: features up to 64, ages up to 128. They are fixed: a range that follows the data
would tell of it.
"""
ANSWER_RANGE = 32.0
"""High above the spread of random features: the penalty hardly holds back what the trunk says by
itself, and half precision still tells 1,000 steps of it.
"""


@dataclass(kw_only=True)
class HeadSums(Kept):
    """What a head is computed from: integer sums over its samples, and a commitment to each of
    them.

    Args:
        head: the sums.
        committed: see `Kept`.
    """

    head: RidgeHead
    committed: dict[str, bytes]

    @classmethod
    def empty(cls, features: int, groups: int, aged: int) -> HeadSums:
        """Sums over nobody; `aged` is 1 where an age is learned too, else 0."""
        exponent_K = torch.tensor(
            [FEATURE_RANGE] * features + [1] + [1] * groups + [AGE_RANGE] * aged
        )
        return cls(head=RidgeHead(features, 1.0, exponent_K, slices=1), committed={})

    def add(self, feature_ND: Tensor, target_NK: Tensor, committed: Mapping[str, bytes]) -> None:
        """Adds samples that are not in yet."""
        self.head.add(feature_ND, target_NK)
        self.committed |= committed

    def remove(self, feature_ND: Tensor, target_NK: Tensor, names: Sequence[str]) -> None:
        """Subtracts samples, which must be as they were added."""
        # known: their commitments were compared before
        self.head.remove(feature_ND, target_NK, known=True)
        gone = set(names)
        self.committed = {
            name: digest for name, digest in self.committed.items() if name not in gone
        }

    def solve(self, ridge: float) -> tuple[Tensor, Tensor]:
        """W (K, D) and b (K,) in float64."""
        # a penalty a sample: it follows how many are left, and nothing else
        self.head.lam = ridge * len(self.committed)
        return self.head.weights()

    def own_tensors(self, names: Sequence[str]) -> dict[str, Tensor]:
        """The integer sums over everybody who is in, by the name that the state's file has."""
        return {"sums": self.head.sums}


@dataclass(frozen=True, kw_only=True)
class ClosedForm(OverTrunk[HeadSums]):
    """theta = (A^T A + lam I')^-1 A^T Y over fixed features A of personal pictures; forgetting
    subtracts their part.

    The features are relu(L x + l) of the trunk's pooled features x, and of its own answer, with L
    and l at random but for the last A rows, which read the answer as it is: nothing in them
    depends on personal data. A^T A and A^T Y are kept as sums of integers (see
    `RidgeHead`), so that subtracting undoes adding bit for bit, in any order: after any number of
    requests the sums are those of the people who are left. lam = `ridge` times the number of
    samples. Group scores are multiplied by one number that the trunk's own validation pictures
    decide. The pictures of the forgotten are needed once more, those of the others are not.

    Args:
        random_features: D, 1 to 4,096, and more than A.
        ridge: penalty per sample, 1e-9 to 1e6; the default was chosen on UTKFace
            (docs/results/ages.md).

    Raises:
        InputError: a value out of range.

    Reference:
        Zhuang et al., ACIL, 2022, theorem 1 (with the sign of the update turned); Cho and Saul,
        Kernel Methods for Deep Learning, 2009, section 2 (random rectified features).
    """

    random_features: int = 512
    ridge: float = 0.1

    name: ClassVar[str] = "closed-form"
    needs: ClassVar[tuple[str, ...]] = ("forget data", "labels")
    how: ClassVar[str] = "what the forgotten had added was subtracted, bit for bit"
    fact_types: ClassVar[Mapping[str, type]] = {"scale": float}
    own: ClassVar[tuple[str, ...]] = ("classifier.weight", "classifier.bias")

    def __post_init__(self) -> None:
        check_range(self.name, 1, 4096, random_features=self.random_features)
        check_range(self.name, *RIDGES, ridge=self.ridge)

    @property
    def width(self) -> int:
        """D, the number of random features, as it was set."""
        return self.random_features

    def check_answers(self, answers: int) -> None:
        """Refuses features that the trunk's own answer would fill."""
        if answers >= self.random_features:
            why = f"the trunk's own answer takes {answers} of them"
            fix = f"Give `random_features` of {answers + 1} or more"
            raise InputError(f"{self.name} random_features={self.random_features}", why, fix)

    def begin(
        self, model: PictureModel, consented: Consented, seed: int
    ) -> tuple[dict[str, Any], HeadSums]:
        """Draws the lift L = R diag(1 / s) / sqrt(C), l = r - L m, with R, r normal and m, s of the
        trunk's own pictures; a row that reads the answer goes from 0 to `ANSWER_RANGE` on those.
        """
        mean_C, spread_C = consented.mean_C, consented.spread_C
        answers, channels = model.answer_channels, len(consented.mean_C)
        drawn = self.random_features - answers
        generator = torch.Generator().manual_seed(seed)
        random_DC = torch.randn(drawn, channels, generator=generator, dtype=torch.float64)
        offset_D = torch.randn(drawn, generator=generator, dtype=torch.float64)
        # L x has about unit variance, whatever the features' ranges
        weight_DC = coarse(random_DC / spread_C / channels**0.5)
        answer_NA = consented.seen.pooled_NC[:, channels - answers :]
        least_A, most_A = answer_NA.aminmax(dim=0)
        slope_A = ANSWER_RANGE / (most_A - least_A).clamp(min=0.5)
        direct_AC = torch.zeros(answers, channels, dtype=torch.float64)
        direct_AC[:, channels - answers :] = slope_A.diag()
        assert model.lift is not None
        with torch.no_grad():
            model.lift.weight.copy_(torch.cat([weight_DC, coarse(direct_AC)]))
            offsets = coarse(offset_D - weight_DC @ mean_C), -slope_A * least_A
            model.lift.bias.copy_(torch.cat(offsets))
        return {"scale": self._scale(model, consented)}, HeadSums.empty(
            self.random_features, model.groups, model.more
        )

    def fit(self, model: PictureModel, kept: HeadSums, rows: TrunkRows, seed: int) -> HeadSums:
        """The sums over these people, from nothing."""
        sums = HeadSums.empty(self.random_features, model.groups, model.more)
        sums.add(*contribution(model, rows), rows.committed)
        return sums

    def reads(self, kept: HeadSums, gone: Sequence[str]) -> list[str]:
        """Those who leave: what they had added is computed once more."""
        return list(gone)

    def take(
        self, model: PictureModel, kept: HeadSums, gone: Sequence[str], rows: TrunkRows, seed: int
    ) -> HeadSums:
        """Subtracts what those who leave had added."""
        kept.remove(*contribution(model, rows), gone)
        return kept

    @torch.no_grad()
    def fill(self, model: PictureModel, kept: HeadSums, facts: Mapping[str, Any]) -> None:
        """Writes the head that the sums give: groups scaled to logits, then an age in years."""
        weight_KD, bias_K = kept.solve(self.ridge)
        factor_K = torch.ones_like(bias_K)
        factor_K[: model.groups] = facts["scale"]
        model.classifier.weight.copy_(factor_K[:, None] * weight_KD)
        model.classifier.bias.copy_(factor_K * bias_K)

    def restored(
        self,
        model: PictureModel,
        tensors: Mapping[str, Tensor],
        committed: dict[str, bytes],
    ) -> HeadSums:
        """The sums, which must hold as many samples as there are commitments."""
        sums = HeadSums.empty(self.random_features, model.groups, model.more)
        sums.head.sums, sums.committed = tensors["sums"], committed
        if sums.head.samples != len(committed):
            raise ValueError(
                f"it holds {sums.head.samples} samples where the split says {len(committed)}"
            )
        return sums

    def _scale(self, model: PictureModel, consented: Consented) -> float:
        """The factor of the group scores that fits the trunk's own validation pictures best, by
        cross entropy; 1 at least.
        """
        weight_KD, bias_K = self.fit(model, HeadSums.empty(1, 1, 0), consented.seen, 0).solve(
            self.ridge
        )
        feature_ND, target_NK = contribution(model, consented.held)
        score_NG = (feature_ND @ weight_KD.T + bias_K)[:, : model.groups]
        target_NG, count = target_NK[:, : model.groups], len(target_NK)
        if not model.more:
            # Laplace's rule: no number of right answers asks for certainty
            target_NG = (count * target_NG + 1.0 / model.groups) / (count + 1)
        return max(1.0, best_scale(score_NG, target_NG))


@torch.no_grad()
def contribution(model: PictureModel, rows: TrunkRows) -> tuple[Tensor, Tensor]:
    """What some samples add: features (N, D) and targets (N, K), both float64; the head of the
    model plays no part.
    """
    assert model.lift is not None
    lift = model.lift.weight.double().cpu(), model.lift.bias.double().cpu()
    # in float64 on the CPU: exact, see `LIFT_BITS`
    feature_ND = (rows.pooled_NC @ lift[0].T + lift[1]).relu().clamp(max=2.0**FEATURE_RANGE)
    target_NG = group_targets(model, rows)
    age_NM = rows.truth_N[:, None].clamp(0.0, 2.0**AGE_RANGE)[:, : model.more]
    return feature_ND, torch.cat([target_NG, age_NM], dim=1)


def device_head(checkpoint: Checkpoint, trunk_sha256: str) -> DeviceHead:
    """The head of a closed-form model as a phone keeps it, to add and forget people by itself.

    Args:
        checkpoint: a closed-form model, or a member of a family where the family saved it: people
            who were added by the reference's features leave by those.
        trunk_sha256: the hash of its trunk's weight file, as exported by itself.

    Raises:
        CheckpointError: a state that was edited.
    """
    facts, model = checkpoint.record["design"], checkpoint.model
    design = build_design(ClosedForm.name, facts.get("settings"))
    assert isinstance(design, ClosedForm)
    kept = design.load(family_of(checkpoint))
    aged = isinstance(model, AgePredictor)
    size = design.width + 1 + model.groups + model.more
    # the upper triangle row by row, as `RidgeHead.sums` has it
    sums_KK = np.zeros((size, size), np.int64)
    sums_KK[np.triu_indices(size)] = kept.head.sums[0].numpy()
    return DeviceHead(
        facts=HeadFacts(
            trunk_sha256=trunk_sha256,
            grid=facts["grid"],
            ridge=design.ridge,
            scale=facts["scale"],
            edges=tuple(model.age_edges) if aged else (),
            classes=() if aged else tuple(model.classes),
        ),
        lift_DC=model.lift.weight.detach().double().numpy(),
        offset_D=model.lift.bias.detach().double().numpy(),
        center_G=model.age_centers.double().numpy() if aged else np.zeros(model.groups),
        sums_KK=np.triu(sums_KK) + np.triu(sums_KK, 1).T,
        committed=frozenset(kept.committed.values()),
    )
