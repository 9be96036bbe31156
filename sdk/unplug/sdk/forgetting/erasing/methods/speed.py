"""Closed form in a null space: keys and values change along directions alone that retained prompts do
not use.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unplug.core import InputError
from unplug.sdk.forgetting.unlearning import check_settings, within

from ..problem import EraseProblem
from ..text_map import TextMap, least_change, state_pairs, text_states


@dataclass(frozen=True, kw_only=True)
class SPEED:
    """W' = W (I + D) with D = D P that minimizes |(I + D) c - t|^2 over pairs + keep |D|^2, so that
    D s = 0 for the states s of the empty prompt: P projects onto directions in which retained states
    have next to nothing.

    The paper's closed form has the second condition as a factor; here those states are taken out of
    the null space first, which gives the same D. One D serves keys and values of all layers, as in
    `UCE`; the released code edits values alone, filters the retained prompts for each layer and adds
    noisy copies of them.

    Args:
        null: directions with a smaller share than this of the retained states' power are free.
        keep: weight of leaving everything else as it is. Published: 1.
        rank: the rank of the map, for each concept.

    Raises:
        InputError: a setting out of range; on use, retained prompts that leave no direction free.

    Reference:
        Li et al., SPEED: Scalable, Precise, and Efficient Concept Erasure for Diffusion Models, 2026.
    """

    null: float = within(1e-15, 1.0, 1e-5)
    keep: float = within(1e-9, 1e6, 1e-3)
    rank: int = within(1, 1024, 8)

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, problem: EraseProblem) -> TextMap:
        """Solves for all concepts at once, earlier ones too, on the original."""
        original = problem.original
        said_ND, meant_ND = state_pairs(original, problem.pairs())
        retained_PLD = text_states(original, problem.retained_prompts)
        free_DE = null_space(retained_PLD.flatten(0, 1), retained_PLD[0], self.null)
        if not free_DE.shape[1]:
            why = "retained prompts leave no direction free"
            raise InputError(f"speed null={self.null}", why, "Raise it")
        rank = min(self.rank * len(problem.every), free_DE.shape[1])
        first_rE, second_Dr = least_change(
            meant_ND - said_ND, said_ND @ free_DE, said_ND[:0] @ free_DE, keep=self.keep, rank=rank
        )
        edit = TextMap(first_rE @ free_DE.T, second_Dr)
        problem.base.unet.load_state_dict(original.unet.state_dict())
        edit.bake(problem.base.unet)
        return edit


def null_space(retained_MD: Tensor, fixed_LD: Tensor, share: float) -> Tensor:
    """An orthonormal basis (D, E) of directions in which some states have less than a share of their
    power, and others nothing.

    Args:
        retained_MD: states that use next to nothing of them.
        fixed_LD: states that use nothing of them.
        share: the share of the summed squares of `retained_MD`.
    """
    power_D, basis_DD = torch.linalg.eigh(retained_MD.T @ retained_MD)
    free_DE = basis_DD[:, power_D < share * power_D.sum()]
    size_E, inside_EE = torch.linalg.eigh((fixed_LD @ free_DE).T @ (fixed_LD @ free_DE))
    found_DE: Tensor = free_DE @ inside_EE[:, size_E <= 1e-12 * fixed_LD.square().sum()]
    return found_DE
