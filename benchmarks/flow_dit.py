"""``python -m benchmarks.flow_dit OUT``: a plugin beside a small rectified-flow transformer against its base alone.

The base is diffusers' own ``SD3Transformer2DModel``, a few blocks of it, trained here on latents of synthetic faces by the
autoencoder and the text encoder that ship; then it is frozen, and a `DiTPlugin` is trained beside it, once a seed. Every run
draws the same held-out pictures from the same noise: by the base alone, with the plugin, and with the plugin given the edges of
another picture, which is the null. Control error is 1 - F1 of the Canny edges of what was drawn against those asked for, within
one pixel. Everything runs on one thread; the base is kept in --work: a second call trains plugins only.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel
from numpy.typing import NDArray
from torch import Tensor, nn

from unplug.core import fixed, read_json, signed, span, use_threads, versions, write_json
from unplug.plugins import DiTPlugin
from unplug.plugins.conditions import build_condition
from unplug.sdk.data import load_dataset
from unplug.sdk.diffusion import ControlSet, base_digest, image_grid, load_base, load_control_set
from unplug.sdk.statistics import mean_estimate
from unplug.sdk.studies.control import TOLERANCE, edge_scores

SCHEMA = "unplug-flow-dit/1"
SIZE, TEXT = 128, 24
"""Pixels of a picture, and tokens of a prompt that the base reads."""
CPU = torch.device("cpu")
TRAINED = "training.json"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is trained and drawn.

    Args:
        spec: the pictures; the last `held_out` of them are drawn, the others are trained on.
        held_out: pictures.
        blocks, heads, head_dim: of the base.
        base_steps, plugin_steps, batch, base_lr, plugin_lr: of Adam with a cosine.
        seeds: of the plugins.
        sampling_steps: of Euler's method.
    """

    spec: str = "synth:n=2400,subjects=2400,seed=9"
    held_out: int = 96
    blocks: int = 4
    heads: int = 3
    head_dim: int = 32
    base_steps: int = 900
    plugin_steps: int = 300
    batch: int = 16
    base_lr: float = 1e-3
    plugin_lr: float = 2e-3
    seeds: tuple[int, ...] = (0, 1, 2)
    sampling_steps: int = 20


def new_base(plan: Plan, data: ControlSet) -> Any:
    """An untrained transformer for the latents and texts of a set."""
    torch.manual_seed(0)
    channels, side, width = data.latent.shape[1], data.latent.shape[2], data.text.shape[2]
    return SD3Transformer2DModel(
        sample_size=side, patch_size=2, in_channels=channels, out_channels=channels, num_layers=plan.blocks,
        attention_head_dim=plan.head_dim, num_attention_heads=plan.heads, caption_projection_dim=plan.heads * plan.head_dim,
        joint_attention_dim=width, pooled_projection_dim=width, pos_embed_max_size=side // 2,
    )  # fmt: skip


def velocity(base: Any, x_Bchw: Tensor, time_B: Tensor, text_BLD: Tensor, residuals: list[Tensor] | None) -> Tensor:
    """What the transformer says of x_t = (1 - t) x_0 + t e: an estimate of e - x_0."""
    found: Tensor = base(
        hidden_states=x_Bchw, timestep=1000.0 * time_B, encoder_hidden_states=text_BLD[:, :TEXT],
        pooled_projections=text_BLD.mean(dim=1), block_controlnet_hidden_states=residuals, return_dict=False,
    )[0]  # fmt: skip
    return found


def flow_loss(base: Any, plugin: nn.Module | None, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
    """Squared error of the velocity of each sample (B,), at a noise level drawn from a logit-normal.

    Reference:
        Esser et al., Scaling Rectified Flow Transformers, 2024, sections 2 and 3.1.
    """
    clean = batch["latent_Bchw"]
    noise = torch.randn(clean.shape, generator=generator)
    time_B = torch.sigmoid(torch.randn(len(clean), generator=generator))
    t = time_B[:, None, None, None]
    residuals = None if plugin is None else plugin(batch["condition_BCHW"])
    said = velocity(base, (1 - t) * clean + t * noise, time_B, batch["text_BLD"], residuals)
    return (said - (noise - clean)).square().flatten(1).mean(dim=1)


def fit(base: Any, plugin: nn.Module | None, data: ControlSet, *, steps: int, lr: float, batch: int, seed: int) -> float:
    """Trains the plugin, or the base where there is none; seconds that it took."""
    trained: nn.Module = base if plugin is None else plugin
    base.requires_grad_(plugin is None)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    trained.train()
    started, recent = time.perf_counter(), list[float]()
    for step in range(steps):
        index_B = torch.randint(len(data), (batch,), generator=generator)
        loss = flow_loss(base, plugin, data.batch(index_B, CPU), generator).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if (step + 1) % 50 == 0:
            seconds = time.perf_counter() - started
            print(f"step {step + 1}: {np.mean(recent[-50:]):.4f}, {seconds:.0f} s", file=sys.stderr, flush=True)
    trained.eval()
    return time.perf_counter() - started


@torch.no_grad()
def held_out_losses(base: Any, plugin: nn.Module | None, data: ControlSet, shift: int = 0) -> NDArray[np.float64]:
    """Loss of each sample (N,) at the same noise whatever is measured; `shift` gives every sample another one's condition."""
    rounds = []
    for seed in range(4):
        generator, found = torch.Generator().manual_seed(seed), list[NDArray[np.float64]]()
        for start in range(0, len(data), 32):
            index_B = torch.arange(start, min(start + 32, len(data)))
            batch = data.batch(index_B, CPU)
            batch["condition_BCHW"] = data.batch((index_B + shift) % len(data), CPU)["condition_BCHW"]
            found.append(flow_loss(base, plugin, batch, generator).double().numpy())
        rounds.append(np.concatenate(found))
    return np.mean(rounds, axis=0)


@torch.no_grad()
def drawn(base: Any, plugin: nn.Module | None, pipe: Any, data: ControlSet, plan: Plan, shift: int = 0) -> NDArray[np.uint8]:
    """A picture of each sample's prompt (N, S, S, 3), from the same noise whatever steers; the plugin runs once a picture."""
    generator, pictures = torch.Generator().manual_seed(99), list[NDArray[np.uint8]]()
    for start in range(0, len(data), 32):
        index_B = torch.arange(start, min(start + 32, len(data)))
        batch = data.batch(index_B, CPU)
        condition = data.batch((index_B + shift) % len(data), CPU)["condition_BCHW"]
        residuals = None if plugin is None else plugin(condition)
        scheduler = FlowMatchEulerDiscreteScheduler()
        scheduler.set_timesteps(plan.sampling_steps)
        x_Bchw = torch.randn(batch["latent_Bchw"].shape, generator=generator)
        for timestep in scheduler.timesteps:
            said = velocity(base, x_Bchw, (timestep / 1000.0).expand(len(x_Bchw)), batch["text_BLD"], residuals)
            x_Bchw = scheduler.step(said, timestep, x_Bchw).prev_sample
        decoded = pipe.vae.decode(x_Bchw / pipe.vae.config.scaling_factor).sample
        scaled = ((decoded / 2 + 0.5).clamp(0, 1) * 255).round().permute(0, 2, 3, 1)
        pictures.append(scaled.to(torch.uint8).numpy())
    return np.concatenate(pictures)


def errors(pictures_NHWC: NDArray[np.uint8], data: ControlSet) -> NDArray[np.float64]:
    """1 - F1 of each picture's edges against the ones that were asked for (N,)."""
    canny = build_condition("canny")
    wanted_NHW = np.asarray(data.condition[data.rows])[..., 0] > 0
    found = [canny.render(picture, SIZE)[..., 0] > 0 for picture in pictures_NHWC]
    return np.array([1 - edge_scores(a, b, TOLERANCE * SIZE)[2] for a, b in zip(found, wanted_NHW, strict=True)])


def measured(name: str, values_SN: list[NDArray[np.float64]], base_N: NDArray[np.float64]) -> dict[str, Any]:
    """A row: the mean over pictures and seeds and the paired difference to the base alone, with intervals over pictures."""
    subjects_N = np.arange(len(base_N))
    mean_N = np.mean(values_SN, axis=0)
    return {
        "name": name,
        "value": asdict(mean_estimate(mean_N, subjects_N, 0)),
        "minus_base": asdict(mean_estimate(mean_N - base_N, subjects_N, 0)),
        "seeds": [float(values_N.mean()) for values_N in values_SN],
        "minus_base_seeds": [asdict(mean_estimate(values_N - base_N, subjects_N, 0)) for values_N in values_SN],
    }


def base_of(plan: Plan, data: ControlSet, work: Path) -> tuple[Any, float]:
    """The frozen base, and the seconds that its training took: from `work` where it lies there, else trained."""
    if not (work / TRAINED).is_file():
        base = new_base(plan, data)
        seconds = fit(base, None, data, steps=plan.base_steps, lr=plan.base_lr, batch=plan.batch, seed=0)
        base.save_pretrained(work)
        write_json(work / TRAINED, {"seconds": seconds})
    base = SD3Transformer2DModel.from_pretrained(work).requires_grad_(False).eval()
    return base, float(read_json(work / TRAINED)["seconds"])


def cost(base: Any, plugin: DiTPlugin, data: ControlSet) -> dict[str, float]:
    """Median seconds of one step of the base for one picture, without and with residuals, and of the plugin's one run."""
    batch = data.batch(torch.zeros(1, dtype=torch.long), CPU)
    latent, text, when = batch["latent_Bchw"], batch["text_BLD"], torch.tensor([0.5])
    residuals = plugin(batch["condition_BCHW"])
    calls = {
        "step": lambda: velocity(base, latent, when, text, None),
        "step_with_residuals": lambda: velocity(base, latent, when, text, residuals),
        "plugin": lambda: plugin(batch["condition_BCHW"]),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(30):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - started)
    return {name: float(np.median(values)) for name, values in found.items()}


def parameters(module: nn.Module) -> int:
    """Numbers in a network."""
    return sum(item.numel() for item in module.parameters())


def measure(plan: Plan, work: Path) -> tuple[dict[str, Any], Any]:
    """Trains and measures everything; the facts, and a sheet of the first pictures."""
    pipe = load_base("small", device=CPU)
    dataset = load_dataset(plan.spec, SIZE, show=False)
    data, _ = load_control_set(pipe, dataset, "canny", captions=1, show=False)
    train, held = data.subset(data.ids[: -plan.held_out]), data.subset(data.ids[-plan.held_out :])
    base, base_seconds = base_of(plan, train, work)
    loss_N, bare = held_out_losses(base, None, held), drawn(base, None, pipe, held, plan)
    error_N = errors(bare, held)
    losses: dict[str, list[NDArray[np.float64]]] = {"plugin": [], "plugin, another's edges": []}
    control: dict[str, list[NDArray[np.float64]]] = {name: [] for name in losses}
    seconds, sheet = list[float](), list[Any]()
    for seed in plan.seeds:
        torch.manual_seed(seed)
        plugin = DiTPlugin.for_transformer(base, condition="canny")
        seconds.append(fit(base, plugin, train, steps=plan.plugin_steps, lr=plan.plugin_lr, batch=plan.batch, seed=100 + seed))
        for name, shift in zip(losses, (0, 1), strict=True):
            losses[name].append(held_out_losses(base, plugin, held, shift))
            pictures = drawn(base, plugin, pipe, held, plan, shift)
            control[name].append(errors(pictures, held))
            sheet.append(pictures)
            print(f"{name}: {control[name][-1].mean():.4f}, base {error_N.mean():.4f}", file=sys.stderr, flush=True)
    with torch.no_grad():
        timing = cost(base, plugin, held)
    large = {"num_attention_heads": 24, "attention_head_dim": 64, "num_layers": 24, "patch_size": 2, "sample_size": 64}
    facts = {
        "schema": SCHEMA, "plan": asdict(plan), "pictures": len(held), "trained_on": len(train), "size": SIZE,
        "base_digest": base_digest(pipe), "parameters": {
            "base": parameters(base), "plugin": parameters(plugin),
            "plugin_sd3_medium": parameters(DiTPlugin.for_transformer(large, condition="canny")),
        },
        "seconds": {"base_training": base_seconds, "plugin_training": seconds, **timing},
        "loss": [measured("base", [loss_N], loss_N), *(measured(name, found, loss_N) for name, found in losses.items())],
        "control_error": [
            measured("base", [error_N], error_N), *(measured(name, found, error_N) for name, found in control.items())
        ],
        "versions": versions(),
    }  # fmt: skip
    shown = [np.asarray(data.condition[held.rows]), bare, sheet[0], dataset.pixels(range(len(dataset)))[held.rows]]
    return facts, shown


def described(facts: dict[str, Any]) -> str:
    """The table that docs/plugins.md shows: means with intervals over pictures, and the ends of what single seeds have."""
    lines = [
        "| | control error | minus the base | single seeds | held-out loss | minus the base |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for error, loss in zip(facts["control_error"], facts["loss"], strict=True):
        cells = [error["name"], _interval(error["value"])]
        alone = error["name"] == "base"
        seeds = sorted(item["value"] for item in error["minus_base_seeds"])
        cells += ["", ""] if alone else [_interval(error["minus_base"], sign=True), span(seeds[0], seeds[-1], sign=True)]
        cells += [_interval(loss["value"]), "" if alone else _interval(loss["minus_base"], sign=True)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(found: dict[str, float], *, sign: bool = False) -> str:
    value = signed(found["value"]) if sign else fixed(found["value"])
    return f"{value} ({span(found['low'], found['high'], sign=sign)})"


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/flow-dit"), show_default=True)
@click.option("--sheet", type=click.Path(path_type=Path), help="PNG of the first pictures: edges, base, plugin, source.")
@click.option("--base-steps", type=int, default=Plan.base_steps, show_default=True)
@click.option("--plugin-steps", type=int, default=Plan.plugin_steps, show_default=True)
def main(out: Path, work: Path, sheet: Path | None, base_steps: int, plugin_steps: int) -> None:
    """Trains the base and its plugins, draws, and writes OUT."""
    from PIL import Image

    use_threads(1)
    facts, shown = measure(Plan(base_steps=base_steps, plugin_steps=plugin_steps), work)
    write_json(out, facts)
    if sheet is not None:
        image_grid([[Image.fromarray(picture) for picture in row[:8]] for row in shown]).save(sheet)
    print(described(facts))


if __name__ == "__main__":
    main()
