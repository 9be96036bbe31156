"""Plugin, ControlNet and T2I-Adapter beside one frozen base: where they start, what learns, what they are shown."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unplug.core import InputError, UnplugError
from unplug.sdk.diffusion import CONTROLS, ControlRecipe, ControlSet, fit_control, use_fast_attention
from unplug.sdk.diffusion.control import parts_of
from unplug.sdk.diffusion.control_training import ControlLoss
from unplug.sdk.diffusion.digest import weights_digest

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


def test_a_copy_shares_the_base(base: Any) -> None:
    control, network = made("plugin", base)
    model = ControlLoss(control, network, base, "cubic", "noise")
    twin = copy.deepcopy(model)
    assert twin.frozen[1] is base.unet and twin.network is not network
    assert all(torch.equal(a, b) for a, b in zip(twin.parameters(), model.parameters(), strict=True))


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
def test_attention_matrices_are_only_written_out_where_they_are_small(
    channels: tuple[int, ...], device: str, changed: bool
) -> None:
    calls: list[Any] = []
    unet = SimpleNamespace(config=SimpleNamespace(block_out_channels=channels), set_attn_processor=calls.append)
    use_fast_attention(unet, torch.device(device))
    assert bool(calls) == changed
