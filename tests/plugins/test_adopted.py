"""A network of others in the place of ours: built from a name, and from no name that nobody trusts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import CheckpointError, InputError, MissingExtraError
from unplug.plugins import ADOPTED, Adopted, AgePredictor, load_checkpoint, save_checkpoint, trust
from unplug.plugins.adopted import factories_file, is_trusted

EDGES = (0.0, 13.0, 18.0, 100.0)
SMALL = Adopted(factory="tests.networks:small", arguments={"groups": 3}, mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 1.0))


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "config" / "key"))
    monkeypatch.delenv("UNPLUG_FACTORIES", raising=False)


def predictor() -> AgePredictor:
    return AgePredictor(size=ADOPTED, image_size=32, age_edges=EDGES, network=SMALL.to_dict()).eval()


def test_it_sees_normalized_pictures_and_answers_in_our_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_FACTORIES", "other:thing, tests.networks:small")
    model = predictor()
    image_BCHW = torch.rand(2, 3, 32, 32)
    seen = (image_BCHW - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)) / torch.tensor([0.5, 0.25, 1.0]).view(3, 1, 1)
    outputs = model(image_BCHW)
    assert model.network is not None
    expected = model.network.inner(seen)
    assert torch.allclose(outputs["age_logits"], expected, atol=1e-6)
    centre = torch.tensor([6.5, 15.5, 59.0])
    assert torch.allclose(outputs["expected_age"][:, 0], (expected.softmax(1) * centre).sum(1), atol=1e-4)
    with pytest.raises(InputError, match="nobody knows what its trunk is"):
        model.pooled(image_BCHW)


def test_it_is_saved_and_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust(SMALL.factory)
    model = predictor()
    save_checkpoint(model, tmp_path / "model", record={}, card="Somebody's.")
    again = load_checkpoint(tmp_path / "model", expect="age").model
    assert again.adopted == SMALL
    x = torch.rand(1, 3, 32, 32)
    assert torch.equal(again(x)["age_logits"], model(x)["age_logits"])
    factories_file().unlink()
    with pytest.raises(CheckpointError, match="nobody said here that it may run"):
        load_checkpoint(tmp_path / "model")


def test_a_file_that_names_code_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust(SMALL.factory)
    save_checkpoint(predictor(), tmp_path / "model", record={}, card="")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["network"] |= {"factory": "os:mkdir", "arguments": {"path": str(tmp_path / "made")}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="nobody said here that it may run"):
        load_checkpoint(tmp_path / "model")
    assert not (tmp_path / "made").exists()


def test_a_file_cannot_ask_for_more_than_it_holds(tmp_path: Path) -> None:
    trust(SMALL.factory)
    save_checkpoint(predictor(), tmp_path / "model", record={}, card="")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["network"]["arguments"] = {"groups": 3, "width": 20_000}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="it asks for 7,2"):
        load_checkpoint(tmp_path / "model")


def test_trust_is_a_list_that_grows() -> None:
    assert not is_trusted("a.b:c")
    trust("a.b:c")
    trust("d:e")
    trust("a.b:c")
    assert factories_file().read_text() == "a.b:c\nd:e\n" and is_trusted("d:e") and not is_trusted("a.b")


@pytest.mark.parametrize(
    "change",
    [
        {"factory": "nocolon"}, {"factory": "a:b:c"}, {"factory": "../x:y"}, {"factory": 7}, {"arguments": {"x": [1]}},
        {"arguments": {str(n): n for n in range(33)}}, {"arguments": [1]}, {"mean": (0.0, 0.0)}, {"std": (1.0, 0.0, 1.0)},
        {"mean": (float("nan"), 0.0, 0.0)}, {"factory": "timm:resnet18", "arguments": {"checkpoint_path": "evil.pth"}},
        {"factory": "timm:resnet18", "arguments": {"pretrained": True}},
    ],
)  # fmt: skip
def test_what_no_network_is(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Adopted(**({"factory": "tests.networks:small"} | change))


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        ("tests.networks:broken", "out of bananas"), ("tests.networks:no_network", "returned Tensor"),
        ("tests.networks:missing", "no attribute"), ("tests.nowhere:small", "No module"),
    ],
)  # fmt: skip
def test_a_factory_that_gives_none(factory: str, why: str) -> None:
    trust(factory)
    with pytest.raises(InputError, match=why):
        Adopted(factory=factory).build(3)


@pytest.mark.parametrize("name", ["timm", "torchvision"])
def test_a_package_of_networks_that_is_not_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtraError, match=r"\[adopt\]"):
        Adopted(factory=f"{name}:resnet18").build(3)


@pytest.mark.parametrize("name", ["timm", "torchvision"])
def test_a_package_of_networks(name: str) -> None:
    pytest.importorskip(name, reason=f"the extra [adopt] is not installed: there is no {name}")
    network = Adopted(factory=f"{name}:mobilenet_v3_small" if name == "torchvision" else "timm:mobilenetv3_small_050").build(5)
    assert network.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 5)
    with pytest.raises(InputError, match="no such"):
        Adopted(factory=f"{name}:no_such_network").build(5)


def test_size_and_network_belong_together() -> None:
    trust(SMALL.factory)
    unfit: dict[str, Any]
    named = SMALL.to_dict()
    for unfit in ({"size": ADOPTED}, {"size": "nano", "network": named}, {"size": ADOPTED, "network": {"factory": "x"}}):
        with pytest.raises(InputError):
            AgePredictor(image_size=32, age_edges=EDGES, **unfit)
    for unfit in ({"random_features": 8}, {"dropout": 0.1}):
        with pytest.raises(InputError, match="its own affair"):
            AgePredictor(size=ADOPTED, image_size=32, age_edges=EDGES, network=named, **unfit)
