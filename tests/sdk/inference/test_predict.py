"""Ages on photographs: the crop and the forward pass, checked against the model itself."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unplug.core import CheckpointError, DataError, InputError
from unplug.plugins import AgePredictor, save_checkpoint
from unplug.sdk.data import square
from unplug.sdk.inference import predict_images

SIDE = 32


@pytest.fixture(scope="module")
def model() -> AgePredictor:
    torch.manual_seed(0)
    net = AgePredictor(image_size=SIDE, age_edges=(0, 20, 40, 100))
    for _ in range(20):  # with initial statistics every picture would look the same to it
        net(torch.rand(8, 3, SIDE, SIDE) * torch.rand(8, 3, 1, 1))
    torch.nn.init.normal_(net.classifier.weight)
    return net.eval()


@pytest.fixture(scope="module")
def checkpoint(model: AgePredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("infer") / "model"
    save_checkpoint(model, path, record={}, card="")
    return path


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("box", [None, "10,5,40,45", " 0, 0, 80, 50 "])
def test_a_prediction_is_the_models_own_on_the_same_crop(
    model: AgePredictor, checkpoint: Path, photo: Path, box: str | None
) -> None:
    image = Image.open(photo)
    if box is not None:
        left, top, right, bottom = map(int, box.split(","))
        image = image.crop((left, top, right, bottom))
    with torch.no_grad():
        outputs = model(torch.from_numpy(square(image, SIDE).copy()).permute(2, 0, 1)[None].float() / 255)
    (row,) = predict_images(checkpoint, [photo], box=box)
    assert row["age"] == outputs["expected_age"].item() and row["image"] == str(photo)
    shares = dict(zip(["0-20", "20-40", "40-100"], outputs["age_logits"][0].softmax(0).tolist(), strict=True))
    assert {item["ages"]: item["probability"] for item in row["groups"]} == pytest.approx(shares, abs=1e-6)
    falling = [item["probability"] for item in row["groups"]]
    assert falling == sorted(falling, reverse=True) and row["crop"] == ("centre square" if box is None else f"box {box}")


def test_rows_come_in_the_order_of_the_images(checkpoint: Path, photo: Path, tmp_path: Path) -> None:
    Image.new("RGB", (9, 9), (255, 0, 0)).save(tmp_path / "red.png")
    rows = predict_images(checkpoint, [tmp_path / "red.png", photo])
    backwards = predict_images(checkpoint, [photo, tmp_path / "red.png"])
    assert [row["image"] for row in rows] == [str(tmp_path / "red.png"), str(photo)]
    assert rows[0]["age"] == pytest.approx(backwards[1]["age"], abs=1e-4) != rows[1]["age"]


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ("", "four numbers"),
        ("1,2,3", "four numbers"),
        ("1,2,3,4,5", "four numbers"),
        ("a,b,c,d", "four numbers"),
        ("-1,0,5,5", "four numbers"),
        ("0,0,5.5,5", "four numbers"),
        ("0,0,²,5", "four numbers"),
        ("0,0,5," + "9" * 5000, "four numbers"),
        ("5,0,5,5", "within 80x50"),
        ("0,9,5,5", "within 80x50"),
        ("0,0,81,50", "within 80x50"),
        ("0,0,80,51", "within 80x50"),
    ],
)
def test_boxes_that_are_none_are_refused(checkpoint: Path, photo: Path, box: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        predict_images(checkpoint, [photo], box=box)


def test_a_broken_photograph_or_model_is_named(checkpoint: Path, photo: Path, tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("no photograph")
    with pytest.raises(DataError, match=r"text.jpg"):
        predict_images(checkpoint, [photo, tmp_path / "text.jpg"])
    (tmp_path / "model.pt").write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="this is a pickle"):
        predict_images(tmp_path / "model.pt", [photo])


def test_a_missing_task_file_says_where_to_get_one(checkpoint: Path, photo: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such task file.*MediaPipe"):
        predict_images(checkpoint, [photo], landmarker=tmp_path / "none.task")


# --- faces found by MediaPipe

needs_mediapipe = pytest.mark.skipif(
    "UNPLUG_FACE_LANDMARKER" not in os.environ or "UNPLUG_PORTRAIT" not in os.environ,
    reason="set UNPLUG_FACE_LANDMARKER to face_landmarker.task and UNPLUG_PORTRAIT to a photograph of one face",
)


@needs_mediapipe
def test_one_face_is_found_and_none_or_several_are_said(checkpoint: Path, tmp_path: Path) -> None:
    task, portrait = Path(os.environ["UNPLUG_FACE_LANDMARKER"]), Path(os.environ["UNPLUG_PORTRAIT"])
    face = Image.open(portrait).convert("RGB")
    (row,) = predict_images(checkpoint, [portrait], landmarker=task)
    left, top, right, bottom = (int(part) for part in row["crop"].removeprefix("face at ").split(","))
    assert 0 <= left < right <= face.width and 0 <= top < bottom <= face.height
    assert row["age"] == predict_images(checkpoint, [portrait], box=f"{left},{top},{right},{bottom}")[0]["age"]
    Image.new("RGB", (300, 300), (90, 120, 90)).save(tmp_path / "meadow.png")
    with pytest.raises(DataError, match=r"meadow.png: no face found"):
        predict_images(checkpoint, [tmp_path / "meadow.png"], landmarker=task)
    crop = face.crop((left, top, right, bottom)).resize((400, 400))
    pair = Image.new("RGB", (1000, 480), (128, 128, 128))
    pair.paste(crop, (50, 40))
    pair.paste(crop, (550, 40))
    pair.save(tmp_path / "pair.png")
    with pytest.raises(DataError, match=r"pair.png: 2 faces found"):
        predict_images(checkpoint, [tmp_path / "pair.png"], landmarker=task)
