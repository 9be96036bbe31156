"""The conditioning plugin as a network: budgets, folding, bases, bad arguments."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from unplug.core import InputError
from unplug.plugins import ConditioningPlugin
from unplug.plugins.plugin_sizes import PLUGIN_SIZES, count_kernels
from unplug.plugins.unet_levels import read_base

from .unets import CROSS, PLAIN, REAL, tiny_unet, trained

MAX_PARAMETERS, MAX_MACS = 6.0e6, 1.9e9  # the design's budget at 512 x 512


@pytest.mark.parametrize("name", REAL)
def test_parameters_and_names_for_real_bases(name: str) -> None:
    plugin = ConditioningPlugin.for_unet(REAL[name], condition="face_landmark")
    assert plugin.config.image_size == REAL[name]["sample_size"] * 8
    assert sum(p.numel() for p in plugin.parameters()) <= MAX_PARAMETERS
    plugin.check_base(REAL[name])
    spec = plugin.iospec
    assert [tensor.name for tensor in spec.outputs] == [
        f"adapter_res_samples_{i:02d}" for i in range(len(plugin.levels))
    ]
    assert spec.inputs[0].name == "condition" and spec.inputs[0].range == (0.0, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("size", PLUGIN_SIZES)
@pytest.mark.parametrize("name", REAL)
def test_the_bound_counts_what_there_is(name: str, size: str) -> None:
    """Kernels, exactly, those of the stem included; norms and biases are few."""
    plugin = ConditioningPlugin.for_unet(REAL[name], condition="canny", size=size)
    deep = ConditioningPlugin.for_unet(
        tiny_unet("sdxl"), condition="canny", size=size, downscale=32, stem_expand=6
    )
    for one in (plugin, deep):
        kernels = sum(value.numel() for value in one.parameters() if value.ndim == 4)
        assert count_kernels(dict(one.config), one.levels) == kernels


def test_sd15_shapes_and_macs() -> None:
    plugin = ConditioningPlugin.for_unet(REAL["sd15"], condition="canny").eval()
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), counter:
        residuals = plugin(torch.zeros(1, 3, 512, 512))
    expected = [(1, 320, 64, 64), (1, 640, 32, 32), (1, 1280, 16, 16), (1, 1280, 8, 8)]
    assert (
        [tuple(r.shape) for r in residuals]
        == expected
        == [spec.shape for spec in plugin.iospec.outputs]
    )
    assert 0.3e9 < counter.get_total_flops() / 2 <= MAX_MACS
    # Block by block, by hand, for the first level: two bottlenecks of width 48 that expand by 3,
    # the first one halving.
    first, half = plugin.stages[0], 128 * 128 * 24 * 72 + 64 * 64 * (25 * 72 + 72 * 48)
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), counter:
        first(torch.zeros(1, 24, 128, 128))
    assert counter.get_total_flops() / 2 == half + 64 * 64 * (48 * 144 + 25 * 144 + 144 * 48)


def test_input_range_is_normalized_inside() -> None:
    image = torch.rand(1, 3, 64, 64)
    unit = trained(tiny_unet())
    for low, high in ((-1.0, 1.0), (0.0, 255.0), (-2.0, 1.0)):
        other = trained(tiny_unet(), input_range=(low, high))
        other.load_state_dict(unit.state_dict())
        for a, b in zip(unit(image), other(image * (high - low) + low), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
        assert other.iospec.inputs[0].range == (low, high)
    seen: list[Tensor] = []
    unit.entry.register_forward_pre_hook(lambda _m, args: seen.append(args[0]))
    unit(torch.tensor([0.0, 0.5, 1.0]).view(1, 3, 1, 1).expand(1, 3, 8, 8))
    assert seen[0][0, :, 0, 0].tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    plugin, image = trained(tiny_unet()), torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        full = plugin(image)
        half = plugin.to(dtype)(image.to(dtype))
    assert plugin.dtype == dtype
    for a, b in zip(full, half, strict=True):
        assert b.dtype == dtype
        assert (a - b.float()).abs().max() < 0.05 * a.abs().max()


def test_other_bases_are_named_level_by_level() -> None:
    plugin = ConditioningPlugin.for_unet(REAL["sd15"], condition="canny", size="nano")
    plugin.check_base(REAL["sd21"])  # the same channels; an adapter's condition may be of any size
    wanted = (
        r"level 0: 320 channels at 1/1 of the latent for 320 channels at 1/2 .*level 3: 1280 "
        r"channels .* for nothing"
    )
    with pytest.raises(InputError, match=wanted):
        plugin.check_base(REAL["sdxl"])
    with pytest.raises(InputError, match=r"level 1: 640 channels .* for 512 channels"):
        plugin.check_base(REAL["sd15"] | {"block_out_channels": [320, 512, 1280, 1280]})


def test_every_form_of_a_base_is_read() -> None:
    unet = tiny_unet()
    forms = [unet, unet.config, dict(unet.config), type("Config", (), {})()]
    forms[-1].__dict__.update(unet.config)
    for form in forms:
        assert read_base(form) == read_base(unet)
    assert read_base(REAL["sd15"] | {"sample_size": [64, 96]}).sample_size == 96


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_class_name": "UNet3DConditionModel"}, "base of class UNet3DConditionModel"),
        ({"block_out_channels": None}, "no list block_out_channels"),
        ({"down_block_types": [CROSS]}, "4 block_out_channels and 1 down_block_types"),
        (
            {"down_block_types": [CROSS, CROSS, "KDownBlock2D", PLAIN]},
            "KDownBlock2D.*adds no residual",
        ),
        ({"block_out_channels": [320, 640, 1280, 10**9]}, "out of range"),
        ({"block_out_channels": [320, 640, 1280, 12.5]}, "out of range"),
        ({"sample_size": "64"}, "sample_size 64: out of range"),
        ({"sample_size": None}, "Give image_size"),
    ],
)
def test_bases_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ConditioningPlugin.for_unet(REAL["sd15"] | change, condition="canny", size="nano")


LAZY = """
import sys
import unplug.plugins, unplug.sdk.cli
assert "ConditioningPlugin" in unplug.plugins.__all__
assert not {"diffusers", "torch", "transformers"} & set(sys.modules), "imported too early"
sys.modules["diffusers"] = None
from unplug.core.errors import MissingExtraError
try:
    unplug.plugins.ConditioningPlugin
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.long
def test_diffusers_is_imported_late_and_missed_clearly() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=True)
    assert "diffusers is not installed" in done.stdout and '[diffusion]"' in done.stdout


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"size": "huge"}, "size 'huge': no such plugin. Choose one of nano, small, base"),
        ({"widths": (8, 8)}, r"widths \(8, 8\): not a list of the right length. Give 4"),
        ({"kernels": (3, 3, 4, 3)}, "one of them is even"),
        ({"downscale": 6}, "downscale 6: not a power of two"),
        ({"image_size": 100}, "not a multiple of 8"),
        ({"input_range": (0.0, float("nan"))}, "not a rising pair"),
        ({"condition_channels": True}, "condition_channels True: out of range"),
    ],
)
def test_bad_arguments_are_named(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ConditioningPlugin.for_unet(
            REAL["sd15"], **{"condition": "canny", "size": "nano"} | overrides
        )


def test_bad_conditions_are_named() -> None:
    plugin, shape = trained(tiny_unet()), r"\[1, 1, 64, 64\]"
    with pytest.raises(InputError, match=f"canny condition of shape {shape}.*Convert the image"):
        plugin(torch.rand(1, 1, 64, 64))
    with pytest.raises(InputError, match="not multiples of 8"):
        plugin(torch.rand(1, 3, 64, 60))
