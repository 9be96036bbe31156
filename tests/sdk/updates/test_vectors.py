"""The corpus of ``tests/vectors/updates``: one verdict each, here and, of the four files, in python-tuf's client."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.vectors.updates.make import corpus
from tuf.api.exceptions import DownloadError, DownloadHTTPError, RepositoryError
from tuf.ngclient import FetcherInterface, Updater

from unplug.sdk.bundle import time_of
from unplug.sdk.updates import VERDICTS, NotCurrent, Seen, Standing, Updates, check_updates

FOLDER = Path(__file__).parents[2] / "vectors" / "updates"
CASES = sorted(FOLDER.glob("*.json"))


def time(text: str) -> datetime:
    found = time_of(text)
    assert found is not None
    return found


def files_of(case: dict[str, Any], key: str = "files") -> dict[str, bytes]:
    files = {name: base64.b64decode(text) for name, text in case[key].items()}
    return {name: raw.ljust(case["pad"].get(name, 0)) for name, raw in files.items()}


def root_of(case: dict[str, Any]) -> bytes:
    """The root that is trusted: bytes, or the name of one of the files."""
    named = files_of(case).get(case["root"])
    return base64.b64decode(case["root"]) if named is None else named


def seen_of(case: dict[str, Any]) -> Seen | None:
    said = case["seen"]
    return said and Seen(**{key: tuple(item) if isinstance(item, list) else item for key, item in said.items()})


def answer(case: dict[str, Any]) -> tuple[Updates, Standing]:
    files, now, said = files_of(case), time(case["now"]), case["bundle"]
    asked: list[tuple[str, int]] = []

    def read(name: str, most: int) -> bytes | None:
        asked.append((name, most))
        return files[name][: most + 1] if name in files else None

    found = check_updates(root_of(case), read, seen=seen_of(case), now=now)
    assert {name for name, _ in asked} <= {*files, f"{found.seen.root + 1}.root.json"}
    return found, found.standing(said["name"], said["release"], said["id"], said["bytes"], now=now)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case_has_its_verdict(path: Path) -> None:
    case = json.loads(path.read_text())
    try:
        updates, standing = answer(case)
    except NotCurrent as refused:
        assert refused.verdict == case["verdict"], str(refused)
        return
    assert case["verdict"] == "valid"
    wanted = case["answer"]
    assert json.loads(json.dumps(asdict(updates.seen))) == wanted["seen"]
    assert (updates.until, standing.current) == (time(wanted["until"]), wanted["current"])
    assert standing.until == (wanted["stops"] and time(wanted["stops"]))


def test_what_was_seen_is_what_the_files_before_gave() -> None:
    checked = 0
    for case in (json.loads(path.read_text()) for path in CASES):
        if case["seen"] is not None:
            before = files_of(case, "before")
            found = check_updates(before["1.root.json"], lambda name, _, files=before: files.get(name), now=time(case["now"]))
            assert found.seen == seen_of(case)
            checked += 1
    assert checked > 10


class Served(FetcherInterface):
    """What python-tuf's client fetches."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def _fetch(self, url: str) -> Iterator[bytes]:
        name = url.rpartition("/")[2]
        if name not in self.files:
            raise DownloadHTTPError(name, 404)
        return iter([self.files[name]])


def visit(folder: Path, root: bytes, files: Mapping[str, bytes], now: datetime) -> None:
    """One visit of python-tuf's client, which keeps what it saw in a folder."""
    updater = Updater(str(folder), "http://updates", fetcher=Served(files), bootstrap=root)
    updater._trusted_set.reference_time = now  # its clock cannot be given
    updater.refresh()
    updater.get_targetinfo("face-age/manifest.json")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_python_tufs_client_judges_the_files_alike(path: Path, tmp_path: Path) -> None:
    case = json.loads(path.read_text())
    now, root = time(case["now"]), root_of(case)
    if case["seen"] is not None:
        before = files_of(case, "before")
        visit(tmp_path, before["1.root.json"], before, now)
    try:
        visit(tmp_path, root, files_of(case), now)
        found = "accepts"
    except (RepositoryError, DownloadError):
        found = "refuses"
    assert found == case["tuf"]


def test_python_tuf_is_never_the_stricter_one() -> None:
    for case in (json.loads(path.read_text()) for path in CASES):
        assert case["tuf"] == "accepts" or case["verdict"] != "valid", case["what"]


def test_the_corpus_is_what_its_script_makes_and_shows_every_verdict() -> None:
    made = corpus()
    assert made == {path.name: path.read_text() for path in CASES}
    assert {json.loads(text)["verdict"] for text in made.values()} == {*VERDICTS, "valid"}
    assert sum(len(text) for text in made.values()) < 2 * 2**20
    assert time("2026-12-01T12:00:00Z").tzinfo is UTC
