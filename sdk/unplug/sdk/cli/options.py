"""Options that several commands take."""

from __future__ import annotations

import math
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unplug.core import InputError, is_there, key_file
from unplug.sdk.forgetting.tasks import NEEDS

from .base import Common, folded

if TYPE_CHECKING:
    from unplug.plugins import Checkpoint
    from unplug.sdk.forgetting.tasks import StoredTask
    from unplug.sdk.learning.data import Dataset

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
ERROR_OR_SKIP = click.Choice(["error", "skip"])
FINE = (
    *("clip", "drop_text", "captions"),
    *("schedule", "loss", "smoothing"),
)
"""Fields of recipes for trainings from Python; here their defaults hold."""
ON_BAD = (
    "What to do with unreadable images or wrong or empty cells: refuse, or go on without them and "
    "count them (as its training did, where a model's record says so)."
)


class FloatRange(click.FloatRange):
    """Click's range, which NaN is outside of: no comparison that click makes with it fails."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or click's error."""
        if math.isnan(number := super().convert(value, param, ctx)):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


def option(*names: str, **how: Any) -> Callable[[F], F]:
    """click's own, with its default in the help."""
    return click.option(*names, show_default=True, **how)


def path_option(*names: str, **how: Any) -> Callable[[F], F]:
    """An option that takes a path."""
    return click.option(*names, type=PATH, **how)


def path_argument(name: str, **how: Any) -> Callable[[F], F]:
    """An argument that is a path."""
    return click.argument(name, type=PATH, **how)


def paths_argument(name: str) -> Callable[[F], F]:
    """An argument of one or more paths."""
    return path_argument(name, nargs=-1, required=True)


def settings_option(help_text: str) -> Callable[[F], F]:
    """Adds --set KEY=VALUE, which may be repeated; `settings` reads it."""
    return click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help=help_text)


def on_bad_option(help_text: str | None = None) -> Callable[[F], F]:
    """Adds --on-bad, what to do with unusable samples."""
    return option("--on-bad", type=ERROR_OR_SKIP, default="error", help=help_text)


def spec_option(help_text: str, *, required: bool = True) -> Callable[[F], F]:
    """Adds --data SPEC alone."""
    return click.option("--data", "spec", required=required, metavar="SPEC", help=help_text)


def data_option(function: F) -> F:
    """Adds --data SPEC and --on-bad."""
    return spec_option("Data, for example utkface:DIR or synth:n=3000.")(
        on_bad_option(ON_BAD)(function)
    )


def split_options(function: F) -> F:
    """Adds --validation and --test: how much is held out."""
    for name, share in (("test", 0.2), ("validation", 0.1)):
        text = f"Fraction held out for {name}."
        function = option(f"--{name}", type=float, default=share, help=text)(function)
    return function


def restart_option(what: str = "an unfinished run") -> Callable[[F], F]:
    """Adds --restart."""
    text = f"Drop {what} instead of continuing it."
    return click.option("--restart", is_flag=True, help=text)


def budget_option(function: F) -> F:
    """Adds --budget of a forget step."""
    text = "Fraction of retraining, compute and wall time each (default: the method's)."
    return click.option("--budget", type=float, help=text)(function)


forget_option = path_option(
    "--forget",
    "forget_file",
    required=True,
    metavar="FILE",
    help="Sample ids or subject:NAME, one a line.",
)
half_option = click.option("--half", is_flag=True, help="Store the weights in float16.")
split_file_option = path_option(
    "--split", "split_file", help="Use this split file instead of drawing one."
)


def face_options(function: F) -> F:
    """Adds --box, --landmarker and --margin: which part of a picture is the face."""
    for add in (
        click.option(
            "--margin",
            type=FloatRange(-0.2, 2.0),
            default=0.01,
            show_default=True,
            help=(
                "Margin around the found face, as a fraction of its box (default: that of UTKFace)."
            ),
        ),
        click.option(
            "--landmarker",
            type=PATH,
            envvar="UNPLUG_FACE_LANDMARKER",
            help=(
                "MediaPipe's face_landmarker.task: finds and crops the face (needs the extra "
                "[conditions])."
            ),
        ),
        click.option("--box", help="The face's place in pixels: LEFT,TOP,RIGHT,BOTTOM."),
    ):
        function = add(function)
    return function


def without_option(help_text: str) -> Callable[[F], F]:
    """Adds --without NEED, what a method must do without; it may be repeated."""
    return click.option("--without", multiple=True, type=click.Choice(NEEDS), help=help_text)


def _no_device(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Results replace what is at their path, and root may replace /dev/null."""
    if value is None:
        return None
    try:
        mode = value.stat().st_mode
    except (
        FileNotFoundError,
        NotADirectoryError,
        PermissionError,
    ):  # who writes says what is wrong, and where
        return value
    except (OSError, ValueError) as error:  # too long a name; a null byte
        why = getattr(error, "strerror", None) or str(error)
        raise click.BadParameter(
            f"{str(value)[:60]!r}: {why}. Give a path that can be written", ctx, parameter
        ) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise click.BadParameter(
            f"{value} is a device or a pipe. Give a path for a file or a folder", ctx, parameter
        )
    return value


def out_option(
    help_text: str, *, required: bool = True, default: Path | None = None
) -> Callable[[F], F]:
    """Adds --out PATH, which may be no device and no pipe."""
    # A default of None would count as given for click 8.3 and later, and nothing would be required.
    more: dict[str, Any] = {} if default is None else {"default": default, "show_default": True}
    return click.option(
        "--out",
        "-o",
        required=required,
        type=PATH,
        metavar="PATH",
        help=help_text,
        callback=_no_device,
        **more,
    )


def check_there(*paths: Path) -> None:
    """Refuses a path at which nothing lies, before anything else of the command is looked at."""
    for path in paths:
        if not is_there(path):
            raise InputError(str(path), "there is no such file or folder", "Check the path")


def opened(
    checkpoint: Path, spec: str, on_bad: Any, base: str | None, common: Common
) -> tuple[Checkpoint, StoredTask, Dataset]:
    """A checkpoint, its task, and the data at its size."""
    from unplug.plugins import load_checkpoint
    from unplug.sdk.forgetting.tasks import task_of
    from unplug.sdk.learning.data import load_again

    original = load_checkpoint(checkpoint)
    task = task_of(original, device=common.device, base=base)
    size, record = task.image_size, original.record
    dataset = load_again(spec, size, record, on_bad=on_bad, show=common.show)
    return original, task, dataset


def traces(forget_file: Path) -> str:
    """What a forget step leaves of people, in two lines: how their decoded pictures are deleted,
    and the key of the records.
    """
    return f"{cached(f'--forget {shlex.quote(str(forget_file))}')}\n" + folded(
        f"Records name who was forgotten by digests under {key_file()}: keep it, later "
        "requests need it"
    )


def cached(whose: str) -> str:
    """How decoded pictures are deleted, in a line."""
    return f"The cache keeps their decoded pictures until: unplug cache purge {whose}"


faces_option = click.option(
    "--faces",
    is_flag=True,
    help=(
        "Keep twelve pictures of people of the test set, never of the forgotten, for the local "
        "report."
    ),
)
fleet_option = click.option(
    "--fleet",
    type=PATH,
    metavar="DIR",
    help=(
        "The folder from `unplug references`: models that never saw a person, among which that "
        "person is ranked."
    ),
)
training_data_option = click.option(
    "--training-data",
    "training",
    multiple=True,
    metavar="SPEC",
    help="Folder of the training's pictures, if not where the model's record says: the same picture "
    "under another name is left out; may be repeated.",
)
runtime_option = click.option(
    "--runtime", help="Runtime, say tensorflow (default: that of each file's target)."
)


def known_base(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> str | None:
    """A base by name, refused before torch is loaded where it is a folder that is not there."""
    from unplug.sdk.drawing.diffusion import base_folder

    if value is not None:
        base_folder(value)
    return value


base_option = click.option(
    "--base",
    callback=known_base,
    help="The diffusion base of a plugin or a pack (default: the one in its record).",
)


def shipped_or_given(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> Path | None:
    """A plugin that ships may be named; see `shipped_folder`."""
    from unplug.sdk.drawing.diffusion import shipped_folder

    return None if value is None else shipped_folder(value)


checkpoint_argument = click.argument("checkpoint", type=click.Path(), callback=shipped_or_given)


def given_option(*names: str) -> str | None:
    """The first of these arguments of the current command that the user wrote."""
    source = click.get_current_context().get_parameter_source
    return next(
        (name for name in names if source(name) is click.core.ParameterSource.COMMANDLINE), None
    )
