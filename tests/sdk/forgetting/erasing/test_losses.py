"""Losses of erasures that take gradient steps, by hand on networks of one number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unplug.sdk.drawing.diffusion import updates_of, weights_digest
from unplug.sdk.drawing.diffusion.small import build_scheduler
from unplug.sdk.forgetting.erasing import build_erasure
from unplug.sdk.forgetting.erasing.methods.ca import Ablation
from unplug.sdk.forgetting.erasing.methods.mace import Attention
from unplug.sdk.forgetting.erasing.tuning import PairRows, Redirect, said_rows

from .conftest import FEW, Make

SAID, MEANT, OTHER = 3, 1, 5
PAIR, STAYS = [[SAID] * 2, [MEANT] * 2], [[OTHER] * 2] * 2
"""Token ids of two prompts of two tokens."""


class Answers(nn.Module):
    """A UNet that answers a weight times the text's number everywhere."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, x: Tensor, _: Tensor, text_BLD: Tensor) -> Any:
        number_B111 = text_BLD[:, 0, 0].view(-1, 1, 1, 1)
        return SimpleNamespace(sample=self.weight * number_B111 * torch.ones_like(x))


def numbers(ids_BL: Tensor) -> tuple[Tensor]:
    """A text encoder whose states are the ids."""
    return (ids_BL[..., None].float(),)


PARTS: dict[str, Any] = {"text_encoder": numbers, "scheduler": build_scheduler()}


def loss_of(model: nn.Module, *pairs: list[list[int]]) -> Tensor:
    latent_Bchw = torch.zeros(len(pairs), 1, 2, 2)
    loss: Tensor = model(latent_Bchw, torch.tensor(pairs), torch.Generator().manual_seed(0))
    return loss


@pytest.mark.parametrize(("eta", "target"), [(0.0, 3.0), (1.0, 1.0), (2.0, -1.0)])
def test_redirected_answers_go_beyond_what_is_meant(eta: float, target: float) -> None:
    """v* is 3 for what is said and 1 for what is meant: 3 - eta (3 - 1)."""
    parts = {**PARTS, "teacher": Answers(1.0), "eta": eta, "keep": 10.0, "scattered": 0.0}
    assert loss_of(Redirect(Answers(0.0), **parts), PAIR).item() == target**2
    assert loss_of(Redirect(Answers(1.0), **parts), STAYS).item() == 0.0
    assert loss_of(Redirect(Answers(0.0), **parts), STAYS).item() == 10.0 * OTHER**2
    both = loss_of(Redirect(Answers(0.0), **parts), PAIR, STAYS).item()
    assert both == (target**2 + 10.0 * OTHER**2) / 2


def test_scattered_prompts_are_noise_of_the_same_size() -> None:
    seen = list[Tensor]()

    def teacher(x: Tensor, _: Tensor, text_BLD: Tensor) -> Any:
        seen.append(text_BLD)
        return SimpleNamespace(sample=torch.zeros_like(x))

    parts = {**PARTS, "teacher": teacher, "eta": 1.0, "keep": 1.0, "scattered": 1.0}
    loss_of(Redirect(Answers(0.0), **parts), PAIR, STAYS)
    assert seen[0][0].flatten().tolist() == [MEANT, MEANT]
    assert seen[0][1].flatten().tolist() != [OTHER, OTHER]
    assert seen[0][1].norm().item() == pytest.approx(OTHER * 2**0.5)


def test_ablation_moves_the_concept_and_not_its_anchor() -> None:
    """(2 * 3 - 2 * 1)^2 = 16; its slope at the stopped anchor is 2 * 4 * 3, not 2 * 4 * (3 - 1)."""
    unet = Answers(2.0)
    loss = loss_of(Ablation(unet, **PARTS, prior=0.0), PAIR)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 16.0 and unet.weight.grad is not None and unet.weight.grad.item() == 24.0
    prior = loss_of(Ablation(Answers(0.0), **PARTS, prior=1.0), STAYS).item()
    assert loss_of(Ablation(Answers(0.0), **PARTS, prior=3.0), STAYS).item() == pytest.approx(
        3 * prior
    )


def test_half_of_the_pairs_are_prompts_that_stay() -> None:
    rows = PairRows(
        torch.arange(4.0).view(4, 1, 1, 1),
        torch.tensor(PAIR).expand(4, 2, 2),
        torch.tensor([[OTHER] * 2]),
        torch.device("cpu"),
    )
    drawn = rows(torch.Generator().manual_seed(0), 1000)["ids_B2L"]
    stays = (drawn[:, 0] == OTHER).all(dim=1)
    assert (drawn[:, 0] == drawn[:, 1]).all(dim=1).equal(stays)
    assert 450 < int(stays.sum()) < 550


@pytest.mark.nightly
def test_salun_moves_the_share_that_it_is_told(make: Make) -> None:
    moved = {}
    for ratio in (0.05, 1.0):
        problem = make()
        build_erasure("salun", {**FEW, "layers": "all", "ratio": str(ratio)})(problem)
        old = problem.original.unet.state_dict()
        pairs = [(value, old[name]) for name, value in problem.base.unet.state_dict().items()]
        count = sum(value.numel() for value, _ in pairs)
        moved[ratio] = sum(int((value != other).sum()) for value, other in pairs) / count
    assert 0.02 < moved[0.05] <= 0.05 < 0.5 < moved[1.0]


@pytest.mark.nightly
def test_spm_changes_every_layer_by_rank_one(make: Make) -> None:
    problem = make()
    build_erasure("spm", {**FEW, "layers": "all"})(problem)
    old, seen = problem.original.unet.state_dict(), 0
    for name, value in problem.base.unet.state_dict().items():
        if not torch.equal(value, old[name]):
            size = torch.linalg.svdvals((value - old[name]).double().flatten(1))
            assert size[1] < 1e-3 * size[0]  # the rounding of float32
            seen += 1
    assert seen > 10


@pytest.mark.nightly
def test_mace_takes_attention_from_the_words(make: Make) -> None:
    problem = make()
    method = build_erasure("mace", {**FEW, "steps": "40", "lr": "0.1"})
    update = method._silence(problem, "")  # type: ignore[attr-defined]
    rows = said_rows(problem, problem.prompts[:2])
    original, sizes = problem.original, list[float]()
    for _ in range(2):
        model = Attention(
            problem.base.unet,
            text_encoder=original.text_encoder,
            scheduler=original.scheduler,
            end=original.tokenizer.eos_token_id,
        )
        with torch.no_grad():
            generator = torch.Generator().manual_seed(5)
            sizes.append(model(rows.latent_Nchw, rows.ids_N2L.long(), generator).item())
            for name, change in update.items():
                problem.base.unet.get_submodule(name).weight += change
    assert sizes[1] < 0.8 * sizes[0]
    assert weights_digest(original.unet) != weights_digest(problem.base.unet)
    assert not updates_of(problem.base.unet)
