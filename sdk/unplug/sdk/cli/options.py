"""Options that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from unplug.sdk.diffusion import shipped_folder

F = TypeVar("F", bound=Callable[..., Any])

NEEDS = ("retain data", "forget data", "labels", "validation data", "ages", "training-time hooks", "class logits")
"""`unplug.sdk.unlearning.method.NEEDS`, which imports torch; a help text must not."""


def data_option(function: F) -> F:
    """--data SPEC and --on-bad."""
    function = click.option(
        "--on-bad", type=click.Choice(["error", "skip"]), default="error", show_default=True,
        help="What to do with unreadable images or wrong labels: refuse, or go on without them and count them.",
    )(function)  # fmt: skip
    return click.option("--data", "spec", required=True, metavar="SPEC", help="Data, for example utkface:DIR or synth:n=3000.")(
        function
    )


def forget_option(function: F) -> F:
    """--forget FILE."""
    return click.option(
        "--forget", "forget_file", required=True, type=click.Path(path_type=Path), metavar="FILE",
        help="Sample ids or subject:NAME, one a line.",
    )(function)  # fmt: skip


def without_option(help_text: str) -> Callable[[F], F]:
    """--without NEED, repeatable."""
    return click.option("--without", multiple=True, type=click.Choice(NEEDS), help=help_text)


def _no_device(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Results replace what is at their path, and root may replace /dev/null."""
    if value is not None and value.exists() and not (value.is_file() or value.is_dir()):
        raise click.BadParameter(f"{value} is a device or a pipe. Give a path for a file or a folder", ctx, parameter)
    return value


def out_option(help_text: str, *, required: bool = True, default: Path | None = None) -> Callable[[F], F]:
    """--out PATH."""
    return click.option(
        "--out", "-o", required=required, default=default, type=click.Path(path_type=Path), metavar="PATH", help=help_text,
        show_default=default is not None, callback=_no_device,
    )  # fmt: skip


base_option = click.option("--base", help="Of a plugin: the diffusion base beside it (default: the one in its record).")


def shipped_or_given(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Path | None:
    """A plugin that ships may be named; see `shipped_folder`."""
    return None if value is None else shipped_folder(value)


def each_shipped_or_given(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Path, ...]:
    """The same of several."""
    return tuple(map(shipped_folder, values))


checkpoint_argument = click.argument("checkpoint", type=click.Path(), callback=shipped_or_given)


def given_option(*names: str) -> str | None:
    """The first of these arguments of the current command that the user wrote."""
    source = click.get_current_context().get_parameter_source
    return next((name for name in names if source(name) is click.core.ParameterSource.COMMANDLINE), None)
