"""Which models a request touches, of models that were really trained and made to forget."""

from __future__ import annotations

from pathlib import Path

from ...conftest import SPEC, World
from ..commands import called


def test_a_request_touches_the_model_that_saw_the_person_until_it_forgot(
    world: World, place: Path
) -> None:
    lines = world.forget_file.read_text().splitlines()
    gone = next(line for line in lines if line.startswith("subject:"))
    called("ledger init")
    called(f"ledger add --id A-1 --person '{gone}' --data {SPEC}")
    called(f"ledger add --id A-2 --person '{world.split.test[0]}' --data {SPEC}")
    called("ledger add --id A-3 --person 'subject:of other data'")
    original, unlearned = world.original, world.unlearned
    told = called(f"ledger touch {original.path} {unlearned.path} --data {SPEC}")
    hers = {sample.id for sample in world.dataset.samples if f"subject:{sample.subject}" == gone}
    seen = len(hers & set(world.split.train))
    assert seen > 0
    assert {(row["request"], row["model"]): row["samples"] for row in told} == {
        ("A-1", str(original.path)): seen,
        ("A-1", str(unlearned.path)): 0,
        ("A-2", str(original.path)): 0,
        ("A-2", str(unlearned.path)): 0,
    }
    held_out = {row["held_out"] for row in told if row["request"] == "A-2"}
    assert held_out == {1}, "it judged both models, and neither was trained on it"
    history = called("ledger status A-1")["history"]
    facts = [entry["facts"] for entry in history if entry["kind"] == "touched"]
    assert [fact["model_sha256"] for fact in facts] == [original.sha256, unlearned.sha256]
    assert {fact["data_digest"] for fact in facts} == {world.split.data_digest}
