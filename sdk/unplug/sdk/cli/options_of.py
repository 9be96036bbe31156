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

from .base import names
from .options import FloatRange


class ConfiguredCommand(click.Command):
    """A command with an option for every field of a dataclass; None stands for the field's default.

    The metadata of a field may say its ``flag``, ``metavar`` or ``range`` (smallest and largest
    value).

    Args:
        config: ``"package.module:Class"``, imported when the parameters are first asked for, since
            it may import torch.
        skip: fields that are no options here.
        types: of fields whose annotation says too little.
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
        self._config: str | None = config
        self._skip, self._types = skip, types or {}

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """With those of the dataclass in front."""
        if self._config is not None:
            module, name = self._config.split(":")
            made = field_options(getattr(import_module(module), name), self._types)
            own = {parameter.name for parameter in self.params}
            self.params[:0] = [option for option in made if option.name not in own | {*self._skip}]
            self._config = None
        return super().get_params(ctx)


def given(config: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a command's options that are fields of a dataclass, and that somebody gave."""
    hints, found = get_type_hints(config), {}
    for item in dataclasses.fields(config):
        value = options.get(item.name)
        if _is_pairs(hints[item.name]) and not isinstance(value, dict):
            value = _pairs(item.name, value or ())
        if value not in (None, {}):
            found[item.name] = value
    return found


def field_options(config: Any, types: Mapping[str, Any]) -> list[click.Option]:
    """An option for every field of a dataclass; whole numbers keep to the range of the field, or to
    its ``ranges``.
    """
    hints, helps, ranges = (
        get_type_hints(config),
        argument_lines(config),
        getattr(config, "ranges", {}),
    )
    return [
        _option(
            item,
            types.get(item.name) or hints[item.name],
            helps.get(item.name, ""),
            item.metadata.get("range")
            or (ranges.get(item.name) if hints[item.name] is int else None),
        )
        for item in dataclasses.fields(config)
    ]


def _option(
    field: dataclasses.Field[Any], hint: Any, told: str, ends: tuple[Any, Any] | None
) -> click.Option:
    flag = field.metadata.get("flag", f"--{field.name.replace('_', '-')}")
    metavar = field.metadata.get("metavar")
    hint = _without_none(hint)
    if hint is bool:
        switch = f"{flag}/--no-{flag[2:]}" if field.default is True else flag
        return click.Option([switch, field.name], is_flag=True, default=None, help=told)
    if _is_pairs(hint):
        return click.Option([flag, field.name], multiple=True, metavar=metavar, help=told)
    shown = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    text = told if shown is None else f"{told.rstrip('.')} (default {shown}).".lstrip()
    if get_origin(hint) is tuple:
        return click.Option([flag, field.name], metavar=metavar, help=text, callback=_listed)
    return click.Option([flag, field.name], type=_type(hint, ends), metavar=metavar, help=text)


def _without_none(hint: Any) -> Any:
    """What an option takes: of several types the one that says most."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [item for item in get_args(hint) if item is not type(None)]
        return Path if Path in kinds else kinds[0]
    return hint


def _type(hint: Any, ends: tuple[Any, Any] | None) -> Any:
    if not isinstance(hint, type) and get_origin(hint) is not Literal:
        return hint  # a type of click's own, from `types`
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    if hint is int and ends is not None:
        return click.IntRange(*ends)
    if hint is float and ends is not None:
        return FloatRange(*ends)
    if hint is Path:
        return click.Path(path_type=Path)
    return {int: click.INT, float: click.FLOAT}.get(hint, click.STRING)


def _listed(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    return None if value is None else names(value)


def _is_pairs(hint: Any) -> bool:
    return get_origin(hint) is dict or dataclasses.is_dataclass(hint)


def _pairs(field: str, value: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` options as a dictionary."""
    for pair in value:
        if "=" not in pair:
            fix = f"Write for example `{field}` key=0.5"
            raise InputError(f"`{field}` {pair}", "it is not KEY=VALUE", fix)
    return dict(pair.split("=", 1) for pair in value)


def argument_lines(config: Any) -> dict[str, str]:
    """Name to text of the ``Args`` of a dataclass and those that it extends, each as a sentence."""
    found: dict[str, str] = {}
    for owner in reversed(config.__mro__):
        section = re.search(r"Args:\n(.*?)(?:\n\n|\Z)", inspect.getdoc(owner) or "", re.DOTALL)
        entries = re.split(r"\n {4}(?=\w)", "\n" + section[1])[1:] if section else []
        for entry in entries:
            named, _, text = " ".join(entry.split()).partition(": ")
            said = text.rstrip(".")
            found |= dict.fromkeys(named.split(", "), f"{said[:1].upper()}{said[1:]}.")
    return found
