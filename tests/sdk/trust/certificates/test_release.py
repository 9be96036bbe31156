"""The whole way with a real release: asked, released, searched, certified, and verified elsewhere
with a public key alone.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import write_json
from unplug.sdk.cli import main
from unplug.sdk.releasing import Release

from ...conftest import SPEC, World

OPEN = {
    "schema": "unplug-certificate-policy/1",
    "max_auc_above": 1.0,
    "max_auc_below": 1.0,
    "must_be_known": ["raw data", "checkpoints"],
}
"""Limits that a model of three epochs keeps."""


def called(*words: object, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(main, [*map(str, words), "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.long
def test_a_person_asks_and_somebody_else_verifies(
    world: World, released: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(tmp_path / "ledger-key"))
    name = next(
        line for line in world.forget_file.read_text().splitlines() if line.startswith("subject:")
    )
    ledger_key = called("ledger", "init", "--name", "tests.example")["vkey"]
    called("bundle", "keygen", tmp_path / "release.key")
    called("ledger", "add", "--id", "TICKET-17", "--person", name)
    models, search, out = (
        world.original.path.parent,
        tmp_path / "trace.json",
        tmp_path / "certificate",
    )
    called("trace", name, "--data", SPEC, "--in", models, "--request", "TICKET-17", "--out", search)
    issue = [
        "certificate",
        "TICKET-17",
        "--bundle",
        released.bundle,
        "--sign",
        tmp_path / "release.key",
        "--out",
        out,
    ]
    called(*issue, code=1)  # nothing was released yet
    called("ledger", "record", "release", "TICKET-17", "--file", released.bundle / "manifest.json")
    said = called(*issue, "--trace", f"models={search}")["certificate"]
    places = {line["place"]: line["outcome"] for line in said["places"]}
    assert places["raw data"] == places["checkpoints"] == "kept" and places["backups"] == "unknown"
    assert (
        said["model"]["checkpoint_sha256"] == world.unlearned.sha256
        and name.encode() not in (out / "certificate.html").read_bytes()
    )
    away = tmp_path / "away"
    shutil.copytree(released.bundle, away / "bundle")
    for file in (out / "certificate.intoto.jsonl", tmp_path / "release.key.pub"):
        shutil.copy(file, away)
    monkeypatch.delenv("UNPLUG_LEDGER")
    check = [
        "certificate",
        "verify",
        away / "certificate.intoto.jsonl",
        "--key",
        away / "release.key.pub",
        "--bundle",
        away / "bundle",
    ]
    write_json(away / "policy.json", {**OPEN, "ledger_key": ledger_key})
    assert (
        called(*check, "--policy", away / "policy.json", "--request", "TICKET-17")["ledger_key"]
        == "the policy"
    )
    write_json(away / "strict.json", {**OPEN, "max_auc_above": -1.0, "answered": True})
    refused = called(*check, "--policy", away / "strict.json", code=1)["problems"]
    assert any("AUC from what never saw the person" in line for line in refused) and any(
        "was told" in line for line in refused
    )
