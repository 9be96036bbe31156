"""``unplug serve`` and its tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import expanded, ledger_place, require_modules, table
from unplug.sdk.cli import (
    Common,
    ConfiguredCommand,
    FloatRange,
    Outcome,
    RunGroup,
    command,
    ledger_option,
)

if TYPE_CHECKING:
    from . import ServeRecipe

SCOPES = ("requests:write", "requests:read", "releases", "models", "metrics")
"""`unplug.serve.SCOPES`: a help text imports nothing of it."""


@click.group(cls=RunGroup)
def serve() -> None:
    """Take requests over HTTP, release, and answer pictures (`unplug serve run --help` lists the
    options); manage tokens.
    """
    require_modules(("sqlalchemy", "fastapi", "uvicorn"), "serve")


@serve.command(cls=ConfiguredCommand, config="unplug.serve:ServeLimits")
@ledger_option
@click.option(
    "--recipe",
    "recipe_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=(
        "How to release, an unplug-serve/1 JSON file (default: as `unplug answer` does, in a "
        "project; elsewhere requests are taken and nothing is released)."
    ),
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder to keep jobs in (default: service, in the folder of the ledger).",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; put a proxy with TLS in front.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes."
)
@click.option(
    "--lease",
    type=FloatRange(1.0, 3600.0),
    default=15.0,
    show_default=True,
    help="Seconds until the release of a worker that died is gone on with by another.",
)
@command
def run(
    where: str | None,
    recipe_file: Path | None,
    folder: Path | None,
    host: str,
    port: int,
    workers: int,
    lease: float,
    common: Common,
    **limits: Any,
) -> Outcome:
    """Run the service until it is told to end (Ctrl-C or SIGTERM); the next start goes on with a
    release that was under way.
    """

    from . import ServeLimits, ServeSettings, run_service

    place = where or ledger_place()
    settings = ServeSettings(
        ledger=place if "://" in place else str(expanded(place).resolve()),
        folder=str(expanded(folder or Path(ledger_place()).parent / "service").resolve()),
        recipe=_recipe(recipe_file),
        workers=workers,
        lease_seconds=lease,
        limits=ServeLimits(**{name: value for name, value in limits.items() if value is not None}),
    )
    common.say(f"http://{host}:{port} (requests are taken once /ready says so)")
    run_service(settings, host=host, port=port)
    return Outcome(value={"ended": True}, text="")


def _recipe(file: Path | None) -> ServeRecipe | None:
    """The recipe of a file, or of the project that the current folder lies in."""
    from unplug.sdk.project import Project, find_project

    from . import ServeRecipe
    from .project_run import project_recipe

    if file is not None:
        return ServeRecipe.load(file)
    folder = find_project()
    return None if folder is None else project_recipe(Project.open(folder))


@serve.group()
def token() -> None:
    """Make, list and revoke API tokens."""


@token.command()
@ledger_option
@click.argument("label")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    help="Scope that it may use; may be repeated.",
)
@click.option("--days", type=click.IntRange(1, 3660), help="Until it expires (default: never).")
@command
def add(
    where: str | None, label: str, scopes: tuple[str, ...], days: int | None, common: Common
) -> Outcome:
    """Make a token and print it, once: what is kept is a hash of it. LABEL says what it is for;
    never a person's name.
    """
    from . import add_token

    made, text = add_token(_tables(where, make=True), label, scopes, days=days)
    value = {"id": made.id, "token": text, "scopes": sorted(made.scopes), "expires": made.expires}
    return Outcome(value=value, text=text)


@token.command("list")
@ledger_option
@command
def list_(where: str | None, common: Common) -> Outcome:
    """List tokens: what each may do, and whether it still may."""
    from . import list_tokens

    tokens = list_tokens(_tables(where))
    value = [
        {
            "id": made.id,
            "label": made.label,
            "scopes": sorted(made.scopes),
            "created": made.created,
            "expires": made.expires,
            "revoked": made.revoked,
            "valid": made.valid,
        }
        for made in tokens
    ]
    rows = [
        [
            made.id,
            made.label,
            " ".join(sorted(made.scopes)),
            made.created,
            "valid" if made.valid else "ended",
        ]
        for made in tokens
    ]
    return Outcome(
        value=value,
        text=table(["token", "label", "scopes", "created", ""], rows)
        if rows
        else "no token was made",
    )


@token.command()
@ledger_option
@click.argument("id")
@command
def revoke(where: str | None, id: str, common: Common) -> Outcome:
    """End a token; a running service believes it two more seconds."""
    from . import revoke_token

    ended = revoke_token(_tables(where), id)
    return Outcome(
        value={"id": ended.id, "revoked": ended.revoked},
        text=f"token {ended.id} ({ended.label}) is revoked",
    )


def _tables(where: str | None, *, make: bool = False) -> Any:
    from unplug.trust.ledger import open_ledger

    from . import ServiceTables

    open_ledger(where).contents()
    tables = ServiceTables(where or ledger_place())
    if make:
        tables.create()
    return tables
