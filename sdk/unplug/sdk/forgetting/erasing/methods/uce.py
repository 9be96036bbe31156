"""Unified concept editing in closed form: keys and values read a concept's words as what they shall
give instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from unplug.sdk.forgetting.unlearning import check_settings, within

from ..problem import EraseProblem
from ..text_map import TextMap, solve_map


@dataclass(frozen=True, kw_only=True)
class UCE:
    """W' = W (I + D) in every layer that reads text states, see `solve_map`.

    One D serves all layers, so that the whole edit is a map of text states: a few kilobytes, which
    an exported text encoder takes into its own file. Pairs are whole prompts with the words at
    their end, padding included; the paper takes the last token of the words alone.

    Args:
        keep: weight of leaving everything else as it is.
        rank: the rank of the map, for each concept.

    Reference:
        Gandikota et al., Unified Concept Editing in Diffusion Models, 2024, equation 7.
    """

    keep: float = within(1e-6, 1e6, 0.5)
    rank: int = within(1, 1024, 2)

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, problem: EraseProblem) -> TextMap:
        """Solves for all concepts at once, earlier ones too, on the original."""
        original = problem.original
        said_ND, meant_ND, retained_MD = problem.states()
        rank = min(self.rank * len(problem.every), said_ND.shape[1])
        edit = solve_map(said_ND, meant_ND, retained_MD, keep=self.keep, rank=rank)
        problem.base.unet.load_state_dict(original.unet.state_dict())
        edit.bake(problem.base.unet)
        return edit
