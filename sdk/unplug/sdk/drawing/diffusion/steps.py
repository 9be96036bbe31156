"""The training loop of diffusion networks: steps of drawn batches, an averaged copy, a state every
few minutes.

Step s on process p draws from the generator of (seed, s, p): a run that was killed goes on to the
same weights, on the same machine (a GPU's sums have no fixed order). A step's samples are divided
among the processes, so that one process, which retrains, takes steps of the same size.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError, MissingExtraError, TrainingError, progress
from unplug.sdk.learning.training import (
    StateFile,
    decay_groups,
    fingerprint,
    held_signals,
    kept_heap,
    seeded,
    update_average,
)

from .recipe import Precision, StepRecipe, share_of

WAIT = timedelta(hours=24)
"""How long the others wait while the first one fills the cache."""


def processes(device: torch.device) -> Any:
    """accelerate's ``PartialState``; its ``device`` is this process's own.

    Args:
        device: a processor, or the GPU (of several processes: each takes that of its rank).

    Raises:
        MissingExtraError: accelerate is not installed.
    """
    try:
        from accelerate import PartialState
        from accelerate.state import AcceleratorState
    except ImportError as error:
        raise MissingExtraError("accelerate", "diffusion") from error
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # accelerate takes the current one
    state = PartialState(cpu=device.type == "cpu", timeout=WAIT)
    if state.device.type != device.type:  # it keeps what was first asked for
        AcceleratorState._reset_state(reset_partial_state=True)
        state = PartialState(cpu=device.type == "cpu", timeout=WAIT)
    return state


LOWER = "Lower `lr` or check the data"


def check_finite(model: nn.Module, when: str) -> None:
    """A step's loss was taken before its update, which can still break the weights."""
    for name, value in model.state_dict().items():
        if not bool(value.isfinite().all()):
            raise TrainingError("training", f"the weights {name} are NaN or infinite {when}", LOWER)


@torch.no_grad()
def round_to_half(model: nn.Module) -> None:
    """Rounds weights to what float16 holds; they stay float32.

    Raises:
        TrainingError: one of them is beyond float16.
    """
    for value in model.state_dict().values():
        if value.is_floating_point():
            value.copy_(value.half())
    check_finite(model, "in float16")


SAVE_EVERY_S = 120.0
LOG_EVERY = 50
"""Steps between two rows of the history, each the mean loss since the last."""


def state_at(
    path: Path | None, kind: str, recipe: StepRecipe, seed: int, facts: Mapping[str, Any]
) -> StateFile | None:
    """Where a run keeps its state, marked by all that decides its weights; None keeps none.

    Args:
        path: the path of the file.
        kind: the kind of the network.
        recipe, seed: the recipe and seed of the run.
        facts: further facts that decide the weights.
    """
    if path is None:
        return None
    marks = {"kind": kind, "recipe": recipe.to_dict(), "seed": seed, "torch": torch.__version__}
    return StateFile(path=path, fingerprint=fingerprint(**marks, **facts))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A finished training.

    Args:
        model: the averaged weights, in eval mode.
        history: rows of ``step``, ``loss``, ``lr``, ``wall_s``.
        wall_s: seconds over all parts of the run, also of those before a kill.
        samples: seen over all processes.
        processes: the number of processes that shared the work.
    """

    model: Any
    history: tuple[dict[str, Any], ...]
    wall_s: float
    samples: int
    processes: int = 1


def pick_precision(precision: Precision, device: torch.device) -> str:
    """accelerate's name of the precision: "auto" is bf16 on GPUs and processors that multiply it in
    hardware.
    """
    if precision != "auto":
        return "no" if precision == "fp32" else precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if torch.cpu._is_amx_tile_supported() else "no"


def rate(step: int, recipe: StepRecipe) -> float:
    """Learning rate of a step: linear up over the warm-up, then a cosine down to a hundredth of the
    peak.

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
        raise InputError(
            "precision 'fp16'", "it needs a GPU", "Use bf16 or fp32, or another `device`"
        )
    processes(device)
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state()  # it refuses a second training in another precision
    return Accelerator(mixed_precision=precision, cpu=device.type == "cpu")


def synced(model: nn.Module, processes: int, device: torch.device) -> nn.Module:
    """The network with batch norms that count over all GPUs: each sees its share of a step alone.
    gloo on a CPU has none.
    """
    return (
        nn.SyncBatchNorm.convert_sync_batchnorm(model)
        if processes > 1 and device.type == "cuda"
        else model
    )


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
    parts: int = 1,
    zero_rate: float = 1.0,
) -> Trained:
    """Trains a module whose forward is its loss; Ctrl-C and SIGTERM take effect between two steps,
    after a state.

    Args:
        model: takes what `draw` returns as keyword arguments and a generator, and returns the mean
            loss.
        draw: (generator, batch size) to the keyword arguments of one pass.
        recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        state: the file for the run's state; an unfinished run there is continued, on the same kind
            of device, in the same precision and with as many processes.
        on_sample: called with the averaged module and the step, every `sample_every` steps and at
            the end.
        sample_every: 0 is only at the end.
        show: progress bar.
        label: the text in front of the bar.
        parts: passes in which each process takes its share of a step.
        zero_rate: factor on the learning rate of kernels that start at zero.

    Returns:
        The averaged module and the history.

    Raises:
        TrainingError: the loss, or a weight at the end, is NaN or infinite.
        InputError: a precision that the device does not have, or a batch that does not divide.
    """
    accelerator = make_accelerator(recipe, device)
    share = share_of(recipe.batch_size, processes=accelerator.num_processes, parts=parts)
    run = _StepsRun(model, recipe, accelerator, state, zero_rate)
    first = accelerator.is_main_process
    size = recipe.batch_size
    bar = progress(
        total=recipe.steps * size, done=run.step * size, label=label, show=show and first
    )
    with bar, kept_heap(accelerator.device), held_signals() as stop:
        while run.step < recipe.steps:
            run.advance(draw, seed, [share] * parts)
            bar.update(size)
            last, stopped = run.step == recipe.steps, bool(stop)
            if len(run.losses) == LOG_EVERY or last:
                bar.set_postfix(loss=f"{run.log():.4f}", refresh=False)
            if first:
                run.save(always=last or stopped)
                if on_sample is not None and (last or _due(run.step, sample_every)):
                    on_sample(run.average.eval(), run.step)
            if stopped:
                stop.deliver()
    accelerator.wait_for_everyone()
    check_finite(run.average, f"after step {recipe.steps}")
    return Trained(
        model=run.average.eval(),
        history=tuple(run.history),
        wall_s=run.wall_s,
        samples=recipe.steps * size,
        processes=accelerator.num_processes,
    )


class _StepsRun:
    """A training in progress: networks, optimizer, how far it is, and the losses since the last row
    of the history.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: StepRecipe,
        accelerator: Any,
        state: StateFile | None,
        zero_rate: float,
    ) -> None:
        self.recipe, self.accelerator = recipe, accelerator
        model.to(accelerator.device).train()
        self.average = copy.deepcopy(model).requires_grad_(False)
        self.model = synced(model, accelerator.num_processes, accelerator.device)
        self.trained = [
            parameter for parameter in self.model.parameters() if parameter.requires_grad
        ]
        groups = decay_groups(self.model, recipe.weight_decay, zero_rate=zero_rate)
        self.optimizer = torch.optim.AdamW(groups, lr=recipe.lr, betas=(0.9, 0.99), fused=True)
        self.scaler = getattr(accelerator, "scaler", None)
        self.step, self.history, self.losses, self.before = (
            0,
            list[dict[str, Any]](),
            list[Tensor](),
            0.0,
        )
        self.state = None if state is None else replace(state, fingerprint=self._marks(state))
        self._resume()
        self.wrapped, self.stepper = accelerator.prepare(self.model, self.optimizer)
        self.started = self.saved = time.perf_counter()

    def _marks(self, state: StateFile) -> str:
        device = self.accelerator.device
        return fingerprint(
            run=state.fingerprint,
            device=device.type,
            processes=self.accelerator.num_processes,
            precision=pick_precision(self.recipe.precision, device),
        )

    def _resume(self) -> None:
        kept = (
            None
            if self.state is None
            else self.state.load(self.model, self.average, self.optimizer)
        )
        if kept is not None:
            self.step, self.history, self.before = (
                kept["step"],
                kept["history"],
                float(kept["wall_s"]),
            )
            self.losses = [
                torch.tensor(loss, device=self.accelerator.device) for loss in kept["losses"]
            ]
            if self.scaler is not None:
                self.scaler.load_state_dict(kept["scaler"])

    @property
    def wall_s(self) -> float:
        return self.before + time.perf_counter() - self.started

    def advance(
        self, draw: Callable[[torch.Generator, int], Any], seed: int, shares: list[int]
    ) -> None:
        """One step of the optimizer; gradients of several shares are averaged, and sent round with
        the last one.
        """
        accelerator, losses = self.accelerator, list[Tensor]()
        with seeded(seed, self.step, accelerator.process_index) as generator:
            for group in self.optimizer.param_groups:
                group["lr"] = rate(self.step, self.recipe) * group.get("factor", 1.0)
            self.stepper.zero_grad(set_to_none=True)
            for number, share in enumerate(shares, 1):
                with (
                    contextlib.nullcontext()
                    if number == len(shares)
                    else accelerator.no_sync(self.wrapped)
                ):
                    loss: Tensor = self.wrapped(**draw(generator, share), generator=generator)
                    accelerator.backward(loss / len(shares))
                losses.append(loss.detach().float())
            accelerator.clip_grad_norm_(self.trained, self.recipe.clip)
            self.stepper.step()
        update_average(self.average, self.model, self.recipe.ema, self.step)
        self.losses.append(torch.stack(losses).mean())
        self.step += 1

    def log(self) -> float:
        """Adds a row to the history; returns its loss."""
        loss = float(self._checked().mean())
        lr = self.optimizer.param_groups[0]["lr"]
        self.history.append(
            {"step": self.step, "loss": loss, "lr": lr, "wall_s": round(self.wall_s, 1)}
        )
        self.losses = []
        return loss

    def _checked(self) -> Tensor:
        loss_S = torch.stack(self.losses).cpu()
        broken = (~loss_S.isfinite()).nonzero().flatten().tolist()
        if broken:
            first = self.step - len(loss_S) + 1 + int(broken[0])
            raise TrainingError(
                "training", f"the loss is {float(loss_S[broken[0]])} at step {first}", LOWER
            )
        return loss_S

    def save(self, *, always: bool) -> None:
        """Writes the state where it is due."""
        if self.state is None or not (always or time.perf_counter() - self.saved > SAVE_EVERY_S):
            return
        progress = {
            "step": self.step,
            "wall_s": self.wall_s,
            "history": self.history,
            "losses": self._checked().tolist() if self.losses else [],
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
        }
        self.state.save(self.model, self.average, self.optimizer, progress)
        self.saved = time.perf_counter()


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
