"""``unplug train student``: a base that draws in few steps without guidance, or a LoRA that makes
one of its teacher.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from unplug.core import one_writer, versions
from unplug.sdk.learning.data import Dataset, captions_digest, captions_of
from unplug.sdk.learning.training import describe_device, training_place

from .base_files import save_base
from .digest import base_digest
from .latent_cache import latents
from .load import BASE_FILES, RECORD, check_size_of, load_base
from .low_rank import LOW_RANK_FILES, save_low_rank
from .recipe import StudentRecipe
from .shipped import LORA_SCHEMA
from .steps import round_to_half
from .student import fit_student
from .told import told_data


@one_writer
def train_student(
    base: Any,
    record: dict[str, Any],
    dataset: Dataset,
    out: Path,
    recipe: StudentRecipe,
    *,
    seed: int,
    device: torch.device,
    half: bool = False,
    restart: bool = False,
    show: bool = True,
) -> Path:
    """Trains a student and saves it; an unfinished run at `out` is continued.

    Args:
        base: the teacher, see `load_base`.
        record: its `base_record`.
        dataset: pictures with captions, of the base's size.
        out: a base folder, or with a rank a folder of LoRA weights; ``.NAME.training`` next to it
            holds the state until the end.
        recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        half: store the weights in float16.
        restart: drop an unfinished run.
        show: progress bars.

    Returns:
        `out`. A base's record says with how many steps, and that it draws without guidance.

    Raises:
        DataError: pictures of another size, or without captions.
        InputError, TrainingError, CheckpointError, OutputError: see `fit_student` and `save_base`.
    """
    check_size_of(dataset, base)
    files = LOW_RANK_FILES if recipe.rank else BASE_FILES
    with training_place(out, RECORD, files, restart=restart) as work:
        captions = captions_of(dataset, seed=seed, variants=recipe.captions)
        facts = {
            "data": dataset.digest,
            "captions": captions_digest(captions),
            "teacher": base_digest(base),
        }
        latent_Nchw = torch.from_numpy(latents(base, dataset, show=show)[:].astype("float32"))
        done = fit_student(
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
        student: Any = done.model
        if half:
            round_to_half(student.unet)
        learned = told_data(dataset, None, record)
        told = {
            **learned,
            "teacher": facts["teacher"],
            "student": recipe.to_dict(),
            "seed": seed,
            "data": learned["data"] | facts,
            "sampling": {"steps": recipe.drawn_steps, "guidance": 1.0, "solver": "ddim"},
            "history": list(done.history),
            "cost": {"wall_s": done.wall_s, "device": describe_device(device)},
            "versions": versions(),
        }
        if recipe.rank:
            card = _CARD.format(steps=recipe.drawn_steps, teacher=told["teacher"])
            save_low_rank(
                student.unet,
                out,
                {"schema": LORA_SCHEMA, **told},
                card,
                half=half,
                title=f"A picture in {recipe.drawn_steps} steps",
                description=f"For the base whose SHA-256 is {told['teacher']}",
            )
        else:
            base.unet = student.unet.requires_grad_(False)
            save_base(base, out, {**record, **told}, half=half)
            # only what can be read makes the state superfluous
            load_base(str(out), device=torch.device("cpu"))
    return out


_CARD = """\
# A picture in {steps} steps, as a LoRA

Low-rank weights that make a few-step student of the base with SHA-256 `{teacher:.16}`. `unplug generate --lora FOLDER` draws in
{steps} steps of DDIM without guidance, each of which asks the UNet once.
"""
