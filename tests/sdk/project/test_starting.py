"""`unplug init`, `config` and the schema of unplug.toml."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from unplug.core import InputError
from unplug.sdk import Project
from unplug.sdk.project import find_project, read_settings

from ..cli.calls import leftovers, refused, run, said
from .conftest import INIT, Company

SMALL = '[model]\nname = "a"\noriginal = "m"\ndata = "synth:n=4"\n'


def test_it_writes_a_file_keys_and_a_ledger_and_says_what_it_found(company: Company) -> None:
    told = said(INIT)
    assert (told["pictures"], told["people"], told["design"]) == (60, 20, None)
    assert told["trained"] == told["known"] > 30, "all that the model remembers are in the data"
    assert leftovers(company.folder / "keys") == [
        *("ledger.key", "operator.key", "release.key", "release.key.pub")
    ]
    modes = {
        name: stat.S_IMODE((company.folder / "keys" / name).stat().st_mode)
        for name in ("ledger.key", "operator.key", "release.key")
    }
    assert set(modes.values()) == {0o600}
    settings = read_settings(company.folder)
    assert settings.model.original == str(company.folder / "models/age")
    assert settings.model.data == f"csv:{company.folder}/faces/labels.csv"
    assert settings.release.targets == ("onnx",) and settings.release.precisions == ("fp32",)
    before = company.text
    again = said("init")
    assert again["made"] == [] and company.text == before
    entries = json.loads((company.folder / ".unplug/state.json").read_text())["entries"]
    assert entries == 2, "the ledger's first entry and the model that the project begins with"


def test_a_model_that_is_still_to_be_trained(company: Company) -> None:
    (company.folder / "models/age").rename(company.folder / "models/later")
    assert "unplug train age --out" in run(INIT).output
    assert "has no model yet" in run("status", 1).output
    (company.folder / "models/later").rename(company.folder / "models/age")
    run("init")
    assert said("status")["current"] == str(company.folder / "models/age")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("init --yes", "--model: it is missing, and there is no terminal to ask on"),
        ("init --model models/age --data csv:none.csv", "none.csv"),
        (
            "init --model models/age --data synth:n=4,subjects=2",
            "holds none of the samples that it was trained on",
        ),
        (
            "init --model models/aeg --data csv:faces/labels.csv",
            "models/aeg: no model is there. Did you mean models/age?",
        ),
    ],
)
def test_a_project_that_cannot_begin_leaves_no_file(line: str, says: str, company: Company) -> None:
    before = leftovers(company.folder)
    assert says in refused(line)
    assert leftovers(company.folder) == before


def test_two_projects_above_one_another(company: Company) -> None:
    run(INIT)
    inner = company.folder / "inner"
    assert "is a project already" in refused("init --model m --data synth:n=4 inner")
    inner.mkdir()
    (inner / "unplug.toml").write_text(SMALL)
    with pytest.raises(InputError, match="another one lies above it"):
        Project.open(inner)
    assert find_project(company.folder / "faces") == company.folder
    assert "it is there already" in refused(INIT)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[modle]\n", "'modle': there is no such key of a table. Did you mean model?"),
        (
            f"{SMALL}[release]\nsgin = 'k'\n",
            "'sgin': there is no such key of [release]. Did you mean sign?",
        ),
        (f"{SMALL}[release]\nxyzzy = 1\n", "Known are method, "),
        (f"{SMALL}on-bad = 'maybe'\n", "[model] on-bad: Input should be 'error' or 'skip'"),
        (f"{SMALL}[release]\nto = 'onnx'\n", "[release] to: Input should be a valid array"),
        (f"{SMALL}[release]\nbudget = nan\n", "[release]: it holds what no key takes"),
        (f"{SMALL}[release]\nseed = 2026-01-01\n", "[release]: it holds what no key takes"),
        (f"{SMALL}[record]\nledger = true\n", "[record] ledger: Input should be a valid string"),
        ('[model]\nname = "a"\ndata = "synth:n=4"\n', "[model]: it does not say original"),
        ("", "it has no [model]"),
        ("model = 3\n", "[model]: it is not a table"),
        ("[model\n", "it is not TOML"),
        (f'schema = "unplug-project/2"\n{SMALL}', "Use the unplug that wrote it, or a newer one"),
        (f"schema = 7\n{SMALL}", "it is of the version 7"),
        (SMALL.replace('"a"', '"../a"'), "bundles are called by it"),
    ],
)
def test_a_file_that_does_not_follow_its_schema(text: str, says: str, company: Company) -> None:
    company.toml(text)
    for line in ("config", "status", "forget --out x --forget f"):
        assert says in refused(line)


def test_where_each_value_comes_from(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    run(INIT)
    company.toml(company.text.replace('precision = ["fp32"]', 'precision = ["fp16"]'))
    monkeypatch.setenv("UNPLUG_TIMEZONE", "+02:00")
    rows = {row["key"]: (row["value"], row["from"]) for row in said("config")}
    assert rows["release.precision"] == (["fp16"], "unplug.toml")
    assert rows["release.budget"] == (0.05, "default")
    assert rows["record.timezone"] == ("+02:00", "UNPLUG_TIMEZONE")
    assert rows["record.ledger"] == (str(company.folder / ".unplug/ledger.db"), "unplug.toml")


def test_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ("status", "config", "answer --yes", "request add anna"):
        assert "no unplug.toml is there, or in a folder above it" in refused(line)
