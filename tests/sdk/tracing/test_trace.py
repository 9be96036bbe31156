"""A person is found wherever she was put, and nowhere else; what cannot be looked into is said."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from unplug.core import json_sha256, operator_key, read_json, write_json
from unplug.sdk.learning.data import held_in_cache, load_dataset, save_split
from unplug.sdk.tracing import person_in, trace
from unplug.trust.bundle import pack_bundle

from ..conftest import SPEC, World
from ..trust.bundle.test_bundle import edit, make_bundle
from ..trust.commands import called, refused, shown


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def forgotten(world: World) -> str:
    lines = world.forget_file.read_text().splitlines()
    return next(line for line in lines if line.startswith("subject:"))


@pytest.fixture
def work(world: World, tmp_path: Path, cache: Path) -> Path:
    """The checkpoints of the world, an exported file and a bundle of each, and what a hand wrote."""
    folder = tmp_path / "work"
    for name, sha256 in (
        ("original", world.original.sha256),
        ("unlearned", world.unlearned.sha256),
        ("stray", "0" * 64),
    ):
        card = {"schema": "unplug-artifact/1", "checkpoint_sha256": sha256}
        manifest = {"schema": "unplug-bundle/1", "lineage": card}
        write_json(folder / f"{name}.unplug" / "manifest.json", manifest)
        if name != "stray":
            write_json(folder / f"{name}-files" / "age.onnx.json", card)
            shutil.copytree(getattr(world, name).path, folder / name)
    save_split(world.split, folder / "split.json")
    (folder / "half.json").write_text('{"half": ')
    return folder


def standings(name: str, work: Path) -> dict[str, str]:
    places, _ = trace(SPEC, person_in(SPEC, name), [work])
    paths = {os.path.relpath(place.path, work): place.standing for place in places}
    return {path: standing for path, standing in paths.items() if not path.startswith("..")}


def test_whoever_was_forgotten_is_met_in_the_original_and_what_came_of_it(
    world: World, work: Path, forgotten: str
) -> None:
    (work / "request.txt").write_text(f"# of a test\n{forgotten}\n")
    assert standings(forgotten, work) == {
        "original": "remembers",
        "original-files/age.onnx": "derived",
        "original.unplug": "derived",
        "unlearned": "forgot",
        "stray.unplug": "unknown",
        "split.json": "names",
        "half.json": "unknown",
        "request.txt": "names",
    }
    person = person_in(SPEC, forgotten)
    places, _ = trace(SPEC, person, [work])
    (held,) = (place.samples for place in places if place.standing == "remembers")
    assert held == len(person.ids & set(world.split.train)) > 0


def test_packed_bundles_are_looked_into_and_bombs_are_not_unpacked(
    world: World, work: Path, forgotten: str, tmp_path: Path
) -> None:
    bundle = make_bundle(tmp_path / "made")
    for name, made in (("original", world.original), ("unlearned", world.unlearned)):
        edit(bundle, lambda m, made=made: m["lineage"].update(checkpoint_sha256=made.sha256))
        pack_bundle(bundle, work / f"{name}.zip")
    with zipfile.ZipFile(work / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(2**25))
    (work / "photos.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    told = standings(forgotten, work)
    assert told["original.zip"] == "derived" and "unlearned.zip" not in told
    assert told["bomb.zip"] == told["photos.zip"] == "unknown"


def test_whoever_was_never_forgotten_is_where_the_split_has_them(world: World, work: Path) -> None:
    tested = standings(world.split.test[0], work)
    assert tested["original"] == tested["unlearned"] == "names"
    assert not {"derived", "remembers"} & set(tested.values())
    stays = next(name for name in world.split.retain if name not in world.forget_ids)
    kept = standings(stays, work)
    assert kept["original"] == kept["unlearned"] == "remembers"
    assert kept["unlearned.unplug"] == "derived"


def test_without_the_key_a_forgotten_model_cannot_be_looked_into(
    work: Path, forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "no-key"))
    told = standings(forgotten, work)
    # and what came of a model that nobody can look into is unknown as well
    assert told["unlearned"] == told["unlearned.unplug"] == "unknown"
    assert told["original"] == "remembers"
    assert not (tmp_path / "no-key").exists(), "no key is made by looking"


def test_references_remember_whom_their_models_saw(
    world: World, work: Path, forgotten: str
) -> None:
    key, digest = operator_key(), world.dataset.digest
    broken = {"schema": "unplug-references/1", "key": key.id}
    rows = [key.digest(name, digest) for name in world.dataset.ids]
    record: dict[str, Any] = {**broken, "rows": rows, "data": {"digest": digest}}
    write_json(work / "fleet" / "references.json", record)
    write_json(work / "broken" / "references.json", broken)
    told = standings(forgotten, work)
    assert told["fleet"] == "remembers" and told["broken"] == "unknown"
    write_json(work / "fleet" / "references.json", record | {"rows": ["0" * 64]})
    assert "fleet" not in standings(forgotten, work)


def test_the_cache_is_purged_and_it_is_recorded(
    work: Path, forgotten: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(tmp_path / "ledger-key"))
    look = f"trace '{forgotten}' --data {SPEC} --in {work}"

    def in_cache(told: dict[str, Any]) -> list[dict[str, Any]]:
        return [place for place in told["places"] if place["kind"].startswith("cache")]

    def standing(places: list[dict[str, Any]]) -> set[tuple[str, str]]:
        return {(place["standing"], place["goes_by"]) for place in places}

    load_dataset(SPEC, 16, show=False)
    assert len(held_in_cache()) == 1
    before = called(look)
    assert standing(in_cache(before)) == {
        ("holds", "`unplug trace` deletes it with --purge and --request ID")
    }
    assert "what is deleted is recorded" in refused(f"{look} --purge")
    assert "no key that signs" in refused(f"{look} --purge --request A-1")
    called("ledger init")
    called(f"ledger add --id A-1 --person '{forgotten}'")
    called("ledger add --id A-2 --person 'subject:somebody else'")
    assert "does not name that person" in refused(f"{look} --purge --request A-2")
    assert len(held_in_cache()) == 1, "nothing is deleted that cannot be recorded"
    told = called(f"{look} --purge --request A-1 --out {tmp_path}/trace.json")
    assert len(told["purged"]) >= 1 and held_in_cache() == ()
    gone = in_cache(told)
    assert standing(gone) == {("deleted", "")}, "a line does not say that it is there"
    assert sorted(place["path"] for place in gone) == sorted(told["purged"])
    assert not in_cache(called(look))
    step = called("ledger status A-1")["history"][1]
    facts = step["facts"]
    assert step["sequence"] == told["entry"]
    assert facts["deleted"] == facts["purged"] == str(len(told["purged"]))
    assert facts["kept raw data"] == "1" and "kept caches" not in facts, "purged"
    # nobody who knows all else can try names against the hash
    assert before["nonce"] != told["nonce"]
    assert facts["trace_sha256"] == json_sha256(read_json(tmp_path / "trace.json"))
    again = shown(f"{look} --purge --request A-1")
    assert "the cache kept nothing of them" in again and "deleted" not in again.split("recorded")[0]


def test_a_folder_that_cannot_be_listed_is_unknown(
    work: Path, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `os.walk` meets it, whoever runs the tests; root may list everything."""
    (work / "closed").mkdir()
    real = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (closed,) = [
        place
        for place in trace(SPEC, person_in(SPEC, forgotten), [work])[0]
        if place.path.endswith("closed")
    ]
    assert (closed.standing, closed.kind) == ("unknown", "folder")
    assert closed.goes_by == "Permission denied"


def test_bad_input_is_one_line(world: World, work: Path) -> None:
    look = f"trace '{world.split.train[0]}' --data {SPEC} --in"
    assert "there is no such folder" in refused(f"{look} {work}/absent")
    nobody = refused(f"trace subject:nobody --data {SPEC} --in {work}")
    assert "does not know that name" in nobody


def test_a_name_needs_no_prefix(world: World) -> None:
    person = next(str(sample.subject) for sample in world.dataset.samples)
    assert person_in(SPEC, person) == person_in(SPEC, f"subject:{person}")
