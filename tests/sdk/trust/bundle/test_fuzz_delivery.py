"""Harmed bundles through inspect, diff and pack: a typed error, or the very bundle; nothing
elsewhere.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.mutations import mutated

from unplug.core import UnplugError, peak_rss_bytes
from unplug.trust.bundle import Trust, diff_bundles, make_key, pack_for, read_manifest, read_trust

from ..commands import called
from .test_bundle import make_bundle
from .test_packs import tree

FEW, MANY = 40, 2000
MAX_GROWTH, MAX_SECONDS = 2**28, 20
Harm = Callable[[random.Random, Path], None]


class Honest:
    """Two signed releases."""

    def __init__(self, folder: Path) -> None:
        make_key(folder / "key")
        self.trust: Trust = read_trust(folder / "key.pub")
        self.old, self.new = (folder / f"{name}.unplug" for name in ("old", "new"))
        for number, out in enumerate((self.old, self.new), 1):
            made = make_bundle(folder / f"made-{number}", random.Random(number).randbytes(8000))
            words = f"--sign {folder}/key --name face-age --number {number} -o {out}"
            called(f"bundle sign {made} {words}")
        self.tree = tree(self.new)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Honest:
    return Honest(tmp_path_factory.mktemp("honest"))


def some(draw: random.Random, folder: Path) -> Path:
    return draw.choice(
        sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    )


def flip(draw: random.Random, folder: Path) -> None:
    path = some(draw, folder)
    raw = bytearray(path.read_bytes() or b"\0")
    raw[draw.randrange(len(raw))] ^= draw.randrange(1, 256)
    path.write_bytes(raw)


def cut(draw: random.Random, folder: Path) -> None:
    path = some(draw, folder)
    raw = path.read_bytes()
    path.write_bytes(raw[: draw.randrange(len(raw) + 1)] + draw.randbytes(draw.randrange(20)))


def rename(draw: random.Random, folder: Path) -> None:
    names = ["a", "manifest.JSON", "reports/a", "artifacts/CON", "\u00e9", ".hidden", "a\nb"]
    target = folder / draw.choice(names)
    target.parent.mkdir(parents=True, exist_ok=True)
    some(draw, folder).rename(target)


def link(draw: random.Random, folder: Path) -> None:
    path = some(draw, folder)
    path.unlink()
    path.symlink_to(draw.choice(["/etc/hosts", "/dev/zero", "manifest.json", "/nowhere"]))


def odd_json(draw: random.Random, folder: Path) -> None:
    path = draw.choice(sorted(folder.rglob("*.json")))
    if path.is_file() and not path.is_symlink():
        try:
            value = json.loads(path.read_bytes())
        except (ValueError, RecursionError):  # it was harmed before, by brackets without end say
            return
        path.write_bytes(next(iter(mutated(value, 1, str(draw.random())))))


HARMS: tuple[Harm, ...] = (flip, cut, rename, link, odd_json, odd_json)


def harmed(draw: random.Random, honest: Path, out: Path) -> Path:
    shutil.copytree(honest, out)
    for _ in range(draw.randint(1, 3)):
        if [path for path in out.rglob("*.json") if path.is_file() and not path.is_symlink()]:
            draw.choice(HARMS)(draw, out)
    return out


def tried(use: Callable[[], object]) -> bool:
    """Whether it works; nothing but an error of ours may come instead."""
    begun = time.process_time()
    try:
        use()
    except UnplugError as error:
        assert len(str(error)) < 1100
        return False
    finally:
        assert time.process_time() - begun < MAX_SECONDS
    return True


def law(honest: Honest, seed: int) -> bool:
    """One harmed bundle; whether it could still be read."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = harmed(draw, honest.new, folder / honest.new.name)
        before = {path.relative_to(folder) for path in folder.rglob("*")}
        sound = tried(lambda: diff_bundles(read_manifest(honest.old), read_manifest(bundle)))
        for store in ("play", "ios", "hub"):
            if tried(
                lambda store=store: pack_for(store, bundle, folder / store, trust=honest.trust)
            ):
                assert tree(bundle) == honest.tree, "what was harmed is not packed"
            else:
                assert not (folder / store).exists()
        made = {path.relative_to(folder) for path in folder.rglob("*")} - before
        assert {path.parts[0] for path in made} <= {"play", "ios", "hub"}
        return sound


@pytest.mark.long
def test_harmed_deliveries_are_refused_or_sound(honest: Honest) -> None:
    for seed in range(FEW):
        law(honest, seed)


@pytest.mark.nightly
def test_thousands_of_harmed_deliveries_in_bounded_memory(honest: Honest) -> None:
    law(honest, 0)
    before = peak_rss_bytes() or 0
    for seed in range(MANY):
        law(honest, seed)
    assert (peak_rss_bytes() or 0) - before < MAX_GROWTH
    assert tree(honest.new) == honest.tree
