"""`unplug request`, `status`, and what other commands take from a project."""

from __future__ import annotations

import json
from datetime import date, timedelta

import click
import pytest

from unplug.core import DataError, InputError
from unplug.plugins import RECORD
from unplug.sdk import Project
from unplug.sdk.cli import main
from unplug.sdk.cli.defaults import TAKES, project_defaults
from unplug.sdk.learning.data import load_dataset

from ..cli.calls import refused, run, said
from .conftest import INIT, SIZE, SPEC, Company


def test_a_picture_that_cannot_be_read_is_told_with_its_remedy(company: Company) -> None:
    run(INIT)
    samples = load_dataset(SPEC, SIZE, show=False).samples
    broken = next(item for item in samples if item.subject == company.trained)
    (company.folder / "faces" / broken.id).write_bytes(b"no picture")
    assert f"{broken.id}: it is a text" in (run(f"request add {company.trained} --id T-1").output)
    with pytest.raises(DataError, match=r'write `on-bad = "skip"` in unplug\.toml'):
        Project.open().plan()


def test_a_person_is_found_and_told_how_the_model_knows_them(company: Company) -> None:
    run(INIT)
    told = said(f"request add {company.trained} --id T-1")
    assert told["person"] == {
        "name": f"subject:{company.trained}",
        "pictures": 3,
        "trained": 3,
        "held_out": 0,
        "forgotten": 0,
        "in_trunk": 0,
        "unusable": None,
    }
    assert told["new"] and not said(f"request add subject:{company.trained} --id T-1")["new"]
    made = Project.open().request(company.held_out, id="T-2")
    assert (made.person.trained, made.person.held_out) == (0, 3)
    assert "3 held out" in made.person.shown
    assert made.way is not None and "`unplug ledger record answered T-2`" in made.way
    assert [row["request"] for row in said("request list")] == ["T-1", "T-2"]
    assert said("request show T-2")["state"] == "open"
    run("request withdraw T-2 --reason mistyped")
    found = said("status")
    assert [row["request"] for row in found["open"]] == ["T-1"] and found["begun"] is None


def test_who_is_not_in_the_data(company: Company) -> None:
    run(INIT)
    near = company.trained[:-1]
    line = refused(f"request add {near}x")
    assert "holds nobody of that name. Did you mean person-" in line
    with pytest.raises(DataError, match="differs only in capital letters"):
        Project.open().request(f"{company.trained.upper()} '")
    assert said("request list") == []


def test_the_people_of_the_trunk_cannot_be_forgotten(company: Company) -> None:
    trunk = company.folder / "consented"
    trunk.mkdir()
    (trunk / "labels.csv").write_text(f"path,age,subject\na.png,3,c1\nb.png,4,{company.trained}\n")
    path = company.folder / "models/age" / RECORD
    record = json.loads(path.read_text())
    record["design"] = {
        "name": "closed-form",
        "trunk": {"data": {"spec": "csv:consented/labels.csv"}},
    }
    path.write_text(json.dumps(record))
    run(INIT)
    with pytest.raises(InputError, match=r"the trunk was trained on them.*`unplug ledger add`"):
        Project.open().request("c1")
    made = Project.open().request(company.trained)
    assert made.person.in_trunk == 1 and "Careful: 1 picture of somebody" in made.person.shown
    (trunk / "labels.csv").unlink()
    with pytest.raises(DataError, match="holds nobody of that name"):
        Project.open().request("c1")


def test_what_is_late_is_an_exit_of_one(company: Company) -> None:
    run(INIT)
    received = date.today() - timedelta(days=70)
    run(f"request add {company.trained} --id T-1 --received {received}")
    told = run("status", 1).output
    assert "open     T-1: due" in told and "days late" in told


def test_nothing_to_answer(company: Company) -> None:
    run(INIT)
    assert "nothing to answer: no request is open" in refused("answer --yes")
    assert "unknown" in refused("ledger add --id T-9 --person subject:nobody"), (
        "by the project's data"
    )
    project = Project.open()
    with project.surroundings():
        project.ledger().add(["subject:nobody"], id="T-9")
    assert "nothing to answer: T-9 stays open" in refused("answer --yes")
    run(f"request add {company.held_out} --id T-10")
    assert "T-10 stays open: no weights come from them" in refused("answer --yes")


def test_an_answer_without_anybody_to_ask(company: Company) -> None:
    run(INIT)
    run(f"request add {company.trained} --id T-1")
    assert "no attack can decide that for an ordinary model" in refused("answer --yes")
    company.toml(company.text.replace("[release]", '[release]\nmethod = "retrain"'))
    assert "there is no terminal to ask on. Add --yes" in refused("answer")
    assert Project.open().state().release is None


def test_every_default_is_a_parameter_of_its_command(company: Company) -> None:
    run(INIT)
    for words, names in TAKES.items():
        command: click.Command = main
        for word in words.split():
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), word)
            assert found is not None, words
            command = found
        known = {item.name for item in command.get_params(click.Context(command))}
        assert {*names} <= known, words
        with project_defaults(words.split()[0]) as defaults:
            assert defaults is not None


def test_commands_take_data_and_model_from_the_project(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(INIT)
    run(f"ledger add --id T-1 --person subject:{company.trained}")
    assert "names 1 of csv:" in run("ledger queue --out forget.json").output
    assert said("ledger touch")[0]["samples"] == 3
    (company.folder / "sub").mkdir()
    monkeypatch.chdir(company.folder / "sub")
    assert said("ledger touch")[0]["model"] == str(company.folder / "models/age")
    line = refused("ledger queue --data csv:none.csv --out forget.json")
    assert "none.csv" in line, "an option goes before the file"
    assert "out" in refused("forget --forget x")
