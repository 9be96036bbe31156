"""Unified concept editing in rounds: each also erases the states that still reach the concept after
the round before, found in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unplug.sdk.forgetting.unlearning import check_settings, within

from ..problem import EraseProblem
from ..text_map import TextMap, least_change, reads_text, solve_map


@dataclass(frozen=True, kw_only=True)
class RECE:
    """UCE, and then rounds of it on states c' that the edited layers W' answer as the original ones,
    W, answered the concept's states c:

        c' = argmin sum over layers |W' c' - W c|^2 + near |c'|^2.

    The paper edits every W' anew by what it reads. Here all layers share states and targets, as in
    `UCE`, so that W' = W M stays one map of text states, and the rounds go on from M. The paper's
    round erases c' alone; here the concept's own pairs stay in the sum, and all states are found for
    whole prompts, padding included.

    Args:
        rounds: the number of rounds after the first solution; 0 is UCE. Published: 1 to 3.
        near: weight of small states c'. Published: .1 or .001.
        keep: weight of leaving everything else as it is.
        rank: the rank of the map, for each concept and round.

    Reference:
        Gong et al., Reliable and Efficient Concept Erasure of Text-to-Image Diffusion Models, 2024.
    """

    rounds: int = within(0, 100, 2)
    near: float = within(1e-9, 1e6, 0.1)
    keep: float = within(1e-6, 1e6, 0.5)
    rank: int = within(1, 1024, 4)

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, problem: EraseProblem) -> TextMap:
        """Solves for all concepts at once, earlier ones too, on the original."""
        original = problem.original
        said_ND, meant_ND, retained_MD = problem.states()
        rank = min(self.rank * len(problem.every), said_ND.shape[1])
        edit = solve_map(said_ND, meant_ND, retained_MD, keep=self.keep, rank=rank)
        layers = reads_text(original.unet).values()
        weight_OD = torch.cat([layer.weight.detach().double().cpu() for layer in layers])
        reads_DD = weight_OD.T @ weight_OD
        for _ in range(self.rounds):
            every_ND = torch.cat([said_ND, reaching(edit, reads_DD, said_ND, self.near)])
            gap_ND = meant_ND.repeat(2, 1) - edit(every_ND)
            change = least_change(gap_ND, every_ND, retained_MD, keep=self.keep, rank=rank)
            edit = TextMap(
                torch.cat([edit.first_rD, change[0]]), torch.cat([edit.second_Dr, change[1]], dim=1)
            )
        problem.base.unet.load_state_dict(original.unet.state_dict())
        edit.bake(problem.base.unet)
        return edit


@torch.no_grad()
def reaching(edit: TextMap, reads_DD: Tensor, said_ND: Tensor, near: float) -> Tensor:
    """States (N, D) c' = (M^T R M + near I)^-1 M^T R c, which layers after a map M answer as the
    layers alone answer c.

    Args:
        edit: M.
        reads_DD: R, the sum of W^T W over layers.
        said_ND: c.
        near: weight of small states.
    """
    identity_DD = torch.eye(len(reads_DD), dtype=reads_DD.dtype)
    map_DD = edit(identity_DD).T
    seen_DD = map_DD.T @ reads_DD
    normal_DD, wanted_DN = seen_DD @ map_DD + near * identity_DD, seen_DD @ said_ND.T
    found_ND: Tensor = torch.linalg.solve(normal_DD, wanted_DN).T
    return found_ND
