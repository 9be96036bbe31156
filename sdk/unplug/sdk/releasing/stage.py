"""A stage of a release, and the record that it is finished: a killed release goes on after the
last and repeats none.

A record is bound to all that its stage was made from, and to the bytes that the stage left: where
either differs it runs again.
"""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from unplug.core import (
    STRICT,
    InputError,
    ReportError,
    json_sha256,
    read_dataclass,
    seconds,
    sha256_tree,
    write_json,
)
from unplug.sdk.learning.training import describe_device

from .evidence import ReleaseEvidence
from .material import ReleaseMaterial
from .timings import Timed, remember

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
        files: the files or folders that it left, by path from the work folder, with the SHA-256 of
            each.
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
    """What a stage left.

    Args:
        files: files or folders.
        facts: JSON values that are in none of them.
        final: False where the next run shall try it again, say for a measurement that a busy
            machine spoilt.
        result: the result itself, where reading it again would only repeat what making it has
            checked.
    """

    files: Sequence[Path]
    facts: Mapping[str, Any] = field(default_factory=dict)
    final: bool = True
    result: Any = None


Entered = Literal["step", "audit"]
"""What a stage is in a ledger."""
Taken = tuple[float | None, str]
"""Seconds that a stage takes, None where nobody knows, and how they are known."""
UNKNOWN: Taken = None, "not timed here yet"


class Stage(ABC):
    """One stage of a release, from top to bottom: whether it is wanted, what it is made from, how
    it is made and loaded.

    A new stage is one such object in `STAGES`: resuming, the plan, the ledger and the report go by
    it alone.
    """

    gives: ClassVar[str]
    """Under which name the others find its result in the evidence."""
    called: ClassVar[str | None] = None
    """What `name` is where it depends on nothing and is another word than `gives`."""
    leaves: ClassVar[str | None] = None
    """Its file in the work folder; one of an earlier release is removed where the stage is not
    wanted.
    """
    entry: ClassVar[Entered] = "step"
    costs_by: ClassVar[tuple[str, ...]] = ()
    """Fields of `ReleaseConfig` that decide how long it takes, besides the model and its data."""
    scales: ClassVar[bool] = True
    """Whether its time goes with the number of samples."""
    serves: ClassVar[Stage | None] = None
    """The stage that alone reads its result: where that one is finished, this one need not run."""

    def name(self, material: ReleaseMaterial) -> str:
        """What is said of it, and the key of its record."""
        return self.called or self.gives

    def wanted(self, material: ReleaseMaterial) -> bool:
        """Whether this release has it."""
        return True

    def check(self, material: ReleaseMaterial) -> None:
        """Raises what can be refused before anything is computed."""
        return

    def takes(self, material: ReleaseMaterial) -> Taken | None:
        """How long it takes, of a stage that is wanted; None where it does nothing that is worth a
        line of the plan.
        """
        return UNKNOWN

    def kind(self, material: ReleaseMaterial) -> dict[str, Any]:
        """What two runs of it have in common that take as long as each other."""
        config = material.config
        return {
            "stage": self.gives,
            "model": material.original.model_type,
            "recipe": material.task.recipe.to_dict(),
            "design": material.design,
            "device": describe_device(material.device),
            **{name: getattr(config, name) for name in self.costs_by},
        }

    def recorded(self, material: ReleaseMaterial) -> bool:
        """Whether it makes anything; else `load` has its result at once."""
        return True

    @abstractmethod
    def made_from(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Mapping[str, Any]:
        """What decides the result, besides what is common to all stages; JSON-ready."""

    @abstractmethod
    def make(self, material: ReleaseMaterial, evidence: ReleaseEvidence) -> Left:
        """Runs it."""

    def load(
        self, material: ReleaseMaterial, evidence: ReleaseEvidence, facts: Mapping[str, Any]
    ) -> Any:
        """The result, read from what `make` left, with the facts that it gave; by default `leaves`
        is all of it.
        """
        assert self.leaves is not None
        return self.read(material.work / self.leaves)

    @staticmethod
    def read(path: Path) -> Any:
        """The result in the file that the stage leaves; None where nobody but the report reads
        it.
        """
        return None

    def remarks(self, result: Any) -> str | None:
        """What else must be said of the result, or None."""
        return None

    def published(self, result: Any) -> dict[str, Any]:
        """Reports for the bundle, name to JSON value."""
        return {}


class StageProgress:
    """Runs the stages of a release, or finds that an earlier run has done so.

    Args:
        work: the release's work folder.
        common: the facts that every stage is made from, JSON-ready.
        say: told of each stage.
        restart: forget what is finished.
        finished: told of each finished stage, also one of a run before this, with its record.
    """

    def __init__(
        self,
        work: Path,
        common: Mapping[str, Any],
        say: Say,
        *,
        restart: bool = False,
        finished: Callable[[str, StageRecord, Entered], object] = lambda *_: None,
    ) -> None:
        self._work, self._common, self._say, self._finish = work, dict(common), say, finished
        self.seconds: dict[str, float] = {}
        """Wall time of each stage, of the run in which it ran."""
        self.ran: set[str] = set()
        """Stages that this run made."""
        self._records = StageRecords()
        if restart:
            (work / FILE).unlink(missing_ok=True)
        with contextlib.suppress(
            InputError
        ):  # there is none, or it is not whole: then nothing is known to be finished
            self._records = read_dataclass(
                StageRecords, work / FILE, ReportError, max_bytes=MAX_BYTES
            )

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """A stage that is not recorded: what it makes is there at once, or not at all."""
        self._say(f"{name} ...")
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 2)
        self._say(f"{name}: {seconds(self.seconds[name])}")

    def stage(
        self,
        name: str,
        made_from: Mapping[str, Any],
        make: Callable[[], Left],
        load: Callable[[Mapping[str, Any]], T],
        entry: Entered = "step",
    ) -> T:
        """The result of a stage, read from what it left, now or in a run before this one.

        Args:
            name: the stage's name, shown and used as the key of its record.
            made_from: the facts that decide the result, besides those common to all stages;
                JSON-ready.
            make: runs it.
            load: reads the result; it is given the facts that `make` left.
            entry: the entry for a ledger.
        """
        if (finished := self._finished(name, made_from)) is not None:
            self._say(f"{name}: finished by an earlier run, used again")
            self.seconds[name] = finished.seconds
            self._finish(name, finished, entry)
            return load(finished.facts)
        with self.timed(name):
            left = make()
        self.ran.add(name)
        if not left.final:
            return load(left.facts)
        files = {os.path.relpath(path, self._work): sha256_tree(path)[0] for path in left.files}
        record = StageRecord(
            made_from=self._key(name, made_from),
            files=files,
            facts=dict(left.facts),
            seconds=self.seconds[name],
        )
        self._records = replace(self._records, stages={**self._records.stages, name: record})
        write_json(self._work / FILE, asdict(self._records))
        self._finish(name, record, entry)
        return load(record.facts) if left.result is None else left.result

    def has(self, name: str, made_from: Mapping[str, Any]) -> bool:
        """Whether `stage` would find it finished."""
        return self._finished(name, made_from) is not None

    def _key(self, name: str, made_from: Mapping[str, Any]) -> str:
        return json_sha256({"stage": name, "common": self._common, "made_from": dict(made_from)})

    def _finished(self, name: str, made_from: Mapping[str, Any]) -> StageRecord | None:
        """The record of a stage that was made from the same, and whose files are as it left
        them.
        """
        record = self._records.stages.get(name)
        if record is None or record.made_from != self._key(name, made_from):
            return None
        for path, sha256 in record.files.items():
            try:
                if sha256_tree(self._work / path)[0] != sha256:
                    return None
            except InputError:
                return None
        return record

    def run(
        self, stage: Stage, material: ReleaseMaterial, evidence: ReleaseEvidence
    ) -> ReleaseEvidence:
        """The evidence with the result of a stage, where it is wanted."""
        if not stage.wanted(material):
            if stage.leaves is not None:
                (self._work / stage.leaves).unlink(missing_ok=True)
            return evidence
        name = stage.name(material)
        if not stage.recorded(material):
            with self.timed(name):
                return evidence.plus(stage.gives, stage.load(material, evidence, {}))
        served = stage.serves
        if served is not None and self.has(
            served.name(material), served.made_from(material, evidence)
        ):
            return evidence
        result = self.stage(
            name,
            stage.made_from(material, evidence),
            lambda: stage.make(material, evidence),
            lambda facts: stage.load(material, evidence, facts),
            stage.entry,
        )
        if name in self.ran:
            timed = Timed(seconds=self.seconds[name], samples=len(material.dataset))
            remember(stage.kind(material), timed)
        if (more := stage.remarks(result)) is not None:
            self._say(more)
        return evidence.plus(stage.gives, result)
