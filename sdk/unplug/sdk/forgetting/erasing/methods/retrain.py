"""Training anew: the base's own recipe, on the pictures that do not show the concept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from unplug.core import InputError, json_sha256
from unplug.sdk.drawing.device import asks_for
from unplug.sdk.drawing.diffusion import (
    BaseRecipe,
    VAERecipe,
    base_record,
    load_base,
    train_base,
    weights_digest,
)
from unplug.sdk.learning.data import Dataset, captions_of, load_dataset, make_split

from ..problem import EraseProblem

NETWORKS = ("vae", "text_encoder", "unet")


@dataclass(frozen=True, kw_only=True)
class TrainedAnew:
    """What every other method is held against: exact where captions say all that pictures show.

    A picture is left out if one of its captions says the words, as a pack's prompts do (case and
    plural folded); of synthetic faces the first caption names everything. Nothing is known of what
    the training went on from, where it did.

    Args:
        data: spec of the pictures; empty is the data of the base's own record.
        start: the base that the training went on from, where it did.
    """

    data: str = ""
    start: str = "small"

    def refuse(self, name: str) -> None:
        """Refuses a base of which nobody knows how it was trained.

        Raises:
            InputError: it has no whole record, or went on from another base than `start`.
        """
        self._recipes(name)
        self._start(base_record(name))

    def __call__(self, problem: EraseProblem) -> None:
        """Replaces all networks of ``problem.base`` and tells in ``problem.trained`` on what.

        An unfinished training is continued, see `train_base`.

        Raises:
            InputError: see `refuse`; other data than the record's, or captions that never say the
                words.
        """
        assert problem.work is not None  # `erase` gives one
        vae_recipe, recipe = self._recipes(problem.name)
        record = base_record(problem.name)
        whole, kept = self._without(problem, record, recipe.captions)
        facts = {"data": kept.digest, "recipe": record["recipe"], "seed": problem.seed}
        folder = problem.work / f"retrained-{json_sha256(facts)[:16]}"
        if not base_record(str(folder)):
            train_base(
                kept,
                make_split(kept, seed=problem.seed, validation=0.02, test=0.02),
                folder,
                vae_recipe,
                recipe,
                seed=problem.seed,
                device=problem.device,
                start=self._start(record),
                start_record=base_record(self.start),
                words=tuple(record.get("words", ())),
                show=problem.show,
            )
        trained = load_base(str(folder), device=problem.device)
        problem.base.register_modules(
            **{part: getattr(trained, part) for part in (*NETWORKS, "tokenizer")}
        )
        told = base_record(str(folder))
        left_out = {"left_out": len(whole) - len(kept)}
        problem.trained.update(told | {"data": told["data"] | left_out})

    def _recipes(self, name: str) -> tuple[VAERecipe, BaseRecipe]:
        record = base_record(name)
        try:
            both = record["recipe"]["vae"], record["recipe"]["base"]
            if not (
                isinstance(record["data"]["spec"], str) and isinstance(record["image_size"], int)
            ):
                raise TypeError
        except (KeyError, TypeError) as error:
            why = "no unplug.json next to it says how it was trained"
            raise InputError(f"base {name}", why, "Choose another method") from error
        return VAERecipe.from_dict(both[0]), BaseRecipe.from_dict(both[1])

    def _start(self, record: dict[str, Any]) -> Any:
        """The base to go on from, as it was; None where the training began from nothing."""
        if not (marks := record.get("start")):
            return None
        start = load_base(self.start, device=torch.device("cpu"))
        if {name: weights_digest(getattr(start, name)) for name in NETWORKS} != marks:
            why = "the base's training did not go on from it"
            raise InputError(
                f"start {self.start!r}", why, "Name what it went on from: --set start="
            )
        return start

    def _without(
        self, problem: EraseProblem, record: dict[str, Any], variants: int
    ) -> tuple[Dataset, Dataset]:
        """The data, and what of it says none of the words."""
        own = record["data"]["spec"]
        whole = load_dataset(self.data or own, record["image_size"], show=problem.show)
        if not self.data and whole.digest != record["data"].get("digest"):
            why = "it is no longer what the base was trained on"
            raise InputError(f"data {own}", why, "Say what to train on: --set data=SPEC")
        words = [concept.words for concept in problem.every]
        told = captions_of(whole, seed=problem.seed, variants=variants)
        ids = [
            name
            for name, captions in zip(whole.ids, told, strict=True)
            if not any(asks_for(text, one) for text in captions for one in words)
        ]
        if len(ids) == len(whole) and whole.spec == own:
            why = f"no caption says {' or '.join(map(repr, words))}: nothing is to be left out"
            raise InputError(f"data {own}", why, "Give data without it: --set data=SPEC")
        return whole, whole.only(ids)
