"""Any model on pictures or arrays: the crop and the forward pass against the model itself, the
answer and its picture.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unplug.core import CheckpointError, DataError, InputError, IOSpec, TensorSpec
from unplug.plugins import AgePredictor, save_checkpoint
from unplug.sdk.drawing.inference import Answer, run
from unplug.sdk.drawing.inference.crop import crop_all
from unplug.sdk.learning.data import square

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
def test_an_age_is_the_models_own_on_the_same_crop(
    model: AgePredictor, checkpoint: Path, photo: Path, tmp_path: Path, box: str | None
) -> None:
    image = Image.open(photo)
    if box is not None:
        left, top, right, bottom = map(int, box.split(","))
        image = image.crop((left, top, right, bottom))
    with torch.no_grad():
        outputs = model(
            torch.from_numpy(square(image, SIDE).copy()).permute(2, 0, 1)[None].float() / 255
        )
    answer = run(checkpoint, [photo], box=box)
    (row,) = answer.results
    assert row["age"] == outputs["expected_age"].item() and row["image"] == str(photo)
    shares = dict(
        zip(["0-20", "20-40", "40-100"], outputs["age_logits"][0].softmax(0).tolist(), strict=True)
    )
    assert {item["ages"]: item["probability"] for item in row["groups"]} == pytest.approx(
        shares, abs=1e-6
    )
    falling = [item["probability"] for item in row["groups"]]
    assert falling == sorted(falling, reverse=True) and row["crop"] == (
        "centre square" if box is None else f"box {box}"
    )
    assert [note.startswith("no face was looked for") for note in answer.notes] == (
        [True] if box is None else []
    )
    # The same numbers from a file of arrays, with no row of ages: nobody's photograph was looked
    # at.
    for name, save in (
        ("x.npy", lambda to: np.save(to, answer.inputs["image"])),
        ("x.npz", lambda to: np.savez(to, **answer.inputs)),
    ):
        save(tmp_path / name)
        again = run(checkpoint, tmp_path / name)
        assert np.array_equal(again.outputs["expected_age"], answer.outputs["expected_age"])
        assert again.results == again.notes == ()


def test_rows_come_in_the_order_of_the_images(
    checkpoint: Path, photo: Path, tmp_path: Path
) -> None:
    Image.new("RGB", (9, 9), (255, 0, 0)).save(tmp_path / "red.png")
    rows = run(checkpoint, [tmp_path / "red.png", photo]).results
    backwards = run(checkpoint, [photo, tmp_path / "red.png"]).results
    assert [row["image"] for row in rows] == [str(tmp_path / "red.png"), str(photo)]
    assert rows[0]["age"] == pytest.approx(backwards[1]["age"], abs=1e-4) != rows[1]["age"]


def test_boxes_that_are_none_are_refused(photo: Path) -> None:
    for box in (
        "",
        "1,2,3",
        "1,2,3,4,5",
        "a,b,c,d",
        "-1,0,5,5",
        "0,0,5.5,5",
        "0,0,²,5",
        "0,0,5," + "9" * 5000,
    ):
        with pytest.raises(InputError, match="four numbers"):
            crop_all([photo], SIDE, box=box)
    for box in ("5,0,5,5", "0,9,5,5", "0,0,81,50", "0,0,80,51"):
        with pytest.raises(InputError, match="within 80x50"):
            crop_all([photo], SIDE, box=box)


def test_what_is_broken_is_named(checkpoint: Path, photo: Path, tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("no photograph")
    with pytest.raises(DataError, match=r"text.jpg"):
        run(checkpoint, [photo, tmp_path / "text.jpg"])
    (tmp_path / "model.pt").write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="this is a pickle"):
        run(tmp_path / "model.pt", [photo])
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04")
    for name in ("objects.npy", "cut.npz", "gone.npy"):
        with pytest.raises(DataError, match=name):
            run(checkpoint, tmp_path / name)
    with pytest.raises(InputError, match="'image'"):
        run(checkpoint, {"picture": np.zeros((1, 3, SIDE, SIDE), np.float32)})
    with pytest.raises(InputError, match=r"no such task file.*MediaPipe"):
        run(checkpoint, [photo], landmarker=tmp_path / "none.task")


def answer_of(colour: bool) -> Answer:
    """Two samples of a condition and of residuals that are strong on their left, or of a picture."""
    condition = TensorSpec(name="condition", shape=(1, 3, 8, 8), layout="NCHW", range=(-1.0, 1.0))
    made = TensorSpec(
        name="image", shape=(1, 3, 8, 8), layout="NCHW", range=(0.0, 1.0), colour="RGB"
    )
    residual = TensorSpec(name="residual", shape=(1, 5, 4, 4), layout="NCHW")
    strong = np.zeros((2, 5, 4, 4), np.float32)
    strong[..., :2] = -3.0
    spec, outputs = (made, np.full((2, 3, 8, 8), 0.2, np.float32)) if colour else (residual, strong)
    return Answer(
        model="x",
        model_type="plugin",
        iospec=IOSpec(inputs=(condition,), outputs=(spec,)),
        inputs={"condition": np.ones((2, 3, 8, 8), np.float32)},
        outputs={spec.name: outputs},
    )


def test_the_picture_of_an_answer_shows_colours_and_energies(tmp_path: Path) -> None:
    sheet = np.asarray(answer_of(False).picture())
    assert sheet.shape == (8 + 4 + 8, 8 + 4 + 8, 3) and (sheet[:8, :8] == 255).all()
    assert (sheet[:8, 12:16] == 255).all() and (sheet[:8, 16:] == 0).all(), (
        "energy is not where the residual is"
    )
    assert (np.asarray(answer_of(True).picture())[:8, 12:] == 51).all()
    (row,) = answer_of(False).summary()
    assert row == {
        "name": "residual",
        "shape": [2, 5, 4, 4],
        "dtype": "float32",
        "min": -3.0,
        "max": 0.0,
        "mean": -1.5,
        "rms": pytest.approx(3 / 2**0.5),
    }
    answer_of(False).save(tmp_path / "a.npz")
    assert np.array_equal(
        np.load(tmp_path / "a.npz")["residual"], answer_of(False).outputs["residual"]
    )
    with pytest.raises(InputError, match=r"neither .npz"):
        answer_of(True).save(tmp_path / "a.jpg")


def test_an_age_is_no_picture(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it gives no picture"):
        run(checkpoint, 0).save(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


# --- faces found by MediaPipe

needs_mediapipe = pytest.mark.skipif(
    "UNPLUG_FACE_LANDMARKER" not in os.environ or "UNPLUG_PORTRAIT" not in os.environ,
    reason=(
        "set UNPLUG_FACE_LANDMARKER to face_landmarker.task and UNPLUG_PORTRAIT to a photograph of "
        "one face"
    ),
)


@pytest.mark.long
@needs_mediapipe
def test_one_face_is_found_and_none_or_several_are_said(checkpoint: Path, tmp_path: Path) -> None:
    task, portrait = Path(os.environ["UNPLUG_FACE_LANDMARKER"]), Path(os.environ["UNPLUG_PORTRAIT"])
    face = Image.open(portrait).convert("RGB")
    (row,) = run(checkpoint, [portrait], landmarker=task).results
    left, top, right, bottom = (
        int(part) for part in row["crop"].removeprefix("face at ").split(",")
    )
    assert 0 <= left < right <= face.width and 0 <= top < bottom <= face.height
    assert (
        row["age"]
        == run(checkpoint, [portrait], box=f"{left},{top},{right},{bottom}").results[0]["age"]
    )
    Image.new("RGB", (300, 300), (90, 120, 90)).save(tmp_path / "meadow.png")
    with pytest.raises(DataError, match=r"meadow.png: no face found"):
        run(checkpoint, [tmp_path / "meadow.png"], landmarker=task)
    crop = face.crop((left, top, right, bottom)).resize((400, 400))
    pair = Image.new("RGB", (1000, 480), (128, 128, 128))
    pair.paste(crop, (50, 40))
    pair.paste(crop, (550, 40))
    pair.save(tmp_path / "pair.png")
    with pytest.raises(DataError, match=r"pair.png: 2 faces found"):
        run(checkpoint, [tmp_path / "pair.png"], landmarker=task)
