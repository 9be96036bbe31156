"""Options of a command from a frozen dataclass: a new field is a new option, and its line of
``Args`` is the help.

What lies below the command line names fields; here each gets its flag, and `with_flags` puts that
into what it says.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from unplug.core import InputError

from .base import names, settings
from .flags import as_flags, flags_of
from .options import PATH, FloatRange


class ConfiguredCommand(click.Command):
    """A command with an option for every field of one or more dataclasses; None stands for the
    field's default.

    A sequence with a default is a list with commas; one without is an option that may be repeated.
    The metadata of a field may say its ``flag`` (or several), ``metavar`` or ``range`` (smallest
    and largest value).

    Args:
        config: ``"package.module:Class"``, imported when the parameters are first asked for, since
            it may import torch; several with blanks between.
        skip: fields that are no options here.
        types: the types of fields whose annotation says too little.
    """

    def __init__(
        self,
        *args: Any,
        config: str,
        skip: tuple[str, ...] = (),
        types: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._configs = config.split()
        self._skip, self._types = skip, types or {}

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The options of the dataclasses, then the command's own."""
        by_hand = {parameter.name for parameter in self.params} | {*self._skip}
        made: list[click.Option] = []
        while self._configs:
            module, name = self._configs.pop(0).split(":")
            made += field_options(getattr(import_module(module), name), self._types)
        made = [option for option in made if option.name not in by_hand]
        self.params[:0] = made
        # Docstrings name fields; what a user reads in the help are flags.
        for option in made:
            option.help = as_flags(option.help or "", flags_of(self))
        return super().get_params(ctx)


def given(config: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a command's options that are fields of a dataclass, and that somebody gave."""
    hints, values = get_type_hints(config), {}
    for field in dataclasses.fields(config):
        value = options.get(field.name)
        if isinstance(value, tuple) and _is_pairs(hints[field.name]):
            value = settings(value, field.name)
        if value not in (None, {}):
            values[field.name] = value
    return values


def field_options(config: Any, types: Mapping[str, Any]) -> list[click.Option]:
    """An option for every field of a dataclass; whole numbers keep to the range of the field, or to
    its ``ranges``.
    """
    hints, helps = get_type_hints(config), argument_lines(config)
    ranges = getattr(config, "ranges", {})
    options = []
    for field in dataclasses.fields(config):
        hint = types.get(field.name) or _without_none(hints[field.name])
        ends = field.metadata.get("range") or (ranges.get(field.name) if hint is int else None)
        options.append(_option(field, hint, helps.get(field.name, ""), ends))
    return options


def _option(
    field: dataclasses.Field[Any], hint: Any, told: str, ends: tuple[Any, Any] | None
) -> click.Option:
    flags = field.metadata.get("flag", f"--{field.name.replace('_', '-')}").split()
    how: dict[str, Any] = {"metavar": field.metadata.get("metavar"), "help": told}
    if hint is bool:
        switch = f"{flags[0]}/--no-{flags[0][2:]}" if field.default is True else flags[0]
        return click.Option([switch, field.name], is_flag=True, default=None, help=told)
    default = None if field.default is dataclasses.MISSING else field.default
    if _is_pairs(hint):
        how["multiple"] = True
    elif get_origin(hint) is Sequence and not default:
        kind = _type(get_args(hint)[0], ends)
        how |= {"multiple": True, "type": kind, "callback": _if_any}
    elif get_origin(hint) in (tuple, Sequence):
        default = default and ",".join(f"{item}" for item in default)
        how["callback"] = _numbers if get_args(hint)[0] is float else _listed
    else:
        required = default is None and field.default_factory is field.default is dataclasses.MISSING
        how |= {"type": _type(hint, ends), "required": required}
    if default not in (None, "", ()):
        how["help"] = f"{told.rstrip('.')} (default {default}).".lstrip()
    return click.Option([*flags, field.name], **how)


def _is_pairs(hint: Any) -> bool:
    return get_origin(hint) is dict or dataclasses.is_dataclass(hint)


def _without_none(hint: Any) -> Any:
    """What an option takes: of several types the one that says most of a word."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        return next((kind for kind in (Path, str) if kind in kinds), kinds[0])
    return hint


def _type(hint: Any, ends: tuple[Any, Any] | None) -> Any:
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    if not isinstance(hint, type):
        return hint  # a type of click's own, from `types`
    if hint is int and ends is not None:
        return click.IntRange(*ends)
    if hint is float and ends is not None:
        return FloatRange(*ends)
    return {int: click.INT, float: click.FLOAT, Path: PATH}.get(hint, click.STRING)


def _listed(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    return None if value is None else names(value)


def _numbers(
    _context: click.Context, option: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    try:
        return None if value is None else tuple(map(float, names(value)))
    except ValueError as error:
        fix = "Write numbers with commas: .1,.3,1"
        raise InputError(f"{option.opts[0]} {value}", "no numbers", fix) from error


def _if_any(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
    return value or None


def argument_lines(config: Any) -> dict[str, str]:
    """Name to text of the ``Args`` of a dataclass and those that it extends, each as a sentence."""
    lines: dict[str, str] = {}
    for owner in reversed(config.__mro__):
        section = re.search(r"Args:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(owner) or "", re.DOTALL)
        entries = re.split(r"\n {4}(?=\w)", "\n" + section[1])[1:] if section else []
        for entry in entries:
            named, _, text = " ".join(entry.split()).partition(": ")
            sentence = f"{text[:1].upper()}{text[1:].rstrip('.')}."
            lines |= dict.fromkeys(named.split(", "), sentence)
    return lines
