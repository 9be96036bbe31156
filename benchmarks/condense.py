"""``python -m benchmarks.condense docs/data/*.json``: what a table or a test reads, in few bytes,
before it is committed.

Numbers of each picture (``raw`` of a comparison's rows) go: the command in the report makes them
again. Blanks, line ends and digits behind the seventh go as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from unplug.core import atomic_path, read_json


def condense(value: Any) -> Any:
    """A report without its arrays of each picture, seven digits a number."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {name: {} if name == "raw" else condense(one) for name, one in value.items()}
    return [condense(one) for one in value] if isinstance(value, list) else value


@click.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def main(files: tuple[Path, ...]) -> None:
    """Rewrites FILES in their place."""
    for path in files:
        text = json.dumps(
            condense(read_json(path)), separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        with atomic_path(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
