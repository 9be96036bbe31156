"""Answers of models that were never trained: what they say is planted, so that what an evaluation
finds is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.sdk.conftest import World

from unplug.plugins import AGE_EDGES
from unplug.sdk.evidence.assurance import Answers
from unplug.sdk.evidence.assurance.people import People

EDGES = tuple(map(float, AGE_EDGES))


def crowd(
    ages: Sequence[float] | np.ndarray,
    attributes: Mapping[str, Sequence[str]] | None = None,
    persons: Any = None,
    **changes: Any,
) -> People:
    """People of these ages, each in one picture where nothing else is said."""
    number = len(ages)
    facts: dict[str, Any] = {
        "data": {"spec": "planted:", "digest": "0" * 64, "samples": number, "unusable": 0},
        "apart": "held out",
        "part": "test",
        "subjects_apart": True,
        "ids": tuple(f"p{index}" for index in range(number)),
        "age_N": np.asarray(ages, dtype=np.float64),
        "ranges": None,
        "listed": number,
        "failures": (),
        "left_out": 0,
        "without_age": 0,
        "person_N": np.arange(number) if persons is None else np.asarray(persons),
        "attributes": {name: tuple(values) for name, values in (attributes or {}).items()},
    }
    return People(**{**facts, **changes})


def said(
    people: People, estimate_N: np.ndarray, name: str = "planted", edges: tuple[float, ...] = EDGES
) -> Answers:
    """A model that says these ages, with groups that say the same, a little blurred."""
    middle_G = np.array([(low + high) / 2 for low, high in itertools.pairwise(edges)])
    logits_NG = -0.5 * ((middle_G[None, :] - np.asarray(estimate_N)[:, None]) / 4.0) ** 2
    return Answers(
        name=name,
        sha256=name.encode().hex().ljust(64, "0")[:64],
        checkpoint_sha256="1" * 64,
        target=None,
        precision=None,
        runtime="planted",
        role=None,
        parameters=1000,
        bytes=None,
        edges=edges,
        logits_NG=logits_NG,
        expected_age_N=np.asarray(estimate_N, dtype=np.float64),
        seconds=0.001,
        people=people,
    )


def save_pictures(world: World, names: Sequence[str], folder: Path, *, renamed: bool = True) -> str:
    """The spec of a copy of some pictures of the small world, under new names or their own."""
    lines = ["path,age,subject"]
    for number, name in enumerate(names):
        index = int(world.dataset.indices([name])[0])
        sample = world.dataset.samples[index]
        path, who = (f"new-{number}.png", "") if renamed else (name, sample.subject)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(world.dataset.pixels([index])[0]).save(folder / path, format="PNG")
        lines.append(f"{path},{sample.age},{who}")
    (folder / "table.csv").write_text("\n".join(lines))
    return f"csv:{folder / 'table.csv'}"
