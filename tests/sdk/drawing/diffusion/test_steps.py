"""The training loop by steps: killed and continued to the bit, averaged as written, stopped where
the loss breaks.
"""

from __future__ import annotations

import itertools
import math
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unplug.core import CheckpointError, InputError, MissingExtraError, TrainingError
from unplug.sdk.drawing.diffusion import (
    BaseRecipe,
    ControlRecipe,
    StepRecipe,
    StudentRecipe,
    VAERecipe,
    pick_precision,
    processes,
    train_steps,
)
from unplug.sdk.drawing.diffusion import steps as module
from unplug.sdk.drawing.diffusion.recipe import Precision
from unplug.sdk.drawing.diffusion.steps import Trained, make_accelerator
from unplug.sdk.learning.training import StateFile

from .conftest import CPU, Killed

QUICK = StepRecipe(steps=9, batch_size=3, warmup=2, lr=0.05, ema=0.6, precision="fp32")
Draw = Callable[[torch.Generator, int], dict[str, Tensor]]


class Toy(nn.Module):
    """Fits a line; its dropout uses torch's global generator, as a network's would."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.drop = nn.Linear(4, 2), nn.Dropout(0.2)
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(
                    torch.linspace(-1, 1 + number, parameter.numel()).view_as(parameter)
                )

    def forward(self, x_BK: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(len(x_BK), 2, generator=generator)
        loss: Tensor = (self.drop(self.line(x_BK)).float() - noise).square().mean()
        return loss


def draw(generator: torch.Generator, count: int) -> dict[str, Tensor]:
    return {"x_BK": torch.randn(count, 4, generator=generator)}


def telling(tell: Callable[[int], object]) -> Draw:
    """Draws as `draw` does; `tell` is told the number of every step in its middle."""
    numbers = itertools.count(1)

    def draws(generator: torch.Generator, count: int) -> dict[str, Tensor]:
        tell(next(numbers))
        return draw(generator, count)

    return draws


def killed_at(step: int) -> Draw:
    def kill(number: int) -> None:
        if number > step:
            raise Killed

    return telling(kill)


def run(
    draws: Draw = draw,
    recipe: StepRecipe = QUICK,
    path: Path | None = None,
    mark: str = "same",
    **more: Any,
) -> Trained:
    state = None if path is None else StateFile(path=path, fingerprint=mark)
    return train_steps(Toy(), draws, recipe, seed=3, device=CPU, state=state, show=False, **more)


def same(one: Trained, other: Trained) -> bool:
    mine, theirs = one.model.state_dict(), other.model.state_dict()
    rows = [[{**row, "wall_s": 0} for row in item.history] for item in (one, other)]
    return all(torch.equal(mine[name], theirs[name]) for name in mine) and rows[0] == rows[1]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row every two steps, a state after every row."""
    monkeypatch.setattr(module, "LOG_EVERY", 2)
    monkeypatch.setattr(module, "SAVE_EVERY_S", 0.0)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("killed", "precision"), [(1, "bf16"), (5, "fp32"), (8, "fp32")])
def test_a_killed_run_goes_on_to_the_same_bits(
    tmp_path: Path, killed: int, precision: Precision
) -> None:
    recipe = StepRecipe.from_dict(QUICK.to_dict() | {"precision": precision})
    whole = run(recipe=recipe)
    with pytest.raises(Killed):
        run(killed_at(killed), recipe, tmp_path / "state")
    assert (tmp_path / "state").exists()
    again = run(recipe=recipe, path=tmp_path / "state")
    assert same(again, whole) and again.samples == whole.samples == 27
    assert [row["step"] for row in again.history] == [2, 4, 6, 8, 9]
    assert again.wall_s >= again.history[-1]["wall_s"] - 0.1


def pressed(step: int, *signals: signal.Signals) -> Draw:
    return telling(lambda number: [signal.raise_signal(one) for one in signals if number == step])


class Told(BaseException):
    pass


@pytest.fixture
def terminable() -> Iterator[None]:
    """SIGTERM as a command has it."""

    def end(*_: object) -> None:
        raise Told

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("terminable")
@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Told)]
)
def test_ctrl_c_ends_a_step_and_saves_it(
    tmp_path: Path, number: signal.Signals, error: type[BaseException]
) -> None:
    before = signal.getsignal(number)
    with pytest.raises(error):
        run(pressed(5, number), path=tmp_path / "state")
    assert signal.getsignal(number) is before
    seen: list[int] = []
    assert same(run(telling(seen.append), path=tmp_path / "state"), run()) and len(seen) == 4
    with pytest.raises(error):  # in the last step: its state is kept too
        run(pressed(9, number), path=tmp_path / "last")
    assert same(run(killed_at(0), path=tmp_path / "last"), run())


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(pressed(5, signal.SIGINT, signal.SIGINT), path=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_what_is_not_python_s_is_not_held() -> None:
    asked: list[Any] = []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    whole = run(telling(lambda _: asked.append(signal.getsignal(signal.SIGTERM))))
    assert set(asked) == {signal.SIG_DFL}
    other: list[Trained] = []
    thread = Thread(target=lambda: other.append(run()))  # signals are the main thread's
    thread.start()
    thread.join()
    assert same(other[0], whole)


@pytest.mark.usefixtures("eager")
def test_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other weights would come of another recipe, and of another precision or number of processes."""
    with pytest.raises(Killed):
        run(killed_at(3), path=tmp_path / "state")

    def refused(**how: Any) -> None:
        why = r"an unfinished run of another recipe, data or seed is there.*`restart`"
        with pytest.raises(CheckpointError, match=why):
            run(path=tmp_path / "state", **how)

    refused(mark="other")
    refused(recipe=replace(QUICK, precision="bf16"))
    for name, other in (
        ("make_accelerator", lambda *_: Process(0, of=3)),
        ("pick_precision", lambda *_: "bf16"),  # what "auto" is on another machine
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, other)
            refused()
    run(path=tmp_path / "state")


@pytest.mark.usefixtures("eager")
def test_the_scale_of_float16_gradients_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a continued run would start at 65,536 again, and skip other steps than one in one
    go.
    """
    made: list[HalfProcess] = []
    monkeypatch.setattr(
        module, "make_accelerator", lambda *_: made.append(HalfProcess()) or made[-1]
    )
    whole = run()
    with pytest.raises(Killed):
        run(killed_at(5), path=tmp_path / "state")
    assert same(run(path=tmp_path / "state"), whole)
    ends = [process.scaler.state_dict() for process in made]
    assert (
        ends[0] == ends[2] != ends[1]
        and ends[0]["scale"] == 8.0 * 2**4
        and ends[0]["_growth_tracker"] == 1
    )


def test_losses_and_weights_that_break_are_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAVE_EVERY_S", 0.0)
    calls: list[int] = []

    def breaks(generator: torch.Generator, count: int) -> dict[str, Tensor]:
        calls.append(1)
        return {"x_BK": torch.full((count, 4), math.nan if len(calls) == 5 else 1.0)}

    with pytest.raises(TrainingError, match=r"the loss is nan at step 5\. Lower `lr`"):
        run(breaks, path=tmp_path / "state")
    assert len(calls) == 5
    run(path=tmp_path / "state")

    class Edge(Toy):
        def forward(self, x_BK: Tensor, generator: torch.Generator) -> Tensor:
            return (self.line(x_BK) * 0).sum().sqrt()  # 0, with a gradient that is not a number

    once = StepRecipe(steps=1, precision="fp32")
    with pytest.raises(
        TrainingError, match=r"weights line\.weight are NaN or infinite after step 1"
    ):
        train_steps(Edge(), draw, once, seed=0, device=CPU, show=False)


class Plain(Toy):
    """Draws nothing."""

    def forward(self, x_BK: Tensor, generator: torch.Generator) -> Tensor:
        loss: Tensor = self.line(x_BK).square().mean()
        return loss


def test_parts_of_a_step_add_up_to_it() -> None:
    def trained(parts: int) -> Trained:
        rows = iter(torch.randn(54, 4, generator=torch.Generator().manual_seed(8)))

        def draws(_: torch.Generator, count: int) -> dict[str, Tensor]:
            return {"x_BK": torch.stack([next(rows) for _ in range(count)])}

        recipe = replace(QUICK, batch_size=6)
        return train_steps(Plain(), draws, recipe, seed=0, device=CPU, show=False, parts=parts)

    whole, thirds = trained(1), trained(3)
    for name, value in thirds.model.state_dict().items():
        torch.testing.assert_close(value, whole.model.state_dict()[name], rtol=1e-5, atol=1e-6)
    assert thirds.history[-1]["loss"] == pytest.approx(whole.history[-1]["loss"], rel=1e-5)
    assert thirds.samples == whole.samples == 54
    why = r"batch_size 6: it does not divide among 1 process.* 4 part"
    with pytest.raises(InputError, match=why):
        trained(4)
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    names = list(network.state_dict())
    for count, device, kind in (
        (1, "cuda", nn.BatchNorm2d),
        (2, "cpu", nn.BatchNorm2d),
        (2, "cuda", nn.SyncBatchNorm),
    ):
        made = module.synced(network, count, torch.device(device))
        assert type(made[1]) is kind and list(made.state_dict()) == names  # type: ignore[index]


def test_previews_do_not_disturb(tmp_path: Path) -> None:
    seen: list[int] = []

    def preview(model: nn.Module, step: int) -> None:
        assert not model.training and not any(
            parameter.requires_grad for parameter in model.parameters()
        )
        torch.randn(7)
        seen.append(step)

    assert same(run(on_sample=preview, sample_every=4), run()) and seen == [4, 8, 9]
    seen.clear()
    run(on_sample=preview)
    assert seen == [9]


def test_against_a_loop_written_out() -> None:
    """AdamW under the schedule, the gradient clipped, d = min(0.6, (1 + s) / (10 + s))."""
    how = {"lr": 0.1, "clip": 0.05, "ema": 0.2, "weight_decay": 0.3}
    recipe = StepRecipe(steps=6, batch_size=2, warmup=2, precision="fp32", **how)
    batches: list[Tensor] = []

    def recorded(generator: torch.Generator, count: int) -> dict[str, Tensor]:
        batches.append(torch.randn(count, 4, generator=generator))
        return {"x_BK": batches[-1]}

    done = train_steps(Plain(), recorded, recipe, seed=0, device=CPU, show=False)
    model = Plain()
    falling = [0.1 * (0.01 + 0.495 * (1 + math.cos(math.pi * k / 4))) for k in range(4)]
    average = {name: value.clone() for name, value in model.state_dict().items()}
    groups = [
        {"params": [model.line.weight], "weight_decay": 0.3},
        {"params": [model.line.bias], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step, (x, lr) in enumerate(zip(batches, [0.05, 0.1, *falling], strict=True)):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        model(x, torch.Generator()).backward()
        gradients = [
            parameter.grad for parameter in model.parameters() if parameter.grad is not None
        ]
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        for gradient in gradients:
            gradient *= min(1.0, 0.05 / (norm + 1e-6))
        optimizer.step()
        keep = min(0.2, (1 + step) / (10 + step))
        for name, value in model.state_dict().items():
            average[name] = keep * average[name] + (1 - keep) * value
    for name, value in done.model.state_dict().items():
        torch.testing.assert_close(value, average[name], rtol=1e-5, atol=1e-6)


class Process:
    """accelerate's face towards `train_steps`, as the process with this number."""

    device = CPU
    scaler: Any = None

    def __init__(self, index: int, of: int = 2) -> None:
        self.process_index, self.num_processes, self.is_main_process = index, of, index == 0

    def prepare(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def clip_grad_norm_(self, parameters: Any, limit: float) -> None:
        nn.utils.clip_grad_norm_(parameters, limit)

    def wait_for_everyone(self) -> None:
        pass


class HalfProcess(Process):
    """As accelerate computes in float16: gradients are scaled, and the scale doubles every other
    step.
    """

    def __init__(self) -> None:
        super().__init__(0, of=1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def prepare(self, model: Any, optimizer: Any) -> tuple[Any, ...]:
        def step() -> None:
            self.scaler.step(optimizer)
            self.scaler.update()

        return model, SimpleNamespace(zero_grad=optimizer.zero_grad, step=step)

    def backward(self, loss: Tensor) -> None:
        self.scaler.scale(loss).backward()


@pytest.mark.usefixtures("eager")
def test_processes_draw_apart_and_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[Tensor] = []

    def recorded(generator: torch.Generator, count: int) -> dict[str, Tensor]:
        batches.append(draw(generator, count)["x_BK"])
        return {"x_BK": batches[-1]}

    for index in range(2):
        monkeypatch.setattr(module, "make_accelerator", lambda *_, index=index: Process(index))
        seen, path = list[int](), tmp_path / f"state-{index}"

        def sample(_: Any, step: int, seen: list[int] = seen) -> None:
            seen.append(step)

        recipe = replace(QUICK, batch_size=4)
        done = run(recorded, recipe, path, on_sample=sample, sample_every=3)
        assert (done.samples, done.processes) == (9 * 4, 2)
        assert path.exists() == (index == 0) and seen == ([3, 6, 9] if index == 0 else [])
    assert [len(batch) for batch in batches] == [2] * 18  # half of the step's samples each
    assert len({batch.numpy().tobytes() for batch in batches}) == 18


def test_precision_is_what_the_hardware_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    for has in (True, False):

        def supported(including_emulation: bool = True, has: bool = has) -> bool:
            return has or including_emulation

        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda has=has: has)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
        assert pick_precision("auto", CPU) == ("bf16" if has else "no")
        assert pick_precision("auto", torch.device("cuda")) == ("bf16" if has else "fp16")
    names: dict[Precision, str] = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}
    assert {name: pick_precision(name, CPU) for name in names} == names
    for name in ("bf16", "fp32", "bf16"):
        made = make_accelerator(StepRecipe(precision=name), CPU)  # type: ignore[arg-type]
        assert made.mixed_precision == names[name]  # type: ignore[index]
    with pytest.raises(InputError, match="precision 'fp16': it needs a GPU"):
        make_accelerator(StepRecipe(precision="fp16"), CPU)


WRONG: dict[type[StepRecipe], list[dict[str, Any]]] = {
    StepRecipe: [
        {"steps": 0},
        {"steps": 2.5},
        {"batch_size": "4"},
        {"lr": math.nan},
        {"lr": -1.0},
        {"ema": 1.0},
        {"clip": 0.0},
        {"precision": "fp8"},
    ],
    VAERecipe: [{"crop": 60}, {"crop": 8}, {"channels": 0}],
    BaseRecipe: [{"drop_text": 1.5}, {"captions": 0}],
    ControlRecipe: [
        {"drop_text": math.nan},
        {"accumulate": 0},
        {"accumulate": 1.5},
        {"captions": 65},
        {"captions": 1.5},
        {"timesteps": "late"},
        {"weighting": "x0"},
    ],
    StudentRecipe: [
        {"drawn_steps": 0},
        {"substeps": 51},
        {"rank": -1},
        {"teacher_guidance": 0.5},
        {"teacher_schedule": "cosine"},
        {"distillation": "shortcut"},
    ],
}


@pytest.mark.parametrize("kind", WRONG)
def test_recipes_out_of_range(kind: type[StepRecipe]) -> None:
    for change in WRONG[kind]:
        with pytest.raises(InputError, match=next(iter(change))):
            kind(**change)
        with pytest.raises(InputError):
            kind.from_dict(kind().to_dict() | change)


@pytest.mark.parametrize("kind", WRONG)
def test_recipes_come_back_from_json(kind: type[StepRecipe]) -> None:
    recipe = kind(steps=7, precision="bf16")
    assert kind.from_dict(recipe.to_dict()) == recipe
    assert recipe.passes(10_000) == 7 * recipe.batch_size
    for raw in ([], {"steps": 7, "color": 1}, None):
        with pytest.raises(InputError, match="not one that this version of unplug wrote"):
            kind.from_dict(raw)


def test_one_process_and_none_without_accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    # as an earlier training on a GPU leaves accelerate
    processes(CPU).device = torch.device("cuda")
    team = processes(CPU)
    assert (team.num_processes, team.is_main_process, team.device) == (1, True, CPU)
    with team.main_process_first():
        pass
    team.wait_for_everyone()
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(
        MissingExtraError, match=r"accelerate is not installed.*install .*\[diffusion\]"
    ):
        processes(CPU)
