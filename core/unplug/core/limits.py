"""How much memory and time a child process may take: a file of a megabyte can ask for all that a
machine has.

A bound on accidents and on cheap attacks, not a sandbox. Data is what is counted (``RLIMIT_DATA``):
heap and private writable mappings. CUDA and Vulkan reserve address space by the terabyte without
taking memory for it, so ``RLIMIT_AS`` would end them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .errors import InputError

MEMORY_VARIABLE, TIME_VARIABLE = "UNPLUG_CHILD_MEMORY_GIB", "UNPLUG_CHILD_SECONDS"
"""What sets other limits than those worked out here; 0 lifts the one on memory."""
BASE_BYTES = 4 * 2**30  # torch, TensorFlow and a converter together reserve under 3 GiB
CORE_BYTES = 64 * 2**20  # stacks and arenas of the threads that every runtime starts on each core
FILE_FACTOR = 16  # weights as stored, widened to fp32 (int8: 4), optimized and packed: four copies
# a Stable Diffusion UNet takes 20 s a sample on one core
START_SECONDS, SAMPLE_SECONDS = (
    120.0,
    60.0,
)
FAMILIAR = (
    "bad_alloc",
    "bad allocation",
    "MemoryError",
    "ailed to allocate",
    "annot allocate",
    "can't allocate",
    "ut of memory",
)
"""What runtimes say where they get no more memory."""


def memory_for(*files: Path) -> int:
    """Bytes that a child which opens these files may take; 0 sets no limit.

    4 GiB, 64 MiB a core, and 16 times the size of the files, or what ``UNPLUG_CHILD_MEMORY_GIB``
    says.

    Raises:
        InputError: the variable is not a number from 0 on.
    """
    if (asked := _asked(MEMORY_VARIABLE)) is not None:
        return int(asked * 2**30)
    return BASE_BYTES + CORE_BYTES * (os.cpu_count() or 1) + FILE_FACTOR * sum(map(_size, files))


def seconds_for(samples: int, usual: float | None = None) -> float:
    """Seconds of wall time that a child may take: 120, and 60 a sample, or what
    ``UNPLUG_CHILD_SECONDS`` says.

    Args:
        samples: the number of samples that are run, one by one.
        usual: another bound than that, where the variable is not set.

    Raises:
        InputError: the variable is not a number from 0 on.
    """
    asked = _asked(TIME_VARIABLE)
    return asked or (START_SECONDS + SAMPLE_SECONDS * samples if usual is None else usual)


def limit_own_memory(limit: int) -> None:
    """Sets the limit of this process (0: none) where the system has one: Linux counts, macOS takes
    it and does not.
    """
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = limit or resource.RLIM_INFINITY
    # RLIM_INFINITY is -1 in Python: it cannot be compared as the largest number.
    if hard != resource.RLIM_INFINITY and (wanted == resource.RLIM_INFINITY or wanted > hard):
        wanted = hard
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def out_of_memory(text: str) -> bool:
    """Whether a process's last words are those of one that got no more memory."""
    return any(words in text for words in FAMILIAR)


def explain_memory(limit: int) -> str:
    """What to do about a child that needed more than `limit`."""
    if not limit:
        return "Close other programs or choose a smaller model"
    return (
        f"It may take {limit / 2**30:.1f} GiB; where the file is to be trusted, set "
        f"{MEMORY_VARIABLE} to more"
    )


def _size(path: Path) -> int:
    files = [path] if path.is_file() else (item for item in path.rglob("*") if item.is_file())
    return sum(item.stat().st_size for item in files)


def _asked(variable: str) -> float | None:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e9:
        raise InputError(
            f"{variable}={text}", "it is not a number from 0 on", f"Write for example {variable}=16"
        )
    return value
