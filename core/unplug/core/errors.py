"""Every error that unplug raises on purpose.

UnplugError                     exit 2: what, why, what to do, in one line
├── InputError                  something from outside is wrong
│   ├── DataError               a data spec, an image, a label, a split, a forget file
│   │   ├── NoFaceError         a picture without a face (or a person) where one is needed
│   │   └── SeveralFacesError   a picture of several faces where one is meant
│   ├── CheckpointError         a checkpoint folder or its tensors
│   ├── ArtifactError           an exported file or its card
│   │   └── UnknownOperatorError  a file that may be sound, and that cannot be checked here
│   ├── ReportError             a report or bundle JSON
│   └── StillHeld               a release would know again whom an earlier one forgot
├── MissingExtraError           an optional dependency is not installed
├── OutputError                 a result could not be written
├── ConversionError             a converter or a runtime failed in its child process
├── DeviceError                a phone, a browser or what drives it is missing, or does not let us in
│   └── DeviceLost              it was there and vanished
├── TrainingError               a loss became NaN, a recipe cannot run
├── InsufficientMemoryError     the estimate says the step would not fit
├── Interrupted                 exit 130: Ctrl-C
│   └── Terminated              exit 143: SIGTERM
└── CheckFailed                 exit 1: everything ran, and the answer is "no"
    ├── BudgetExceeded          a method spent more than it was given
    └── GateFailed              a release gate does not hold
"""

from __future__ import annotations

from .installing import install_command

LONGEST_PART = 320
"""Characters of each of the three parts of an error's line."""


class UnplugError(Exception):
    """Base of all unplug errors: ``what: why. fix``.

    Each part is at most `LONGEST_PART` characters: what failed is often a stranger's text,
    repeated.

    Args:
        what: the thing that failed, named as the user knows it.
        why: the reason found.
        fix: advice: the next step.

    Example:
        >>> str(UnplugError("forget.txt", "names 2 unknown samples", "Check the ids"))
        'forget.txt: names 2 unknown samples. Check the ids.'
    """

    exit_code = 2

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = _bounded(what), _bounded(why), _bounded(fix)
        text = f"{self.what}: {self.why}" if why else self.what
        super().__init__(" ".join(_sentence(part) for part in (text, self.fix)) if fix else text)

    def __reduce__(self) -> tuple[type[UnplugError], tuple[str, str, str]]:
        return type(self), (self.what, self.why, self.fix)


def _bounded(part: str) -> str:
    """The beginning and the end, where the name of a file or the reason of a library stands."""
    if len(part) <= LONGEST_PART:
        return part
    head = 2 * LONGEST_PART // 3
    return f"{part[:head]}…{part[head + 1 - LONGEST_PART :]}"


def _sentence(part: str) -> str:
    return part if part.endswith(("?", "!")) else f"{part.rstrip('.')}."


class InputError(UnplugError):
    """Something that came from outside is wrong."""


class DataError(InputError):
    """A data spec, an image, a label, a split or a forget file is wrong."""


class NoFaceError(DataError):
    """A picture shows no face, or no person, where one is needed."""


class SeveralFacesError(DataError):
    """A picture shows several faces where one is meant."""


class CheckpointError(InputError):
    """A checkpoint folder is missing, broken or of another model."""


class ArtifactError(InputError):
    """An exported file or its card is missing, broken or edited."""


class UnknownOperatorError(ArtifactError):
    """What would run an exported file here does not know one of its operators: it was not checked,
    and may be sound.
    """


class ReportError(InputError):
    """A report or bundle JSON does not follow its schema."""


class StillHeld(InputError):
    """A release would know again whom an earlier one forgot; what and why name requests, numbers
    and a bundle, never people.
    """


class MissingExtraError(UnplugError):
    """An optional dependency is not installed.

    Args:
        package: the import that failed.
        extra: the unplug extra that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"{package} is not installed",
            f"this needs the extra [{extra}]",
            f"Run: {install_command(extra)}",
        )

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:  # type: ignore[override]
        return type(self), (self.package, self.extra)


class OutputError(UnplugError):
    """A result could not be written."""


class ConversionError(UnplugError):
    """A converter or a foreign runtime failed in its child process."""


class DeviceError(UnplugError):
    """A phone, a browser or the tool that drives it is missing, or does not let us in."""


class DeviceLost(DeviceError):
    """A device that was there vanished in the middle of work."""


class TrainingError(UnplugError):
    """Training cannot go on: a NaN loss, or a recipe that cannot run."""


class InsufficientMemoryError(UnplugError):
    """The memory estimate says that the step would not fit."""


class Interrupted(UnplugError):
    """Somebody pressed Ctrl-C, and the work was ended in order."""

    exit_code = 130  # 128 and the number of the signal, as shells say it


class Terminated(Interrupted):
    """Somebody asked the process to end."""

    exit_code = 143


class CheckFailed(UnplugError):
    """Everything ran, and the answer is "no"."""

    exit_code = 1


class BudgetExceeded(CheckFailed):
    """A method spent more passes than it was given."""


class GateFailed(CheckFailed):
    """A release gate does not hold."""


def error_class(name: str, otherwise: type[UnplugError]) -> type[UnplugError]:
    """The error of that name, for one that another process told of; `otherwise` for a name that is
    none of ours.

    Example:
        >>> error_class("DataError", UnplugError).__name__, error_class("SystemExit", UnplugError).__name__
        ('DataError', 'UnplugError')
    """
    kind = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, UnplugError) else otherwise
