"""Ray actors, on this machine or on a cluster; results travel to the driver as bytes, so no disk
need be shared.

The machines of a cluster need the same unplug, and the module that holds the job functions.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from unplug.core import InputError, MissingExtraError, TrainingError, cores

from ..backend import ATTEMPTS, JobOutcome, JobSetup, context_failure, execute, revive
from ..result import Order
from ..worker import order_from, prepare
from .processes import import_path


def cluster(orders: Sequence[Order], setup: JobSetup) -> Iterator[JobOutcome]:
    """Runs the orders in `JobSetup.workers` actors of one CPU each (default: all CPUs of the
    cluster).

    GPUs are dealt out in equal fractions, so that several actors share one. A Ray that the caller
    has initialised is used as it is and left running.

    Raises:
        MissingExtraError: Ray is not installed.
        InputError: no cluster at the address.
        UnplugError: the context refused to be built.
        TrainingError: actors die while they build it.
    """
    ray = _import_ray()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, setup)
    try:
        yield from _RayFleet(ray, orders, setup).outcomes()
    finally:
        if ours:
            ray.shutdown()


def _import_ray() -> Any:
    # nothing about a forgetting job is sent anywhere unasked
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise MissingExtraError("ray", "cluster") from error


def _connect(ray: Any, setup: JobSetup) -> None:
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        if setup.cluster is not None:
            ray.init(address=setup.cluster, log_to_driver=False, logging_level="ERROR")
        else:
            ray.init(address="local", num_cpus=setup.workers or cores(), **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = setup.cluster or "on this machine"
        raise InputError(
            f"Ray cluster {where}",
            f"it cannot be reached ({error})",
            "Check the address and the network",
        ) from error


class Actor:
    """What runs on the cluster: the context and one job after the other."""

    def __init__(self) -> None:
        self._context: object = None

    def prepare(self, context: dict[str, Any] | None) -> dict[str, Any]:
        """Builds the context; answers as a worker process does."""
        self._context, answer = prepare(context)
        return answer

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carries out an order; gives the fields of its `JobOutcome`."""
        return asdict(execute(order_from(order), self._context))


@dataclass(frozen=True, kw_only=True)
class _Call:
    """What an actor is doing: preparing (no order) or an order, and how often that was tried."""

    actor: Any
    order: Order | None
    attempt: int


class _RayFleet:
    """The actors and what they are doing."""

    def __init__(self, ray: Any, orders: Sequence[Order], setup: JobSetup) -> None:
        self._ray, self._setup = ray, setup
        self._todo: deque[tuple[Order, int]] = deque((order, 1) for order in orders)
        self._left = len(orders)
        resources = ray.cluster_resources()
        self._count = min(len(orders), setup.workers or max(1, int(resources.get("CPU", 1))))
        # Fractions of a GPU: small models leave most of one idle.
        gpus = _share(resources.get("GPU", 0.0), self._count)
        self._options: dict[str, Any] = {"num_cpus": 1, "num_gpus": gpus, "max_restarts": 0}
        if (
            setup.cluster is None
        ):  # on this machine: what can be imported here can be imported there
            self._options["runtime_env"] = {"env_vars": {"PYTHONPATH": import_path()}}
        self._pending: dict[Any, _Call] = {}
        self._actors: set[Any] = set()

    def outcomes(self) -> Iterator[JobOutcome]:
        """Starts the actors and yields what they bring until nothing is left."""
        try:
            for _ in range(self._count):
                self._start(attempt=1)
            while self._left:
                done, _ = self._ray.wait(list(self._pending), num_returns=1)
                call = self._pending.pop(done[0])
                outcome, lives = self._take(done[0], call)
                if outcome is not None:
                    self._left -= 1
                    yield outcome
                # only now: a result that waits to be written is lost with the driver, besides those
                # at work
                if lives:
                    self._next(call.actor)
        finally:
            for (
                actor
            ) in self._actors:  # also one whose answer is being raised: it would keep its CPU
                self._ray.kill(actor)

    def _start(self, *, attempt: int) -> None:
        actor = self._ray.remote(Actor).options(**self._options).remote()
        self._actors.add(actor)
        context = None if self._setup.context is None else asdict(self._setup.context)
        self._pending[actor.prepare.remote(context)] = _Call(
            actor=actor, order=None, attempt=attempt
        )

    def _next(self, actor: Any) -> None:
        if self._todo:
            order, attempt = self._todo.popleft()
            self._pending[actor.run.remote(asdict(order))] = _Call(
                actor=actor, order=order, attempt=attempt
            )
        else:
            self._drop(actor)

    def _drop(self, actor: Any) -> None:
        self._ray.kill(actor)
        self._actors.remove(actor)

    def _take(self, reference: Any, call: _Call) -> tuple[JobOutcome | None, bool]:
        """What came back, if it was an order; and whether the actor can have the next one."""
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as death:
            return self._bury(call, str(death).strip().splitlines()[0]), False
        if call.order is None:
            if answer["status"] == "refused":
                raise revive(answer["error"])
            if answer["status"] == "context failed":
                raise context_failure(answer["note"])
        return (None if call.order is None else JobOutcome(**answer)), True

    def _bury(self, call: _Call, death: str) -> JobOutcome | None:
        if call.order is None and call.attempt == ATTEMPTS:
            raise TrainingError(
                "fleet workers",
                f"they die while they build the context ({death})",
                "Use fewer workers",
            )
        self._drop(call.actor)  # it may be unreachable instead of dead
        self._start(attempt=call.attempt + 1 if call.order is None else 1)
        if call.order is None:
            return None
        if call.attempt < ATTEMPTS:
            self._todo.appendleft((call.order, call.attempt + 1))
            return None
        note = f"its worker died {ATTEMPTS} times, the last with: {death}"
        return JobOutcome(name=call.order.job.name, status="failed", note=note)


def _share(gpus: float, actors: int) -> float:
    """GPUs of each actor: a fraction, or a whole number where there are more GPUs than actors."""
    share = gpus / actors
    # Ray counts in ten-thousandths
    return float(int(share)) if share >= 1 else int(share * 1000) / 1000
