"""Packed samples, the loss of each, and a plugin as a module, against the formulas written out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import NoiseSet, Steered, base_digest, losses
from unplug.sdk.drawing.diffusion.measure import LEVELS, fixed_noise, fixed_steps, level_mean
from unplug.sdk.learning.training import LossPredictions, predict

from .conftest import CPU, PluginWorld

SAME_SUM = 1e-5
"""Relative: float32 means over 64 numbers, batched in another way."""


def network_of(world: PluginWorld) -> Steered:
    found = world.task.network(world.original.model)
    assert isinstance(found, Steered)
    return found.eval()


def frame_of(part: Any) -> Any:
    assert isinstance(part, NoiseSet)
    return part.frame


def written_out(world: PluginWorld, place: int, level: int) -> float:
    """|v - v'(sqrt(a) x + sqrt(1 - a) e, t, c; plugin)|^2 with v = sqrt(a) e - sqrt(1 - a) x, from
    the arrays alone.
    """
    part, pipe = world.sets.forget, world.pipe
    assert isinstance(part, NoiseSet)
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


def test_the_loss_of_a_sample_is_the_formula(plugin_world: PluginWorld) -> None:
    part = plugin_world.sets.forget
    index_B = torch.tensor([3, 0, 9])
    batch = part.batch(index_B)
    with torch.no_grad():
        outputs = network_of(plugin_world)(*batch.inputs)
    wanted = [written_out(plugin_world, place, place % LEVELS) for place in index_B.tolist()]
    assert outputs["loss"].tolist() == pytest.approx(wanted, rel=SAME_SUM)
    assert len(set(wanted)) == 3


def test_predictions_are_means_over_all_levels(plugin_world: PluginWorld) -> None:
    own = predict(network_of(plugin_world), plugin_world.sets.forget)
    assert isinstance(own, LossPredictions) and own.plain_N is not None
    wanted = np.mean([written_out(plugin_world, 2, level) for level in range(LEVELS)])
    assert own.error_N[2] == pytest.approx(wanted, rel=SAME_SUM)
    assert len(own.error_N) == len(plugin_world.sets.forget)
    assert (np.abs(own.plain_N - own.error_N) > 1e-6).all()  # a plugin was there and did something


@pytest.mark.long
def test_predictions_do_not_depend_on_batches_and_leave_the_mode(plugin_world: PluginWorld) -> None:
    part, model = plugin_world.sets.test, network_of(plugin_world)
    assert isinstance(part, NoiseSet)
    whole = predict(model.train(), part).error_N
    assert model.training
    single = np.concatenate(
        [predict(model, part.subset([place])).error_N for place in range(len(part))]
    )
    assert whole == pytest.approx(single, rel=SAME_SUM)
    small = losses(
        part.frame.control,
        model.network,
        part.frame.base,
        part.control_set,
        device=CPU,
        batch_size=3,
    )
    assert whole == pytest.approx(
        level_mean(small, part.frame.base, part.frame.weighting).numpy(), rel=SAME_SUM
    )


def test_the_bare_base_is_measured_once(
    plugin_world: PluginWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = plugin_world.sets.test.subset([0, 1])
    calls: list[object] = []

    def counted(control: object, *rest: Any, **more: Any) -> Tensor:
        calls.append(control)
        return losses(control, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("unplug.sdk.drawing.diffusion.task.losses", counted)
    first, second = (predict(network_of(plugin_world), part) for _ in range(2))
    assert [control is None for control in calls] == [False, True, False]
    assert isinstance(first, LossPredictions) and isinstance(second, LossPredictions)
    assert first.plain_N is not None and second.plain_N is not None
    assert first.plain_N.tolist() == second.plain_N.tolist()


def test_a_batch_is_the_data_at_fixed_noise(plugin_world: PluginWorld) -> None:
    part = plugin_world.sets.train
    assert isinstance(part, NoiseSet)
    index_B = torch.tensor([1, 4])
    batch = part.batch(index_B)
    assert sum(value[0].numel() for value in batch.inputs) == part.frame.floats
    assert [value.shape for value in part.frame.example(2, CPU)] == [
        value.shape for value in batch.inputs
    ]
    clean = part.control_set.batch(index_B, CPU)
    assert all(torch.equal(getattr(batch, name), value) for name, value in clean.items())
    assert batch.step_B.tolist() == [fixed_steps(1000)[1], fixed_steps(1000)[4]]
    assert torch.equal(batch.noise_Bchw[1], fixed_noise(batch.latent_Bchw.shape[1:], 0, 4))


def test_a_view_changes_noise_level_and_some_prompts_alone(plugin_world: PluginWorld) -> None:
    part = plugin_world.sets.train
    assert isinstance(part, NoiseSet)
    index_B = torch.arange(len(part))
    batch = part.batch(index_B)
    seen = part.view(batch, "none", torch.Generator().manual_seed(0))
    again = part.view(batch, "none", torch.Generator().manual_seed(0))
    other = part.view(batch, "none", torch.Generator().manual_seed(1))
    assert all(torch.equal(one, two) for one, two in zip(seen.inputs, again.inputs, strict=True))
    assert not torch.equal(seen.noise_Bchw, other.noise_Bchw)
    assert seen.latent_Bchw is batch.latent_Bchw and seen.condition_BCHW is batch.condition_BCHW
    assert (
        len({float(item[0, 0, 0]) for item in seen.noise_Bchw}) == len(part)
        and len(set(seen.step_B.tolist())) > 5
    )
    assert bool(((seen.step_B >= 0) & (seen.step_B < 1000)).all())
    empty = torch.from_numpy(np.array(part.control_set.empty)).float()
    left_out = [torch.equal(item, empty) for item in seen.text_BLD]
    kept = [
        torch.equal(item, whole) for item, whole in zip(seen.text_BLD, batch.text_BLD, strict=True)
    ]
    assert all(gone != stays for gone, stays in zip(left_out, kept, strict=True))


def test_subsets_keep_order_and_subjects(plugin_world: PluginWorld) -> None:
    part = plugin_world.sets.train
    assert (
        part.subset([]).ids == ()
        and len(part.subset([]).batch(torch.zeros(0, dtype=torch.long))) == 0
    )
    some = part.subset(torch.tensor([5, 2]))
    assert some.ids == (part.ids[5], part.ids[2])
    assert some.subject_N.tolist() == [part.subject_N[5], part.subject_N[2]]
    people = {sample.id: sample.subject for sample in plugin_world.dataset.samples}
    number = dict(zip(part.ids, part.subject_N.tolist(), strict=True))
    same = {
        (people[one] == people[other]) == (number[one] == number[other])
        for one in part.ids
        for other in part.ids
    }
    assert same == {True}
    assert part.holds() == {"labels"} and part.shown(labels=False, ages=False) is part


def test_a_copy_has_its_own_plugin_and_the_same_base(plugin_world: PluginWorld) -> None:
    model = network_of(plugin_world)
    twin = copy.deepcopy(model)
    assert twin.network is not model.network and twin.frozen[0].base is model.frozen[0].base
    assert all(name.startswith("network.") for name in model.state_dict())
    wanted = sum(value.numel() for value in plugin_world.original.model.parameters())
    assert (
        sum(value.numel() for value in model.parameters())
        == wanted
        == plugin_world.original.record["parameters"]
    )


def test_gradients_reach_the_plugin_and_never_the_base(plugin_world: PluginWorld) -> None:
    before = base_digest(plugin_world.pipe)
    model = copy.deepcopy(network_of(plugin_world)).train()
    model(*plugin_world.sets.train.batch(torch.arange(3)).inputs)["loss"].sum().backward()
    grads = [parameter.grad for parameter in model.parameters()]
    assert all(grad is not None and bool(torch.isfinite(grad).all()) for grad in grads)
    assert any(float(grad.abs().max()) > 0 for grad in grads if grad is not None)
    assert all(parameter.grad is None for parameter in plugin_world.pipe.unet.parameters())
    assert base_digest(plugin_world.pipe) == before


def test_the_task_is_minus_log_p_and_has_no_classes(plugin_world: PluginWorld) -> None:
    task, outputs = plugin_world.task, {"loss": torch.tensor([0.25, 2.0])}
    batch: Any = None
    assert task.loss(plugin_world.original.model, outputs, batch).tolist() == [0.25, 2.0]
    assert task.log_prob(outputs, batch).tolist() == [-0.25, -2.0]
    assert task.ignorance == 1.0
    with pytest.raises(InputError, match="no class logits"):
        task.logits(outputs)
