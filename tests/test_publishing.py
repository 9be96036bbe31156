"""What a stranger trusts a release by: its signature, its workflow, its forms."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from unplug.core import sha256_file
from unplug.trust.bundle import make_key, read_trust
from unplug.trust.bundle.envelope import check_signature, read_envelope, read_statement
from unplug.trust.bundle.verifier import time_of

ROOT = Path(__file__).parent.parent
WHEEL = "unplug_sdk-0.1.0-py3-none-any.whl"
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def sign(folder: Path, key: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / ".ci/sign.py", folder, key]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_release_is_signed_in_the_form_of_a_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / WHEEL).write_bytes(b"wheel")
    make_key(tmp_path / "release.key")
    for _ in range(2):  # again: not over its own signature
        done = sign(folder, tmp_path / "release.key")
        assert done.returncode == 0, done.stderr
        found = read_envelope((folder / "model.sig").read_bytes(), "model.sig")
        now = time_of("2026-11-28T00:00:00Z")
        assert now is not None
        check_signature(found, read_trust(tmp_path / "release.key.pub"), "model.sig", now)
        listed = read_statement(found.payload, "model.sig")
        assert listed == {WHEEL: sha256_file(folder / WHEEL)}


def test_without_a_key_nothing_is_signed(tmp_path: Path) -> None:
    assert sign(tmp_path, tmp_path / "none.key").returncode != 0
    assert not list(tmp_path.iterdir())


def test_the_workflow_publishes_what_it_tested_and_signed_and_nothing_else_may() -> None:
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    steps = {name: job["steps"] for name, job in jobs.items()}
    used = [step["uses"] for each in steps.values() for step in each if "uses" in step]
    assert all(re.search(r"@(release/)?v\d+$", name) for name in used), "an action without a major"
    assert jobs["publish"]["needs"] == ["build", "sign"]
    assert any("make base WHEEL=" in step.get("run", "") for step in steps["build"])
    able = {name for name, job in jobs.items() if "id-token" in job["permissions"]}
    assert able == {"publish"}
    assert not [step for step in steps["publish"] if "checkout" in step.get("uses", "")]
    secret = [name for name, job in jobs.items() if "secrets." in str(job)]
    assert secret == ["sign"] == [name for name in jobs if "sign.py" in str(steps[name])]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_asks_of_one(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "body"} <= form.keys()
    assert any(part.get("validations", {}).get("required") for part in form["body"])
    for part in form["body"]:
        assert part["type"] in ("markdown", "textarea", "input", "dropdown")
        assert ("value" if part["type"] == "markdown" else "label") in part["attributes"]
