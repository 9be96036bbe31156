"""One rule for LoRA files: what torch adds to a base is what an exported UNet's slots are given, or
both refuse in one line.
"""

from __future__ import annotations

import copy
import json
import runpy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from unplug.core import CheckpointError
from unplug.plugins import LORA_RANK
from unplug.plugins.lora_slots import slots_of
from unplug.sdk.drawing.device import WEIGHTS_NAME, LoraSlots, Slot, pack_loras
from unplug.sdk.drawing.diffusion import load_base, load_loras

from ..diffusion.conftest import CPU

CASE = Path(__file__).parents[3] / "cases" / "lora-alpha-pattern" / "make.py"
Tensors = dict[str, torch.Tensor]
Q = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q"
V, CONV = Q.replace("to_q", "to_v"), "down_blocks.0.resnets.0.conv1"
LAYERS = (Q, V, CONV)
TEXT = "encoder.layers.0.self_attn.q_proj"


def slots_in(unet: Any) -> LoraSlots:
    own = tuple(
        Slot(layer=item.layer, fan_in=item.fan_in, fan_out=item.fan_out) for item in slots_of(unet)
    )
    return LoraSlots(rank=LORA_RANK, slots=own)


def factors(unet: Any, ranks: dict[str, int]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Layer to A and B, random."""
    generator, found = torch.Generator().manual_seed(0), {}
    for layer, rank in ranks.items():
        weight = unet.get_submodule(layer).weight
        spread = (1,) * (weight.ndim - 2)
        first = torch.randn(rank, *weight.shape[1:], generator=generator) * 0.1
        found[layer] = first, torch.randn(len(weight), rank, *spread, generator=generator) * 0.1
    return found


def peft(pairs: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> Tensors:
    sides = [
        (layer, side, value)
        for layer, pair in pairs.items()
        for side, value in zip("AB", pair, strict=True)
    ]
    return {f"unet.{layer}.lora_{side}.weight": value for layer, side, value in sides}


def kohya(pairs: dict[str, tuple[torch.Tensor, torch.Tensor]], **alphas: float) -> Tensors:
    found = {}
    for layer, (first, second) in pairs.items():
        name = "lora_unet_" + layer.replace(".", "_")
        found |= {f"{name}.lora_down.weight": first, f"{name}.lora_up.weight": second}
        if (alpha := alphas.get(layer.rpartition(".")[2])) is not None:
            found[f"{name}.alpha"] = torch.tensor(alpha)
    return found


def processors(pairs: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> Tensors:
    """As diffusers wrote attention at first."""
    found = {}
    for layer, (first, second) in pairs.items():
        head, _, last = layer.rpartition(".")
        found |= {
            f"unet.{head}.processor.{last}_lora.down.weight": first,
            f"unet.{head}.processor.{last}_lora.up.weight": second,
        }
    return found


def halves(pairs: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> Tensors:
    """In bfloat16, which NumPy does not know; the numbers are those that it can hold."""
    for pair in pairs.values():
        for value in pair:
            value.copy_(value.bfloat16().float())
    return {name: value.bfloat16() for name, value in peft(pairs).items()}


def header(**said: Any) -> dict[str, str]:
    return {
        "lora_adapter_metadata": json.dumps(
            {f"unet.{name}": value for name, value in said.items()}, sort_keys=True
        )
    }


def in_torch(base: Any, file: Path) -> dict[str, NDArray[np.float32]]:
    """What `load_loras` adds to each layer."""
    own = SimpleNamespace(
        unet=copy.deepcopy(base.unet), text_encoder=copy.deepcopy(base.text_encoder)
    )
    load_loras(own, [file])
    weights = {
        layer: (own.unet.get_submodule(layer).weight, base.unet.get_submodule(layer).weight)
        for layer in LAYERS
    }
    return {layer: (new - old).detach().flatten(1).numpy() for layer, (new, old) in weights.items()}


def in_slots(unet: Any, file: Path) -> dict[str, NDArray[np.float32]]:
    """What the rows of `pack_loras` add to each layer."""
    slots, found, start = slots_in(unet), dict[str, NDArray[np.float32]](), 0
    packed_RK = pack_loras(slots, [file])
    for slot in slots.slots:
        middle, end = start + slot.fan_in, start + slot.fan_in + slot.fan_out
        found[slot.layer] = packed_RK[:, middle:end].T @ packed_RK[:, start:middle]
        start = end
    return {layer: found[layer] for layer in LAYERS}


SAME = dict.fromkeys(LAYERS, 4)
MIXED, RANKS = {Q: 4, V: 2, CONV: 3}, {"to_v": 2, "conv1": 3}


@pytest.mark.parametrize(
    ("ranks", "names", "said", "scales"),
    [
        (SAME, peft, None, (1, 1, 1)),
        (MIXED, peft, None, (1, 1, 1)),
        (SAME, peft, header(r=4, lora_alpha=8), (2, 2, 2)),
        (
            SAME,
            peft,
            header(r=4, lora_alpha=4, alpha_pattern={"to_v": 16, "resnets.*conv1": 2}),
            (1, 4, 0.5),
        ),
        (MIXED, peft, header(r=4, lora_alpha=8, rank_pattern=RANKS), (2, 4, 8 / 3)),
        (SAME, peft, header(r=4, lora_alpha=8, use_rslora=True), (4, 4, 4)),
        (
            MIXED,
            peft,
            header(r=4, lora_alpha=8, rank_pattern=RANKS, use_rslora=True),
            (4, 8 / 2**0.5, 8 / 3**0.5),
        ),
        (SAME, lambda pairs: kohya(pairs, to_q=4, to_v=1, conv1=2), None, (1, 0.25, 0.5)),
        (SAME, kohya, None, (1, 1, 1)),
        (SAME, lambda pairs: kohya(pairs, to_q=2), None, (0.5, 1, 1)),
        ({Q: 4, V: 4}, processors, None, (1, 1, 0)),
        (SAME, halves, None, (1, 1, 1)),
    ],
    ids=[
        "plain",
        "ranks",
        "alpha",
        "alpha pattern",
        "rank pattern",
        "rsLoRA",
        "rsLoRA with ranks",
        "kohya",
        "kohya without alpha",
        "kohya with some",
        "processors",
        "bfloat16",
    ],
)
def test_both_readers_add_the_same(
    base: Any,
    tmp_path: Path,
    ranks: dict[str, int],
    names: Callable[..., Tensors],
    said: dict[str, str] | None,
    scales: tuple[float, ...],
) -> None:
    pairs = factors(base.unet, ranks)
    save_file(names(pairs), tmp_path / "x.safetensors", metadata=said)
    found = (
        in_torch(base, tmp_path / "x.safetensors"),
        in_slots(base.unet, tmp_path / "x.safetensors"),
    )
    for layer, scale in zip(LAYERS, scales, strict=True):
        wanted = np.zeros((1, 1), np.float32)
        if layer in pairs:
            first, second = (value.flatten(1).numpy() for value in pairs[layer])
            wanted = scale * second @ first
        for own in found:
            np.testing.assert_allclose(
                own[layer], np.broadcast_to(wanted, own[layer].shape), atol=2e-7
            )


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)], ids=["peft's", "kohya's"])
def test_a_dora_is_made_part_of_a_base_and_has_no_slot(
    base: Any, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    """W' = m (W + s B A) / |W + s B A|, row by row: equation 5 of Liu et al., 2024."""
    pairs = factors(base.unet, {Q: 4})
    weight_OI, lengths_O = base.unet.get_submodule(Q).weight.detach(), torch.linspace(0.5, 2, 16)
    tensors = peft(pairs) | {f"unet.{Q}.lora_magnitude_vector": lengths_O}
    if len(shape) == 2:
        tensors = kohya(pairs, to_q=4) | {
            f"lora_unet_{Q.replace('.', '_')}.dora_scale": lengths_O.reshape(shape)
        }
    save_file(tensors, tmp_path / "x.safetensors")
    changed_OI = weight_OI + pairs[Q][1] @ pairs[Q][0]
    wanted_OI = lengths_O[:, None] * changed_OI / changed_OI.norm(dim=1, keepdim=True) - weight_OI
    np.testing.assert_allclose(
        in_torch(base, tmp_path / "x.safetensors")[Q], wanted_OI.numpy(), atol=1e-6
    )
    with pytest.raises(CheckpointError, match=r"it is a DoRA.*unplug export BASE --lora"):
        in_slots(base.unet, tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "name",
    [
        f"text_encoder.text_model.{TEXT}.lora_A",
        f"lora_te_text_model_{TEXT.replace('.', '_')}.lora_down",
    ],
)
def test_a_text_encoder_is_changed_in_a_base_and_has_no_slot(
    base: Any, tmp_path: Path, name: str
) -> None:
    other = name.replace("lora_A", "lora_B").replace("lora_down", "lora_up")
    save_file(
        {f"{name}.weight": torch.ones(2, 32), f"{other}.weight": torch.ones(32, 2)},
        tmp_path / "x.safetensors",
    )
    own = SimpleNamespace(unet=base.unet, text_encoder=copy.deepcopy(base.text_encoder))
    load_loras(own, [tmp_path / "x.safetensors"])
    changes = [
        name
        for (name, new), old in zip(
            own.text_encoder.state_dict().items(),
            base.text_encoder.state_dict().values(),
            strict=True,
        )
        if not torch.equal(new, old)
    ]
    assert len(changes) == 1 and changes[0].endswith(f"{TEXT}.weight")
    with pytest.raises(CheckpointError, match=r"no slot.*unplug export BASE --lora"):
        in_slots(base.unet, tmp_path / "x.safetensors")


ONE = "lora_unet_" + Q.replace(".", "_")


@pytest.mark.parametrize(
    ("tensors", "said", "why"),
    [
        ({f"{ONE}.hada_w1_a": 1}, None, r"it is LoHa \(LyCORIS\), which is not read here"),
        ({f"unet.{Q}.lokr_w1": 1}, None, r"it is LoKr \(LyCORIS\)"),
        ({f"{ONE}.lora_mid.weight": 1}, None, r"LoCon with a core \(LyCORIS\)"),
        ({f"unet.{Q}.lora_B.bias": 1}, None, "a LoRA with biases"),
        ({f"transformer.{Q}.lora_A.weight": 1}, None, "a LoRA of a transformer"),
        ({"lora_te2_x.lora_down.weight": 1}, None, "a LoRA of Stable Diffusion XL"),
        (
            {"lora_unet_input_blocks_1_1_proj_in.lora_down.weight": 1},
            None,
            "the names of the original Stable Diffusion",
        ),
        ({f"base_model.model.{Q}.lora_A.weight": 1}, None, "a LoRA in peft's own names"),
        ({"emb_params": 1}, None, "a learned word"),
        (
            {"unet.nowhere.lora_A.weight": 1, "unet.nowhere.lora_B.weight": 1},
            None,
            "0 of its 1 low-rank updates fit",
        ),
        ({}, {"lora_adapter_metadata": "{"}, "lora_adapter_metadata is broken"),
        ({}, header(r=8, lora_alpha=8), "has rank 8.0, and it has 4"),
        (
            {},
            header(r=4, lora_alpha=4, init_lora_weights="pissa"),
            "starts as 'pissa', which changes the base",
        ),
        (
            {},
            header(r=4, lora_alpha=4, alpha_pattern={"(a+)+$": 2}),
            "names layers in a way that is not known",
        ),
        (
            {},
            header(r=4, lora_alpha=4, alpha_pattern={".*" * 9: 2}),
            "names layers in a way that is not known",
        ),
        ({}, header(r=4, lora_alpha=4, use_dora=True), "it is a DoRA, and it has no magnitudes"),
        ({f"unet.{Q}.lora_A.weight": 0}, None, "is no factor of a low-rank update"),
        (
            {f"unet.{Q}.alpha": 1},
            header(r=4, lora_alpha=4),
            "its header and its tensors both say alpha",
        ),
    ],
    ids=lambda item: next(iter(item), "pair") if isinstance(item, dict) else None,
)
def test_both_readers_refuse_in_the_same_words(
    base: Any, tmp_path: Path, tensors: dict[str, int], said: dict[str, str] | None, why: str
) -> None:
    found = peft(factors(base.unet, {Q: 4})) if said else {}
    save_file(
        found | {name: torch.ones(size) for name, size in tensors.items()},
        tmp_path / "x.safetensors",
        metadata=said,
    )
    for read in (lambda file: in_torch(base, file), lambda file: in_slots(base.unet, file)):
        with pytest.raises(CheckpointError, match=why) as caught:
            read(tmp_path / "x.safetensors")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (lambda pair: (pair[0] * 1e30, pair[1] * 1e30), torch.float32),
        (lambda pair: (pair[0] * 1e300, pair[1]), torch.float64),
        (lambda pair: (pair[0] * float("nan"), pair[1]), torch.float32),
        (lambda pair: (pair[0], pair[1] * float("inf")), torch.float32),
    ],
    ids=["a product", "beyond float32", "NaN", "infinity"],
)
def test_what_makes_weights_no_numbers_changes_nothing(
    base: Any, tmp_path: Path, harm: Any, kind: torch.dtype
) -> None:
    pairs = factors(base.unet, {Q: 4, V: 4})
    pairs[V] = harm(tuple(one.to(kind) for one in pairs[V]))
    save_file(peft(pairs), tmp_path / "x.safetensors")
    own = SimpleNamespace(unet=copy.deepcopy(base.unet), text_encoder=base.text_encoder)
    with pytest.raises(CheckpointError, match=r"runs over what a weight can be|or not finite"):
        load_loras(own, [tmp_path / "x.safetensors"])
    with pytest.raises(CheckpointError, match=r"runs over what a weight can be|or not finite"):
        in_slots(base.unet, tmp_path / "x.safetensors")
    assert all(map(torch.equal, own.unet.state_dict().values(), base.unet.state_dict().values()))


def test_what_a_base_in_half_precision_cannot_hold(base: Any, tmp_path: Path) -> None:
    """And two files, each of which is fine."""
    pairs = {
        layer: tuple(one * 300 for one in pair)
        for layer, pair in factors(base.unet, {Q: 4}).items()
    }
    save_file(peft(pairs), tmp_path / "x.safetensors", metadata=header(r=4, lora_alpha=200))
    own = SimpleNamespace(unet=copy.deepcopy(base.unet).half(), text_encoder=base.text_encoder)
    with pytest.raises(CheckpointError, match="no numbers in float16"):
        load_loras(own, [tmp_path / "x.safetensors"])
    assert torch.equal(own.unet.get_submodule(Q).weight, base.unet.get_submodule(Q).weight.half())


def test_more_patterns_than_layers_could_have(base: Any, tmp_path: Path) -> None:
    said = header(r=4, lora_alpha=4, alpha_pattern={f"a{number}": 1 for number in range(2000)})
    save_file(peft(factors(base.unet, {Q: 4})), tmp_path / "x.safetensors", metadata=said)
    with pytest.raises(CheckpointError, match="names layers in a way"):
        in_slots(base.unet, tmp_path / "x.safetensors")


@pytest.mark.long
def test_the_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """alpha_pattern {to_v: 32} with r = lora_alpha = 8: to_v is scaled by 4, by stock diffusers, by
    us, and in slots.
    """
    monkeypatch.setattr(sys, "argv", ["make.py", str(tmp_path / "lora")])
    runpy.run_path(str(CASE))
    stock, base = (load_base("small", device=CPU) for _ in range(2))
    given = in_torch(base, tmp_path / "lora"), in_slots(base.unet, tmp_path / "lora")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stock.load_lora_weights(str(tmp_path / "lora"), weight_name=WEIGHTS_NAME)
        stock.fuse_lora()
        stock.unload_lora_weights()
    for layer in (Q, V):
        wanted = (
            (stock.unet.get_submodule(layer).weight - base.unet.get_submodule(layer).weight)
            .detach()
            .numpy()
        )
        assert np.abs(wanted).max() > 0.05
        for own in given:
            np.testing.assert_allclose(own[layer], wanted, atol=1e-5)
