"""The quick decoder and the reader of marks: what their files say, what they refuse, what they hold by
construction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import CheckpointError, InputError, write_json
from unplug.plugins import (
    DECODER_SIZES,
    MARK_BITS,
    READER_SIDE,
    MarkReader,
    QuickDecoder,
    load_checkpoint,
    save_checkpoint,
)
from unplug.plugins.base_parts import BaseDecoder

SMALL: dict[str, Any] = {"image_size": 32, "widths": (8, 8, 4), "blocks": (1, 0, 2)}


@pytest.mark.parametrize("size", DECODER_SIZES)
def test_it_has_the_tensors_of_the_decoder_that_it_stands_in_for(size: str) -> None:
    whole = BaseDecoder(
        sample_size=128,
        latent_channels=8,
        block_out_channels=(8,) * 4,
        norm_num_groups=2,
        up_block_types=("UpDecoderBlock2D",) * 4,
        down_block_types=("DownEncoderBlock2D",) * 4,
    )
    assert QuickDecoder(**DECODER_SIZES[size]).iospec == whole.iospec


def test_a_saved_decoder_comes_back_and_reads_scaled_latents(tmp_path: Path) -> None:
    torch.manual_seed(0)
    decoder = QuickDecoder(**SMALL, scaling_factor=0.5, shift_factor=0.25).eval()
    save_checkpoint(decoder, tmp_path / "d", record={}, card="x")
    again = load_checkpoint(tmp_path / "d", expect="quick_decoder").model
    z = torch.randn(3, 8, 4, 4)
    with torch.no_grad():
        (image,), plain = again(z), decoder.decode(z / 0.5 + 0.25)
    assert torch.equal(image, torch.relu(plain / 2 + 0.5) - torch.relu(plain / 2 - 0.5))
    assert image.shape == (3, 3, 32, 32)
    assert float(image.min()) >= 0 and float(image.max()) <= 1


def test_residual_branches_start_at_nothing() -> None:
    """At first D is its transposed convolutions alone, whatever the depth."""
    torch.manual_seed(1)
    deep, flat = QuickDecoder(**SMALL), QuickDecoder(**SMALL | {"blocks": (0, 0, 0)})
    convolutions = [layer for layer in deep.layers if hasattr(layer, "kernel_size")]
    for ours, theirs in zip(
        [layer for layer in flat.layers if hasattr(layer, "kernel_size")], convolutions, strict=True
    ):
        ours.load_state_dict(theirs.state_dict())
    z = torch.randn(1, 8, 4, 4)
    assert len(convolutions) == 4
    assert torch.allclose(deep.decode(z), flat.decode(z), atol=1e-6)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("widths", [2000, 8, 8]),
        ("widths", [8, 8]),
        ("widths", "888"),
        ("blocks", [1, 1, 17]),
        ("blocks", [True, 1, 1]),
        ("image_size", 36),
        ("image_size", 2**20),
        ("latent_channels", 0),
        ("scaling_factor", 0.0),
        ("scaling_factor", float("nan")),
        ("shift_factor", "1"),
        ("latents_sha256", 3),
    ],
)
def test_a_configuration_out_of_range_is_refused(setting: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        QuickDecoder(**SMALL | {setting: value})
    save_checkpoint(QuickDecoder(**SMALL), tmp_path / "d", record={}, card="x")
    config = {"model_type": "quick_decoder", **QuickDecoder(**SMALL).config, setting: value}
    if value == value:  # JSON has no NaN
        write_json(tmp_path / "d/config.json", config)
        with pytest.raises(CheckpointError):
            load_checkpoint(tmp_path / "d")


def test_a_reader_comes_back_and_does_not_mind_where_a_texture_lies(tmp_path: Path) -> None:
    torch.manual_seed(2)
    reader = MarkReader().eval()
    picture_13HW = torch.rand(1, 3, 64, 64) / 2
    # of equal brightness: 0.299 less red against 0.114 more blue
    other_13HW = picture_13HW + torch.tensor([-0.114, 0.0, 0.299])[:, None, None]
    colours = [reader(image)["bits"] for image in (picture_13HW, other_13HW)]
    torch.testing.assert_close(*colours, atol=1e-4, rtol=0)
    save_checkpoint(reader, tmp_path / "r", record={}, card="x")
    again = load_checkpoint(tmp_path / "r", expect="mark_reader").model
    tile = torch.rand(1, 3, 16, 16).repeat(1, 1, READER_SIDE // 16, READER_SIDE // 16)
    moved = tile.roll((16, 32), (2, 3))
    with torch.no_grad():
        bits = again(torch.cat([tile, moved]))["bits"]
        assert torch.equal(bits, reader(torch.cat([tile, moved]))["bits"])
    assert bits.shape == (2, MARK_BITS)
    assert torch.allclose(bits[0], bits[1], atol=1e-5)


def test_a_reader_of_a_million_bits_is_refused() -> None:
    with pytest.raises(InputError, match="bits"):
        MarkReader(bits=10**6)
