"""What commands share: --json, --seed and --device, one line an error, exit codes."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import click

from unplug.core import (
    InputError,
    InsufficientMemoryError,
    Interrupted,
    OutputError,
    Terminated,
    UnplugError,
    hold,
    printable,
    progress_in_logs,
)

from .commands import missing_for
from .flags import with_flags

F = TypeVar("F", bound=Callable[..., Any])
GO_ON = "Run the same command again: it goes on from what is saved, and nothing is half-written"
MAX_SEED = 2**31 - 1
WIDTH = 80
"""Columns of a terminal, whatever its window has: what is printed is the same everywhere."""
UNASKED = (
    (RuntimeError, "Symlink loop from", "its links lead back to themselves"),
    (ValueError, "has an empty name", "it names no file"),
    (UnicodeEncodeError, "surrogates not allowed", "it is not text in this locale"),
)
OUT_OF_MEMORY = "Use fewer samples, a smaller --pixels or a smaller model"


@dataclass(kw_only=True)
class Outcome:
    """What a command found.

    Args:
        value: JSON-ready, printed with ``--json``.
        text: printed without.
        ok: False makes the exit code 1.
    """

    value: Any
    text: str = ""
    ok: bool = True

    def add(self, text: str, *, ok: bool = True) -> None:
        """One more piece of text, and whether what it tells is good."""
        self.text = f"{self.text}\n{text}" if self.text else text
        self.ok = self.ok and ok


@dataclass(frozen=True, kw_only=True)
class Common:
    """The shared options of one call."""

    as_json: bool
    seed: int
    device_name: str

    @property
    def show(self) -> bool:
        """Whether to tell of progress, see `unplug.core.progress`: not to machines."""
        return not self.as_json

    @property
    def device(self) -> Any:
        """The torch device (imports torch)."""
        from unplug.sdk.learning.training import pick_device

        return pick_device(self.device_name)

    @property
    def shared(self) -> dict[str, Any]:
        """What most steps of the journey take from here."""
        return {"seed": self.seed, "device": self.device_name, "show": self.show}

    def say(self, line: str) -> None:
        """A progress line for people, on standard error."""
        if not self.as_json:
            echo(with_flags(line), err=True)


seed_option = click.option(
    "--seed",
    type=click.IntRange(0, MAX_SEED),
    default=0,
    show_default=True,
    help="Seed of everything random.",
)
device_option = click.option(
    "--device", "device_name", default="auto", show_default=True, help="auto, cpu or cuda."
)


def computing(function: F) -> F:
    """Adds --seed and --device to a command that draws at random and computes."""
    return seed_option(device_option(function))


def command(function: Callable[..., Outcome]) -> Callable[..., None]:
    """Adds --json, prints the outcome, turns errors into one line and an exit code."""

    @click.option(
        "--json", "as_json", is_flag=True, help="Print the result as JSON on standard output."
    )
    @functools.wraps(function)
    def wrapped(
        *args: Any, as_json: bool, seed: int = 0, device_name: str = "auto", **kwargs: Any
    ) -> None:
        common = Common(as_json=as_json, seed=seed, device_name=device_name)
        place = kwargs.get("out")
        try:
            with _terminable(), progress_in_logs(), nullcontext() if place is None else hold(place):
                outcome = function(*args, common=common, **kwargs)
            value = clean(outcome.value)
            echo(_json(value, sort_keys=True) if as_json else with_flags(outcome.text))
        # A bug must not leave with 1, which means that a gate failed.
        except (Exception, KeyboardInterrupt, _Termination) as error:  # noqa: BLE001
            _fail(_told(error), as_json)
        sys.exit(0 if outcome.ok else 1)

    return wrapped


class _Termination(BaseException):
    """SIGTERM as an exception, so that every temporary folder goes and every child ends on the way
    out.
    """


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """While a command runs the first SIGTERM ends it in order, and a second one at once."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise _Termination

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told(error: BaseException) -> UnplugError:
    """What to say of an error, wherever it was raised."""
    text = str(error)
    if isinstance(error, UnplugError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return Interrupted("interrupted", "", GO_ON)
    if isinstance(error, _Termination):
        return Terminated("terminated", "", GO_ON)
    if isinstance(error, MemoryError):
        return InputError("out of memory", "", OUT_OF_MEMORY)
    if isinstance(error, OSError):
        place, fix = str(error.filename or "writing"), "Check the path and the space on its disk"
        return InputError(place, error.strerror or text, fix)
    if isinstance(error, ModuleNotFoundError):
        name = click.get_current_context().find_root().invoked_subcommand
        return missing_for(name, error) or _bug(error)
    # What safetensors raises on a full disk is not an `OSError`; asked for only where it is loaded.
    weights = sys.modules.get("safetensors")
    if weights is not None and isinstance(error, weights.SafetensorError):
        fix = "Free space or change --out; nothing was left half-written"
        return OutputError("weights", text, fix)
    if "allocate memory" in text or "out of memory" in text:
        return InsufficientMemoryError("out of memory", text.splitlines()[0], OUT_OF_MEMORY)
    return _refused_by_python(error) or _bug(error)


def _refused_by_python(error: BaseException) -> UnplugError | None:
    """What Python itself finds wrong with a path or name; None for any other error."""
    for kind, words, why in UNASKED:
        if isinstance(error, kind) and words in str(error):
            return InputError("a path or name", f"{why} ({error})", "Check what was given")
    return None


def _bug(error: BaseException) -> UnplugError:
    """What to say of an error that nobody foresaw, after its traceback."""
    echo("".join(traceback.format_exception(error)).rstrip("\n"), err=True)
    return UnplugError(
        "this is a bug in unplug",
        f"{type(error).__name__}: {error}",
        "Please report the lines above",
    )


def _fail(error: UnplugError, as_json: bool) -> NoReturn:
    if as_json:
        parts = {name: with_flags(getattr(error, name)) for name in ("what", "why", "fix")}
        echo(_json({"error": {"type": type(error).__name__, **parts}}))
    echo(f"error: {with_flags(' '.join(str(error).split()))}", err=True)
    sys.exit(error.exit_code)


def _json(value: Any, *, sort_keys: bool = False) -> str:
    """The value as JSON in ASCII. JSON leaves one control character as it is, which `echo` would
    write as no JSON does.
    """
    text = json.dumps(value, indent=1, sort_keys=sort_keys, allow_nan=False)
    return text.replace("\x7f", "\\u007f")


def echo(text: str, *, err: bool = False) -> None:
    """The one way to a terminal: what it shows may come from anybody, and can do nothing but be
    read.
    """
    click.echo(printable(text), file=sys.stderr if err else sys.stdout)


def folded(text: str, indent: int = 2) -> str:
    """A sentence in lines of `WIDTH` columns, all but the first indented; words, and so paths and
    names, stay whole.

    Example:
        >>> print(folded("not run: " + "lira, which reads reference models, " * 3))
        not run: lira, which reads reference models, lira, which reads reference models,
          lira, which reads reference models,
    """
    return textwrap.fill(
        text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def clean(value: Any) -> Any:
    """JSON without NaN or infinity (they become null), paths as text."""
    if isinstance(value, dict):
        return {str(key): clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


def settings(pairs: Sequence[str], field: str = "set") -> dict[str, str]:
    """``KEY=VALUE`` options as a dictionary."""
    for pair in pairs:
        if "=" not in pair:
            fix = f"Write for example `{field}` key=0.5"
            raise InputError(f"`{field}` {pair}", "it is not KEY=VALUE", fix)
    return dict(pair.split("=", 1) for pair in pairs)


def names(text: str) -> tuple[str, ...]:
    """A comma-separated list of names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def percent(value: float | None) -> str:
    """A fraction as text: 0.051 as "5.1 %", None as "?"."""
    return "?" if value is None else f"{100 * value:.1f} %"
