"""Packed samples, the loss of each, and a plugin as a module, against the formulas written out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import Steered, base_digest, losses
from unplug.sdk.drawing.diffusion.measure import LEVELS, fixed_noise, fixed_steps
from unplug.sdk.learning.training import predict

from .conftest import CPU, PluginWorld

SAME_SUM = 1e-5
"""Relative: float32 means over 64 numbers, batched in another way."""


@pytest.fixture
def network(plugin_world: PluginWorld) -> Steered:
    steered = plugin_world.task.network(plugin_world.original.model)
    assert plugin_world.task.stored(steered) is plugin_world.original.model
    return steered.eval()


def written_out(world: PluginWorld, place: int, level: int) -> float:
    """|v - v'(sqrt(a) x + sqrt(1 - a) e, t, c; plugin)|^2 with v = sqrt(a) e - sqrt(1 - a) x, from
    the arrays alone.
    """
    part, pipe = world.sets.forget, world.pipe
    data, row = part.control_set, part.control_set.rows[place]
    clean = torch.from_numpy(np.array(data.latent[row])).float()
    step = fixed_steps(1000)[level]
    noise = fixed_noise(clean.shape, 0, level)
    share = pipe.scheduler.alphas_cumprod[step]
    noisy = share.sqrt() * clean + (1.0 - share).sqrt() * noise
    text = torch.from_numpy(np.array(data.text[data.prompt[row, 0]])).float()
    condition = torch.from_numpy(np.array(data.condition[row])).permute(2, 0, 1).float() / 255.0
    with torch.no_grad():
        residuals = world.original.model(condition[None])
        guess = pipe.unet(
            noisy[None], step, text[None], down_intrablock_additional_residuals=residuals
        ).sample[0]
    velocity = share.sqrt() * noise - (1.0 - share).sqrt() * clean
    return float((guess - velocity).square().mean())


def test_the_loss_of_a_sample_is_the_formula(plugin_world: PluginWorld, network: Steered) -> None:
    part = plugin_world.sets.forget
    batch = part.batch(torch.tensor([3, 0, 9]))
    with torch.no_grad():
        outputs = network(*batch.inputs)
    wanted = [written_out(plugin_world, place, place % LEVELS) for place in (3, 0, 9)]
    assert outputs["loss"].tolist() == pytest.approx(wanted, rel=SAME_SUM)
    assert len(set(wanted)) == 3
    example = part.frame.example(3, CPU)  # what memory is measured on
    assert [value.shape for value in example] == [value.shape for value in batch.inputs]
    assert sum(value[0].numel() for value in batch.inputs) == part.frame.floats


def test_predictions_are_means_over_all_levels_and_leave_the_mode(
    plugin_world: PluginWorld, network: Steered
) -> None:
    part = plugin_world.sets.forget
    answers = predict(network.train(), part)
    assert network.training
    network.eval()
    wanted = np.mean([written_out(plugin_world, 2, level) for level in range(LEVELS)])
    assert answers.error_N[2] == pytest.approx(wanted, rel=SAME_SUM)
    assert len(answers.error_N) == len(part)
    # a plugin was there and did something
    assert (np.abs(answers.plain_N - answers.error_N) > 1e-6).all()


def test_the_bare_base_is_measured_once(
    plugin_world: PluginWorld, network: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = plugin_world.sets.test.subset([0, 1])
    bare: list[bool] = []

    def counted(control: Any, *rest: Any, **more: Any) -> Tensor:
        bare.append(control is None)
        return losses(control, *rest, **more)

    monkeypatch.setattr("unplug.sdk.drawing.diffusion.task.losses", counted)
    first, second = (predict(network, part).plain_N for _ in range(2))
    assert bare == [False, True, False]
    assert np.array_equal(first, second)


def test_a_view_changes_noise_level_and_some_prompts_alone(plugin_world: PluginWorld) -> None:
    part = plugin_world.sets.train
    batch = part.batch(torch.arange(len(part)))
    seen, again, other = (
        part.view(batch, "none", torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert all(map(torch.equal, seen.inputs, again.inputs))
    assert not torch.equal(seen.noise_Bchw, other.noise_Bchw)
    assert seen.latent_Bchw is batch.latent_Bchw and seen.condition_BCHW is batch.condition_BCHW
    assert len({float(noise[0, 0, 0]) for noise in seen.noise_Bchw}) == len(part)
    steps = seen.step_B.tolist()
    assert len(set(steps)) > 5 and min(steps) >= 0 and max(steps) < 1000
    empty = torch.from_numpy(np.array(part.control_set.empty)).float()
    for prompt, before in zip(seen.text_BLD, batch.text_BLD, strict=True):
        assert torch.equal(prompt, empty) != torch.equal(prompt, before)


def test_subsets_keep_order_and_subjects(plugin_world: PluginWorld) -> None:
    part = plugin_world.sets.train
    nobody, some = part.subset([]), part.subset(torch.tensor([5, 2]))
    assert nobody.ids == () and len(nobody.batch(torch.zeros(0, dtype=torch.long))) == 0
    assert some.ids == (part.ids[5], part.ids[2])
    assert some.subject_N.tolist() == [part.subject_N[5], part.subject_N[2]]
    people = {sample.id: sample.subject for sample in plugin_world.dataset.samples}
    pairs = {(people[name], number) for name, number in zip(part.ids, part.subject_N, strict=True)}
    assert len(pairs) == len({name for name, _ in pairs}) == len({number for _, number in pairs})
    assert part.holds() == {"labels"} and part.shown(labels=False, ages=False) is part


def test_a_copy_has_its_own_plugin_and_the_same_base(
    plugin_world: PluginWorld, network: Steered
) -> None:
    twin = copy.deepcopy(network)
    assert twin.network is not network.network and twin.frozen[0].base is network.frozen[0].base
    assert all(name.startswith("network.") for name in network.state_dict())
    count = sum(value.numel() for value in network.parameters())
    assert count == plugin_world.original.record["parameters"]


def test_gradients_reach_the_plugin_and_never_the_base(
    plugin_world: PluginWorld, network: Steered
) -> None:
    before, model = base_digest(plugin_world.pipe), copy.deepcopy(network).train()
    model(*plugin_world.sets.train.batch(torch.arange(3)).inputs)["loss"].sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None and bool(torch.isfinite(parameter.grad).all())
    assert any(bool(parameter.grad.any()) for parameter in model.parameters())
    assert all(parameter.grad is None for parameter in plugin_world.pipe.unet.parameters())
    assert base_digest(plugin_world.pipe) == before


def test_the_task_is_minus_log_p_and_has_no_classes(plugin_world: PluginWorld) -> None:
    task, outputs = plugin_world.task, {"loss": torch.tensor([0.25, 2.0])}
    batch: Any = None
    assert task.loss(plugin_world.original.model, outputs, batch).tolist() == [0.25, 2.0]
    assert task.log_prob(outputs, batch).tolist() == [-0.25, -2.0]
    assert (task.ignorance, task.unit, task.image_size) == (1.0, "loss", 32)
    with pytest.raises(InputError, match="no class logits"):
        task.logits(outputs)
