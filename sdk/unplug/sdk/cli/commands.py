"""The lazy command group: ``unplug --help`` imports no command and no torch."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import IO, Any, ClassVar, NamedTuple

import click

from unplug.core import VERSION, MissingExtraError, UnplugError, extra_of, printable

from .streams import kept_streams


class LazyCommand(NamedTuple):
    """A command that is imported when it is called.

    Args:
        target: ``"package.module:function"``.
        line: its help in one line.
        extra: the extra that it needs besides the base, named where a package is missing.
        group: its heading in the help.
    """

    target: str
    line: str
    extra: str | None = None
    group: str = "Commands"


_LINES: dict[str, tuple[tuple[str, str, str | None], ...]] = {
    "Start": (
        ("init", "Begin a project: a model, its data, keys and a ledger.", "forget"),
        ("demo", "The whole journey on synthetic faces, then an HTML report.", "demo"),
        ("data", "Make synthetic faces, describe data, draw a forget set.", "forget"),
        ("train", "Train a model.", "forget"),
        ("search", "Find networks for some milliseconds on a device.", "forget"),
        ("adopt", "Make a network of your own work with every command.", "forget"),
    ),
    "Forget": (
        ("request", "Add, list, show or withdraw requests of a project.", "forget"),
        ("answer", "Answer all open requests of a project, with evidence.", "forget"),
        ("status", "Show what is due in a project, and which model is current.", "forget"),
        ("forget", "Unlearn a forget set within a budget.", "forget"),
        ("erase", "Take a concept out of a text-to-image base.", "forget"),
        ("head", "Let a phone add people and forget them by itself.", "forget"),
        ("references", "Train models of person folds once, evidence for later requests.", "forget"),
    ),
    "Ship": (
        ("export", "Convert a checkpoint to LiteRT, Core ML and ONNX.", "phone"),
        ("parity", "Compare exported files with their checkpoint.", "phone"),
        ("run", "Run any exported file or checkpoint on pictures or arrays.", "run"),
        ("release", "Forget, audit, export, check, time and bundle, or refuse.", "forget"),
        ("bundle", "Sign, verify, compare or pack bundles.", None),
        ("serve", "Take requests over HTTP, release, and answer pictures.", "serve"),
    ),
    "Evidence": (
        ("audit", "Attack a checkpoint or an exported file; compare with retraining.", "forget"),
        ("certify", "Say what a method leaves of one person, from many others like her.", "forget"),
        ("ledger", "Keep requests on record, with deadlines and proofs.", "ledger"),
        ("trace", "Find what still holds a person, or was trained on them.", "forget"),
        ("certificate", "Certify what was done about a request, or verify that.", "ledger"),
        ("replay", "Compute a released head again from its state, bit for bit.", "forget"),
        ("report", "Turn JSON reports into one HTML page.", "report"),
    ),
    "Draw": (
        ("condition", "Draw landmarks, body, depth or edges of pictures.", "conditions"),
        ("generate", "Draw pictures from a prompt, steered by plugins.", "phone"),
        ("detect", "Say whether pictures carry the mark of a decoder.", "phone"),
        ("page", "Let a browser draw with an exported base.", "phone"),
    ),
    "Measure": (
        ("bench", "Time exported files; compare two reports.", "bench"),
        ("evaluate", "Judge age models at age limits, by year and group.", "forget"),
        ("threshold", "Find the cut-offs of over, under and unsure for an error limit.", "forget"),
    ),
    "Maintain": (
        ("config", "Show what commands of a project go by, and where that comes from.", None),
        ("cache", "Show or delete decoded pictures that are kept.", None),
        (
            "list",
            "List methods, erasures, attacks, targets, precisions, devices, data kinds.",
            None,
        ),
    ),
}
_ELSEWHERE = {"serve": "unplug.serve.command:serve", "list": "unplug.sdk.cli.list:list_"}
COMMANDS = {
    name: LazyCommand(_ELSEWHERE.get(name, f"unplug.sdk.cli.{name}:{name}"), line, extra, group)
    for group, lines in _LINES.items()
    for name, line, extra in lines
}
"""In the order of the help, group by group."""


class _OneLine(click.ClickException):
    """Wrong usage as one line on standard error."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {printable(self.format_message())}", file=file or sys.stderr)


class _Stopped(_OneLine):
    """Ctrl-C while the command was still being loaded."""

    exit_code = 130


def missing_for(name: str | None, error: ModuleNotFoundError) -> MissingExtraError | None:
    """The one command that installs what a command of this name lacks; None where no extra of ours
    has it.
    """
    command = COMMANDS.get(name or "")
    return extra_of(error, None if command is None else command.extra)


@contextlib.contextmanager
def _one_line(ctx: click.Context | None = None) -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        if (
            type(error).__name__ == "NoArgsIsHelpError"
        ):  # of click 8.2 and later; its message is the help
            raise
        path = error.ctx.command_path if error.ctx else "unplug"
        text = " ".join(error.format_message().split()).rstrip(".")
        hint = "" if text.endswith("?") or "--help`" in text else f" Try `{path} --help`."
        raise _OneLine(f"{text}{'' if text.endswith('?') else '.'}{hint}") from error
    except (
        UnicodeEncodeError
    ) as error:  # an argument in bytes that are no text of this locale, on its way to a message
        raise _OneLine(
            "An argument is not text in this locale. Set LC_ALL=C.UTF-8, or rename the file."
        ) from error
    except KeyboardInterrupt:  # before the command began
        raise _Stopped("interrupted. Nothing was done yet.") from None
    except (
        ModuleNotFoundError,
        MissingExtraError,
    ) as error:  # at the top of a command's file, before it handles errors itself
        name = None if ctx is None else ctx.invoked_subcommand
        missing = error if isinstance(error, MissingExtraError) else missing_for(name, error)
        if missing is None:
            raise
        raise _OneLine(str(missing)) from error
    except UnplugError as error:  # of an option, before the command began
        raise _OneLine(str(error)) from error


class LazyGroup(click.Group):
    """Knows names and one-line helps; imports a command when it is called."""

    table: ClassVar[Mapping[str, LazyCommand]] = COMMANDS

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs all of it over streams that cannot fail."""
        with kept_streams() as out:
            try:
                return super().main(*args, **kwargs)
            except SystemExit as ended:
                if out.lost is None or ended.code not in (None, 0, 1):
                    raise
                _OneLine(
                    f"standard output: {out.lost.strerror}. The work is done, and what it said "
                    "stands above."
                ).show()
                sys.exit(_OneLine.exit_code)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parses the options in front of the command."""
        with _one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Parses and runs the command."""
        with _one_line(ctx):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the help."""
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a name, whose module is imported only now."""
        if name not in self.table:
            return None
        module, attribute = self.table[name].target.split(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise missing_for(name, error) or error from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggests near names for an unknown one; a known one gets the defaults of the project that
        it runs in.
        """
        if args and args[0] not in self.table and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], self.table, n=1)
            hint = (
                f" Did you mean {near[0]!r}?"
                if near
                else f" `{ctx.command_path} --help` lists them."
            )
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        if args and ctx.parent is None:
            from .defaults import project_defaults

            ctx.default_map = ctx.with_resource(project_defaults(args[0]))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the helps, group by group, without importing anything."""
        for group, rows in itertools.groupby(self.table.items(), lambda row: row[1].group):
            with formatter.section(group):
                formatter.write_dl([(name, command.line) for name, command in rows])


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"unplug {VERSION}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    callback=_version,
    expose_value=False,
    is_eager=True,
    help="Show the version.",
)
def main() -> None:
    """unplug: small on-device vision models that can forget.

    Train, unlearn, audit, export, time and bundle. Start with `unplug demo`.

    Exit codes: 0 all good; 1 a gate or check failed; 2 bad usage or input.
    """
