"""The training loop by steps: killed and continued to the bit, averaged as written, stopped where
the loss breaks.
"""

from __future__ import annotations

import itertools
import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
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


def test_memory_that_is_kept_changes_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = run()
    monkeypatch.setattr(module, "kept_heap", lambda device: nullcontext())
    assert same(kept, run())


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
def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    whole = run(path=tmp_path / "state")
    seen: list[int] = []
    assert (
        same(
            run(killed_at(0), path=tmp_path / "state", on_sample=lambda _, step: seen.append(step)),
            whole,
        )
        and not seen
    )


@pytest.mark.usefixtures("eager")
def test_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other weights would come of another recipe, and of another precision or number of processes."""
    with pytest.raises(Killed):
        run(killed_at(3), path=tmp_path / "state")

    def refused(**how: Any) -> None:
        with pytest.raises(
            CheckpointError,
            match=r"an unfinished run of another recipe, data or seed is there.*`restart`",
        ):
            run(path=tmp_path / "state", **how)

    refused(mark="other")
    refused(recipe=replace(QUICK, precision="bf16"))
    with monkeypatch.context() as patch:
        patch.setattr(module, "make_accelerator", lambda *_: Process(0, of=3))
        refused()
    with monkeypatch.context() as patch:
        # what "auto" is on another machine
        patch.setattr(module, "pick_precision", lambda *_: "bf16")
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

    with pytest.raises(
        TrainingError, match=r"the weights line\.weight are NaN or infinite after step 1"
    ):
        train_steps(
            Edge(), draw, StepRecipe(steps=1, precision="fp32"), seed=0, device=CPU, show=False
        )


def test_parts_of_a_step_add_up_to_it() -> None:
    class Plain(Toy):
        def forward(self, x_BK: Tensor, generator: torch.Generator) -> Tensor:
            loss: Tensor = self.line(x_BK).square().mean()
            return loss

    def numbered() -> Draw:
        rows = iter(torch.randn(54, 4, generator=torch.Generator().manual_seed(8)))
        return lambda _, count: {"x_BK": torch.stack([next(rows) for _ in range(count)])}

    recipe = replace(QUICK, batch_size=6)
    whole, parts = (
        train_steps(Plain(), numbered(), recipe, seed=0, device=CPU, show=False, parts=parts)
        for parts in (1, 3)
    )
    for name, value in parts.model.state_dict().items():
        torch.testing.assert_close(value, whole.model.state_dict()[name], rtol=1e-5, atol=1e-6)
    assert parts.history[-1]["loss"] == pytest.approx(whole.history[-1]["loss"], rel=1e-5)
    assert parts.samples == whole.samples == 54
    with pytest.raises(
        InputError, match=r"batch_size 6: it does not divide among 1 process.* 4 part"
    ):
        train_steps(Plain(), numbered(), recipe, seed=0, device=CPU, show=False, parts=4)
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    names = list(network.state_dict())
    for count, device in ((1, "cuda"), (2, "cpu")):
        assert type(module.synced(network, count, torch.device(device))[1]) is nn.BatchNorm2d  # type: ignore[index]
    found = module.synced(network, 2, torch.device("cuda"))
    assert type(found[1]) is nn.SyncBatchNorm and list(found.state_dict()) == names  # type: ignore[index]


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
    recipe = StepRecipe(
        steps=6,
        batch_size=2,
        warmup=2,
        lr=0.1,
        clip=0.05,
        ema=0.2,
        weight_decay=0.3,
        precision="fp32",
    )

    class Plain(Toy):
        def forward(self, x_BK: Tensor, generator: torch.Generator) -> Tensor:
            return self.line(x_BK).square().mean()

    batches: list[Tensor] = []

    def recorded(generator: torch.Generator, count: int) -> dict[str, Tensor]:
        batches.append(torch.randn(count, 4, generator=generator))
        return {"x_BK": batches[-1]}

    done = train_steps(Plain(), recorded, recipe, seed=0, device=CPU, show=False)
    model, rates = (
        Plain(),
        [0.05, 0.1, *(0.1 * (0.01 + 0.495 * (1 + math.cos(math.pi * k / 4))) for k in range(4))],
    )
    average = {name: value.clone() for name, value in model.state_dict().items()}
    groups = [
        {"params": [model.line.weight], "weight_decay": 0.3},
        {"params": [model.line.bias], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step, (x, lr) in enumerate(zip(batches, rates, strict=True)):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        model(x, torch.Generator()).backward()
        norm = math.sqrt(
            sum(float(parameter.grad.square().sum()) for parameter in model.parameters())
        )  # type: ignore[union-attr]
        for parameter in model.parameters():
            parameter.grad *= min(1.0, 0.05 / (norm + 1e-6))
        optimizer.step()
        keep = min(0.2, (1 + step) / (10 + step))
        average = {
            name: keep * average[name] + (1 - keep) * value
            for name, value in model.state_dict().items()
        }
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
    drawn: dict[int, list[Tensor]] = {0: [], 1: []}
    recipe = replace(QUICK, batch_size=4)
    for index in drawn:
        monkeypatch.setattr(module, "make_accelerator", lambda *_, index=index: Process(index))

        def recorded(
            generator: torch.Generator, count: int, index: int = index
        ) -> dict[str, Tensor]:
            batch = draw(generator, count)
            drawn[index].append(batch["x_BK"])
            return batch

        seen: list[int] = []
        path = tmp_path / f"state-{index}"
        done = run(
            recorded, recipe, path, on_sample=lambda _, s, seen=seen: seen.append(s), sample_every=3
        )
        assert (done.samples, done.processes) == (9 * 4, 2)
        assert (tmp_path / f"state-{index}").exists() == (index == 0) and seen == (
            [3, 6, 9] if index == 0 else []
        )
    batches = [*drawn[0], *drawn[1]]
    assert [len(batch) for batch in batches] == [2] * 18  # half of the step's samples each
    assert all(not torch.equal(a, b) for place, a in enumerate(batches) for b in batches[:place])


def test_precision_is_what_the_hardware_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda")
    for has in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda has=has: has)
        monkeypatch.setattr(
            torch.cuda,
            "is_bf16_supported",
            lambda including_emulation=True, has=has: has or including_emulation,
        )
        assert pick_precision("auto", CPU) == ("bf16" if has else "no")
        assert pick_precision("auto", cuda) == ("bf16" if has else "fp16")
    assert [pick_precision(name, CPU) for name in ("fp32", "bf16", "fp16")] == [
        "no",
        "bf16",
        "fp16",
    ]
    for precision, name in (("bf16", "bf16"), ("fp32", "no"), ("bf16", "bf16")):
        assert make_accelerator(StepRecipe(precision=precision), CPU).mixed_precision == name  # type: ignore[arg-type]
    with pytest.raises(InputError, match="precision 'fp16': it needs a GPU"):
        make_accelerator(StepRecipe(precision="fp16"), CPU)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (StepRecipe, {"steps": 0}),
        (StepRecipe, {"steps": 2.5}),
        (StepRecipe, {"batch_size": "4"}),
        (StepRecipe, {"lr": math.nan}),
        (StepRecipe, {"lr": -1.0}),
        (StepRecipe, {"ema": 1.0}),
        (StepRecipe, {"clip": 0.0}),
        (StepRecipe, {"precision": "fp8"}),
        (VAERecipe, {"crop": 60}),
        (VAERecipe, {"crop": 8}),
        (VAERecipe, {"channels": 0}),
        (BaseRecipe, {"drop_text": 1.5}),
        (BaseRecipe, {"captions": 0}),
        (ControlRecipe, {"drop_text": math.nan}),
        (ControlRecipe, {"accumulate": 0}),
        (ControlRecipe, {"accumulate": 1.5}),
        (ControlRecipe, {"captions": 65}),
        (ControlRecipe, {"captions": 1.5}),
        (ControlRecipe, {"timesteps": "late"}),
        (ControlRecipe, {"weighting": "x0"}),
    ],
)
def test_recipes_out_of_range(kind: type[StepRecipe], change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(change))):
        kind(**change)
    with pytest.raises(InputError):
        kind.from_dict(kind().to_dict() | change)


@pytest.mark.parametrize("kind", [StepRecipe, VAERecipe, BaseRecipe, ControlRecipe])
def test_recipes_come_back_from_json(kind: type[StepRecipe]) -> None:
    recipe = kind(steps=7, precision="bf16")
    assert (
        kind.from_dict(recipe.to_dict()) == recipe
        and recipe.passes(10_000) == 7 * recipe.batch_size
    )
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
