"""Opening a diffusion base (the small one that ships, a diffusers folder, or a name on the hub) and
LoRA weights on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import CheckpointError, DataError, InputError, check_contents, quiet, read_json
from unplug.plugins import (
    QuickDecoder,
    check_decoder,
    check_numbers,
    check_size,
    check_text_encoder,
    check_unet,
    load_checkpoint,
    variant_of,
    weight_shards,
    weights_file,
    weights_files,
)
from unplug.sdk.drawing.device import (
    MAX_LEVELS,
    OWN,
    QUICK,
    TEXT_ENCODER,
    UNET,
    LowRank,
    decoder_folder,
    read_lora,
)
from unplug.sdk.learning.data import Dataset

from .digest import TEXT_PREFIX
from .shipped import SMALL, base_folder, shipped_folder
from .small import diffusers

MARK, RECORD = "model_index.json", "unplug.json"
BASE_FILES = (
    MARK,
    RECORD,
    "README.md",
    "vae",
    OWN,
    "unet",
    "text_encoder",
    "tokenizer",
    "scheduler",
)
PARTS = ("unet", "vae", "text_encoder", "tokenizer", "scheduler")
FILES = (".safetensors", ".json", ".txt")
NETWORKS = {"unet": "UNet2DConditionModel", "vae": "AutoencoderKL"}
KINDS = {
    **{part: ("diffusers", kind) for part, kind in NETWORKS.items()},
    "text_encoder": ("transformers", "CLIPTextModel"),
    "tokenizer": ("transformers", "CLIPTokenizer(Fast)?"),
    "scheduler": ("diffusers", "[A-Za-z]+Scheduler"),
}
"""Library and class of each part: what an index names besides would be built from a configuration
that nobody bounds.
"""
MAX_INDEX_BYTES, MAX_CONFIG_BYTES, MAX_WORDS_BYTES = 2**16, 2**20, 2**24
FACTOR = 8
"""Pixels to a latent, along a side."""


def load_base(
    name: str,
    *,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    decoder: str | None = None,
) -> Any:
    """A text-to-image pipeline with Stable Diffusion 1's or 2's parts, frozen and in eval mode.

    Args:
        name: "small" for the base that ships, a folder that diffusers wrote, or ``owner/name`` on
            the hub.
        device: the device to put it on.
        dtype: the type of its weights in memory.
        decoder: see `decoder_folder`; `quick_decoder` gives the one that draws.

    Returns:
        A ``StableDiffusionPipeline`` without safety checker.

    Raises:
        CheckpointError: no such folder, not diffusers' layout, a pickle, missing or broken weights,
            or parts that Stable Diffusion does not have.
    """
    package = diffusers()
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    with quiet():
        from transformers import CLIPTextModel
    text_model: Any = CLIPTextModel
    how = {"dtype": dtype, "use_safetensors": True, "local_files_only": True}
    try:
        folder = _folder_of(name, package)
        with quiet():
            _check_asks(folder, package)
            # By itself, for its list of missing tensors: those would be random numbers, and nothing
            # would tell.
            text_encoder, report = text_model.from_pretrained(
                folder / "text_encoder",
                output_loading_info=True,
                variant=_variant(folder / "text_encoder"),
                **how,
            )
            networks = {
                part: getattr(package, kind).from_pretrained(
                    folder / part, variant=_variant(folder / part), **how
                )
                for part, kind in NETWORKS.items()
            }
            pipe = package.StableDiffusionPipeline.from_pretrained(
                folder, text_encoder=text_encoder, **networks, **_WITHOUT, **how
            )
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        RuntimeError,
        AttributeError,
        StrictDataclassError,
        SafetensorError,
    ) as error:
        parts = (item for part in PARTS for item in sorted((_place(name) / part).glob("*")))
        check_contents((item for item in parts if item.suffix in FILES), CheckpointError)
        raise CheckpointError(name, f"diffusers cannot load it ({_short(error)})", _FIX) from error
    if report["missing_keys"]:
        raise CheckpointError(
            name, f"its text_encoder lacks the tensor {min(report['missing_keys'])}", _FIX
        )
    for part in ("unet", "vae", "text_encoder"):
        _check_weights(name, part, getattr(pipe, part).requires_grad_(False).eval())
    _check_parts(name, pipe)
    draws = decoder_folder(folder, decoder)
    if draws is not None:
        attach_quick(pipe, load_checkpoint(draws, expect=QUICK).model.to(device, dtype))
    return pipe.to(device)


def attach_quick(pipe: Any, decoder: QuickDecoder | None) -> None:
    """Gives a pipeline a quick decoder to draw with; None takes it away."""
    # in a tuple: as a module it would be among the autoencoder's weights, and saved with them
    pipe.vae.quick = (decoder,)


def quick_decoder(pipe: Any) -> QuickDecoder | None:
    """The quick decoder that a pipeline draws with, or None."""
    found: tuple[QuickDecoder | None] = getattr(pipe.vae, "quick", (None,))
    return found[0]


def _check_asks(folder: Path, package: Any) -> None:
    """Refuses configurations that ask for more than the weights next to them hold, before diffusers
    builds what they say.

    What is missing or of another form diffusers tells of itself.
    """
    for file in folder.glob("tokenizer/*"):
        if file.stat().st_size > MAX_WORDS_BYTES:
            raise CheckpointError(str(file), f"larger than {MAX_WORDS_BYTES} bytes", _FIX)
    for file in (
        folder / "scheduler/scheduler_config.json",
        *(folder / part / "config.json" for part in CHECKS),
    ):
        try:
            config = read_json(file, max_bytes=MAX_CONFIG_BYTES) if file.is_file() else None
            if isinstance(config, dict):
                _check_part(
                    file,
                    {name: value for name, value in config.items() if value is not None},
                    package,
                )
        except InputError as error:
            place = (
                error.what
                if isinstance(error, CheckpointError) or error.what == str(file)
                else f"{file}: {error.what}"
            )
            raise CheckpointError(place, error.why, error.fix or _FIX) from error


CHECKS = {"unet": check_unet, "vae": check_decoder, "text_encoder": check_text_encoder}


def _check_part(file: Path, config: dict[str, Any], package: Any) -> None:
    from transformers import CLIPTextConfig, CLIPTextModel

    part, weights = file.parent.name, weights_file(file.parent)
    if part == "scheduler":
        levels = config.get("num_train_timesteps", 1)
        if not isinstance(levels, int) or not 1 <= levels <= MAX_LEVELS:
            raise InputError(
                f"num_train_timesteps {str(levels)[:60]}", "out of range", f"Use 1 to {MAX_LEVELS}"
            )
    else:
        CHECKS[part]({name: value for name, value in config.items() if name != "sample_size"})
    check_numbers(config)
    if part == "scheduler" or not weights.is_file():
        return
    check_contents(weight_shards(weights), CheckpointError)

    def build() -> Any:
        if part in NETWORKS:
            return getattr(package, NETWORKS[part]).from_config(config)
        model: Any = CLIPTextModel
        return model(CLIPTextConfig.from_dict(config))

    check_size(build, weights)


def _variant(part: Path) -> str | None:
    """The variant of a part's weights, which diffusers asks for; parts need not have the same."""
    weights_files(part)  # finds all shards, or raises
    return variant_of(weights_file(part)) or None


_FIX = "Give a folder that StableDiffusionPipeline.save_pretrained wrote, with safetensors weights"
_WITHOUT = {
    "safety_checker": None,
    "feature_extractor": None,
    "image_encoder": None,
    "requires_safety_checker": False,
}


def _folder_of(name: str, package: Any) -> Path:
    """Where a base lies, fetched from the hub where it is not a folder."""
    folder = base_folder(name)
    if folder is None:
        with quiet():
            folder = Path(
                package.StableDiffusionPipeline.download(name, use_safetensors=True, **_WITHOUT)
            )
    _check_folder(folder)
    return folder


def _check_folder(folder: Path) -> None:
    if not (folder / MARK).is_file():
        single = next(iter(sorted([*folder.glob("*.safetensors"), *folder.glob("*.ckpt")])), None)
        why = f"no {MARK} in it, nor the pipeline.json of exported files" + (
            f" ({single.name} is a single-file checkpoint)" if single else ""
        )
        raise CheckpointError(str(folder), f"not a diffusers folder: {why}", _FIX)
    try:
        index = read_json(folder / MARK, max_bytes=MAX_INDEX_BYTES)
    except InputError as error:
        raise CheckpointError(error.what, error.why, error.fix) from error
    missing = [
        part
        for part in PARTS
        if not isinstance(index, dict) or part not in index or not (folder / part).is_dir()
    ]
    if missing:
        raise CheckpointError(str(folder), f"it has no {', '.join(missing)}", _FIX)
    for part, (library, kinds) in KINDS.items():
        pair = index[part] if isinstance(index[part], list) else []
        if len(pair) != 2 or pair[0] != library or not re.fullmatch(kinds, str(pair[1])):
            raise CheckpointError(
                str(folder),
                f"its {part} is {str(pair)[:60]}, which no base of this family has",
                _FIX,
            )
    extra = [part for part in ("text_encoder_2", "transformer", "prior") if part in index]
    if extra:
        raise CheckpointError(
            str(folder),
            f"it has a {extra[0]}: not a Stable Diffusion 1 or 2",
            "Give a base of that family",
        )


def _check_weights(name: str, part: str, module: Any) -> None:
    for tensor, value in module.state_dict().items():
        if value.is_meta:
            raise CheckpointError(name, f"its {part} lacks the tensor {tensor}", _FIX)
        if not bool(value.isfinite().all()):
            raise CheckpointError(
                name, f"its {part} holds NaN or infinity in {tensor}", "Train it or fetch it again"
            )


def _check_parts(name: str, pipe: Any) -> None:
    """What this package asks of the parts, and diffusers would only find out in the middle of its
    work.
    """
    unet, text, tokenizer = pipe.unet.config, pipe.text_encoder.config, pipe.tokenizer
    channels, length = pipe.vae.config.latent_channels, tokenizer.model_max_length
    factor = 2 ** (len(pipe.vae.config.block_out_channels) - 1)
    wrong = {
        f"an autoencoder that shrinks pictures by {factor}, not by {FACTOR}": factor != FACTOR,
        f"a UNet of {unet.in_channels} channels and an autoencoder of {channels}": unet.in_channels
        != channels,
        f"no square sample_size of its UNet ({unet.sample_size})": not isinstance(
            unet.sample_size, int
        ),
        f"a scheduler without noise levels ({type(pipe.scheduler).__name__})": not hasattr(
            pipe.scheduler, "alphas_cumprod"
        ),
        "a tokenizer without words": len(tokenizer) <= len(tokenizer.all_special_ids),
        f"a tokenizer of {len(tokenizer)} words, a text encoder of {text.vocab_size}": len(
            tokenizer
        )
        > text.vocab_size,
        f"prompts of {length} tokens where the text encoder takes "
        f"{text.max_position_embeddings}": not (3 <= length <= text.max_position_embeddings),
        f"a text encoder {text.hidden_size} wide where its UNet takes {unet.cross_attention_dim}": (
            text.hidden_size != unet.cross_attention_dim
        ),
    }
    for what, is_so in wrong.items():
        if is_so:
            raise CheckpointError(
                name, f"it has {what}", "Give a text-to-image base of Stable Diffusion 1 or 2"
            )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def image_size_of(base: Any) -> int:
    """Side in pixels of the pictures that a base was trained for."""
    return int(base.unet.config.sample_size) * FACTOR


def check_size_of(dataset: Dataset, base: Any) -> None:
    """Raises `DataError` where pictures are of another size than the base's."""
    if dataset.size != (size := image_size_of(base)):
        why = f"the base makes pictures of {size} px"
        raise DataError(f"data at {dataset.size} px", why, f"Load it at {size}")


def base_record(name: str) -> dict[str, Any]:
    """What ``unplug.json`` of a base of ours says; empty for others."""
    path = _place(name) / RECORD
    record = read_json(path) if path.is_file() else {}
    return record if isinstance(record, dict) else {}


def is_ours(name: str) -> bool:
    """Whether a base is one of `unplug train base`."""
    return name == SMALL or bool(base_record(name))


def drawing_dtype(name: str, device: torch.device) -> torch.dtype:
    """In what a base's pictures are computed: Stable Diffusion's in half precision on a GPU, as
    everybody does.
    """
    return torch.float16 if device.type == "cuda" and not is_ours(name) else torch.float32


def _place(name: str) -> Path:
    return shipped_folder(name) if name == SMALL else Path(name)


def load_loras(base: Any, paths: Sequence[Path]) -> None:
    """Makes LoRA weights part of a base: W' = W + sum_k s_k B_k A_k in every layer that they
    change, DoRA's rows scaled.

    Args:
        base: see `load_base`; changed in place, after all files are read.
        paths: see `read_lora`, of the UNet and of the text encoder.

    Raises:
        CheckpointError: no such file, a pickle, another kind of weights, or some that do not fit
            this base.
    """
    layers_of = {part: _changeable(getattr(base, part)) for part in (UNET, TEXT_ENCODER)}
    sizes = {
        part: {name: (layer.weight[0].numel(), len(layer.weight)) for name, layer in layers.items()}
        for part, layers in layers_of.items()
    }
    changed: dict[Any, Tensor] = {}
    for path in paths:
        for (part, name), update in read_lora(path, sizes, "this base").items():
            layer = layers_of[part][name]
            changed[layer] = changed.get(layer, 0.0) + _delta(layer.weight.detach(), update)
    for layer, delta_OI in changed.items():
        weight = layer.weight.detach()
        changed[layer] = (weight.float() + delta_OI.reshape(weight.shape)).to(weight.dtype)
        if not bool(changed[layer].isfinite().all()):
            why = (
                "with them the base's weights are no numbers in "
                f"{str(weight.dtype).removeprefix('torch.')}"
            )
            raise CheckpointError(", ".join(map(str, paths)), why, "Fetch or train them again")
    for layer, weight in changed.items():
        layer.weight.data = weight


def _changeable(part: Any) -> dict[str, Any]:
    kinds = (nn.Linear, nn.Conv2d)
    return {
        name.removeprefix(TEXT_PREFIX): layer
        for name, layer in part.named_modules()
        if isinstance(layer, kinds)
    }


def _delta(weight: Tensor, update: LowRank) -> Tensor:
    """W' - W as a matrix in float32."""
    weight_OI = weight.float().flatten(1)
    first_rI, second_Or = (
        torch.from_numpy(one).to(weight.device) for one in (update.first_rI, update.second_Or)
    )
    delta_OI = update.scale * second_Or @ first_rI
    if update.magnitude is None:
        return delta_OI
    magnitude_O = torch.from_numpy(update.magnitude).to(weight.device)
    changed_OI = weight_OI + delta_OI
    scale_O: Tensor = magnitude_O / changed_OI.norm(dim=1)
    return changed_OI * scale_O[:, None] - weight_OI
