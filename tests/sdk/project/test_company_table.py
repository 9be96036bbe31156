"""A project over a table as a company has it: its own names of columns, dates in the place of ages,
consent, rows that nobody can use.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from unplug.core import InputError, read_json
from unplug.sdk import Project
from unplug.sdk.project import read_settings

from ..cli.calls import refused, run, said
from .conftest import Company

COLUMNS = 'columns = { path = "photo", subject = "user_id", age = "taken - born" }'
MAPPED = "path=photo,subject=user_id,age=taken - born"
BAD = [
    ["", "u1", "2024-05-01", "2000-05-01", "yes"],
    ["TWICE", "u1", "2024-05-01", "2000-05-01", "yes"],
    ["n1.png", "u1", "2024-05-01", "", "yes"],
    ["n2.png", "u1", "", "2000-05-01", "yes"],
    ["n3.png", "u1", "2024-05-01", "0000-00-00", "yes"],
    ["n4.png", "u1", "2024-05-01", "2034-05-01", "yes"],
]


@pytest.fixture
def photos(company: Company) -> Path:
    """The pictures of the model's table in one of a company, with six rows that are bad."""
    table = company.folder / "faces/photos.csv"
    with (company.folder / "faces/labels.csv").open(newline="", encoding="utf-8") as source:
        rows = list(csv.DictReader(source))
    with table.open("w", newline="", encoding="utf-8-sig") as out:
        writer = csv.writer(out, delimiter=";")
        writer.writerow(["photo", "user_id", "taken", "born", "consent"])
        for number, row in enumerate(rows):
            born = f"{2024 - int(float(row['age']))}-05-01"
            agreed = "yes" if number % 3 == 0 else "no"
            writer.writerow([row["path"], row["subject"], "2024-05-01", born, agreed])
        writer.writerows([first.replace("TWICE", rows[0]["path"]), *rest] for first, *rest in BAD)
    return table


def test_init_finds_the_people_and_says_which_rows_are_bad(company: Company, photos: Path) -> None:
    told = said(f"init --model models/age --name face-age --data 'csv:{photos},{MAPPED}'")
    assert (told["pictures"], told["people"], len(told["unusable"])) == (60, 20, 6)
    assert told["trained"] == told["known"] > 30
    assert "6 more cannot be used" in run("init").output
    assert "trained on" in run(f"request add {company.trained} --id T-1").output


def test_columns_stand_in_the_file(company: Company, photos: Path) -> None:
    text = (
        f'[model]\nname = "a"\noriginal = "models/age"\ndata = "csv:faces/photos.csv"\n{COLUMNS}\n'
    )
    company.toml(text)
    assert read_settings(company.folder).model.data == f"csv:{photos},{MAPPED}"
    assert said("init")["people"] == 20
    assert Project.open().find(company.trained).trained > 0
    company.toml(text.replace("user_id", "userid"))
    line = refused("init")
    assert "no column 'userid'" in line and "'born', 'consent'" in line and "'user_id'?" in line
    company.toml(text.replace("csv:faces/photos.csv", "synth:n=4"))
    with pytest.raises(InputError, match=r"columns: they are of tables \(csv:FILE\) alone"):
        read_settings(company.folder)


def test_a_model_of_bad_rows_outlives_rows_that_go(company: Company, photos: Path) -> None:
    """Trained with six bad rows, and asked to forget when other rows and the six are cleaned up."""
    spec = f"'csv:faces/photos.csv,{MAPPED}'"
    tiny = "--size nano --pixels 32 --epochs 1"
    run(f"init --model m --data {spec}")
    assert "6 of 66 samples cannot be used" in refused(f"train age --data {spec} {tiny} --out m")
    run(f"train age --data {spec} {tiny} --on-bad skip --out m")
    record = read_json(company.folder / "m/unplug.json")
    assert record["data"]["unusable"] == 6 and len(record["split"]["rows"]) == 60
    Path("f.txt").write_text(f"subject:{company.trained}\n")
    forget = f"forget m --data {spec} --forget f.txt --method neggrad --budget 1"
    assert "without 6 samples as training did" in run(f"{forget} --out u1").stderr
    lines = photos.read_text(encoding="utf-8-sig").splitlines()
    theirs = {name for part in ("train", "test") for name in record["split"][part][-3:]}
    left = [line for line in lines[:61] if line.partition(";")[0] not in theirs]
    photos.write_text("\n".join(left) + "\n", encoding="utf-8")
    told = run(f"{forget} --out u2").stderr
    assert "6 rows gone since the training" in told
    done = read_json(company.folder / "u2/unplug.json")
    assert done["data"]["digest"] == record["data"]["digest"] and done["data"]["samples"] == 54
    assert done["split"] == read_json(company.folder / "u1/unplug.json")["split"]
    photos.write_text("\n".join(left).replace("2024-05-01;", "2025-05-01;") + "\n")
    assert "rows changed since, in picture, age, label or person" in refused(f"{forget} --out u3")


def test_an_adopted_model_keeps_who_trained_it(company: Company, photos: Path) -> None:
    torch.manual_seed(0)
    Path("agenet.py").write_text(
        "from torch import nn\n"
        "def make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))\n"
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))
    save_file(network.state_dict(), "mine.safetensors")
    spec = f"'csv:faces/photos.csv,{MAPPED}'"
    run(f"data split {spec} --pixels 32 --on-bad skip --out split.json")
    split = read_json(company.folder / "split.json")
    lines = photos.read_text(encoding="utf-8-sig").splitlines()
    gone = {split["train"][0], split["test"][0]}
    left = [line for line in lines[:61] if line.partition(";")[0] not in gone]
    photos.write_text("\n".join(left) + "\n", encoding="utf-8")
    adopt = (
        f"adopt ./agenet.py:make --weights mine.safetensors --split split.json --data {spec} "
        "--edges 0,13,18,30,100 --pixels 32 --epochs 1 --out mine"
    )
    assert "2 rows gone since the training" in run(adopt).stderr
    record = read_json(company.folder / "mine/unplug.json")
    assert record["split"] == split and record["metrics"]["train"]["n"] == len(split["train"]) - 1
    photos.write_text("\n".join(left).replace("2024-05-01;", "2025-05-01;") + "\n")
    line = refused(adopt.replace("--out mine", "--out other"))
    assert "rows changed since" in line and "again" not in line
