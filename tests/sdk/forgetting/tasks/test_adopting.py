"""`unplug adopt`: a network of one's own through training, forgetting, export and parity."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from tests.networks import small

from unplug.plugins import load_checkpoint
from unplug.plugins.factories import factories_file
from unplug.sdk.cli import main

ROOT = Path(__file__).resolve().parents[4]
DATA = "synth:n=60,subjects=20"
SMALL = (
    f"adopt tests.networks:small --data {DATA} --edges 0,13,18,30,100 --argument groups=4"
    " --pixels 32 --epochs 1 --out mine"
)
MINE = "--weights mine.safetensors --split split.json"


def call(words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "config" / "key"))
    # child processes import it
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    save_file(small(4).state_dict(), "mine.safetensors")
    save_file({"last.weight": torch.zeros(4, 4)}, "other.safetensors")
    call(f"data split {DATA} --pixels 32 --out split.json")
    return tmp_path


def test_weights_from_elsewhere_become_a_checkpoint(here: Path) -> None:
    told = json.loads(call(f"{SMALL} {MINE} --json"))
    made = load_checkpoint("mine", expect="age")
    assert told["sha256"] == made.sha256 and told["metrics"]["test"]["n"] == 12
    assert made.record["cost"]["device"] == "trained elsewhere"
    torch.manual_seed(0)
    expected = small(4).eval()
    image = torch.rand(2, 3, 32, 32)
    assert torch.allclose(made.model(image)["age_logits"], expected((image - 0.5) / 0.5), atol=1e-6)


@pytest.mark.long
def test_the_journey_of_an_adopted_network(here: Path) -> None:
    call(f"{SMALL} {MINE} --epochs 9")
    call(f"data pick-forget mine --data {DATA} --fraction 0.2 --out forget.txt")
    request = f"--data {DATA} --forget forget.txt"
    call(f"forget mine {request} --method msg --budget 1 --out unlearned")
    call(f"forget mine {request} --method retrain --out retrained")
    unlearned, retrained = load_checkpoint("unlearned"), load_checkpoint("retrained")
    assert unlearned.model.adopted == retrained.model.adopted is not None
    assert unlearned.record["forget"]["cost"]["compute_fraction"] <= 1
    call("export unlearned --to onnx --precision fp32 --out files")
    call("parity files/age.fp32.onnx --checkpoint unlearned")
    call(
        f"audit unlearned files/age.fp32.onnx {request} --retrained retrained"
        " --train-references 0 --out audit.json"
    )
    assert len(json.loads(Path("audit.json").read_text())["models"]) == 4


def test_it_is_trained_here_where_it_has_no_weights(here: Path) -> None:
    Path("nets.py").write_text("from tests.networks import small as make\n")
    words = SMALL.replace("tests.networks:small", "./nets.py:make")
    assert "saved mine: ./nets.py:make" in call(words)
    made = load_checkpoint("mine")
    assert made.record["cost"]["forward"] == 42
    assert made.model.adopted.factory == f"{here}/nets.py:make"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            f"{SMALL} --weights mine.safetensors",
            "it is not known which of these pictures trained the network",
        ),
        (
            f"{SMALL} --weights none.safetensors --split split.json",
            "none.safetensors: no such file",
        ),
        (
            f"{SMALL} --weights other.safetensors --split split.json",
            "Save the state dict of just this network: safetensors.torch.save_file(network.state_d",
        ),
        (
            f"{SMALL} --edges 0,18,100",
            "it answers a picture with [4] where the borders make 2 groups",
        ),
        (f"{SMALL} --edges 0,adult", "it is not a list of years"),
        (f"{SMALL} --mean 1,2", "it is not three numbers"),
        (f"{SMALL} --argument nonsense=1", "unexpected keyword"),
        (
            f"adopt tests.networks:says_one_number --data {DATA} --pixels 32 --out mine"
            f" --edges 0,13,18,30,100 {MINE}",
            "a network that says one number has no groups to decide by",
        ),
    ],
)
def test_one_line_where_it_cannot_be(here: Path, words: str, why: str) -> None:
    told = call(words, code=2)
    assert why in told and told.count("\n") == 1 and not Path("mine").exists()


@pytest.mark.long
def test_only_what_passed_its_check_is_trusted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a network that is refused, nor one that asks for all memory, nor one that never ends."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    trusted = "tests.networks:small?groups=4\n"
    for name, argument, why, wait in (
        ("small", "groups=3", "it answers a picture with [3]", 120),
        ("buffered", "side=200000", "can't allocate memory", 120),
        ("endless", "groups=4", "not done after 4 s", 4),
        ("small", "groups=4", "nowhere.csv", 120),
    ):
        monkeypatch.setenv("UNPLUG_CHILD_SECONDS", str(wait))
        words = SMALL.replace("small", name).replace("groups=4", argument)
        told = call(words.replace(DATA, "csv:nowhere.csv"), code=2)
        assert why in told and told.count("\n") == 1, told
        assert factories_file().exists() == (why == "nowhere.csv")
    assert factories_file().read_text() == trusted
