"""A person is found wherever she was put, and nowhere else; what cannot be looked into is said."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import write_json
from unplug.plugins import load_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.learning.data import save_split
from unplug.sdk.tracing import person_in, trace
from unplug.trust.bundle import pack_bundle
from unplug.trust.certificates import TracedPlace

from ..conftest import SPEC, World
from ..trust.bundle.test_bundle import edit, make_bundle


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def forgotten(world: World) -> str:
    return next(
        line for line in world.forget_file.read_text().splitlines() if line.startswith("subject:")
    )


@pytest.fixture
def work(world: World, tmp_path: Path, cache: Path) -> Path:
    """The checkpoints of the world, an exported file and a bundle of each, and what a hand wrote."""
    folder = tmp_path / "work"
    for name, made in (("original", world.original), ("unlearned", world.unlearned)):
        shutil.copytree(made.path, folder / name)
        card = {"schema": "unplug-artifact/1", "checkpoint_sha256": made.sha256}
        write_json(folder / f"{name}-files" / "age.onnx.json", card)
        write_json(
            folder / f"{name}.unplug" / "manifest.json",
            {"schema": "unplug-bundle/1", "lineage": card},
        )
    write_json(
        folder / "stray.unplug" / "manifest.json",
        {"schema": "unplug-bundle/1", "lineage": {"checkpoint_sha256": "0" * 64}},
    )
    save_split(world.split, folder / "split.json")
    (folder / "half.json").write_text('{"half": ')
    return folder


def found(places: tuple[TracedPlace, ...], work: Path) -> dict[str, str]:
    return {
        os.path.relpath(item.path, work): item.standing
        for item in places
        if item.path.startswith(f"{work}/")
    }


def test_whoever_was_forgotten_is_found_in_the_original_and_what_came_of_it(
    world: World, work: Path, forgotten: str
) -> None:
    (work / "request.txt").write_text(f"# of a test\n{forgotten}\n")
    person = person_in(SPEC, forgotten)
    places, _ = trace(SPEC, person, [work])
    assert found(places, work) == {
        "original": "remembers",
        "original-files/age.onnx": "derived",
        "original.unplug": "derived",
        "unlearned": "forgot",
        "stray.unplug": "unknown",
        "split.json": "names",
        "half.json": "unknown",
        "request.txt": "names",
    }
    (held,) = (
        item.samples
        for item in places
        if item.kind == "checkpoint" and item.standing == "remembers"
    )
    assert held == len(person.ids & set(world.split.train)) > 0


def test_packed_bundles_are_looked_into_and_bombs_are_not_unpacked(
    world: World, work: Path, forgotten: str, tmp_path: Path
) -> None:
    bundle = make_bundle(tmp_path / "made")
    for name, sha256 in (
        ("original", world.original.sha256),
        ("unlearned", world.unlearned.sha256),
    ):
        edit(bundle, lambda m, sha256=sha256: m["lineage"].update(checkpoint_sha256=sha256))
        pack_bundle(bundle, work / f"{name}.zip")
    with zipfile.ZipFile(work / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(2**25))
    (work / "photos.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    standings = found(trace(SPEC, person_in(SPEC, forgotten), [work])[0], work)
    assert standings["original.zip"] == "derived" and "unlearned.zip" not in standings
    assert standings["bomb.zip"] == standings["photos.zip"] == "unknown"


def test_whoever_is_in_the_test_set_is_remembered_by_none(world: World, work: Path) -> None:
    places, _ = trace(SPEC, person_in(SPEC, world.split.test[0]), [work])
    standings = found(places, work)
    assert standings["original"] == standings["unlearned"] == "names"
    assert "derived" not in standings.values() and "remembers" not in standings.values()


def test_whoever_stays_is_remembered_by_both(world: World, work: Path) -> None:
    stays = next(name for name in world.split.retain if name not in world.forget_ids)
    standings = found(trace(SPEC, person_in(SPEC, stays), [work, work])[0], work)
    assert standings["original"] == standings["unlearned"] == "remembers"
    assert standings["unlearned.unplug"] == "derived"


def test_without_the_key_a_forgotten_model_cannot_be_looked_into(
    work: Path, forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "no-key"))
    places, _ = trace(SPEC, person_in(SPEC, forgotten), [work])
    standings = found(places, work)
    assert standings["original"] == "remembers" and standings["unlearned"] == "unknown"
    assert standings["unlearned.unplug"] == "unknown", (
        "what came of a model that nobody can look into is unknown as well"
    )
    assert not (tmp_path / "no-key").exists(), "no key is made by looking"


def test_references_remember_whom_their_models_saw(
    world: World, work: Path, forgotten: str
) -> None:
    from unplug.core import operator_key

    key, person = operator_key(), person_in(SPEC, forgotten)
    rows = [key.digest(name, world.dataset.digest) for name in world.dataset.ids]
    record: dict[str, Any] = {"schema": "unplug-references/1", "key": key.id, "rows": rows}
    record |= {"data": {"digest": world.dataset.digest}}
    write_json(work / "fleet" / "references.json", record)
    write_json(
        work / "broken" / "references.json", {"schema": "unplug-references/1", "key": key.id}
    )
    standings = found(trace(SPEC, person, [work])[0], work)
    assert standings["fleet"] == "remembers" and standings["broken"] == "unknown"
    write_json(work / "fleet" / "references.json", record | {"rows": ["0" * 64]})
    assert "fleet" not in found(trace(SPEC, person, [work])[0], work)


def call(*args: object, code: int = 0) -> Any:
    result = CliRunner().invoke(main, [*map(str, args), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if code == 0 else result.stderr


def test_the_cache_is_purged_and_it_is_recorded(
    world: World,
    work: Path,
    forgotten: str,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from unplug.sdk.learning.data import held_in_cache, load_dataset

    monkeypatch.setenv("UNPLUG_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(tmp_path / "ledger-key"))
    load_dataset(SPEC, 16, show=False)
    assert len(held_in_cache()) == 1
    look = ("trace", forgotten, "--data", SPEC, "--in", work)
    assert {("holds", "unplug trace --purge --request ID")} == {
        (item["standing"], item["goes_by"])
        for item in call(*look)["places"]
        if item["kind"].startswith("cache")
    }
    assert "what is deleted is recorded" in call(*look, "--purge", code=2)
    assert "no key that signs" in call(*look, "--purge", "--request", "A-1", code=2)
    call("ledger", "init")
    call("ledger", "add", "--id", "A-1", "--person", forgotten)
    call("ledger", "add", "--id", "A-2", "--person", "subject:somebody else")
    assert "does not name that person" in call(*look, "--purge", "--request", "A-2", code=2)
    assert len(held_in_cache()) == 1, "nothing is deleted that cannot be recorded"
    told = call(*look, "--purge", "--request", "A-1", "--out", tmp_path / "trace.json")
    assert len(told["purged"]) >= 1 and held_in_cache() == ()
    gone = [item for item in told["places"] if item["kind"].startswith("cache")]
    assert {(item["standing"], item["goes_by"]) for item in gone} == {("deleted", "")}, (
        "a line does not say that it is there"
    )
    assert sorted(item["path"] for item in gone) == sorted(told["purged"])
    assert not [item for item in call(*look)["places"] if item["kind"].startswith("cache")]
    (_, step) = call("ledger", "status", "A-1")["history"]
    assert step["facts"]["deleted"] == step["facts"]["purged"]
    again = CliRunner().invoke(main, [*map(str, look), "--purge", "--request", "A-1"]).output
    assert "the cache kept nothing of them" in again and "deleted" not in again.split("recorded")[0]
    assert step["sequence"] == told["entry"] and step["facts"]["purged"] == str(len(told["purged"]))
    assert step["facts"]["kept raw data"] == "1" and "kept caches" not in step["facts"], "purged"
    from unplug.core import json_sha256, read_json

    assert call(*look)["nonce"] != told["nonce"], (
        "nobody who knows all else can try names against the hash"
    )
    assert step["facts"]["trace_sha256"] == json_sha256(read_json(tmp_path / "trace.json"))


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
        item
        for item in trace(SPEC, person_in(SPEC, forgotten), [work])[0]
        if item.path.endswith("closed")
    ]
    assert (closed.standing, closed.kind, closed.goes_by) == (
        "unknown",
        "folder",
        "Permission denied",
    )


def test_bad_input_is_one_line(work: Path) -> None:
    assert "does not know that name" in call(
        "trace", "subject:nobody", "--data", SPEC, "--in", work, code=2
    )
    name = load_checkpoint(work / "original").record["split"]["train"][0]
    assert "there is no such folder" in call(
        "trace", name, "--data", SPEC, "--in", work / "absent", code=2
    )
