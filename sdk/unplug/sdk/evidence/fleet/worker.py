"""What a worker does, in a child process or a Ray actor: it builds the context once, then carries
out orders.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unplug.core import Reply, UnplugError, use_threads

from .backend import JobSetup, describe, execute, traceback_tail
from .job import Context, FleetJob
from .result import Order


def run_order(job: Any) -> Reply:
    """Child process: builds the ``context`` where it is not there yet, then carries out the
    ``order``, if there is one.
    """
    if "context" not in job.kept:
        context, answer = prepare(job.values["context"])
        if answer["status"] != "done":
            return Reply(values=answer)
        job.kept["context"] = context
    if job.values["order"] is None:
        return Reply(values={"status": "done"})
    outcome = execute(order_from(job.values["order"]), job.kept["context"])
    # As an array, for the reply's JSON holds no bytes.
    packed = np.frombuffer(outcome.packed, np.uint8)
    return Reply(values={"status": outcome.status, "note": outcome.note}, arrays={"packed": packed})


def order_from(raw: dict[str, Any]) -> Order:
    """The inverse of ``asdict`` for an order that came as JSON."""
    return Order(job=FleetJob(**raw["job"]), fingerprint=raw["fingerprint"], given=raw["given"])


def prepare(raw: dict[str, Any] | None) -> tuple[object, dict[str, Any]]:
    """Builds a context; answers with its value and with what to tell the driver."""
    try:
        context = JobSetup(context=None if raw is None else Context(**raw)).build()
    except UnplugError as error:
        return None, {"status": "refused", "error": describe(error)}
    except (Exception, SystemExit):  # noqa: BLE001 (the context's function may raise anything; the driver raises it)
        return None, {"status": "context failed", "note": traceback_tail()}
    use_threads(1)  # something may have set another number while it was imported
    return context, {"status": "done"}
