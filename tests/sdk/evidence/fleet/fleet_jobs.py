"""Job functions for the tests: workers import this module by name, so the tests put its folder on
their path.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import BudgetExceeded, DataError, OutputError
from unplug.sdk.evidence.fleet import Result


def number(start: int, mark: str = "") -> int:
    """A context; leaves a mark per build."""
    if mark:
        Path(mark, f"{os.getpid()}-{time.monotonic_ns()}").touch()
    return start


def bad_context(kind: str) -> Any:
    if kind == "typed":
        raise DataError("data", "none", "Get some")
    if kind == "untyped":
        raise KeyError("oops")
    if kind == "exit":
        sys.exit("out of here")
    os.kill(os.getpid(), signal.SIGKILL)


def add(context: int, x: float, nap: float = 0.0) -> Result:
    print("this must not get into the pipe")
    time.sleep(nap)
    values = np.full((2, 3), context + x, np.float32)
    return Result(
        tensors={"values": values, "turned": values.T, "one": np.array(7)},
        facts={"x": x, "pid": os.getpid()},
    )


def note_and_add(context: int, x: float, log: str, nap: float = 0.0) -> Result:
    """Like `add`; leaves a line where it ran."""
    with Path(log).open("a") as handle:
        handle.write(f"{x:g}\n")
    return add(context, x, nap)


def misbehave(context: int, how: str, mark: str = "") -> Any:
    if how == "refuse":
        raise BudgetExceeded("method", "too dear", "Pay more")
    if how == "disk":
        raise OutputError("disk", "full", "Free some space")
    if how == "raise":
        raise ValueError("the job is broken")
    if how == "exit":
        sys.exit(3)
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "die once" and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "no result":
        return {"a": 1}
    if how == "nan":
        return Result(facts={"loss": float("nan")})
    if how == "objects":
        return Result(tensors={"a": np.array([None])})
    return Result(facts={"how": how})


def threads(context: int) -> Result:
    import torch

    return Result(
        facts={"torch": torch.get_num_threads(), "omp": os.environ.get("OMP_NUM_THREADS")}
    )
