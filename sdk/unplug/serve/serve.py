"""``unplug serve``: makes the tables, hands the settings to the worker processes, and lets uvicorn
keep them alive.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from unplug.core import OutputError, require_modules, temporary_folder
from unplug.trust.ledger import open_ledger

from .recipe import ServeSettings
from .tables import ServiceTables

MODULES = ("fastapi", "uvicorn", "sse_starlette", "prometheus_client", "onnx", "onnxruntime")
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
GRACE_SECONDS = 20
KEEP_ALIVE_SECONDS = 15


def run_service(settings: ServeSettings, *, host: str, port: int) -> None:
    """Runs the service until it is told to end.

    Args:
        settings: the settings of the server.
        host, port: the address to listen on; a proxy in front of it speaks TLS.

    Raises:
        InputError: no ledger is there, nothing can be added to it, the recipe's file or data are
            none, or a server of another recipe has its name.
        MissingExtraError: ``[serve]`` is not installed.
    """
    require_modules(MODULES, "serve")
    open_ledger(settings.ledger).check_open()
    if settings.recipe is not None:
        from .data_names import DataNames  # which imports what the line above asks for

        DataNames(settings.recipe.data).now()
    try:
        Path(settings.folder).mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            settings.folder, error.strerror or str(error), "Choose a `folder` that you can write to"
        ) from error
    tables = ServiceTables(settings.ledger)
    tables.create()
    if settings.recipe is not None:
        from .jobs import Jobs
        from .models import put_first_model

        Jobs(tables, recipe=settings.recipe_key).hold_name(settings.lease_seconds)
        put_first_model(tables, settings.recipe)
    _allow_files(settings.limits.connections)
    with temporary_folder("unplug-metrics-") as numbers:
        os.environ[FOLDER] = str(numbers)
        settings.to_environment()
        _listen(settings, host, port)


def _allow_files(connections: int) -> None:
    """Lets this process and its workers open as many files as connections take, where it may."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # which Windows lacks

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * connections + 500
        if 0 <= soft < wanted:
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard)
            )


def _listen(settings: ServeSettings, host: str, port: int) -> None:
    import uvicorn

    from .logs import log_config
    from .protocol import PatientProtocol

    limits = settings.limits
    uvicorn.run(
        "unplug.serve.app:app_from_environment",
        factory=True,
        host=host,
        port=port,
        workers=settings.workers,
        http=PatientProtocol,
        ws="none",
        loop="asyncio",
        log_config=log_config(),
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=limits.header_bytes,
        backlog=1024,
    )
