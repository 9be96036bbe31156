"""Commands that must end well."""

from __future__ import annotations

from click.testing import CliRunner

from unplug.sdk.cli import main


def call(*words: object) -> str:
    """What a command says."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    return done.stdout
