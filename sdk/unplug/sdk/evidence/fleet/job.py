"""A job of a fleet: a function by its name and JSON arguments, so that any process on any machine
can run it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from unplug.core import InputError, json_sha256

# no leading dot: such names are temporary files
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def _check_call(what: str, target: str, arguments: object) -> None:
    if not isinstance(target, str) or not TARGET.fullmatch(target):
        raise InputError(
            f"{what} target {target!r}",
            "not of the form package.module:function",
            "Name a module's function",
        )
    if not isinstance(arguments, dict) or not all(isinstance(name, str) for name in arguments):
        raise InputError(
            f"{what} arguments",
            "not a dict with text keys",
            "Give the function's arguments by name",
        )
    try:
        json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{what} arguments", f"not JSON ({error})", "Give text, numbers, lists and dicts alone"
        ) from error


@dataclass(frozen=True, kw_only=True)
class FleetJob:
    """One piece of work, called as ``function(context, **arguments)`` and giving a `Result`.

    It must depend on its arguments and the context alone (seed every generator): the backends then
    agree.

    Args:
        name: unique in the run, of letters, digits, ``.``, ``_`` and ``-``; its result is
            ``OUT/NAME.safetensors``.
        target: ``"package.module:function"``.
        arguments: JSON-able.

    Raises:
        InputError: a name that is not a plain file name, a malformed target, arguments that are not
            JSON.

    Example:
        >>> FleetJob(name="../up", target="json:dumps")
        Traceback (most recent call last):
        unplug.core.errors.InputError: job name '../up': ...
    """

    name: str
    target: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise InputError(
                f"job name {self.name!r}",
                "not a plain file name",
                "Use up to 200 of A-Z a-z 0-9 . _ - and no dot in front",
            )
        _check_call(f"job {self.name}", self.target, self.arguments)


@dataclass(frozen=True, kw_only=True)
class Context:
    """What all jobs of a run share and each worker builds once (a data set, a model), as
    ``function(**arguments)``.

    Args:
        target: ``"package.module:function"``.
        arguments: JSON-able.

    Raises:
        InputError: a malformed target, arguments that are not JSON.
    """

    target: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_call("context", self.target, self.arguments)

    def build(self) -> Any:
        """Calls the function that the job names, with its arguments."""
        return resolve(self.target)(**self.arguments)


def resolve(target: str) -> Callable[..., Any]:
    """Imports ``"package.module:function"``; ImportError and AttributeError come through."""
    module, _, attribute = target.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), attribute)
    return function


def job_fingerprint(job: FleetJob, context: Context | None, given: str) -> str:
    """SHA-256 of all that decides a result: target, arguments, context, and what the caller gave (a
    data digest, a version).
    """
    facts = {
        "target": job.target,
        "arguments": job.arguments,
        "context": None if context is None else [context.target, context.arguments],
        "given": given,
    }
    return json_sha256(facts)
