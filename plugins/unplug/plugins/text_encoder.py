"""The text encoder of a diffusion base: CLIP's text transformer, as a network that every converter
takes.

Written out here, with the tensor names of transformers' ``CLIPTextModel``, because that class
builds its mask in a way that Core ML's converter stops at, takes ten seconds to import, and names
its tensors otherwise from version to version. Shapes: B batch, T tokens, D width, A heads, K width
of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError, IOSpec, TensorSpec

from .bounds import check_at_most, is_whole

MASKED = -1e4
"""Added to the scores of tokens that come later: exp of it is 0 in float32, and float16 can hold
it, which minus infinity's sums could not survive.
"""
PREFIX = "text_model."
"""In front of each tensor's name in files of transformers 4, and of ours."""
IGNORED = "embeddings.position_ids"
"""Numbers 0, 1, 2, ... that older versions stored."""
LIMITS = {
    "vocab_size": 2**20,
    "hidden_size": 8192,
    "intermediate_size": 32768,
    "num_hidden_layers": 64,
    "num_attention_heads": 128,
    "max_position_embeddings": 1024,
}
ACTIVATIONS = ("quick_gelu", "gelu")


def quick_gelu(x: Tensor) -> Tensor:
    """x sigma(1.702 x)."""
    return x * torch.sigmoid(1.702 * x)


class TextAttention(nn.Module):
    """softmax(q k^T / sqrt(K) + mask) v for each head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x_BTD: Tensor, mask_TT: Tensor) -> Tensor:
        batch, tokens, width = x_BTD.shape
        q_BATK, k_BATK, v_BATK = (
            layer(x_BTD).view(batch, tokens, self.heads, -1).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores_BATT = (
            torch.matmul(q_BATK, k_BATK.transpose(2, 3)) * (width // self.heads) ** -0.5 + mask_TT
        )
        seen_BATK = torch.matmul(torch.softmax(scores_BATT, dim=-1), v_BATK)
        y_BTD: Tensor = self.out_proj(seen_BATK.transpose(1, 2).reshape(batch, tokens, width))
        return y_BTD


class TextMLP(nn.Module):
    """Two linear layers around an activation."""

    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.act = quick_gelu if activation == "quick_gelu" else nn.functional.gelu
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        y_BTD: Tensor = self.fc2(self.act(self.fc1(x_BTD)))
        return y_BTD


class TextLayer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, heads: int, inner: int, activation: str, eps: float) -> None:
        super().__init__()
        self.self_attn, self.mlp = TextAttention(width, heads), TextMLP(width, inner, activation)
        self.layer_norm1 = nn.LayerNorm(width, eps=eps)
        self.layer_norm2 = nn.LayerNorm(width, eps=eps)

    def forward(self, x_BTD: Tensor, mask_TT: Tensor) -> Tensor:
        x_BTD = x_BTD + self.self_attn(self.layer_norm1(x_BTD), mask_TT)
        y_BTD: Tensor = x_BTD + self.mlp(self.layer_norm2(x_BTD))
        return y_BTD


class TextEncoder(nn.Module):
    """Token ids to the last hidden state of CLIP's text transformer, which a UNet's cross-attention
    reads.

    Args:
        vocab_size: tokens that there are.
        hidden_size: D.
        intermediate_size: inner width of each layer's MLP.
        num_hidden_layers: layers.
        num_attention_heads: A; divides D.
        max_position_embeddings: T of every prompt, padding included.
        hidden_act: "quick_gelu" (Stable Diffusion 1) or "gelu" (2).
        layer_norm_eps: the epsilon of the layer norms.
        text_map_rank: the rank of the map I + B A after the last norm, which an erasure puts there;
            0 for none.
        others: other keys that transformers writes into a config.json; nothing here depends on
            them.

    Raises:
        InputError: a configuration that is out of range.

    Reference:
        Radford et al., Learning Transferable Visual Models From Natural Language Supervision, 2021,
        section 2.4.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        intermediate_size: int,
        num_hidden_layers: int,
        num_attention_heads: int,
        max_position_embeddings: int,
        hidden_act: str = "quick_gelu",
        layer_norm_eps: float = 1e-5,
        text_map_rank: int = 0,
        **others: Any,
    ) -> None:
        check_text_encoder(locals())  # of which it looks at those that `LIMITS` names
        _check(hidden_size, num_attention_heads, hidden_act, layer_norm_eps)
        if not is_whole(text_map_rank, 0, hidden_size):
            why = f"no whole number from 0 to the width, {hidden_size}"
            raise InputError(f"text_map_rank {str(text_map_rank)[:60]}", why, "Erase again")
        super().__init__()
        self.vocabulary, self.tokens, self.width = vocab_size, max_position_embeddings, hidden_size
        self.embeddings = nn.ModuleDict(
            {
                "token_embedding": nn.Embedding(vocab_size, hidden_size),
                "position_embedding": nn.Embedding(max_position_embeddings, hidden_size),
            }
        )
        layers = [
            TextLayer(
                hidden_size, num_attention_heads, intermediate_size, hidden_act, layer_norm_eps
            )
            for _ in range(num_hidden_layers)
        ]
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList(layers)})
        self.final_layer_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        if text_map_rank:
            first = nn.Linear(hidden_size, text_map_rank, bias=False)
            second = nn.Linear(text_map_rank, hidden_size, bias=False)
            self.text_map = nn.ModuleDict({"first": first, "second": second})
        mask_TT = torch.full((self.tokens, self.tokens), MASKED).triu(1)
        self.register_buffer("mask_TT", mask_TT, persistent=False)

    def rename_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Drops the prefix that files have and networks of this class do not, and what older
        versions stored next to weights.
        """
        for name in list(tensors):
            plain = name.removeprefix(PREFIX)
            value = tensors.pop(name)
            if plain != IGNORED:
                tensors[plain] = value

    def forward(self, ids_BT: Tensor) -> tuple[Tensor]:
        """Hidden states (B, T, D)."""
        x_BTD = (
            self.embeddings["token_embedding"](ids_BT)
            + self.embeddings["position_embedding"].weight
        )
        for layer in self.encoder["layers"]:  # type: ignore[attr-defined]
            x_BTD = layer(x_BTD, self.mask_TT)
        x_BTD = self.final_layer_norm(x_BTD)
        if hasattr(self, "text_map"):
            x_BTD = x_BTD + self.text_map["second"](self.text_map["first"](x_BTD))
        return (x_BTD,)

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one; ids are int32 on every target."""
        ids = TensorSpec(
            name="input_ids",
            shape=(1, self.tokens),
            layout="NT",
            dtype="int32",
            range=(0.0, self.vocabulary - 1.0),
            description="Token ids of a prompt, padded",
        )
        state = TensorSpec(
            name="hidden_states",
            shape=(1, self.tokens, self.width),
            layout="NTC",
            description="What the UNet reads of them",
        )
        return IOSpec(inputs=(ids,), outputs=(state,))


def check_text_encoder(config: Mapping[str, Any]) -> None:
    """Refuses a configuration that asks for more than any text encoder has; `InputError` names the
    setting.
    """
    check_at_most(config, LIMITS)


def _check(width: int, heads: int, activation: Any, eps: Any) -> None:
    if width % heads:
        why = f"not divisible by {heads} heads"
        raise InputError(f"hidden_size {width}", why, "Use what transformers wrote")
    if activation not in ACTIVATIONS:
        raise InputError(
            f"hidden_act {str(activation)[:200]}",
            "not known here",
            f"Use {' or '.join(ACTIVATIONS)}",
        )
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 < eps < 1:
        raise InputError(
            f"layer_norm_eps {str(eps)[:200]}", "out of range", "Use what transformers wrote"
        )
