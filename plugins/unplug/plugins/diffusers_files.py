"""How plugins are saved and opened: diffusers' folder and calls, with nothing of the files trusted
and nothing left random.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn

from unplug.core import CheckpointError, InputError

from .checkpoint import CODE_FILE, DIFFUSERS_WEIGHTS, find_checkpoint, load_checkpoint
from .model_spec import describe_weights
from .shipped_files import shipped_path, shipped_plugins

FOREIGN_KEY = "adapter_type"
"""A setting of diffusers' ``T2IAdapter``, which refuses a type that it does not know and ignores
every other key.
"""
FOREIGN_VALUE = (
    "a plugin of unplug: open it with unplug.plugins.ConditioningPlugin, several together with "
    "MultiPlugin"
)


CODE_KEY = "auto_map"
"""The place where diffusers' ``AutoModel`` looks for a class of `CODE_FILE`."""
_CODE = '''"""Lets diffusers' AutoModel open this folder, with ``trust_remote_code=True``."""

try:
    from unplug.plugins import {name}
except ImportError as error:
    raise ImportError("This is a plugin of unplug: install the distribution unplug-sdk") from error
'''
"""Guarded: diffusers takes an import that is not for the name of a distribution to install."""


class PluginFiles:
    """``save_pretrained`` and ``from_pretrained`` of a network that diffusers takes for one of its
    models.

    A subclass derives from diffusers' ``ModelMixin`` and ``ConfigMixin`` as well, after this
    class, and names the entry of `MODELS` that it is. diffusers' ``MultiAdapter`` opens whatever it
    finds as a ``T2IAdapter`` of random weights: a word in the configuration makes that an error
    which says what to use instead.
    """

    model_type: ClassVar[str]

    def save_pretrained(
        self,
        save_directory: str | PathLike[Any],
        *,
        safe_serialization: bool = True,
        variant: str | None = None,
        **kwargs: Any,
    ) -> None:
        """diffusers' own, as one safetensors file, whatever type of number the weights have.

        Args:
            save_directory: the folder.
            safe_serialization: True; a pickle is never written.
            variant: a word in the file's name, as diffusers' pipelines give it to all their parts.
            kwargs: see ``diffusers.ModelMixin.save_pretrained``.

        Raises:
            InputError: a pickle was asked for.
        """
        if not safe_serialization:
            raise InputError(
                "safe_serialization=False",
                "a pickle can run code",
                "Leave it out: weights become safetensors",
            )
        from diffusers.models.modeling_utils import ModelMixin

        # In one piece, since only that is read; not `super`, which diffusers' MultiAdapter would
        # answer.
        settings: Any = {**kwargs, "variant": variant, "max_shard_size": "10GB"}
        ModelMixin.save_pretrained(self, save_directory, **settings)  # type: ignore[arg-type]
        code = _CODE.format(name=type(self).__name__)
        (Path(save_directory) / CODE_FILE).write_text(code, encoding="utf-8")
        describe_weights(
            Path(save_directory) / _weights(variant),
            architecture=self.model_type,
            title=f"Conditioning plugin, {self.config.get('condition', 'several conditions')}",  # type: ignore[attr-defined]
        )

    def to_json_string(self) -> str:
        """What becomes ``config.json``, with the word that keeps diffusers' ``T2IAdapter`` from
        taking it for its own.
        """
        config: dict[str, Any] = json.loads(super().to_json_string())  # type: ignore[misc]
        code = {"AutoModel": f"{Path(CODE_FILE).stem}.{type(self).__name__}"}
        config |= {FOREIGN_KEY: FOREIGN_VALUE, CODE_KEY: code}
        return json.dumps(config, indent=2, sort_keys=True) + "\n"

    @staticmethod
    def complete_config(_folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        """The constructor's arguments in a ``config.json``."""
        return {key: value for key, value in config.items() if key not in (FOREIGN_KEY, CODE_KEY)}

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | PathLike[Any],
        *,
        subfolder: str | None = None,
        variant: str | None = None,
        dtype: torch.dtype | None = None,
        torch_dtype: torch.dtype | None = None,
        use_safetensors: bool | None = True,
        low_cpu_mem_usage: bool | None = None,
        **hub: Any,
    ) -> Self:
        """Loads it in eval mode; nothing of its files is trusted.

        Args:
            pretrained_model_name_or_path: the name of a plugin that ships (``./canny`` is the
                folder), a folder, or ``owner/name`` on the hub.
            subfolder: the plugin's folder below it.
            variant: the variant of its weights, see `weights_file`.
            dtype, torch_dtype: type of its weights; default: float32, whatever was stored.
            use_safetensors: True or None; a pickle is never read.
            low_cpu_mem_usage: ignored.
            hub: see `find_checkpoint`; what is None or False is left out, as diffusers' pipelines
                pass to all their parts.

        Raises:
            CheckpointError: see `load_checkpoint`.
            InputError: `use_safetensors` is False, or another argument is not known here.
        """
        if use_safetensors is False:
            raise InputError(
                "use_safetensors=False",
                "a pickle can run code",
                "Leave it out: plugins are safetensors only",
            )
        given = {
            key: value for key, value in hub.items() if value is not None and value is not False
        }
        place = _shipped_or(pretrained_model_name_or_path)
        folder = find_checkpoint(place, _weights(variant), subfolder=subfolder or "", **given)
        plugin: Any = load_checkpoint(folder, expect=cls.model_type, variant=variant).model
        wanted = dtype or torch_dtype
        # diffusers' own `to` warns for no reason
        typed: Self = plugin if wanted is None else nn.Module.to(plugin, wanted)
        return typed


def _weights(variant: str | None) -> str:
    return DIFFUSERS_WEIGHTS if variant is None else DIFFUSERS_WEIGHTS.replace(".", f".{variant}.")


def _shipped_or(place: str | PathLike[Any]) -> str | PathLike[Any]:
    """The folder of a plugin that ships, by its bare name; any other place as it is."""
    if not isinstance(place, str) or not place.isidentifier():
        return place
    known = shipped_plugins()
    if place in known:
        return shipped_path(place, place)
    if not Path(place).exists():
        near = difflib.get_close_matches(place, known, n=1) or known
        why = "no plugin of this name ships, and no such folder is here"
        raise CheckpointError(place, why, f"Give {' or '.join(near)}, a folder, or OWNER/NAME")
    return place
