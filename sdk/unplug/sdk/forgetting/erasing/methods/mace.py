"""Mass concept erasure: closed-form refinement of what surrounds the words, then low-rank updates
that take attention from the words themselves, fused in closed form.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.drawing.diffusion import add_low_rank, noise_anywhere, tokenize, updates_of
from unplug.sdk.forgetting.unlearning import within

from ..problem import EraseProblem
from ..text_map import CROSS, reads_text, solve_map, text_states
from ..tuning import PairRows, Stepping, WithFrozen, said_rows

QUERY, KEY = "attn2.to_q", "attn2.to_k"


@dataclass(frozen=True, kw_only=True)
class MACE(Stepping):
    """Three steps: keys and values read what follows the words as if the words were not there
    (all of it has read them); an update b a^T of keys and values for each concept learns to let the
    words themselves get no attention, L = sum over layers |A|, with A the attention on them; the
    updates are fused,

        W' = W + sum over concepts B A (C (sum C + P + keep I)^-1),

    with C the second moment of a concept's states and P that of the retained ones.

    **Without the detector's masks**: the original takes attention from the words inside the pictured
    thing alone, as a segmentation network sees it; here everywhere. It draws its noise levels near
    the picture, here all are as likely.

    Args:
        keep: weight of leaving everything else as it is, in both closed forms.
        rank: the rank of the updates. Published: 1.
        steps, batch_size, lr, pictures: settings for each concept, see `Stepping`. Published: 50 of
            1 at 1e-5.

    Reference:
        Lu et al., MACE: Mass Concept Erasure in Diffusion Models, 2024.
    """

    steps: int = within(1, 1_000_000, 30)
    lr: float = within(1e-8, 1.0, 1e-2)
    pictures: int = within(1, 100_000, 32)
    keep: float = within(1e-6, 1e6, 0.5)
    rank: int = within(1, 128, 1)

    def __call__(self, problem: EraseProblem) -> None:
        """Erases all concepts, earlier ones too, from the original."""
        original, unet = problem.original, problem.base.unet
        retained_MD = text_states(original, problem.retained_prompts).flatten(0, 1)
        said_ND, meant_ND = behind_words(problem)
        unet.load_state_dict(original.unet.state_dict())
        width = said_ND.shape[1]
        solve_map(said_ND, meant_ND, retained_MD, keep=self.keep, rank=width).bake(unet)
        updates, moments = list[dict[str, Tensor]](), list[Tensor]()
        for number, concept in enumerate(problem.every):
            own = replace(problem, concepts=(concept,), earlier=())
            updates.append(self._silence(own, str(number)))
            states_MD = text_states(original, [said for said, _ in own.pairs()]).flatten(0, 1)
            moments.append(states_MD.T @ states_MD)
        held_DD = self.keep * torch.eye(width, dtype=torch.float64) + retained_MD.T @ retained_MD
        held_DD += torch.stack(moments).sum(dim=0)
        with torch.no_grad():
            for name, layer in reads_text(unet).items():
                weight_OD = layer.weight.double().cpu()
                for update, moment_DD in zip(updates, moments, strict=True):
                    told_OD = update[name].double().cpu() @ moment_DD
                    weight_OD = weight_OD + torch.linalg.solve(held_DD, told_OD, left=False)
                layer.weight.copy_(weight_OD.to(layer.weight))

    def _silence(self, problem: EraseProblem, name: str) -> dict[str, Tensor]:
        """The update of each layer for the one concept of a problem."""
        original = problem.original
        unet = copy.deepcopy(problem.base.unet).requires_grad_(False)
        add_low_rank(unet, self.rank, CROSS, problem.seed)
        rows = said_rows(problem, self.prompts(problem))
        model = Attention(
            unet,
            text_encoder=original.text_encoder,
            scheduler=original.scheduler,
            end=original.tokenizer.eos_token_id,
        )
        draw = PairRows(rows.latent_Nchw, rows.ids_N2L, None, problem.device)
        return updates_of(self.descend(problem, model, draw, name))


class Attention(WithFrozen):
    """The attention that words get, summed over layers: the norm of softmax(q k^T / sqrt(d)) there."""

    def forward(self, latent_Bchw: Tensor, ids_B2L: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of scaled latents with their pairs of token ids."""
        noised = noise_anywhere(self.scheduler, latent_Bchw, generator)
        words_BL = words_at(ids_B2L, self.end)[:, None, None]
        seen = dict[str, Tensor]()

        def watch(name: str, layer: nn.Module) -> Any:
            return layer.register_forward_hook(lambda *given: seen.__setitem__(name, given[2]))

        ends = [
            watch(name, layer)
            for name, layer in self.unet.named_modules()
            if name.endswith((QUERY, KEY))
        ]
        try:
            text_BLD = self.text_encoder(ids_B2L[:, 0])[0]
            self.unet(noised.latent_Bchw, noised.step_B, text_BLD)
        finally:
            for end in ends:
                end.remove()
        sizes = list[Tensor]()
        for name in [name for name in seen if name.endswith(KEY)]:
            layer = self.unet.get_submodule(name.removesuffix(".to_k"))
            query_BhNd, key_BhLd = (
                seen[one].float().unflatten(-1, (layer.heads, -1)).transpose(1, 2)
                for one in (name.removesuffix(KEY) + QUERY, name)
            )
            share_BhNL = (query_BhNd @ key_BhLd.transpose(2, 3) * layer.scale).softmax(dim=-1)
            sizes.append((share_BhNL * words_BL).norm())
        return torch.stack(sizes).sum()


def words_at(ids_B2L: Tensor, end: int) -> Tensor:
    """Where the words stand (B, L) that the first prompt of each pair says and the second does not:
    from the first token that differs to its end.

    Args:
        ids_B2L: token ids of pairs.
        end: token after a prompt's last word.

    Example:
        >>> words_at(torch.tensor([[[0, 5, 7, 8, 1, 1], [0, 5, 1, 1, 1, 1]]]), 1).int().tolist()
        [[0, 0, 1, 1, 0, 0]]
    """
    said_BL, meant_BL = ids_B2L.unbind(1)
    differs_BL = (said_BL != meant_BL).int().cummax(dim=1).values.bool()
    ended_BL = (said_BL == end).int().cummax(dim=1).values.bool()
    return differs_BL & ~ended_BL


def behind_words(problem: EraseProblem) -> tuple[Tensor, Tensor]:
    """States (N, D) after the words of the pairs of a problem, from the end token on, and those of
    their counterparts, float64.

    Raises:
        InputError: no pair differs in what the text encoder reads.
    """
    original, pairs = problem.original, problem.pairs()
    end = original.tokenizer.eos_token_id
    ids_N2L = tokenize(original.tokenizer, pairs)
    first_N2 = (ids_N2L == end).int().argmax(dim=2).tolist()
    states = [text_states(original, texts) for texts in zip(*pairs, strict=True)]
    said, meant = list[Tensor](), list[Tensor]()
    for row, words_L in enumerate(words_at(ids_N2L, end)):
        count = ids_N2L.shape[2] - max(first_N2[row])
        if words_L.any():
            for found, one_NLD, start in zip((said, meant), states, first_N2[row], strict=True):
                found.append(one_NLD[row, start : start + count])
    if not said:
        why = "its tokens are those of the prompt without it"
        raise InputError(f"prompt {pairs[0][0]!r}", why, "Give shorter prompts, or other words")
    return torch.cat(said), torch.cat(meant)
