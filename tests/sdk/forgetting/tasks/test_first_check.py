"""The first check of an adopted network: what no step could work with is met before any data are
read, and said in one line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from tests import unusual_networks

from unplug.core import InputError
from unplug.plugins import Adopted, load_checkpoint
from unplug.sdk.cli import main
from unplug.sdk.forgetting.tasks import check_network, train_age
from unplug.sdk.forgetting.tasks.first_check import FirstCheck
from unplug.sdk.forgetting.unlearning import forget
from unplug.sdk.forgetting.unlearning.anatomy import classifier, convolutions
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import Recipe
from unplug.sdk.releasing.evidence import ReleaseEvidence
from unplug.sdk.releasing.gates_forgetting import Equality
from unplug.trust.bundle import ANEW

from ...conftest import CPU

CASES = Path(__file__).resolve().parents[3] / "cases"
DATA = "synth:n=60,subjects=20"
BORDERS = "0,6,13,16,18,21,25,30,40,50,60,70,80,100"
EDGES = tuple(map(float, BORDERS.split(",")))
FACTORIES = ",".join(f"tests.unusual_networks:{name}" for name in vars(unusual_networks))


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_FACTORIES", FACTORIES)
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "config" / "key"))
    monkeypatch.chdir(tmp_path)


def case(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "net", raising=False)
    monkeypatch.syspath_prepend(str(CASES / name))


def checked(name: str, size: int = 32, **more: Any) -> FirstCheck:
    return check_network(
        Adopted(factory=f"tests.unusual_networks:{name}"), size, {"age_edges": EDGES}, **more
    )


def call(words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize("name", ["Usual", "InPlace", "ZeroHead", "Shared"])
def test_of_these_there_is_nothing_to_say(name: str) -> None:
    network = checked(name)
    assert network.notes == () and network.model.adopted is not None
    assert not network.model.adopted.contiguous


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Sigmoid", "each answer is held between 0 and 1 (a sigmoid?)"),
        ("Tanh", "each answer is held between -1 and 1 (a tanh?)"),
        ("SoftmaxLater", "it answers with probabilities (they add up to 1 and are never below 0)"),
        ("SoftmaxFirst", "it answers with probabilities while it trains"),
        (
            "BatchStatistics",
            "in a batch with others, also in evaluation; suspect is its layer norm (BatchNorm2d)",
        ),
        ("MinusOthers", "suspect is what its forward does in front of its layer head (Linear)"),
        (
            "Dropping",
            "the same pictures twice have two answers, also in evaluation; suspect is what its "
            "forward does in front",
        ),
        ("Remembers", "asking it changes seen, also in evaluation"),
        ("Keeps", "it keeps what it computed of pictures (inner.kept)"),
        ("NaNInTraining", "what it answers while it trains is not a number"),
        ("Detached", "nothing in it learns"),
        ("Lazy", "head.weight has no size before its first picture"),
        ("Later", "it makes head.weight when it answers first"),
        ("OneSize", "Give `image_size=48`, which it takes"),
        ("Squeezed", "it answers one picture with [13] instead of [1, 13]"),
        ("FourAtATime", "with 1 picture at a time it raised RuntimeError"),
        (
            "Losses",
            "it answers a picture while it trains with dict of loss where the borders make 13 "
            "groups",
        ),
        ("Wide", "it answers a picture while it trains with [26] where"),
        ("Reads", "Tensor.item() cannot be called on meta tensors"),
        ("Half", "its parameter a.weight is torch.float16"),
    ],
)
def test_what_no_step_could_work_with(name: str, why: str) -> None:
    with pytest.raises(InputError, match=f"network tests.unusual_networks:{name}: ") as refused:
        checked(name)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("name", "notes"),
    [
        ("LogSoftmax", ["its answers are logarithms of probabilities, which are logits like any"]),
        ("Frozen", ["2 parameters of it are frozen (first: a.weight) and stay as they are"]),
        ("Deviation", ["of a picture of one colour its answer is not a number"]),
        *[
            (
                name,
                [
                    f"it answers more than logits ({kind}): the logits are taken",
                    "get no gradient (first: aux.weight)",
                ],
            )
            for name, kind in (
                ("Auxiliary", "tuple"),
                ("AuxiliaryNamed", "Named"),
                ("AuxiliaryMapping", "OrderedDict"),
                ("AuxiliaryOutput", "Output"),
            )
        ],
        (
            "ViewsBackwards",
            ["it does not take channels-last (RuntimeError: view size is not compatible"],
        ),
        ("Strided", ["it does not take channels-last (its answers or gradients are others there)"]),
    ],
)
def test_what_its_owner_is_told(name: str, notes: list[str]) -> None:
    network = checked(name)
    assert len(network.notes) == len(notes)
    assert all(part in note for part, note in zip(notes, network.notes, strict=True)), network.notes


def test_a_factory_that_ends_the_program_or_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="it raised SystemExit: 3"):
        checked("ends")
    assert checked("talks").notes == ()
    assert capsys.readouterr().out == ""


def test_weights_that_were_trained_are_asked() -> None:
    network = unusual_networks.Usual()
    with torch.no_grad():
        network.head.bias.fill_(3.0)
    save_file(network.state_dict(), "mine.safetensors")
    model = checked("Usual", weights=Path("mine.safetensors")).model
    assert model.network is not None and torch.equal(
        model.network.inner.head.bias, network.head.bias
    )
    with torch.no_grad():
        network.b.weight.fill_(1e38)
    save_file(network.state_dict(), "broken.safetensors")
    with pytest.raises(InputError, match="is not a number"):
        checked("Usual", weights=Path("broken.safetensors"))


def test_the_case_of_a_view_trains_and_forgets_as_in_plain_pytorch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case("adopt-view-flatten", monkeypatch)
    steps = {"o": f"adopt net:Net --data {DATA} --pixels 48 --epochs 3 --out o"}
    steps["u"] = f"forget o --data {DATA} --forget names.txt --method msg --budget 1 --out u"
    Path("names.txt").write_text(make_split(load_dataset(DATA, 48, show=False)).retain[0])
    for name, words in steps.items():
        assert "note: it computes in contiguous memory" in call(words)
        model = load_checkpoint(name).model.to(memory_format=torch.channels_last)
        assert model.adopted.contiguous
        assert all(value.is_contiguous() for value in model.network.inner.parameters())


def test_the_case_of_probabilities_is_refused_before_data_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case("adopt-probabilities", monkeypatch)
    told = call("adopt net:Net --data csv:nowhere.csv --pixels 32 --out o", code=2)
    assert "it answers with probabilities (they add up to 1 and are never below 0)" in told
    assert told.count("\n") == 1 and not Path("o").exists()


@pytest.mark.parametrize("weights", [True, False])
def test_the_case_of_auxiliary_answers(weights: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case("adopt-aux-outputs", monkeypatch)
    from net import Aux

    words = f"adopt net:Aux --data {DATA} --pixels 32 --epochs 3 --out o"
    if weights:
        save_file(Aux().state_dict(), "aux.safetensors")
        call(f"data split {DATA} --pixels 32 --out split.json")
        words += f" --weights aux.safetensors --split split.json --edges {BORDERS}"
    assert "note: while it trains it answers more than logits (tuple)" in call(words)
    assert ("weights_sha256" in load_checkpoint("o").record["adopted"]) is weights
    told = call(words, code=2)
    assert "o: something is there already" in told and told.count("\n") == 1
    Path("names.txt").write_text(make_split(load_dataset(DATA, 32, show=False)).retain[0])
    for method in ("retrain", "msg"):
        told = call(
            f"forget o --data {DATA} --forget names.txt --method {method} --budget 1 --out {method}"
        )
        assert "auxiliary losses are" in " ".join(told.split())
    same = load_checkpoint("retrain")
    (gate,) = Equality().judge(ReleaseEvidence(results={"unlearned": same, "retrained": same}))
    assert gate.passed and (ANEW in gate.detail) is weights


def trained(name: str, out: Path) -> Any:
    data = load_dataset(DATA, 32, show=False)
    recipe = Recipe(size="adopted", dropout=0.0, image_size=32, epochs=3)
    adopted = Adopted(factory=f"tests.unusual_networks:{name}").to_dict()
    split = make_split(data)
    made = train_age(data, split, recipe, out, seed=0, device=CPU, show=False, adopted=adopted)

    def without(count: int, method: str, out: Path) -> Any:
        gone = split.retain[:count]
        return forget(made, data, gone, method, out, budget=5.0, device=CPU, show=False)

    return made, without


def test_python_meets_it_as_well(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a sigmoid"):
        trained("Sigmoid", tmp_path / "no")
    assert not (tmp_path / "no").exists()
    made, _ = trained("Auxiliary", tmp_path / "yes")
    assert "auxiliary losses are left out" in made.record["adopted"]["notes"][0]


@pytest.fixture(scope="module")
def auxiliary(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNPLUG_FACTORIES", FACTORIES)
        return trained("Auxiliary", tmp_path_factory.mktemp("auxiliary") / "o")


@pytest.mark.parametrize("method", ["acu", "laf", "distil-to-delete", "msg", "cf-k"])
def test_methods_address_the_head_that_answers(auxiliary: Any, method: str, tmp_path: Path) -> None:
    made, without = auxiliary
    assert classifier(made.model) is made.model.network.inner.head
    before, after = (
        model.model.network.inner.state_dict()
        for model in (made, without(5, method, tmp_path / "u"))
    )
    moved = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert moved and not {"aux.weight", "aux.bias"} & moved


def test_layers_that_share_a_weight_are_saved_and_forgotten_with(tmp_path: Path) -> None:
    made, without = trained("Shared", tmp_path / "o")
    assert made.model.network.inner.b.weight is made.model.network.inner.c.weight
    assert len(list(convolutions(made.model))) == 3
    without(5, "msg", tmp_path / "u")


def test_a_batch_norm_that_needs_two_pictures(tmp_path: Path) -> None:
    _, without = trained("NormBehind", tmp_path / "o")
    with pytest.raises(InputError, match="cannot train on one picture alone"):
        without(1, "neggrad", tmp_path / "u")
    without(1, "msg", tmp_path / "v")
