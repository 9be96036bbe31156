"""The table of docs/methods.md, from the registry: ``python -m benchmarks.methods
docs/methods.md``.

What stands between the markers is replaced; a test holds the page to the registry.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

from unplug.core import atomic_path
from unplug.sdk.forgetting.unlearning import METHODS

from .pages import filled


def table() -> str:
    """A row per method that comes with unplug: name, what it does, the paper."""
    lines = ["| method | what it does | paper |", "|---|---|---|"]
    for name in METHODS:
        method = METHODS.get(name)
        if method.__module__.startswith(
            "unplug.sdk."
        ):  # what other packages add is theirs to document
            cells = (f"`{name}`", _what(name, method), _paper(method))
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _what(name: str, method: type) -> str:
    """The first sentence of the module, without the name that the row begins with."""
    text = " ".join(
        (inspect.getdoc(import_module(method.__module__)) or "").split("\n\n")[0].split()
    )
    said = re.split(r"\.(?: (?=[A-Z])|$)", text)[0]
    label = re.escape(name).replace(r"\-", "[- ]")
    rest = re.sub(rf"^{label}[:,] ", "", said, flags=re.IGNORECASE)
    return rest[0].upper() + rest[1:]


def _paper(method: type) -> str:
    """Authors and year; the docstring has the whole of it."""
    text = re.search(r"Reference:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(method) or "", re.DOTALL)
    match = text and re.search(
        r"([A-Z][\w-]+ (?:et al\.|and \w+)), .*?((?:19|20)\d\d)", text[1], re.DOTALL
    )
    return "" if match is None else f"{match[1]}, {match[2]}"


def with_table(page: str) -> str:
    """The page with the table of now between its markers."""
    return filled(page, "methods", table())


if __name__ == "__main__":
    path = Path(sys.argv[1])
    text = with_table(path.read_text(encoding="utf-8"))
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
