"""What a release has finished: a record a stage, so that a killed one goes on behind the last of them and repeats none.

A record is bound to all that its stage was made from, and to the bytes that the stage left: where either differs it runs again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from unplug.core import STRICT, InputError, ReportError, json_sha256, read_dataclass, seconds, sha256_tree, write_json

T = TypeVar("T")
Say = Callable[[str], None]
FILE = ".stages.json"
"""Hidden: the other JSON files of a work folder are reports, and `unplug report` takes them all."""
MAX_BYTES = 2**22


@dataclass(frozen=True, kw_only=True)
class StageRecord:
    """One finished stage.

    Args:
        made_from: SHA-256 of all that decides its result.
        files: what it left, files or folders, by path from the work folder, and the SHA-256 of each.
        facts: JSON values that are in none of the files.
        seconds: wall time, when it ran.
    """

    made_from: str
    files: dict[str, str]
    facts: dict[str, Any]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class StageRecords:
    """``unplug-release-stages/1``: ``.stages.json`` in the work folder of a release."""

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-release-stages/1"] = "unplug-release-stages/1"
    stages: dict[str, StageRecord] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Left:
    """What a stage left behind.

    Args:
        files: files or folders.
        facts: JSON values that are in none of them.
        final: False where the next run shall try it again, say for a measurement that a busy machine spoilt.
    """

    files: Sequence[Path]
    facts: Mapping[str, Any] = field(default_factory=dict)
    final: bool = True


class Progress:
    """Runs the stages of a release, or finds that a run before this one has.

    Args:
        work: the release's work folder.
        common: what every stage is made from, JSON-ready.
        say: told of each stage.
        restart: forget what is finished.
        finished: told of each finished stage, also one of a run before this, with its record.
    """

    def __init__(
        self, work: Path, common: Mapping[str, Any], say: Say, *, restart: bool = False,
        finished: Callable[[str, StageRecord], object] = lambda _name, _record: None,
    ) -> None:  # fmt: skip
        self._work, self._common, self._say, self._finish = work, dict(common), say, finished
        self.seconds: dict[str, float] = {}
        """Wall time of each stage, of the run in which it ran."""
        self._records = StageRecords()
        if restart:
            (work / FILE).unlink(missing_ok=True)
        with contextlib.suppress(InputError):  # there is none, or it is not whole: then nothing is known to be finished
            self._records = read_dataclass(StageRecords, work / FILE, ReportError, max_bytes=MAX_BYTES)

    def tell(self, line: str) -> None:
        """One more line beside those of the stages."""
        self._say(line)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """A stage that is not recorded: what it makes is there at once, or not at all."""
        self._say(f"{name} ...")
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 2)
        self._say(f"{name}: {seconds(self.seconds[name])}")

    def stage(
        self, name: str, made_from: Mapping[str, Any], make: Callable[[], Left], load: Callable[[Mapping[str, Any]], T]
    ) -> T:
        """The result of a stage, read from what it left, now or in a run before this one.

        Args:
            name: what is said, and the key of its record.
            made_from: what decides the result, beside what is common to all stages; JSON-ready.
            make: runs it.
            load: reads the result; it is given the facts that `make` left.
        """
        if (found := self._finished(name, made_from)) is not None:
            self._say(f"{name}: finished by an earlier run, used again")
            self.seconds[name] = found.seconds
            self._finish(name, found)
            return load(found.facts)
        with self.timed(name):
            left = make()
        if not left.final:
            return load(left.facts)
        files = {os.path.relpath(path, self._work): sha256_tree(path)[0] for path in left.files}
        record = StageRecord(
            made_from=self._key(name, made_from), files=files, facts=dict(left.facts), seconds=self.seconds[name]
        )
        self._records = replace(self._records, stages={**self._records.stages, name: record})
        write_json(self._work / FILE, asdict(self._records))
        self._finish(name, record)
        return load(record.facts)

    def has(self, name: str, made_from: Mapping[str, Any]) -> bool:
        """Whether `stage` would find it finished."""
        return self._finished(name, made_from) is not None

    def _key(self, name: str, made_from: Mapping[str, Any]) -> str:
        return json_sha256({"stage": name, "common": self._common, "made_from": dict(made_from)})

    def _finished(self, name: str, made_from: Mapping[str, Any]) -> StageRecord | None:
        """The record of a stage that was made from the same, and whose files are as it left them."""
        found = self._records.stages.get(name)
        if found is None or found.made_from != self._key(name, made_from):
            return None
        for path, sha256 in found.files.items():
            try:
                if sha256_tree(self._work / path)[0] != sha256:
                    return None
            except InputError:
                return None
        return found
