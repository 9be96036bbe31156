"""Conditioning plugins: the loss of predicting noise beside their frozen base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from unplug.plugins.checkpoint import Checkpoint
from unplug.plugins.errors import CheckpointError, DataError
from unplug.sdk.data import Dataset, Split
from unplug.sdk.diffusion.control import CONTROLS
from unplug.sdk.diffusion.control_set import base_digest, load_control_set
from unplug.sdk.diffusion.family import PluginFamily, example
from unplug.sdk.diffusion.fit_control import ControlRecipe
from unplug.sdk.diffusion.given import given_losses
from unplug.sdk.diffusion.load import image_size_of, load_base
from unplug.sdk.diffusion.run_plugin import RECORD_SCHEMA, plugin_card
from unplug.sdk.diffusion.steps import pick_precision
from unplug.sdk.diffusion.task import Steered, SteeredSet, frame_of
from unplug.sdk.forget.memory import Footprint, footprint_of
from unplug.sdk.train.evaluate import LossPredictions, Predictions, predict
from unplug.sdk.train.run import Sets


class PluginKind:
    """See `Kind`."""

    model_type: ClassVar[str] = "plugin"
    schema: ClassVar[str] = RECORD_SCHEMA
    unit: ClassVar[str] = "loss"

    def __init__(self, checkpoint: Checkpoint, *, device: torch.device, base: str | None = None) -> None:
        record, where = checkpoint.record, str(checkpoint.path)
        missing = [
            key for key in ("base", "condition", "parameters", "image_size", "recipe", "split", "seed") if key not in record
        ]
        if missing:
            why = f"its unplug.json says no {', '.join(missing)}, so it cannot be trained again"
            raise CheckpointError(where, why, "Use a plugin that `unplug train plugin` wrote")
        self.device, self.record = device, record
        name = base or str(record["base"]["name"])
        self.base = load_base(name, device=device)
        if base_digest(self.base) != record["base"]["sha256"]:
            raise CheckpointError(name, "it is not the base that the plugin was trained beside (weights differ)", "Pass --base")
        checkpoint.model.check_base(self.base.unet)
        recipe = ControlRecipe.from_dict(record["recipe"])
        self.frame = frame_of(
            CONTROLS.get("plugin")(), self.base, recipe.timesteps, recipe.drop_text,
            fast=pick_precision(recipe.precision, device) == "bf16",
        )  # fmt: skip
        self.family = PluginFamily(
            recipe=recipe, frame=self.frame, condition=str(record["condition"]["kind"]), image_size=self.image_size
        )

    @property
    def image_size(self) -> int:
        """The base's."""
        return image_size_of(self.base)

    def sets(self, dataset: Dataset, split: Split) -> Sets:
        """Latents, embeddings and conditions; samples in which the condition is not found were never trained on."""
        settings = self.record["condition"]["settings"]
        data, _ = load_control_set(
            self.base, dataset, self.family.condition, settings, captions=self.family.recipe.captions,
            seed=self._captions_seed(), show=False,
        )  # fmt: skip
        parts = {
            name: SteeredSet.of(data.subset(ids), self.frame, self.device)
            for name, ids in (("train", split.retain), ("forget", split.forget), ("validation", split.validation),
                              ("test", split.test))
        }  # fmt: skip
        if split.forget and not len(parts["forget"]):
            why = f"{self.family.condition} was found in none of its {len(split.forget)} samples, so none was trained on"
            raise DataError("forget set", why, "There is nothing to forget")
        return Sets(**parts)

    def _captions_seed(self) -> int:
        """Prompts are drawn by the seed of the original, also for models that were retrained with another."""
        return int(self.record.get("captions_seed", self.record["seed"]))

    def network(self, model: nn.Module) -> nn.Module:
        """The plugin beside its base."""
        return Steered(model, self.frame)

    def stored(self, network: nn.Module) -> nn.Module:
        """The plugin alone."""
        assert isinstance(network, Steered)
        return network.network

    def metrics(self, network: nn.Module, part: SteeredSet) -> dict[str, Any]:
        """Mean loss at fixed noise, with the plugin and without."""
        own = predict(network, part)
        assert isinstance(own, LossPredictions) and own.plain_N is not None
        return {"n": len(part), "loss": float(-own.log_prob_N.mean()), "loss_without_plugin": float(own.plain_N.mean())}

    def describe(self, row: dict[str, Any]) -> str:
        """Both in words."""
        return f"noise prediction loss {row['loss']:.4f} ({row['loss_without_plugin']:.4f} without the plugin)"

    def facts(self) -> dict[str, Any]:
        """The base and the condition."""
        carried = {key: self.record[key] for key in ("base", "condition", "parameters", "image_size")}
        return {**carried, "captions_seed": self._captions_seed()}

    def card(self, record: dict[str, Any]) -> str:
        """With the base that it fits."""
        return plugin_card(record)

    def footprint(self, network: nn.Module) -> Footprint:
        """By two small passes over packed samples."""
        return footprint_of(network, lambda count: example(self.frame, count, self.device), 4 * self.frame.floats, self.device)

    def resident(self, samples: int) -> int:
        """Ages and groups: the rest is mapped from disk."""
        return samples * 12

    def predict_artifact(self, artifact: Any, parts: Sequence[SteeredSet]) -> list[Predictions]:
        """The file's residuals, the base's loss with them."""
        return [
            LossPredictions.of(own_N, plain_N) if len(part) else LossPredictions.of(np.zeros(0), np.zeros(0))
            for part, (own_N, plain_N) in zip(parts, given_losses(artifact, self.frame, parts, self.device), strict=True)
        ]
