"""The pieces of an image's time that `benchmarks.overhead` measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks.overhead.cold import Clocked, Cold, InSitu
from benchmarks.overhead.names import ADAPTERS, BARE, CONTROLNET, PLUGIN, RESIDUALS
from benchmarks.overhead.parts import Adapter, Base, Control, add, clones


@dataclass(frozen=True, kw_only=True)
class Work:
    """One piece.

    Args:
        part: "step", "decode", "once", "clone", "add", "network" or "whole".
        control: what steers the base in it.
        guidance: whether the batch is doubled; None where that changes nothing.
        run: does it `units` times; the names and seconds of pieces inside it that it timed itself,
            or anything else.
        steps: of a whole image.
        short: repeated within a round.
        cold: caches are overwritten before it.
    """

    part: str
    control: str
    guidance: bool | None
    run: Callable[[], object]
    units: int = 1
    steps: int | None = None
    short: bool = False
    cold: bool = False


@torch.no_grad()
def residual_shapes(base: Base, controls: dict[str, Control]) -> list[torch.Size]:
    """Shapes of the residuals with the batch doubled; they must be those of every adapter."""
    shapes_by_name = {
        name: [item.shape for item in controls[name].once(base.condition_1CHW, True)]
        for name in ADAPTERS
    }
    if any(shapes != shapes_by_name[PLUGIN] for shapes in shapes_by_name.values()):
        raise ValueError(f"the adapters differ in shapes: {shapes_by_name}")
    return shapes_by_name[PLUGIN]


def pieces(base: Base, controls: dict[str, Control], cold: Cold) -> list[Work]:
    """What a control adds, each piece by itself: what runs once an image, and what every step has
    more.
    """
    works = [
        Work(
            part="decode", control=BARE, guidance=None, run=partial(base.decode, base.latents_1CHW)
        )
    ]
    t, in_place_L = _middle(base), base.in_place()
    for guidance in (True, False):
        batch = 1 + guidance
        for name in (CONTROLNET, *ADAPTERS):
            once = partial(controls[name].once, base.condition_1CHW, guidance)
            works.append(
                Work(part="once", control=name, guidance=guidance, run=once, short=True, cold=True)
            )
        run = _network(base, controls[CONTROLNET], t, guidance)
        works += [
            Work(
                part="clone",
                control=RESIDUALS,
                guidance=guidance,
                run=partial(cold.clone, batch),
                units=cold.copies,
                short=True,
            ),
            Work(
                part="add",
                control=RESIDUALS,
                guidance=guidance,
                run=partial(cold.add, batch, in_place_L),
                units=cold.copies,
                short=True,
            ),
            Work(part="network", control=CONTROLNET, guidance=guidance, run=run),
        ]
    return works


def _network(base: Base, control: Control, t: Tensor, guidance: bool) -> Callable[[], object]:
    """A ControlNet at one step, and the additions of what it returns."""
    state = control.once(base.condition_1CHW, guidance)
    latents_BCHW, text_BTC = base.latents_1CHW.repeat(1 + guidance, 1, 1, 1), base.text(guidance)
    hidden: list[Tensor] = []

    def run() -> None:
        down, mid = control.each_step(state, latents_BCHW, t, text_BTC).values()
        if not hidden:  # the first, discarded round
            hidden.extend(clones([*down, mid]))
        add(hidden, [*down, mid], [False] * len(hidden))

    return run


def single_steps(base: Base, controls: dict[str, Control], *, check: bool) -> list[Work]:
    """One step of the bare base; with `check` also one with residuals and one with the ControlNet."""
    t, works = _middle(base), []
    for guidance in (True, False):
        for name in (BARE, RESIDUALS, CONTROLNET) if check else (BARE,):
            control = controls[PLUGIN if name == RESIDUALS else name]
            run = _step(base, control, t, guidance)
            if (
                name == RESIDUALS
                and isinstance(control, Adapter)
                and base.latents_1CHW.device.type == "cpu"
            ):
                run = _in_situ(base, InSitu(control), t, guidance)
            works.append(Work(part="step", control=name, guidance=guidance, run=run))
    return works


def _step(base: Base, control: Control, t: Tensor, guidance: bool) -> Callable[[], object]:
    state = control.once(base.condition_1CHW, guidance)
    return partial(base.step, control, state, base.latents_1CHW, t, guidance)


def _in_situ(
    base: Base, control: InSitu, t: Tensor, guidance: bool
) -> Callable[[], dict[str, float]]:
    step = _step(base, control, t, guidance)

    def run() -> dict[str, float]:
        step()
        return {"clone in situ": control.clone_s, "add in situ": Clocked.spent}

    return run


def whole_images(base: Base, controls: dict[str, Control], steps: Sequence[int]) -> list[Work]:
    """Whole images, every control, every number of steps."""
    works = []
    for guidance in (True, False):
        for count in steps:
            for name, control in controls.items():
                run = partial(base.generate, control, count, guidance)
                works.append(
                    Work(part="whole", control=name, guidance=guidance, steps=count, run=run)
                )
    return works


def _middle(base: Base) -> Tensor:
    """A time step in the middle of 50; a step takes as long at every one."""
    base.scheduler.set_timesteps(50, device=base.latents_1CHW.device)
    middle: Tensor = base.scheduler.timesteps[25]
    return middle
