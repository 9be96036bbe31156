"""Patches lead to the new bundle bit for bit, small where an edit is small; hostile ones lead nowhere, in bounded memory."""

from __future__ import annotations

import bz2
import json
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from unplug.core import peak_rss_bytes, sha256_file
from unplug.sdk.bundle import WAYS, PatchBroken, apply_delta, bundle_id, make_delta, make_key, patch_bundle, read_patches
from unplug.sdk.bundle.deltas import MAX_DELTA_BYTES

from ..cli.calls import fail
from .test_bundle import make_bundle
from .test_packs import tree
from .test_signing import call

WEIGHTS = 20_000
GROWTH = 2**26  # bytes; a bomb here takes twice that


def weights(*, sparse: bool = False, dense: bool = False) -> bytes:
    """float32 numbers like those of a network, a few of them or all of them edited."""
    generator = np.random.default_rng(0)
    value_N = generator.normal(size=WEIGHTS).astype("<f4")
    if sparse:
        value_N[generator.integers(0, WEIGHTS, 20)] *= 0.5
    if dense:
        value_N = (value_N * (1 + 0.5 * generator.normal(size=WEIGHTS))).astype("<f4")
    return value_N.tobytes()


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three signed releases: the first, and one a method."""
    folder = tmp_path_factory.mktemp("releases")
    make_key(folder / "key")
    found = {"key": folder / "key.pub"}
    for number, name in enumerate(("old", "sparse", "dense"), 1):
        made = make_bundle(folder / f"made-{name}", weights(sparse=name == "sparse", dense=name == "dense"))
        found[name] = folder / f"{name}.unplug"
        call("sign", made, "--key", folder / "key", "--name", "face-age", "--number", number, "-o", found[name])
    return found


@pytest.fixture
def patches(releases: dict[str, Path], tmp_path: Path) -> Path:
    call("diff", releases["old"], releases["sparse"], "--patches", tmp_path / "patches")
    return tmp_path / "patches"


# Honest ones


@pytest.mark.parametrize("name", ["sparse", "dense"])
def test_the_new_bundle_bit_for_bit(releases: dict[str, Path], tmp_path: Path, name: str) -> None:
    made = call("diff", releases["old"], releases[name], "--patches", tmp_path / "patches")["patches"]
    assert call("diff", releases["old"], releases[name])["changed"], "without --patches it compares alone"
    said = call("patch", releases["old"], tmp_path / "patches", "--trust", releases["key"], "-o", tmp_path / "new.unplug")
    assert tree(tmp_path / "new.unplug") == tree(releases[name])
    assert said["id"] == bundle_id(releases[name]) == made["target"] and said["ways"]["copy"] >= 1
    assert call("verify", tmp_path / "new.unplug", "--trust", releases["key"])["signed"]


def test_a_sparse_edit_ships_a_small_patch_and_a_dense_one_the_file(releases: dict[str, Path], tmp_path: Path) -> None:
    shipped = {}
    for name in ("sparse", "dense"):
        made = call("diff", releases["old"], releases[name], "--patches", tmp_path / name)["patches"]
        entry = made["files"]["artifacts/age.fp32.tflite"]
        shipped[name] = entry["patch_bytes"] / entry["bytes"]
        assert made["method"] == "msg"
    assert shipped["sparse"] < 0.01 and shipped["dense"] > 0.5


def test_archives_do_as_well_and_the_same_patches_come_out(releases: dict[str, Path], patches: Path, tmp_path: Path) -> None:
    for name in ("old", "sparse"):
        call("pack", releases[name], "-o", tmp_path / f"{name}.zip")
    call("diff", tmp_path / "old.zip", tmp_path / "sparse.zip", "--patches", tmp_path / "again")
    assert tree(tmp_path / "again") == tree(patches)
    call("patch", tmp_path / "old.zip", patches, "--trust", releases["key"], "-o", tmp_path / "new.unplug")
    assert tree(tmp_path / "new.unplug") == tree(releases["sparse"])


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_every_way_leads_back(how: str, size: int) -> None:
    generator = np.random.default_rng(size)
    old, new = generator.bytes(1000), generator.bytes(size)
    assert apply_delta(how, old, make_delta(how, old, new), size, "t") == new  # type: ignore[arg-type]
    assert apply_delta(how, b"", make_delta(how, b"", new), size, "t") == new  # type: ignore[arg-type]


def test_zstds_own_program_unpacks_a_patch(tmp_path: Path) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("there is no zstd program")
    old, new = weights(), weights(sparse=True)
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "new.zst").write_bytes(make_delta("zstd", old, new))
    done = subprocess.run(
        ["zstd", "-d", "-c", f"--patch-from={tmp_path / 'old'}", tmp_path / "new.zst"], check=True, capture_output=True
    )  # fmt: skip
    assert done.stdout == new


def test_bsdiffs_own_reader_takes_a_patch() -> None:
    import bsdiff4

    old, new = weights(), weights(dense=True)
    assert bsdiff4.patch(old, make_delta("bsdiff", old, new)) == new


# Hostile ones


def number(value: int) -> bytes:
    return (value if value >= 0 else 2**63 - value).to_bytes(8, "little")


def bsdiff(size: int, triples: list[tuple[int, int, int]], added: bytes = b"", extra: bytes = b"", repeat: int = 1) -> bytes:
    control = bz2.compress(b"".join(number(part) for triple in triples for part in triple) * repeat)
    difference = bz2.compress(added)
    head = b"BSDIFF40" + number(len(control)) + number(len(difference)) + number(size)
    return head + control + difference + bz2.compress(extra)


BLOCKS, BLOCK = 128, bytes(2**20)


@cache
def bzip2_bomb() -> bytes:
    """128 MiB of zeros, made without ever having them in memory: else a peak would be there before it is looked for."""
    packer = bz2.BZ2Compressor()
    return b"".join([*(packer.compress(BLOCK) for _ in range(BLOCKS)), packer.flush()])


@cache
def zstd_bomb() -> bytes:
    import zstandard

    packer = zstandard.ZstdCompressor(level=1).compressobj(size=BLOCKS * len(BLOCK))
    return b"".join([*(packer.compress(BLOCK) for _ in range(BLOCKS)), packer.flush()])


def hostile_steps() -> bytes:
    return b"BSDIFF40" + number(len(bzip2_bomb())) + number(0) + number(10) + bzip2_bomb()


HOSTILE: dict[str, tuple[str, bytes | Callable[[], bytes]]] = {
    "no patch": ("bsdiff", b"a"),
    "another size": ("bsdiff", bsdiff(11, [(0, 10, 0)], extra=bytes(10))),
    "too short": ("bsdiff", bsdiff(10, [(0, 9, 0)], extra=bytes(9))),
    "beyond the difference": ("bsdiff", bsdiff(10, [(10, 0, 0)], added=bytes(9))),
    "beyond the extra": ("bsdiff", bsdiff(10, [(0, 10, 0)], extra=bytes(9))),
    "backwards": ("bsdiff", bsdiff(10, [(-1, 0, 0), (0, 10, 0)], extra=bytes(10))),
    "beyond the new file": ("bsdiff", bsdiff(10, [(0, 10, 0), (0, 10, 0)], extra=bytes(10))),
    "many steps that do nothing": ("bsdiff", lambda: bsdiff(10, [(0, 0, 1)], extra=bytes(10), repeat=2**20 + 1)),
    "parts beyond the file": ("bsdiff", b"BSDIFF40" + number(2**40) + number(2**40) + number(10)),
    "negative parts": ("bsdiff", b"BSDIFF40" + number(-1) + number(0) + number(10)),
    "a bomb in the steps": ("bsdiff", hostile_steps),
    "a bomb in the extra": ("bsdiff", lambda: bsdiff(10, [(0, 10, 0)])[:-14] + bzip2_bomb()),
    "a cut block": ("bsdiff", bsdiff(10, [(0, 10, 0)], extra=bytes(10))[:-5]),
    "no frame": ("zstd", b"a"),
    "a cut frame": ("zstd", make_delta("zstd", bytes(1000), bytes(10))[:-1]),
    "a frame of something else": ("whole", make_delta("whole", b"", bytes(11))),
    "a bomb": ("whole", zstd_bomb),
    "a bomb with the old file": ("zstd", zstd_bomb),
    "a huge window": ("whole", b"\x28\xb5\x2f\xfd\x00\xff" + b"\x01\x00\x00"),
    "a way that is none": ("xdelta", b""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_patch_is_refused_in_bounded_memory(name: str) -> None:
    how, made = HOSTILE[name]
    raw = made if isinstance(made, bytes) else made()
    before = peak_rss_bytes() or 0
    with pytest.raises(PatchBroken) as caught:
        apply_delta(how, bytes(1000), raw, 10, "t")
    assert caught.value.exit_code == 1 and (peak_rss_bytes() or 0) - before < GROWTH


def index(patches: Path, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    value = json.loads((patches / "patches.json").read_text())
    change(value)
    (patches / "patches.json").write_text(json.dumps(value))


FILE = "artifacts/age.fp32.tflite"
BROKEN: list[tuple[str, Callable[[Path], object], str]] = [
    ("a changed patch", lambda p: (p / "files" / FILE).write_bytes(b"x"), "no bsdiff patch|cannot unpack"),
    ("a longer patch", lambda p: (p / "files" / FILE).write_bytes(bytes(10**6)), "larger than"),
    ("a missing patch", lambda p: (p / "files" / FILE).unlink(), "is missing, or not in"),
    ("a surplus file", lambda p: (p / "more").write_text("x"), "'more' is missing, or not in"),
    ("a link", lambda p: (p / "more").symlink_to("/etc/hosts"), "'more' is missing, or not in"),
    ("a copy of what changed", lambda p: index(p, lambda v: v["files"][FILE].update(how="copy")), "missing, or not in"),
    ("another file", lambda p: index(p, lambda v: v["files"][FILE].update(sha256="0" * 64)), "leads to another file"),
    ("another bundle", lambda p: index(p, lambda v: v.update(target="0" * 64)), "lead to another bundle"),
    ("from elsewhere", lambda p: index(p, lambda v: v.update(base="0" * 64)), "they lead from the bundle 000000"),
    ("out of the folder", lambda p: index(p, lambda v: v["files"].update({"../a": v["files"][FILE]})), "unsafe file"),
    ("absolute", lambda p: index(p, lambda v: v["files"].update({"/tmp/a": v["files"][FILE]})), "unsafe file"),
    ("without end", lambda p: index(p, lambda v: v["files"][FILE].update(bytes=2**40)), "leads to more than"),
    ("too large to compare", lambda p: index(p, lambda v: v["files"][FILE].update(bytes=MAX_DELTA_BYTES + 1)), "ship whole"),
    ("negative", lambda p: index(p, lambda v: v["files"][FILE].update(bytes=-1)), "leads to more than"),
    ("no schema", lambda p: index(p, lambda v: v.update(schema="unplug-patches/9")), "does not follow its schema"),
    ("no JSON", lambda p: (p / "patches.json").write_text("{" * 99), "does not follow its schema"),
    ("without the signature", lambda p: (index(p, lambda v: v["files"].pop("model.sig")), (p / "files/model.sig").unlink()),
     "it is not signed"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_broken_patches_write_nothing(
    releases: dict[str, Path], patches: Path, tmp_path: Path, name: str, change: Callable[[Path], object], message: str
) -> None:
    change(patches)
    before = set(tmp_path.rglob("*"))
    said = fail("bundle", "patch", releases["old"], patches, "--trust", releases["key"], "-o", tmp_path / "new", code=1).line
    assert any(word in said for word in message.split("|")), said
    assert set(tmp_path.rglob("*")) == before


def test_the_wrong_base_the_wrong_key_and_the_wrong_place(releases: dict[str, Path], patches: Path, tmp_path: Path) -> None:
    words = ("--trust", releases["key"], "-o", tmp_path / "new")
    assert "they lead from the bundle" in fail("bundle", "patch", releases["dense"], patches, *words, code=1).line
    assert "signed by an unknown key" in fail("bundle", "patch", releases["old"], patches, "-o", tmp_path / "new", code=1).line
    assert "no patches.json in it" in fail("bundle", "patch", releases["old"], releases["old"], *words).line
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_text("years")
    assert "was not written by this command" in fail("bundle", "patch", releases["old"], patches, *words).line
    assert tree(tmp_path / "new").keys() == {"mine"}


def test_a_changed_base_leads_nowhere(releases: dict[str, Path], patches: Path, tmp_path: Path) -> None:
    """Its manifest is the right one, its weights are not."""
    base = Path(shutil.copytree(releases["old"], tmp_path / "base"))
    (base / FILE).write_bytes(weights(dense=True))
    with pytest.raises(PatchBroken, match="leads to another file"):
        patch_bundle(base, patches, tmp_path / "new")
    assert not (tmp_path / "new").exists() and read_patches(patches).base == sha256_file(base / "manifest.json")
