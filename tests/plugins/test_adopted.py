"""A network of others in the place of ours: built from a name, and from no name that nobody trusts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import CheckpointError, InputError, MissingExtraError
from unplug.plugins import (
    ADOPTED,
    Adopted,
    AgePredictor,
    is_trusted,
    load_checkpoint,
    save_checkpoint,
    tried,
    trust,
)
from unplug.plugins.factories import check_trusted, factories_file

EDGES = (0.0, 13.0, 18.0, 100.0)
SMALL = Adopted(
    factory="tests.networks:small",
    arguments={"groups": 3},
    mean=(0.1, 0.2, 0.3),
    std=(0.5, 0.25, 1.0),
)


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("UNPLUG_FACTORIES", raising=False)


def predictor() -> AgePredictor:
    return AgePredictor(
        size=ADOPTED, image_size=32, age_edges=EDGES, network=SMALL.to_dict()
    ).eval()


def test_it_sees_normalized_pictures_and_answers_in_our_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNPLUG_FACTORIES", "other:thing, tests.networks:small?groups=3")
    model = predictor()
    image_BCHW = torch.rand(2, 3, 32, 32)
    seen = (image_BCHW - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)) / torch.tensor(
        [0.5, 0.25, 1.0]
    ).view(3, 1, 1)
    outputs = model(image_BCHW)
    assert model.network is not None
    expected = model.network.inner(seen)
    assert torch.allclose(outputs["age_logits"], expected, atol=1e-6)
    centre = torch.tensor([6.5, 15.5, 59.0])
    assert torch.allclose(
        outputs["expected_age"][:, 0], (expected.softmax(1) * centre).sum(1), atol=1e-4
    )
    with pytest.raises(InputError, match="its trunk is not known"):
        model.pooled(image_BCHW)


def test_it_is_saved_and_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust(SMALL.call)
    model = predictor()
    save_checkpoint(model, tmp_path / "model", record={}, card="Somebody's.")
    again = load_checkpoint(tmp_path / "model", expect="age").model
    assert again.adopted == SMALL
    x = torch.rand(1, 3, 32, 32)
    assert torch.equal(again(x)["age_logits"], model(x)["age_logits"])
    factories_file().unlink()
    with pytest.raises(CheckpointError, match="nobody said here that it may run"):
        load_checkpoint(tmp_path / "model")


def test_trust_is_a_list_that_grows_and_is_its_owners_alone() -> None:
    assert not is_trusted("a.b:c")
    for call in ("a.b:c?x=1", "d:e", "a.b:c?x=1"):
        trust(call)
    assert (
        factories_file().read_text() == "a.b:c?x=1\nd:e\n"
        and is_trusted("d:e")
        and not is_trusted("a.b:c")
    )
    assert (
        factories_file().stat().st_mode & 0o777 == 0o600
        and factories_file().parent.stat().st_mode & 0o777 == 0o700
    )
    with tried("f:g"):
        assert is_trusted("f:g") and not is_trusted("f:g?x=1")
    assert not is_trusted("f:g")


def readable(path: Path) -> None:
    path.chmod(0o644)


def open_folder(path: Path) -> None:
    path.parent.chmod(0o777)


def open_folder_above(path: Path) -> None:
    path.parent.parent.chmod(0o775)


def a_link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def a_linked_folder(path: Path) -> None:
    """The folder is a link within one that others can write in."""
    outside = path.parent.parent.parent / "outside"
    path.parent.parent.rename(outside)
    outside.chmod(0o777)
    path.parent.parent.symlink_to(outside)


@pytest.mark.parametrize(
    "harm", [readable, open_folder, open_folder_above, a_link, a_linked_folder]
)
def test_a_list_that_others_could_have_written_says_nothing(harm: Any) -> None:
    trust(SMALL.call)
    harm(factories_file())
    with pytest.raises(InputError, match="factories: ") as caught:
        check_trusted(SMALL.call)
    with pytest.raises(InputError):
        trust("x:y")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["", ".", "here"])
def test_a_module_is_never_searched_for_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "os_helper_of_a_stranger.py").write_text(
        "raise SystemExit(open('ran', 'w').close())"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path) if place == "here" else place)
    with tried("os_helper_of_a_stranger:make"), pytest.raises(InputError, match="No module named"):
        Adopted(factory="os_helper_of_a_stranger:make").build(3)
    assert not (tmp_path / "ran").exists() and str(tmp_path) in map(os.path.abspath, sys.path)


def test_a_path_says_where_a_file_lies_and_a_bare_name_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agenet.py").write_text(
        "from torch import nn\ndef make(width=3):\n    return nn.Linear(width, width)\n"
    )
    monkeypatch.chdir(tmp_path)
    named = Adopted(factory="./agenet.py:make", arguments={"width": 5})
    assert named.factory == f"{tmp_path}/agenet.py:make" and named.is_code
    assert Adopted.from_dict(named.to_dict()) == named
    with pytest.raises(InputError, match="nobody said here that it may run"):
        named.build(3)
    trust(named.call)
    monkeypatch.chdir("/")
    made = named.build(3)
    assert made.in_features == 5 and type(made).__name__ == "Linear"
    monkeypatch.chdir(tmp_path)
    for bare in ("agenet:make", "agenet.py:make"):
        fix = r"never searched for in the current folder: write \./agenet\.py:make"
        with tried(bare), pytest.raises(InputError, match=fix):
            Adopted(factory=bare).build(3)
    for path, why in (("./none.py:make", "No such file"), ("./agenet.py:no", "no attribute")):
        missing = Adopted(factory=path)
        with tried(missing.call), pytest.raises(InputError, match=f"{why}.*Check the path"):
            missing.build(3)


@pytest.mark.parametrize(
    "change",
    [
        {"factory": "nocolon"},
        {"factory": "./agenet:make"},
        {"factory": "./a\nb.py:make"},
        {"factory": f"./{'x' * 2000}.py:make"},
        {"factory": "a:b:c"},
        {"factory": "../x:y"},
        {"factory": 7},
        {"arguments": {"x": [1]}},
        {"arguments": {str(n): n for n in range(33)}},
        {"arguments": [1]},
        {"mean": (0.0, 0.0)},
        {"std": (1.0, 0.0, 1.0)},
        {"mean": (float("nan"), 0.0, 0.0)},
        {"factory": "timm:resnet18", "arguments": {"checkpoint_path": "evil.pth"}},
        {"factory": "timm:resnet18", "arguments": {"pretrained": True}},
        {"arguments": {"x": "y" * 3000}},
        {"factory": "timm:vit_tiny_patch16_224", "arguments": {"img_size": 16384}},
        {"factory": "torchvision:mobilenet_v2", "arguments": {"width_mult": 1e5}},
        {"factory": "torchvision:mobilenet_v2", "arguments": {"width_mult": float("nan")}},
        {"factory": "timm:resnet18", "arguments": {"global_pool": "9" * 999}},
    ],
)
def test_what_no_network_is(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Adopted(**({"factory": "tests.networks:small"} | change))


@pytest.mark.parametrize(
    "tap",
    [
        {},
        [],
        {"channels": 2049},
        {"channels": 8, "answers": 4},
        {"channels": 8, "size": 2**40},
        {"channels": 8, "layer": 7},
        {"channels": 8, "logits": 1},
        {"channels": 8, "bananas": 1},
    ],
)
def test_what_no_trunk_is(tap: Any) -> None:
    raw = Adopted(factory="tests.networks:small").to_dict()
    assert Adopted.from_dict(raw | {"tap": {"channels": 8}}).to_dict()["tap"]["channels"] == 8
    with pytest.raises(InputError):
        Adopted.from_dict(raw | {"tap": tap})


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        ("tests.networks:broken", "out of bananas"),
        ("tests.networks:no_network", "returned Tensor"),
        ("tests.networks:missing", "no attribute"),
        ("tests.nowhere:small", "No module"),
    ],
)
def test_a_factory_that_gives_none(factory: str, why: str) -> None:
    with tried(factory), pytest.raises(InputError, match=why):
        Adopted(factory=factory).build(3)


@pytest.mark.parametrize("name", ["timm", "torchvision"])
def test_a_package_of_networks_that_is_not_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtraError, match=r"\[adopt\]"):
        Adopted(factory=f"{name}:resnet18").build(3)


@pytest.mark.parametrize("name", ["timm", "torchvision"])
def test_a_package_of_networks(name: str) -> None:
    pytest.importorskip(name, reason=f"the extra [adopt] is not installed: there is no {name}")
    network = Adopted(
        factory=f"{name}:mobilenet_v3_small"
        if name == "torchvision"
        else "timm:mobilenetv3_small_050"
    ).build(5)
    assert network.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 5)
    with pytest.raises(InputError, match="no such"):
        Adopted(factory=f"{name}:no_such_network").build(5)


def test_size_and_network_belong_together() -> None:
    trust(SMALL.call)
    unfit: dict[str, Any]
    named = SMALL.to_dict()
    for unfit in (
        {"size": ADOPTED},
        {"size": "nano", "network": named},
        {"size": ADOPTED, "network": {"factory": "x"}},
    ):
        with pytest.raises(InputError):
            AgePredictor(image_size=32, age_edges=EDGES, **unfit)
    for unfit in ({"random_features": 8}, {"dropout": 0.1}):
        with pytest.raises(InputError, match="its own features"):
            AgePredictor(size=ADOPTED, image_size=32, age_edges=EDGES, network=named, **unfit)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"factory": "os:mkdir", "arguments": {"path": "made"}}, "nobody said here that it may"),
        *(
            ({"arguments": arguments}, "it may run here with other arguments than these alone")
            for arguments in ({"groups": 3, "width": 2}, {"groups": 3.0}, {"groups": "3"}, {})
        ),
        ({"arguments": {"groups": 3, "width": 20_000}}, "it asks for 7,2"),
        (
            {"factory": "tests.networks:buffered", "arguments": {"side": 30_000}},
            "it asks for 900,0",
        ),
    ],
)
def test_a_file_runs_what_was_trusted_alone_and_asks_for_no_more_than_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    trust(SMALL.call)
    save_checkpoint(predictor(), tmp_path / "model", record={}, card="")
    file = tmp_path / "model" / "config.json"
    config = json.loads(file.read_text())
    config["network"] |= change
    if "asks for" in words:
        trust(Adopted.from_dict(config["network"]).call)
    file.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(tmp_path / "model")
    assert not (tmp_path / "made").exists()


def test_a_file_that_is_not_there_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_FACTORIES", f"{tmp_path}/net.py:make")
    with pytest.raises(InputError, match=r"net\.py:make: No such file or directory\. Check"):
        Adopted(factory=f"{tmp_path}/net.py:make").build(3)
