"""What moves numbers and computes none."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as fn

from .elementwise import Ops, Unknown, flags, ints, tensors


def reshape(x: Tensor, shape: Any) -> Tensor:
    # Zero keeps the axis that stands there.
    sides = [x.shape[axis] if side == 0 else side for axis, side in enumerate(ints(shape))]
    return x.reshape(sides)


def expand_dims(x: Tensor, axes: Any) -> Tensor:
    rank = x.ndim + len(ints(axes))
    for axis in sorted(axis % rank for axis in ints(axes)):
        x = x.unsqueeze(axis)
    return x


def squeeze(x: Tensor, axes: Any = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(ints(axes))


def concat(values: Any, axis: Any, interleave: Any = False) -> Tensor:
    if not bool(interleave):
        return torch.cat(tensors(values), int(axis))
    return torch.stack(tensors(values), int(axis) + 1).flatten(int(axis), int(axis) + 1)


def split(
    x: Tensor, axis: Any, num_splits: Any = None, split_sizes: Any = None
) -> tuple[Tensor, ...]:
    where = int(axis)
    if split_sizes is not None:
        return tuple(x.split(ints(split_sizes), where))
    if x.shape[where] % int(num_splits):
        raise ValueError(f"{x.shape[where]} does not divide into {int(num_splits)}")
    return tuple(x.chunk(int(num_splits), where))


def slice_by_index(
    x: Tensor,
    begin: Any,
    end: Any,
    stride: Any = None,
    begin_mask: Any = None,
    end_mask: Any = None,
    squeeze_mask: Any = None,
) -> Tensor:
    """Slices as numpy does; a mask leaves a bound out, or takes one place and drops the axis."""
    starts, ends = ints(begin), ints(end)
    strides = [1] * x.ndim if stride is None else ints(stride)
    no_start, no_end, one = (flags(mask, x.ndim) for mask in (begin_mask, end_mask, squeeze_mask))
    for axis in reversed(range(x.ndim)):
        if one[axis]:
            x = x.select(axis, starts[axis])
            continue
        places = range(x.shape[axis])[
            slice(
                None if no_start[axis] else starts[axis],
                None if no_end[axis] else ends[axis],
                strides[axis],
            )
        ]
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.long))
    return x


def slice_by_size(x: Tensor, begin: Any, size: Any) -> Tensor:
    for axis, (start, count) in enumerate(zip(ints(begin), ints(size), strict=True)):
        x = x.narrow(axis, start, x.shape[axis] - start if count == -1 else count)
    return x


def pad(x: Tensor, pad: Any, mode: str = "constant", constant_val: Any = 0.0) -> Tensor:
    """`pad` has a begin and an end for each of the last axes, the first of them first."""
    pairs = ints(pad)
    backwards = [
        side for axis in reversed(range(len(pairs) // 2)) for side in pairs[2 * axis : 2 * axis + 2]
    ]
    while len(backwards) >= 2 and backwards[-2:] == [0, 0]:
        backwards = backwards[:-2]
    if mode == "constant":
        return fn.pad(x, backwards, value=float(constant_val))
    if not 3 <= x.ndim <= 4:
        raise Unknown(f"{mode} padding of {x.ndim} axes")
    return fn.pad(x, backwards, mode={"reflect": "reflect", "replicate": "replicate"}[mode])


def crop(x: Tensor, crop_height: Any, crop_width: Any) -> Tensor:
    (top, bottom), (left, right) = ints(crop_height), ints(crop_width)
    return x[..., top : x.shape[-2] - bottom, left : x.shape[-1] - right]


def upsample_nearest(
    x: Tensor, scale_factor_height: Any = 1, scale_factor_width: Any = 1
) -> Tensor:
    height, width = float(scale_factor_height), float(scale_factor_width)
    if height == int(height) and width == int(width):
        return x.repeat_interleave(int(height), -2).repeat_interleave(int(width), -1)
    return fn.interpolate(x, scale_factor=(height, width), mode="nearest")


def upsample_bilinear(
    x: Tensor,
    scale_factor_height: Any = 1,
    scale_factor_width: Any = 1,
    align_corners: Any = True,
    half_pixel_centers: Any = None,
) -> Tensor:
    aligned = bool(align_corners)
    if half_pixel_centers is not None and bool(half_pixel_centers) == aligned:
        raise Unknown(
            "this combination of align_corners and half_pixel_centers has no counterpart in torch"
        )
    size = [
        math.floor(x.shape[-2] * float(scale_factor_height)),
        math.floor(x.shape[-1] * float(scale_factor_width)),
    ]
    return fn.interpolate(x, size=size, mode="bilinear", align_corners=aligned)


def gather(
    x: Tensor, indices: Tensor, axis: Any = 0, batch_dims: Any = 0, validate_indices: Any = False
) -> Tensor:
    if int(batch_dims):
        raise Unknown("batch_dims")
    where = int(axis) % x.ndim
    places = indices.long().reshape(-1)
    places = torch.where(places < 0, places + x.shape[where], places)
    chosen = x.index_select(where, places)
    return chosen.reshape([*x.shape[:where], *indices.shape, *x.shape[where + 1 :]])


def gather_along_axis(
    x: Tensor, indices: Tensor, axis: Any = 0, validate_indices: Any = False
) -> Tensor:
    where = int(axis)
    places = indices.long()
    return x.gather(where, torch.where(places < 0, places + x.shape[where], places))


def cumsum(x: Tensor, axis: Any = 0, exclusive: Any = False, reverse: Any = False) -> Tensor:
    if bool(exclusive) or bool(reverse):
        raise Unknown("an exclusive or reversed sum")
    return x.cumsum(int(axis))


OPS: Ops = {
    "reshape": reshape,
    "transpose": lambda x, perm: x.permute(ints(perm)),
    "expand_dims": expand_dims,
    "squeeze": squeeze,
    "concat": concat,
    "stack": lambda values, axis: torch.stack(tensors(values), int(axis)),
    "split": split,
    "slice_by_index": slice_by_index,
    "slice_by_size": slice_by_size,
    "pad": pad,
    "crop": crop,
    "tile": lambda x, reps: x.repeat(ints(reps)),
    "upsample_nearest_neighbor": upsample_nearest,
    "upsample_bilinear": upsample_bilinear,
    "gather": gather,
    "gather_along_axis": gather_along_axis,
    "pixel_shuffle": lambda x, upscale_factor: fn.pixel_shuffle(x, int(upscale_factor)),
    "pixel_unshuffle": lambda x, downscale_factor: fn.pixel_unshuffle(x, int(downscale_factor)),
    "reverse": lambda x, axes=None: x.flip(list(range(x.ndim)) if axes is None else ints(axes)),
    "cumsum": cumsum,
}
