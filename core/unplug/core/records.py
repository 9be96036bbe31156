"""Dataclasses to JSON and back: strict reading of hostile files, and the JSON Schemas in
``schemas/``.

pydantic is imported inside the functions, because `import unplug.export` must stay cheap.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from .errors import InputError
from .files import MAX_JSON_BYTES
from .regular import parse_json, read_regular
from .uris import PLACE

T = TypeVar("T")

STRICT = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
"""What the report and card dataclasses set as ``__pydantic_config__``: no surplus keys, no
conversions, no NaN.
"""


_AGAIN = "Write it again with this version of unplug, or restore it from a copy"


def read_dataclass(
    kind: type[T], path: Path, error: type[InputError], *, max_bytes: int = MAX_JSON_BYTES
) -> T:
    """Reads a JSON file into a dataclass.

    Args:
        kind: the dataclass.
        path: the file.
        error: the type to raise.
        max_bytes: larger files are refused unread.

    Raises:
        InputError: of type `error`: missing, too large, not JSON, or not of this schema.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        raw = read_regular(path, max_bytes=max_bytes, error=error)
        parse_json(raw)
        return TypeAdapter(kind).validate_json(raw)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:60] for part in first["loc"]) or "the file"
        why = f"it does not follow its schema ({place}: {first['msg'][:200]})"
        raise error(str(path), why, _AGAIN) from problem
    except ValueError as problem:
        raise error(
            str(path), f"it does not follow its schema (the file: {problem})", _AGAIN
        ) from problem


def schema_text(kind: type[Any], file: str) -> str:
    """The JSON Schema of a dataclass, as the repository keeps it in a file of that name."""
    from pydantic import TypeAdapter

    named = {"$id": f"{PLACE}schemas/{file}", **TypeAdapter(kind).json_schema()}
    return json.dumps(named, indent=1, sort_keys=True) + "\n"
