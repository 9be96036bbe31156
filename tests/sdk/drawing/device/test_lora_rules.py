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
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from unplug.core import CheckpointError
from unplug.sdk.drawing.device import WEIGHTS_NAME, pack_loras
from unplug.sdk.drawing.diffusion import load_base, load_loras

from ..diffusion.conftest import CPU
from .test_lora import slots_in

CASE = Path(__file__).parents[3] / "cases" / "lora-alpha-pattern" / "make.py"
Tensors = dict[str, torch.Tensor]
Q = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q"
V, CONV = Q.replace("to_q", "to_v"), "down_blocks.0.resnets.0.conv1"
LAYERS = (Q, V, CONV)
TEXT = "encoder.layers.0.self_attn.q_proj"
ONE = "lora_unet_" + Q.replace(".", "_")


Pair = tuple[torch.Tensor, torch.Tensor]


def factors(unet: Any, ranks: dict[str, int]) -> dict[str, Pair]:
    """Layer to A and B, random."""
    generator, pairs = torch.Generator().manual_seed(0), dict[str, Pair]()
    for layer, rank in ranks.items():
        weight = unet.get_submodule(layer).weight
        spread = (1,) * (weight.ndim - 2)
        first = torch.randn(rank, *weight.shape[1:], generator=generator) * 0.1
        pairs[layer] = first, torch.randn(len(weight), rank, *spread, generator=generator) * 0.1
    return pairs


def named(pairs: dict[str, Pair], first: str, second: str) -> Tensors:
    """Each pair under two names, which have the layer's in them."""
    tensors = {}
    for layer, (one, other) in pairs.items():
        head, _, last = layer.rpartition(".")
        words = {"layer": layer, "flat": layer.replace(".", "_"), "head": head, "last": last}
        tensors |= {first.format(**words): one, second.format(**words): other}
    return tensors


def peft(pairs: dict[str, Pair]) -> Tensors:
    return named(pairs, "unet.{layer}.lora_A.weight", "unet.{layer}.lora_B.weight")


def kohya(pairs: dict[str, Pair], **alphas: float) -> Tensors:
    name = "lora_unet_{flat}.lora_"
    tensors = named(pairs, name + "down.weight", name + "up.weight")
    for layer in pairs:
        if (alpha := alphas.get(layer.rpartition(".")[2])) is not None:
            tensors[f"lora_unet_{layer.replace('.', '_')}.alpha"] = torch.tensor(alpha)
    return tensors


def processors(pairs: dict[str, Pair]) -> Tensors:
    """As diffusers wrote attention at first."""
    name = "unet.{head}.processor.{last}_lora."
    return named(pairs, name + "down.weight", name + "up.weight")


def halves(pairs: dict[str, Pair]) -> Tensors:
    """In bfloat16, which NumPy does not know; the numbers are those that it can hold."""
    for pair in pairs.values():
        for value in pair:
            value.copy_(value.bfloat16().float())
    return {name: value.bfloat16() for name, value in peft(pairs).items()}


def header(alpha: float = 4, **more: Any) -> dict[str, str]:
    facts = {"r": 4, "lora_alpha": alpha} | more
    text = json.dumps({f"unet.{name}": fact for name, fact in facts.items()}, sort_keys=True)
    return {"lora_adapter_metadata": text}


def in_torch(base: Any, file: Path) -> dict[str, NDArray[np.float32]]:
    """What `load_loras` adds to each layer."""
    changed = SimpleNamespace(
        unet=copy.deepcopy(base.unet), text_encoder=copy.deepcopy(base.text_encoder)
    )
    load_loras(changed, [file])
    return differences(changed.unet, base.unet)


def differences(unet: Any, other: Any) -> dict[str, NDArray[np.float32]]:
    weights = {
        layer: (unet.get_submodule(layer).weight, other.get_submodule(layer).weight)
        for layer in LAYERS
    }
    return {layer: (new - old).detach().flatten(1).numpy() for layer, (new, old) in weights.items()}


def in_slots(unet: Any, file: Path) -> dict[str, NDArray[np.float32]]:
    """What the rows of `pack_loras` add to each layer."""
    slots, added, start = slots_in(unet), dict[str, NDArray[np.float32]](), 0
    packed_RK = pack_loras(slots, [file])
    for slot in slots.slots:
        middle, end = start + slot.fan_in, start + slot.fan_in + slot.fan_out
        added[slot.layer] = packed_RK[:, middle:end].T @ packed_RK[:, start:middle]
        start = end
    return {layer: added[layer] for layer in LAYERS}


SAME, MIXED = dict.fromkeys(LAYERS, 4), {Q: 4, V: 2, CONV: 3}
RANKS = {"to_v": 2, "conv1": 3}
PATTERN = {"to_v": 16, "resnets.*conv1": 2}


@pytest.mark.parametrize(
    ("ranks", "names", "metadata", "scales"),
    [
        (SAME, peft, None, (1, 1, 1)),
        (MIXED, peft, None, (1, 1, 1)),
        (SAME, peft, header(8), (2, 2, 2)),
        (SAME, peft, header(alpha_pattern=PATTERN), (1, 4, 0.5)),
        (MIXED, peft, header(8, rank_pattern=RANKS), (2, 4, 8 / 3)),
        (SAME, peft, header(8, use_rslora=True), (4, 4, 4)),
        (
            MIXED,
            peft,
            header(8, rank_pattern=RANKS, use_rslora=True),
            (4, 8 / 2**0.5, 8 / 3**0.5),
        ),
        (SAME, partial(kohya, to_q=4, to_v=1, conv1=2), None, (1, 0.25, 0.5)),
        (SAME, kohya, None, (1, 1, 1)),
        (SAME, partial(kohya, to_q=2), None, (0.5, 1, 1)),
        ({Q: 4, V: 4}, processors, None, (1, 1, 0)),
        (SAME, halves, None, (1, 1, 1)),
    ],
)
def test_both_readers_add_the_same(
    base: Any,
    tmp_path: Path,
    ranks: dict[str, int],
    names: Callable[..., Tensors],
    metadata: dict[str, str] | None,
    scales: tuple[float, ...],
) -> None:
    """Ranks, alpha, patterns of both, rsLoRA, kohya's alphas, older names, bfloat16."""
    pairs, file = factors(base.unet, ranks), tmp_path / "x.safetensors"
    save_file(names(pairs), file, metadata=metadata)
    for added in (in_torch(base, file), in_slots(base.unet, file)):
        for layer, scale in zip(LAYERS, scales, strict=True):
            wanted = np.zeros_like(added[layer])
            if layer in pairs:
                first, second = (value.flatten(1).numpy() for value in pairs[layer])
                wanted = scale * second @ first
            np.testing.assert_allclose(added[layer], wanted, atol=2e-7)


@pytest.mark.parametrize("kind", ["peft", "kohya"])
def test_a_dora_is_made_part_of_a_base_and_has_no_slot(
    base: Any, tmp_path: Path, kind: str
) -> None:
    """W' = m (W + s B A) / |W + s B A|, row by row: equation 5 of Liu et al., 2024."""
    pairs, file = factors(base.unet, {Q: 4}), tmp_path / "x.safetensors"
    weight_OI, lengths_O = base.unet.get_submodule(Q).weight.detach(), torch.linspace(0.5, 2, 16)
    tensors = peft(pairs) | {f"unet.{Q}.lora_magnitude_vector": lengths_O}
    if kind == "kohya":
        tensors = kohya(pairs, to_q=4) | {f"{ONE}.dora_scale": lengths_O[:, None]}
    save_file(tensors, file)
    changed_OI = weight_OI + pairs[Q][1] @ pairs[Q][0]
    wanted_OI = lengths_O[:, None] * changed_OI / changed_OI.norm(dim=1, keepdim=True) - weight_OI
    np.testing.assert_allclose(in_torch(base, file)[Q], wanted_OI.numpy(), atol=1e-6)
    with pytest.raises(CheckpointError, match=r"it is a DoRA.*unplug export BASE --lora"):
        in_slots(base.unet, file)


@pytest.mark.parametrize(
    "name",
    [
        f"text_encoder.text_model.{TEXT}.lora_A",
        f"text_encoder.text_model.{TEXT}.lora_linear_layer.down",  # before diffusers used peft
        f"lora_te_text_model_{TEXT.replace('.', '_')}.lora_down",
    ],
)
def test_a_text_encoder_is_changed_in_a_base_and_has_no_slot(
    base: Any, tmp_path: Path, name: str
) -> None:
    other = name.replace("lora_A", "lora_B").removesuffix("down")
    other += "up" * name.endswith("down")
    pair = {f"{name}.weight": torch.ones(2, 32), f"{other}.weight": torch.ones(32, 2)}
    save_file(pair, tmp_path / "x.safetensors")
    changed = SimpleNamespace(unet=base.unet, text_encoder=copy.deepcopy(base.text_encoder))
    load_loras(changed, [tmp_path / "x.safetensors"])
    before, after = (part.text_encoder.state_dict() for part in (base, changed))
    (layer,) = (name for name in after if not torch.equal(after[name], before[name]))
    assert layer.endswith(f"{TEXT}.weight")
    with pytest.raises(CheckpointError, match=r"no slot.*unplug export BASE --lora"):
        in_slots(base.unet, tmp_path / "x.safetensors")


A, B = f"unet.{Q}.lora_A.weight", f"unet.{Q}.lora_B.weight"
UNKNOWN = "names layers in a way that is not known"
INPUT = "lora_unet_input_blocks_1_1_proj_in.lora_down.weight"


@pytest.mark.parametrize(
    ("tensors", "metadata", "why"),
    [
        ({f"{ONE}.hada_w1_a": 1}, None, r"it is LoHa \(LyCORIS\), which is not read here"),
        ({f"unet.{Q}.lokr_w1": 1}, None, r"it is LoKr \(LyCORIS\)"),
        ({f"{ONE}.lora_mid.weight": 1}, None, r"LoCon with a core \(LyCORIS\)"),
        ({f"unet.{Q}.lora_B.bias": 1}, None, "a LoRA with biases"),
        ({f"transformer.{Q}.lora_A.weight": 1}, None, "a LoRA of a transformer, not of a UNet"),
        ({"lora_te2_x.lora_down.weight": 1}, None, "a LoRA of Stable Diffusion XL"),
        ({INPUT: 1}, None, "the names of the original Stable Diffusion"),
        ({f"base_model.model.{Q}.lora_A.weight": 1}, None, "a LoRA in peft's own names"),
        ({"emb_params": 1}, None, "a learned word"),
        ({"unet.x.lora_A.weight": 1, "unet.x.lora_B.weight": 1}, None, "0 of its 1 low-rank upd"),
        ({"weight": 1}, None, "'weight' is not a factor of a low-rank update"),
        ({A: 0}, None, "is not a factor of a low-rank update"),
        ({A: (4, 16)}, None, f"of {Q} it has one factor only"),
        ({A: (4, 15), B: (16, 4)}, None, f"its update of {Q} is"),
        ({}, {"lora_adapter_metadata": "{"}, "lora_adapter_metadata is broken"),
        ({}, header(8, r=8), "has rank 8.0, and it has 4"),
        ({}, header(init_lora_weights="pissa"), "starts as 'pissa', which changes the base"),
        ({}, header(alpha_pattern={"(a+)+$": 2}), UNKNOWN),
        ({}, header(alpha_pattern={".*" * 9: 2}), UNKNOWN),
        ({}, header(alpha_pattern={f"a{number}": 1 for number in range(2000)}), UNKNOWN),
        ({}, header(use_dora=True), "it is a DoRA, and it has no magnitudes"),
        ({f"unet.{Q}.alpha": 1}, header(), "its header and its tensors both say alpha"),
    ],
    ids=lambda value: next(iter(value), "pair") if isinstance(value, dict) else None,
)
def test_both_readers_refuse_in_the_same_words(
    base: Any, tmp_path: Path, tensors: dict[str, Any], metadata: dict[str, str] | None, why: str
) -> None:
    file, pairs = tmp_path / "x.safetensors", peft(factors(base.unet, {Q: 4})) if metadata else {}
    made = {name: torch.ones(shape) for name, shape in tensors.items()}
    save_file(pairs | made, file, metadata=metadata)
    for read in (lambda: in_torch(base, file), lambda: in_slots(base.unet, file)):
        with pytest.raises(CheckpointError, match=why) as caught:
            read()
        assert "\n" not in str(caught.value)


def test_files_that_are_none(base: Any, tmp_path: Path) -> None:
    (tmp_path / "pickle.bin").write_bytes(b"\x80\x04")
    (tmp_path / "cut.safetensors").write_bytes(b"\x80\0")
    for name, why in (
        ("", f"{WEIGHTS_NAME}: no such file"),
        ("gone.safetensors", "no such file"),
        ("pickle.bin", "a pickle can run code"),
        ("cut.safetensors", "it cannot be read"),
    ):
        with pytest.raises(CheckpointError, match=why):
            load_loras(base, [tmp_path / name])
    load_loras(base, [])


@pytest.mark.parametrize(
    ("factor", "kind"),
    [
        ((1e30, 1e30), torch.float32),
        ((1e300, 1), torch.float64),
        ((float("nan"), 1), torch.float32),
        ((1, float("inf")), torch.float32),
    ],
)
def test_what_makes_weights_no_numbers_changes_nothing(
    base: Any, tmp_path: Path, factor: tuple[float, float], kind: torch.dtype
) -> None:
    pairs, file = factors(base.unet, {Q: 4, V: 4}), tmp_path / "x.safetensors"
    first, second = (one.to(kind) * by for one, by in zip(pairs[V], factor, strict=True))
    save_file(peft(pairs | {V: (first, second)}), file)
    changed = SimpleNamespace(unet=copy.deepcopy(base.unet), text_encoder=base.text_encoder)
    for read in (lambda: load_loras(changed, [file]), lambda: in_slots(base.unet, file)):
        with pytest.raises(CheckpointError, match=r"runs over what a weight can be|or not finite"):
            read()
    after, before = changed.unet.state_dict(), base.unet.state_dict()
    assert all(map(torch.equal, after.values(), before.values()))


def test_what_a_base_in_half_precision_cannot_hold(base: Any, tmp_path: Path) -> None:
    pairs = {Q: tuple(one * 300 for one in factors(base.unet, {Q: 4})[Q])}
    save_file(peft(pairs), tmp_path / "x.safetensors", metadata=header(200))  # type: ignore[arg-type]
    changed = SimpleNamespace(unet=copy.deepcopy(base.unet).half(), text_encoder=base.text_encoder)
    with pytest.raises(CheckpointError, match="no numbers in float16"):
        load_loras(changed, [tmp_path / "x.safetensors"])
    kept, before = (unet.get_submodule(Q).weight for unet in (changed.unet, base.unet))
    assert torch.equal(kept, before.half())


@pytest.mark.long
def test_the_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """alpha_pattern {to_v: 32} with r = lora_alpha = 8: to_v is scaled by 4, by stock diffusers, by
    us, and in slots.
    """
    monkeypatch.setattr(sys, "argv", ["make.py", str(tmp_path / "lora")])
    runpy.run_path(str(CASE))
    stock, base = (load_base("small", device=CPU) for _ in range(2))
    added = in_torch(base, tmp_path / "lora"), in_slots(base.unet, tmp_path / "lora")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stock.load_lora_weights(str(tmp_path / "lora"), weight_name=WEIGHTS_NAME)
        stock.fuse_lora()
        stock.unload_lora_weights()
    wanted = differences(stock.unet, base.unet)
    for layer in (Q, V):
        assert np.abs(wanted[layer]).max() > 0.05
        for one in added:
            np.testing.assert_allclose(one[layer], wanted[layer], atol=1e-5)
