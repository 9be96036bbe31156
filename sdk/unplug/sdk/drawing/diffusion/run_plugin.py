"""``unplug train plugin``: from a frozen base, a condition and captioned pictures to a plugin
checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from unplug.core import atomic_path, one_writer, versions
from unplug.plugins import CODE_FILE, Checkpoint, load_checkpoint, save_checkpoint
from unplug.plugins.conditions import build_condition, identity, portable
from unplug.sdk.drawing.conditions import with_exact
from unplug.sdk.learning.data import Dataset, Split, fitting, keyed
from unplug.sdk.learning.training import check_place, describe_device, front_matter, training_dir

from .control import CONTROLS, Control
from .control_set import ControlSet, base_digest, load_control_set
from .control_training import fit_control
from .grid import image_grid
from .measure import mean_loss
from .recipe import ControlRecipe, share_of
from .shipped import Sampling
from .steered_pictures import generate, sampling_of
from .steps import Trained, processes, round_to_half
from .told import told_data

PREVIEWS = 6


def previews(
    control: Control, base: Any, data: ControlSet, *, seed: int, how: Sampling, folder: Path
) -> Callable[[Any, int], None]:
    """Writes a grid of a network at a step: conditions above what the bare base, and the base with
    the control, make of them.

    Args:
        control: kind of the network.
        base: the frozen pipeline.
        data: its first samples are shown.
        seed: the seed of the first picture.
        how: all pictures are drawn.
        folder: the folder for the grids.
    """
    rows = data.rows[:PREVIEWS]
    conditions = [Image.fromarray(np.asarray(data.condition[row])) for row in rows]
    prompts = [data.prompts[data.prompt[row, 0]] for row in rows]
    seeds = [seed + place for place in range(len(rows))]

    def drawn(pipe: Any, **more: Any) -> list[Image.Image]:
        side = conditions[0].width
        return generate(pipe, prompts, seeds=seeds, size=side, **asdict(how), **more)

    @cache
    def plain() -> list[Image.Image]:
        return drawn(base)  # the same at every step

    def write(network: Any, step: int) -> None:
        steered = drawn(control.pipeline(base, network.eval()), image=conditions)
        labels = ["condition", "base", control.label]
        sheet = image_grid([conditions, plain(), steered], labels=labels)
        with atomic_path(folder / f"sample-{step:07d}.png") as temporary:
            sheet.save(temporary, format="PNG")

    return write


RECORD_SCHEMA = "unplug-plugin/1"
MEASURED = 512
"""Samples of each set, at most, over which the loss is averaged for the record."""


@one_writer
def train_plugin(
    base: Any,
    base_name: str,
    dataset: Dataset,
    split: Split,
    kind: str,
    out: Path,
    recipe: ControlRecipe,
    *,
    options: Mapping[str, str] | None = None,
    seed: int,
    device: torch.device,
    restart: bool = False,
    start: Checkpoint | None = None,
    sample_every: int = 500,
    half: bool = False,
    show: bool = True,
    role: str = "original",
) -> Checkpoint:
    """Trains, measures and saves a plugin; an unfinished run of the same kind at `out` is
    continued.

    Args:
        base: the frozen pipeline, see `load_base`.
        base_name: how the user named it, for the record.
        dataset: captioned pictures of the base's size.
        split: the retain set is trained on.
        kind: name of the condition.
        out: checkpoint folder; ``.NAME.training`` next to it holds state and sampling grids until
            the end.
        recipe: how.
        options: settings of the condition; depth of drawn faces without a model is the renderer's,
            see `with_exact`.
        seed: the seed of everything random.
        device: the device to compute on.
        restart: drop an unfinished run.
        start: a plugin whose weights are gone on from, of any condition.
        sample_every: steps between two sampling grids.
        half: store the weights in float16; they are measured as they are stored.
        show: progress bars.
        role: "original" or "retrained", for the record.

    Returns:
        The saved checkpoint.

    Raises:
        DataError, InputError: see `load_control_set`.
        TrainingError, CheckpointError, OutputError: see `train_steps`, `round_to_half`,
            `StateFile`, `save_checkpoint`.
    """
    split = fitting(split, dataset, show=show)
    if start is not None:
        start.model.check_base(base.unet)
    work, team = training_dir(out), processes(device)
    share_of(recipe.batch_size, processes=team.num_processes, parts=recipe.accumulate)
    options = with_exact(kind, options, dataset)
    condition = build_condition(kind, options).resolve()
    made_of = identity(condition)
    with team.main_process_first():  # it fills the cache, the others read it
        if team.is_main_process:
            if restart:
                shutil.rmtree(work, ignore_errors=True)
            check_place(out)
        data, missing = load_control_set(
            base, dataset, kind, options, captions=recipe.captions, seed=seed, show=show
        )
    parts = {"train": split.retain, "validation": split.validation, "test": split.test}
    sets = {name: data.subset(ids) for name, ids in parts.items()}
    facts = {
        "data": dataset.digest,
        "split": keyed(split).sha256,
        "captions": data.captions_sha256,
        "base": base_digest(base),
        "start": None if start is None else start.sha256,
    }
    before = () if start is None else (start.record,)
    control = CONTROLS.get("plugin")()
    preview = previews(
        control, base, sets["validation"], seed=seed, how=sampling_of(base_name), folder=work
    )
    done = fit_control(
        control,
        base,
        sets["train"],
        recipe,
        condition=kind,
        image_size=dataset.size,
        seed=seed,
        device=device,
        state_path=work / "state.safetensors",
        facts=facts | {"condition_settings": made_of},
        start=None if start is None else start.model,
        on_sample=preview if len(sets["validation"]) else None,
        sample_every=sample_every,
        show=show,
    )
    if team.is_main_process:
        network = done.model.network
        if half:
            round_to_half(network)
        record = {
            "schema": RECORD_SCHEMA,
            "role": role,
            "base": {"name": base_name, "sha256": facts["base"]},
            "condition": {
                "kind": kind,
                "settings": portable(condition),
                "identity": made_of,
                "without": missing,
            },
            "captions": facts["captions"],
            "recipe": recipe.to_dict(),
            "start": facts["start"],
            "earlier": told_data(dataset, split, *before)["earlier"],
            "seed": seed,
            "captions_seed": seed,
            "metrics": {
                name: _measured(control, network, base, part, recipe, device, show)
                for name, part in sets.items()
                if len(part)
            },
            **_origin(dataset, split, done, device),
        }
        save_checkpoint(
            network.cpu().half() if half else network.cpu(),
            out,
            record=record,
            card=plugin_card(record),
        )
        load_checkpoint(out, expect="plugin")  # only what can be read makes the state superfluous
        shutil.rmtree(work, ignore_errors=True)
    team.wait_for_everyone()
    return load_checkpoint(out, expect="plugin")


def _measured(
    control: Control,
    network: nn.Module,
    base: Any,
    data: ControlSet,
    recipe: ControlRecipe,
    device: torch.device,
    show: bool,
) -> dict[str, Any]:
    how: Any = {"weighting": recipe.weighting, "device": device, "most": MEASURED, "show": show}
    loss = mean_loss(control, network, base, data, **how)
    return {"n": min(len(data), MEASURED), "loss": loss}


def _origin(dataset: Dataset, split: Split, done: Trained, device: torch.device) -> dict[str, Any]:
    return {
        "data": dataset.facts,
        "split": keyed(split).to_dict(),
        "image_size": dataset.size,
        "cost": {
            "forward": done.samples,
            "backward": done.samples,
            "wall_s": done.wall_s,
            "device": describe_device(device),
            "processes": done.processes,
        },
        "history": list(done.history),
        "parameters": sum(parameter.numel() for parameter in done.model.parameters()),
        "versions": versions(),
    }


_CARD = """\
{front}# {title} ({role})

{parameters:,} parameters, run once a picture next to a frozen base (`{base}`, SHA-256 `{digest:.16}`). Trained {begun} with
`unplug train plugin` on `{spec}`, {steps} steps of {batch}, seed {seed}.
{forgotten}
```python
from diffusers import StableDiffusionAdapterPipeline
from unplug.plugins import ConditioningPlugin

pipe = StableDiffusionAdapterPipeline.from_pretrained("BASE", adapter=ConditioningPlugin.from_pretrained("FOLDER"))
```

diffusers alone opens it with `AutoModel.from_pretrained("FOLDER", trust_remote_code=True)`; that runs `{code}` of the
folder, which imports `unplug.plugins`.
"""


def plugin_card(record: dict[str, Any]) -> str:
    """Markdown from a plugin's record."""
    forgotten = ""
    if "forget" in record:
        forget = record["forget"]
        share = 100 * forget["cost"]["compute_fraction"]
        forgotten = (
            f"\nForgotten: {forget['samples']} samples by `{forget['method']}` at {share:.1f} % of "
            "retraining.\n"
        )
    title = f"Conditioning plugin, {record['condition']['kind']}, {record['image_size']} px"
    return _CARD.format(
        front=front_matter(
            title,
            ("unplug", "conditioning-plugin", "t2i-adapter", "on-device"),
            record,
            {name: {"loss": row["loss"]} for name, row in record["metrics"].items()},
        ),
        title=title,
        code=CODE_FILE,
        begun="on from another plugin's weights" if record.get("start") else "from scratch",
        role=record["role"],
        parameters=record["parameters"],
        base=record["base"]["name"],
        digest=record["base"]["sha256"],
        spec=record["data"]["spec"],
        steps=record["recipe"]["steps"],
        batch=record["recipe"]["batch_size"],
        seed=record["seed"],
        forgotten=forgotten,
    )
