"""Everything that users do wrong: one clear line on standard error, an exit code, and nothing
half-written.

Every call here has ``--json``: standard output must then be JSON whatever happens.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.exported import age_files

from unplug.sdk.cli import main
from unplug.sdk.releasing import Release

from ..conftest import World
from .calls import fail, forget, leftovers, save_face, train

# Data


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """A folder of good UTKFace files."""
    for number in range(12):
        save_face(tmp_path / "faces" / f"{20 + number}_0_0_2017{number:04d}.jpg", seed=number)
    return tmp_path / "faces"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "21_0_0_20170999.jpg",
            lambda raw: raw[: len(raw) // 2],
            "21_0_0_20170999.jpg: not a readable image",
        ),
        ("21_0_0_20170999.jpg", lambda raw: b"not a picture", "21_0_0_20170999.jpg: it is a text"),
        ("21_0_0_20170999.jpg", lambda raw: b"", "21_0_0_20170999.jpg: it is empty"),
        (
            "999_0_0_20170999.jpg",
            lambda raw: raw,
            "age 999 in the file name is not plausible (0 to 122)",
        ),
        ("-4_0_0_20170999.jpg", lambda raw: raw, "the file name is not AGE_GENDER_RACE_TIMESTAMP"),
        ("holiday.jpg", lambda raw: raw, "the file name is not AGE_GENDER_RACE_TIMESTAMP"),
    ],
)
def test_bad_images_and_names(
    faces: Path, tmp_path: Path, name: str, content: Callable[[bytes], bytes], message: str
) -> None:
    (faces / name).write_bytes(content(save_face(tmp_path / "good.jpg")))
    found = fail(*train(f"utkface:{faces}", tmp_path / "out"))
    assert message in found.line and "--on-bad skip" in found.line and "1 of 13" in found.line
    assert not (tmp_path / "out").exists()
    assert fail("data", "inspect", f"utkface:{faces}").line == found.line
    done = CliRunner().invoke(
        main, ["data", "inspect", f"utkface:{faces}", "--on-bad", "skip", "--json"]
    )
    assert done.exit_code == 0
    assert (
        json.loads(done.stdout)["samples"] == 12 and len(json.loads(done.stdout)["unusable"]) == 1
    )


def test_empty_and_missing_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no samples" in fail(*train(f"utkface:{tmp_path}/empty", tmp_path / "out")).line
    assert "no such folder" in fail(*train(f"utkface:{tmp_path}/nowhere", tmp_path / "out")).line
    assert leftovers(tmp_path) == ["empty"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("utkfce:/tmp", "Did you mean utkface?"),
        ("faces", "Write KIND:PATH"),
        ("synth:n=ten", "cannot read 'n=ten'"),
        ("synth:n=4,subjects=9", "Use 1 <= subjects <= n"),
        ("csv:/nowhere.csv", "no such file"),
    ],
)
def test_bad_data_specs(tmp_path: Path, spec: str, message: str) -> None:
    assert message in fail(*train(spec, tmp_path / "out")).line


# Forget requests


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("face-000\nsubject:nobody\n", "1 unknown names (subject:nobody)"),
        ("# nothing\n", "it names nothing"),
        ('{"samples": 3}', "not a valid request"),
        ('{"samples": ["face-000"', "not a valid request"),
        ("\x00\xff", "NUL character"),
    ],
)
def test_bad_forget_files(world: World, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "forget.txt").write_text(text)
    assert message in fail(*forget(world, tmp_path / "out", file=tmp_path / "forget.txt")).line
    assert leftovers(tmp_path) == ["forget.txt"]


def test_forget_sets_that_cannot_be_forgotten(world: World, tmp_path: Path) -> None:
    whole, held = tmp_path / "whole.txt", tmp_path / "held.txt"
    whole.write_text("\n".join(world.split.train))
    held.write_text(world.split.test[0])
    assert "the whole train set" in fail(*forget(world, tmp_path / "out", file=whole)).line
    assert "`unplug ledger touch`" in fail(*forget(world, tmp_path / "out", file=held)).line
    assert "No such file" in fail(*forget(world, tmp_path / "out", file=tmp_path / "none.txt")).line
    assert "forget.txt" not in leftovers(tmp_path) and not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--method", "mgs"), 2, "Did you mean msg"),
        (("--set", "rato=0.2"), 2, "it has no setting 'rato'"),
        (("--set", "ratio=much"), 2, "not a value of type float"),
        (("--set", "ratio"), 2, "it is not KEY=VALUE"),
        (("--set", "lr=-1"), 2, "out of range"),
        (("--set", "batch_size=0"), 2, "out of range"),
        (("--budget", "0"), 2, "out of range"),
        (("--budget", "nan"), 2, "out of range"),
        (("--method", "retrain", "--budget", "0.05"), 1, "over 0.05 of retraining"),
        (("--budget", "0.001"), 1, "--budget"),
    ],
)
def test_bad_forget_options(
    world: World, tmp_path: Path, more: tuple[str, ...], code: int, message: str
) -> None:
    assert message in fail(*forget(world, tmp_path / "out", *more), code=code).line
    assert leftovers(tmp_path) == []


# Checkpoints


def test_checkpoints_of_another_kind(world: World, tmp_path: Path) -> None:
    other = Path(shutil.copytree(world.original.path, tmp_path / "other"))
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "size": "small"}))
    assert (
        "This is the checkpoint of another model"
        in fail(*forget(world, tmp_path / "out", model=other)).line
    )
    (other / "config.json").write_text(json.dumps({**config, "model_type": "plug"}))
    assert "model_type 'plug'" in fail("run", other, "--image", tmp_path / "x.png").line
    (other / "config.json").write_text("{")
    assert "not valid JSON" in fail("export", other, "--out", tmp_path / "out").line
    (other / "config.json").write_text(json.dumps(config))
    (other / "model.safetensors").write_bytes(
        (world.original.path / "model.safetensors").read_bytes()[:-100]
    )
    assert (
        "not a whole safetensors file" in fail(*forget(world, tmp_path / "out", model=other)).line
    )
    assert "no such folder" in fail("export", tmp_path / "nowhere", "--out", tmp_path / "out").line
    (other / "config.json").unlink()
    assert "it holds no config.json" in fail("export", other, "--out", tmp_path / "out").line
    assert not (tmp_path / "out").exists()


def test_other_weights_without_a_record(world: World, tmp_path: Path) -> None:
    bare = Path(shutil.copytree(world.original.path, tmp_path / "bare"))
    (bare / "unplug.json").unlink()
    assert "names no recipe" in fail(*forget(world, tmp_path / "out", model=bare)).line


# Names


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("frogt",), "Did you mean 'forget'?"),
        (("bundle", "verfy"), "Did you mean 'verify'?"),
        (("list", "metods"), "'methods'"),
        (("forget",), "Missing argument 'CHECKPOINT'"),
        (("train", "age", "--epochs", "0"), "--epochs"),
        (("forget", "x", "--unknown", "1"), "No such option"),
    ],
)
def test_wrong_usage_is_one_line(args: tuple[str, ...], message: str) -> None:
    assert message in fail(*args).line


@pytest.mark.long
def test_unknown_targets_precisions_and_devices(
    world: World, artifacts: object, released: Release, tmp_path: Path
) -> None:
    export = ("export", world.unlearned.path, "--out", tmp_path / "out")
    assert "Did you mean litert" in fail(*export, "--to", "litrt").line
    assert "Did you mean fp32" in fail(*export, "--precision", "fp3").line
    assert "this target cannot hold this precision" in fail(*export, "--precision", "palette8").line
    unused = fail(*export, "--precision", "fp32,fp16", "--calibrate", "nonsense").line
    assert "--calibrate: fp32 and fp16 look at no samples" in unused
    assert "none are given" in fail(*export, "--precision", "int8-static").line
    assert (
        "Did you mean synth"
        in fail(
            *export, "--precision", "int8-static", "--to", "onnx", "--calibrate", "synt:n=4"
        ).line
    )
    shipped = released.bundle / "artifacts" / "age.fp32.tflite"
    assert "no such name" in fail("bench", shipped, "--on", "phone").line
    assert "Use auto, cpu or cuda" in fail(*forget(world, tmp_path / "out", "--device", "tpu")).line
    audit = (
        "audit",
        world.unlearned.path,
        "--data",
        world.spec,
        "--forget",
        world.forget_file,
        "--out",
        tmp_path / "a.json",
    )
    assert "Did you mean rmia" in fail(*audit, "--attacks", "rmias").line
    gate = ("release", *forget(world, tmp_path / "out")[1:], "--gate", "max_mea=1")
    assert "no such gate" in fail(*gate).line
    assert leftovers(tmp_path) == []


# Reports, bundles, pictures


@pytest.mark.long
def test_a_bundle_that_was_tampered_with(released: Release, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(released.bundle, tmp_path / "copy"))
    (copied / "README.md").write_text("trust me")
    assert "README.md was changed" in fail("bundle", "verify", copied, code=1).line
    audit = (
        "audit",
        copied,
        "--data",
        "synth:n=4",
        "--forget",
        tmp_path / "f",
        "--out",
        tmp_path / "a.json",
    )
    assert "README.md was changed" in fail(*audit, code=1).line
    assert "manifest.json" in fail("bundle", "verify", tmp_path).line
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["README.md"]["bytes"] = "many"
    (copied / "manifest.json").write_text(json.dumps(manifest))
    for word in ("verify", "inspect"):
        assert "does not follow its schema" in fail("bundle", word, copied, code=1).line


def test_run_on_what_is_no_picture(
    world: World, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    for model in (world.unlearned.path, age_files(tmp_path_factory)["age.fp32.onnx"].path):
        assert (
            "notes.txt: it is a text" in fail("run", model, "--image", tmp_path / "notes.txt").line
        )
        assert "No such file" in fail("run", model, "--image", tmp_path / "none.png").line
        assert "none.png" in fail("run", model, "--image", tmp_path / "none.png").line
    save_face(tmp_path / "face.jpg")
    assert "card" in fail("run", tmp_path / "notes.txt", "--image", tmp_path / "face.jpg").line
    assert (
        "inside the image"
        in fail(
            "run", world.unlearned.path, "--image", tmp_path / "face.jpg", "--box", "0,0,99,99"
        ).line
    )
    assert (
        "four numbers"
        in fail("run", world.unlearned.path, "--image", tmp_path / "face.jpg", "--box", "1,2").line
    )
