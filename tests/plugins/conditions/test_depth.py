"""Depth by a tiny random network, against its own output; what is no safe model is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from unplug.core import CheckpointError, DataError, InputError
from unplug.plugins.conditions import Depth
from unplug.plugins.conditions.depth import grey

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install 'unplug-sdk[diffusion]'"
)

Picture = NDArray[np.uint8]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dpt")
    torch.manual_seed(0)
    config = transformers.DPTConfig(
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=32,
        patch_size=8,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
        is_hybrid=False,
    )
    transformers.DPTForDepthEstimation(config).save_pretrained(folder)
    settings = {
        "image_processor_type": "DPTImageProcessor",
        "do_resize": True,
        "size": {"height": 32, "width": 32},
        "resample": 3,
        "do_rescale": True,
        "do_normalize": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def picture() -> Picture:
    return np.random.default_rng(0).integers(0, 256, (48, 70, 3), dtype=np.uint8)


def test_grey_by_hand() -> None:
    assert grey(np.array([[-1.0, 0.0], [1.0, 3.0]]))[:, :, 0].tolist() == [[0, 64], [128, 255]]
    assert not grey(np.full((4, 5), 7.0)).any()
    with pytest.raises(DataError, match="something other than a number"):
        grey(np.array([[0.0, np.nan]]))


def test_depth_is_the_networks_own_from_0_to_255(model: Path, picture: Picture) -> None:
    with Depth(model=str(model), device="cpu") as depth:
        drawn = depth(picture)
    assert drawn.shape == picture.shape and drawn.dtype == np.uint8
    assert drawn.min() == 0 and drawn.max() == 255
    assert np.array_equal(drawn[..., 0], drawn[..., 1]) and np.array_equal(
        drawn[..., 0], drawn[..., 2]
    )
    network = transformers.DPTForDepthEstimation.from_pretrained(model)
    # Pillow's, as it is without torchvision, which resizes otherwise
    processor = transformers.AutoImageProcessor.from_pretrained(model, backend="pil")
    inputs = processor(images=picture, return_tensors="pt")
    with torch.no_grad():
        raw = network(**inputs).predicted_depth
    full = torch.nn.functional.interpolate(
        raw[None], size=(48, 70), mode="bicubic", align_corners=False
    )[0, 0].numpy()
    expected = 255 * (full - full.min()) / (full.max() - full.min())
    assert np.abs(drawn[..., 0] - expected).max() <= 0.5 + 1e-3


def test_the_square_and_the_same_bytes(model: Path, picture: Picture) -> None:
    depth = Depth(model=str(model), device="cpu")
    first = depth.render(picture, 64)
    assert first.shape == (64, 64, 3) and first.any()
    depth(picture)
    assert depth.render(picture, 64).tobytes() == first.tobytes()
    assert Depth(model=str(model), device="cpu").render(picture, 64).tobytes() == first.tobytes()
    square = np.ascontiguousarray(picture[:, 11:59])
    assert (
        depth.render(square, 48).tobytes()
        == depth(square).tobytes()
        == depth.render(picture, 48).tobytes()
    )


def pickled(folder: Path) -> None:
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()


def coded(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "own.Config", "AutoModelForDepthEstimation": "own.Model"}
    config |= {"model_type": "own", "auto_map": code}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])


def unreadable(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("harm", [pickled, coded, cut, unreadable, empty])
def test_what_is_no_safe_model_is_refused_and_runs_nothing(
    model: Path, picture: Picture, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "harmed"))
    harm(folder)
    with pytest.raises(CheckpointError, match="harmed: no depth-estimation model can be read"):
        Depth(model=str(folder))(picture)
    assert not (folder / "ran").exists()


def test_devices_and_pictures_that_are_none(model: Path, picture: Picture) -> None:
    with pytest.raises(InputError, match="Use auto, cpu or cuda"):
        Depth(model=str(model), device="tpu")(picture)
    with pytest.raises(DataError, match="too few"):
        Depth(model=str(model))(picture[:10])
