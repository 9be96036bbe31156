"""Kills a call before every change that it makes to a file, and cuts its power at each; what is
left is held to one law.

The result is the older or the new one, whole; the same call again succeeds and leaves the bits of a
run that nobody killed; and nothing else lies around then. For power cuts one run is recorded, with
what was synced when, and the worst folders that can be left at each change are built
(`lost_writes`). Where the call had ended, only the new result will do.

What a command tells a ledger is a story: what is there after a kill must be its beginning, and
after the rerun all of it.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from unplug.core import InputError, UnplugError, processes, versions

from .file_changes import KILLED, Change, ForkedWorker, Watch, in_fork, use_folders
from .lost_writes import LOSSES, RANDOM, Disk, Tree, build, digest

Call = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is killed.

    Args:
        name: of the row.
        before: calls that make what it finds; like all of them they work in the current folder.
        command: what is killed; it writes ``out``, and raises `SystemExit` or returns.
        identify: which result lies at a path, as text; raises where it is not whole.
        every: only each so many points are taken, where one takes long.
        tries: how often the command may be run again until it ends with 0: a release refuses
            timings of a busy machine.
        replay: kills are not carried out but computed as power cuts are, from what lay there when
            nobody killed it.
        refusable: the result is more than one file, and may be one that its reader refuses in one
            line.
        story: what is on record in the folder, a line an entry; raises where it is not whole. None:
            nothing is.
    """

    name: str
    before: Sequence[Call]
    command: Call
    identify: Callable[[Path], str]
    every: int = 1
    tries: int = 1
    replay: bool = False
    refusable: bool = False
    story: Callable[[Path], str] | None = None


@dataclass(frozen=True, kw_only=True)
class Point:
    """What came of one kill or power cut: which result was there, and what is not well or ""."""

    number: int
    loss: str
    found: str
    wrong: str


class Walk:
    """A scenario in a folder of its own.

    Args:
        scenario: what is run.
        place: an empty folder.
    """

    def __init__(self, scenario: Scenario, place: Path) -> None:
        self.scenario, self.place = scenario, place
        self.template, self.root, self.log = place / "template", place / "root", place / "log"
        self.template.mkdir()
        for call in (lambda: None, *scenario.before):
            if self._run(self.template, call) != 0:
                raise RuntimeError(f"{scenario.name}, before it: {self.said()}")
        self.older = self.identify(self.template)
        self._fresh()
        watch = {"sqlite": scenario.story is not None}
        if (
            in_fork(
                lambda: _recorded(scenario.command, self.root, place / "recorded", watch), self.log
            )
            != 0
        ):
            raise RuntimeError(f"{scenario.name}: {self.said()}")
        self.changes: list[Change]
        self.worst: list[tuple[int, str, Tree]]
        self.worst = pickle.loads((place / "recorded").read_bytes())  # noqa: S301 (of this moment, our own)
        self.end = max(number for number, _, _ in self.worst)
        lines = (place / "recorded.changes").read_text().splitlines()
        self.changes = [Change(**found) for _, found in sorted(json.loads(line) for line in lines)]
        self.new, self.names, self.story = (
            self.identify(self.root),
            _names(self.root),
            self.told(self.root),
        )
        if self.new == self.older or self.new.startswith("broken"):
            raise RuntimeError(
                f"{scenario.name}: the new result ({self.new}) cannot be told from the older one"
            )

    def copy(self, place: Path) -> Walk:
        """The same in another folder, for another process."""
        shutil.copytree(self.template, place / "template")
        copied = Walk.__new__(Walk)
        copied.__dict__ |= (
            self.__dict__
            | {name: place / name for name in ("template", "root", "log")}
            | {"place": place}
        )
        return copied

    def _fresh(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root)

    def _run(self, root: Path, call: Call, **watch: Any) -> int:
        return in_fork(lambda: _run_in(root, call, watch), self.log)

    def said(self) -> str:
        """The last line of what the last process said."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].replace(str(self.place), "")[:300] if lines else ""

    def identify(self, root: Path) -> str:
        """Which result is there, or "none", or "refused" where its reader may; what is not whole
        begins with "broken".
        """
        if not (root / "out").exists():
            return "none"

        def tell() -> None:
            try:
                print(self.scenario.identify(root / "out"))
            except UnplugError as error:
                print("refused" if self.scenario.refusable else f"broken: {error}")

        return self.said() if in_fork(tell, self.log) == 0 else f"broken: {self.said()}"

    def told(self, root: Path) -> str:
        """The story of a folder; what is not whole begins with "broken"."""
        story, lines = self.scenario.story, self.place / "story"
        if story is None:
            return ""
        code = in_fork(lambda: lines.write_text(story(root)), self.log)
        return lines.read_text() if code == 0 else f"broken: {self.said()}"

    def kill(self, number: int) -> Point:
        """Kills the command before a change, and looks."""
        self._fresh()
        code = self._run(
            self.root, self.scenario.command, kill_at=number, sqlite=self.scenario.story is not None
        )
        if code != KILLED:
            return Point(
                number=number,
                loss="",
                found="",
                wrong=f"it was not killed, exit {code}: {self.said()}",
            )
        return self._judge(number, "", (self.older, self.new))

    def lasts(self) -> float:
        """Seconds that a run takes which nobody watches or kills."""
        self._fresh()
        started = time.perf_counter()
        if in_fork(lambda: _run_in(self.root, self.scenario.command, None), self.log) != 0:
            raise RuntimeError(f"{self.scenario.name}: {self.said()}")
        return time.perf_counter() - started

    def kill_after(self, seconds: float, number: int) -> Point:
        """Kills the command after a time, wherever it is then, and looks."""
        self._fresh()
        code = in_fork(
            lambda: _run_in(self.root, self.scenario.command, None), self.log, kill_after=seconds
        )
        return self._judge(number, "", (self.older, self.new) if code == KILLED else (self.new,))

    def cut(self, number: int, loss: str, tree: Tree) -> Point:
        """Looks at what a power cut left."""
        shutil.rmtree(self.root, ignore_errors=True)
        build(tree, self.root)
        return self._judge(
            number, loss, (self.new,) if number == self.end else (self.older, self.new)
        )

    def _judge(self, number: int, loss: str, allowed: tuple[str, ...]) -> Point:
        result = self.identify(self.root)
        wrong = (
            ""
            if result in (*allowed, "refused")
            else f"the result is {'gone' if result == 'none' else result}"
        )
        if not self.story.startswith(story := self.told(self.root)):
            wrong = wrong or f"the record is not the beginning of what it is to be: {story[-200:]}"
        for _ in range(self.scenario.tries):
            if (code := self._run(self.root, self.scenario.command)) == 0:
                break
        if code != 0:
            wrong = wrong or f"the rerun ended with {code}: {self.said()}"
        elif (again := self.identify(self.root)) != self.new:
            wrong = wrong or f"the rerun's result is another one: {again}"
        elif (story := self.told(self.root)) != self.story:
            wrong = wrong or f"the rerun's record is another one: {story[-200:]}"
        elif (names := _names(self.root)) != self.names:
            wrong = wrong or f"names differ: {sorted(names ^ self.names)[:5]}"
        word = (
            result
            if result == "none"
            else {self.new: "new", self.older: "older"}.get(result, result)
        )
        return Point(number=number, loss=loss, found=word, wrong=wrong)


def _run_in(root: Path, call: Call, watch: dict[str, Any] | None) -> None:
    use_folders(root)
    with forked_workers():
        if watch is not None:
            Watch(root, **watch)
        call()


def forked_workers() -> AbstractContextManager[object]:
    """Child processes are forks of this one for as long as it lasts."""
    stand_in = SimpleNamespace(
        Popen=ForkedWorker, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired
    )
    return mock.patch.object(processes, "subprocess", stand_in)


def _recorded(call: Call, root: Path, written: Path, watch: dict[str, Any]) -> None:
    """Runs a call and writes its changes, and the different folders that power cuts would leave at
    each of them.
    """
    this_process, last = os.getpid(), 0
    worst: list[tuple[int, str, Tree]] = []
    seen: set[tuple[bool, str]] = set()
    disk = Disk(root)

    def look(number: int) -> None:
        disk.look()
        for loss in ("", *LOSSES):
            tree = disk.after(loss)
            if (key := (loss == "", digest(tree))) not in seen:
                seen.add(key)
                worst.append((number, loss, tree))

    def before(number: int, change: Change) -> None:
        nonlocal last
        with written.with_suffix(".changes").open("a") as lines:
            lines.write(json.dumps([number, asdict(change)]) + "\n")
        if change.event == "sqlite.write":
            disk.written_in_place(Path(change.path))
        if (
            os.getpid() == this_process
        ):  # what children leave is seen at the next change of this process
            last = number
            look(number)

    try:
        _run_in(
            root,
            call,
            {**watch, "before": before, "after_sync": lambda path: disk.synced(Path(path))},
        )
    except SystemExit as ended:
        if ended.code:
            raise
    seen.clear()  # the end is looked at in any case: the call has told of its result
    look(last + 1)
    written.write_bytes(pickle.dumps(worst))


def _names(root: Path) -> set[str]:
    return {RANDOM.sub("", path.relative_to(root).as_posix()) for path in root.rglob("*")}


Task = Callable[["Walk"], list[Point]]


def begun(scenario: Scenario, place: Path) -> tuple[Walk, list[Point]]:
    """The walk in a folder, and what it found so far: made new, or taken up where it was stopped,
    if by the same versions.
    """
    kept = place / "walk"
    if kept.is_file():
        walk, state = Walk.__new__(Walk), pickle.loads(kept.read_bytes())  # noqa: S301 (our own)
        if (was := state.pop("versions")) != versions():  # they stand in what is compared
            raise InputError(
                str(place),
                f"the walk there is of other versions ({was['git']})",
                "Choose another --place",
            )
        walk.__dict__ |= state | {"scenario": scenario}
        return walk, [point for path in place.glob("*.points") for point in _read(path)]
    shutil.rmtree(place, ignore_errors=True)
    (place / "0").mkdir(parents=True)
    walk = Walk(scenario, place / "0")
    half = place / "half"
    state = {name: value for name, value in walk.__dict__.items() if name != "scenario"}
    half.write_bytes(pickle.dumps({**state, "versions": versions()}))
    half.replace(kept)
    return walk, []


def in_shards(
    tasks: Sequence[Task], walks: Sequence[Walk], place: Path, minutes: float
) -> list[Point]:
    """The points of the tasks that are begun in time, each shard in a process with a walk of its
    own; kept for `begun`.
    """
    until, pids = time.monotonic() + 60.0 * minutes, []
    for number, walk in enumerate(walks):
        pid = os.fork()
        if pid == 0:
            with (place / f"{os.getpid()}.points").open("a") as lines:
                for task in tasks[number :: len(walks)]:
                    if time.monotonic() > until:
                        break
                    lines.write("".join(json.dumps(asdict(point)) + "\n" for point in task(walk)))
                    lines.flush()
            os._exit(0)
        pids.append(pid)
    for pid, walk in zip(pids, walks, strict=True):
        if os.waitpid(pid, 0)[1] != 0:
            raise RuntimeError(f"a shard of {walk.scenario.name} ended: {walk.said()}")
    return [point for pid in pids for point in _read(place / f"{pid}.points")]


def _read(path: Path) -> list[Point]:
    """The whole lines of a file of points."""
    lines = path.read_text().splitlines(keepends=True)
    return [Point(**json.loads(line)) for line in lines if line.endswith("\n")]


def _tasks(
    walk: Walk, taken: Sequence[tuple[int, str, Tree]], done: set[tuple[int, str]]
) -> list[Task]:
    """What is still to be judged; what lay there alike, of a kill or of a power cut, once."""
    alike: dict[tuple[str, bool], list[tuple[int, str, Tree]]] = {}
    for item in taken:
        if item[:2] not in done:
            alike.setdefault((digest(item[2]), item[0] == walk.end), []).append(item)

    def task(walk: Walk, items: list[tuple[int, str, Tree]]) -> list[Point]:
        point = walk.cut(*items[0])
        return [replace(point, number=number, loss=loss) for number, loss, _ in items]

    return [partial(task, items=items) for items in alike.values()]


def walk_all(
    scenario: Scenario, place: Path, workers: int = 1, minutes: float = math.inf
) -> dict[str, Any]:
    """Every kill and every power cut of a scenario: counts, and each point at which something is
    not well.

    Args:
        scenario: what is killed.
        place: a folder to be, or one of a walk that was stopped, which goes on.
        workers: processes that walk at the same time.
        minutes: no point is begun after them; the row says how many are left.
    """
    started = time.perf_counter()
    first, points = begun(scenario, place)
    done = {(point.number, point.loss) for point in points}
    replayed, cuts = (
        [item for item in first.worst if (item[1] == "") is killed] for killed in (True, False)
    )
    last = [item for item in cuts if item[0] == first.end]
    worst = [
        *last,
        *(replayed if scenario.replay else [])[:: scenario.every],
        *cuts[: -len(last) : scenario.every],
    ]
    real = range(0, 0 if scenario.replay else len(first.changes), scenario.every)
    kills: list[Task] = [
        partial(_killed, number=number) for number in real if (number, "") not in done
    ]
    walks = [first]
    for number in range(1, workers):
        shutil.rmtree(place / str(number), ignore_errors=True)
        walks.append(first.copy(place / str(number)))
    tasks = [*kills, *_tasks(first, worst, done)]
    random.Random(0).shuffle(tasks)  # a walk that is stopped has looked everywhere alike
    points += in_shards(tasks, walks, place, minutes)
    points.sort(key=lambda point: (point.number, point.loss))
    wanted = Counter(bool(loss) for _, loss, _ in worst) + Counter({False: len(real)})
    row: dict[str, Any] = {
        "command": scenario.name,
        "changes": len(first.changes),
        "kinds": dict(sorted(Counter(item.event for item in first.changes).items())),
        "every": scenario.every,
        "replayed": scenario.replay,
        "kills": summary([point for point in points if not point.loss]),
        "power_cuts": summary([point for point in points if point.loss]),
        "wrong": [
            asdict(point) | {"change": _shown(first, point.number)}
            for point in points
            if point.wrong
        ],
        "seconds": round(time.perf_counter() - started),
    }
    for kind, cut in (("kills", False), ("power_cuts", True)):
        if left := wanted[cut] - row[kind]["points"]:
            row[kind]["left"] = left
    return row


def _killed(walk: Walk, number: int) -> list[Point]:
    return [walk.kill(number)]


def _shown(walk: Walk, number: int) -> str:
    if number == walk.end:
        return "the end"
    change = walk.changes[number]
    return f"{change.event} {RANDOM.sub('', change.path.replace(str(walk.root), ''))}"


def summary(points: Sequence[Point]) -> dict[str, int]:
    """How many points there were, and how often which result was found."""
    found = Counter("wrong" if point.wrong else point.found for point in points)
    return {
        "points": len(points),
        **{name: found[name] for name in ("older", "new", "none", "refused", "wrong")},
    }
