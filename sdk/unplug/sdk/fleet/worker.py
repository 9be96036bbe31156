"""A worker process: orders as JSON lines on standard input, outcomes as a JSON line and bytes on standard output."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from typing import Any, BinaryIO

from unplug.core import UnplugError

from .backend import Setup, describe, execute, traceback_tail
from .job import Context, Job
from .result import Order


def main() -> None:
    """Serves until standard input ends, that is until the driver stops or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the driver decides
    # What a job prints must not get between the outcomes.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
    context: object = None
    while True:
        message = inbox.get()
        if "order" in message:
            outcome = execute(order_from(message["order"]), context)
            _reply(out, {"status": outcome.status, "note": outcome.note}, outcome.packed)
        else:
            context, answer = prepare(message["context"])
            _reply(out, answer)


def one_thread() -> None:
    """One torch thread, also where something set another number while it was imported."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)


def _listen(inbox: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin.buffer:
        inbox.put(json.loads(line))
    os._exit(0)  # nobody waits for the job at hand any more


def order_from(raw: dict[str, Any]) -> Order:
    """The inverse of ``asdict``."""
    return Order(job=Job(**raw["job"]), fingerprint=raw["fingerprint"], given=raw["given"])


def prepare(raw: dict[str, Any] | None) -> tuple[object, dict[str, Any]]:
    """Builds a context; answers with its value and with what to tell the driver."""
    try:
        context = Setup(context=None if raw is None else Context(**raw)).build()
    except UnplugError as error:
        return None, {"status": "refused", "error": describe(error)}
    except (Exception, SystemExit):  # noqa: BLE001 (the context's function may raise anything; the driver raises it)
        return None, {"status": "failed", "note": traceback_tail()}
    one_thread()
    return context, {"status": "done"}


def _reply(out: BinaryIO, header: dict[str, Any], packed: bytes = b"") -> None:
    out.write(json.dumps({**header, "size": len(packed)}).encode() + b"\n")
    out.write(packed)
    out.flush()


if __name__ == "__main__":
    main()
