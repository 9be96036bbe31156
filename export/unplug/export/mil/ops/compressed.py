"""Weights that are stored smaller than they are used, and numbers that are rounded to codes on
their way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .elementwise import Ops, Unknown, ints


def _along(values: Tensor, axis: int, rank: int) -> Tensor:
    """A scale for each place of one axis, or one for all."""
    return (
        values
        if values.ndim == 0
        else values.reshape([-1 if place == axis % rank else 1 for place in range(rank)])
    )


def affine_dequantize(
    quantized_data: Tensor, zero_point: Tensor, scale: Tensor, axis: Any
) -> Tensor:
    """w = scale (code - zero)."""
    rank, where = quantized_data.ndim, int(axis)
    codes, zeros = quantized_data.float(), _along(zero_point.float(), where, rank)
    return (codes - zeros) * _along(scale, where, rank)


def lut_to_dense(
    indices: Tensor, lut: Tensor, shape: Any = None, vector_axis: Any = None
) -> Tensor:
    """w = table[index].

    Args:
        indices: packed codes, low bits first, with `shape` (iOS 16); one code per element without
            (iOS 18).
        lut: the table with `shape`; a table for each block, (blocks..., entries, 1), without.
    """
    if shape is not None:
        sides = ints(shape)
        count, bits = int(torch.tensor(sides).prod()), (len(lut) - 1).bit_length()
        return lut[_codes(indices, bits, count)].reshape(sides)
    if vector_axis is not None and lut.shape[-1] != 1:
        raise Unknown("tables of vectors")
    blocks = lut.shape[: indices.ndim]
    for axis, parts in enumerate(blocks):
        if indices.shape[axis] % parts:
            raise ValueError(f"{indices.shape[axis]} codes do not divide into {parts} blocks")
        lut = lut.repeat_interleave(indices.shape[axis] // parts, axis)
    return lut.squeeze(-1).gather(-1, indices.long().unsqueeze(-1)).squeeze(-1)


def _codes(packed: Tensor, bits: int, count: int) -> Tensor:
    raw = packed.reshape(-1).long()
    all_bits = (raw[:, None] >> torch.arange(8)) & 1
    used = all_bits.reshape(-1)[: bits * count].reshape(count, bits)
    return (used << torch.arange(bits)).sum(1)


def blockwise_shift_scale(data: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    """w = scale (code - offset), one scale a block."""
    wide, shift = scale, offset
    for axis in range(data.ndim):
        repeats = data.shape[axis] // wide.shape[axis]
        wide = wide.repeat_interleave(repeats, axis)
        shift = None if shift is None else shift.repeat_interleave(repeats, axis)
    codes = data.float()
    return (codes if shift is None else codes - shift.float()) * wide


def quantize(
    input: Tensor, scale: Tensor, output_dtype: str, zero_point: Tensor | None = None, axis: Any = 0
) -> Tensor:
    """code = clip(round(x / scale) + zero); halves go to the even side."""
    low, high, kind = {"int8": (-128, 127, torch.int8), "uint8": (0, 255, torch.uint8)}[
        output_dtype
    ]
    codes = (input / _along(scale, int(axis), input.ndim)).round()
    if zero_point is not None:
        codes = codes + _along(zero_point.float(), int(axis), input.ndim)
    return codes.clamp(low, high).to(kind)


def dequantize(
    input: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: Any = 0
) -> Tensor:
    """x = scale (code - zero)."""
    codes = input.float()
    if zero_point is not None:
        codes = codes - _along(zero_point.float(), int(axis), input.ndim)
    return codes * _along(scale, int(axis), input.ndim)


OPS: Ops = {
    "constexpr_affine_dequantize": affine_dequantize,
    "constexpr_lut_to_dense": lut_to_dense,
    "constexpr_blockwise_shift_scale": blockwise_shift_scale,
    "constexpr_cast": lambda source_val, output_dtype: source_val.float(),
    "quantize": quantize,
    "dequantize": dequantize,
}
