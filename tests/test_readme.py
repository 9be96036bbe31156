"""The README says what is true: its numbers come from committed JSON, its commands and files exist."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from benchmarks.summary import markdown

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["demo", "utkface"])
def test_the_tables_are_those_of_the_committed_runs(name: str) -> None:
    facts = json.loads((ROOT / "docs/data" / f"{name}.json").read_text(encoding="utf-8"))
    assert markdown(facts) in README
    assert facts["command"] in README


def test_every_file_and_make_target_that_it_names_is_there() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).is_file(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first is not None and first.group(1) == version


def test_nothing_that_is_committed_names_a_download_address_for_packages() -> None:
    assert not re.search(r"://|@ ", (ROOT / "constraints.txt").read_text(encoding="utf-8"))


def test_synthetic_ages_are_learnable_but_not_trivial_in_the_committed_run() -> None:
    facts = json.loads((ROOT / "docs/data/demo.json").read_text(encoding="utf-8"))
    for role in ("original", "retrained"):
        assert 3.0 < facts["models"][role]["test_mae"]["value"] < 7.0, (
            "mean absolute error on people never trained on, in years"
        )
