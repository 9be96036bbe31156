"""Depth by a tiny random network, against its own output; what is no safe model is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

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
    with pytest.raises(DataError, match="no number"):
        grey(np.array([[0.0, np.nan]]))


def test_depth_is_the_networks_own_from_0_to_255(model: Path, picture: Picture) -> None:
    with Depth(model=str(model), device="cpu") as depth:
        found = depth(picture)
    assert found.shape == picture.shape and found.dtype == np.uint8
    assert found.min() == 0 and found.max() == 255
    assert np.array_equal(found[..., 0], found[..., 1]) and np.array_equal(
        found[..., 0], found[..., 2]
    )
    network = transformers.DPTForDepthEstimation.from_pretrained(model)
    inputs = transformers.AutoImageProcessor.from_pretrained(model)(
        images=picture, return_tensors="pt"
    )
    with torch.no_grad():
        raw = network(**inputs).predicted_depth
    full = torch.nn.functional.interpolate(
        raw[None], size=(48, 70), mode="bicubic", align_corners=False
    )[0, 0].numpy()
    expected = 255 * (full - full.min()) / (full.max() - full.min())
    assert np.abs(found[..., 0] - expected).max() <= 0.5 + 1e-3


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


def test_pickles_and_code_are_never_loaded(model: Path, picture: Picture, tmp_path: Path) -> None:
    pickled = Path(shutil.copytree(model, tmp_path / "pickled"))
    (pickled / "model.safetensors").unlink()
    torch.save(
        transformers.DPTForDepthEstimation.from_pretrained(model).state_dict(),
        pickled / "pytorch_model.bin",
    )
    with pytest.raises(CheckpointError, match="no depth-estimation model can be read"):
        Depth(model=str(pickled))(picture)
    coded = Path(shutil.copytree(model, tmp_path / "coded"))
    config = json.loads((coded / "config.json").read_text())
    config |= {
        "model_type": "own",
        "auto_map": {"AutoConfig": "own.Config", "AutoModelForDepthEstimation": "own.Model"},
    }
    (coded / "config.json").write_text(json.dumps(config))
    (coded / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    with pytest.raises(CheckpointError, match="no depth-estimation model can be read"):
        Depth(model=str(coded))(picture)
    assert not (tmp_path / "ran").exists()


def test_broken_models_and_devices(model: Path, picture: Picture, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(model, tmp_path / "broken"))
    (broken / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:5000])
    with pytest.raises(CheckpointError, match="broken: no depth-estimation model"):
        Depth(model=str(broken))(picture)
    (broken / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="broken: no depth-estimation model"):
        Depth(model=str(broken))(picture)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty: no depth-estimation model"):
        Depth(model=str(tmp_path / "empty"))(picture)
    with pytest.raises(InputError, match="Use auto, cpu or cuda"):
        Depth(model=str(model), device="tpu")(picture)
    with pytest.raises(DataError, match="too few"):
        Depth(model=str(model))(picture[:10])
