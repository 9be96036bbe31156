"""A linear map of text states: all that a closed-form erasure with shared pairs changes in a base.

Shapes: N pairs of states, M retained states, D text width, r rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from unplug.core import CheckpointError, InputError, atomic_path, check_content
from unplug.plugins import safetensors_errors
from unplug.sdk.drawing.diffusion import encode, weights_digest

CROSS = ("attn2.to_k", "attn2.to_v")
"""Ends of the names of the layers that read text states."""
PROMPTS = 128
"""Encoded at once."""
MAP_SCHEMA = "unplug-text-map/1"


def reads_text(unet: Any) -> dict[str, nn.Linear]:
    """The layers of a UNet that text states go into, keys and values of cross-attention, by name."""
    return {name: layer for name, layer in unet.named_modules() if name.endswith(CROSS)}


@torch.no_grad()
def text_states(base: Any, prompts: Sequence[str]) -> Tensor:
    """The text encoder's states (P, L, D) of prompts, padding included, float64."""
    return torch.cat([states for _, states in _encoded(base, prompts)])


def _encoded(base: Any, prompts: Sequence[str]) -> Iterator[tuple[Tensor, Tensor]]:
    device = base.text_encoder.device
    for start in range(0, len(prompts), PROMPTS):
        ids_BL = encode(base.tokenizer, list(prompts[start : start + PROMPTS]))
        yield ids_BL, base.text_encoder(ids_BL.to(device))[0].double().cpu()


@torch.no_grad()
def state_pairs(base: Any, pairs: Sequence[tuple[str, str]]) -> tuple[Tensor, Tensor]:
    """States (N, D) of prompts that say something, and of their counterparts that say something
    else, token by token from the first one that differs to the end of the padding, float64.

    The padding belongs to them: it follows the words, has read them, and is read itself.

    Args:
        base: a pipeline, see `load_base`.
        pairs: prompts and their counterparts.

    Raises:
        InputError: no pair differs in what the text encoder reads.
    """
    said, meant = list[Tensor](), list[Tensor]()
    for one, other in zip(
        *(_encoded(base, texts) for texts in zip(*pairs, strict=True)), strict=True
    ):
        differs_BL = (one[0] != other[0]).int().cummax(dim=1).values.bool()
        said.append(one[1][differs_BL])
        meant.append(other[1][differs_BL])
    said_ND, meant_ND = torch.cat(said), torch.cat(meant)
    if not len(said_ND):
        why = "its tokens are those of the prompt without it"
        raise InputError(f"prompt {pairs[0][0]!r}", why, "Give shorter prompts, or other words")
    return said_ND, meant_ND


@dataclass(frozen=True, eq=False)
class TextMap:
    """I + B A on text states.

    Args:
        first_rD: A. second_Dr: B; float64.

    Example:
        >>> TextMap(torch.ones(1, 2), torch.ones(2, 1))(torch.tensor([[1.0, 2.0]]))
        tensor([[4., 5.]])
    """

    first_rD: Tensor
    second_Dr: Tensor

    def __call__(self, states: Tensor) -> Tensor:
        """The mapped states, of any shape that ends in D."""
        first_rD, second_Dr = (one.to(states) for one in (self.first_rD, self.second_Dr))
        return states + states @ first_rD.T @ second_Dr.T

    @torch.no_grad()
    def bake(self, unet: Any) -> None:
        """Makes the map part of a UNet: W' = W (I + B A) in every layer that reads text states."""
        for layer in reads_text(unet).values():
            weight_OD = layer.weight.double().cpu()
            update_OD = (weight_OD @ self.second_Dr) @ self.first_rD
            layer.weight.copy_((weight_OD + update_OD).to(layer.weight))

    def save(self, path: Path, text_encoder: Any) -> None:
        """Writes it in float32, marked with the hash of the text encoder whose states it maps."""
        tensors = {"first": self.first_rD.float().contiguous()}
        tensors["second"] = self.second_Dr.float().contiguous()
        marks = {"schema": MAP_SCHEMA, "text_encoder": weights_digest(text_encoder)}
        with atomic_path(path) as temporary, safetensors_errors(path):
            save_file(tensors, temporary, metadata=marks)


def load_map(path: Path, text_encoder: Any) -> TextMap:
    """The map that `TextMap.save` wrote.

    Raises:
        CheckpointError: no such file, not such a map, or one for another text encoder.
    """
    width, fix = int(text_encoder.config.hidden_size), "Erase the concept again"
    check_content(path, CheckpointError)
    try:
        with safe_open(path, framework="pt") as handle:
            marks = handle.metadata() or {}
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(str(path), f"it is not a map ({error})", fix) from error
    shapes = {name: tuple(value.shape) for name, value in tensors.items()}
    rank = shapes.get("first", (0,))[0]
    if marks.get("schema") != MAP_SCHEMA or shapes != {
        "first": (rank, width),
        "second": (width, rank),
    }:
        raise CheckpointError(str(path), f"it holds no map of states {width} wide", fix)
    if marks.get("text_encoder") != weights_digest(text_encoder):
        raise CheckpointError(str(path), "it was made for another text encoder", fix)
    first_rD, second_Dr = (tensors[name].double() for name in ("first", "second"))
    if not bool(first_rD.isfinite().all() and second_Dr.isfinite().all()):
        raise CheckpointError(str(path), "it holds something other than numbers", fix)
    return TextMap(first_rD, second_Dr)


def solve_map(
    said_ND: Tensor, meant_ND: Tensor, retained_MD: Tensor, *, keep: float, rank: int
) -> TextMap:
    """The map of at most some rank that is best in least squares, see `least_change`.

    I + D minimizes |(I + D) c - t|^2 over pairs (c, t) + |D p|^2 over retained states p + keep |D|^2.
    In layers that share the pairs, W (I + D) is what UCE's equation gives for every W.

    Args:
        said_ND: c. meant_ND: t. retained_MD: p; float64.
        keep: weight of leaving everything as it is, above 0.
        rank: the rank, at least 1.

    Reference:
        Gandikota et al., Unified Concept Editing in Diffusion Models, 2024, equation 7.
    """
    return TextMap(*least_change(meant_ND - said_ND, said_ND, retained_MD, keep=keep, rank=rank))


def least_change(
    gap_ND: Tensor, said_NE: Tensor, retained_ME: Tensor, *, keep: float, rank: int
) -> tuple[Tensor, Tensor]:
    """A (r, E) and B (D, r) of the matrix D = B A of at most some rank that minimizes |D c - g|^2
    over pairs (c, g) + |D p|^2 over retained p + keep |D|^2.

        D = g c^T K^-1 with K = c c^T + p p^T + keep I, summed over pairs and retained.

    Of rank r the best one is U U^T D, with U the first r left singular vectors of D K^(1/2).

    Args:
        gap_ND: g. said_NE: c. retained_ME: p; float64.
        keep: the factor, above 0.
        rank: r, at least 1; more than there can be is the best one of any rank.

    Reference:
        Izenman, Reduced-Rank Regression for the Multivariate Linear Model, 1975.
    """
    identity_EE = torch.eye(said_NE.shape[1], dtype=said_NE.dtype)
    kept_EE = said_NE.T @ said_NE + retained_ME.T @ retained_ME + keep * identity_EE
    change_DE = torch.linalg.solve(kept_EE, gap_ND.T @ said_NE, left=False)
    left_DD = torch.linalg.svd(change_DE @ torch.linalg.cholesky(kept_EE))[0]
    second_Dr = left_DD[:, :rank].contiguous()
    return second_Dr.T @ change_DE, second_Dr
