"""What a diffusers folder of a base says, read without diffusers: its tokenizer, its noise levels,
its scales.

The configurations may come from anybody: what is not known here is refused, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import CheckpointError, InputError, ReportError, read_json, read_regular

from .sampler import MAX_LEVELS, Schedule
from .tokenizer import AddedToken, Tokenizer

MAX_JSON, MAX_MERGES = 64 * 2**20, 16 * 2**20
TOKENIZERS = ("CLIPTokenizer", "CLIPTokenizerFast")
SCHEDULERS = {
    "DDIMScheduler": "leading",
    "DDPMScheduler": "leading",
    "PNDMScheduler": "leading",
    "LMSDiscreteScheduler": "linspace",
    "EulerDiscreteScheduler": "linspace",
    "DPMSolverMultistepScheduler": "linspace",
}
"""The schedulers of diffusers whose noise levels are `alphas_cumprod` and whose UNet predicts the
noise or the velocity, and the spacing of timesteps that each has where its configuration does not
say.
"""
CLIPPING = ("DDIMScheduler", "DDPMScheduler")
"""Those that clip data where their configuration does not say."""
MAX_BETA = 0.999
BROKEN = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, ReportError)
"""What Python raises where a configuration holds something of another kind."""
_FIX = "Give a text-to-image base of Stable Diffusion 1 or 2, as diffusers saves it"


def read_schedule(folder: Path) -> Schedule:
    """The noise levels of ``scheduler/scheduler_config.json``.

    Raises:
        CheckpointError: missing, broken, or a scheduler of another kind.
    """
    path = folder / "scheduler" / "scheduler_config.json"
    config = _object(path)
    kind = str(config.get("_class_name"))
    prediction = config.get("prediction_type", "epsilon")
    spacing = config.get("timestep_spacing", SCHEDULERS.get(kind))
    clips = config.get("clip_sample", kind in CLIPPING) or config.get("thresholding")
    if kind not in SCHEDULERS or prediction not in ("epsilon", "v_prediction"):
        why = f"a {kind[:60]} that predicts {str(prediction)[:60]} is not known here"
        raise CheckpointError(str(path), why, _FIX)
    if spacing not in ("leading", "trailing", "linspace") or clips:
        why = f"timesteps spaced {str(spacing)[:60]!r}, or data that is clipped, are not known here"
        raise CheckpointError(str(path), why, _FIX)
    alphas_N = noise_levels(path, config)
    ends_clean = config.get("set_alpha_to_one", kind == "DDIMScheduler")
    schedule = Schedule(
        alphas_cumprod=tuple(alphas_N.tolist()),
        final_alpha_cumprod=1.0 if ends_clean else float(alphas_N[0]),
        prediction=prediction,
        spacing=spacing,
        steps_offset=_number(path, config, "steps_offset", 0, whole=True),
    )
    try:
        schedule.check(str(path))
    except ReportError as error:
        raise CheckpointError(error.what, error.why, _FIX) from error
    return schedule


def noise_levels(path: Path, config: Mapping[str, Any]) -> NDArray[np.float64]:
    """alphas_cumprod (N,): the running product of 1 - beta, shifted to end at 0 where the
    configuration says so.

    Raises:
        CheckpointError: another schedule of betas, or impossible ones.

    Reference:
        Lin et al., Common Diffusion Noise Schedules and Sample Steps are Flawed, 2024, algorithm 1
        (the shift).
    """
    levels = _number(path, config, "num_train_timesteps", 1000, whole=True)
    if not 1 <= levels <= MAX_LEVELS:
        fix = f"1 to {MAX_LEVELS} are known here"
        raise CheckpointError(str(path), f"{levels} noise levels", fix)
    beta_N = _betas(path, config, levels)
    if beta_N.shape != (levels,) or not bool(((beta_N > 0) & (beta_N < 1)).all()):
        raise CheckpointError(str(path), "its betas are not between 0 and 1", _FIX)
    alphas_N = np.cumprod(1.0 - beta_N)
    if config.get("rescale_betas_zero_snr"):
        root_N = np.sqrt(alphas_N)
        alphas_N = ((root_N - root_N[-1]) * root_N[0] / (root_N[0] - root_N[-1])) ** 2
    return np.asarray(alphas_N)


def _betas(path: Path, config: Mapping[str, Any], levels: int) -> NDArray[np.float64]:
    first = _number(path, config, "beta_start", 0.0001)
    last = _number(path, config, "beta_end", 0.02)
    kind = config.get("beta_schedule", "linear")
    if config.get("trained_betas") is not None:
        try:
            return np.array(config["trained_betas"], np.float64)
        except BROKEN as error:
            why = "its trained_betas are no list of numbers"
            raise CheckpointError(str(path), why, _FIX) from error
    if kind == "linear":
        return np.linspace(first, last, levels)
    if kind == "scaled_linear":  # Stable Diffusion's: even steps of the square roots
        return np.linspace(math.sqrt(max(first, 0.0)), math.sqrt(max(last, 0.0)), levels) ** 2
    if kind == "squaredcos_cap_v2":
        # Nichol and Dhariwal, 2021, equation 17, whose last betas would be 1 without the cap
        angle_M = (np.arange(levels + 1) / levels + 0.008) / 1.008 * math.pi / 2
        bar_M = np.cos(angle_M) ** 2
        return np.asarray(np.minimum(1 - bar_M[1:] / bar_M[:-1], MAX_BETA))
    why = f"the beta_schedule {str(kind)[:60]!r} is not known here"
    raise CheckpointError(str(path), why, _FIX)


def read_scales(folder: Path) -> tuple[float, float]:
    """scaling_factor and shift_factor of ``vae/config.json``; the decoder's file holds both."""
    path = folder / "vae" / "config.json"
    config = _object(path)
    shift = {"shift_factor": config.get("shift_factor") or 0.0}
    return _number(path, config, "scaling_factor", 0.18215), _number(
        path, shift, "shift_factor", 0.0
    )


def read_tokenizer(folder: Path) -> Tokenizer:
    """Vocabulary, merges and marks of ``tokenizer/``: ``tokenizer.json``, or the older
    ``vocab.json`` and ``merges.txt``.

    Raises:
        CheckpointError: missing or broken, or no CLIP tokenizer.
    """
    place = folder / "tokenizer"
    path, file = place / "tokenizer_config.json", place / "tokenizer.json"
    config = _object(path)
    if (kind := config.get("tokenizer_class", TOKENIZERS[0])) not in TOKENIZERS:
        raise CheckpointError(str(path), f"a {str(kind)[:60]} is not known here", _FIX)
    try:
        whole = _object(file) if file.is_file() else {}
        ids, merges = _model(file, whole) if whole else _older(place)
        added = _added(place, config, whole, ids)
        numbers = list(ids.values())
        if any(type(number) is not int for number in numbers) or sorted(numbers) != list(
            range(len(ids))
        ):
            raise ValueError("its ids are not 0, 1, 2, ...")
        marks = {name: ids[_mark(config, f"{word}_token")] for name, word in PLACES.items()}
        plain = {AddedToken(id=marks["start"]), AddedToken(id=marks["end"])}
        tokens = Tokenizer(
            vocabulary=tuple(sorted(ids, key=ids.__getitem__)),
            merges=tuple(merges),
            length=_number(path, config, "model_max_length", 77, whole=True),
            added=() if set(added) == plain else tuple(added),
            **marks,
        )
        tokens.check(str(place))
    except BROKEN as error:
        broken = f"its tokens are broken ({str(error)[:200]})"
        why = error.why if isinstance(error, ReportError) else broken
        raise CheckpointError(str(place), why, _FIX) from error
    return tokens


PLACES = {"start": "bos", "end": "eos", "padding": "pad"}
"""The places of a `Tokenizer`, and their names in CLIP's."""


MARKS = {"bos_token": "<|startoftext|>"} | dict.fromkeys(
    ("eos_token", "unk_token", "pad_token"), "<|endoftext|>"
)
"""The marks of CLIP's tokenizer, where its configuration names no others."""


def _mark(config: Mapping[str, Any], name: str) -> str:
    given = config.get(name) or MARKS[name]
    return str(given["content"] if isinstance(given, dict) else given)


def _added(
    place: Path, config: dict[str, Any], whole: Mapping[str, Any], ids: dict[str, Any]
) -> list[AddedToken]:
    """The tokens that transformers cuts out of texts, in its order.

    `ids` gets those that the model's vocabulary lacks, and `config` the marks of older files.
    """
    listed = _listed(place, config, whole)
    if config.get("split_special_tokens"):
        raise ValueError("split_special_tokens is not known here")
    extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
    named = MARKS | {name: value for name, value in config.items() if name.endswith("_token")}
    marks = [
        token if isinstance(token, dict) else {"content": token}
        for token in [*named.values(), *(extra.values() if isinstance(extra, dict) else extra)]
        if isinstance(token, dict | str)
    ]
    special = {str(token["content"]) for token in marks}
    for token in listed:
        ids.setdefault(str(token["content"]), len(ids))
    tokens: dict[str, AddedToken] = {}
    for token in [*listed, *(token | {"special": True} for token in marks)]:
        content = str(token["content"])
        flags = {name: bool(token.get(name)) for name in ("single_word", "lstrip", "rstrip")}
        # transformers looks for marks in the text as it is, for learned words in lower case
        flags["normalized"] = bool(
            token.get("normalized", not token.get("special", content in special))
        )
        tokens.setdefault(content, AddedToken(id=ids[content], **flags))
    if several := next((content for content in tokens if f"{content}_1" in tokens), None):
        word = f"its learned word {several[:60]!r}"
        why = f"{word} has several vectors, which diffusers alone writes out"
        fix = "Learn it with one vector, or draw with the base itself"
        raise CheckpointError(str(place), why, fix)
    return list(tokens.values())


def _listed(place: Path, config: dict[str, Any], whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Added tokens by rising id: of ``tokenizer_config.json``, else of the files before it."""
    told = config.get("added_tokens_decoder")
    if told is None:
        marks, older = (
            _object(path) if path.is_file() else {}
            for path in (place / "special_tokens_map.json", place / "added_tokens.json")
        )
        config |= marks
        told = {number: {"content": text} for text, number in older.items()}
        told |= {token["id"]: token for token in whole.get("added_tokens", [])}
    return [told[number] for number in sorted(told, key=int)]


def _model(path: Path, whole: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    model = whole.get("model")
    if (
        not isinstance(model, dict)
        or model.get("type", "BPE") != "BPE"
        or model.get("end_of_word_suffix") != "</w>"
    ):
        raise CheckpointError(str(path), "it is not a byte-pair encoding as CLIP has it", _FIX)
    merges = [
        item if isinstance(item, str) else " ".join(map(str, item))
        for item in model.get("merges", [])
    ]
    return dict(model.get("vocab") or {}), merges


def _older(place: Path) -> tuple[dict[str, Any], list[str]]:
    lines = read_regular(place / "merges.txt", max_bytes=MAX_MERGES, error=CheckpointError).decode(
        "utf-8", "replace"
    )
    return _object(place / "vocab.json"), [
        line for line in lines.splitlines() if line and not line.startswith("#version")
    ]


def _object(path: Path) -> dict[str, Any]:
    try:
        config = read_json(path, max_bytes=MAX_JSON)
    except InputError as error:
        raise CheckpointError(error.what, error.why, error.fix) from error
    if not isinstance(config, dict):
        raise CheckpointError(str(path), "it is not an object", _FIX)
    return config


def _number(
    path: Path, config: Mapping[str, Any], name: str, usual: float, *, whole: bool = False
) -> Any:
    value = config.get(name, usual)
    fits = (
        isinstance(value, int if whole else int | float)
        and not isinstance(value, bool)
        and abs(value) < 1e9
    )
    if not fits or not math.isfinite(value):
        raise CheckpointError(str(path), f"its {name} is {str(value)[:60]}", _FIX)
    return value
