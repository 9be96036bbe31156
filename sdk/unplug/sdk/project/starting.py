"""``unplug init``: writes the file, the keys and the ledger, and looks at model and data."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import (
    InputError,
    atomic_path,
    hold,
    is_there,
    key_file,
    ledger_place,
    operator_key,
    read_json,
)
from unplug.plugins import RECORD, weights_sha256
from unplug.sdk.learning.data import SampleProblem, Split, parse_spec, stored_name
from unplug.trust.bundle import load_signer, make_key
from unplug.trust.ledger import make_signing_key, open_ledger

from .folder import ProjectFolder
from .place import FILE, HIDDEN, find_project
from .settings import SCHEMA, ProjectSettings, read_settings
from .state import adopted_facts, current_state

TEXT = """\
# What every `unplug` command below this folder goes by; `unplug config` shows where each value comes from.
schema = "{schema}"

[model]
name = {name}
original = {original}  # never overwritten
data = {data}
# columns = {{ path = "photo", subject = "user_id", age = "taken - born" }}  # of a table

[release]
to = ["onnx"]
precision = ["fp32"]
sign = {sign}
rounding = {rounding}  # also show what export did to the edit; a design's equality needs none of it

[evidence]
search = {search}
purge = ["caches", "work folders"]

[evidence.places]  # your word on places that no search reaches
# backups = "kept: overwritten after 30 days"

[record]
ledger = ".unplug/ledger.db"
ledger-key = "keys/ledger.key"
key = {key}
"""


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What `start_project` found and made.

    Args:
        project: the project.
        pictures, people: the numbers in the data.
        unusable: unusable rows and files, each with the reason.
        model: SHA-256 of the original's weights; None where it is still to be trained.
        design: how it forgets; None is an ordinary model, or none yet.
        trained: samples that it remembers; of these `known` are in the data.
        made: files that were not there before.
        public: the public key that bundles are verified with.
    """

    project: ProjectFolder
    pictures: int
    people: int
    unusable: tuple[SampleProblem, ...]
    model: str | None
    design: str | None
    trained: int
    known: int
    made: tuple[str, ...]
    public: str


def start_project(
    folder: Path,
    *,
    original: str | None = None,
    data: str | None = None,
    name: str | None = None,
    sign: str = "keys/release.key",
) -> Beginning:
    """Begins a project, or brings one up to date whose model was trained or exchanged since.

    Args:
        folder: the folder for ``unplug.toml``; if one is there, it stays as it is.
        original: the checkpoint, which may still be to be trained; relative to the folder.
        data: spec of what it was, or will be, trained on.
        name: the name of the product; None takes the checkpoint's.
        sign: key of bundles, made where it is a file that is not there.

    Raises:
        InputError: model and data do not belong together; a project lies above; a new one lacks
            `original` or `data`, or one that is there is given them.
        DataError: the data cannot be read.
    """
    above = find_project(folder)
    asked = {key: value for key, value in (("model", original), ("data", data)) if value}
    if above not in (None, folder.resolve()):
        raise InputError(str(folder), f"{above} is a project already", "Begin elsewhere")
    if above is not None and asked:
        why = "it is there already, and says which model and data"
        raise InputError(str(folder / FILE), why, "Edit it, then run `unplug init` without options")
    if above is None and original is not None:
        _no_typo(folder, original)
    folder.mkdir(parents=True, exist_ok=True)
    with hold(folder / HIDDEN / "answer"):
        made: list[str] = []
        if above is None:
            _write(folder, original, data, name, sign)
            made.append(FILE)
        try:
            return _started(folder.resolve(), read_settings(folder.resolve()), made)
        except BaseException:
            if FILE in made:  # a project that cannot begin is none
                (folder / FILE).unlink(missing_ok=True)
            raise


def _no_typo(folder: Path, original: str) -> None:
    """Refuses a model that is not there where one of nearly the same name is; another may still be
    to be trained.
    """
    place = folder / original
    others = [item.parent.name for item in place.parent.glob(f"*/{RECORD}")]
    if not is_there(place) and (near := difflib.get_close_matches(place.name, others)):
        fix = f"Did you mean {' or '.join(str(Path(original).with_name(name)) for name in near)}?"
        raise InputError(original, "no model is there", fix)


def _write(
    folder: Path, original: str | None, data: str | None, name: str | None, sign: str
) -> None:
    if original is None or data is None:
        lacking = "model" if original is None else "data"
        raise InputError(f"`{lacking}`", "it is missing", "Name the checkpoint and its data")
    record = _record(folder / original)
    search = dict.fromkeys((str(Path(original).parent), "releases"))
    text = TEXT.format(
        schema=SCHEMA,
        name=_toml(name or Path(original).name),
        original=_toml(original),
        data=_toml(data),
        sign=_toml(sign),
        rounding="false" if "design" in record else "true",
        search=json.dumps([*search], ensure_ascii=False),
        key=_toml(_operator_key(record)),
    )
    with atomic_path(folder / FILE) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _toml(text: str) -> str:
    """Text in quotes, as TOML and JSON write it alike."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _operator_key(record: Mapping[str, Any]) -> str:
    """A key of the project's own, or the one under which the model's record names people already."""
    split = record.get("split")
    expect = split.get("key") if isinstance(split, dict) else None
    if expect is None:
        return "keys/operator.key"
    operator_key(expect)
    return str(key_file().resolve())


def _record(checkpoint: Path) -> Mapping[str, Any]:
    raw = read_json(checkpoint / RECORD) if is_there(checkpoint / RECORD) else {}
    return raw if isinstance(raw, dict) else {}


def _started(folder: Path, settings: ProjectSettings, made: list[str]) -> Beginning:
    project, original = ProjectFolder(folder, settings), Path(settings.model.original)
    listing = parse_spec(settings.model.data).listing()
    samples = listing.samples
    record = _record(original)
    with project.surroundings():
        trained, known = _belongs(original, record, [item.id for item in samples], settings)
        public = _keys(folder, settings, made)
        model = weights_sha256(original) if record else None
        ledger, name = open_ledger(), settings.model.name
        if "://" not in (place := ledger_place()) and not is_there(Path(place)):
            made.append(place)
        make_signing_key()
        ledger.create()
        state = current_state(folder, settings, ledger)
        known_models = {item for one in state.releases for item in (one.began, one.model)}
        if model is not None and model not in {state.current, *known_models}:
            ledger.record("step", facts=adopted_facts(name, model))
            current_state(folder, settings, ledger)
    design = record.get("design")
    return Beginning(
        project=project,
        pictures=len(samples),
        people=len({item.subject for item in samples if item.subject is not None}),
        unusable=listing.problems,
        model=model,
        design=str(design.get("name")) if isinstance(design, dict) else None,
        trained=trained,
        known=known,
        made=tuple(made),
        public=public,
    )


def _belongs(
    original: Path, record: Mapping[str, Any], ids: list[str], settings: ProjectSettings
) -> tuple[int, int]:
    """How many samples the model remembers, and how many of them the data hold."""
    if not record:
        return 0, 0
    if "split" not in record:
        why = "its record says nothing of whom it was trained on"
        raise InputError(str(original), why, "`unplug adopt` makes one that does")
    split = Split.from_dict(record["split"], str(original))
    learned = {*split.retain}
    known = len(learned & {stored_name(split, name) for name in ids})
    if learned and not known:
        why = f"{settings.model.data} holds none of the samples that it was trained on"
        raise InputError(str(original), why, "Name the data of its training")
    return len(learned), known


def _keys(folder: Path, settings: ProjectSettings, made: list[str]) -> str:
    sign, public = settings.release.sign, settings.release.public
    if not sign.startswith(("env:", "command:")) and not is_there(Path(sign)):
        Path(sign).parent.mkdir(0o700, parents=True, exist_ok=True)
        make_key(Path(sign))
        made += [sign, f"{sign}.pub"]
    return load_signer(sign, None if public is None else Path(public)).key.hint
