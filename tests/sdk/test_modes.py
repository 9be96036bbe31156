"""What names people, or sums up their faces, can be read by its owner alone, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from unplug.plugins import AgePredictor, save_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.drawing.inference import load_head
from unplug.sdk.evidence.fleet.result import write_result
from unplug.sdk.learning.data import load_dataset, make_split, save_split
from unplug.sdk.learning.training import StateFile, training_dir
from unplug.sdk.learning.training.training_sets import check_place
from unplug.trust.certificates import draft_answer
from unplug.trust.ledger import LedgerSigner, open_ledger

HEAD = Path(__file__).parents[1] / "vectors" / "head" / "start.safetensors"
SPEC = "synth:n=12,subjects=4,seed=3"
SIGNER = LedgerSigner(name="tests.example", seed=bytes(32))


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", SIGNER.secret_text)
    where = str(tmp_path / "ledger" / "ledger.db")
    opened = open_ledger(where)
    opened.create()
    opened.add(["subject:person-0"], id="A-1")
    return where


def call(*args: object) -> None:
    done = CliRunner().invoke(main, [*map(str, args)])
    assert done.exit_code == 0, done.output


def split(out: Path) -> None:
    save_split(make_split(load_dataset(SPEC, 32, show=False)), out / "split.json")


def checkpoint(out: Path) -> None:
    save_checkpoint(
        AgePredictor(size="nano", image_size=32),
        out / "model",
        record={},
        card="",
        state={"sums": torch.ones(2)},
    )


def training(out: Path) -> None:
    check_place(out / "model")
    network = torch.nn.Linear(1, 1)
    state = StateFile(path=training_dir(out / "model") / "state.safetensors", fingerprint="")
    state.save(network, network, torch.optim.SGD(network.parameters()), {})


WRITERS: dict[str, Callable[[Path, str], object]] = {
    "split": lambda out, _: split(out),
    "checkpoint": lambda out, _: checkpoint(out),
    "training": lambda out, _: training(out),
    "fleet": lambda out, _: write_result(out, "one", b"packed"),
    "head": lambda out, _: load_head(HEAD).save(out / "head.safetensors"),
    "answer": lambda out, where: draft_answer("A-1", open_ledger(where), out / "drafts"),
    "queue": lambda out, where: call(
        "ledger", "queue", "--ledger", where, "--data", SPEC, "--out", out / "forget.json"
    ),
    "export": lambda out, where: call(
        "ledger", "export", "--ledger", where, "--out", out / "all.json"
    ),
    "table": lambda out, where: call(
        "ledger", "export", "--ledger", where, "--format", "csv", "--out", out / "all.csv"
    ),
    "proof": lambda out, where: call(
        "ledger", "prove", "A-1", "--ledger", where, "--out", out / "proof.json"
    ),
    "search": lambda out, _: call(
        "trace", "subject:person-0", "--data", SPEC, "--in", out.parent, "--out", out / "trace.json"
    ),
}


@pytest.mark.parametrize("what", WRITERS)
def test_it_is_its_owners_alone(tmp_path: Path, ledger: str, what: str) -> None:
    WRITERS[what](tmp_path / "new", ledger)
    found = [*(tmp_path / "new").rglob("*")]
    assert any(path.is_file() for path in found)
    assert {path.name: path.stat().st_mode & 0o777 for path in found} == {
        path.name: 0o700 if path.is_dir() else 0o600 for path in found
    }
