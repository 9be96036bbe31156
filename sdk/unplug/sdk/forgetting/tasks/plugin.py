"""Conditioning plugins: the loss of predicting noise with their frozen base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from unplug.core import CheckpointError, DataError, InputError, IOSpec
from unplug.plugins import Checkpoint
from unplug.plugins.conditions import build_condition, identity
from unplug.sdk.drawing.diffusion import (
    CONTROLS,
    RECORD_SCHEMA,
    ControlRecipe,
    NoiseBatch,
    NoiseFrame,
    NoiseSet,
    Steered,
    base_digest,
    batch_size_of,
    fit_control,
    given_losses,
    image_size_of,
    load_base,
    load_control_set,
    pick_precision,
    plugin_card,
    use_fast_attention,
)
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import (
    Fit,
    LossPredictions,
    Predictions,
    SampleSet,
    Sets,
    StateFile,
    predict,
)

from .memory import Footprint, footprint_of
from .needs import Need
from .stored import StoredTask


@dataclass(frozen=True, kw_only=True)
class PluginTask(StoredTask):
    """Predicting noise or velocity with one base. log p(x) is -loss up to a constant, as in the
    evidence bound of a diffusion model.

    Args:
        recipe: how plugins are trained.
        edges: (0, 1): one class, none to tell apart.
        frame: the base.
        record: the record of the checkpoint that was opened.
        iospec: the plugin's named tensors.

    Reference:
        Ho et al., Denoising Diffusion Probabilistic Models, 2020, section 3.4.
    """

    recipe: ControlRecipe  # type: ignore[assignment]  # the names that the forget step reads are those of a `Recipe`
    frame: NoiseFrame
    record: dict[str, Any]
    iospec: IOSpec

    output: ClassVar[str] = "loss"
    model_type: ClassVar[str] = "plugin"
    schema: ClassVar[str] = RECORD_SCHEMA
    unit: ClassVar[str] = "loss"
    lacks: ClassVar[tuple[Need, ...]] = ("ages", "class logits")
    error_name: ClassVar[str] = "Velocity loss on unseen samples"
    error_digits: ClassVar[int] = 4

    @classmethod
    def open(cls, checkpoint: Checkpoint, *, device: torch.device, base: str | None) -> PluginTask:
        """Loads the base and checks that it is the one that the plugin was trained with."""
        record = checkpoint.record
        if missing := [".".join(path) for path in NEEDED if not _says(record, path)]:
            why = f"its unplug.json says no {', '.join(missing)}, so it cannot be trained again"
            fix = "Use a plugin that `unplug train plugin` wrote"
            raise CheckpointError(str(checkpoint.path), why, fix)
        if record.get("start"):
            why = (
                "its training went on from another plugin's weights, and what that one saw is not "
                "on its record"
            )
            fix = "Train it without `unplug train plugin --start`, and forget with that one"
            raise CheckpointError(str(checkpoint.path), why, fix)
        beside = _open_base(checkpoint, device, base)
        # as training does: numbers must not depend on what was trained before
        use_fast_attention(beside.unet, device)
        checkpoint.model.check_base(beside.unet)
        recipe = ControlRecipe.from_dict(record["recipe"])
        fast = pick_precision(recipe.precision, device) == "bf16"
        frame = NoiseFrame(control=CONTROLS.get("plugin")(), base=beside, recipe=recipe, fast=fast)
        return cls(
            recipe=recipe,
            edges=(0.0, 1.0),
            frame=frame,
            record=record,
            iospec=checkpoint.model.iospec,
        )

    @property
    def ignorance(self) -> float:
        """1: about the error of predicting no noise, or no velocity, at all."""
        return 1.0

    @property
    def condition(self) -> str:
        """Name of the condition that the plugin was trained on."""
        return str(self.record["condition"]["kind"])

    def build(self, train: SampleSet) -> nn.Module:
        """A plugin whose projections are zero."""
        network = self.frame.control.build(
            self.frame.base.unet, condition=self.condition, image_size=self.image_size
        )
        return Steered(network, self.frame)

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """Nothing is kept besides the weights."""

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
        """Trains by steps, as `unplug train plugin` does."""
        assert isinstance(train, NoiseSet)
        done = fit_control(
            self.frame.control,
            self.frame.base,
            train.control_set,
            self.recipe,
            condition=self.condition,
            image_size=self.image_size,
            seed=seed,
            device=train.device,
            state_path=None if state is None else state.path,
            facts=None if state is None else {"run": state.fingerprint},
            show=show,
        )
        # an average is not trained, a model may be
        model = Steered(done.model.network, self.frame).requires_grad_(True)
        return Fit(
            model=model.eval(), history=done.history, passes=done.samples, wall_s=done.wall_s
        )

    def loss(self, model: nn.Module, outputs: Mapping[str, Tensor], batch: NoiseBatch) -> Tensor:
        """Training loss (B,): a `Steered` plugin computes its own."""
        return outputs["loss"]

    def log_prob(self, outputs: Mapping[str, Tensor], batch: NoiseBatch) -> Tensor:
        """The negative loss (B,), a log likelihood up to a constant."""
        return -outputs["loss"]

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Raises `InputError`: a model of noise has no classes."""
        raise InputError("a plugin", "it says no class logits", "Choose a method that needs none")

    @property
    def image_size(self) -> int:
        """Side in pixels of the pictures that the base draws."""
        return image_size_of(self.frame.base)

    def sets(
        self, dataset: Dataset, split: Split, device: torch.device, *, show: bool = False
    ) -> Sets:
        """Latents, embeddings and conditions; samples in which the condition is not found were
        never trained on.
        """
        kind, settings = self.condition, self.record["condition"]["settings"]
        _check_condition(_made_of(self.record), identity(build_condition(kind, settings)))
        data, _ = load_control_set(
            self.frame.base,
            dataset,
            kind,
            settings,
            captions=self.recipe.captions,
            seed=self._captions_seed(),
            show=show,
        )
        if data.captions_sha256 != self.record["captions"]:
            why = (
                "its captions are not those that the plugin was trained with (their SHA-256 "
                "differs)"
            )
            fix = "Give the captions of its training, unchanged"
            raise DataError(f"data {dataset.spec}", why, fix)
        parts, split = [], split.there(dataset)
        for name in ("retain", "forget", "validation", "test"):
            ids = getattr(split, name)
            parts.append(NoiseSet.of(data.subset(ids), self.frame, device))
            if ids and not len(parts[-1]):
                raise self._not_found(name, len(ids))
        train, forget, validation, test = parts
        return Sets(train=train, forget=forget, validation=validation, test=test)

    def _not_found(self, name: str, count: int) -> DataError:
        why = (
            f"{self.condition} was found in none of its {count} samples, so the plugin knows none "
            "of them"
        )
        more = "Train the plugin on more pictures"
        fix = "There is nothing to forget" if name == "forget" else more
        return DataError(f"{name} set", why, fix)

    def _captions_seed(self) -> int:
        """Prompts are drawn by the seed of the original, also for models that were retrained with
        another.
        """
        return int(self.record.get("captions_seed", self.record["seed"]))

    def network(self, model: nn.Module) -> nn.Module:
        """The plugin with its base."""
        return Steered(model, self.frame)

    def stored(self, network: nn.Module) -> nn.Module:
        """The plugin alone, without its base."""
        assert isinstance(network, Steered)
        return network.network

    def metrics(self, network: nn.Module, part: NoiseSet) -> dict[str, Any]:
        """Mean loss at fixed noise, with the plugin and without."""
        answers = predict(network, part)
        assert isinstance(answers, LossPredictions) and answers.plain_N is not None
        return {
            "n": len(part),
            "loss": float(answers.loss_N.mean()),
            "loss_without_plugin": float(answers.plain_N.mean()),
        }

    def describe(self, row: dict[str, Any]) -> str:
        """The loss, and the bare base's for comparison, in words."""
        return (
            f"{self.frame.weighting} loss {row['loss']:.4f} ({row['loss_without_plugin']:.4f} "
            "without the plugin)"
        )

    def facts(self) -> dict[str, Any]:
        """The base and the condition."""
        carried = {
            key: self.record[key]
            for key in ("base", "condition", "captions", "parameters", "image_size")
        }
        return {**carried, "captions_seed": self._captions_seed()}

    def check_twin(self, other: Checkpoint) -> None:
        """The base, the condition and the captions must be the same; `CheckpointError` where they
        are not.
        """
        ours, theirs = (
            {
                "another base": _says(record, ("base", "sha256")),
                "another condition": _made_of(record),
                "other captions": _says(record, ("captions",)),
            }
            for record in (self.record, other.record)
        )
        for what in (what for what in ours if ours[what] != theirs[what]):
            why = f"it was trained with {what} than the original"
            fix = "Make it with `unplug forget --method retrain`"
            raise CheckpointError(str(other.path), why, fix)

    def card(self, record: dict[str, Any]) -> str:
        """The card with the base that it fits."""
        return plugin_card(record)

    def title(self, checkpoint: Checkpoint) -> str:
        """The title with its condition, its image size and its base."""
        condition, base = (checkpoint.record[part] for part in ("condition", "base"))
        size = checkpoint.model.config.image_size
        return (
            f"A {condition['kind']} plugin ({size} px in, residuals out) for the diffusion base "
            f"`{base['sha256']:.16}`"
        )

    def processing(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """The picture of a condition in, residuals of the base's encoder out."""
        return {
            "preprocessing": {
                "crop": "centre square",
                "resize": checkpoint.model.config.image_size,
                "scale": "pixel / 255",
                "condition": checkpoint.record["condition"]["kind"],
                "base_sha256": checkpoint.record["base"]["sha256"],
            },
            "postprocessing": {
                "added": "to the UNet's encoder at every step, run once an image",
                "unit": "residuals",
            },
        }

    def footprint(self, network: nn.Module, device: torch.device) -> Footprint:
        """Memory of one pass, measured by two small ones."""
        return footprint_of(
            network,
            lambda count: self.frame.example(count, device),
            4 * self.frame.floats,
            device,
            frozen=self.frame.base.unet,
            measured_at=batch_size_of(self.frame.base),
        )

    def resident(self, samples: int) -> int:
        """Ages and groups: the rest is mapped from disk."""
        return samples * 12

    def predict_artifact(self, artifact: Any, parts: Sequence[NoiseSet]) -> list[Predictions]:
        """The file's residuals, the base's loss with them."""
        given = given_losses(artifact, self.iospec, self.frame, parts, parts[0].device)
        return [
            LossPredictions.of(own_N, part.plain())
            for part, own_N in zip(parts, given, strict=True)
        ]


NEEDED = (
    ("base", "name"),
    ("base", "sha256"),
    ("condition", "kind"),
    ("condition", "settings"),
    ("condition", "identity"),
    ("captions",),
    ("parameters",),
    ("image_size",),
    ("recipe",),
    ("split",),
    ("seed",),
)
"""What a record must say for its plugin to be trained again."""


def _says(record: Any, path: tuple[str, ...]) -> Any:
    """What a record says at a path, as text; empty where it says nothing."""
    for key in path:
        if not isinstance(record, dict) or key not in record:
            return ""
        record = record[key]
    return repr(record)


def _made_of(record: Any) -> dict[str, Any]:
    """What a record says that decides its conditions; other versions of packages draw the same but
    for a few pixels.
    """
    identity = record.get("condition", {}).get("identity", {})
    if not isinstance(identity, dict):
        return {}
    return {key: value for key, value in identity.items() if key != "versions"}


def _check_condition(trained: dict[str, Any], here: dict[str, Any]) -> None:
    """The same settings may name another task file or model here: the plugin would be judged on
    what it never saw.
    """
    before, after = (
        {**made.get("settings", {}), "version": made.get("version")} for made in (trained, here)
    )
    for name in sorted(before | after):
        then, now = before.get(name), after.get(name)
        if then != now:
            why = f"{name} is {now} here and was {then} when the plugin was trained"
            fix = "Use the unplug that trained it"
            if str(then).startswith("sha256:"):
                fix = "Name the same file in the environment"
            raise InputError(f"condition {trained.get('kind')}", why, fix)


def _open_base(checkpoint: Checkpoint, device: torch.device, given: str | None) -> Any:
    name = given or str(checkpoint.record["base"]["name"])
    try:
        base = load_base(name, device=device)
    except CheckpointError as error:
        if given is not None:
            raise
        why = f"the base of plugin {checkpoint.path.name} cannot be opened there ({error.why})"
        raise CheckpointError(name, why, "Pass `base` with the place where it is now") from error
    if base_digest(base) != checkpoint.record["base"]["sha256"]:
        why = (
            f"it is not the base that plugin {checkpoint.path.name} was trained with (weights or "
            "settings differ)"
        )
        raise CheckpointError(name, why, "Pass `base` with the one that it was trained with")
    return base
