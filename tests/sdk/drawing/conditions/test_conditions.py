"""Conditions of arrays and folders: the same as one by one, kept, continued, and never on top of
somebody's files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

from unplug.core import DataError, InputError, NoFaceError, OutputError, SeveralFacesError
from unplug.plugins.conditions import Canny, FaceLandmark, build_condition
from unplug.sdk.drawing.conditions import (
    Drawn,
    arrays,
    condition_file,
    condition_folder,
    conditions_in_worker,
    landmarks_in_worker,
    open_rows,
)
from unplug.sdk.drawing.conditions import rows as rows_module
from unplug.sdk.drawing.conditions.pool import as_text
from unplug.sdk.drawing.conditions.rows import read_notes as notes_of
from unplug.sdk.learning import faces

Images = NDArray[np.uint8]
BLANK = np.full((96, 96, 3), 128, np.uint8)


def noise(count: int = 7, size: int = 40) -> Images:
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


@pytest.fixture
def face_task() -> Path:
    path = os.environ.get("UNPLUG_FACE_LANDMARKER", "")
    if not path or not Path(path).is_file():
        pytest.skip(f"UNPLUG_FACE_LANDMARKER names no face_landmarker.task ({path or 'unset'})")
    pytest.importorskip(
        "mediapipe", reason="mediapipe is not installed: pip install 'unplug-sdk[conditions]'"
    )
    return Path(path)


@pytest.fixture(scope="module")
def drawn_faces() -> Images:
    """A face, nothing, another face, two faces."""
    made = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        params = faces.sample_face(faces.sample_identity(rng), 30.0, rng, frontal=True)
        made.append(faces.render(params, 96).image)
    pair = np.full((96, 96, 3), 128, np.uint8)
    for left in (0, 48):
        pair[24:72, left : left + 48] = np.asarray(Image.fromarray(made[0]).resize((48, 48)))
    return np.stack([made[0], BLANK, made[1], pair])


# Arrays


def test_conditions_are_those_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 3)
    images, canny = noise(), build_condition("canny", {"low": "40"})
    rows, found = conditions_in_worker("canny", {"low": "40"}, images, 32, workers=2)
    assert rows.dtype == np.uint8 and rows.shape == (7, 32, 32, 3) and found.tolist() == [True] * 7
    assert np.array_equal(rows, np.stack([canny.render(image, 32) for image in images]))
    none, nothing = conditions_in_worker("canny", {}, images[:0], 32)
    assert none.shape == (0, 32, 32, 3) and nothing.shape == (0,)


def test_a_finished_file_is_read_and_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, out = noise(), tmp_path / "deep" / "canny.npy"
    rows, found = conditions_in_worker("canny", {}, images, 32, out=out)
    assert isinstance(rows, np.memmap) and not rows.flags.writeable and found.all()
    plain = conditions_in_worker("canny", {}, images, 32)[0]
    assert np.array_equal(rows, plain)
    assert sorted(path.name for path in out.parent.iterdir()) == ["canny.json", "canny.npy"]
    assert str(tmp_path) not in out.with_suffix(".json").read_text()

    def refuse(*_: object) -> Any:
        raise AssertionError("drawn again")

    with monkeypatch.context() as patch:
        patch.setattr(Canny, "render", refuse)
        again, _ = conditions_in_worker("canny", {}, np.array(images), 32, out=out)
        assert np.array_equal(again, rows)
        for options, other, size in (
            ({"low": "7"}, images, 32),
            ({}, images[::-1], 32),
            ({}, images, 16),
        ):
            with pytest.raises(AssertionError, match="drawn again"):
                conditions_in_worker("canny", options, other, size, out=out)
    backwards, _ = conditions_in_worker("canny", {}, images[::-1], 32, out=out)
    assert np.array_equal(backwards, plain[::-1])


def interrupt(monkeypatch: pytest.MonkeyPatch, out: Path, images: Images, after: int) -> None:
    """Draws until the picture at `after` raises."""
    real, calls = Canny.render, []

    def failing(self: Canny, image: Images, size: int) -> Images:
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(self, image, size)

    with monkeypatch.context() as patch:
        patch.setattr(Canny, "render", failing)
        with pytest.raises(KeyboardInterrupt):
            conditions_in_worker("canny", {}, images, 32, out=out, workers=1)


@pytest.mark.parametrize("tail", [b"", b"half a row", b"\0" * (32 * 32 * 3 + 5)])
def test_an_interrupted_file_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: bytes
) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 2)
    images, out = noise(), tmp_path / "canny.npy"
    interrupt(monkeypatch, out, images, after=5)
    assert not out.exists()
    partial = tmp_path / ".canny.npy.partial" / "rows.npy"
    with partial.open("ab") as handle:
        handle.write(tail)  # rows that were written when the process died, but not yet counted
    drawn: list[int] = []
    real = Canny.render

    def counted(self: Canny, image: Images, size: int) -> Images:
        drawn.append(1)
        return real(self, image, size)

    monkeypatch.setattr(Canny, "render", counted)
    rows, found = conditions_in_worker("canny", {}, images, 32, out=out)
    assert 3 <= len(drawn) < 7 and found.all()
    monkeypatch.setattr(Canny, "render", real)
    assert np.array_equal(rows, conditions_in_worker("canny", {}, images, 32)[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["canny.json", "canny.npy"]


def test_an_interrupted_file_of_other_settings_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 2)
    images, out = noise(), tmp_path / "canny.npy"
    interrupt(monkeypatch, out, images, after=5)
    rows, _ = conditions_in_worker("canny", {"low": "30"}, images, 32, out=out)
    assert np.array_equal(rows, conditions_in_worker("canny", {"low": "30"}, images, 32)[0])


def test_damaged_files_are_drawn_again(tmp_path: Path) -> None:
    images, out = noise(), tmp_path / "canny.npy"
    expected = np.array(conditions_in_worker("canny", {}, images, 32, out=out)[0])
    whole, notes = out.read_bytes(), out.with_suffix(".json").read_text()
    out.write_bytes(whole[:-10])
    assert np.array_equal(conditions_in_worker("canny", {}, images, 32, out=out)[0], expected)
    out.with_suffix(".json").write_text(notes.replace('"missing": []', '"missing": [99]'))
    _, found = conditions_in_worker("canny", {}, images, 32, out=out)
    assert found.all() and out.read_bytes() == whole


@pytest.mark.parametrize("call", range(4))
@pytest.mark.parametrize("older", [False, True])
def test_a_call_that_dies_at_its_very_end_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int, older: bool
) -> None:
    """Killed before or between the moves of rows and notes, in front of older rows or of none."""
    images, out = noise(), tmp_path / "canny.npy"
    expected = np.array(conditions_in_worker("canny", {}, images, 32)[0])
    if older:
        conditions_in_worker("canny", {"low": "7"}, images, 32, out=out)
    seen: list[str] = []

    def die(name: str, real: Any) -> Any:
        def called(*given: Any, **how: Any) -> Any:
            seen.append(name)
            if len(seen) > call:
                raise KeyboardInterrupt
            return real(*given, **how)

        return called

    with monkeypatch.context() as patch:
        patch.setattr(rows_module, "write_json", die("write", rows_module.write_json))
        # its own temporary notes count as one
        patch.setattr(rows_module.os, "replace", die("replace", os.replace))
        patch.setattr(rows_module.shutil, "rmtree", die("remove", shutil.rmtree))
        with pytest.raises(KeyboardInterrupt):
            conditions_in_worker("canny", {}, images, 32, out=out)
    if seen[-1] != "write" and len(seen) > 2:
        monkeypatch.setattr(Canny, "render", lambda *_: pytest.fail("drawn again"))
    rows, found = conditions_in_worker("canny", {}, images, 32, out=out)
    assert np.array_equal(rows, expected) and found.all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["canny.json", "canny.npy"]


def test_files_of_another_version_are_ours_and_drawn_again(folder: Path, tmp_path: Path) -> None:
    images, out = noise(), tmp_path / "canny.npy"
    expected = np.array(conditions_in_worker("canny", {}, images, 32, out=out)[0])
    notes = out.with_suffix(".json")
    notes.write_text(notes.read_text().replace("unplug-conditions/1", "unplug-conditions/0"))
    np.save(out, np.zeros_like(expected))
    assert np.array_equal(conditions_in_worker("canny", {}, images, 32, out=out)[0], expected)
    condition_folder("canny", {}, folder, tmp_path / "out", 32)
    target = tmp_path / "out/a.png.png"
    old = PngImagePlugin.PngInfo()
    with Image.open(target) as picture:
        old.add_text(
            "unplug", picture.info["unplug"].replace("unplug-condition/1", "unplug-condition/0")
        )
        picture.save(target, "PNG", pnginfo=old)
    assert statuses(condition_folder("canny", {}, folder, tmp_path / "out", 32)) == [
        "kept",
        "written",
        "kept",
    ]


def test_a_digest_that_the_caller_has_spares_reading_the_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, out = noise(), tmp_path / "canny.npy"
    monkeypatch.setattr(arrays, "_digest", lambda _: pytest.fail("it was read"))
    rows, _ = conditions_in_worker("canny", {}, images, 32, out=out, digest="one")
    assert rows.shape == (7, 32, 32, 3)
    monkeypatch.setattr(Canny, "render", lambda *_: np.full((32, 32, 3), 9, np.uint8))
    assert not (
        np.asarray(conditions_in_worker("canny", {}, images, 32, out=out, digest="one")[0]) == 9
    ).all()
    assert (
        np.asarray(conditions_in_worker("canny", {}, images, 32, out=out, digest="two")[0]) == 9
    ).all()


def test_other_files_and_other_writers_are_left_alone(tmp_path: Path) -> None:
    images = noise(2)
    mine = tmp_path / "mine.npy"
    np.save(mine, np.arange(3))
    with pytest.raises(OutputError, match="was not written by this function"):
        conditions_in_worker("canny", {}, images, 32, out=mine)
    assert np.load(mine).tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"a \.npy file"):
        conditions_in_worker("canny", {}, images, 32, out=tmp_path / "canny.bin")
    out = tmp_path / "canny.npy"
    with (
        open_rows(out, "key", (2, 32, 32, 3)),
        pytest.raises(OutputError, match="another process is writing it"),
    ):
        conditions_in_worker("canny", {}, images, 32, out=out)
    with pytest.raises(OutputError, match=r"Free some space or choose another place"):
        conditions_in_worker("canny", {}, images, 32, out=mine / "below" / "a.npy")
    assert notes_of(out) is None


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((2, 40, 40), np.uint8), ((2, 40, 40, 4), np.uint8), ((2, 40, 40, 3), np.float32)],
)
def test_images_of_another_shape_or_type(shape: tuple[int, ...], kind: Any) -> None:
    with pytest.raises(InputError, match="Convert them to 8-bit RGB"):
        conditions_in_worker("canny", {}, np.zeros(shape, kind), 32)
    with pytest.raises(DataError, match="too few"):
        conditions_in_worker("canny", {}, noise(2, 9), 32)


# Child processes


@pytest.mark.long
def test_face_conditions_and_landmarks_come_from_child_processes(
    face_task: Path, drawn_faces: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 2)
    options = {"task": str(face_task)}
    np.save(tmp_path / "images.npy", drawn_faces)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    rows, found = conditions_in_worker(
        "face_landmark", options, mapped, 64, out=tmp_path / "faces.npy", workers=2
    )
    points = landmarks_in_worker(mapped, face_task, workers=2)
    alone = landmarks_in_worker(drawn_faces[2:], face_task, faces="one")
    assert found.tolist() == [True, False, True, False] and not rows[[1, 3]].any()
    assert json.loads((tmp_path / "faces.json").read_text())["missing"] == [1, 3]
    assert [item is None for item in points] == [False, True, False, False]
    assert alone[0] is not None and alone[1] is None
    with FaceLandmark(task=str(face_task)) as landmark:
        for index in (0, 2):
            assert np.array_equal(rows[index], landmark.render(drawn_faces[index], 64))
            assert np.array_equal(points[index], landmark.landmarks(drawn_faces[index]))  # type: ignore[arg-type]
        assert np.array_equal(
            points[3], replace(landmark, faces="largest").landmarks(drawn_faces[3])
        )  # type: ignore[arg-type]


@pytest.mark.long
def test_the_child_process_never_imports_torch(face_task: Path) -> None:
    values = {"kind": "face_landmark", "options": {"task": str(face_task)}, "size": 64}
    code = f"""
import sys, types, numpy as np
from unplug.sdk.drawing.conditions import arrays, face_finder, files
images = {{"images": np.zeros((1, 64, 64, 3), np.uint8)}}
job = types.SimpleNamespace(arrays=images, progress=lambda *_: None, values={values!r})
found = arrays.conditions_of_job(job).arrays["found"].tolist()
print(found, "mediapipe" in sys.modules, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[False] True False\n"


THIRD = """
import os
from dataclasses import dataclass
from unplug.plugins.conditions import Condition

@dataclass(frozen=True, kw_only=True)
class Third(Condition):
    kind = "third"
    description = "does harm"
    parallel = "process"

    def __call__(self, image):
        BODY
"""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("os.abort()", "its child process was killed by SIGABRT"),
        pytest.param(
            "bytearray(3 * 2**30)",
            "It may take 2.0 GiB; .*set UNPLUG_CHILD_MEMORY_GIB to more",
            marks=pytest.mark.skipif(
                sys.platform != "linux", reason="only Linux counts what is mapped"
            ),
        ),
        pytest.param(
            "while True: pass", "not done after 4 s.*UNPLUG_CHILD_SECONDS", marks=pytest.mark.long
        ),
    ],
    ids=["crash", "memory", "time"],
)
def test_harm_in_native_code_is_one_line_and_a_third_party_is_found(
    tmp_path: Path, body: str, why: str
) -> None:
    """A crash, memory without a bound, an endless loop: what a picture or a task file could bring
    about in MediaPipe.
    """
    place = tmp_path / "path"
    facts = place / "third-1.0.dist-info"
    facts.mkdir(parents=True)
    (place / "third_condition.py").write_text(THIRD.replace("BODY", body))
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
    points = "[unplug.conditions]\nthird = third_condition:Third\n"
    (facts / "entry_points.txt").write_text(points)
    Image.fromarray(BLANK).save(tmp_path / "a.png")
    command = "-m unplug.sdk.cli condition --kind third a.png -o out.png"
    environment = os.environ | {
        "PYTHONPATH": f"{place}:{os.environ.get('PYTHONPATH', '')}",
        "UNPLUG_CHILD_MEMORY_GIB": "2",
        **({"UNPLUG_CHILD_SECONDS": "4"} if "while" in body else {}),
    }
    done = subprocess.run(
        [sys.executable, *command.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert re.search(f"condition third: .*{why}", done.stderr), done.stderr
    assert not (tmp_path / "out.png").exists()


# Folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pictures of one stem, one in a folder, and files that are none."""
    source = tmp_path / "in"
    (source / "deep").mkdir(parents=True)
    for index, name in enumerate(("a.png", "a.bmp", "deep/a.png")):
        Image.fromarray(noise(3, 48)[index]).save(source / name)
    (source / "notes.txt").write_text("no picture")
    Image.fromarray(BLANK).save(source / ".hidden.png")
    return source


def statuses(rows: list[Drawn]) -> list[str]:
    return [row.status for row in rows]


def test_a_condition_does_not_replace_its_own_picture(folder: Path, tmp_path: Path) -> None:
    """By whatever name: the photograph would be gone."""
    photo = folder / "a.png"
    before = photo.read_bytes()
    (tmp_path / "link.png").symlink_to(photo)
    (tmp_path / "twin.png").hardlink_to(photo)
    for out in (
        photo,
        folder / "deep" / ".." / "a.png",
        tmp_path / "link.png",
        tmp_path / "twin.png",
    ):
        with pytest.raises(OutputError, match="it is the picture itself"):
            condition_file("canny", {}, photo, out)
    for name in ("a.jpg", "a", "a.png.bmp"):
        with pytest.raises(InputError, match="conditions are written as PNG"):
            condition_file("canny", {}, photo, tmp_path / name)
    assert photo.read_bytes() == before and not (tmp_path / "a.jpg").exists()


def test_settings_travel_as_text() -> None:
    """Those at their defaults stay behind: None, say, has no spelling."""
    canny = Canny(low=12.5)
    assert as_text(canny) == {"low": "12.5"} and build_condition("canny", as_text(canny)) == canny


def test_every_picture_of_a_folder_has_a_file_of_its_own(folder: Path) -> None:
    """Also where the files are written inside of it."""
    out = folder / "conditions"
    rows = condition_folder("canny", {"low": "30"}, folder, out, 32)
    names = ["a.bmp.png", "a.png.png", "deep/a.png.png"]
    assert [row.out for row in rows] == [str(out / name) for name in names]
    assert statuses(rows) == ["written"] * 3
    written = [path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()]
    assert sorted(written) == names
    for name in names:
        picture = np.asarray(Image.open(folder / name.removesuffix(".png")))
        drawn = np.asarray(Image.open(out / name))
        assert np.array_equal(drawn, Canny(low=30.0).render(picture, 32))
    assert statuses(condition_folder("canny", {"low": "30"}, folder, out, 32)) == ["kept"] * 3


def test_a_second_call_draws_only_what_changed(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    condition_folder("canny", {}, folder, out, 32)
    before = {path: path.read_bytes() for path in out.rglob("*.png")}
    assert statuses(condition_folder("canny", {}, folder, out, 32)) == ["kept"] * 3
    Image.fromarray(noise(5, 48)[4]).save(folder / "a.png")
    assert statuses(condition_folder("canny", {}, folder, out, 32)) == ["kept", "written", "kept"]
    cut = out / "a.bmp.png"
    cut.write_bytes(cut.read_bytes()[:-20])
    assert statuses(condition_folder("canny", {}, folder, out, 32)) == ["written", "kept", "kept"]
    assert cut.read_bytes() == before[cut]  # the same bytes for the same picture
    assert statuses(condition_folder("canny", {"low": "20"}, folder, out, 32)) == ["written"] * 3
    assert statuses(condition_folder("canny", {"low": "20"}, folder, out)) == ["written"] * 3
    assert str(tmp_path) not in Image.open(cut).info["unplug"]


def test_the_condition_of_a_picture_that_became_unusable_goes(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    condition_folder("canny", {}, folder, out, 32)
    (folder / "a.bmp").write_bytes(b"none")
    assert statuses(condition_folder("canny", {}, folder, out, 32, on_bad="skip")) == [
        "bad",
        "kept",
        "kept",
    ]
    assert not (out / "a.bmp.png").exists() and (out / "a.png.png").exists()
    (out / "a.bmp.png").write_bytes(b"somebody's")
    with pytest.raises(OutputError, match="is not a condition that unplug drew"):
        condition_folder("canny", {}, folder, out, 32, on_bad="skip")
    assert (out / "a.bmp.png").read_bytes() == b"somebody's"


def test_files_of_others_are_not_replaced(folder: Path, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    theirs, outside = out / "a.png.png", elsewhere / "outside.png"
    Image.fromarray(BLANK).save(theirs)
    before = theirs.read_bytes()
    for _ in range(2):
        with pytest.raises(OutputError, match="is not a condition that unplug drew"):
            condition_folder("canny", {}, folder, out, 32)
        assert theirs.read_bytes() == before
        if not theirs.is_symlink():
            theirs.rename(outside)
            theirs.symlink_to(outside)
    shutil.rmtree(out)
    out.mkdir()
    (out / "deep").symlink_to(elsewhere)
    with pytest.raises(OutputError, match="leads outside the folder `out`"):
        condition_folder("canny", {}, folder, out, 32)
    assert list(elsewhere.iterdir()) == [outside]
    with pytest.raises(OutputError, match="the folder of the pictures"):
        condition_folder("canny", {}, folder, folder)


def test_unreadable_pictures_are_refused_or_counted(folder: Path, tmp_path: Path) -> None:
    (folder / "b.jpg").write_bytes((folder / "a.png").read_bytes()[:200])
    Image.fromarray(BLANK[:9]).save(folder / "c.png")
    with pytest.raises(DataError, match=r"b\.jpg: not a readable image.*`on_bad=skip`"):
        condition_folder("canny", {}, folder, tmp_path / "out", 32)
    rows = condition_folder("canny", {}, folder, tmp_path / "out", 32, on_bad="skip")
    assert [(Path(row.image).name, row.status) for row in rows if row.reason] == [
        ("b.jpg", "bad"),
        ("c.png", "bad"),
    ]
    assert "too few" in rows[3].reason
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="it holds no pictures"):
        condition_folder("canny", {}, tmp_path / "empty", tmp_path / "out2")
    with pytest.raises(DataError, match="no such folder"):
        condition_folder("canny", {}, tmp_path / "nowhere", tmp_path / "out2")


@pytest.mark.long
def test_missing_faces_are_refused_or_counted(
    face_task: Path, drawn_faces: Images, tmp_path: Path
) -> None:
    source, out, options = tmp_path / "in", tmp_path / "out", {"task": str(face_task)}
    source.mkdir()
    for name, image in zip(("a", "b", "c", "d"), drawn_faces, strict=True):
        Image.fromarray(image).save(source / f"{name}.png")
    with pytest.raises(NoFaceError, match=r"b\.png: no face found.*`on_missing=skip`"):
        condition_folder("face_landmark", options, source, out, 64)
    assert [path.name for path in out.iterdir()] == ["a.png.png"]  # what was drawn before stays
    rows = condition_folder("face_landmark", options, source, out, 64, on_missing="skip")
    assert statuses(rows) == ["kept", "missing", "written", "missing"]
    assert [row.reason for row in rows] == ["", "no face found", "", "2 faces found"]
    with pytest.raises(SeveralFacesError, match=r"d\.png: 2 faces found"):
        condition_file("face_landmark", options, source / "d.png", tmp_path / "d.png")
    assert not (tmp_path / "d.png").exists()
