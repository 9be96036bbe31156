"""Canaries from a data spec to a bound, and what is refused on the way."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarks.studies.__main__ import main
from benchmarks.studies.canaries import canary_report, plant
from click.testing import CliRunner
from tests.once import once

from unplug.core import CheckpointError, DataError, InputError, OutputError
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.forgetting.unlearning import forget
from unplug.sdk.learning.data import load_dataset, load_split, make_split, read_forget_file
from unplug.sdk.learning.training import Recipe

pytestmark = pytest.mark.study


CPU = torch.device("cpu")
SPEC, PEOPLE = "synth:n=80,subjects=80,seed=2", 24
RECIPE = Recipe(size="nano", image_size=32, epochs=1, batch_size=32, augment="none", dropout=0.0)


def make(root: Path) -> None:
    plant(SPEC, root / "canaries", people=PEOPLE, size=32, seed=0, show=False)
    dataset = load_dataset(f"canaries:{root / 'canaries'}", 32, show=False)
    split = load_split(root / "canaries" / "split.json")
    original = train_age(dataset, split, RECIPE, root / "original", seed=0, device=CPU, show=False)
    ids = read_forget_file(root / "canaries" / "forget.json", dataset)
    forget(original, dataset, ids, "retrain", root / "retrained", seed=1, device=CPU, show=False)
    forget(
        original, dataset, ids[:3], "retrain", root / "forgot-three", seed=1, device=CPU, show=False
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "canaries", make)


def folder_of(place: Path, to: Path) -> Path:
    """A copy of what was planted, to break."""
    return Path(shutil.copytree(place / "canaries", to / "canaries"))


def bound(place: Path, folder: Path, *names: str) -> object:
    models = [load_checkpoint(place / name) for name in names or ("original",)]
    return canary_report(models, folder, device=CPU, show=False)


def test_planted_people_have_wrong_ages_and_a_coin_each(place: Path) -> None:
    folder = place / "canaries"
    assert folder.stat().st_mode & 0o777 == 0o700
    ages = json.loads((folder / "planted.json").read_text())["ages"]
    true, planted = (load_dataset(spec, 32, show=False) for spec in (SPEC, f"canaries:{folder}"))
    assert (
        len(ages) == PEOPLE
        and planted.digest != true.digest
        and (planted.images == true.images).all()
    )
    for before, after in zip(true.samples, planted.samples, strict=True):
        assert before.age is not None and after.age is not None
        assert abs(before.age - after.age) >= 9.99 if before.id in ages else before == after
    split, usual = load_split(folder / "split.json"), make_split(true)
    assert (
        split.test == usual.test
        and split.validation == usual.validation
        and split.data_digest == planted.digest
    )
    mine = set(read_forget_file(folder / "forget.json", planted))
    assert (
        mine == set(ages) & set(split.train)
        and set(usual.train) - set(split.train) == set(ages) - mine
    )
    assert 5 <= len(mine) <= 19
    # The cache has the pictures once.
    assert str(planted.images.filename) == str(true.images.filename)  # type: ignore[attr-defined]


def test_a_bound_of_models_before_and_after(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "canaries.json"
    words = [
        "canaries",
        "bound",
        str(place / "original"),
        str(place / "retrained"),
        "--canaries",
        str(place / "canaries"),
    ]
    done = CliRunner().invoke(main, [*words, "--out", str(out), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    report = json.loads(out.read_text())
    assert f"{PEOPLE} canaries, {report['included']} of them trained on" in done.stdout
    assert [(row["role"], row["method"]) for row in report["models"]] == [
        ("original", None),
        ("retrained", "retrain"),
    ]
    for row in report["models"]:  # one epoch knows nobody by heart
        assert (
            row["bound"]["epsilon"] <= row["bound"]["most"] and row["bound"]["canaries"] == PEOPLE
        )
        assert f"{row['bound']['correct']} of {row['bound']['guesses']}" in done.stdout
    page = out.with_suffix(".html").read_text()
    assert (
        "Planted people" in page
        and "never saw them" in page
        and "Bounded from below" in page
        and "95 % confidence" in page
    )


@pytest.mark.parametrize(
    ("people", "spec", "why"),
    [
        (19, SPEC, "19 of them show next to nothing.*20 people or more"),
        (40, SPEC, "56 people are trained on.*at most half of them, here 28.*Plant 20 to 28"),
        (20, "synth:n=40,subjects=40", "28 people are trained on.*40 people or more"),
    ],
)
def test_too_few_or_too_many_are_refused_with_the_number_needed(
    people: int, spec: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=why):
        plant(spec, tmp_path / "out", people=people, size=32, seed=0, show=False)
    assert not (tmp_path / "out").exists()


def test_data_without_room_for_wrong_ages_are_refused(tmp_path: Path) -> None:
    from PIL import Image

    rows = ["path,age"]
    for number in range(60):
        Image.new("RGB", (32, 32), (4 * number, 0, 0)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{20 + number % 8}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    with pytest.raises(InputError, match=r"the ages go from 20 to 27 years.*25 years or more"):
        plant(
            f"csv:{tmp_path}/labels.csv", tmp_path / "out", people=20, size=32, seed=0, show=False
        )
    (tmp_path / "labels.csv").write_text("\n".join(row.split(",")[0] for row in rows))
    with pytest.raises(DataError, match="it has no ages"):
        plant(
            f"csv:{tmp_path}/labels.csv", tmp_path / "out", people=20, size=32, seed=0, show=False
        )


def test_a_folder_is_planted_once(place: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="planted there already"):
        plant(SPEC, place / "canaries", people=PEOPLE, size=32, seed=1, show=False)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="not empty"):
        plant(SPEC, tmp_path, people=PEOPLE, size=32, seed=1, show=False)
    with pytest.raises(InputError, match="canaries in data that have some already"):
        again = folder_of(place, tmp_path / "again")
        planted = json.loads((again / "planted.json").read_text())
        (again / "planted.json").write_text(
            json.dumps({**planted, "data": f"canaries:{place}/canaries"})
        )
        load_dataset(f"canaries:{again}", 32, show=False)


def test_true_ages_are_refused(place: Path, tmp_path: Path) -> None:
    folder = folder_of(place, tmp_path)
    planted = json.loads((folder / "planted.json").read_text())
    known = {sample.id: sample.age for sample in load_dataset(SPEC, 32, show=False).samples}
    name = min(planted["ages"])
    planted["ages"][name] = known[name]
    (folder / "planted.json").write_text(json.dumps(planted))
    with pytest.raises(
        InputError, match=f"1 of {PEOPLE} have a label within 9.98 years of their true one"
    ):
        bound(place, folder)


def test_what_was_edited_is_refused(place: Path, tmp_path: Path) -> None:
    folder = folder_of(place, tmp_path)
    planted = json.loads((folder / "planted.json").read_text())
    name = min(planted["ages"])
    for ages, why in (
        ({**planted["ages"], name: 131.0}, "outside 0 to 130"),
        ({**planted["ages"], "nobody": 50.0}, "1 of its 25 canary pictures are not in"),
        ({**planted["ages"], name: (planted["ages"][name] + 0.01)}, "its split is of other data"),
    ):
        (folder / "planted.json").write_text(json.dumps({**planted, "ages": ages}))
        with pytest.raises(InputError, match=why):
            bound(place, folder)
    (folder / "planted.json").write_text("{}")
    with pytest.raises(DataError, match="does not follow its schema"):
        bound(place, folder)
    (folder / "planted.json").write_text(json.dumps(planted))
    (folder / "forget.json").unlink()
    with pytest.raises(DataError, match="not finished"):
        bound(place, folder)


def test_models_of_other_coins_or_data_are_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"it forgot 3 of the .* pictures of canaries, and 0 others"
    ):
        bound(place, place / "canaries", "forgot-three")
    original = load_checkpoint(place / "original")
    strange = replaced(original, data_digest="0" * 64)
    with pytest.raises(CheckpointError, match="it was not trained on these canaries"):
        canary_report([strange], place / "canaries", device=CPU, show=False)
    plant(SPEC, tmp_path / "other", people=PEOPLE, size=32, seed=0, show=False)
    split = load_split(tmp_path / "other" / "split.json")
    coins = replace(split, train=split.train[1:])
    (tmp_path / "other" / "split.json").write_text(json.dumps(coins.to_dict()))
    with pytest.raises(InputError, match="by other coins"):
        canary_report([original], tmp_path / "other", device=CPU, show=False)
    with pytest.raises(InputError, match="no model"):
        canary_report([], place / "canaries", device=CPU, show=False)
    with pytest.raises(InputError, match="says no age"):
        canary_report(
            [replace(original, model_type="plugin")], place / "canaries", device=CPU, show=False
        )


def replaced(checkpoint: Checkpoint, **changes: str) -> Checkpoint:
    """The same with another split in its record."""
    return replace(
        checkpoint, record={**checkpoint.record, "split": {**checkpoint.record["split"], **changes}}
    )
