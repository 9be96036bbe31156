"""Shards: many small tails over a trunk that saw nobody's personal data, each trained on its own
share of the people.

Shapes: N samples, C pooled channels, H hidden units of a tail, G age groups or classes, P parameters of a
    tail, S shards, R slices.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from unplug.core import InputError, TrainingError
from unplug.plugins import MAX_RANDOM_FEATURES, PictureModel
from unplug.sdk.forgetting.tasks import AGE_SCALE
from unplug.sdk.learning.training import seeded

from ..shards import ShardPlan
from .over_trunk import Kept, OverTrunk
from .trunk import Consented, TrunkRows, group_targets, threads

BATCH, WEIGHT_DECAY = 32, 1e-2
MIDDLE, SPREAD = 40.0, 25.0
"""Years: a tail's last output o says the age ``MIDDLE + SPREAD o``. They are fixed: what follows
the data would tell of it.
"""


@dataclass(kw_only=True)
class Tails(Kept):
    """The tails after every slice, and who is in which.

    Args:
        committed: see `Kept`.
        place: the place by name, shard and slice.
        warm_P: the tail that every shard starts from, trained on the trunk's pictures alone.
        mean_C, spread_C: the moments of the trunk's pictures; a tail reads (x - mean) / spread.
        after_SRP: the tails after each slice; the last are those that speak.
    """

    committed: dict[str, bytes]
    place: dict[str, tuple[int, int]]
    warm_P: Tensor
    mean_C: Tensor
    spread_C: Tensor
    after_SRP: Tensor

    def rename(self, names: Mapping[str, str]) -> None:
        """Renames the people in the places as well."""
        super().rename(names)
        self.place = {names.get(name, name): place for name, place in self.place.items()}

    def own_tensors(self, names: Sequence[str]) -> dict[str, Tensor]:
        """``place``, ``warm``, ``mean``, ``spread`` and ``after``."""
        place_N2 = torch.tensor([self.place[name] for name in names], dtype=torch.int32)
        return {
            "place": place_N2,
            "warm": self.warm_P,
            "mean": self.mean_C,
            "spread": self.spread_C,
            "after": self.after_SRP,
        }

    def sizes(self) -> list[list[int]]:
        """Samples of each slice of each shard."""
        shards, slices = self.after_SRP.shape[:2]
        count = Counter(self.place.values())
        return [[count[shard, number] for number in range(slices)] for shard in range(shards)]


@dataclass(frozen=True, kw_only=True)
class Shards(OverTrunk[Tails]):
    """theta_s <- train(warm, D_s[0]), ..., train(D_s[0..R-1]); forgetting trains the touched shards
    again, from the slice on.

    A tail is relu(W z + b) and a linear layer over it, for the logits of the groups and an age, on
    the pooled features z of one shared trunk; the model says the mean of all tails, so that
    together they are one layer of S H features. All start from one tail that was trained on the
    trunk's pictures. People are put into shards and slices by the hash of their name, all pictures
    of a person into the same, and each epoch of each stage draws from its own seed: what is trained
    again is, bit for bit, what training without the forgotten gives on the same machine. The
    pictures of the forgotten are not needed; those of the others in their shards are. A shard
    without people says what the tail said that all started from.

    Args:
        shards: S, at most 256 parts with the slices.
        slices: R of each shard; each keeps a copy of the tail.
        hidden: H; S H is at most 4,096.
        epochs: whole epochs a tail learns for, over its R stages together.
        lr: the learning rate of AdamW, above 0; follows half a cosine in each stage.

    Raises:
        InputError: a value out of range.

    Reference:
        Bourtoule et al., Machine Unlearning, 2021, section IV and algorithm 1 (SISA; here by
        person, over a shared trunk).
    """

    shards: int = 20
    slices: int = 3
    hidden: int = 16
    epochs: int = 20
    lr: float = 1e-3

    name: ClassVar[str] = "shards"
    needs: ClassVar[tuple[str, ...]] = ("retain data", "labels")
    how: ClassVar[str] = (
        "the shards that had seen the forgotten were trained again from the slice before them"
    )
    fact_types: ClassVar[Mapping[str, type]] = {}
    own: ClassVar[tuple[str, ...]] = (
        "lift.weight",
        "lift.bias",
        "classifier.weight",
        "classifier.bias",
    )

    def __post_init__(self) -> None:
        # refuses too many parts and too few epochs; the seed plays no part in that
        self._plan(0).epochs(self.epochs)
        if not (self.hidden >= 1 and self.width <= MAX_RANDOM_FEATURES and 0.0 < self.lr < 1.0):
            what = f"shards hidden={self.hidden} lr={self.lr:g}"
            why = f"out of range (shards x hidden is {self.width})"
            fix = f"Use 1 to {MAX_RANDOM_FEATURES} hidden units in all and a rate between 0 and 1"
            raise InputError(what, why, fix)

    @property
    def width(self) -> int:
        """S H."""
        return self.shards * self.hidden

    def begin(
        self, model: PictureModel, consented: Consented, seed: int
    ) -> tuple[dict[str, Any], Tails]:
        """Trains the tail that all start from, on the trunk's pictures."""
        mean_C, spread_C = consented.mean_C.float(), consented.spread_C.float()
        generator = torch.Generator().manual_seed(seed)
        blank = _tail(len(mean_C), self.hidden, model.groups + model.more)
        for layer in (blank[0], blank[2]):
            # from a generator of its own: torch's default drawing reads the global one
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5, generator=generator)
            nn.init.zeros_(layer.bias)
        start_P = parameters_to_vector(blank.parameters()).detach()
        kept = Tails(
            committed={},
            place={},
            warm_P=start_P,
            mean_C=mean_C,
            spread_C=spread_C,
            after_SRP=start_P.expand(self.shards, self.slices, -1),
        )
        with threads(1):
            keys = [(seed, epoch) for epoch in range(self.epochs)]
            warm_P = self._stage(start_P, *self._inputs(model, kept, consented.seen), keys)
        # a shard without people says what the warm tail says
        kept.warm_P, kept.after_SRP = warm_P, warm_P.repeat(self.shards, self.slices, 1)
        return {}, kept

    def fit(self, model: PictureModel, kept: Tails, rows: TrunkRows, seed: int) -> Tails:
        """Trains every shard from its first slice."""
        plan = self._plan(seed)
        place = {
            name: plan.place(person) for name, person in zip(rows.ids, rows.people, strict=True)
        }
        fresh = Tails(
            committed=dict(rows.committed),
            place=place,
            warm_P=kept.warm_P,
            mean_C=kept.mean_C,
            spread_C=kept.spread_C,
            after_SRP=kept.warm_P.repeat(self.shards, self.slices, 1),
        )
        self._learn(model, fresh, rows, dict.fromkeys(range(self.shards), 0), plan)
        return fresh

    def reads(self, kept: Tails, gone: Sequence[str]) -> list[str]:
        """The others of their shards, in the order of their names."""
        touched, leaving = self._touched(kept, gone), set(gone)
        inside = {name for name, (shard, _) in kept.place.items() if shard in touched}
        return sorted(inside - leaving)

    def take(
        self, model: PictureModel, kept: Tails, gone: Sequence[str], rows: TrunkRows, seed: int
    ) -> Tails:
        """Trains the touched shards again from the first slice that somebody left."""
        touched, leaving = self._touched(kept, gone), set(gone)
        kept.committed = {
            name: digest for name, digest in kept.committed.items() if name not in leaving
        }
        kept.place = {name: place for name, place in kept.place.items() if name not in leaving}
        # the caller's state may share it
        kept.after_SRP = kept.after_SRP.clone()
        self._learn(model, kept, rows, touched, self._plan(seed))
        return kept

    @torch.no_grad()
    def fill(self, model: PictureModel, kept: Tails, facts: Mapping[str, Any]) -> None:
        """Stacks the tails: the first layers on the pooled features as they are, the mean of the
        last.
        """
        tail = _tail(len(kept.mean_C), self.hidden, model.groups + model.more)
        weights: dict[str, list[Tensor]] = {name: [] for name in self.own}
        for last_P in kept.after_SRP[:, -1]:
            vector_to_parameters(last_P.clone(), tail.parameters())
            # W (x - mean) / spread + b = (W / spread) x + b - (W / spread) mean
            first_HC = tail[0].weight.double() / kept.spread_C.double()
            weights["lift.weight"].append(first_HC)
            weights["lift.bias"].append(tail[0].bias.double() - first_HC @ kept.mean_C.double())
            weights["classifier.weight"].append(tail[2].weight.double() / self.shards)
            weights["classifier.bias"].append(tail[2].bias.double() / self.shards)
        scale_K = torch.ones(model.groups + model.more, dtype=torch.float64)
        scale_K[model.groups :] = SPREAD
        middle_K = torch.zeros_like(scale_K)
        middle_K[model.groups :] = MIDDLE
        last_KD = torch.cat(weights["classifier.weight"], dim=1)
        bias_K = torch.stack(weights["classifier.bias"]).sum(0)
        stacked = {
            "lift.weight": torch.cat(weights["lift.weight"]),
            "lift.bias": torch.cat(weights["lift.bias"]),
            "classifier.weight": scale_K[:, None] * last_KD,
            "classifier.bias": scale_K * bias_K + middle_K,
        }
        tensors = model.state_dict()
        for name, value in stacked.items():
            tensors[name].copy_(value)

    def restored(
        self,
        model: PictureModel,
        tensors: Mapping[str, Tensor],
        committed: dict[str, bytes],
    ) -> Tails:
        """The tails, whose shapes and places must be those of the settings."""
        assert model.lift is not None
        warm_P, after_SRP, place_N2 = tensors["warm"], tensors["after"], tensors["place"]
        channels = model.lift.in_features
        tail = _tail(channels, self.hidden, model.groups + model.more)
        size = parameters_to_vector(tail.parameters()).shape
        shapes = {
            "warm": size,
            "after": (self.shards, self.slices, *size),
            "place": (len(committed), 2),
            "mean": (channels,),
            "spread": (channels,),
        }
        for name, shape in shapes.items():
            if tensors[name].shape != shape or not bool(tensors[name].isfinite().all()):
                raise ValueError(f"{name} has shape {list(tensors[name].shape)} or is not finite")
        limits_2 = torch.tensor([self.shards, self.slices])
        if not bool(((place_N2 >= 0) & (place_N2 < limits_2)).all()):
            raise ValueError("a sample is in a shard that does not exist")
        place = dict(zip(committed, map(tuple, place_N2.tolist()), strict=True))
        return Tails(
            committed=committed,
            place=place,
            warm_P=warm_P,
            mean_C=tensors["mean"],
            spread_C=tensors["spread"],
            after_SRP=after_SRP,
        )

    def work(self, kept: Tails, gone: Sequence[str]) -> tuple[int, int]:
        """Samples that tails learn from, of the touched shards from their slices on and of all
        shards.
        """
        stages, left_SR = self._plan(0).epochs(self.epochs), kept.sizes()
        for name in gone:
            # priced as if they had left already
            shard, number = kept.place[name]
            left_SR[shard][number] -= 1

        def passes(shard: int, first: int) -> int:
            return sum(
                stages[number] * sum(left_SR[shard][: number + 1])
                for number in range(first, self.slices)
            )

        step = sum(passes(shard, first) for shard, first in self._touched(kept, gone).items())
        return step, sum(passes(shard, 0) for shard in range(self.shards))

    def _plan(self, seed: int) -> ShardPlan:
        return ShardPlan(shards=self.shards, slices=self.slices, seed=seed)

    @staticmethod
    def _touched(kept: Tails, gone: Sequence[str]) -> dict[int, int]:
        """Shards that lose samples, each with the first slice that does."""
        touched: dict[int, int] = {}
        for shard, number in (kept.place[name] for name in gone):
            touched[shard] = min(number, touched.get(shard, number))
        return touched

    def _learn(
        self,
        model: PictureModel,
        kept: Tails,
        rows: TrunkRows,
        shards: Mapping[int, int],
        plan: ShardPlan,
    ) -> None:
        """Writes the tails of some shards after each slice, from a slice on; `rows` hold all of
        their samples.
        """
        stages = plan.epochs(self.epochs)
        position = {name: index for index, name in enumerate(rows.ids)}
        with threads(1):
            for shard, first in sorted(shards.items()):
                inside = sorted(name for name, place in kept.place.items() if place[0] == shard)
                tail_P = kept.warm_P if first == 0 else kept.after_SRP[shard, first - 1]
                for number in range(first, self.slices):
                    names = [name for name in inside if kept.place[name][1] <= number]
                    if names:
                        part = rows.part([position[name] for name in names])
                        keys = [
                            (plan.seed, shard, number, epoch) for epoch in range(stages[number])
                        ]
                        tail_P = self._stage(tail_P, *self._inputs(model, kept, part), keys)
                    kept.after_SRP[shard, number] = tail_P

    @staticmethod
    def _inputs(model: PictureModel, kept: Tails, rows: TrunkRows) -> tuple[Tensor, Tensor, Tensor]:
        z_NC = (rows.pooled_NC.float() - kept.mean_C) / kept.spread_C
        age_NM = rows.truth_N[:, None].float()[:, : model.more]
        return z_NC, group_targets(model, rows).float(), age_NM

    def _stage(
        self,
        start_P: Tensor,
        z_NC: Tensor,
        target_NG: Tensor,
        age_NM: Tensor,
        keys: Sequence[tuple[int, ...]],
    ) -> Tensor:
        """A tail after one epoch a key, by AdamW from a fresh state; cross entropy, and of ages a
        tenth of the error in years.
        """
        groups = target_NG.shape[1]
        tail = _tail(z_NC.shape[1], self.hidden, groups + age_NM.shape[1])
        vector_to_parameters(start_P.clone(), tail.parameters())
        optimizer = torch.optim.AdamW(tail.parameters(), lr=self.lr, weight_decay=WEIGHT_DECAY)
        batches = math.ceil(len(z_NC) / BATCH)
        rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=batches * len(keys))
        for key in keys:
            # each epoch from its own key: what other shards or stages drew decides nothing
            with seeded(*key) as generator:
                order_N = torch.randperm(len(z_NC), generator=generator)
            for index_B in order_N.split(BATCH):
                says_BK = tail(z_NC[index_B])
                entropy_B = -(target_NG[index_B] * log_softmax(says_BK[:, :groups], dim=1)).sum(1)
                error_BM = MIDDLE + SPREAD * says_BK[:, groups:] - age_NM[index_B]
                error_B = error_BM.abs().sum(1) / AGE_SCALE
                optimizer.zero_grad()
                (entropy_B + error_B).mean().backward()
                optimizer.step()
                rate.step()
        after_P = parameters_to_vector(tail.parameters()).detach()
        if not bool(after_P.isfinite().all()):
            raise TrainingError("shards", "the loss of a tail is not a number", "Lower `lr`")
        return after_P


def _tail(channels: int, hidden: int, answers: int) -> Any:
    """Linear, relu, linear: without weights worth keeping."""
    return nn.Sequential(
        nn.utils.skip_init(nn.Linear, channels, hidden),
        nn.ReLU(),
        nn.utils.skip_init(nn.Linear, hidden, answers),
    )
