"""Where jobs run. A backend is a generator: orders in, outcomes out as they come, in any order.

Backends write no files: the driver does, so a worker may be on another machine.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from unplug.core import (
    InputError,
    InsufficientMemoryError,
    MissingExtraError,
    OutputError,
    Registry,
    UnplugError,
    error_class,
)

from .job import Context, resolve
from .result import Order, Result, pack

TAIL_LINES, TAIL_CHARS = 12, 2000
ATTEMPTS = 2
"""A worker that is killed takes its job with it; once that may be the machine's doing (memory),
twice it is the job's.
"""

PASSING = (MissingExtraError, OutputError, InsufficientMemoryError)
"""Typed errors that are about the machine, not about the job: the job failed and is run again next
time.
"""

BACKENDS: Registry[Backend] = Registry(
    "backend",
    {
        "loop": "unplug.sdk.evidence.fleet.backends.loop:loop",
        "processes": "unplug.sdk.evidence.fleet.backends.processes:processes",
        "ray": "unplug.sdk.evidence.fleet.backends.cluster:cluster",
    },
    group="unplug.backends",
)


@dataclass(frozen=True, kw_only=True)
class JobSetup:
    """How a backend is set up.

    Args:
        context: built once per worker, or None.
        workers: how many at once; None is one per core.
        cluster: address of a Ray cluster; None starts a local one.
    """

    context: Context | None
    workers: int | None = None
    cluster: str | None = None

    def build(self) -> Any:
        """The context's value, or None."""
        return None if self.context is None else self.context.build()


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """What became of an order.

    Args:
        name: the name of the job.
        status: "done" (also a refusal: it is a result) or "failed".
        packed: bytes of the result's file.
        note: the end of the traceback, or why the worker died.
    """

    name: str
    status: Literal["done", "failed"]
    packed: bytes = b""
    note: str = ""


class Backend(Protocol):
    """Runs every order and yields its outcome; closing the generator stops the workers.

    Raises:
        UnplugError: the context refused to be built.
    """

    def __call__(self, orders: Sequence[Order], setup: JobSetup) -> Iterator[JobOutcome]: ...


def execute(order: Order, context: object) -> JobOutcome:
    """Calls a job's function; whatever it raises becomes part of the outcome."""
    name = order.job.name
    try:
        function = resolve(order.job.target)
    except Exception:  # noqa: BLE001 (importing runs anything; it is reported)
        return JobOutcome(name=name, status="failed", note=traceback_tail())
    try:
        try:
            result = function(context, **order.job.arguments)
        # Not a result: on another machine, or next time, the job may end well.
        except PASSING:
            raise
        except UnplugError as error:
            result = Result(facts={"refused": describe(error)})
        return JobOutcome(name=name, status="done", packed=pack(result, order))
    except (Exception, SystemExit):  # noqa: BLE001 (a job may raise anything; it is reported, and the others go on)
        return JobOutcome(name=name, status="failed", note=traceback_tail())


def traceback_tail() -> str:
    """The last lines of the traceback that is being handled."""
    return tail(traceback.format_exc())


def tail(text: str) -> str:
    """The last lines of a text, of bounded length."""
    return "\n".join(text.strip().splitlines()[-TAIL_LINES:])[-TAIL_CHARS:]


def describe(error: UnplugError) -> dict[str, str]:
    """A typed error as JSON."""
    return {"kind": type(error).__name__, "what": error.what, "why": error.why, "fix": error.fix}


def revive(described: dict[str, str]) -> UnplugError:
    """The inverse of `describe`; kinds with arguments of their own, or from elsewhere, come back as
    their base.
    """
    kind = error_class(described["kind"], UnplugError)
    if kind is MissingExtraError:  # its arguments are others
        kind = UnplugError
    return kind(described["what"], described["why"], described["fix"])


def context_failure(note: str) -> UnplugError:
    """The error for a context whose function raised something untyped."""
    return InputError(
        "fleet context",
        f"it could not be built:\n{note}\n",
        "Correct the function or its arguments",
    )
