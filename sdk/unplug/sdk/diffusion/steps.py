"""The training loop of diffusion networks: steps of drawn batches, an averaged copy, a state every few minutes.

Step s on process p draws from the generator of (seed, s, p): a run that was killed goes on to the same weights.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from unplug.plugins.errors import InputError, TrainingError
from unplug.sdk.train.loop import decay_groups, seeded, update_average
from unplug.sdk.train.state import StateFile

from .processes import processes
from .recipe import Precision, StepRecipe

SAVE_EVERY_S = 120.0
LOG_EVERY = 50
"""Steps between two rows of the history, each the mean loss since the last."""
LOWER = "Lower --lr or check the data"


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A finished training.

    Args:
        model: the averaged weights, in eval mode.
        history: rows of ``step``, ``loss``, ``lr``, ``wall_s``.
        wall_s: seconds over all parts of the run, also of those before a kill.
        samples: seen over all processes.
    """

    model: Any
    history: tuple[dict[str, Any], ...]
    wall_s: float
    samples: int


def pick_precision(precision: Precision, device: torch.device) -> str:
    """accelerate's name of the precision: "auto" is bf16 on GPUs and processors that multiply it in hardware."""
    if precision != "auto":
        return "no" if precision == "fp32" else precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if torch.cpu._is_amx_tile_supported() else "no"


def rate(step: int, recipe: StepRecipe) -> float:
    """Learning rate of a step: linear up over the warm-up, then a cosine down to a hundredth of the peak.

    Example:
        >>> [round(rate(step, StepRecipe(steps=4, warmup=2, lr=1.0)), 3) for step in range(4)]
        [0.5, 1.0, 1.0, 0.505]
    """
    if step < recipe.warmup:
        return recipe.lr * (step + 1) / recipe.warmup
    progress = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return recipe.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


def make_accelerator(recipe: StepRecipe, device: torch.device) -> Any:
    """accelerate's `Accelerator`: one process here, several under ``accelerate launch``."""
    precision = pick_precision(recipe.precision, device)
    if precision == "fp16" and device.type == "cpu":
        raise InputError("precision 'fp16'", "it needs a GPU", "Use bf16 or fp32, or another --device")
    processes(device)
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state()  # it refuses a second training in another precision
    return Accelerator(mixed_precision=precision, cpu=device.type == "cpu")


def train_steps(
    model: nn.Module,
    draw: Callable[[torch.Generator, int], Any],
    recipe: StepRecipe,
    *,
    seed: int,
    device: torch.device,
    state: StateFile | None = None,
    on_sample: Callable[[Any, int], None] | None = None,
    sample_every: int = 0,
    show: bool = True,
    label: str = "train",
) -> Trained:
    """Trains a module whose forward is its loss.

    Args:
        model: takes what `draw` returns as keyword arguments and a generator, and returns the mean loss.
        draw: (generator, batch size) to the keyword arguments of one step.
        recipe: how.
        seed: of everything random.
        device: where to compute.
        state: where the state of the run is kept; an unfinished one there is continued.
        on_sample: called with the averaged module and the step, every `sample_every` steps and at the end.
        sample_every: 0 is only at the end.
        show: progress bar.
        label: in front of the bar.

    Returns:
        The averaged module and the history.

    Raises:
        TrainingError: the loss, or a weight at the end, is NaN or infinite.
        InputError: a precision that the device does not have.
    """
    accelerator = make_accelerator(recipe, device)
    model.to(accelerator.device).train()
    average = copy.deepcopy(model).requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(decay_groups(model, recipe.weight_decay), lr=recipe.lr, betas=(0.9, 0.99), fused=True)
    progress: dict[str, Any] = {"step": 0, "wall_s": 0.0, "history": []}
    if state is not None and (found := state.load(model, average, optimizer)) is not None:
        progress = found
    wrapped, stepper = accelerator.prepare(model, optimizer)
    show = show and accelerator.is_main_process
    started = saved = time.perf_counter()
    before, losses = float(progress["wall_s"]), []
    with tqdm(total=recipe.steps, initial=progress["step"], desc=label, unit="step", disable=not show, leave=False) as bar:
        for step in range(progress["step"], recipe.steps):
            with seeded(seed, step, accelerator.process_index) as generator:
                for group in optimizer.param_groups:
                    group["lr"] = rate(step, recipe)
                loss: Tensor = wrapped(**draw(generator, recipe.batch_size), generator=generator)
                stepper.zero_grad(set_to_none=True)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(trained, recipe.clip)
                stepper.step()
            update_average(average, model, recipe.ema, step)
            losses.append(loss.detach())
            bar.update(1)
            now, last = time.perf_counter(), step + 1 == recipe.steps
            if len(losses) == LOG_EVERY or last:
                row = _row(step + 1, losses, optimizer, before + now - started)
                progress["history"].append(row)
                bar.set_postfix(loss=f"{row['loss']:.4f}")
                losses = []
            progress |= {"step": step + 1, "wall_s": before + now - started}
            if state is not None and accelerator.is_main_process and not losses and (now - saved > SAVE_EVERY_S or last):
                state.save(model, average, optimizer, progress)
                saved = time.perf_counter()
            if on_sample is not None and accelerator.is_main_process and (last or _due(step + 1, sample_every)):
                on_sample(average.eval(), step + 1)
    accelerator.wait_for_everyone()
    _check_weights(average, recipe.steps)
    return Trained(
        model=average.eval(),
        history=tuple(progress["history"]),
        wall_s=float(progress["wall_s"]),
        samples=recipe.steps * recipe.batch_size * accelerator.num_processes,
    )


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _row(step: int, losses: list[Tensor], optimizer: torch.optim.Optimizer, wall_s: float) -> dict[str, Any]:
    loss_S = torch.stack(losses).float().cpu()
    broken = (~loss_S.isfinite()).nonzero().flatten().tolist()
    if broken:
        first = step - len(losses) + 1 + int(broken[0])
        raise TrainingError("training", f"the loss is {float(loss_S[broken[0]])} at step {first}", LOWER)
    lr = optimizer.param_groups[0]["lr"]
    return {"step": step, "loss": float(loss_S.mean()), "lr": lr, "wall_s": round(wall_s, 1)}


def _check_weights(average: nn.Module, step: int) -> None:
    """The last step's loss was taken before its update, which can still break the weights."""
    for name, value in average.state_dict().items():
        if not bool(value.isfinite().all()):
            raise TrainingError("training", f"the weights {name} are NaN or infinite after step {step}", LOWER)
