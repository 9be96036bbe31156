"""Forget files: which samples or subjects a deletion request names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unplug.core import DataError

from .dataset import Dataset
from .split import Split

MAX_BYTES = 64 * 2**20
SUBJECT = "subject:"


def read_forget_file(path: Path, dataset: Dataset) -> tuple[str, ...]:
    """Sample ids that a forget file names.

    Args:
        path: text, a sample id or ``subject:NAME`` per line (``#`` starts a comment), or JSON with the lists
            ``samples`` and ``subjects``.
        dataset: what the names refer to.

    Returns:
        Ids in the data's order, without repeats.

    Raises:
        DataError: unreadable, empty, or naming samples or subjects that the data does not hold.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(str(path), "too large for a forget file", "List ids, one a line")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise DataError(str(path), reason, "Give a text file with one sample id or subject:NAME a line") from error
    names = _parse(text, path)
    return resolve_names(names, dataset, str(path))


def _parse(text: str, path: Path) -> list[str]:
    if text.lstrip().startswith("{"):
        try:
            raw = json.loads(text)
            return [*map(str, raw.get("samples", [])), *(f"{SUBJECT}{name}" for name in raw.get("subjects", []))]
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(
                str(path), f"not a valid request ({error})", 'Write {"samples": [...], "subjects": [...]}'
            ) from error
    lines = (line.split(" #")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def resolve_names(names: Sequence[str], dataset: Dataset, where: str) -> tuple[str, ...]:
    """Sample ids behind sample ids and ``subject:NAME`` lines, in the data's order; `where` opens the error message."""
    if not names:
        raise DataError(where, "it names nothing", "List at least one sample id or subject:NAME")
    known = set(dataset.ids)
    subjects: dict[str, list[str]] = {}
    for sample in dataset.samples:
        if sample.subject is not None:
            subjects.setdefault(sample.subject, []).append(sample.id)
    wanted: set[str] = set()
    unknown: list[str] = []
    for name in names:
        if name in known:
            wanted.add(name)
        elif name.startswith(SUBJECT) and name[len(SUBJECT) :].strip() in subjects:
            wanted.update(subjects[name[len(SUBJECT) :].strip()])
        else:
            unknown.append(name)
    if unknown:
        listed = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
        raise DataError(where, f"{len(unknown)} unknown names ({listed})", "`unplug data inspect SPEC --ids` lists the ids")
    return tuple(name for name in dataset.ids if name in wanted)


def pick_forget(dataset: Dataset, split: Split, *, fraction: float, seed: int) -> tuple[str, ...]:
    """A random forget set: whole subjects where they are known, else single samples.

    Args:
        dataset: N samples.
        split: its ``train`` set is drawn from, without those it forgets already.
        fraction: of the train set, in (0, 1); at least one subject or sample is taken.
        seed: of the draw.

    Returns:
        Lines for a forget file: ``subject:NAME`` or sample ids.
    """
    if not 0.0 < fraction < 1.0:
        raise DataError(f"fraction {fraction}", "out of range", "Use for example 0.02")
    by_id = {sample.id: sample for sample in dataset.samples}
    groups: dict[str, int] = {}
    for name in split.retain:
        subject = by_id[name].subject
        key = name if subject is None else f"{SUBJECT}{subject}"
        groups[key] = groups.get(key, 0) + 1
    order = np.random.default_rng([seed, 77]).permutation(len(groups))
    names, wanted, taken = sorted(groups), max(1, round(fraction * len(split.train))), 0
    picked: list[str] = []
    for index in order:
        if taken >= wanted:
            break
        picked.append(names[index])
        taken += groups[names[index]]
    return tuple(sorted(picked))
