"""Erasures in closed form against slow equations in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import weights_digest
from unplug.sdk.forgetting.erasing import TextMap, build_erasure, solve_map
from unplug.sdk.forgetting.erasing.methods.mace import behind_words, words_at
from unplug.sdk.forgetting.erasing.methods.rece import reaching
from unplug.sdk.forgetting.erasing.methods.speed import SPEED, null_space
from unplug.sdk.forgetting.erasing.text_map import least_change, reads_text, text_states

from .conftest import Make

SD15 = [width for width, layers in ((320, 5), (640, 5), (1280, 6)) for _ in range(layers)]
"""Output channels of the 16 cross-attention layers of Stable Diffusion 1.5."""
EXACT = 1e-10
"""Relative, in float64: two ways through one inverse."""


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def far(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


def edited(weight: Tensor, edit: TextMap) -> Tensor:
    return weight + (weight @ edit.second_Dr) @ edit.first_rD


def test_one_map_is_the_equation_of_every_layer_of_stable_diffusion() -> None:
    """UCE: W' = (keep W + sum W g c^T + sum W p p^T) (keep I + sum c c^T + sum p p^T)^-1."""
    width, keep = 768, 0.5
    said, meant, kept = normal(20, width), normal(20, width, seed=1), normal(30, width, seed=2)
    edit = solve_map(said, meant, kept, keep=keep, rank=width)
    right = keep * torch.eye(width, dtype=torch.float64)
    for state in (*said, *kept):
        right += state[:, None] * state
    inverse = torch.linalg.inv(right)
    for number, channels in enumerate(SD15):
        for part in (0, 1):  # keys, values
            weight = normal(channels, width, seed=3 + 2 * number + part)
            left = keep * weight + (weight @ meant.T) @ said + (weight @ kept.T) @ kept
            assert far(edited(weight, edit), left @ inverse) < EXACT


def test_of_a_rank_no_map_near_it_is_better() -> None:
    said, gap, kept = normal(30, 12), normal(30, 12, seed=1), normal(9, 12, seed=2)

    def cost(first: Tensor, second: Tensor) -> float:
        change = second @ first
        moved, stayed = (said @ change.T - gap), kept @ change.T
        return float(sum(one.square().sum() for one in (moved, stayed)) + change.square().sum())

    first, second = least_change(gap, said, kept, keep=1.0, rank=3)
    assert first.shape == (3, 12) and second.shape == (12, 3)
    best = cost(first, second)
    for seed in range(40):
        near = (1e-3 * normal(3, 12, seed=seed), 1e-3 * normal(12, 3, seed=seed + 50))
        assert cost(first + near[0], second + near[1]) > best
    left, size, right = torch.linalg.svd(
        torch.matmul(*reversed(least_change(gap, said, kept, keep=1.0, rank=12)))
    )
    assert cost(right[:3], left[:, :3] * size[:3]) > best


def test_rece_without_rounds_is_uce(make: Make) -> None:
    digests = {}
    for name, options in (
        ("uce", {"rank": "3"}),
        ("rece", {"rank": "3", "rounds": "0"}),
        ("rece", {"rank": "3", "rounds": "1"}),
    ):
        problem = make()
        build_erasure(name, options)(problem)
        digests[name, str(options)] = weights_digest(problem.base.unet)
    uce, none, one = digests.values()
    assert uce == none != one


def test_states_that_reach_the_concept_again_are_a_least_squares_solution() -> None:
    """min |W M c' - W c|^2 + near |c'|^2, here as one tall system."""
    width, near = 10, 0.1
    layers = [normal(6, width, seed=seed) for seed in (1, 2)]
    edit, said = TextMap(normal(2, width, seed=3), normal(width, 2, seed=4)), normal(5, width)
    weight = torch.cat(layers)
    found = reaching(edit, weight.T @ weight, said, near)
    matrix = torch.eye(width, dtype=torch.float64) + edit.second_Dr @ edit.first_rD
    identity = torch.eye(width, dtype=torch.float64)
    tall = torch.cat([weight @ matrix, near**0.5 * identity])
    wanted = torch.cat([weight @ said.T, torch.zeros(width, len(said), dtype=torch.float64)])
    assert far(found, torch.linalg.lstsq(tall, wanted).solution.T) < EXACT


def test_a_null_space_gives_the_change_that_the_paper_writes() -> None:
    """(A - T) P (I - M K (K^T P M K)^-1 K^T P) M with A = t c^T, T = c c^T, M = (T P + keep I)^-1."""
    width, keep = 16, 0.3
    said, gap = normal(20, width), normal(20, width, seed=1)
    retained, fixed = normal(6, width, seed=2), normal(3, width, seed=3)
    identity = torch.eye(width, dtype=torch.float64)
    only = null_space(retained, fixed[:0], 1e-12)
    project = only @ only.T
    middle = torch.linalg.inv(said.T @ said @ project + keep * identity)
    inner = torch.linalg.inv(fixed @ project @ middle @ fixed.T)
    bend = identity - middle @ fixed.T @ inner @ fixed @ project
    expected = (gap.T @ said) @ project @ bend @ middle
    free = null_space(torch.cat([retained, fixed]), fixed, 1e-12)
    assert free.shape == (width, width - 9)
    inside = null_space(retained, fixed, 1e-12)
    assert far(inside @ inside.T, free @ free.T) < EXACT
    first, second = least_change(gap, said @ inside, said[:0] @ inside, keep=keep, rank=width)
    assert far(second @ first @ inside.T, expected) < 1e-8  # its M is not symmetric
    for state in (*retained, *fixed):
        assert (second @ first @ inside.T @ state).abs().max() < 1e-6


def test_speed_leaves_the_empty_prompt_and_needs_a_free_direction(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make(prompts=("a child", "a sad child"))
    edit = build_erasure("speed", {"null": "1e-3"})(problem)
    assert edit is not None
    empty = text_states(problem.original, [""])[0]
    assert (edit(empty) - empty).abs().max() < 1e-6
    full = null_space(normal(40, 32), normal(1, 32), 1e-12)
    assert full.shape == (32, 0)
    monkeypatch.setattr(f"{SPEED.__module__}.null_space", lambda *_: full)
    with pytest.raises(InputError, match="no direction"):
        SPEED()(problem)


def test_words_are_found_and_what_stands_behind_them_is_paired(make: Make) -> None:
    ids = torch.tensor([[[0, 5, 7, 8, 1, 1], [0, 5, 9, 1, 1, 1]], [[0, 5, 1, 1, 1, 1]] * 2])
    assert words_at(ids, 1).int().tolist() == [[0, 0, 1, 1, 0, 0], [0] * 6]
    problem = make()
    said, meant = behind_words(problem)
    first = text_states(problem.original, problem.pairs()[0])
    tokens = [len(problem.original.tokenizer(text).input_ids) for text in problem.pairs()[0]]
    count = first.shape[1] - max(tokens) + 1
    assert torch.equal(said[:count], first[0, tokens[0] - 1 : tokens[0] - 1 + count])
    assert torch.equal(meant[:count], first[1, tokens[1] - 1 : tokens[1] - 1 + count])


def test_mace_without_updates_is_its_closed_form_refinement(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unplug.sdk.forgetting.erasing.methods.mace import MACE

    problem = make()
    nothing: dict[str, Tensor] = {
        name: torch.zeros_like(layer.weight)
        for name, layer in reads_text(problem.base.unet).items()
    }
    monkeypatch.setattr(MACE, "_silence", lambda *_: nothing)
    MACE()(problem)
    said, meant = behind_words(problem)
    retained = text_states(problem.original, problem.retained_prompts).flatten(0, 1)
    edit = solve_map(said, meant, retained, keep=MACE().keep, rank=said.shape[1])
    for name, layer in reads_text(problem.original.unet).items():
        found = reads_text(problem.base.unet)[name].weight
        assert far(found.double(), edited(layer.weight.double(), edit)) < 1e-6  # float32
