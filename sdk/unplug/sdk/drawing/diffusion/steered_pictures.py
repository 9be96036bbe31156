"""Pictures from any diffusers pipeline, one seed a picture, steered by plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from unplug.core import InputError, quiet, settled
from unplug.plugins import load_checkpoint
from unplug.sdk.drawing.conditions import Steering, draw_conditions
from unplug.sdk.drawing.device import GuidanceSchedule, Solver

from .control import CONTROLS
from .guidance import scheduled_guidance
from .load import base_record, image_size_of, is_ours, quick_decoder
from .shipped import (
    OURS,
    USUAL,
    Sampling,
    find_plugin,
    sampling_by_record,
    shipped_folder,
)
from .small import diffusers
from .vae import pictures_at_once

BATCH = 16


def sampling_of(base_name: str) -> Sampling:
    """What suits a base by default, see `sampling_by_record`; by its name."""
    if base_record(base_name):
        return sampling_by_record(shipped_folder(base_name))
    return OURS if is_ours(base_name) else USUAL


def solve_with(pipe: Any, solver: Solver | None) -> None:
    """Gives a pipeline another solver of the same noise levels; None leaves its own.

    Reference:
        Song et al., Denoising Diffusion Implicit Models, 2021 (ddim); Lu et al., DPM-Solver++,
        2022, algorithm 2 (dpm++).
    """
    if solver is not None:
        kinds = {"ddim": "DDIMScheduler", "dpm++": "DPMSolverMultistepScheduler"}
        with quiet():
            pipe.scheduler = getattr(diffusers(), kinds[solver]).from_config(pipe.scheduler.config)


def generate(
    pipe: Any, prompts: Sequence[str], *, progress: Any = None, **how: Any
) -> list[Image.Image]:
    """One picture a prompt; the same seed starts from the same noise in every pipeline and batch
    size.

    Args:
        pipe: a diffusers pipeline for text to image, with or without a control.
        prompts: B prompts.
        progress: a tqdm bar that counts pictures, or None.
        how: see `draw_latents`.
    """
    pictures: list[Image.Image] = []
    for latent_Bchw in draw_latents(pipe, prompts, **how):
        pictures += decode(pipe, latent_Bchw)
        if progress is not None:
            progress.update(len(latent_Bchw))
    return pictures


@torch.no_grad()
def draw_latents(
    pipe: Any,
    prompts: Sequence[str],
    *,
    seeds: Sequence[int],
    size: int,
    steps: int = OURS.steps,
    guidance: float = OURS.guidance,
    solver: Solver | None = None,
    schedule: GuidanceSchedule = "constant",
    negative: str = "",
    batch_size: int = BATCH,
    shared: Mapping[str, Any] | None = None,
    **extra: Any,
) -> Iterator[Tensor]:
    """The scaled latents of the pictures of some prompts, a batch (b, c, h, w) at a time.

    Args:
        pipe: a diffusers pipeline for text to image, with or without a control.
        prompts: B prompts.
        seeds: B seeds.
        size: side in pixels.
        steps: the number of scheduler steps, at least 1.
        guidance: scale of classifier-free guidance; 1 turns it off.
        solver: see `solve_with`.
        schedule: the schedule of guidance, see `scheduled_guidance`.
        negative: the text to steer away from.
        batch_size: pictures at once.
        shared: more arguments of the pipeline, the same for every batch.
        extra: more arguments of the pipeline; a list or tensor of B values is cut into the
            same batches.
    """
    pipe.set_progress_bar_config(disable=True)
    solve_with(pipe, solver)
    for start in range(0, len(prompts), batch_size):
        part = slice(start, start + batch_size)
        arguments = dict(shared or {}) | {
            key: value[part] if isinstance(value, list | Tensor) else value
            for key, value in extra.items()
        }
        noise = [torch.Generator().manual_seed(seed) for seed in seeds[part]]
        with quiet(), scheduled_guidance(pipe, guidance, schedule):
            latent_Bchw: Tensor = pipe(
                list(prompts[part]),
                height=size,
                width=size,
                num_inference_steps=steps,
                guidance_scale=guidance,
                negative_prompt=[negative] * len(noise) if guidance > 1 else None,
                generator=noise,
                output_type="latent",
                **arguments,
            ).images
        yield latent_Bchw


def decoded(pipe: Any, latent_Bchw: Tensor) -> Tensor:
    """Images (B, 3, H, W) in about [-1, 1] of latents that are not scaled, by the decoder that draws."""
    quick = quick_decoder(pipe)
    image_BCHW: Tensor = (
        pipe.vae.decode(latent_Bchw).sample if quick is None else quick.decode(latent_Bchw)
    )
    return image_BCHW


@torch.no_grad()
def decode(pipe: Any, latent_Bchw: Tensor) -> list[Image.Image]:
    """Pictures of scaled latents: diffusers' pipelines each round in their own way, which tells
    equal latents apart.
    """
    side = latent_Bchw.shape[-1] * 2 ** (len(pipe.vae.config.block_out_channels) - 1)
    pictures: list[Image.Image] = []
    for part_Bchw in latent_Bchw.split(pictures_at_once(side)):
        decoded_BCHW = decoded(pipe, part_Bchw / pipe.vae.config.scaling_factor)
        pictures += pipe.image_processor.postprocess(decoded_BCHW, output_type="pil")
    return pictures


MAX_PICTURES = 1024


def load_plugin(name: str) -> Any:
    """A plugin by the name that it ships under, or from its folder; see `find_plugin`.

    Raises:
        CheckpointError: no such plugin.
    """
    return load_checkpoint(find_plugin(name), expect="plugin").model


@settled
def draw_pictures(
    base: Any,
    prompts: Sequence[str],
    steerings: Sequence[Steering] = (),
    *,
    seeds: Sequence[int],
    size: int | None = None,
    steps: int = OURS.steps,
    guidance: float = OURS.guidance,
    solver: Solver | None = None,
    schedule: GuidanceSchedule = "constant",
    negative: str = "",
    progress: Any = None,
    latents: Tensor | None = None,
) -> tuple[list[Image.Image], list[Image.Image]]:
    """Pictures of some prompts, and the conditions that they follow.

    Args:
        base: see `load_base`.
        prompts: B prompts.
        steerings: plugins with their pictures; the bare base if there are none.
        seeds: B seeds.
        size: side in pixels, a multiple of 8; default: what the base was trained for.
        steps, guidance, solver, schedule, negative, progress: see `generate`.
        latents: the noise (B, C, h, w) to start from; None draws torch's own of the seeds.

    Raises:
        InputError: a plugin that was made for another base (says which channels differ), or a size
            that does not divide.
    """
    size = size or image_size_of(base)
    how: dict[str, Any] = {
        "steps": steps,
        "guidance": guidance,
        "solver": solver,
        "schedule": schedule,
        "negative": negative,
        "progress": progress,
        **({} if latents is None else {"latents": latents}),
    }
    if len(prompts) > MAX_PICTURES:
        raise InputError(
            f"{len(prompts)} pictures", "too many for one call", f"Ask for {MAX_PICTURES} at most"
        )
    if not steerings:
        _check_size(size, 8)
        return generate(base, prompts, seeds=seeds, size=size, **how), []
    control = CONTROLS.get("plugin")()
    # Not diffusers' own `to`, which warns for no reason.
    plugins: list[Any] = [
        nn.Module.to(load_plugin(item.plugin), base.device, base.unet.dtype) for item in steerings
    ]
    _check_size(size, max(plugin.total_downscale_factor for plugin in plugins))
    drawn = draw_conditions(steerings, [plugin.config.condition for plugin in plugins], size)
    conditions = [Image.fromarray(condition_HWC) for condition_HWC in drawn]
    strengths = [item.strength for item in steerings]
    one = len(plugins) == 1
    pipe = control.pipeline(base, plugins[0] if one else plugins)
    # diffusers wants one condition a picture for a single adapter, and one an adapter for several:
    # those go singly.
    pictures = generate(
        pipe,
        prompts,
        seeds=seeds,
        size=size,
        **how,
        **(
            {"image": conditions * len(prompts)}
            if one
            else {"batch_size": 1, "shared": {"image": conditions}}
        ),
        adapter_conditioning_scale=strengths[0] if one else tuple(strengths),
    )
    return pictures, conditions


def _check_size(size: int, multiple: int) -> None:
    if size % multiple or not 8 <= size <= 4096:
        raise InputError(
            f"size {size}",
            f"no multiple of {multiple} from 8 to 4096",
            f"Use {max(multiple, round(size / multiple) * multiple)}",
        )


def draw_each(
    base: Any,
    prompts: Sequence[str],
    steerings: Sequence[Steering],
    *,
    seeds: Sequence[int],
    **how: Any,
) -> list[Image.Image]:
    """Pictures that follow one plugin, each another picture.

    Args:
        base: see `load_base`.
        prompts: B prompts.
        steerings: B pictures, all of one plugin at full strength.
        seeds: B seeds.
        how: see `draw_latents`.

    Raises:
        InputError: a plugin that was made for another base.
    """
    (name,) = {item.plugin for item in steerings}
    plugin: Any = nn.Module.to(load_plugin(name), base.device, base.unet.dtype)
    size = image_size_of(base)
    drawn = draw_conditions(steerings, [plugin.config.condition] * len(steerings), size)
    conditions = [Image.fromarray(condition_HWC) for condition_HWC in drawn]
    pipe = CONTROLS.get("plugin")().pipeline(base, plugin)
    return generate(pipe, prompts, seeds=seeds, size=size, image=conditions, **how)
