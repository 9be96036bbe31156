"""Erasure methods on taught concepts, side by side: erase, audit, one JSON after every cell."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unplug.core import read_json, write_json
from unplug.sdk import journey
from unplug.sdk.forgetting.erasing import Concept

ATTACKS = ("named", "within", "control-image", "inversion", "inverse-matrix", "relearn")


@dataclass(frozen=True, kw_only=True)
class TableOrder:
    """What is compared.

    Args:
        base: that draws the concepts.
        concepts: to erase, each by itself.
        methods: names of ``unplug list erasures``, with ``+plugin`` behind one whose plugin forgets
            as well.
        oracles: concept to a base that never saw it.
        plugin: that control images are tried through.
        seeds: of erasures and attacks.
        pictures: a cell.
        attacks: names.
        beside: words whose rates every cell keeps, but for its own concept.
        minutes: after which no cell is begun that is not there yet; None: all are.
        device: where to compute.
    """

    base: str
    concepts: tuple[str, ...]
    methods: tuple[str, ...]
    oracles: dict[str, str]
    plugin: str | None
    seeds: tuple[int, ...]
    pictures: int
    attacks: tuple[str, ...] = ATTACKS
    beside: tuple[str, ...] = ()
    minutes: float | None = None
    device: str = "auto"


def cells(order: TableOrder, out: Path, say: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Every cell, those that an ended run finished from their files.

    Args:
        order: see `TableOrder`.
        out: folder of erased bases and of one JSON a cell.
        say: takes a line a row.
    """
    every = itertools.product(order.seeds, order.concepts, order.methods)
    started = time.monotonic()
    for seed, words, method in every:
        name = f"{words.replace(' ', '-')}-{method}-{seed}"
        path = out / f"{name}.json"
        if not path.is_file():
            if order.minutes is not None and time.monotonic() - started > 60 * order.minutes:
                say(f"{words}: {method}, seed {seed} is left for the next run")
                continue
            say(f"{words}: {method}, seed {seed}")
            write_json(path, _cell(order, out / name, words, method, seed, say))
        yield {"concept": words, "method": method, "seed": seed, **read_json(path)}


def _cell(
    order: TableOrder, folder: Path, words: str, method: str, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    name, _, with_plugin = method.partition("+")
    plugins = [order.plugin] if with_plugin and order.plugin is not None else []
    done = journey.erase(
        order.base,
        [Concept(words=words)],
        out=folder,
        method=name,
        plugins=plugins,
        seed=seed,
        device=order.device,
        check=False,
    )
    report = journey.audit_erasure(
        folder,
        work=folder.parent / "rows",
        oracle=order.oracles.get(words),
        seed=seed,
        device=order.device,
        say=say,
        attacks=order.attacks,
        beside=tuple(other for other in order.beside if other != words),
        plugin=order.plugin,
        pictures=order.pictures,
    )
    return {"erasure": done, "audit": asdict(report)}


def row_of(cell: dict[str, Any], attacks: Sequence[str]) -> dict[str, Any]:
    """What a table shows of a cell: rates of the erased base with their upper ends."""
    (concept,) = cell["audit"]["concepts"]
    found = {(row["attack"], row["form"], row["role"]): row["rate"] for row in concept["rows"]}
    shown = {
        f"{attack} {form}" if form != "as it is" else attack: rate
        for (attack, form, role), rate in found.items()
        if role == "erased" and (not attacks or attack.split()[0] in attacks)
    }
    done, apart = cell["erasure"], cell["audit"].get("frechet")
    return {
        **shown,
        "seconds": done["cost"]["wall_s"],
        "bytes": done["map"]["bytes"] if done["map"] else done["changed"]["bytes"],
        "retained_db": cell["audit"]["retained_db"],
        "frechet": apart["erased"] if apart else None,
        "frechet_original": apart["original"] if apart else None,
        "claim": cell["audit"]["claim"],
    }
