"""Commands as one types them: what they say, as JSON and as text, and the one line of a refusal."""

from __future__ import annotations

import json
import shlex
from typing import Any

from click.testing import CliRunner

from unplug.sdk.cli import main

from ..cli.calls import fail


def called(command: str, code: int = 0) -> Any:
    """The JSON of a command that ends with `code`."""
    result = CliRunner().invoke(main, [*shlex.split(command), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def shown(command: str) -> str:
    """What a command that works says to people."""
    result = CliRunner().invoke(main, shlex.split(command))
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(command: str, code: int = 2) -> str:
    """The line of a command that fails."""
    return fail(*shlex.split(command), code=code).line
