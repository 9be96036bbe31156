"""``unplug detect``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unplug.sdk import journey

from .base import Common, Outcome, command
from .options import path_option, paths_argument

if TYPE_CHECKING:
    from unplug.sdk.drawing.device import FoundMark


@click.command()
@paths_argument("files")
@path_option("--mark", help="File of the key (default: the public one of the decoder that ships).")
@command
def detect(files: tuple[Path, ...], mark: Path | None, common: Common) -> Outcome:
    """Say of pictures whether they carry a key's mark (exit 1 where one does not).

    A marked decoder leaves 48 bits in all its pictures (`unplug train decoder --mark`). Called marked
    is a picture whose bits agree so well that of a million unmarked ones at most one would. Without
    one nothing is proved: who holds the weights can train a mark away, and other models have none.
    """
    found = journey.detect(files, mark=mark, show=common.show)
    outcome = Outcome(value={"pictures": [_value(one) for one in found]})
    for one in found:
        outcome.add(_line(one), ok=one.marked)
    return outcome


def _value(one: FoundMark) -> dict[str, object]:
    return asdict(one) | {"file": str(one.file), "accuracy": one.accuracy}


def _line(one: FoundMark) -> str:
    told = f"{one.agree} of 48 bits, by chance in {one.chance:.1g} of unmarked pictures"
    verdict = "marked by this key" if one.marked else "no mark found, which proves nothing"
    return f"{one.file}: {verdict} ({told})"
