"""`benchmarks.overhead` measures what diffusers does, and its percentages are those that a hand
computes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.overhead import __main__ as command
from benchmarks.overhead.cold import Cold
from benchmarks.overhead.measure import measure
from benchmarks.overhead.names import ADAPTERS, BARE, CONTROLNET, FULL, LIGHT, PLUGIN, RESIDUALS
from benchmarks.overhead.parts import (
    GUIDANCE,
    QUICK,
    SD15,
    Adapter,
    Base,
    Control,
    SideNetwork,
    build,
    parameters,
)
from benchmarks.overhead.report import PROCESSOR, added, budget, markdown, rows, span
from benchmarks.overhead.telling import LIMIT_PERCENT, added_percent, resolved, told
from benchmarks.overhead.work import Work, pieces, residual_shapes
from click.testing import CliRunner
from diffusers import (
    StableDiffusionAdapterPipeline,
    StableDiffusionControlNetPipeline,
    StableDiffusionPipeline,
)
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from unplug.core import read_json

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def parts() -> tuple[Base, dict[str, Control]]:
    base, controls = build(QUICK, CPU, torch.float32)
    plugin = controls[PLUGIN].network
    with torch.no_grad():
        for (
            projection
        ) in plugin.projections:  # an untrained plugin adds zeros, which would show nothing
            nn.init.normal_(projection.weight, std=0.2)
    return base, controls


def stock(base: Base, control: Control, steps: int, guidance: bool) -> Tensor:
    """The image of diffusers' own pipeline."""
    shared = {
        "vae": base.vae,
        "text_encoder": None,
        "tokenizer": None,
        "unet": base.unet,
        "scheduler": base.scheduler,
        "safety_checker": None,
        "feature_extractor": None,
        "requires_safety_checker": False,
    }
    image: dict[str, Any] = {"image": base.condition_1CHW}
    if isinstance(control, SideNetwork):
        pipe: Any = StableDiffusionControlNetPipeline(**shared, controlnet=control.network)
    elif isinstance(control, Adapter):
        pipe = StableDiffusionAdapterPipeline(**shared, adapter=control.network)
    else:
        pipe, image = StableDiffusionPipeline(**shared), {}
    pipe.set_progress_bar_config(disable=True)
    found = pipe(
        prompt_embeds=base.text_2TC[1:],
        negative_prompt_embeds=base.text_2TC[:1],
        latents=base.latents_1CHW.clone(),
        num_inference_steps=steps,
        guidance_scale=GUIDANCE if guidance else 1.0,
        output_type="latent",
        height=64,
        width=64,
        **image,
    )
    return base.decode(found.images)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "guidance"),
    [
        *((name, True) for name in (BARE, CONTROLNET, *ADAPTERS)),
        (CONTROLNET, False),
        (PLUGIN, False),
    ],
)
def test_the_loop_makes_the_images_of_diffusers_pipelines(
    parts: tuple[Base, dict[str, Control]], name: str, guidance: bool
) -> None:
    base, controls = parts
    image = base.generate(controls[name], 2, guidance)
    with torch.no_grad():
        torch.testing.assert_close(
            image, stock(base, controls[name], 2, guidance), rtol=0, atol=1e-6
        )
    if name != BARE:
        assert float((image - base.generate(controls[BARE], 2, guidance)).abs().max()) > 1e-3, (
            "it steers"
        )


class Operations(TorchDispatchMode):
    """Counts operations by name and shape of the result."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.count[str(func), tuple(result.shape)] += 1
        return result


def operations(run: Any) -> Counter[tuple[str, tuple[int, ...]]]:
    with Operations() as mode, torch.no_grad():
        run()
    return mode.count


@pytest.mark.long
@pytest.mark.parametrize("guidance", [True, False])
def test_what_is_measured_by_itself_is_what_a_step_does_more(
    parts: tuple[Base, dict[str, Control]], guidance: bool
) -> None:
    base, controls = parts
    base.scheduler.set_timesteps(50)
    t, batch = base.scheduler.timesteps[25], 1 + guidance

    def step(name: str) -> Counter[tuple[str, tuple[int, ...]]]:
        state = controls[name].once(base.condition_1CHW, guidance)
        return operations(lambda: base.step(controls[name], state, base.latents_1CHW, t, guidance))

    shapes = residual_shapes(base, controls)
    cold = Cold(shapes, 1, CPU, torch.float32)
    assert cold.copies == 1
    alone = operations(lambda: cold.clone(batch)) + operations(
        lambda: cold.add(batch, base.in_place())
    )
    for name in ADAPTERS:
        more = step(name) - step(BARE)
        assert step(BARE) - step(name) == Counter()
        assert more == alone, (
            "four clones, three additions, one addition in place, of the same shapes"
        )
    assert sum(alone.values()) == 8
    cold_works = pieces(base, controls, cold)
    network = next(
        work for work in cold_works if work.part == "network" and work.guidance == guidance
    )
    network.run()  # the first one makes tensors to add to
    assert step(CONTROLNET) - step(BARE) == operations(network.run)


def test_sizes_are_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes alone: nothing of the real size is allocated."""

    def on_meta(make: Any, device: torch.device, dtype: torch.dtype) -> Any:
        with device:
            return make()

    monkeypatch.setattr("benchmarks.overhead.parts.empty", on_meta)
    base, controls = build(SD15, torch.device("meta"), torch.float32)
    assert parameters(base, controls) == {
        BARE: 859_520_964,
        CONTROLNET: 361_279_120,
        FULL: 77_369_280,
        LIGHT: 18_689_200,
        "VAE decoder": 49_490_199,
        PLUGIN: count(controls[PLUGIN]),
    }
    assert count(controls[PLUGIN]) <= 6_000_000
    assert base.latents_1CHW.shape == (1, 4, 64, 64) and base.condition_1CHW.shape == (
        1,
        3,
        512,
        512,
    )
    assert base.in_place() == [False, False, False, True]
    sides = {320: 64, 640: 32, 1280: 16}
    assert residual_shapes(base, controls) == [
        *((2, channels, side, side) for channels, side in sides.items()),
        (2, 1280, 8, 8),
    ]


def count(control: Control) -> int:
    assert control.network is not None
    return sum(parameter.numel() for parameter in control.network.parameters())


def test_pieces_are_measured_in_turn_after_a_round_that_is_thrown_away() -> None:
    now, done = [0.0], list[str]()

    def work(name: str, seconds: float, **more: Any) -> Work:
        def run() -> dict[str, float]:
            done.append(name)
            now[0] += seconds
            return {f"{name} inside": 0.25}

        return Work(part=name, control=BARE, guidance=True, run=run, **more)

    def sweep() -> None:
        done.append("sweep")
        now[0] += 1000.0

    works = [work("a", 8.0, units=4), work("b", 0.25, short=True, cold=True)]
    samples = measure(works, 2, CPU, sweep, clock=lambda: now[0], processor=lambda: now[0] / 2)
    cold_b = ["sweep", "b"]
    assert done == ["a", *cold_b * 2, "a", *cold_b * 4, "a", *cold_b * 4], (
        "a second of repeats of what takes a quarter"
    )
    found = {sample.part: sample for sample in samples}
    assert found["a"].seconds == [[2.0], [2.0]] and found["a"].first_s == 2.0, "a quarter of 8 s"
    assert found["b"].seconds == [[0.25] * 4] * 2, "sweeping is not timed"
    assert found["b"].processor_seconds == [[0.125] * 4] * 2
    assert (
        found["a inside"].seconds == [[0.25], [0.25]]
        and found["a inside"].processor_seconds is None
    )


def sample(part: str, control: str, guidance: bool | None, *seconds: float) -> dict[str, Any]:
    return {
        "part": part,
        "control": control,
        "guidance": guidance,
        "steps": None,
        "first_s": 9.0,
        # the median of a round's repeats counts
        "seconds": [[value, value, 9e9] for value in seconds],
        "processor_seconds": [[2 * value] for value in seconds],
    }


def run_of(samples: list[dict[str, Any]]) -> dict[str, Any]:
    sizes = {BARE: 860.0, CONTROLNET: 361.0, FULL: 77.0, LIGHT: 18.7, PLUGIN: 3.1}
    return {
        "device": "cpu",
        "machine": "Some CPU",
        "dtype": "fp32",
        "image": [512, 512],
        "size": "shrunk",
        "rounds": 2,
        "steps": [20, 50],
        "extrapolated": True,
        "samples": samples,
        "parameters": {name: round(1e6 * size) for name, size in sizes.items()},
    }


def extrapolated_samples() -> list[dict[str, Any]]:
    samples = [sample("decode", BARE, None, 5.0, 10.0)]
    for guidance in (True, False):
        samples += [
            *(sample("once", name, guidance, 0.5, 0.25) for name in (CONTROLNET, *ADAPTERS)),
            sample("clone", RESIDUALS, guidance, 0.01, 0.02),
            sample("add", RESIDUALS, guidance, 0.03, 0.04),
            sample("network", CONTROLNET, guidance, 4.0, 5.0),
            sample("step", BARE, guidance, 10.0, 11.0),
            sample("step", RESIDUALS, guidance, 10.1, 10.8),
            sample("step", CONTROLNET, guidance, 14.0, 15.0),
            sample("clone in situ", RESIDUALS, guidance, 0.02, 0.02),
            sample("add in situ", RESIDUALS, guidance, 0.01, 0.01),
        ]
    return samples


def row_of(
    run: dict[str, Any], control: str, steps: int = 20, clock: str = "seconds"
) -> dict[str, Any]:
    return next(
        row
        for row in rows(run, clock)
        if (row["control"], row["steps"], row["guidance"]) == (control, steps, True)
    )


def spread_of(values: list[float]) -> Any:
    ends = {"min": min(values), "max": max(values)}
    return pytest.approx({"median": sum(values) / 2, **ends})


def share_of(first: float, second: float) -> Any:
    """Percent of the base's two images."""
    return spread_of([100 * first / 205, 100 * second / 230])


def test_percentages_of_extrapolated_images_by_hand() -> None:
    run = run_of(extrapolated_samples())
    base, plugin, control = (row_of(run, name) for name in (BARE, PLUGIN, CONTROLNET))
    assert base["seconds"] == spread_of([205.0, 230.0]), "20 10 + 5 and 20 11 + 10"
    assert base["measured_steps"] == 2
    assert (plugin["by"], control["by"]) == ("work", "difference")
    # 0.5 + 20 (0.01 + 0.03) and 0.25 + 20 (0.02 + 0.04)
    assert plugin["overhead_percent"] == share_of(1.3, 1.45)
    assert plugin["work_without_clones_percent"] == share_of(1.1, 1.05)
    assert plugin["in_situ_percent"] == share_of(1.1, 0.85)
    assert plugin["difference_percent"] == share_of(2.5, -3.75)
    assert plugin["seconds"] == spread_of([206.3, 231.45])
    assert control["overhead_percent"] == share_of(80.5, 80.25)
    assert control["work_percent"] == share_of(80.5, 100.25)
    assert control["in_situ_percent"] is None and control["work_without_clones_percent"] is None
    samples = [each for each in run["samples"] if "situ" not in each["part"]]
    busy = row_of({**run, "samples": samples}, PLUGIN, clock=PROCESSOR)
    assert busy["seconds"] == spread_of([412.6, 462.9]), "this clock runs twice as fast"
    assert busy["overhead_percent"] == share_of(1.3, 1.45)


def with_rows(samples: list[dict[str, Any]]) -> dict[str, Any]:
    run = run_of(samples)
    return {**run, "rows": rows(run), "rows_by_processor_time": None}


def test_the_table_and_the_budget() -> None:
    run = with_rows(extrapolated_samples())
    lines = markdown({"runs": [run]}).splitlines()
    begins = {
        0: "Some CPU, fp32, 512×512, shrunk shape; median of 2 rounds, range in brackets. An image",
        2: "|  | parameters | 20 steps, guidance | 50 steps, guidance | 20 steps, no guidance |",
        4: "| base | 860.0 M | 218 (205 to 230) s | 532 (505 to 560) s |",
        5: "| ControlNet | 361.0 M | 298 s, +37.1 (34.9 to 39.3) % |",
        8: "| plugin | 3.1 M | 219 s, +0.632 (0.630 to 0.634) % |",
    }
    assert all(lines[number].startswith(text) for number, text in begins.items())
    assert "(2 of each kind)" in lines[0] and len(lines) == 9
    verdicts = [(each["guidance"], each["met"], each["limit_percent"]) for each in budget(run)]
    assert verdicts == [(True, False, 0.02), (False, False, 0.02)]
    thrifty = [
        each | {"seconds": [[1e-3]] * 2} if each["part"] in ("once", "clone", "add") else each
        for each in extrapolated_samples()
    ]
    assert [each["met"] for each in budget(with_rows(thrifty))] == [True, True]
    assert span({"median": 0.5, "min": 0.5, "max": 0.5}) == "0.500", "one round has no range"


def test_a_difference_is_told_where_its_interval_supports_it() -> None:
    """By hand: t(1) = 12.706 at 95 %; two pairs a and b span their mean by 12.706 |a - b| / 2."""
    found = added_percent([1.048, 1.092], [1.0, 1.0])
    assert (found.value, found.low, found.high) == pytest.approx(
        (7.0, 7.0 - 12.706 * 2.2, 7.0 + 12.706 * 2.2), abs=2e-3
    )
    assert not resolved(found, PLUGIN) and told(found, PLUGIN).startswith("cannot tell (-20.95 to")
    half = 0.99 * LIMIT_PERCENT / 12.706
    near, far = (
        added_percent([1.01 + x / 100, 1.01 - x / 100], [1, 1]) for x in (half, half * 1.1)
    )
    assert resolved(near, PLUGIN) and not resolved(far, PLUGIN)
    assert resolved(far, CONTROLNET), "above zero, and a ControlNet's"
    assert told(added_percent([1.0], [1.0]), CONTROLNET) == "cannot tell", (
        "one pair has no interval"
    )
    with pytest.raises(ValueError, match="shorter"):
        added_percent([1.0, 1.0], [1.0])


def test_a_slow_round_leaves_the_paired_difference_alone() -> None:
    base_R = [1.0, 5.0, 1.1, 3.0]
    found = added_percent([1.004 * base for base in base_R], base_R)
    assert (found.low, found.high) == pytest.approx((0.4, 0.4))


def test_the_documents_table_holds_the_sum_of_parts_beside_the_difference() -> None:
    lines = added({"runs": [with_rows(extrapolated_samples())]}).splitlines()
    assert "added to 50 steps | sum of its parts | difference of steps, 2 pairs" in lines[0]
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| ControlNet",
        "| T2I-Adapter",
        "| plugin",
    ]
    # sums of parts: 0.5 + 50 4 of 505 s, 0.25 + 50 5 of 560 s; 0.5 + 50 .04 and 0.25 + 50 .06
    assert "+42.2 (39.7 to 44.7) %" in lines[2]
    assert "+0.538 (0.495 to 0.580) % | cannot tell (" in lines[4]


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [["--dtype", "bf16"], pytest.param(["--whole"], marks=pytest.mark.nightly)]
)
def test_a_quick_run_writes_everything(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.overhead.measure.REPEAT_S", 0.0)
    out = tmp_path / "deep" / "overhead.json"
    arguments = ["--quick", "--rounds", "1", "--device", "cpu", "--out", str(out), *words]
    done = CliRunner().invoke(command.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    facts = read_json(out)
    assert facts["schema"] == "unplug-overhead/1"
    assert (
        facts["command"].startswith("python -m benchmarks.overhead ")
        and str(tmp_path) not in facts["command"]
    )
    assert {"--quick", *words} <= set(facts["command"].split()) and "diffusers" in facts["versions"]
    (run,) = facts["runs"]
    assert run["extrapolated"] is ("--whole" not in words) and run["dtype"] == (
        "bf16" if "bf16" in words else "fp32"
    )
    assert len(run["rows"]) == 20 and run["budget"] == [], "a shrunk base is held to no budget"
    assert markdown(facts).splitlines()[0] in done.output
    again = rows(run)
    assert again == run["rows"], "the rows follow from the raw times in the file"
