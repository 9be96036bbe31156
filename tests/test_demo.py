"""The demo's own data tells an attack that works from one that does not: original against oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main


@pytest.mark.slow
def test_the_original_is_attackable_and_the_oracle_is_not(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["demo", "--out", str(tmp_path / "demo")])
    assert done.exit_code == 0, done.output
    audit = json.loads((tmp_path / "demo" / "audit.json").read_text())
    models = {model["role"]: model["attacks"] for model in audit["models"] if model["role"] != "artifact"}
    for attack in ("loss", "rmia"):
        original, oracle = (models[role][attack]["auc"] for role in ("original", "retrained"))
        assert original["low"] > 0.55, attack
        assert oracle["low"] < 0.5 < oracle["high"], attack
