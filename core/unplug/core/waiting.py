"""How torch's threads wait for each other, chosen from what else the machine does just before torch
is loaded.

At the end of each parallel loop the threads of libgomp spin: on idle cores nothing is faster.
Next to other work a spinning thread holds the core that the thread it waits for needs, and a step
takes many times as long (docs/results/speed.md). Threads that sleep instead (``OMP_WAIT_POLICY=passive``)
cost some time on idle cores. So the cores are looked at once, by this process and by each child,
before torch reads the variable. The number of threads stays as it is: it decides the last bits of
sums.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, MutableMapping
from importlib.abc import MetaPathFinder
from pathlib import Path

POLICY = "OMP_WAIT_POLICY"
CHOSEN = "UNPLUG_CHOSE_WAITING"
"""Says that a process of ours set `POLICY`, and no user: a child looks again."""
USERS = (POLICY, "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
"""A user who sets one of these has chosen."""
SAMPLE_S = 0.1
"""Ten ticks of the clock that Linux counts a core's work with; importing torch takes seconds."""
BUSY_CORES = 0.5
"""What other work must use of all cores together: one busy process uses 1, a desktop at rest a
tenth.
"""
STAT = Path("/proc/stat")
KERNELS = "torchinductor_*"


def core_ticks(text: str, allowed: Iterable[int]) -> tuple[int, int]:
    """Ticks that the allowed cores worked and all of their ticks, since the machine started.

    Args:
        text: the text of ``/proc/stat``.
        allowed: numbers of the cores.

    Example:
        >>> core_ticks("cpu 9 9 9 9 9\\ncpu0 3 0 1 10 2 0 0 4\\ncpu1 5 0 0 7 0 0 0 0\\n", [0])
        (8, 20)
    """
    names = {f"cpu{number}" for number in allowed}
    rows = [
        [int(cell) for cell in row.split()[1:9]]
        for row in text.splitlines()
        if row.split(" ")[0] in names
    ]
    whole = sum(map(sum, rows))
    return whole - sum(sum(row[3:5]) for row in rows), whole  # idle, and waiting for a disk


def busy_cores(sample_s: float = SAMPLE_S) -> float | None:
    """How many of the cores that this process may use others keep busy now; None where the system
    does not tell.
    """
    if not STAT.is_file() or not hasattr(os, "sched_getaffinity"):
        return None
    allowed = os.sched_getaffinity(0)
    worked, whole = core_ticks(STAT.read_text(encoding="ascii"), allowed)
    time.sleep(sample_s)
    worked_then, whole_then = core_ticks(STAT.read_text(encoding="ascii"), allowed)
    return len(allowed) * (worked_then - worked) / max(1, whole_then - whole)


def user_chose(environment: Mapping[str, str]) -> bool:
    """Whether the user said how threads wait, or that there is one."""
    return CHOSEN not in environment and any(name in environment for name in USERS)


def choose_waiting(environment: MutableMapping[str, str], busy: float | None) -> None:
    """Threads sleep where others keep cores busy, and spin where they are idle or nobody knows.

    Args:
        environment: changed in place; what a user set stays.
        busy: cores that others use.

    Example:
        >>> environment = {}
        >>> choose_waiting(environment, busy=1.02)
        >>> environment["OMP_WAIT_POLICY"]
        'passive'
        >>> choose_waiting(environment, busy=0.1)  # a child, later
        >>> environment
        {}
    """
    if user_chose(environment):
        return
    environment.pop(POLICY, None)
    environment.pop(CHOSEN, None)
    if busy is not None and busy >= BUSY_CORES:
        environment.update({POLICY: "passive", CHOSEN: "1"})


def _leave_nothing() -> None:
    """torch makes a folder for kernels in ``$TMPDIR`` when it is loaded: who made it, and compiled
    none, removes it again.
    """
    with contextlib.suppress(OSError):
        place = Path(tempfile.gettempdir())
        before = set(place.glob(KERNELS))

        def remove() -> None:
            for folder in set(place.glob(KERNELS)) - before:
                with contextlib.suppress(OSError):  # something is in it
                    folder.rmdir()

        atexit.register(remove)


class _BeforeTorch(MetaPathFinder):
    """Finds no module; looks at the cores when torch is about to be loaded, and goes."""

    def find_spec(self, name: str, *_: object) -> None:
        """Called for each module that is imported for the first time."""
        if name != "torch":
            return
        sys.meta_path.remove(self)
        _leave_nothing()
        if not user_chose(os.environ):
            choose_waiting(os.environ, busy_cores())


def watch_for_torch() -> None:
    """Has the cores looked at when torch is loaded, once. Importing `unplug.core` calls it."""
    if "torch" not in sys.modules:
        sys.meta_path.insert(0, _BeforeTorch())
