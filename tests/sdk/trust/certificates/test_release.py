"""The whole way with a real release: asked, released, searched, certified, and verified elsewhere
with a public key alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from unplug.core import write_json
from unplug.sdk.releasing import Release

from ...conftest import SPEC, World
from ..commands import called, refused

OPEN = {
    "schema": "unplug-certificate-policy/1",
    "max_auc_above": 1.0,
    "max_auc_below": 1.0,
    "must_be_known": ["raw data", "checkpoints"],
}
"""Limits that a model of three epochs keeps."""


@pytest.mark.long
def test_a_person_asks_and_somebody_else_verifies(
    world: World, released: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(tmp_path / "ledger-key"))
    lines = world.forget_file.read_text().splitlines()
    name = next(line for line in lines if line.startswith("subject:"))
    models, out, away = world.original.path.parent, tmp_path / "certificate", tmp_path / "away"
    ledger_key = called("ledger init --name tests.example")["vkey"]
    called(f"bundle keygen {tmp_path}/release.key")
    called(f"ledger add --id TICKET-17 --person '{name}'")
    called(
        f"trace '{name}' --data {SPEC} --in {models} --request TICKET-17 --out {tmp_path}/search"
    )
    issue = (
        f"certificate TICKET-17 --bundle {released.bundle} --sign {tmp_path}/release.key "
        f"--out {out}"
    )
    refused(issue, code=1)  # nothing was released yet
    called(f"ledger record release TICKET-17 --file {released.bundle}/manifest.json")
    certificate = called(f"{issue} --trace models={tmp_path}/search")["certificate"]
    places = {line["place"]: line["outcome"] for line in certificate["places"]}
    assert places["raw data"] == places["checkpoints"] == "kept" and places["backups"] == "unknown"
    assert certificate["model"]["checkpoint_sha256"] == world.unlearned.sha256
    assert name.encode() not in (out / "certificate.html").read_bytes()
    shutil.copytree(released.bundle, away / "bundle")
    for file in (out / "certificate.intoto.jsonl", tmp_path / "release.key.pub"):
        shutil.copy(file, away)
    monkeypatch.delenv("UNPLUG_LEDGER")
    check = (
        f"certificate verify {away}/certificate.intoto.jsonl --key {away}/release.key.pub "
        f"--bundle {away}/bundle --policy {away}"
    )
    write_json(away / "policy.json", {**OPEN, "ledger_key": ledger_key})
    told = called(f"{check}/policy.json --request TICKET-17")
    assert told["ledger_key"] == "the policy"
    write_json(away / "strict.json", {**OPEN, "max_auc_above": -1.0, "answered": True})
    problems = " ".join(called(f"{check}/strict.json", code=1)["problems"])
    assert "AUC from what never saw the person" in problems and "was told" in problems
