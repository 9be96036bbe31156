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
EDGES = "0,13,18,30,100"
SMALL = (
    "tests.networks:small",
    "--data",
    DATA,
    "--edges",
    EDGES,
    "--argument",
    "groups=4",
    "--image-size",
    "32",
    "--epochs",
    "1",
)


def call(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, list(words))
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
    call("data", "split", DATA, "--size", "32", "--out", "split.json")
    return tmp_path


def test_weights_from_elsewhere_become_a_checkpoint(here: Path) -> None:
    told = json.loads(
        call(
            "adopt",
            *SMALL,
            "--weights",
            "mine.safetensors",
            "--split",
            "split.json",
            "--out",
            "mine",
            "--json",
        )
    )
    made = load_checkpoint("mine", expect="age")
    assert told["sha256"] == made.sha256 and told["metrics"]["test"]["n"] == 12
    assert made.record["cost"]["device"] == "trained elsewhere"
    torch.manual_seed(0)
    expected = small(4).eval()
    image = torch.rand(2, 3, 32, 32)
    assert torch.allclose(made.model(image)["age_logits"], expected((image - 0.5) / 0.5), atol=1e-6)


@pytest.mark.long
def test_the_journey_of_an_adopted_network(here: Path) -> None:
    call(
        "adopt",
        *SMALL,
        "--epochs",
        "9",
        "--weights",
        "mine.safetensors",
        "--split",
        "split.json",
        "--out",
        "mine",
    )
    call("data", "pick-forget", "mine", "--data", DATA, "--fraction", "0.2", "--out", "forget.txt")
    request = ("--data", DATA, "--forget", "forget.txt")
    call("forget", "mine", *request, "--method", "msg", "--budget", "1", "--out", "unlearned")
    call("forget", "mine", *request, "--method", "retrain", "--out", "retrained")
    unlearned, retrained = load_checkpoint("unlearned"), load_checkpoint("retrained")
    assert unlearned.model.adopted == retrained.model.adopted is not None
    assert unlearned.record["forget"]["cost"]["compute_fraction"] <= 1
    call("export", "unlearned", "--to", "onnx", "--precision", "fp32", "--out", "files")
    call("parity", "files/age.fp32.onnx", "--checkpoint", "unlearned")
    told = json.loads(
        call(
            "audit",
            "unlearned",
            "files/age.fp32.onnx",
            *request,
            "--retrained",
            "retrained",
            "--train-references",
            "0",
            "--out",
            "audit.json",
            "--json",
        )
    )
    assert told


def test_it_is_trained_here_where_it_has_no_weights(here: Path) -> None:
    told = call("adopt", *SMALL, "--out", "mine")
    assert "saved mine: tests.networks:small" in told
    assert load_checkpoint("mine").record["cost"]["forward"] == 42


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            ("--weights", "mine.safetensors"),
            "nobody said which of these pictures trained the network",
        ),
        (
            ("--weights", "none.safetensors", "--split", "split.json"),
            "none.safetensors: no such file",
        ),
        (("--edges", "0,18,100"), "it answers a picture with [4] where the borders make 2 groups"),
        (("--edges", "0,adult"), "it is no list of years"),
        (("--mean", "1,2"), "it is not three numbers"),
        (("--argument", "nonsense=1"), "unexpected keyword"),
    ],
)
def test_one_line_where_it_cannot_be(here: Path, more: tuple[str, ...], why: str) -> None:
    told = call("adopt", *SMALL, "--out", "mine", *more, code=2)
    assert why in told and told.count("\n") == 1 and not Path("mine").exists()


@pytest.mark.long
def test_only_what_passed_its_check_is_trusted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a network that is refused, nor one that asks for all memory, nor one that never ends."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    for name, argument, why in (
        ("small", "groups=3", "it answers a picture with [3]"),
        ("buffered", "side=200000", "can't allocate memory"),
        ("endless", "groups=4", "not done after 4 s"),
    ):
        monkeypatch.setenv("UNPLUG_CHILD_SECONDS", "4" if name == "endless" else "120")
        words = (
            f"tests.networks:{name}",
            "--argument",
            argument,
            "--data",
            "csv:nowhere.csv",
            "--edges",
            EDGES,
        )
        told = call("adopt", *words, "--image-size", "32", "--out", "mine", code=2)
        assert why in told and told.count("\n") == 1, told
        assert not factories_file().exists()
    told = call(
        "adopt", *SMALL[:1], "--data", "csv:nowhere.csv", *SMALL[3:], "--out", "mine", code=2
    )
    assert (
        "nowhere.csv" in told and factories_file().read_text() == "tests.networks:small?groups=4\n"
    )


def test_weights_of_another_network(here: Path) -> None:
    save_file({"last.weight": torch.zeros(4, 4)}, "other.safetensors")
    told = call(
        "adopt",
        *SMALL,
        "--weights",
        "other.safetensors",
        "--split",
        "split.json",
        "--out",
        "mine",
        code=2,
    )
    assert "features.0.bias" in told and "save_file(network.state_dict()" in told


def test_a_network_that_says_one_number(here: Path) -> None:
    words = (
        "tests.networks:says_one_number",
        "--data",
        DATA,
        "--image-size",
        "32",
        "--out",
        "mine",
    )
    told = call(
        "adopt",
        *words,
        "--edges",
        EDGES,
        "--weights",
        "mine.safetensors",
        "--split",
        "split.json",
        code=2,
    )
    assert "a network that says one number has no groups to decide by" in told
