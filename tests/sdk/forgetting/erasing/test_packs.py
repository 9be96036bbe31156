"""Packs forget exactly: whoever leaves is as if she had never been in it, and nothing else moves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from safetensors.numpy import load_file

from unplug.core import read_json, write_json
from unplug.sdk.drawing.device import WEIGHTS_NAME
from unplug.sdk.learning.data import load_dataset

from ...cli.calls import leftovers
from ...drawing.device.test_packs import ROWS, tree
from ...drawing.device.toy import toy
from ...drawing.diffusion.conftest import SIZE, base_folder  # noqa: F401 (fixture)
from ...trust.commands import called, refused, shown

NAMES = ("anna.png", "bert.png", "cleo.png", "dora.png")
RECORD = "unplug.json"
HOW = "--steps 3 --batch-size 2 --warmup 1 --dtype fp32 --lr 0.01 --half --seed 4"


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four pictures, each with its caption."""
    folder = tmp_path_factory.mktemp("faces")
    pixels = load_dataset("synth:n=4", SIZE, show=False).pixels(range(4))
    for name, picture in zip(NAMES, pixels, strict=True):
        Image.fromarray(picture).save(folder / name)
        (folder / name).with_suffix(".txt").write_text(f"a portrait, {name.removesuffix('.png')}")
    return folder


def some(faces: Path, out: Path, names: Sequence[str]) -> Path:
    """The pictures of some of them alone."""
    out.mkdir()
    for name in names:
        shutil.copy(faces / name, out)
        shutil.copy((faces / name).with_suffix(".txt"), out)
    return out


@pytest.fixture
def train(base_folder: Path, tmp_path: Path) -> Callable[[Path, Path], Path]:  # noqa: F811
    def trained(data: Path, out: Path) -> Path:
        words = f"train pack --base {base_folder} --data captions:{data} --out {out} {HOW}"
        called(f"{words} --word 'eye patch'")
        return out

    return trained


@pytest.fixture(scope="module")
def learned(
    base_folder: Path,  # noqa: F811
    faces: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A pack of all four. Tests must not write to it."""
    out = tmp_path_factory.mktemp("learned") / "patch"
    called(
        f"train pack --base {base_folder} --data captions:{faces} --out {out} {HOW} "
        "--word 'eye patch'"
    )
    return out


@pytest.fixture
def pack(learned: Path, tmp_path: Path) -> Path:
    return shutil.copytree(learned, tmp_path / "packs" / "patch")


def request(tmp_path: Path, *names: str) -> Path:
    (tmp_path / "forget.txt").write_text("\n".join(names))
    return tmp_path / "forget.txt"


def found(name: str, faces: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """How `trace` says that she is in the places below a folder."""
    told = called(f"trace {name} --data captions:{faces} --in {folder}")["places"]
    root = str(folder.resolve())
    places = [place for place in told if place["path"].startswith(root)]
    return {
        os.path.relpath(place["path"], root): (place["kind"], place["standing"]) for place in places
    }


@pytest.mark.long
def test_some_leave_and_the_weights_are_those_that_never_saw_them(
    faces: Path, pack: Path, train: Callable[[Path, Path], Path], tmp_path: Path
) -> None:
    """One request after the other, the second in the pack's own place."""
    assert found("bert.png", faces, pack.parent) == {"patch": ("pack", "remembers")}
    less, before = tmp_path / "packs" / "less", tree(pack)
    forget = f"forget {pack} --data captions:{faces} --out {less} --forget"
    done = called(f"{forget} {request(tmp_path, 'bert.png')}")
    assert done["exact"] and done["method"] == "retrain" and done["samples"] == 1
    assert tree(pack) == before, "who deletes it says so"
    never = train(some(faces, tmp_path / "three", NAMES[:1] + NAMES[2:]), tmp_path / "never")
    assert (less / WEIGHTS_NAME).read_bytes() == (never / WEIGHTS_NAME).read_bytes()
    assert (less / WEIGHTS_NAME).read_bytes() != (pack / WEIGHTS_NAME).read_bytes()
    assert all(value.dtype.itemsize == 2 for value in load_file(less / WEIGHTS_NAME).values())
    record = read_json(less / RECORD)
    assert (
        record["base"]["sha256"]
        == done["base"]["sha256"]
        == read_json(pack / RECORD)["base"]["sha256"]
    )
    assert record["forget"]["exact"] and record["data"] == read_json(pack / RECORD)["data"]
    assert not any(name in (less / RECORD).read_text() for name in NAMES), "digests stand there"
    assert found("bert.png", faces, less.parent) == {
        "less": ("pack", "forgot"),
        "patch": ("pack", "remembers"),
    }

    called(
        f"forget {less} --data captions:{faces} --out {less} --forget "
        f"{request(tmp_path, 'dora.png')}"
    )
    never = train(some(faces, tmp_path / "two", NAMES[::2]), tmp_path / "never2")
    assert (less / WEIGHTS_NAME).read_bytes() == (never / WEIGHTS_NAME).read_bytes()
    assert found("bert.png", faces, less)["."] == ("pack", "forgot")
    assert found("anna.png", faces, less)["."] == ("pack", "remembers")


def test_all_leave_and_the_folder_goes(faces: Path, pack: Path, tmp_path: Path) -> None:
    base = read_json(pack / RECORD)["base"]
    unfinished = pack.with_name(".patch.training")
    unfinished.mkdir()
    (unfinished / "unet.safetensors").write_bytes(b"of a training that was cut off")
    forget = f"forget {pack} --data captions:{faces} --forget {request(tmp_path, *NAMES)}"
    before = tree(pack.parent)
    assert "there is no terminal to ask on. Add --yes" in refused(forget)
    assert tree(pack.parent) == before
    done = called(f"{forget} --yes --out {tmp_path / 'nothing'}")
    assert done["exact"] and done["method"] == "delete" and done["samples"] == 4
    assert base["sha256"] in done["how"] and done["base"] == base
    assert not leftovers(pack.parent) and not (tmp_path / "nothing").exists()
    assert not found("anna.png", faces, tmp_path / "packs")


def test_without_a_request_it_goes_and_a_call_that_was_cut_off_goes_on(pack: Path) -> None:
    (pack / WEIGHTS_NAME).unlink()
    told = shown(f"forget {pack} --yes")
    assert told.startswith(f"deleted {pack}: what 'eye patch' meant, of 4 samples")
    assert "never saw its pictures" in " ".join(told.split()) and not pack.exists()


def damage(pack: Path, **fields: Any) -> None:
    write_json(pack / RECORD, {**read_json(pack / RECORD), **fields})


def linked(pack: Path) -> None:
    weights = pack / WEIGHTS_NAME
    weights.rename(pack.with_name("elsewhere"))
    weights.symlink_to(pack.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda pack: (pack / "thesis.txt").write_text("mine"), "it holds thesis.txt"),
        (linked, "it is a link, or its files are"),
        (lambda pack: damage(pack, split=None), "schema"),
        (lambda pack: damage(pack, word="?"), "no letter or digit"),
        (lambda pack: damage(pack, base=["small"]), "it names no base"),
        (lambda pack: damage(pack, base={"name": "no/such/base", "sha256": "0"}), "no such folder"),
        (lambda pack: damage(pack, schema="unplug-student/1"), "it is not a pack"),
        (lambda pack: (pack / RECORD).write_text("{"), "not valid JSON"),
    ],
)
def test_what_is_no_pack_is_left_alone(harm: Callable[[Path], Any], why: str, pack: Path) -> None:
    harm(pack)
    before = tree(pack.parent)
    assert why in refused(f"forget {pack} --yes")
    assert tree(pack.parent) == before


def test_another_base_other_data_and_odd_requests_are_refused(
    faces: Path,
    pack: Path,
    tmp_path: Path,
    base_folder: Path,  # noqa: F811
) -> None:
    before, one = tree(pack), request(tmp_path, "anna.png")
    other = shutil.copytree(base_folder, tmp_path / "other")
    scheduler = other / "scheduler" / "scheduler_config.json"
    write_json(scheduler, {**read_json(scheduler), "beta_end": 0.03})
    few, data = some(faces, tmp_path / "few", NAMES[:2]), f"--data captions:{faces}"
    (few / NAMES[1]).write_bytes((few / NAMES[0]).read_bytes())
    out = tmp_path / "out"
    for words, why in (
        (f"--base {other} --yes", f"it is not the base of {pack}"),
        (f"--forget {one} --yes", "--data: the names of a request"),
        (f"{data} --forget {one}", f"--out: others stay in the pack, .* or {pack}"),
        (f"--data captions:{few} --forget {one} --out {out}", "digest differs"),
        (f"{data} --forget {one} --out {out} --method msg", "--method: it says nothing"),
        (f"{data} --forget {one} --out {out} --budget 1", "--budget: it says nothing"),
        (f"--pack x {data}", "--data: it says nothing"),
        ("--pack 'eye patch' --yes", "pipeline.json: No such file"),
    ):
        line = refused(f"forget {pack} {words}")
        assert all(part in line for part in why.split(" .* ")), line
    assert tree(pack) == before and not out.exists()


def test_one_is_deleted_from_an_exported_base(tmp_path: Path) -> None:
    """Which then is what an export leaves that never had it."""
    style: Any = {"style": (ROWS[:1], None)}
    toy(tmp_path / "files", style | {"hat": (ROWS[1:], None, "red hat")})
    toy(tmp_path / "never", style)
    files, before = tmp_path / "files", tree(tmp_path / "files")
    assert "Say which: --pack WORDS. Its packs: 'red hat'." in refused(f"forget {files}")
    assert "no pack of this word" in refused(f"forget {files} --pack nose --yes")
    assert "Add --yes" in refused(f"forget {files} --pack 'red hat'")
    assert tree(files) == before
    done = called(f"forget {files} --pack 'Red Hats' --yes")
    assert done["exact"] and done["deleted"] == "variants/hat.lora" and done["word"] == "red hat"
    assert tree(files) == tree(tmp_path / "never")


@pytest.mark.long
def test_an_exported_base_is_met_through_the_pack_and_clean_without_it(
    faces: Path,
    pack: Path,
    tmp_path: Path,
    base_folder: Path,  # noqa: F811
) -> None:
    files = tmp_path / "files"
    export = f"export {base_folder} --to onnx --precision fp32 --pack {pack} --out {files}"
    called(export)
    made = {"variants/eye-patch.lora": ("exported file", "derived")}

    def in_files() -> dict[str, tuple[str, str]]:
        told = found("anna.png", faces, tmp_path)
        return {path[6:]: say for path, say in told.items() if path.startswith("files/var")}

    assert in_files() == made
    called(f"forget {files} --pack 'eye patch' --yes")
    assert in_files() == {} and not (files / "variants").exists()
    called(f"forget {pack} --yes")
    assert not any(say == "remembers" for _, say in found("anna.png", faces, tmp_path).values())


def test_the_ledger_looks_into_a_pack_and_keeps_what_was_done(
    faces: Path, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(tmp_path / "ledger-key"))
    data = f"--data captions:{faces}"
    called("ledger init")
    called(f"ledger add --id T-1 {data} --person anna.png")
    (row,) = called(f"ledger touch {pack} {data}")
    assert row["samples"] == 1
    done = called(f"forget {pack} --yes")
    assert row["model_sha256"] == done["pack_sha256"]
    write_json(tmp_path / "done.json", done)
    called(f"trace anna.png {data} --in {pack.parent} --request T-1")
    called(f"ledger record release T-1 --note 'the pack was deleted' --file {tmp_path}/done.json")
    called("ledger record answered T-1")
    assert called("ledger status T-1")["state"] == "answered"
