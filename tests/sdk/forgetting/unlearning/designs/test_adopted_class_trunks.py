"""Exact designs for labels over trunks of somebody else, as `test_adopted_trunks` has them for
ages.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.graphs import SIDE
from tests.once import once

from unplug.core import DataError, InputError
from unplug.export import Session, export_checkpoint, load_artifact
from unplug.plugins import Checkpoint, Classifier, load_checkpoint
from unplug.sdk.drawing.inference import load_head
from unplug.sdk.forgetting.tasks import ClassTask
from unplug.sdk.forgetting.unlearning import device_head
from unplug.sdk.forgetting.unlearning.designs.trunk import rows_of
from unplug.sdk.learning.data import Dataset, load_dataset, make_split
from unplug.sdk.learning.training import PUBLIC

from ....cli.calls import refused, said
from ...tasks.test_classes import COLOURS, draw
from .conftest import FORMS, same
from .test_adopted_trunks import KINDS, Over, adopted, fitted, refitted


def drawn(place: Path, seed: int, count: int, names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(seed)
    for name in names:
        (place / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(draw(rng, COLOURS[name])).save(
                place / name / f"{seed}-{number:02d}.png"
            )


def make(root: Path) -> None:
    drawn(root / "pictures", 1, 14, tuple(COLOURS))
    drawn(root / "agreed", 2, 30, tuple(COLOURS))
    drawn(root / "two", 3, 9, tuple(COLOURS)[:2])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "adopted-classes", make)


def read(place: Path) -> Dataset:
    return load_dataset(f"imagefolder:{place}", SIDE, show=False)


@pytest.fixture(scope="module", params=KINDS)
def trunk(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Checkpoint:
    place = tmp_path_factory.mktemp(request.param)
    return adopted(request.param, place, read(folder / "agreed"), "classes")


@pytest.fixture(scope="module")
def overs(
    trunk: Checkpoint, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Over]:
    out, personal = tmp_path_factory.mktemp("over"), read(folder / "pictures")
    return {name: fitted(trunk, name, personal, out / name, ClassTask) for name in FORMS}


@pytest.mark.parametrize("design", FORMS)
def test_who_leaves_leaves_no_trace(overs: dict[str, Over], design: str, tmp_path: Path) -> None:
    """One, then eleven more; the refit is another process, from pictures in another order."""
    over = overs[design]
    assert isinstance(over.original.model, Classifier)
    assert over.original.model.classes == tuple(COLOURS)
    assert over.original.record["recipe"]["loss"] == "ce"
    names = make_split(over.personal, seed=0).train[:12]
    once_ = over.without(names[:1], tmp_path / "once")
    assert same(once_, over.without(names[:1], tmp_path / "again", "retrain"))
    more = replace(over, original=once_).without(names[1:], tmp_path / "more")
    assert same(more, refitted(over, names, tmp_path / "oracle"))
    assert more.record["forget"]["refitted"] is None and not same(more, over.original)


def test_its_files_say_what_the_checkpoint_says(overs: dict[str, Over], tmp_path: Path) -> None:
    """LiteRT of a torch trunk, ONNX alone of an ONNX file; of ages all targets are tried."""
    over = overs["closed-form"]
    path, is_graph = over.original.path, over.original.model.adopted.package == "onnx"
    if is_graph:
        with pytest.raises(InputError, match="Export it to onnx alone"):
            export_checkpoint(path, targets=["litert"], out=tmp_path)
    targets = ["onnx" if is_graph else "litert"]
    image_BCHW = torch.from_numpy(over.personal.pixels(range(9))).permute(0, 3, 1, 2) / 255.0
    with torch.no_grad():
        expected = over.original.model(image_BCHW)["logits"].numpy()
    for made in export_checkpoint(path, targets=targets, out=tmp_path / "files", layout="NHWC"):
        with Session(load_artifact(made.path)) as session:
            says = session.run_channels_first({"image": image_BCHW.numpy()})
        assert set(says) == {"logits"}
        np.testing.assert_allclose(says["logits"], expected, atol=2e-2)


def test_labels_that_the_trunks_data_lack(trunk: Checkpoint, folder: Path, tmp_path: Path) -> None:
    """The classes are those of the consented pictures; of one trunk another task takes ages."""
    few = adopted("onnx", tmp_path, read(folder / "two"))
    with pytest.raises(DataError, match="label 'sand', which the model never had"):
        fitted(few, "closed-form", read(folder / "pictures"), tmp_path / "model", ClassTask)
    with pytest.raises(DataError, match="has no age"):
        fitted(trunk, "closed-form", read(folder / "pictures"), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.long
def test_a_classifier_that_was_adopted_becomes_a_trunk(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its checkpoint, with its own answer among the features."""
    monkeypatch.chdir(tmp_path)
    adopt = f"adopt tests.networks:small --argument groups=3 --pixels {SIDE}"
    adopt += f" --data imagefolder:{folder}/agreed"
    said(f"{adopt} --classes --epochs 1 --out net")
    more = f"--weights net --features features --answer --trained-on imagefolder:{folder}/agreed"
    assert said(f"{adopt} --trunk {more} --out trunk")["features"] == 16 + 6
    train = f"train classes --data imagefolder:{folder}/pictures --forgettable closed-form"
    assert said(f"{train} --trunk trunk --out model")["metrics"]["train"]["n"] == 30
    assert "in it too" in refused(f"{train} --trunk trunk --out x".replace("pictures", "agreed"))


def test_the_command_line(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trunk = adopted("onnx", tmp_path, read(folder / "agreed"))
    assert trunk.record["trained_on"] == PUBLIC
    adopt = "adopt onnx:theirs.onnx --trunk --classes --features features --data synth:n=9 --out x"
    assert "--classes: a trunk serves ages and labels" in refused(adopt)
    train = f"train classes --data imagefolder:{folder}/pictures --forgettable closed-form"
    done = said(f"{train} --trunk trunk --out model")
    assert done["metrics"]["test"]["accuracy"] > 0.8
    assert "onnx:graph" in " ".join((tmp_path / "model/README.md").read_text().split())


def test_a_phones_own_head_tells_labels(
    overs: dict[str, Over], folder: Path, tmp_path: Path
) -> None:
    """It answers as the network does; what it takes out is what the server takes out."""
    over = overs["closed-form"]
    original, names = over.original, make_split(over.personal, seed=0).train[:3]
    made = said(f"head make {original.path} --out {tmp_path}/phone")
    head, trunk = load_head(made["head"]), load_checkpoint(made["trunk"]).model
    assert head.facts.classes == tuple(COLOURS) and not head.facts.edges

    image_BCHW = torch.from_numpy(over.personal.pixels(range(9))).permute(0, 3, 1, 2) / 255.0
    with torch.no_grad():
        features_NC, expected = trunk(image_BCHW)["features"], original.model(image_BCHW)
    found = head.answer(features_NC.numpy())
    np.testing.assert_allclose(found["logits"], expected["logits"].numpy(), atol=2e-3)

    grid = original.record["design"]["grid"]
    rows = rows_of(original.model, grid, over.personal, names, torch.device("cpu"))
    for name, pooled_C, truth in zip(
        names, rows.pooled_NC.numpy(), rows.truth_N.tolist(), strict=True
    ):
        head = head.remove(name, pooled_C, truth)
    theirs = device_head(over.without(names, tmp_path / "server"), "0" * 64)
    assert np.array_equal(head.sums_KK, theirs.sums_KK) and head.committed == theirs.committed

    first, second = tuple(COLOURS)[:2]
    picture = f"--trunk {made['trunk']} --image '{folder}/agreed/{first}/2-00.png'"
    mine, entry = tmp_path / "mine.safetensors", f"{picture} --person me --out"
    assert said(f"head answer {made['head']} {picture}")["label"] in COLOURS
    said(f"head add {made['head']} {entry} {mine} --label '{second}'")
    assert "with this class" in refused(f"head remove {mine} {entry} {mine} --label '{first}'")
    said(f"head remove {mine} {entry} {mine} --label '{second}'")
    assert mine.read_bytes() == Path(made["head"]).read_bytes()
    for wrong, why in (("--age 30", "tells labels"), ("--label moon", "no such label")):
        assert why in refused(f"head add {mine} {entry} {mine} {wrong}")
