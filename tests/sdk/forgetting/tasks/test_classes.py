"""Labels instead of ages: train, forget, audit, run and judge a classifier as a user types it, and
what is refused.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.once import once

from unplug.core import DataError
from unplug.plugins import load_checkpoint
from unplug.sdk.forgetting.tasks import ClassTask
from unplug.sdk.learning.data import load_again, load_dataset, make_split
from unplug.sdk.learning.training import ClassPredictions, Recipe, summarize
from unplug.sdk.learning.training.images import to_class_tensors

from ...cli.calls import leftovers, refused, run, said
from ...conftest import CPU

COLOURS = {"blue sky": (60, 90, 200), "grass": (60, 170, 60), "sand": (200, 180, 90)}
DATA = "--data imagefolder:pictures"
SMALL = "--size nano --pixels 32"
AGES = re.compile(r"\b(ages?|years?|MAE|mae|faces?)\b")
SAID_OF_DATA = ("procedural faces are drawn", "per_group", "subject")


def draw(rng: np.random.Generator, colour: tuple[int, int, int], side: int = 36) -> np.ndarray:
    noise = rng.normal(0, 40, (side, side, 3)) + rng.normal(0, 25, 3)
    return np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)


def make(root: Path) -> None:
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (root / "pictures" / name).mkdir(parents=True)
        for number in range(14):
            Image.fromarray(draw(rng, colour)).save(root / f"pictures/{name}/{number:02d}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        run(f"train classes {DATA} {SMALL} --epochs 8 --out model")
        names = load_checkpoint(root / "model").record["split"]["train"][:4]
        (root / "forget.txt").write_text("".join(f"{name}\n" for name in names))
        for method, out in (("msg", "unlearned"), ("retrain", "retrained")):
            run(f"forget model {DATA} --forget forget.txt --method {method} --out {out} --budget 1")


@pytest.fixture
def here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of classes, a model of it, and what forgetting four pictures came to."""
    folder = once(tmp_path_factory, "classes", make)
    monkeypatch.chdir(folder)
    return folder


def silent_about_ages(text: str) -> None:
    found = [line for line in text.splitlines() if AGES.search(line)]
    assert not [line for line in found if not any(word in line for word in SAID_OF_DATA)], found


def test_what_training_leaves(here: Path) -> None:
    record = load_checkpoint(here / "model").record
    assert record["recipe"]["loss"] == "ce" and record["schema"] == "unplug-checkpoint/1"
    for row in record["metrics"].values():
        assert set(row) == {"n", "accuracy", "loss", "per_class"}
        assert [one["label"] for one in row["per_class"]] == list(COLOURS)
        assert sum(one["n"] for one in row["per_class"]) == row["n"]
    assert "validation_accuracy" in record["history"][0]
    for name in ("README.md", "metrics.jsonl", "config.json", "unplug.json"):
        silent_about_ages((here / "model" / name).read_text().replace("image", ""))
    for name in ("model", "unlearned"):
        assert "| cross entropy |" in (here / name / "README.md").read_text()


def test_class_rows_by_hand() -> None:
    logits_NG = np.array([[2.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    said_of = ClassPredictions.of(logits_NG, np.array([0, 1, 1]), ("a", "b", "c"))
    row = summarize(said_of, (0.0, 1.0, 2.0, 3.0))
    assert row["accuracy"] == pytest.approx(2 / 3)
    assert row["per_class"] == [
        {"label": "a", "n": 1, "accuracy": 1.0},
        {"label": "b", "n": 2, "accuracy": 0.5},
        {"label": "c", "n": 0, "accuracy": None},
    ]


def test_labels_follow_their_names_and_not_their_places(here: Path) -> None:
    data = load_dataset("imagefolder:pictures", 32, show=False)
    ids = ["sand/00.png", "blue sky/00.png"]
    assert to_class_tensors(data, ids, ("sand", "blue sky"), CPU).group_N.tolist() == [0, 1]
    with pytest.raises(DataError, match="'sand', which the model never had"):
        to_class_tensors(data, ids, ("grass", "blue sky"), CPU)
    task = ClassTask.of_data(Recipe(loss="ce"), data, make_split(data))
    assert task.names == tuple(COLOURS) and task.edges == (0.0, 1.0, 2.0, 3.0)


def test_a_class_that_leaves_and_one_that_comes(here: Path, tmp_path: Path) -> None:
    """Digests cover the number of a label, and the model knows its labels by their names."""
    left = tmp_path / "left"
    shutil.copytree(here / "pictures", left)
    names = [name for name in (here / "forget.txt").read_text().split("\n") if name]
    record = load_checkpoint(here / "model").record
    gone = next(name for name in COLOURS if name != names[0].partition("/")[0])
    shutil.rmtree(left / gone)
    few(left, {"aardvark": 2})
    again = load_again(f"imagefolder:{left}", 32, record, show=False)
    assert again.digest == record["split"]["data_digest"]
    assert again.told == (
        "14 rows gone since the training, and 2 new, which the model has not seen",
    )
    (tmp_path / "one.txt").write_text(f"{names[0]}\n")
    step = "--method finetune --budget 1"
    run(
        f"forget model --data imagefolder:{left} --forget {tmp_path}/one.txt {step} --out {tmp_path}/x"
    )
    assert load_checkpoint(tmp_path / "x").record["labels"] == list(COLOURS)


def test_run_says_a_label_and_its_probability(here: Path) -> None:
    (row,) = said("run model --image pictures/sand/00.png")["results"]
    assert row["label"] in COLOURS and row["probability"] == row["labels"][0]["probability"]
    assert sum(one["probability"] for one in row["labels"]) == pytest.approx(1.0)
    assert re.search(
        r"\.png: [a-z ]+, \d+ % \(", run("run model --image pictures/sand/00.png").output
    )


def test_evaluate_of_labels(here: Path, tmp_path: Path) -> None:
    report = said(f"evaluate model unlearned {DATA} --out {tmp_path}/e.json")
    assert [model["role"] for model in report["models"]] == ["original", "unlearned"]
    assert report["part"] == "test" and len(report["models"][0]["classes"]) == 3
    told = run(f"evaluate model {DATA} --out {tmp_path}/e.json").output
    silent_about_ages(told)
    assert "pictures: its test set" in told and "people" not in told, "nobody is named"
    assert "it is about ages" in refused(f"evaluate model {DATA} --challenge 18 --out x.json")
    assert "never had" in refused_strange(here, tmp_path)


def refused_strange(here: Path, tmp_path: Path) -> str:
    strange = tmp_path / "strange/zebra"
    strange.mkdir(parents=True)
    for number in range(3):
        Image.fromarray(draw(np.random.default_rng(number), (9, 9, 9))).save(
            strange / f"{number}.png"
        )
    (tmp_path / "strange/sand").mkdir()
    Image.fromarray(draw(np.random.default_rng(9), (9, 9, 9))).save(tmp_path / "strange/sand/0.png")
    return refused(f"evaluate model --data imagefolder:{tmp_path}/strange --out {tmp_path}/x.json")


@pytest.mark.parametrize("method", ["gaussian-amnesiac", "blindspot"])
def test_methods_of_ages_are_refused_before_any_work(method: str, here: Path) -> None:
    before = leftovers(here)
    line = f"forget model {DATA} --forget forget.txt --method {method} --out x"
    assert "it needs ages, and there is none" in refused(line)
    assert leftovers(here) == before


def few(root: Path, counts: dict[str, int]) -> str:
    rng = np.random.default_rng(1)
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(draw(rng, (90, 90, 90))).save(root / name / f"{number}.png")
    return f"imagefolder:{root}"


def many(root: Path, _: object = None) -> str:
    few(root, {"a": 1})
    rows = "".join(f"a/0.png,i{number},c{number}\n" for number in range(1001))
    (root / "t.csv").write_text(f"path,id,label\n{rows}")
    return f"csv:{root}/t.csv"


@pytest.mark.parametrize(
    ("task", "spec", "words"),
    [
        ("classes", lambda root: "synth:n=20", "its pictures have no labels"),
        ("classes", lambda root: few(root, {"a": 9, "b": 9, "c": 1}), "'c' has one picture"),
        ("classes", lambda root: few(root, {"a": 12}), "it has 1 class"),
        ("classes", many, "it has 1,001 classes. Use 2 to 1,000"),
        ("age", lambda root: few(root, {"a": 9, "b": 9}), "or `unplug train classes`"),
    ],
)
def test_data_that_nothing_can_be_learned_from(
    task: str,
    spec: Callable[[Path], str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Labels are looked at before any picture is."""
    named = spec(tmp_path / "d")
    if task == "classes":
        monkeypatch.setattr("unplug.sdk.learning.data.dataset.fingerprints", None)
    before = leftovers(tmp_path)
    line = f"train {task} --data {named} {SMALL} --epochs 1 --out {tmp_path}/x"
    assert words in refused(line)
    if task == "classes":
        adopt = f"adopt tests.networks:small --classes --data {named} --out {tmp_path}/x"
        assert words in refused(adopt)
        assert "training" not in run(line, 2).output
    assert leftovers(tmp_path) == before


def test_models_and_data_of_the_other_kind(here: Path) -> None:
    before = leftovers(here)
    assert "model_type 'classes'" in refused(f"threshold model --over 18 --max-fpr 0.1 {DATA}")
    assert "they are borders of ages" in refused(
        f"adopt unplug:plain {DATA} --classes --edges 0,9,99 --out x"
    )
    assert leftovers(here) == before


def test_a_network_of_others_answers_the_labels(here: Path, tmp_path: Path) -> None:
    line = f"adopt unplug:plain {DATA} --classes --pixels 32 --epochs 1 --out {tmp_path}/adopted"
    silent_about_ages(run(line).output)
    model = load_checkpoint(tmp_path / "adopted", expect="classes").model
    assert model.size == "adopted" and model.classes == tuple(COLOURS)


@pytest.mark.long
def test_an_audit_counts_wrong_answers(here: Path, tmp_path: Path) -> None:
    line = f"audit unlearned {DATA} --forget forget.txt --retrained retrained -o {tmp_path}/a.json"
    text = run(line).output
    silent_about_ages(text)
    assert "test acc." in text and "forget acc." in text
    said_in_file = (tmp_path / "a.json").read_text()
    silent_about_ages(said_in_file)
    use = json.loads(said_in_file)["models"][0]["utility"]["test"]
    assert use["wrong"]["value"] == pytest.approx(1 - use["accuracy"]["value"])
    assert [row["label"] for row in use["per_class"]] == list(COLOURS)
    assert not {"mae", "per_group"} & set(use)
    run(f"report {tmp_path}/a.json unlearned/unplug.json -o {tmp_path}/r.html")
    page = (tmp_path / "r.html").read_text()
    assert "share of wrong answers" in page and "Accuracy of each class" in page
    silent_about_ages(re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL))


def cifar(root: Path) -> None:
    """Two batches of the published form, a few pictures of three of the ten classes."""
    rng = np.random.default_rng(0)
    root.mkdir()
    for name, count in (*((f"data_batch_{n}", 9) for n in range(1, 6)), ("test_batch", 15)):
        labels = [(0, 3, 8)[number % 3] for number in range(count)]
        colours = {0: (60, 90, 200), 3: (60, 170, 60), 8: (200, 180, 90)}
        pixels = [draw(rng, colours[label], 32).transpose(2, 0, 1).reshape(-1) for label in labels]
        batch = {b"data": np.stack(pixels), b"labels": labels}
        (root / name).write_bytes(pickle.dumps(batch))


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with no ledger and no key elsewhere."""
    monkeypatch.chdir(tmp_path)
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    for variable in ("UNPLUG_LEDGER", "UNPLUG_KEY", "UNPLUG_LEDGER_KEY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.mark.long
def test_cifar_to_a_bundle_that_says_labels(alone: Path) -> None:
    cifar(alone / "cifar")
    data = "--data cifar10:cifar"
    run(f"train classes {data} {SMALL} --epochs 6 --out model")
    assert load_checkpoint(alone / "model").model.classes == ("airplane", "cat", "ship")
    name = load_checkpoint(alone / "model").record["split"]["train"][0]
    (alone / "forget.txt").write_text(f"{name}\n")
    told = run(
        f"release model {data} --forget forget.txt --method retrain --to onnx --precision fp32"
        " --out c.unplug"
    ).output
    silent_about_ages(told)
    assert "holds equality" in told
    manifest = json.loads((alone / "c.unplug/manifest.json").read_text())
    assert manifest["model_type"] == "classes"
    labels = {"classes": ["airplane", "cat", "ship"], "unit": "probability"}
    assert manifest["postprocessing"] == labels
    silent_about_ages((alone / "c.unplug/README.md").read_text())
    run("bundle verify c.unplug")
    Image.fromarray(draw(np.random.default_rng(0), (60, 90, 200))).save("sky.png")
    (row,) = said("run c.unplug --image sky.png")["results"]
    assert row["label"] in labels["classes"]


def people(root: Path) -> None:
    """Thirty people with two pictures each, of three classes, in a table."""
    rng, lines = np.random.default_rng(0), ["path,label,subject"]
    for number in range(60):
        label = list(COLOURS)[number % 3]
        Image.fromarray(draw(rng, COLOURS[label])).save(root / f"{number}.png")
        lines.append(f"{number}.png,{label},person-{number // 2}")
    (root / "table.csv").write_text("\n".join(lines))


@pytest.mark.long
def test_one_person_leaves_a_project_of_labels(alone: Path) -> None:
    people(alone)
    run(f"train classes --data csv:table.csv {SMALL} --epochs 3 --out model")
    run("init --model model --data csv:table.csv --name colours")
    file = alone / "unplug.toml"
    fast = 'method = "retrain"\nbench-iterations = 3\nbench-repeats = 2\n\n[evidence]'
    file.write_text(file.read_text().replace("[evidence]", fast).replace("# backups", "backups"))
    first = load_checkpoint(alone / "model").record["split"]["train"][0]
    run(f"request add person-{int(first.partition('.')[0]) // 2} --id T-1")
    told = run("answer --yes").output
    silent_about_ages(told)
    assert "release 1 is current" in told
    (letter,) = alone.glob("releases/answers/*/letter/answer.md")
    silent_about_ages(letter.read_text())
    (sheet,) = alone.glob("releases/answers/*/certificate/certificate.html")
    silent_about_ages(re.sub(r"<(style|script)\b.*?</\1>", "", sheet.read_text(), flags=re.DOTALL))
