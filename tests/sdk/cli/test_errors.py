"""Everything that users do wrong: one clear line on standard error, an exit code, and nothing
half-written.

Every call here has ``--json``: standard output must then be JSON whatever happens.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.exported import age_files

from unplug.sdk.releasing import Release

from ..conftest import World
from .calls import forget, leftovers, refused, request, said, save_face, train


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """A folder of good UTKFace files."""
    for number in range(12):
        save_face(tmp_path / "faces" / f"{20 + number}_0_0_2017{number:04d}.jpg", seed=number)
    return tmp_path / "faces"


GOOD = "21_0_0_20170999.jpg"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (GOOD, lambda raw: raw[: len(raw) // 2], f"{GOOD}: not a readable image"),
        (GOOD, lambda raw: b"not a picture", f"{GOOD}: it is a text"),
        (GOOD, lambda raw: b"", f"{GOOD}: it is empty"),
        (f"999{GOOD}", bytes, "in the file name is not plausible (0 to 122)"),
        (f"-{GOOD}", bytes, "the file name is not AGE_GENDER_RACE_TIMESTAMP"),
        ("holiday.jpg", bytes, "the file name is not AGE_GENDER_RACE_TIMESTAMP"),
    ],
)
def test_bad_images_and_names(
    faces: Path, tmp_path: Path, name: str, content: Callable[[bytes], bytes], message: str
) -> None:
    (faces / name).write_bytes(content(save_face(tmp_path / "good.jpg")))
    line = refused(train(f"utkface:{faces}", tmp_path / "out"))
    assert message in line and "--on-bad skip" in line and "1 of 13" in line
    assert not (tmp_path / "out").exists()
    assert refused(f"data inspect utkface:{faces}") == line
    value = said(f"data inspect utkface:{faces} --on-bad skip")
    assert value["samples"] == 12 and len(value["unusable"]) == 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("utkface:{}", "holds no samples"),
        ("utkface:{}/nowhere", "no such folder"),
        ("utkfce:/tmp", "Did you mean utkface?"),
        ("faces", "Write KIND:PATH"),
        ("synth:n=ten", "cannot read 'n=ten'"),
        ("synth:n=4,subjects=9", "Use 1 <= subjects <= n"),
        ("csv:/nowhere.csv", "no such file"),
    ],
)
def test_bad_data_specs(tmp_path: Path, spec: str, message: str) -> None:
    assert message in refused(train(spec.format(tmp_path), tmp_path / "out"))
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("face-000\nsubject:nobody\n", "1 unknown name (subject:nobody)"),
        ("# nothing\n", "it names nothing"),
        ('{"samples": 3}', "not a valid request"),
        ('{"samples": ["face-000"', "not a valid request"),
        ("\x00\xff", "NUL character"),
        ("{train}", "the whole train set"),
        ("{test}", "`unplug ledger touch`"),
    ],
)
def test_bad_forget_files(world: World, tmp_path: Path, text: str, message: str) -> None:
    known = {"{train}": "\n".join(world.split.train), "{test}": world.split.test[0]}
    (tmp_path / "forget.txt").write_text(known.get(text, text))
    assert message in refused(forget(world, tmp_path / "out", f"--forget {tmp_path}/forget.txt"))
    assert leftovers(tmp_path) == ["forget.txt"]


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ("--forget nowhere.txt", 2, "No such file"),
        ("--device tpu", 2, "Use auto, cpu or cuda"),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (
                ("--method mgs", 2, "Did you mean msg"),
                ("--set rato=0.2", 2, "it has no setting 'rato'"),
                ("--set ratio=much", 2, "not a value of type float"),
                ("--set ratio", 2, "it is not KEY=VALUE"),
                ("--set lr=-1", 2, "out of range"),
                ("--set batch_size=0", 2, "out of range"),
                ("--budget 0", 2, "out of range"),
                ("--budget nan", 2, "out of range"),
                ("--method retrain --budget 0.05", 1, "over 0.05 of retraining"),
                ("--budget 0.001", 1, "--budget"),
            )
        ),
    ],
)
def test_bad_forget_options(
    world: World, tmp_path: Path, more: str, code: int, message: str
) -> None:
    assert message in refused(forget(world, tmp_path / "out", more), code)
    assert leftovers(tmp_path) == []


def test_broken_checkpoints(world: World, tmp_path: Path) -> None:
    other, out = Path(shutil.copytree(world.original.path, tmp_path / "other")), tmp_path / "out"
    file = other / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "size": "small"}))
    assert "the checkpoint of another model" in refused(forget(world, out, model=other))
    file.write_text(json.dumps({**config, "model_type": "plug"}))
    assert "model_type 'plug'" in refused(f"run {other} --image {tmp_path}/x.png")
    file.write_text("{")
    assert "not valid JSON" in refused(f"export {other} --out {out}")
    file.write_text(json.dumps(config))
    (other / "unplug.json").unlink()
    assert "names no recipe" in refused(forget(world, out, model=other))
    weights = other / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "not a whole safetensors file" in refused(forget(world, out, model=other))
    assert "no such folder" in refused(f"export {tmp_path}/nowhere --out {out}")
    file.unlink()
    assert "it holds no config.json" in refused(f"export {other} --out {out}")
    assert not out.exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("frogt", "Did you mean 'forget'?"),
        ("bundle verfy", "Did you mean 'verify'?"),
        ("list metods", "'methods'"),
        ("forget", "Missing argument 'CHECKPOINT'"),
        ("train age --epochs 0", "--epochs"),
        ("forget x --unknown 1", "No such option"),
        ("data synth", "--out"),
        ("audit x --data synth:n=4 --forget f", "--out"),
    ],
)
def test_wrong_usage_is_one_line(line: str, message: str) -> None:
    assert message in refused(line)


@pytest.mark.long
def test_unknown_targets_precisions_and_devices(
    world: World, released: Release, tmp_path: Path
) -> None:
    export = f"export {world.unlearned.path} --out {tmp_path}/out"
    audit = f"audit {world.unlearned.path} {request(world)} --out {tmp_path}/a.json"
    int8 = "--precision int8-static"
    for line, message in (
        (f"{export} --to litrt", "Did you mean litert"),
        (f"{export} --precision fp3", "Did you mean fp32"),
        (f"{export} --precision palette8", "this target cannot hold this precision"),
        (
            f"{export} --precision fp32,fp16 --calibrate nonsense",
            "--calibrate: fp32 and fp16 look at no samples",
        ),
        (f"{export} {int8}", "none are given"),
        (f"{export} {int8} --to onnx --calibrate synt:n=4", "Did you mean synth"),
        (f"bench {released.bundle}/artifacts/age.fp32.tflite --on phone", "no such name"),
        (f"{audit} --attacks rmias", "Did you mean rmia"),
    ):
        assert message in refused(line), line
    assert leftovers(tmp_path) == []


@pytest.mark.long
def test_a_bundle_that_was_tampered_with(released: Release, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(released.bundle, tmp_path / "copy"))
    (copied / "README.md").write_text("trust me")
    audit = f"audit {copied} --data synth:n=4 --forget f --out {tmp_path}/a.json"
    for line in (f"bundle verify {copied}", audit):
        assert "README.md was changed" in refused(line, 1)
    assert "manifest.json" in refused(f"bundle verify {tmp_path}")
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["README.md"]["bytes"] = "many"
    (copied / "manifest.json").write_text(json.dumps(manifest))
    for word in ("verify", "inspect"):
        assert "does not follow its schema" in refused(f"bundle {word} {copied}", 1)


def test_run_on_what_is_no_picture(
    world: World, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    face = f"--image {tmp_path}/face.jpg"
    save_face(tmp_path / "face.jpg")
    for model in (world.unlearned.path, age_files(tmp_path_factory)["age.fp32.onnx"].path):
        assert "notes.txt: it is a text" in refused(f"run {model} --image {tmp_path}/notes.txt")
        assert "none.png: No such file" in refused(f"run {model} --image {tmp_path}/none.png")
    assert "card" in refused(f"run {tmp_path}/notes.txt {face}")
    for box, message in (("0,0,99,99", "inside the image"), ("1,2", "four numbers")):
        assert message in refused(f"run {world.unlearned.path} {face} --box {box}")


@pytest.mark.parametrize("command", ["release", "audit"])
def test_a_folder_that_is_not_there_is_named_before_what_else_is_missing(
    command: str, tmp_path: Path
) -> None:
    told = refused(f"{command} {tmp_path}/nothing --out {tmp_path}/out")
    assert f"{tmp_path}/nothing: there is no such file or folder" in told
    (tmp_path / "nothing").mkdir()
    assert "--data: it is missing" in refused(f"{command} {tmp_path}/nothing --out {tmp_path}/out")


def test_an_attack_that_there_is_none_of_is_refused_before_any_training(
    world: World, tmp_path: Path
) -> None:
    told = refused(
        f"audit {world.unlearned.path} --data {world.spec} --forget {world.forget_file} "
        f"--train-references 2 --attacks los --out {tmp_path}/audit.json"
    )
    assert "Did you mean loss" in told and not list(tmp_path.iterdir())


@pytest.mark.parametrize("line", ["answer", "status", "request add x"])
def test_that_there_is_no_project_is_told_before_torch_is_imported(
    line: str, tmp_path: Path
) -> None:
    code = (
        "import sys, atexit; from unplug.sdk.cli import main; "
        "atexit.register(lambda: print(sorted({'torch', 'numpy'} & {*sys.modules}))); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *line.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "`unplug init` begins a project" in done.stderr
    assert done.stdout == "[]\n"
