"""Who is meant by a name, and what a model has seen of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import SUBJECT, DataError, InputError, KnownNames, UnplugError, counted
from unplug.sdk.learning.data import (
    Sample,
    Source,
    Split,
    named_samples,
    parse_spec,
    stored_name,
)

from .settings import spec_at

TRUNK = (
    "No design forgets from a trunk. `unplug ledger add` records the request all the same; then "
    "train the trunk again without them"
)
SIDE = 8
"""Pixels of a picture that is decoded only to see whether it can be."""


@dataclass(frozen=True, kw_only=True)
class FoundPerson:
    """Somebody in the data of a project.

    Args:
        name: the name as in requests, ``subject:NAME`` or a sample id.
        pictures: how many the data hold.
        trained, held_out, forgotten: how many of them the current model was trained on, only judged
            or chose it, and was made to forget.
        in_trunk: pictures of somebody of that name in the data of its trunk.
        unusable: the first of the pictures that cannot be read, and why; None where all can be.
    """

    name: str
    pictures: int
    trained: int
    held_out: int
    forgotten: int
    in_trunk: int
    unusable: str | None = None

    @property
    def shown(self) -> str:
        """All of that in one line."""
        parts = [
            f"{number} {what}"
            for number, what in (
                (self.trained, "trained on"),
                (self.held_out, "held out"),
                (self.forgotten, "forgotten already"),
            )
            if number
        ]
        line = f"{self.name}: {counted(self.pictures, 'picture')}"
        line += f", {', '.join(parts)}" if parts else ", none of which the model has seen"
        if self.in_trunk:
            line += (
                f". Careful: {counted(self.in_trunk, 'picture')} of somebody of that name are in "
                "the trunk's data, and a trunk cannot forget"
            )
        if self.unusable:
            line += (
                f". {self.unusable}: repair it, or delete it and its row, before `unplug answer`"
            )
        return line


def find_person(spec: str, record: Mapping[str, Any], folder: Path, person: str) -> FoundPerson:
    """Looks a person up in the data, in the model and in its trunk.

    Args:
        spec: the spec of the data.
        record: the record of the current model.
        folder: the folder of the project; the search for the trunk's data starts there.
        person: a name of somebody, with or without ``subject:``, or a sample id.

    Raises:
        DataError: the data hold nobody of that name; it says which names are near.
        InputError: they are among the trunk's people alone, or several names are alike.
    """
    source = parse_spec(spec)
    samples = source.listing().samples
    names = named_samples(samples)
    known, trunk = KnownNames(names), _trunk_names(record, folder)
    called = [person] if person.startswith(SUBJECT) else [f"{SUBJECT}{person}", person]
    alike = next((found for name in called if (found := known.alike(name))), ())
    if len(alike) > 1:
        why = f"{len(alike)} names of the data differ from it in blanks alone"
        raise InputError(person[:80], why, "Write it as the data have it")
    if not alike:
        if any(name in trunk for name in called):
            why = "the trunk was trained on them, as people who agreed for good"
            raise InputError(person[:80], why, TRUNK)
        raise DataError(
            person[:80], f"{spec} holds nobody of that name", _near(person, known, names)
        )
    ids = names[alike[0]]
    counts = seen(record, ids)
    return FoundPerson(
        name=alike[0],
        pictures=len(ids),
        in_trunk=len(trunk.get(alike[0], ())),
        unusable=_unusable(source, [item for item in samples if item.id in ids]),
        **counts,
    )


def _unusable(source: Source, samples: Sequence[Sample]) -> str | None:
    for sample in samples:
        try:
            source.decode(sample, SIDE)
        except DataError as error:
            return f"{sample.id}: {error.why}"
    return None


def _near(person: str, known: KnownNames, names: Mapping[str, Any]) -> str:
    bare = person.removeprefix(SUBJECT)
    people = [name.removeprefix(SUBJECT) for name in names if name.startswith(SUBJECT)]
    if hint := known.near([f"{SUBJECT}{bare}", bare]):
        return f"{hint.removeprefix('; ')}"
    if near := difflib.get_close_matches(bare, people or [*names], n=3):
        return f"Did you mean {' or '.join(near)}?"
    return "`unplug data inspect SPEC --ids` lists the names"


def seen(record: Mapping[str, Any], ids: set[str]) -> dict[str, int]:
    """How many of some samples a model was trained on, held out and was made to forget."""
    if "split" not in record:  # nobody may be told then that no weights come from them
        why, fix = "it does not say who trained the model", "Use a checkpoint of `unplug train`"
        raise InputError("the current model's record", why, fix)
    split = Split.from_dict(record["split"], "the model's record")
    stored = {stored_name(split, name) for name in ids}
    return {
        "trained": len(stored & {*split.retain}),
        "held_out": len(stored & split.held_out),
        "forgotten": len(stored & {*split.forget}),
    }


def _trunk_names(record: Mapping[str, Any], folder: Path) -> Mapping[str, set[str]]:
    """Names in the data of a design's trunk; none where they cannot be read here any more, and of
    drawn people, who are nobody.
    """
    design = record.get("design")
    trunk = design.get("trunk") if isinstance(design, dict) else None
    names: dict[str, set[str]] = {}
    for key in ("data", "trained_on"):
        data = trunk.get(key) if isinstance(trunk, dict) else None
        spec = data.get("spec") if isinstance(data, dict) else None
        if isinstance(spec, str) and not spec.startswith("synth:"):
            with suppress(UnplugError):
                samples = parse_spec(spec_at(folder, spec)).listing().samples
                for name, ids in named_samples(samples).items():
                    names[name] = names.get(name, set()) | ids
    return names
