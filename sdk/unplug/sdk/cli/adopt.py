"""``unplug adopt``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError
from unplug.sdk import journey

from .base import Common, Outcome, command, computing, settings
from .options import FINE, data_option, option, out_option, path_option
from .options_of import ConfiguredCommand, given

if TYPE_CHECKING:
    from unplug.plugins import Checkpoint


@click.command(
    cls=ConfiguredCommand,
    config="unplug.sdk.learning.training:Recipe",
    skip=("size", "dropout", *FINE),
)
@click.argument("factory", metavar="FACTORY")
@data_option
@out_option("Checkpoint folder to write.")
@path_option(
    "--weights",
    help="Safetensors of the trained network; without, it is trained here.",
)
@path_option(
    "--split",
    "split_file",
    help="Split of the people who trained it: a file of `unplug data split`.",
)
@click.option(
    "--edges",
    metavar="A,B,...",
    help="Borders of its age groups in years, or yearly (0,1,...,100); default: ours.",
)
@click.option(
    "--classes",
    is_flag=True,
    help="It answers the labels of the data, one logit each in alphabetical order, and no ages.",
)
@option("--mean", default="0.5,0.5,0.5", help="It sees (RGB in [0, 1] - mean) / std.")
@option("--std", default="0.5,0.5,0.5", help="See --mean.")
@click.option(
    "--argument",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Argument for the factory; may be repeated.",
)
@click.option(
    "--trunk", is_flag=True, help="Make it the frozen trunk of an exact design: train --trunk."
)
@click.option(
    "--features", metavar="LAYER", help="Layer whose output is the features of a trunk; see docs."
)
@click.option(
    "--answer", is_flag=True, help="Let the head of a trunk see the network's answer too."
)
@click.option(
    "--trained-on",
    metavar="SPEC",
    help='Data that trained a trunk, or the words "public weights".',
)
@computing
@command
def adopt(
    factory: str,
    spec: str,
    on_bad: Any,
    out: Path,
    weights: Path | None,
    split_file: Path | None,
    edges: str | None,
    classes: bool,
    mean: str,
    std: str,
    pairs: tuple[str, ...],
    trunk: bool,
    features: str | None,
    answer: bool,
    trained_on: str | None,
    common: Common,
    **options: Any,
) -> Outcome:
    """Make a network of your own an age predictor or a classifier that every command works on.

    FACTORY is timm:NAME, torchvision:NAME, or package.module:factory or ./FILE.py:factory, which is
    code of yours: calling this command says that it may run here. The network takes pictures (B, 3, H, W) and
    answers one logit an age group, or with --classes one a label. Nobody but you knows who trained
    it, so --weights needs --split (or data with official parts). The recipe's options say how it
    would be trained again.

    With --trunk it becomes the frozen trunk of an exact design; FACTORY may then be onnx:FILE.
    --data are pictures that nobody may withdraw, and --trained-on says who trained it.
    """
    from unplug.sdk.learning.data import load_split
    from unplug.sdk.learning.training import Recipe, parse_edges

    if classes and trunk:
        raise InputError("--classes", "a trunk serves ages and labels", "Leave it out with --trunk")
    if classes and edges is not None:
        raise InputError("--edges", "they are borders of ages", "Leave it out with --classes")
    shared: dict[str, Any] = {
        "out": out,
        "weights": weights,
        "edges": None if edges is None else parse_edges(edges),
        "mean": _three("--mean", mean),
        "std": _three("--std", std),
        "arguments": {name: _value(text) for name, text in settings(pairs).items()},
        "on_bad": on_bad,
        **common.shared,
    }
    recipe = given(Recipe, options)
    if trunk:
        if trained_on is None:
            fix = 'Give --trained-on the data that did, or the words "public weights"'
            raise InputError("--trunk", "it is not said who trained the network", fix)
        side = {name: recipe[name] for name in ("image_size",) if name in recipe}
        more: Any = {"features": features or "", "answer": answer, "trained_on": trained_on}
        done = journey.adopt_trunk(factory, spec, **more, **side, **shared)
        return _trunk_told(done, features or "its output", out)
    if features or answer or trained_on:
        raise InputError("--features, --answer, --trained-on", "a trunk has them", "Add --trunk")
    split = None if split_file is None else load_split(split_file)
    shared |= {"task": "classes" if classes else "age", "split": split, "say": common.say}
    done = journey.adopt(factory, spec, **shared, **recipe)
    return _told(done, factory, out)


def _trunk_told(done: Checkpoint, features: str, out: Path) -> Outcome:
    notes = done.record["adopted"]["notes"]
    lines = [f"saved {out}: a trunk of {done.model.channels} features, from {features}"]
    value = {"out": str(out), "sha256": done.sha256, "features": done.model.channels}
    lines += [f"note: {note}" for note in notes]
    return Outcome(value=value | {"notes": notes}, text="\n".join(lines))


def _told(done: Checkpoint, factory: str, out: Path) -> Outcome:
    import torch

    from unplug.sdk.forgetting.tasks import task_of
    from unplug.sdk.learning.training import split_of

    task = task_of(done, device=torch.device("cpu"))
    metrics, notes = done.record["metrics"], done.record["adopted"]["notes"]
    count = sum(parameter.numel() for parameter in done.model.parameters())
    lines = [f"saved {out}: {factory}, {count / 1e6:.2f} M parameters"]
    lines += [
        f"{name:<11}{row['n']:>6} samples  {task.describe(row)}" for name, row in metrics.items()
    ]
    lines += [f"note: {note}" for note in notes]
    value = {
        "out": str(out),
        "sha256": done.sha256,
        "parameters": count,
        "metrics": metrics,
        "split_sha256": split_of(done).sha256,
        "notes": notes,
    }
    return Outcome(value=value, text="\n".join(lines))


def _value(text: str) -> Any:
    """A number, true, false or null as JSON writes it; else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _three(option: str, text: str) -> tuple[float, float, float]:

    try:
        first, second, third = map(float, text.split(","))
    except ValueError as error:
        raise InputError(
            f"{option} {text[:60]}", "it is not three numbers", "Write them with commas between"
        ) from error
    return first, second, third
