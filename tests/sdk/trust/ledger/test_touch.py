"""Which models a request touches, of models that were really trained and made to forget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from unplug.sdk.cli import main

from ...conftest import SPEC, World


def call(*args: object) -> Any:
    result = CliRunner().invoke(main, ["ledger", *map(str, args), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_request_touches_the_model_that_saw_the_person_until_it_forgot(
    world: World, place: Path
) -> None:
    gone = next(
        line for line in world.forget_file.read_text().splitlines() if line.startswith("subject:")
    )
    call("init")
    call("add", "--id", "A-1", "--person", gone, "--data", SPEC)
    call("add", "--id", "A-2", "--person", world.split.test[0], "--data", SPEC)
    call("add", "--id", "A-3", "--person", "subject:of other data")
    told = call("touch", world.original.path, world.unlearned.path, "--data", SPEC)
    samples = {(row["request"], row["model"]): row["samples"] for row in told}
    hers = {
        sample.id for sample in world.dataset.samples if f"subject:{sample.subject}" == gone
    } & set(world.split.train)
    assert samples == {
        ("A-1", str(world.original.path)): len(hers),
        ("A-1", str(world.unlearned.path)): 0,
        ("A-2", str(world.original.path)): 0,
        ("A-2", str(world.unlearned.path)): 0,
    }
    assert len(hers) > 0
    held_out = {row["held_out"] for row in told if row["request"] == "A-2"}
    assert held_out == {1}, "it judged both models, and neither was trained on it"
    facts = [
        entry["facts"] for entry in call("status", "A-1")["history"] if entry["kind"] == "touched"
    ]
    assert [item["model_sha256"] for item in facts] == [
        world.original.sha256,
        world.unlearned.sha256,
    ]
    assert {item["data_digest"] for item in facts} == {world.split.data_digest}
