"""One job after the other in this process: obviously correct, but slow. The oracle of the other
backends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unplug.core import UnplugError

from ..backend import JobOutcome, JobSetup, context_failure, execute, traceback_tail
from ..result import Order


def loop(orders: Sequence[Order], setup: JobSetup) -> Iterator[JobOutcome]:
    """Runs the orders in their order; `JobSetup.workers` is not looked at.

    Raises:
        UnplugError: the context refused to be built.
    """
    try:
        context = setup.build()
    except UnplugError:
        raise
    except Exception as error:  # the context's function may raise anything
        raise context_failure(traceback_tail()) from error
    for order in orders:
        yield execute(order, context)
