"""Everything that users and disks do wrong: one clear line on standard error, an exit code, and nothing half-written.

Every call here has ``--json``: standard output must then be JSON whatever happens.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from unplug.sdk.cli import main
from unplug.sdk.release import Release

from ..conftest import World

FULL_DISK_BYTES = 200_000
"""Room for the JSON of a training, not for its weights (1.2 MB)."""


@dataclass(frozen=True)
class Failure:
    """What a failed command said."""

    line: str
    code: int


def fail(*args: object, code: int = 2) -> Failure:
    """Runs a command that must fail with one line, JSON on standard output and no traceback."""
    result = CliRunner().invoke(main, [*map(str, args), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ") and lines[0][-1] in ".?", lines[0]
    assert len(lines[0]) < 600, lines[0]
    assert result.exit_code == code, lines[0]
    if result.stdout:  # wrong usage is found before --json is read
        said = json.loads(result.stdout)["error"]
        assert said["what"] in lines[0]
    return Failure(lines[0], result.exit_code)


def leftovers(folder: Path) -> list[str]:
    """Everything below a folder, hidden files too."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def save_face(path: Path, size: int = 40, seed: int = 0) -> bytes:
    """A small JPEG."""
    buffer = io.BytesIO()
    pixels = torch.randint(0, 256, (size, size, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    Image.fromarray(pixels.numpy()).save(buffer, "JPEG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


# Data


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """A folder of good UTKFace files."""
    for number in range(12):
        save_face(tmp_path / "faces" / f"{20 + number}_0_0_2017{number:04d}.jpg", seed=number)
    return tmp_path / "faces"


def train(spec: object, out: Path, *more: object) -> tuple[object, ...]:
    return ("train", "age", "--data", spec, "--out", out, "--size", "nano", "--image-size", 32, "--epochs", 1, *more)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("21_0_0_20170999.jpg", lambda raw: raw[: len(raw) // 2], "21_0_0_20170999.jpg: not a readable image"),
        ("21_0_0_20170999.jpg", lambda raw: b"not a picture", "21_0_0_20170999.jpg: not a readable image"),
        ("21_0_0_20170999.jpg", lambda raw: b"", "21_0_0_20170999.jpg: not a readable image"),
        ("999_0_0_20170999.jpg", lambda raw: raw, "age 999 in the file name is not plausible (0 to 122)"),
        ("-4_0_0_20170999.jpg", lambda raw: raw, "the file name is not AGE_GENDER_RACE_TIMESTAMP"),
        ("holiday.jpg", lambda raw: raw, "the file name is not AGE_GENDER_RACE_TIMESTAMP"),
    ],
)
def test_bad_images_and_names(faces: Path, tmp_path: Path, name: str, content: Callable[[bytes], bytes], message: str) -> None:
    (faces / name).write_bytes(content(save_face(tmp_path / "good.jpg")))
    found = fail(*train(f"utkface:{faces}", tmp_path / "out"))
    assert message in found.line and "--on-bad skip" in found.line and "1 of 13" in found.line
    assert not (tmp_path / "out").exists()
    assert fail("data", "inspect", f"utkface:{faces}").line == found.line
    done = CliRunner().invoke(main, ["data", "inspect", f"utkface:{faces}", "--on-bad", "skip", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["samples"] == 12 and len(json.loads(done.stdout)["unusable"]) == 1


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


def forget(world: World, out: Path, *more: object, file: Path | None = None, model: Path | None = None) -> tuple[object, ...]:
    place = model or world.original.path
    return ("forget", place, "--data", world.spec, "--forget", file or world.forget_file, "--budget", 0.6, "--out", out, *more)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("face-000\nsubject:nobody\n", "1 unknown names (subject:nobody)"),
        ("# nothing\n", "it names nothing"),
        ('{"samples": 3}', "not a valid request"),
        ('{"samples": ["face-000"', "not a valid request"),
        ("\x00\xff", "unknown names"),
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
    assert "Only what the model saw can be forgotten" in fail(*forget(world, tmp_path / "out", file=held)).line
    assert "No such file" in fail(*forget(world, tmp_path / "out", file=tmp_path / "none.txt")).line
    assert "forget.txt" not in leftovers(tmp_path) and not (tmp_path / "out").exists()


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
def test_bad_forget_options(world: World, tmp_path: Path, more: tuple[str, ...], code: int, message: str) -> None:
    assert message in fail(*forget(world, tmp_path / "out", *more), code=code).line
    assert leftovers(tmp_path) == []


# Checkpoints


def test_checkpoints_of_another_kind(world: World, tmp_path: Path) -> None:
    other = Path(shutil.copytree(world.original.path, tmp_path / "other"))
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "size": "small"}))
    assert "This is the checkpoint of another model" in fail(*forget(world, tmp_path / "out", model=other)).line
    (other / "config.json").write_text(json.dumps({**config, "model_type": "plugin"}))
    assert "model_type 'plugin'" in fail("run", other, "--image", tmp_path / "x.png").line
    (other / "config.json").write_text("{")
    assert "not valid JSON" in fail("export", other, "--out", tmp_path / "out").line
    (other / "config.json").write_text(json.dumps(config))
    (other / "model.safetensors").write_bytes((world.original.path / "model.safetensors").read_bytes()[:-100])
    assert "not a whole safetensors file" in fail(*forget(world, tmp_path / "out", model=other)).line
    assert "no such folder" in fail("export", tmp_path / "nowhere", "--out", tmp_path / "out").line
    assert not (tmp_path / "out").exists()


def test_other_weights_without_a_record(world: World, tmp_path: Path) -> None:
    bare = Path(shutil.copytree(world.original.path, tmp_path / "bare"))
    (bare / "unplug.json").unlink()
    assert "names no recipe" in fail(*forget(world, tmp_path / "out", model=bare)).line


def test_pickles_are_never_loaded(world: World, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path}/ran",)

    folder = Path(shutil.copytree(world.original.path, tmp_path / "pickled"))
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    assert "this is a pickle under another name" in fail("export", folder, "--out", tmp_path / "out").line
    torch.save({"weight": torch.zeros(2)}, folder / "model.safetensors")
    assert "this is a pickle under another name" in fail(*forget(world, tmp_path / "out", model=folder)).line
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "pytorch_model.bin" in fail(*forget(world, tmp_path / "out", model=folder)).line
    (tmp_path / "model.pt").write_bytes(pickle.dumps(Bomb()))
    for args in (
        forget(world, tmp_path / "out", model=tmp_path / "model.pt"),
        ("run", tmp_path / "model.pt", "--image", "x.png"),
    ):
        assert "a pickle, which can run code" in fail(*args).line
    assert not (tmp_path / "ran").exists()
    assert not [item for item in leftovers(tmp_path) if item.startswith("out/")]


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


def test_unknown_targets_precisions_and_devices(world: World, artifacts: object, released: Release, tmp_path: Path) -> None:
    export = ("export", world.unlearned.path, "--out", tmp_path / "out")
    assert "Did you mean litert" in fail(*export, "--to", "litrt").line
    assert "Did you mean fp32" in fail(*export, "--precision", "fp3").line
    shipped = released.bundle / "artifacts" / "age.fp32.tflite"
    assert "no such name" in fail("bench", shipped, "--on", "phone").line
    assert "Use auto, cpu or cuda" in fail(*forget(world, tmp_path / "out", "--device", "tpu")).line
    audit = ("audit", world.unlearned.path, "--data", world.spec, "--forget", world.forget_file, "--out", tmp_path / "a.json")
    assert "Did you mean rmia" in fail(*audit, "--attacks", "rmias").line
    gate = ("release", *forget(world, tmp_path / "out")[1:], "--gate", "max_mea=1")
    assert "no such gate" in fail(*gate).line
    assert leftovers(tmp_path) == []


# Reports, bundles, pictures


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "names no schema"),
        ('{"schema": "unplug-audit/9"}', "reads unplug-audit/1"),
        ("\x80", "JSON"),
    ],
)
def test_broken_reports(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "audit.json").write_bytes(text.encode("latin-1"))
    assert message in fail("report", tmp_path / "audit.json", "--out", tmp_path / "r.html").line
    assert "No such file" in fail("report", tmp_path / "none.json", "--out", tmp_path / "r.html").line
    assert leftovers(tmp_path) == ["audit.json"]


def test_a_bundle_that_was_tampered_with(released: Release, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(released.bundle, tmp_path / "copy"))
    (copied / "README.md").write_text("trust me")
    assert "README.md was changed" in fail("bundle", "verify", copied, code=1).line
    audit = ("audit", copied, "--data", "synth:n=4", "--forget", tmp_path / "f", "--out", tmp_path / "a.json")
    assert "README.md was changed" in fail(*audit, code=1).line
    assert "manifest.json" in fail("bundle", "verify", tmp_path).line
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["README.md"]["bytes"] = "many"
    (copied / "manifest.json").write_text(json.dumps(manifest))
    for word in ("verify", "inspect"):
        assert "does not follow its schema" in fail("bundle", word, copied, code=1).line


def test_run_on_what_is_no_picture(world: World, released: Release, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    for model in (world.unlearned.path, released.bundle / "artifacts" / "age.fp32.tflite"):
        assert "notes.txt: not a readable image" in fail("run", model, "--image", tmp_path / "notes.txt").line
        assert "No such file" in fail("run", model, "--image", tmp_path / "none.png").line
        assert "none.png" in fail("run", model, "--image", tmp_path / "none.png").line
    save_face(tmp_path / "face.jpg")
    assert "card" in fail("run", tmp_path / "notes.txt", "--image", tmp_path / "face.jpg").line
    assert "inside the image" in fail("run", world.unlearned.path, "--image", tmp_path / "face.jpg", "--box", "0,0,99,99").line
    assert "four numbers" in fail("run", world.unlearned.path, "--image", tmp_path / "face.jpg", "--box", "1,2").line


# Places that cannot be written


def writers(world: World, released: Release) -> dict[str, Callable[[Path], tuple[object, ...]]]:
    """Every command that writes, given a place."""
    reports = released.bundle / "reports"
    shipped = released.bundle / "artifacts" / "age.fp32.tflite"
    request = ("--data", world.spec, "--forget", world.forget_file)
    return {
        "data synth": lambda out: ("data", "synth", "--n", 4, "--size", 16, "--out", out),
        "data pick-forget": lambda out: ("data", "pick-forget", world.original.path, "--data", world.spec, "--out", out),
        "train age": lambda out: train(world.spec, out),
        "forget": lambda out: forget(world, out),
        "retrain": lambda out: forget(world, out, "--method", "retrain", "--budget", "2"),
        "audit": lambda out: ("audit", world.unlearned.path, *request, "--attacks", "loss", "--out", out),
        "report": lambda out: ("report", reports / "audit.json", "--out", out),
        "parity": lambda out: ("parity", shipped, "--checkpoint", world.unlearned.path, "--samples", 1, "--out", out),
    }


PLACES = ["below a file", "/proc/unplug/x", "/dev/null/x", "/dev/full"]


CASES = [
    *(
        (name, place)
        for name in ("data synth", "data pick-forget", "train age", "forget", "retrain", "audit")
        for place in PLACES
    ),
    *((name, place) for name in ("report", "parity") for place in ("below a file", "/dev/full")),
]


@pytest.mark.parametrize(("name", "place"), CASES)
def test_places_that_cannot_be_written(world: World, released: Release, tmp_path: Path, name: str, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / "out" if place == "below a file" else Path(place)
    said = fail(*writers(world, released)[name](out)).line
    assert str(out) in said or str(out.parent) in said
    assert (tmp_path / "file").read_text() == "mine"
    assert Path("/dev/null").is_char_device() and Path("/dev/full").is_char_device()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs that is nearly full; skips where mounting is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={FULL_DISK_BYTES}", "tmpfs", str(place)], capture_output=True
        ).returncode
    ):
        pytest.skip("no right to mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("name", ["data synth", "train age", "forget", "retrain", "export"])
def test_full_disk(world: World, released: Release, full_disk: Path, name: str) -> None:
    known = writers(world, released)
    known["data synth"] = lambda out: ("data", "synth", "--n", 40, "--size", 96, "--out", out)
    known["export"] = lambda out: ("export", world.unlearned.path, "--to", "onnx", "--precision", "fp32", "--out", out)
    said = fail(*known[name](full_disk / "out")).line
    assert "full" in said or "No space left" in said
    out = full_disk / "out"
    assert not out.exists() or not list(out.iterdir())
    assert not [item for item in leftovers(full_disk) if item.endswith((".safetensors", ".onnx", ".png"))]


def test_a_limit_on_file_sizes(world: World, tmp_path: Path) -> None:
    """EFBIG instead of ENOSPC, in a process of its own because a limit cannot be raised again."""
    done = spawn(
        *forget(world, tmp_path / "out"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_DISK_BYTES, FULL_DISK_BYTES)),
    )
    out, err = done.communicate(timeout=60)
    assert done.returncode == 2, err
    assert len(err.strip().splitlines()) == 1 and "File too large" in err and "Traceback" not in err
    assert json.loads(out)["error"]["type"] == "OutputError"
    assert leftovers(tmp_path) == []


# Ctrl-C


def spawn(*args: object, **options: object) -> subprocess.Popen[str]:
    """The real command, in a session of its own so that a signal reaches its children as from a terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", "unplug.sdk.cli", *map(str, args), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, **options,  # type: ignore[call-overload]
    )  # fmt: skip


def interrupt_when(process: subprocess.Popen[str], ready: Callable[[], bool]) -> str:
    """Presses Ctrl-C once something is there; returns what the process said on standard error."""
    deadline = time.monotonic() + 90
    while not ready():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert json.loads(out)["error"]["what"] == "interrupted"
    assert "Traceback" not in err and len(err.strip().splitlines()) == 1
    assert "Run the same command again to go on" in err
    return err


def test_ctrl_c_in_training(world: World, tmp_path: Path) -> None:
    """Interrupted and continued gives the weights of one run."""
    command = ("train", "age", "--data", world.spec, "--out", tmp_path / "out", "--size", "nano", "--image-size", 32)
    more = ("--epochs", 6, "--batch-size", 32)
    state = tmp_path / ".out.training" / "state.safetensors"
    interrupt_when(spawn(*command, *more), state.is_file)
    assert not (tmp_path / "out").exists() and state.is_file()
    before = (tmp_path / ".out.training" / "metrics.jsonl").read_text().splitlines()
    assert 1 <= len(before) < 6
    done = CliRunner().invoke(main, [*map(str, command), *map(str, more), "--json"])
    assert done.exit_code == 0, done.stderr
    whole = CliRunner().invoke(main, [*map(str, [*command[:5], tmp_path / "whole", *command[6:], *more]), "--json"])
    assert json.loads(done.stdout)["sha256"] == json.loads(whole.stdout)["sha256"]
    assert leftovers(tmp_path) == [
        f"{folder}{name}"
        for folder in ("out", "whole")
        for name in ("", "/README.md", "/config.json", "/metrics.jsonl", "/model.safetensors", "/unplug.json")
    ]


@pytest.mark.slow
def test_ctrl_c_in_the_demo(tmp_path: Path) -> None:
    """Interrupted while it trains, again while it exports, then run to the end."""
    command = (
        "demo", "--data", "synth:n=150,subjects=50", "--size", "nano", "--image-size", 32, "--epochs", 25, "--fraction", 0.1,
        "--out", tmp_path / "demo",
    )  # fmt: skip
    out = tmp_path / "demo"
    interrupt_when(spawn(*command), (out / ".original.training" / "state.safetensors").is_file)
    assert not (out / "original").exists()
    interrupt_when(spawn(*command), (out / "unlearned" / "unplug.json").is_file)
    weights = (out / "original" / "model.safetensors").stat()
    done = spawn(*command)
    said, err = done.communicate(timeout=400)
    assert done.returncode in (0, 1), err  # so small a model may be refused by a gate; that is an answer, not a crash
    assert "Traceback" not in err
    value = json.loads(said)
    assert value["passed"] is (done.returncode == 0)
    assert (out / "original" / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns, "it was trained again"
    assert (out / "report.html").read_text().count("<svg") >= 1
    assert (out / "face-age.unplug").is_dir() is value["passed"]
