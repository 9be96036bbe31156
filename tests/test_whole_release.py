"""The whole way under a root certificate: one request names Anna (person-2), who was trained on,
and Cleo (person-1), who was held out; a second names Dora (person-3), who was held out.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.sdk.trust.bundle.test_chain import DAY, Holder, pem
from tests.test_story import run

from unplug.plugins import load_checkpoint
from unplug.sdk.learning.training import split_of
from unplug.trust.bundle import bundle_id, load_signer, read_trust, verify_bundle
from unplug.trust.ledger import check_ledger, open_ledger

pytestmark = pytest.mark.nightly

WAY = """\
unplug data synth --count 90 --subjects 45 --pixels 48 --out faces
unplug train age --data csv:faces/labels.csv --forgettable closed-form --trunk-data \
synth:n=300,subjects=300,seed=1 --size nano --pixels 32 --epochs 12 --out model
unplug ledger init --origin example.com
unplug ledger add --id TICKET-1 --person subject:person-2 --person subject:person-1 --data \
csv:faces/labels.csv
unplug ledger touch model --data csv:faces/labels.csv
unplug ledger queue --data csv:faces/labels.csv --out forget.json
unplug release model --data csv:faces/labels.csv --forget forget.json --all-open --to onnx \
--precision fp32 --no-rounding --sign release.key --chain chain.pem --name face-age --out \
face-age.unplug
unplug bundle verify face-age.unplug --trust root.pem
unplug bundle verify face-age.unplug --trust release.key.pub # exit 1
unplug trace subject:person-2 --data csv:faces/labels.csv --in . --request TICKET-1 --purge \
--out anna.json
unplug trace subject:person-1 --data csv:faces/labels.csv --in . --request TICKET-1 --purge \
--out cleo.json
unplug ledger record answered TICKET-1
unplug certificate TICKET-1 --bundle face-age.unplug --sign release.key --trust root.pem --out \
certificate --trace anna=anna.json --trace cleo=cleo.json
unplug certificate verify certificate/certificate.intoto.jsonl --trust release.key.pub --trust \
root.pem --bundle face-age.unplug --request TICKET-1
unplug ledger add --id TICKET-2 --person subject:person-3 --data csv:faces/labels.csv
unplug ledger touch model --data csv:faces/labels.csv
unplug ledger queue --data csv:faces/labels.csv --out second.json
unplug release model --data csv:faces/labels.csv --forget second.json --all-open --sign \
release.key --name face-age --out second.unplug # exit 2
unplug trace subject:person-3 --data csv:faces/labels.csv --in . --request TICKET-2 --purge \
--out dora.json
unplug ledger record answered TICKET-2
unplug certificate TICKET-2 --bundle face-age.unplug --sign release.key --trust root.pem --out \
second # exit 1
unplug certificate templates TICKET-2 --out drafts
unplug ledger verify
"""
OWN = {"LEDGER": "ledger.db", "LEDGER_KEY": "ledger-key", "KEY": "operator-key", "CACHE": "cache"}


def under_a_root(folder: Path) -> None:
    """A key, its certificate by an authority in between, and the root."""
    now = datetime.now(UTC)
    times = {"valid": (now - DAY, now + 30 * DAY)}
    root = Holder("root", authority=True, **times)  # type: ignore[arg-type]
    middle = Holder("middle", root, authority=True, length=0, **times)  # type: ignore[arg-type]
    signer = Holder("release", middle, **times)  # type: ignore[arg-type]
    pem(folder / "root.pem", root)
    pem(folder / "chain.pem", signer, middle, root)
    signer.write(folder / "release.key")
    (folder / "release.key.pub").write_text(load_signer(str(folder / "release.key")).key.pem)


def test_a_release_under_a_root_forgets_one_who_was_trained_on_and_one_who_was_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, file in OWN.items():
        monkeypatch.setenv(f"UNPLUG_{name}", str(tmp_path / file))
    under_a_root(tmp_path)
    said = {line: run(line, monkeypatch) for line in WAY.splitlines()}

    manifest = verify_bundle(Path("face-age.unplug"), read_trust(Path("root.pem")))
    assert manifest.publication is not None and manifest.publication.requests == ("TICKET-1",)
    assert manifest.lineage.forget_samples == 2, "what was trained on"
    before, after = (
        split_of(load_checkpoint(Path(name)))
        for name in ("model", ".face-age.unplug.release/unlearned")
    )
    with Path("faces/labels.csv").open(encoding="utf-8", newline="") as file:
        cleos = {row["path"] for row in csv.DictReader(file) if row["subject"] == "person-1"}
    assert (
        len(cleos) == 2
        and cleos <= before.held_out
        and not cleos & {*after.test, *after.validation, *after.retain}
    )
    card = (tmp_path / "face-age.unplug" / "README.md").read_text()
    assert "held out" in card and "person-" not in card

    ledger = open_ledger(str(tmp_path / "ledger.db"))
    assert check_ledger(ledger, ledger.identity()[1])[1] == ()
    entries = ledger.entries()
    touched = [
        (entry.facts["samples"], entry.facts["held_out"])
        for entry in entries
        if entry.kind == "touched"
    ]
    assert touched == [("2", "2"), ("0", "2")]
    (released,) = [entry for entry in entries if entry.kind == "release"]
    assert (
        released.requests == ("TICKET-1",)
        and bundle_id(tmp_path / "face-age.unplug") in released.facts.values()
    )
    assert {name: item.state for name, item in ledger.requests().items()} == {
        "TICKET-1": "answered",
        "TICKET-2": "answered",
    }

    refused = [text for line, text in said.items() if line.endswith(("# exit 1", "# exit 2"))]
    assert "--trust ROOT.pem" in refused[0] and "No weights hold them" in refused[1]
    assert "unplug certificate templates TICKET-2" in refused[2]
    assert not (tmp_path / "second.unplug").exists() and not (tmp_path / "second").exists()
    assert (
        "No model of ours was trained on data about you"
        in (tmp_path / "drafts" / "answer.md").read_text()
    )
