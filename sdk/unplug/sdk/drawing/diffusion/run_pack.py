"""``unplug train pack``: what a base shall draw by a word, in a folder of its own that can be
deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unplug.core import one_writer, versions
from unplug.sdk.drawing.device import asks_for, check_words
from unplug.sdk.learning.data import (
    Captioned,
    Dataset,
    Split,
    captions_digest,
    captions_of,
    parse_spec,
)
from unplug.sdk.learning.training import describe_device, front_matter, training_place

from .base_training import tokenize
from .digest import base_digest
from .latent_cache import latents
from .load import RECORD, check_size_of
from .low_rank import LOW_RANK_FILES, save_low_rank
from .measure import LEVELS, batch_size_of, fixed_noise, fixed_steps
from .noise import add_noise, sample_loss
from .pack import fit_pack
from .recipe import PackRecipe
from .shipped import PACK_SCHEMA


@one_writer
def train_pack(
    base: Any,
    base_name: str,
    dataset: Dataset,
    word: str,
    out: Path,
    recipe: PackRecipe,
    *,
    seed: int,
    device: torch.device,
    half: bool = False,
    restart: bool = False,
    show: bool = True,
    again: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Trains a pack and saves it; an unfinished run at `out` is continued.

    Args:
        base: see `load_base`; not changed.
        base_name: how the user named it, for the record.
        dataset: pictures that show one thing, of the base's size, with captions or without.
        word: the word or few words that prompts will say.
        out: folder to write; ``.NAME.training`` next to it holds the state until the end.
        recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        half: store the weights in float16.
        restart: drop an unfinished run.
        show: progress bars.
        again: records of the first training's data and split, and of the request, for a pack that
            is trained again without somebody.

    Returns:
        The record. ``loss`` has the base's loss on these pictures without the pack and with
        it, before any rounding to float16.

    Raises:
        DataError: pictures of another size.
        InputError: words that no prompt can say, see `check_words`.
        TrainingError, CheckpointError, OutputError: see `fit_pack` and `atomic_dir`.
    """
    word = check_words(word)
    check_size_of(dataset, base)
    with training_place(out, RECORD, LOW_RANK_FILES, restart=restart) as work:
        captions = pack_captions(dataset, word, seed=seed, variants=recipe.captions)
        facts = {
            "data": dataset.digest,
            "captions": captions_digest(captions),
            "base": base_digest(base),
        }
        latent_Nchw = torch.from_numpy(latents(base, dataset, show=show)[:].astype("float32"))
        done = fit_pack(
            base,
            latent_Nchw,
            captions,
            recipe,
            seed=seed,
            device=device,
            state_path=work / "unet.safetensors",
            facts=facts,
            show=show,
        )
        unet: Any = done.model.unet
        firsts = tokenize(base.tokenizer, [texts[:1] for texts in captions])[:, 0]
        without, with_it = (
            _loss(base, network, latent_Nchw, firsts, device) for network in (base.unet, unet)
        )
        record = {
            "schema": PACK_SCHEMA,
            "word": word,
            "base": {"name": base_name, "sha256": facts["base"]},
            "recipe": recipe.to_dict(),
            "seed": seed,
            "half": half,
            "captions": facts["captions"],
            "data": dataset.facts,
            "split": _everybody(dataset, seed).to_dict(),
            "loss": {"without": without, "with": with_it, "pictures": len(dataset)},
            "history": list(done.history),
            "cost": {"wall_s": done.wall_s, "device": describe_device(device)},
            "versions": versions(),
            **(again or {}),
        }
        save_low_rank(
            unet,
            out,
            record,
            _card(record),
            half=half,
            title=f"Pack: {word}",
            description=f"For the base whose SHA-256 is {facts['base']}",
            trigger_phrase=word,
        )
    return record


def pack_captions(
    dataset: Dataset, word: str, *, seed: int, variants: int
) -> tuple[tuple[str, ...], ...]:
    """Prompts of every picture: its captions, which get the word where they lack it, or the word
    alone where it has none.
    """
    if not isinstance(parse_spec(dataset.spec), Captioned):
        return ((word,),) * len(dataset)
    told = captions_of(dataset, seed=seed, variants=variants)
    return tuple(
        tuple(text if asks_for(text, word) else f"{text}, {word}" for text in texts)
        for texts in told
    )


def _everybody(dataset: Dataset, seed: int) -> Split:
    """All pictures were trained on: what names, requests and traces go by."""
    return Split(
        data_digest=dataset.digest,
        seed=seed,
        subject_disjoint=True,
        train=dataset.ids,
        validation=(),
        test=(),
        rows=tuple(sorted(dataset.marks)),
    )


@torch.no_grad()
def _loss(base: Any, unet: Any, latent_Nchw: Tensor, ids_NL: Tensor, device: torch.device) -> float:
    """The mean loss of all pictures with their first prompts, at fixed noise and fixed levels."""
    total = int(base.scheduler.config.num_train_timesteps)
    size, sums = batch_size_of(base), list[Tensor]()
    for level, step in enumerate(fixed_steps(total)):
        noise_chw = fixed_noise(latent_Nchw.shape[1:], 0, level)
        for start in range(0, len(latent_Nchw), size):
            clean_Bchw = latent_Nchw[start : start + size].to(device)
            text_BLD = base.text_encoder(ids_NL[start : start + size].long().to(device))[0]
            step_B = torch.full((len(clean_Bchw),), step, device=device)
            noise_Bchw = noise_chw.to(clean_Bchw).expand_as(clean_Bchw)
            noised = add_noise(base.scheduler, clean_Bchw, step_B, noise_Bchw)

            def predict(x: Tensor, t: Tensor, text_BLD: Tensor = text_BLD) -> Tensor:
                return torch.as_tensor(unet(x, t, text_BLD).sample)

            sums.append(sample_loss(predict, noised).sum())
    return float(torch.stack(sums).sum()) / (LEVELS * len(latent_Nchw))


def _card(record: dict[str, Any]) -> str:
    return _CARD.format(
        front=front_matter(
            f"Pack: {record['word']}",
            ("unplug", "lora"),
            record,
            {"train": {key: record["loss"][key] for key in ("without", "with")}},
        ),
        word=record["word"],
        base=record["base"]["name"],
        digest=record["base"]["sha256"],
        spec=record["data"]["spec"],
        pictures=record["loss"]["pictures"],
        rank=record["recipe"]["rank"],
        steps=record["recipe"]["steps"],
    )


_CARD = """\
{front}# Pack: {word}

Low-rank weights (rank {rank}) of the UNet of the base `{base}` (SHA-256 `{digest:.16}`), trained
{steps} steps on the {pictures} pictures of `{spec}`. `unplug generate --pack FOLDER` uses them where
a prompt says "{word}"; every other prompt gives the base's own picture. Deleting this folder forgets
the pictures exactly: the base never saw them.

In diffusers, for a prompt that says the word:

```python
pipe.load_lora_weights("FOLDER")
```
"""
