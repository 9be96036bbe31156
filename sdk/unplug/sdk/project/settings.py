"""What ``unplug.toml`` says: one typed schema, each key with its default, and where each comes
from.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from unplug.core import STRICT, InputError, expanded, read_regular
from unplug.sdk.releasing import ReleaseChoices

from .place import FILE

T = TypeVar("T")
SCHEMA = "unplug-project/1"
MAX_BYTES = 2**20
Purged = Literal["caches", "work folders", "earlier bundles"]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """``[model]``: what is released.

    Args:
        name: the name of the product; its releases are counted, and their bundles are
            NAME-NUMBER.unplug.
        original: the checkpoint that was trained; never overwritten.
        data: spec of what it was trained on.
        columns: the columns of a table, as the settings after ``csv:FILE`` name them.
        on_bad: the way with rows and pictures that cannot be used: error or skip.
        device: auto, cpu or cuda.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    name: str
    original: str
    data: str
    columns: dict[str, str] = field(default_factory=dict)
    on_bad: Literal["error", "skip"] = "error"
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(ReleaseChoices):
    """``[release]``: how to forget, what must hold, what is exported and who signs.

    Args:
        folder: the folder for bundles, certificates and the files they were made from.
        sign: key of ``unplug release --sign``: a file, env:NAME, or command:WORDS.
        public: the public key; for a key file the one next to it.
        gates: thresholds of ``unplug release --gate``.
        bench_iterations: runs of each file that are timed, in each repeat.
        bench_repeats: times that each file is started anew and timed.
        rounding: measure what export did to the edit.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    folder: str = "releases"
    sign: str = "keys/release.key"
    public: str | None = None
    gates: dict[str, str | float | bool] = field(default_factory=dict)
    bench_iterations: int = 50
    bench_repeats: int = 3
    rounding: bool = True


@dataclass(frozen=True, kw_only=True)
class EvidenceSettings:
    """``[evidence]``: where people are searched for, and what is said of the rest.

    Args:
        search: folders, with all below them; of unplug's records.
        purge: the kinds of place that an answer deletes if they hold people whom it forgot: caches,
            and work folders and bundles of earlier releases.
        places: kind of place to the operator's word on it, as of ``unplug certificate --place``.
        issuer: the issuer named in certificates.
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    search: tuple[str, ...] = ("models", "releases")
    purge: tuple[Purged, ...] = ("caches",)
    places: dict[str, str] = field(default_factory=dict)
    issuer: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordSettings:
    """``[record]``: the ledger and its keys; an environment variable goes before each.

    Args:
        ledger: a file or ``postgresql://...``.
        ledger_key: signs the ledger.
        key: the operator's, under which people stand in records.
        timezone: the time zone whose days count, such as Europe/Berlin (default: this machine's).
    """

    __pydantic_config__: ClassVar[Any] = STRICT

    ledger: str = ".unplug/ledger.db"
    ledger_key: str = "keys/ledger.key"
    key: str = "keys/operator.key"
    timezone: str | None = None


VARIABLES = {
    "record.ledger": "UNPLUG_LEDGER",
    "record.ledger-key": "UNPLUG_LEDGER_KEY",
    "record.key": "UNPLUG_KEY",
    "record.timezone": "UNPLUG_TIMEZONE",
}
"""Keys that the environment may say in place of the file."""


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """``unplug-project/1``: all of ``unplug.toml``, its paths made absolute.

    Args:
        model, release, evidence, record: its tables.
        given: keys that stand in the file, as ``release.sign``.
    """

    model: ModelSettings
    release: ReleaseSettings = field(default_factory=ReleaseSettings)
    evidence: EvidenceSettings = field(default_factory=EvidenceSettings)
    record: RecordSettings = field(default_factory=RecordSettings)
    given: frozenset[str] = frozenset()

    def rows(self) -> Iterator[tuple[str, Any]]:
        """Every key with its value, as ``release.sign`` and what it is."""
        for name in TABLES:
            table = getattr(self, name)
            for item in fields(table):
                yield f"{name}.{key_of(item)}", getattr(table, item.name)


TABLES: dict[str, type[Any]] = {
    "model": ModelSettings,
    "release": ReleaseSettings,
    "evidence": EvidenceSettings,
    "record": RecordSettings,
}


def key_of(item: Field[Any]) -> str:
    """How a field is called in the file: as its option, where it is one."""
    return str(item.metadata.get("flag", item.name)).lstrip("-").replace("_", "-")


def read_settings(folder: Path) -> ProjectSettings:
    """Reads a project's file.

    Args:
        folder: the project.

    Raises:
        InputError: it is missing, no TOML, of a newer version, or does not follow its schema; an
            unknown key is told with the nearest one.
    """
    path = folder / FILE
    raw = _toml(path)
    version = raw.pop("schema", SCHEMA)
    if version != SCHEMA:
        newer = isinstance(version, str) and version.startswith("unplug-project/")
        why = f"it is of the version {version!r:.40}, and this is {SCHEMA}"
        fix = "Use the unplug that wrote it, or a newer one" if newer else f'Write "{SCHEMA}"'
        raise InputError(f"{path}: schema", why, fix)
    _check_keys(path, "a table", raw, TABLES)
    if "model" not in raw:
        raise InputError(str(path), "it has no [model]", "`unplug init` writes one")
    tables = {name: _table(path, name, values) for name, values in raw.items()}
    given = frozenset(f"{name}.{key}" for name, values in raw.items() for key in values)
    return _placed(ProjectSettings(**tables, given=given), folder, path)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path, max_bytes=MAX_BYTES).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(str(path), f"it is not TOML ({error})", "Put that line right") from error


def _check_keys(path: Path, what: str, raw: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key in raw:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}"
            raise InputError(f"{path}: {key!r:.60}", f"there is no such key of {what}", fix)


def _table(path: Path, name: str, raw: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError

    where, kind = f"{path}: [{name}]", TABLES[name]
    if not isinstance(raw, dict):
        raise InputError(where, "it is not a table", f"Write [{name}] above its keys")
    keys = {key_of(item): item for item in fields(kind)}
    _check_keys(path, f"[{name}]", raw, keys)
    for key, item in keys.items():
        if key not in raw and item.default is item.default_factory is MISSING:
            raise InputError(where, f"it does not say {key}", f"Add {key} = ...")
    try:
        text = json.dumps({keys[key].name: value for key, value in raw.items()}, allow_nan=False)
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        key = key_of(keys_by_field(kind)[str(first["loc"][0])])
        raise InputError(f"{where} {key}", first["msg"][:200], "Put it right") from problem
    except (TypeError, ValueError) as problem:  # a date, or a number that is none
        raise InputError(where, f"it holds what no key takes ({problem})", "Put it right") from None


def keys_by_field(kind: type[Any]) -> dict[str, Field[Any]]:
    """The fields of a table by the names that they have in Python."""
    return {item.name: item for item in fields(kind)}


def _placed(settings: ProjectSettings, folder: Path, path: Path) -> ProjectSettings:
    """The settings with every path absolute, and a name that bundles can have."""
    model, release, record = settings.model, settings.release, settings.record
    bare = model.name.translate(dict.fromkeys(map(ord, "-_.")))
    if not bare.isalnum() or len(model.name) > 60 or model.name.startswith("."):
        fix = "Use up to 60 letters, digits and . _ -"
        raise InputError(f"{path}: [model] name", "bundles are called by it", fix)

    def at(value: Any) -> str:
        return str(folder / expanded(value))

    def key_at(value: str) -> str:
        return value if value.startswith(("env:", "command:")) else at(value)

    optional: dict[str, Any] = {
        name: at(value)
        for name in ("fleet", "certification", "public")
        if (value := getattr(release, name)) is not None
    }
    ledger = record.ledger if "://" in record.ledger else at(record.ledger)
    return replace(
        settings,
        model=replace(model, original=at(model.original), data=spec_at(folder, _data(model, path))),
        release=replace(release, folder=at(release.folder), sign=key_at(release.sign), **optional),
        evidence=replace(settings.evidence, search=tuple(map(at, settings.evidence.search))),
        record=replace(record, ledger=ledger, ledger_key=at(record.ledger_key), key=at(record.key)),
    )


def _data(model: ModelSettings, path: Path) -> str:
    """The data spec with the columns after it."""
    if model.columns and not model.data.startswith("csv:"):
        fix = 'Write data = "csv:FILE", or remove them'
        raise InputError(f"{path}: [model] columns", "they are of tables (csv:FILE) alone", fix)
    return model.data + "".join(f",{ours}={column}" for ours, column in model.columns.items())


def spec_at(folder: Path, spec: str) -> str:
    """A data spec whose path is one of a folder, as an absolute one."""
    kind, colon, argument = spec.partition(":")
    if not argument or kind == "synth":
        return spec
    return f"{kind}{colon}{folder / expanded(argument)}"
