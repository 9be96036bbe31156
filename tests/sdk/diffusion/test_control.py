"""Plugin, ControlNet and T2I-Adapter beside one frozen base: where they start, what learns, and their losses at fixed noise."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unplug.core import InputError, UnplugError
from unplug.sdk.diffusion import CONTROLS, ControlRecipe, ControlSet, fit_control, losses, mean_loss, use_fast_attention
from unplug.sdk.diffusion.control import parts_of
from unplug.sdk.diffusion.control_training import ControlLoss
from unplug.sdk.diffusion.digest import weights_digest
from unplug.sdk.diffusion.measure import LEVELS, fixed_noise, fixed_steps

from .conftest import CPU, SIZE, steering_plugin, tiny_unet

KINDS = ("plugin", "controlnet", "t2i-adapter")
RECIPE = ControlRecipe(steps=2, batch_size=2, warmup=0, precision="fp32")


def made(kind: str, base: Any, seed: int = 0) -> tuple[Any, nn.Module]:
    torch.manual_seed(seed)
    control = CONTROLS.get(kind)()
    return control, control.build(base.unet, condition="canny", image_size=SIZE)


def shown(base: Any, count: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    noisy = torch.randn(count, 4, 8, 8, generator=generator)
    text = torch.randn(count, 16, 32, generator=generator)
    return noisy, torch.tensor([7, 800])[:count], text, torch.rand(count, 3, SIZE, SIZE, generator=generator)


def test_what_no_control_can_be_made_of_is_refused(base: Any) -> None:
    assert set(CONTROLS) >= set(KINDS)
    with pytest.raises(InputError, match=r"control 'plugins'.*plugin"):
        CONTROLS.get("plugins")
    other = steering_plugin(tiny_unet(channels=(16, 24)))
    pipeline = CONTROLS.get("plugin")().pipeline
    for network in (other, [steering_plugin(base.unet), other]):
        with pytest.raises(UnplugError, match=r"canny plugin: made for another base \(.*24.*32"):
            pipeline(base, network)
    plugin = steering_plugin(base.unet, input_range=(-1.0, 1.0))
    with pytest.raises(InputError, match=r"takes values in \[-1, 1\] and diffusers' pipelines feed \[0, 1\]"):
        CONTROLS.get("plugin")().pipeline(base, plugin)


@pytest.mark.parametrize("kind", KINDS)
def test_where_training_starts(kind: str, base: Any) -> None:
    """Zero projections and zero convolutions: at the bare base, to the bit. T2I-Adapter has none."""
    control, network = made(kind, base)
    noisy, steps, text, condition = shown(base)
    with torch.no_grad():
        bare = base.unet(noisy, steps, text).sample
        steered = base.unet(noisy, steps, text, **control.residuals(network.eval(), noisy, steps, text, condition)).sample
    if kind == "t2i-adapter":
        assert (steered - bare).abs().max() > 1e-3
    else:
        assert torch.equal(steered, bare)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_the_control_and_nothing_else(kind: str, base: Any, control_set: ControlSet) -> None:
    control, network = made(kind, base)
    before = weights_digest(base.unet)
    model = ControlLoss(control, network.train(), base, "uniform", "velocity")
    assert {name.split(".")[0] for name in model.state_dict()} == {"network"}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator, batch = torch.Generator().manual_seed(1), control_set.batch(torch.arange(2), CPU)
    for _ in range(3):  # what stands in front of a zero projection has a gradient once that has moved
        optimizer.zero_grad()
        model(**batch, generator=generator).backward()
        optimizer.step()
    lost = [name for name, value in network.named_parameters() if value.grad is None or not value.grad.any()]
    assert not lost
    assert all(value.grad is None for part in (base.unet, base.vae, base.text_encoder) for value in part.parameters())
    assert weights_digest(base.unet) == before and not base.unet.training


def test_two_controls_with_a_seed_see_the_same_batches(base: Any, control_set: ControlSet) -> None:
    seen: dict[tuple[str, int], list[tuple[Tensor, ...]]] = {}
    for kind in KINDS:
        for seed in (0, 1):
            rows = seen.setdefault((kind, seed), [])
            hook = base.unet.register_forward_pre_hook(lambda _, given, rows=rows: rows.append(given))
            fit_control(
                CONTROLS.get(kind)(), base, control_set, RECIPE, condition="canny", image_size=SIZE, seed=seed, device=CPU,
                show=False,
            )  # fmt: skip
            hook.remove()
    first = seen["plugin", 0]
    assert len(first) == RECIPE.steps and not torch.equal(first[0][0], first[1][0])
    for kind in KINDS:
        for mine, theirs in zip(first, seen[kind, 0], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True)), kind
        assert not torch.equal(seen[kind, 1][0][0], first[0][0])


def test_a_copy_shares_the_base_and_the_network_comes_back_as_it_was(base: Any, some: ControlSet) -> None:
    control, network = made("plugin", base)
    model = ControlLoss(control, network, base, "cubic", "noise")
    twin = copy.deepcopy(model)
    assert twin.frozen[1] is base.unet and twin.network is not network
    assert all(torch.equal(a, b) for a, b in zip(twin.parameters(), model.parameters(), strict=True))
    for training in (True, False):
        network = steering_plugin(base.unet).train(training)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        losses(CONTROLS.get("plugin")(), network, base, some, device=CPU, levels=2)
        assert network.training == training
        assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert fixed_steps(1000) == [62, 187, 312, 437, 562, 687, 812, 937]
    assert fixed_steps(8) == list(range(8)) and fixed_steps(10, 1) == [5]


@pytest.mark.parametrize("kind", KINDS)
def test_pipelines_share_the_base(kind: str, base: Any) -> None:
    control, network = made(kind, base)
    pipe = control.pipeline(base, network)
    assert pipe.unet is base.unet and pipe.vae is base.vae and control.every_step == (kind == "controlnet")
    assert set(parts_of(base)) <= set(pipe.components) | {"requires_safety_checker"}
    image = torch.zeros(1, 3, SIZE, SIZE)
    pipe.set_progress_bar_config(disable=True)
    made_latent = pipe("a child", image=image, num_inference_steps=1, height=SIZE, width=SIZE, output_type="latent").images
    assert tuple(made_latent.shape) == (1, 4, 8, 8)


@pytest.mark.parametrize(
    ("channels", "device", "changed"), [((96, 192), "cpu", True), ((320, 1280), "cpu", False), ((96, 192), "cuda", False)]
)
def test_attention_is_only_written_out_where_it_is_small(channels: tuple[int, ...], device: str, changed: bool) -> None:
    calls: list[Any] = []
    unet = SimpleNamespace(config=SimpleNamespace(block_out_channels=channels), set_attn_processor=calls.append)
    use_fast_attention(unet, torch.device(device))
    assert bool(calls) == changed


CLOSE = {"rtol": 1e-4, "atol": 1e-5}
"""Convolutions sum in another order for another batch size."""


@pytest.fixture(scope="module")
def some(control_set: ControlSet) -> ControlSet:
    return control_set.subset(control_set.ids[:5])


@pytest.fixture(scope="module")
def plugin(base: Any) -> Any:
    return steering_plugin(base.unet)


@pytest.fixture(scope="module")
def found(base: Any, plugin: Any, some: ControlSet) -> Tensor:
    return losses(CONTROLS.get("plugin")(), plugin, base, some, device=CPU)


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [1, 64])
def test_the_batch_size_does_not_matter(base: Any, plugin: Any, some: ControlSet, found: Tensor, batch_size: int) -> None:
    again = losses(CONTROLS.get("plugin")(), plugin, base, some, device=CPU, batch_size=batch_size)
    torch.testing.assert_close(again, found, **CLOSE)
    part = some.subset([some.ids[place] for place in (3, 0)])  # nor does the order
    torch.testing.assert_close(losses(CONTROLS.get("plugin")(), plugin, base, part, device=CPU), found[[3, 0]], **CLOSE)


@pytest.mark.parametrize("steered", [True, False])
def test_one_sample_at_one_level_by_hand(base: Any, plugin: Any, some: ControlSet, found: Tensor, steered: bool) -> None:
    table = found if steered else losses(None, None, base, some, device=CPU)
    assert tuple(table.shape) == (5, LEVELS) and table.dtype == torch.float32 and table.isfinite().all()
    place, level, step = 2, 5, 687  # the middle of the sixth of eight stretches of 1000: 687.5, cut
    batch = some.batch(torch.tensor([place]), CPU)
    noise = fixed_noise(torch.Size((4, 8, 8)), 0, level)[None]
    with torch.no_grad():
        share = float(base.scheduler.alphas_cumprod[step])
        noisy = share**0.5 * batch["latent_Bchw"] + (1 - share) ** 0.5 * noise
        extra = {"down_intrablock_additional_residuals": plugin(batch["condition_BCHW"])} if steered else {}
        guess = base.unet(noisy, step, batch["text_BLD"], **extra).sample
    assert float(table[place, level]) == pytest.approx(float((guess - noise).square().mean()), rel=1e-4)


def test_every_model_meets_the_same_noise(base: Any, some: ControlSet, found: Tensor) -> None:
    """A plugin that adds zeros, and a ControlNet that does, are the bare base to the bit."""
    bare = losses(None, None, base, some, device=CPU)
    assert all(torch.equal(losses(*made(kind, base), base, some, device=CPU), bare) for kind in ("plugin", "controlnet"))
    assert not torch.allclose(found, bare, **CLOSE)


def test_means_and_nothing(base: Any, plugin: Any, some: ControlSet, found: Tensor) -> None:
    control = CONTROLS.get("plugin")()
    first, share_T = found[:3], base.scheduler.alphas_cumprod[fixed_steps(1000)]
    for weighting, wanted in (("noise", first), ("velocity", first / share_T)):
        mean = mean_loss(control, plugin, base, some, weighting=weighting, device=CPU, most=3)
        assert mean == pytest.approx(float(wanted.mean()), rel=1e-4)
    assert tuple(losses(None, None, base, some.subset([]), device=CPU).shape) == (0, LEVELS)
