"""What a base is made of, as hashes: weights, the settings that decide numbers, the tokenizer's
words.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import Any

from unplug.core import json_sha256

TEXT_PREFIX = "text_model."
"""In front of the names of a CLIP text encoder's tensors, up to transformers 5."""
VOLATILE = ("architectures", "dtype", "torch_dtype", "transformers_version")
"""Settings of transformers that say how or by what a part was written; diffusers' begin with an
underscore.
"""
NOISE = (
    "num_train_timesteps",
    "beta_start",
    "beta_end",
    "beta_schedule",
    "trained_betas",
    "rescale_betas_zero_snr",
    "prediction_type",
)
"""Settings of a scheduler that decide what is learned with it; the others only choose how
pictures are sampled.
"""


def weights_digest(*modules: Any) -> str:
    """SHA-256 over names and values of all tensors of some modules.

    The prefix of transformers 4's text encoders counts for nothing: their weights are those of
    transformers 5.
    """
    digest = hashlib.sha256()
    for module in modules:
        tensors = {
            name.removeprefix(TEXT_PREFIX): value for name, value in module.state_dict().items()
        }
        for name, value in sorted(tensors.items()):
            digest.update(name.encode())
            digest.update(value.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def settings_of(part: Any) -> dict[str, Any]:
    """A part's class and what its configuration sets otherwise than that class does by itself,
    ready for JSON.

    Without what equals a default, so that a newer version of diffusers or transformers, with more
    settings, says the same.
    """
    config = part.config
    if hasattr(config, "to_dict"):  # transformers'
        settings, usual = config.to_dict(), type(config)().to_dict()
    else:
        settings = dict(config)
        usual = {
            name: item.default
            for name, item in inspect.signature(type(part).__init__).parameters.items()
        }
    settings, usual = (
        {key: _plain(value) for key, value in values.items()} for values in (settings, usual)
    )
    skipped = [key for key in settings if key.startswith("_") or key in VOLATILE]
    return {"class": type(part).__name__} | {
        key: value
        for key, value in settings.items()
        if key not in skipped and not (key in usual and usual[key] == value)
    }


def words_of(tokenizer: Any) -> dict[str, Any]:
    """What decides a CLIP tokenizer's ids, ready for JSON."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # transformers 4's, in Python
        merges = sorted(tokenizer.bpe_ranks, key=tokenizer.bpe_ranks.get)
    else:
        merges = json.loads(backend.to_str())["model"]["merges"]
    return {
        "vocabulary": sorted(tokenizer.get_vocab().items()),
        "merges": [pair if isinstance(pair, str) else " ".join(pair) for pair in merges],
        "length": tokenizer.model_max_length,
        "marks": [
            tokenizer.bos_token_id,
            tokenizer.eos_token_id,
            tokenizer.pad_token_id,
            tokenizer.unk_token_id,
        ],
    }


def base_digest(base: Any) -> str:
    """SHA-256 of what a control is trained with: weights and settings of all parts, noise levels,
    words.
    """
    parts = (base.unet, base.vae, base.text_encoder)
    facts = {
        "weights": weights_digest(*parts),
        "settings": [settings_of(part) for part in parts],
        "noise": {name: _plain(base.scheduler.config.get(name)) or None for name in NOISE},
        "words": words_of(base.tokenizer),
    }
    return json_sha256(facts)


def _plain(value: Any) -> Any:
    """The value as JSON has it: a tuple is a list, an array its text."""
    return json.loads(json.dumps(value, default=str))
