"""``python -m benchmarks.certifications``: the table of docs/references.md, of the certifications in docs/data."""

from __future__ import annotations

from pathlib import Path

import click

from unplug.core import InputError, read_dataclass
from unplug.sdk.auditing import Certification, Estimate

PLACE = Path(__file__).parents[1] / "docs" / "data"
NAMES = {
    "memorising-1": "synthetic faces, flips alone, 16 epochs",
    "memorising-5": "the same, 40 references in 5 folds",
    "shipped-1": "synthetic faces, as shipped, 16 epochs, 40 references in 5 folds",
    "utkface-1": "2,000 UTKFace photographs, flips alone, 16 epochs",
}
"""By the end of a file's name: data and recipe."""


def markdown() -> str:
    """The table, one line for each statistic of each certification."""
    columns = (
        "data and recipe", "people", "requests", "statistic", "before", "after", "shift, sd", "spread", "exact passes", "test",
        "retain", "verdict",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---|--:|--:|---|---|---|--:|--:|--:|--:|--:|---|"]
    for end, name in NAMES.items():
        if not (path := PLACE / f"certification-{end}.json").is_file():
            continue
        found = read_dataclass(Certification, path, InputError)
        head = [name, str(found.people), str(found.requests)]
        tail = [
            f"{100 * found.exact_passes:.0f} %", f"× {found.test_error.value:.3f}", f"× {found.retain_error.value:.3f}",
            found.verdict,
        ]  # fmt: skip
        for statistic, leak in found.leaks.items():
            numbers = [
                statistic,
                _spanned(leak.before),
                _spanned(leak.auc),
                f"{leak.shift.value:+.2f}",
                f"{leak.spread.value:.2f}",
            ]
            lines.append(f"| {' | '.join([*head, *numbers, *tail])} |")
            head, tail = [""] * 3, [""] * 4
    return "\n".join(lines)


def _spanned(item: Estimate) -> str:
    return f"{item.value:+.3f} ({item.low:+.3f} to {item.high:+.3f})"


@click.command()
def main() -> None:
    """Prints the table of all certifications that are committed."""
    click.echo(markdown())


if __name__ == "__main__":
    main()
