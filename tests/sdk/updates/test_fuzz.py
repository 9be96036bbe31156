"""Update metadata harmed by the thousand: believed, or refused by a typed error (the page's reader: ``test_signed``)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.vectors.updates.harmed import CLAIM, ROLES, SEEN, Harmed, harmed_sets
from tests.vectors.updates.make import seen
from tests.vectors.updates.recipe import NOW

from unplug.core import InputError, peak_rss_bytes
from unplug.sdk.bundle import time_of
from unplug.sdk.updates import NotCurrent, Seen, check_updates, folder_reader, open_updates, write_seen

FEW, MANY = 150, 6000
MAX_GROWTH = 2**28
"""Bytes that reading any number of them may take beyond what tests took before."""
BEFORE = Seen(**{key: tuple(item) if isinstance(item, list) else item for key, item in seen(SEEN).items()})


def written(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def judged(item: Harmed, folder: Path) -> tuple[str, dict[str, object] | None]:
    """The verdict, and where it is valid the answer in the form of the corpus; as a reader of a folder has it."""
    metadata = folder / "metadata"
    metadata.mkdir(parents=True, exist_ok=True)
    for old in metadata.iterdir():
        old.unlink()
    for name, raw in item.files.items():
        (metadata / name).write_bytes(raw)
    now = time_of(NOW)
    assert now is not None
    try:
        try:
            found = check_updates(item.root, folder_reader(metadata), seen=BEFORE if item.seen else None, now=now)
            standing = found.standing(CLAIM["name"], CLAIM["release"], CLAIM["id"], CLAIM["bytes"], now=now)
        finally:
            assert {path.name: path.read_bytes() for path in metadata.iterdir()} == item.files
    except NotCurrent as refused:
        assert len(str(refused)) < 1100 and "\n" not in str(refused)
        return refused.verdict, None
    write_seen(folder / "seen.json", found.seen)
    answer = {
        "seen": json.loads(json.dumps(asdict(found.seen))), "until": written(found.until), "current": standing.current,
        "stops": written(standing.until),
    }  # fmt: skip
    return "valid", answer


def law(count: int, seed: int, folder: Path) -> Counter[str]:
    """Verdicts of so many sets; a publisher who keeps such a folder is told as well."""
    found: Counter[str] = Counter()
    before = peak_rss_bytes() or 0
    for item in harmed_sets(count, seed):
        verdict, _ = judged(item, folder)
        found[verdict] += 1
        try:
            open_updates(folder, now=time_of(NOW))
        except (NotCurrent, InputError) as error:
            assert len(str(error)) < 1100 and "\n" not in str(error)
    assert {path.name for path in folder.iterdir()} <= {"metadata", "seen.json"}
    assert (peak_rss_bytes() or 0) - before < MAX_GROWTH
    return found


def test_harmed_metadata_is_believed_or_refused_by_a_typed_error(tmp_path: Path) -> None:
    found = law(FEW, 1, tmp_path)
    assert found["format"] > FEW // 10 and found["valid"] > 0 and len(found) > 4


@pytest.mark.slow
def test_thousands_of_harmed_sets_in_bounded_memory(tmp_path: Path) -> None:
    found = law(MANY, 0, tmp_path)
    assert found["format"] > MANY // 10 and found["valid"] > 100 and len(found) > 8


def test_harm_reaches_every_file(tmp_path: Path) -> None:
    """What is harmed before it is signed is refused by what it says, not by a signature, wherever it stands."""
    refused = {role: Counter[str]() for role in ROLES}
    for item in harmed_sets(FEW, 3):
        kind, _, role = item.what.partition(", ")
        if kind == "values signed":
            refused[role][judged(item, tmp_path)[0]] += 1
    assert all(found["format"] > 0 for found in refused.values()), refused
