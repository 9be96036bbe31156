"""The loop: tokens, text states, noise, steps, picture. What the apps port; everything it calls is
a function of named arrays.

Shapes: H and W of the picture, h and w of the latent, C its channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unplug.core import Array, DataError, InputError
from unplug.sdk.drawing.conditions import Steering, check_condition, scaled

from .noise import latent
from .pipeline import LORA, NEGATIVE, Pipeline
from .sampler import Solver, advance, guided, sampling_table
from .tokenizer import Encoded

Network = Callable[[Mapping[str, Array]], dict[str, Array]]
"""One part, opened: named arrays in, named arrays out, images channels first."""
Watch = Callable[[int, int, Array], None]
"""Told of (steps done, steps in all, the latent after that step)."""
MAX_GUIDANCE = 50.0


@dataclass(frozen=True, kw_only=True)
class Words:
    """A prompt to draw.

    Args:
        prompt: the text to draw.
        negative: the text to steer away from; takes a guidance above 1.
        steps, guidance, solver: default: the pipeline's.
        encoded: prompt and negative as the pipeline's tokenizer reads them, if the caller has read
            them already.
    """

    prompt: str
    negative: str = ""
    steps: int | None = None
    guidance: float | None = None
    solver: Solver | None = None
    encoded: tuple[Encoded, Encoded] | None = None

    def read(self, pipeline: Pipeline) -> tuple[Encoded, Encoded]:
        """Prompt and negative as token ids."""
        read = pipeline.tokenizer.encode
        return self.encoded or (read(self.prompt), read(self.negative))

    def settled(self, pipeline: Pipeline, variant: str | None = None) -> Words:
        """The words with everything said and read: what is left open is the variant's, or the
        pipeline's.
        """
        usual = pipeline.defaults_of(variant)
        return replace(
            self,
            steps=usual.steps if self.steps is None else self.steps,
            guidance=usual.guidance if self.guidance is None else self.guidance,
            solver=self.solver or usual.solver,
            encoded=self.read(pipeline),
        )


@dataclass(frozen=True, kw_only=True)
class DevicePicture:
    """What the loop made.

    Args:
        image_HWC: the picture, RGB, 0 to 255.
        decoded: the same as the decoder gave it, (1, 3, H, W) from 0 to 1.
        latent: the latent after the last step, (1, C, h, w).
    """

    image_HWC: NDArray[np.uint8]
    decoded: NDArray[np.float32]
    latent: NDArray[np.float32]


def generate(
    pipeline: Pipeline,
    networks: Mapping[str, Network],
    words: Words,
    *,
    seed: int = 0,
    steerings: Sequence[Steering] = (),
    lora_RK: Array | None = None,
    watch: Watch | None = None,
) -> DevicePicture:
    """Draws one picture: the same words, seed and conditions are the same picture in every
    language, but for rounding.

    Args:
        pipeline: a pipeline from `load_pipeline`.
        networks: part name to network; of plugins those that steer.
        words: the prompt and its settings.
        seed: the seed of the first latent, 0 to 2^64 - 1.
        steerings: plugins with their drawn conditions, as arrays of the pipeline's `image_size`;
            their residuals add up.
        lora_RK: low-rank updates of the UNet, see `pack_loras`; None is the bare base.
        watch: told of every step.

    Raises:
        InputError: a number out of range, a plugin that the pipeline does not have, or a negative
            without guidance.
        DataError: a condition of another size, or of one colour.
    """
    words = words.settled(pipeline)
    guidance = _guidance(pipeline, words)
    assert words.steps is not None and words.solver is not None and words.encoded is not None
    table = sampling_table(pipeline.schedule, words.steps, words.solver)
    residuals = residuals_of(pipeline, networks, steerings) | lora_input(pipeline, lora_RK)
    names = ("encoder_hidden_states", NEGATIVE)[: 1 + pipeline.guided]
    asked = {
        name: text_state(networks["text_encoder"], encoded)
        for name, encoded in zip(names, words.encoded, strict=False)
    }
    z_1Chw = latent(seed, pipeline.latent_shape)
    before = np.zeros_like(z_1Chw)
    for step, time in enumerate(table.timestep_S):
        answer = networks["unet"](
            {"sample": z_1Chw, "timestep": np.array([time], np.float32), **asked, **residuals}
        )
        prediction = answer["noise_pred"]
        if pipeline.guided:
            scale = table.scale(step, guidance)
            prediction = guided(prediction, answer["noise_pred_negative"], scale)
        z_1Chw, before = advance(table, step, z_1Chw, prediction, before)
        if watch is not None:
            watch(step + 1, len(table.timestep_S), z_1Chw)
    decoded = networks["decoder"]({"latents": z_1Chw})["image"]
    return DevicePicture(image_HWC=to_pixels(decoded), decoded=decoded, latent=z_1Chw)


def _guidance(pipeline: Pipeline, words: Words) -> float:
    """The scale of settled words; `InputError` where the pipeline cannot guide so."""
    guidance = words.guidance
    assert guidance is not None
    if not 1.0 <= guidance <= MAX_GUIDANCE:
        raise InputError(
            f"guidance {guidance:g}", "out of range", f"Use 1 (none) to {MAX_GUIDANCE:g}"
        )
    if guidance != 1.0 and not pipeline.guided:
        why = f"{pipeline.name} draws without: its unet answers for the prompt alone"
        raise InputError(f"guidance {guidance:g}", why, "Leave it out")
    if words.negative and guidance == 1.0:
        fix = "Leave it out, or raise the guidance above 1" if pipeline.guided else "Leave it out"
        raise InputError("negative prompt", "without guidance it has no effect", fix)
    return guidance


def text_state(encoder: Network, encoded: Encoded) -> Array:
    """Hidden states (1, T, D) of token ids."""
    return encoder({"input_ids": np.array([encoded.ids], np.int32)})["hidden_states"]


def to_pixels(image_13HW: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Numbers from 0 to 1 as pixels (H, W, 3): round(255 x), halves to the even neighbour, cut off
    at both ends.

    Example:
        >>> to_pixels(np.full((1, 3, 1, 1), 0.5, np.float32)).tolist()
        [[[128, 128, 128]]]
    """
    scaled_HW3 = np.rint(image_13HW[0].transpose(1, 2, 0) * np.float32(255.0))
    return np.asarray(np.nan_to_num(scaled_HW3).clip(0, 255), np.uint8)


def residuals_of(
    pipeline: Pipeline, networks: Mapping[str, Network], steerings: Sequence[Steering]
) -> dict[str, Array]:
    """Each residual input of the UNet: the plugins' outputs times their strengths, added up; zeros
    without plugins.
    """
    specs = {item.name: item for item in pipeline.unet.iospec.images_in("NCHW").inputs}
    total: dict[str, Array] = {
        name: np.zeros(specs[name].shape, np.float32) for name in pipeline.residuals
    }
    for steering in steerings:
        if steering.plugin not in pipeline.plugins:
            known = ", ".join(pipeline.plugins) or "none: export the base with one"
            raise InputError(
                f"plugin {steering.plugin!r}",
                "the pipeline has none of this name",
                f"It has {known}",
            )
        network = networks[f"plugins.{steering.plugin}"]
        made = network({"condition": condition_input(pipeline, steering)})
        for name in pipeline.residuals:
            total[name] = total[name] + np.float32(steering.strength) * made[name]
    return total


def lora_input(pipeline: Pipeline, lora_RK: Array | None) -> dict[str, Array]:
    """The UNet's low-rank input by name, zeros where no update is given; empty for a UNet without
    slots.

    Raises:
        InputError: an update for a UNet without slots, or one of another shape.
    """
    if pipeline.lora is None:
        if lora_RK is not None:
            fix = "`unplug export --lora-slots` makes some, or leave `loras` out"
            raise InputError(
                "LoRA weights", f"{pipeline.name} was exported without slots for them", fix
            )
        return {}
    shape = (pipeline.lora.rank, pipeline.lora.width)
    given = np.zeros(shape, np.float32) if lora_RK is None else np.asarray(lora_RK, np.float32)
    if given.shape != shape:
        raise InputError(
            f"low-rank updates of shape {given.shape}",
            f"{pipeline.name} takes {shape}",
            "Use `pack_loras`",
        )
    return {LORA: given[None]}


def condition_input(pipeline: Pipeline, steering: Steering) -> NDArray[np.float32]:
    """A drawn condition as its plugin takes it: (1, 3, H, W), in the range of its input."""
    what, side, pixels_HWC = f"condition of {steering.plugin}", pipeline.image_size, steering.image
    if not isinstance(pixels_HWC, np.ndarray):
        raise InputError(what, "it is a file", "Give what `draw_conditions` made of it")
    check_condition(pixels_HWC, what)
    if pixels_HWC.shape != (side, side, 3):
        why = f"its shape is {pixels_HWC.shape}"
        raise DataError(what, why, f"Give a picture of {side} by {side} pixels")
    (spec,) = pipeline.plugins[steering.plugin].part.iospec.images_in("NCHW").inputs
    return scaled(pixels_HWC[None], spec)
