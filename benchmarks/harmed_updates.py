"""Update metadata harmed at random, through the reader: the second table of docs/hostile.md.

    python -m benchmarks.harmed_updates --out docs/data/harmed-updates.json --page docs/hostile.md

What is done to the files says `tests.vectors.updates.harmed`; what must hold, `tests/sdk/updates/test_fuzz.py`, whose judge it
uses: an answer or a typed error of one line, and no file written.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
from tests.sdk.updates.test_fuzz import judged
from tests.vectors.updates.harmed import KINDS, harmed_sets

from unplug.core import peak_rss_bytes, versions, write_json

MARK = "<!-- updates -->"


def measured(count: int, seed: int) -> dict[str, object]:
    """Verdicts by what was harmed, the slowest set, and how far the memory of this process grew."""
    found: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    slowest, before, started = 0.0, peak_rss_bytes() or 0, time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="unplug-harmed-updates-") as name:
        for item in harmed_sets(count, seed):
            begun = time.process_time()
            verdict, _ = judged(item, Path(name))
            slowest = max(slowest, time.process_time() - begun)
            found[item.what.partition(",")[0]][verdict] += 1
    return {
        "schema": "unplug-harmed-updates/1", "sets": count, "seed": seed,
        "found": {kind: dict(sorted(counts.items())) for kind, counts in found.items()}, "slowest_cpu_seconds": slowest,
        "grown_bytes": (peak_rss_bytes() or 0) - before, "seconds": time.perf_counter() - started, "versions": versions(),
    }  # fmt: skip


def markdown(facts: dict[str, dict[str, dict[str, int]]]) -> str:
    """The table: how often which verdict was given."""
    verdicts = sorted({verdict for counts in facts["found"].values() for verdict in counts} - {"valid"})
    head = ["harmed", "sets", "still valid", *verdicts]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for kind, counts in facts["found"].items():
        cells = [kind, sum(counts.values()), counts.get("valid", 0), *(counts.get(verdict, 0) for verdict in verdicts)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--sets", default=6000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/data/harmed-updates.json"), show_default=True)
@click.option("--page", type=click.Path(path_type=Path), default=Path("docs/hostile.md"), show_default=True)
def main(sets: int, seed: int, out: Path, page: Path) -> None:
    """Judges so many sets, and writes JSON and page."""
    write_json(out, measured(sets, seed))
    text = page.read_text(encoding="utf-8").split(MARK)
    page.write_text(f"{text[0]}{MARK}\n{markdown(json.loads(out.read_text()))}{MARK}{text[2]}", encoding="utf-8")
    click.echo(page.read_text(encoding="utf-8").split(MARK)[1])


if __name__ == "__main__":
    main()
