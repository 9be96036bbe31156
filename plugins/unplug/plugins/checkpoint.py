"""Checkpoint folders: ``config.json``, ``model.safetensors``, a card, and ``unplug.json`` with the
record.

The record says where the weights come from (data digest, split, recipe, cost, lineage) and which
weights it describes, by their SHA-256: next to other weights it is refused. It never holds code.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from unplug.core import (
    CheckpointError,
    InputError,
    OutputError,
    Registry,
    atomic_dir,
    check_content,
    check_there,
    json_sha256,
    read_json,
    settled,
    sha256_file,
    write_json,
)

MODELS: Registry[Any] = Registry(
    "model type",
    {
        "age": "unplug.plugins.age:AgePredictor",
        "classes": "unplug.plugins.classifier:Classifier",
        "age-trunk": "unplug.plugins.age_trunk:AgeTrunk",
        "plugin": "unplug.plugins.conditioning:ConditioningPlugin",
        "multi-plugin": "unplug.plugins.multi_plugin:MultiPlugin",
        "dit-plugin": "unplug.plugins.dit_plugin:DiTPlugin",
        "unet": "unplug.plugins.base_parts:BaseUNet",
        "guided_unet": "unplug.plugins.base_parts:GuidedUNet",
        "slotted_unet": "unplug.plugins.lora_slots:SlottedUNet",
        "decoder": "unplug.plugins.base_parts:BaseDecoder",
        "quick_decoder": "unplug.plugins.quick_decoder:QuickDecoder",
        "mark_reader": "unplug.plugins.mark_reader:MarkReader",
        "text_encoder": "unplug.plugins.text_encoder:TextEncoder",
    },
    group="unplug.models",
)
BROKEN = (
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RuntimeError,
    AssertionError,
    InputError,
)
"""What networks raise on configurations that do not fit."""
VIEWS = {"guided_unet": "unet", "slotted_unet": "unet"}
"""Model types that are another way to run the weights of a model type: asked for by name, never
named by a config.json.
"""
FOREIGN = ("unet", "guided_unet", "slotted_unet", "decoder", "text_encoder")
"""Model types whose configurations are diffusers' or transformers', with more settings than could
be bounded one by one.
"""
TRANSFORMERS_TYPES = {"clip_text_model": "text_encoder"}
"""Model types of the configurations that transformers writes: its own word for the kind."""
DIFFUSERS_CLASSES = {
    "ConditioningPlugin": "plugin",
    "MultiPlugin": "multi-plugin",
    "DiTPlugin": "dit-plugin",
    "UNet2DConditionModel": "unet",
    "AutoencoderKL": "decoder",
}
"""Model types of the configurations that diffusers writes: they name a class."""

RECORD = "unplug.json"
BINDING = "weights_sha256"
"""Key of a record: SHA-256 of the weight file that it describes."""
WEIGHTS, DIFFUSERS_WEIGHTS = "model.safetensors", "diffusion_pytorch_model.safetensors"
VARIANTS = ("fp32", "fp16", "bf16")
"""Variants of weights that are taken before others."""
_WEIGHTS = re.compile(
    r"(diffusion_pytorch_)?model\.((?P<single>\w+)\.)?safetensors(\.index\.((?P<shards>\w+)\.)?json)?"
)
DESIGN_STATE = "design.safetensors"
"""The file that a forgettable model's personal part is computed from."""
MEMBERS = "members"
"""The folder of the checkpoints that share the head of a forgettable model."""
CODE_FILE = "unplug_plugin.py"
"""What diffusers runs to open a plugin, if somebody lets it; unplug never does."""
CHECKPOINT_FILES = (
    "config.json",
    WEIGHTS,
    DIFFUSERS_WEIGHTS,
    "README.md",
    RECORD,
    "metrics.jsonl",
    DESIGN_STATE,
    MEMBERS,
    CODE_FILE,
)
"""All that a checkpoint folder holds; a folder with anything else in it is never replaced."""
MAX_CONFIG_BYTES, MAX_INDEX_BYTES = 2**20, 2**24
MAX_NUMBER = 1e15
FREE_NUMBERS = 2**24
"""The limit for a network's buffers that no file holds (masks of attention, say), beyond the bytes
that its weights have.
"""
FOREIGN_NUMBER, FOREIGN_ENTRIES = 2**20, 10_000
"""Limits for configurations that others write, see `FOREIGN`: a vocabulary is the largest number in
them, betas the longest list.
"""
SHAPE: dict[str, Any] = {
    "schema": str,
    "role": str,
    "seed": int,
    "captions_seed": int,
    "captions": str,
    "parameters": int,
    "image_size": int,
    "data": {"spec": str, "digest": str, "samples": int, "unusable": int},
    "split": {},
    "recipe": {},
    "history": list,
    "labels": list,
    "cost": {"forward": int, "backward": int, "wall_s": float, "device": str},
    "metrics": {},
    "versions": {},
    "design": {},
    "forget": {
        "method": str,
        "samples": int,
        "settings": {},
        "cost": {
            "compute_fraction": float,
            "wall_s": float,
            "retrain": {"wall_s": float, "source": str},
        },
    },
    "lineage": {"original": str, "original_sha256": str},
}
"""What readers of a record take for granted about the values that it has: a kind, or an object with
more of them.
"""
ANOTHER = "This is the checkpoint of another model"
AGAIN = "Restore the file that was saved with the weights"
HUB_ARGUMENTS = ("revision", "cache_dir", "force_download", "local_files_only", "token")
PICKLE_STARTS = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A loaded checkpoint.

    Args:
        path: the folder.
        model_type: key of `MODELS`.
        model: the network in eval mode, on the CPU.
        sha256: the hash of the weight file, see `weights_sha256`.
        record: the contents of ``unplug.json`` (empty for weights from elsewhere).
    """

    path: Path
    model_type: str
    model: Any
    sha256: str
    record: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line: kind, place, weights, and how it forgets or what came of it."""
        design, role = self.record.get("design"), self.record.get("role")
        made = design.get("name") if isinstance(design, dict) else None
        more = "".join(f", {word}" for word in (made, role) if word)
        return f"Checkpoint({self.model_type} at {str(self.path)!r}, {self.sha256[:16]}{more})"


def save_checkpoint(
    model: Any,
    path: Path,
    *,
    record: dict[str, Any],
    card: str,
    state: dict[str, Any] | None = None,
    members: Mapping[str, tuple[Any, dict[str, Any], str]] | None = None,
) -> None:
    """Writes a checkpoint folder atomically, its owner's alone: its record may name people, its
    state sums up their faces.

    Args:
        model: a network of `MODELS` (it has ``save_pretrained``).
        path: the folder; an older checkpoint there is replaced, anything else is refused.
        record: JSON-ready facts for ``unplug.json``; the hash of the weights is added here.
        card: Markdown for ``README.md``.
        state: tensors for `DESIGN_STATE`; the record then names the hash of that file.
        members: network, record and card of each checkpoint below `MEMBERS`, by name.

    Raises:
        OutputError: the folder cannot be written.
    """
    with atomic_dir(
        Path(path), owner="config.json", ours=CHECKPOINT_FILES, private=True
    ) as temporary:
        _write(temporary, model, record, card, state)
        for name, member in (members or {}).items():
            (temporary / MEMBERS / name).mkdir(parents=True)
            _write(temporary / MEMBERS / name, *member)


def _write(
    folder: Path,
    model: Any,
    record: dict[str, Any],
    card: str,
    state: dict[str, Any] | None = None,
) -> None:
    from safetensors.torch import save_file

    # The card goes first: huggingface_hub writes a generic one where none is there.
    (folder / "README.md").write_text(card, encoding="utf-8")
    with safetensors_errors(folder):
        model.save_pretrained(folder)
        if state is not None:
            save_file(state, folder / DESIGN_STATE)
            record = record | {"state_sha256": sha256_file(folder / DESIGN_STATE)}
    write_json(folder / RECORD, record | {BINDING: weights_sha256(folder)})


@contextlib.contextmanager
def safetensors_errors(path: Path) -> Iterator[None]:
    """Turns what safetensors raises while writing (a full disk, for one) into an `OutputError`."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise OutputError(
            str(path),
            f"the weights could not be written ({error})",
            "Free some space or choose another `out`",
        ) from error


def view_of(model_type: str) -> str | None:
    """What `load_checkpoint` is to be asked for, to get a model of this type from the checkpoint
    that it was made from.

    Example:
        >>> view_of("guided_unet"), view_of("unet")
        ('guided_unet', None)
    """
    return model_type if model_type in VIEWS else None


@settled
def load_checkpoint(
    path: str | Path,
    *,
    expect: str | None = None,
    view: str | None = None,
    variant: str | None = None,
) -> Checkpoint:
    """Loads a checkpoint folder, safetensors only.

    Args:
        path: a folder that `save_checkpoint` or ``save_pretrained`` wrote.
        expect: the model type that the caller can use; None takes any.
        view: a key of `VIEWS`: the weights, run in that way; None is their own.
        variant: the variant of the weights, see `weights_file`.

    Raises:
        CheckpointError: no such folder, a pickle, another model, missing, extra or misshapen
            tensors, NaN weights, or a record of other weights than these or of another shape.

    Example:
        >>> load_checkpoint("/nowhere")
        Traceback (most recent call last):
        unplug.core.errors.CheckpointError: /nowhere: no such folder. Give the folder of a checkpoint.
    """
    folder = Path(path)
    model_type, config = read_config(folder, expect=VIEWS[view] if view else expect)
    model_type, weights = view or model_type, weights_file(folder, variant)
    if variant is not None:
        _check_files(folder, weights)
    record = _read_object(folder / RECORD) if (folder / RECORD).is_file() else None
    model = _build(folder, weights, model_type, config)
    sha256 = weights_sha256(folder) if variant is None else sha256_file(weights)
    if record is not None:
        check_binding(record.get(BINDING), sha256, folder / RECORD)
        _check_shape(record, SHAPE, "record", folder / RECORD)
    return Checkpoint(
        path=folder, model_type=model_type, model=model, sha256=sha256, record=record or {}
    )


def check_binding(claimed: object, sha256: str, record: Path) -> None:
    """Refuses a record next to weights that it does not describe: what it says of method, cost and
    forget set is of others.

    Args:
        claimed: the record's values under `BINDING`.
        sha256: the hash of the weight file next to it.
        record: its path, for the message.

    Raises:
        CheckpointError: it names no weights, or others.
    """
    if claimed != sha256:
        says = f"{claimed:.12}" if isinstance(claimed, str) and claimed else "none"
        why = (
            f"it describes other weights than those next to it ({BINDING} {says}, and they are "
            f"{sha256:.12})"
        )
        raise CheckpointError(str(record), why, "Restore the two files that were saved together")


def read_config(folder: Path, *, expect: str | None = None) -> tuple[str, dict[str, Any]]:
    """Model type and configuration of a checkpoint folder, without torch and without its weights.

    Args:
        folder: a checkpoint.
        expect: see `load_checkpoint`.

    Raises:
        CheckpointError: no such folder, no weights or a pickle, no configuration, or another model.
    """
    _check_files(folder, weights_file(folder))
    config = _read_object(folder / "config.json", max_bytes=MAX_CONFIG_BYTES)
    model_type = model_type_of(config)
    if (
        model_type not in MODELS
        or model_type in VIEWS
        or (expect is not None and model_type != expect)
    ):
        known = ", ".join(name for name in MODELS if name not in VIEWS)
        wanted = f"a checkpoint of type {expect!r}" if expect else f"one of the types {known}"
        raise CheckpointError(
            str(folder), f"its config.json says model_type {model_type[:60]!r}", f"Give {wanted}"
        )
    return model_type, {key: value for key, value in config.items() if key != "model_type"}


def _check_shape(value: Any, shape: Any, place: str, path: Path) -> None:
    """Refuses a record that holds, where readers look, something of another kind; what is not there
    they tell of themselves.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits, wanted = {
        dict: (isinstance(value, dict), "an object"),
        str: (isinstance(value, str), "a text"),
        list: (isinstance(value, list), "a list"),
        int: (number and isinstance(value, int) and abs(value) < MAX_NUMBER, "a whole number"),
        float: (number and 0 <= value < MAX_NUMBER, "a number from 0 on"),
    }[dict if isinstance(shape, dict) else shape]
    if not fits:
        raise CheckpointError(str(path), f"its {place} is not {wanted}", AGAIN)
    if isinstance(shape, dict):
        for key in shape.keys() & value.keys():
            inner = f"{place}.{key}" if place != "record" else key
            _check_shape(value[key], shape[key], inner, path)


def _read_object(path: Path, **limits: int) -> dict[str, Any]:
    try:
        value = read_json(path, **limits)
    except InputError as error:
        raise CheckpointError(error.what, error.why, error.fix) from error
    if not isinstance(value, dict):
        raise CheckpointError(str(path), "it is not an object", "Train or export it again")
    return value


def find_checkpoint(
    path: str | PathLike[Any], weights: str, *, subfolder: str = "", **hub: Any
) -> Path:
    """The folder of a checkpoint, fetched from the hub where there is no such folder here.

    Args:
        path: a folder, or ``owner/name`` on the hub.
        weights: name of the weight file.
        subfolder: the checkpoint's folder below it.
        hub: ``revision``, ``cache_dir``, ``force_download``, ``local_files_only``, ``token``.

    Raises:
        CheckpointError: it is in neither place.
        InputError: an argument that is none of these.
    """
    for name in sorted(hub.keys() - set(HUB_ARGUMENTS)):
        raise InputError(
            f"argument {name}", "it is not known here", f"Known: {', '.join(HUB_ARGUMENTS)}"
        )
    if Path(path).exists() or Path(path).is_absolute():
        return Path(path, subfolder)
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError

    try:
        for file in (weights, "config.json"):
            fetched = hf_hub_download(
                repo_id=str(path), filename=file, subfolder=subfolder or None, **hub
            )
        return Path(fetched).parent
    except (EntryNotFoundError, HFValidationError, OSError) as error:
        why = f"no such folder, and the hub gave no {file} ({str(error).splitlines()[0]})"
        raise CheckpointError(str(path), why, "Check the name") from error


def weights_file(folder: Path, variant: str | None = None) -> Path:
    """The weight file of a checkpoint folder, by any name that huggingface_hub, diffusers or
    transformers give it.

    Args:
        folder: the checkpoint.
        variant: ``fp16`` of ``diffusion_pytorch_model.fp16.safetensors``; default: what has no
            variant, and else the only one, or of several the first of `VARIANTS`.

    Returns:
        The file; of weights in shards the index that names them, see `weight_shards`; `WEIGHTS`
        where there is none.

    Raises:
        CheckpointError: several variants of which none is `VARIANTS`'.
    """
    files = sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []
    by_variant = {name: file for file in files if (name := variant_of(file)) != ""}
    known = (
        [name for name in (variant, *VARIANTS) if name in by_variant]
        if variant is None
        else [variant]
    )
    others = sorted(name for name in by_variant if name is not None)
    if not known and len(others) > 1:
        why = f"it holds the variants {', '.join(others)}, and no weights without one"
        raise CheckpointError(str(folder), why, "Keep one of them")
    return by_variant.get((*known, *others, None)[0], folder / WEIGHTS)


def variant_of(file: Path) -> str | None:
    """fp16 of ``model.fp16.safetensors``; None of weights without a variant; the empty text of what
    is not a weight file.

    Example:
        >>> variant_of(Path("model.fp16.safetensors")), variant_of(Path("model.safetensors.index.json"))
        ('fp16', None)
        >>> variant_of(Path("config.json"))
        ''
    """
    match = _WEIGHTS.fullmatch(file.name)
    return "" if match is None else match["single"] or match["shards"]


def weight_shards(weights: Path) -> tuple[Path, ...]:
    """The safetensors files of a checkpoint's weights: the file itself, or all that its index
    names.

    Raises:
        CheckpointError: an index that is broken, or names what is not next to it.
    """
    if weights.suffix != ".json":
        return (weights,)
    named = _read_object(weights, max_bytes=MAX_INDEX_BYTES).get("weight_map")
    names = sorted(set(map(str, named.values()))) if isinstance(named, dict) else []
    for name in names:
        shard = weights.with_name(name) if Path(name).name == name else None
        if shard is None or shard.suffix != ".safetensors" or not shard.is_file():
            raise CheckpointError(
                str(weights),
                f"it names the shard {name[:100]!r}, which is not next to it",
                "Copy it again",
            )
    if not names:
        raise CheckpointError(str(weights), "it names no shard", "Copy it again")
    return tuple(map(weights.with_name, names))


def weights_files(folder: Path) -> tuple[Path, ...]:
    """All files that a checkpoint's weights are in."""
    return weight_shards(weights_file(folder))


def weights_bytes(folder: Path) -> int:
    """How large a checkpoint's weights are, all shards together."""
    return sum(file.stat().st_size for file in weights_files(folder))


def weights_sha256(folder: Path) -> str:
    """SHA-256 of a checkpoint's weight file; of shards, over their names and hashes."""
    weights = weights_file(folder)
    shards = weight_shards(weights)
    if shards == (weights,):
        return sha256_file(weights)
    return json_sha256({file.name: sha256_file(file) for file in shards})


def model_type_of(config: dict[str, Any]) -> str:
    """Key of `MODELS` that a config.json names, or "unknown".

    Example:
        >>> model_type_of({"model_type": "age"}), model_type_of({"_class_name": "ConditioningPlugin"})
        ('age', 'plugin')
    """
    known = DIFFUSERS_CLASSES.get(str(config.get("_class_name")), "unknown")
    named = str(config.get("model_type", known))
    return TRANSFORMERS_TYPES.get(named, named)


def _check_files(folder: Path, weights: Path) -> None:
    if folder.suffix in PICKLE_SUFFIXES and not folder.is_dir():
        raise CheckpointError(
            str(folder), "this is a pickle, which can run code", "Convert it to safetensors first"
        )
    if not folder.is_dir():
        raise CheckpointError(str(folder), "no such folder", "Give the folder of a checkpoint")
    check_content(weights, CheckpointError, text=weights.suffix == ".json")  # an index of shards
    if not weights.is_file():
        pickles = [file.name for file in folder.iterdir() if file.suffix in PICKLE_SUFFIXES]
        none = f"no {WEIGHTS} (a plugin: {DIFFUSERS_WEIGHTS}) in it"
        why = (
            f"only the pickle {pickles[0]} is there, and a pickle can run code" if pickles else none
        )
        raise CheckpointError(str(folder), why, "Save the weights as safetensors")
    check_there(folder / "config.json", CheckpointError)
    weight_shards(weights)  # finds all of them, or raises
    if not (folder / "config.json").is_file():
        raise CheckpointError(
            str(folder), "it holds no config.json", "Give the folder of a checkpoint"
        )


def _build(folder: Path, weights: Path, model_type: str, config: dict[str, Any]) -> Any:
    try:
        kind = MODELS.get(model_type)
        if hasattr(kind, "complete_config"):
            config = kind.complete_config(folder, config)
        if model_type in FOREIGN:
            check_numbers(config)
        if model_type in FOREIGN or config.get("network") is not None:
            check_size(lambda: kind(**config), weights)
        model = kind(**config)
    except BROKEN as error:
        raise CheckpointError(
            f"{folder}/config.json",
            str(error)[:300],
            AGAIN,
        ) from error
    load_weights(model, weights)
    return model.eval()


def check_size(build: Callable[[], Any], weights: Path) -> None:
    """Refuses a network that asks for more than a file could fill, before any memory is taken for
    it.

    Args:
        build: makes the network; called where tensors have shapes and no numbers.
        weights: the file, or the index of shards.

    Raises:
        InputError: more parameters and stored buffers than the file has bytes, or too much that is
            not stored.
    """
    import torch

    # There tensors have shapes, and no memory is taken for their numbers.
    with torch.device("meta"):
        model = build()
    stored = model.state_dict()
    numbers = {
        name: tensor.numel() for name, tensor in (*model.named_parameters(), *model.named_buffers())
    }
    free = sum(count for name, count in numbers.items() if name not in stored)
    size = sum(file.stat().st_size for file in weight_shards(weights))
    for what, count, most in (
        ("parameters", sum(numbers.values()) - free, size),
        ("buffers", free, size + FREE_NUMBERS),
    ):
        if count > most:
            why = f"it asks for {count:,} {what}, and {weights.name} has {size:,} bytes"
            raise InputError("its configuration", why, "")


def check_numbers(config: Any) -> None:
    """Refuses numbers and lists that no foreign configuration needs: some setting or other would
    size memory by them.

    Raises:
        InputError: naming the first.
    """
    waiting = [("configuration", config)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict | list | tuple) and len(value) > FOREIGN_ENTRIES:
            raise InputError(
                name, f"it has {len(value):,} entries", f"Use at most {FOREIGN_ENTRIES:,}"
            )
        if isinstance(value, dict):
            waiting += [(str(key)[:60], item) for key, item in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(name, item) for item in value]
        elif isinstance(value, int | float) and not abs(value) <= FOREIGN_NUMBER:
            raise InputError(
                f"{name} {str(value)[:60]}", "out of range", f"Use at most {FOREIGN_NUMBER:,}"
            )


def load_weights(model: Any, weights: Path) -> None:
    """Fills a network from a safetensors file, or from shards, that must hold exactly its tensors.

    Args:
        model: a network.
        weights: the file, or the index of shards; nothing of it is trusted.

    Raises:
        CheckpointError: a pickle, not whole, or missing, extra, misshapen, mistyped or non-finite
            tensors.
    """
    tensors, wanted = dict[str, Any](), model.state_dict()
    for shard in weight_shards(weights):
        read = _read_tensors(shard)
        for name in sorted(read.keys() & tensors.keys()):
            raise CheckpointError(
                str(weights), f"two shards have the tensor {name!r}", "Copy them again"
            )
        tensors |= read
    if hasattr(model, "rename_tensors"):
        model.rename_tensors(tensors)
    _add_shared(tensors, wanted)
    for name in sorted(wanted.keys() ^ tensors.keys()):
        side = "is missing" if name in wanted else "does not belong to this model"
        raise CheckpointError(str(weights), f"tensor {name!r} {side}", ANOTHER)
    for name, tensor in wanted.items():
        _check_tensor(name, tensors[name], tensor, weights)
    model.load_state_dict(tensors)


def _add_shared(tensors: dict[str, Any], wanted: dict[str, Any]) -> None:
    """A file holds once what two layers share: adds it under its other names."""
    there = {
        tensor.data_ptr(): name
        for name, tensor in wanted.items()
        if name in tensors and tensor.numel()
    }
    for name in wanted.keys() - tensors.keys():
        twin = there.get(wanted[name].data_ptr())
        if twin is not None and wanted[twin].shape == wanted[name].shape:
            tensors[name] = tensors[twin]


def _check_tensor(name: str, tensor: Any, wanted: Any, weights: Path) -> None:
    """Refuses a tensor of another shape or kind of number, or with a number that is none."""
    what, fix = None, ANOTHER
    if tensor.shape != wanted.shape:
        what = f"has shape {list(tensor.shape)} where {list(wanted.shape)} is expected"
    elif tensor.is_floating_point() != wanted.is_floating_point() or tensor.is_complex():
        what = f"is {tensor.dtype} where {wanted.dtype} is expected"
    # As the network holds it: 1e300 is finite in a file of float64, and infinite in float32.
    elif not bool(tensor.to(wanted.dtype).isfinite().all()):
        what, fix = "holds NaN or infinity", "Train it again"
    if what is not None:
        raise CheckpointError(str(weights), f"tensor {name!r} {what}", fix)


def _read_tensors(weights: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_content(weights, CheckpointError)
    try:
        with weights.open("rb") as handle:
            start = handle.read(9)
        # A safetensors file starts with the length of its header, which may happen to look like a
        # pickle's first bytes.
        if start[:2] in PICKLE_STARTS and start[8:] != b"{":
            raise CheckpointError(
                str(weights),
                "this is a pickle under another name",
                "Save the weights as safetensors",
            )
        return load_file(weights)
    except FileNotFoundError as error:
        raise CheckpointError(str(weights), "no such file", "Check the path") from error
    except (
        SafetensorError,
        OSError,
        KeyError,
    ) as error:  # KeyError: a type of number that torch does not know
        raise CheckpointError(
            str(weights), f"not a whole safetensors file ({error})", "Copy it again"
        ) from error
