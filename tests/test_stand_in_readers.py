"""Every reader of weights, files, pictures, shards and texts says of a pointer that it is one:
``tests/cases/lfs-pointer``.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import tests.specimens as specimens
import torch
from PIL import Image
from torch import nn

from unplug.core import InputError, UnplugError
from unplug.export import artifacts_at, load_artifact
from unplug.plugins import load_checkpoint
from unplug.plugins.conditions.landmarker import resolve_task
from unplug.sdk.drawing.device.lora import pack_loras
from unplug.sdk.drawing.diffusion import load_base
from unplug.sdk.drawing.diffusion.load import load_loras
from unplug.sdk.drawing.inference import load_head
from unplug.sdk.drawing.inference.model import _read_arrays
from unplug.sdk.evidence.fleet import read_result
from unplug.sdk.learning.data import SampleProblem, load_dataset
from unplug.trust.bundle import read_manifest
from unplug.trust.ledger import open_ledger

POINTER = (Path(__file__).parent / "cases/lfs-pointer/pointer").read_bytes()
PAGE = b"<!DOCTYPE html>\n<html><title>Sign in</title></html>"
DEAD = "../.git/annex/objects/X1/q2/SHA256E-s5--ab/SHA256E-s5--ab"
KINDS: dict[str, tuple[bytes | str, str]] = {
    "lfs": (POINTER, "it is a Git LFS pointer, the real file was not fetched: run `git lfs pull`"),
    "page": (PAGE, "it is a web page"),
    "link": (DEAD, "it is a git-annex pointer, the real file was not fetched: run `git annex get`"),
}
Reader = Callable[[Path], object]


def put(path: Path, content: bytes | str) -> Path:
    """The content in a file's place, or a link of that text."""
    path.parent.mkdir(exist_ok=True, parents=True)
    path.unlink(missing_ok=True)
    if isinstance(content, str):
        path.symlink_to(content)
    else:
        path.write_bytes(content)
    return path


def of_checkpoint(folder: Path) -> tuple[Path, Reader]:
    return specimens.checkpoint(folder) / "model.safetensors", lambda path: load_checkpoint(
        path.parent
    )


def of_artifact(folder: Path) -> tuple[Path, Reader]:
    return specimens.exported(folder).with_suffix(""), load_artifact


def of_folder_of_artifacts(folder: Path) -> tuple[Path, Reader]:
    return specimens.exported(folder).with_suffix(""), lambda path: [
        load_artifact(file) for file in artifacts_at(path.parent)
    ]


def no_base() -> SimpleNamespace:
    return SimpleNamespace(unet=nn.Identity(), text_encoder=nn.Identity())


READERS: dict[str, Callable[[Path], tuple[Path, Reader]]] = {
    "checkpoint": of_checkpoint,
    "artifact": of_artifact,
    "folder of artifacts": of_folder_of_artifacts,
    "shard": lambda folder: (
        folder / "s.tar",
        lambda path: load_dataset(f"webdataset:{path}", 16, show=False),
    ),
    "arrays": lambda folder: (folder / "a.npz", lambda path: _read_arrays(path, None)),  # type: ignore[arg-type]
    "lora in torch": lambda folder: (
        folder / "l.safetensors",
        lambda path: load_loras(no_base(), [path]),
    ),
    "lora on files": lambda folder: (
        folder / "l.safetensors",
        lambda path: pack_loras(specimens_slots(), [path]),
    ),
    "head": lambda folder: (folder / "head.safetensors", load_head),
    "fleet": lambda folder: (
        folder / "seed-1.safetensors",
        lambda path: read_result(path.parent, "seed-1"),
    ),
    "landmarker": lambda folder: (
        folder / "f.task",
        lambda path: resolve_task("face", str(path), "NONE", "f", "page"),
    ),
}
TEXTS: dict[str, Callable[[Path], tuple[Path, Reader]]] = {
    "config": lambda folder: (
        specimens.checkpoint(folder) / "config.json",
        lambda path: load_checkpoint(path.parent),
    ),
    "card": lambda folder: (
        specimens.exported(folder),
        lambda path: load_artifact(path.with_suffix("")),
    ),
    "bundle": lambda folder: (folder / "b.unplug", read_manifest),
    "table": lambda folder: (
        folder / "t.csv",
        lambda path: load_dataset(f"csv:{path}", 16, show=False),
    ),
    "batch": lambda folder: (
        folder / "data_batch_1",
        lambda path: load_dataset(f"cifar10:{path.parent}", 16, show=False),
    ),
}


def specimens_slots() -> object:
    from unplug.sdk.drawing.device.lora import LoraSlots

    return LoraSlots(rank=1, slots=())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_readers_of_numbers(tmp_path: Path, reader: str, kind: str) -> None:
    path, read = READERS[reader](tmp_path)
    content, said = KINDS[kind]
    with pytest.raises(UnplugError) as found:
        read(put(path, content))
    assert found.value.why == said or (kind == "page" and found.value.why.startswith(said))
    assert found.value.what == str(path) and found.value.exit_code == 2


@pytest.mark.parametrize("reader", TEXTS)
def test_readers_of_texts_and_archives(tmp_path: Path, reader: str) -> None:
    path, read = TEXTS[reader](tmp_path)
    with pytest.raises(
        InputError, match=rf"{path.name}: it is a Git LFS pointer, .*`git lfs pull`"
    ):
        read(put(path, POINTER))


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_in_folders_and_shards(tmp_path: Path, kind: str) -> None:
    content, said = KINDS[kind]
    good = tmp_path / "d" / "a.png"
    good.parent.mkdir()
    Image.new("RGB", (16, 16)).save(good)
    put(tmp_path / "d" / "x.png", content)
    (problem,) = load_dataset(f"imagefolder:{tmp_path}/d", 16, on_bad="skip", show=False).problems
    assert problem.id == "x.png" and problem.reason.startswith(said)
    if isinstance(content, bytes):
        (problem,) = in_a_shard(
            tmp_path / "s.tar",
            {"a.png": good.read_bytes(), "a.txt": b"a", "x.png": content, "x.txt": b"x"},
        )
        assert problem.id == "s.tar/x" and problem.reason.startswith(said)


def in_a_shard(path: Path, files: dict[str, bytes]) -> tuple[SampleProblem, ...]:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return load_dataset(f"webdataset:{path}", 16, on_bad="skip", show=False).problems


@pytest.mark.parametrize("part", ["unet/diffusion_pytorch_model", "text_encoder/model"])
def test_parts_of_a_base(tmp_path: Path, part: str) -> None:
    """Of its text encoder safetensors raised an error of its own, which left as a bug."""
    base = specimens.BASE
    shutil.copytree(base, tmp_path / "base", ignore=shutil.ignore_patterns("*.safetensors"))
    for path in base.rglob("*.safetensors"):
        (tmp_path / "base" / path.relative_to(base)).symlink_to(path)
    put(tmp_path / "base" / f"{part}.safetensors", POINTER)
    with pytest.raises(InputError, match=rf"{part}.safetensors: it is a Git LFS pointer"):
        load_base(str(tmp_path / "base"), device=torch.device("cpu"))


def test_a_bundle_of_pointers(tmp_path: Path) -> None:
    """It said "was changed", as of one that somebody tampered with."""
    manifest = specimens.bundled("manifest.json")(tmp_path)
    artifact = next(
        path for path in sorted((manifest.parent / "artifacts").iterdir()) if path.suffix != ".json"
    )
    artifact.write_bytes(POINTER)
    with pytest.raises(InputError, match=rf"{artifact.name}: it is a Git LFS pointer"):
        specimens.verified(manifest)


def test_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"l.db: it is a Git LFS pointer"):
        open_ledger(str(put(tmp_path / "l.db", POINTER))).rows()
