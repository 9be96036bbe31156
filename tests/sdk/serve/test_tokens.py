"""API tokens: hashed at rest, with scopes, an end, and a label that is no name."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from tests.sdk.serve.conftest import Place

from unplug.core import InputError
from unplug.sdk.cli import main
from unplug.serve import SCOPES, add_token, list_tokens, revoke_token
from unplug.serve.command import SCOPES as SHOWN
from unplug.serve.tables import tokens
from unplug.serve.tokens import TokenGate


def test_a_token_is_known_by_its_hash_alone(anywhere: Place) -> None:
    made, text = add_token(anywhere.tables, "phones", ["requests:read"])
    with anywhere.tables.reading() as connection:
        rows = [tuple(row) for row in connection.execute(sa.select(tokens))]
    assert text not in str(rows) and text.rsplit("_", 1)[1] not in str(rows)
    gate = TokenGate(tables=anywhere.tables)
    assert gate.who(text) == made and made.scopes == {"requests:read"}
    assert gate.who(text[:-1] + ("A" if text[-1] != "A" else "B")) is None, "one letter off"
    assert (
        gate.who(text.replace(made.id, "0" * 12)) is None
        and gate.who("") is None
        and gate.who("unplug_x_y") is None
    )


def test_a_token_ends_when_it_is_revoked_or_its_days_are_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, text = add_token(place.tables, "a", ["models"], days=1)
    _, other = add_token(place.tables, "b", ["models"])
    assert TokenGate(tables=place.tables).who(text) == made
    monkeypatch.setattr("unplug.serve.tokens.time_now", lambda: "2999-01-01T00:00:00Z")
    assert (
        TokenGate(tables=place.tables).who(text) is None
        and TokenGate(tables=place.tables).who(other) is not None
    )
    monkeypatch.undo()
    assert revoke_token(place.tables, made.id).revoked is not None
    assert TokenGate(tables=place.tables).who(text) is None
    valid = {item.label: item.valid for item in list_tokens(place.tables)}
    assert (valid["a"], valid["b"]) == (False, True)


def test_a_revoked_token_is_believed_for_two_seconds_at_most(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, (made, text) = TokenGate(tables=place.tables), add_token(place.tables, "a", ["models"])
    now = [100.0]
    monkeypatch.setattr("unplug.serve.tokens.time.monotonic", lambda: now[0])
    assert gate.who(text) and gate.fresh(text)
    revoke_token(place.tables, made.id)
    now[0] += 2.1
    assert not gate.fresh(text) and gate.who(text) is None


@pytest.mark.parametrize(
    ("label", "scopes"),
    [("a", ["everything"]), ("a", []), ("Anna Müller", ["models"]), ("", ["models"])],
)
def test_what_no_token_can_be(place: Place, label: str, scopes: list[str]) -> None:
    with pytest.raises(InputError):
        add_token(place.tables, label, scopes)


def test_tokens_on_the_command_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_LEDGER", place.where)
    assert tuple(SCOPES) == SHOWN

    def call(*words: str) -> dict[str, object]:
        done = CliRunner().invoke(main, ["serve", "token", *words, "--json"])
        assert done.exit_code == 0, done.output
        told: dict[str, object] = json.loads(done.stdout)
        return told

    made = call("add", "phones", "--scope", "models", "--scope", "metrics", "--days", "30")
    assert str(made["token"]).startswith(f"unplug_{made['id']}_") and made["scopes"] == [
        "metrics",
        "models",
    ]
    assert call("revoke", str(made["id"]))["revoked"]
    refused = CliRunner().invoke(main, ["serve", "token", "revoke", "nothing"])
    assert refused.exit_code == 2 and "no such token" in refused.stderr
    assert str(made["token"]) not in CliRunner().invoke(main, ["serve", "token", "list"]).stdout
    for path in Path(place.where).parent.glob("ledger.db*"):
        assert str(made["token"]).encode() not in path.read_bytes()
    assert sqlite3.connect(place.where).execute(
        "select count(*) from service_tokens"
    ).fetchone() == (2,)
