"""``unplug trace``: where a person still is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unplug.core import InputError, table

from .base import Common, Outcome, command
from .ledger_options import ledger_option
from .options import out_option, path_option, spec_option

if TYPE_CHECKING:
    from unplug.trust.certificates import TracedPlace

UNSEEN = (
    "Pictures that were encoded, cut or resized anew have other pixels: they are found by their "
    "names alone, or not. So are "
    "pictures that the data never held."
)


@click.command()
@click.argument("person")
@spec_option("The data that hold, or held, the pictures.")
@path_option(
    "--in",
    "folders",
    multiple=True,
    metavar="DIR",
    help=(
        "A folder of unplug's, with all below it: checkpoints, references, exports, bundles; may "
        "be repeated."
    ),
)
@path_option(
    "--search",
    "deep",
    multiple=True,
    metavar="DIR",
    help=(
        "A folder of anything: every file is opened, pictures are compared by their exact pixels; "
        "may be repeated."
    ),
)
@click.option(
    "--request", metavar="ID", help="Record the search in the ledger, as a step of this request."
)
@ledger_option
@click.option(
    "--purge", is_flag=True, help="Delete what the cache keeps of the person; needs --request."
)
@out_option("Also write the result as JSON.", required=False)
@command
def trace(
    person: str,
    spec: str,
    folders: tuple[Path, ...],
    deep: tuple[Path, ...],
    request: str | None,
    where: str | None,
    purge: bool,
    out: Path | None,
    common: Common,
) -> Outcome:
    """Find what still holds PERSON (a sample id or a name), was trained on them, was made
    from that, or names them.
    """
    from unplug.sdk import journey
    from unplug.trust.ledger import open_ledger

    if not folders and not deep:
        fix = "Add --in DIR, where unplug's files lie, or --search DIR, any other"
        raise InputError("trace", "no folder is named", fix)
    if purge and request is None:
        fix = "Add --request ID, whose step it is"
        raise InputError("--purge", "what is deleted is recorded", fix)
    found = journey.trace(
        spec,
        person,
        folders,
        deep=deep,
        purge=purge,
        ledger=None if request is None else open_ledger(where),
        request=request,
        out=out,
        show=common.show,
    )
    lines = _lines(found.places)
    if purge:
        told = f"{found.freed:,} bytes of the cache were deleted"
        lines.append(told if found.value["purged"] else "the cache kept nothing of them")
    if found.entry is not None:
        lines.append(f"recorded as entry {found.entry}")
    reach = found.value["out_of_reach"]
    lines += [UNSEEN, reach] if deep else [reach]
    return Outcome(value=found.value | {"entry": found.entry}, text="\n".join(lines))


def _lines(places: Sequence[TracedPlace]) -> list[str]:
    rows = [
        [
            place.standing,
            place.kind,
            "" if place.samples is None else str(place.samples),
            place.path,
        ]
        for place in places
    ]
    counts = Counter(place.standing for place in places)
    return [
        table(["", "what", "samples", "where"], rows),
        ", ".join(f"{number} {name}" for name, number in counts.items()),
        *(
            f"{place.path}: {place.goes_by}"
            for place in places
            if place.goes_by and place.kind != "data"
        ),
    ]
