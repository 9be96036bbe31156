"""A project over a table as a company has it: its own names of columns, dates in the place of ages,
consent, rows that nobody can use.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from unplug.core import InputError
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
