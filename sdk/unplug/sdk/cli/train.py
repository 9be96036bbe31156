"""``unplug train age|base|classes|decoder|pack|plugin|student``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from unplug.core import InputError
from unplug.sdk import journey

from .base import Common, Outcome, command, computing, settings
from .options import (
    FINE,
    data_option,
    out_option,
    path_option,
    restart_option,
    settings_option,
    split_file_option,
    split_options,
)
from .options_of import ConfiguredCommand, given
from .train_base import base
from .train_decoder import decoder
from .train_pack import pack
from .train_plugin import plugin
from .train_student import student

if TYPE_CHECKING:
    from unplug.plugins import Checkpoint
    from unplug.sdk.learning.data import Dataset, Split


F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def train() -> None:
    """Train a model."""


train.add_command(base)
train.add_command(decoder)
train.add_command(pack)
train.add_command(plugin)
train.add_command(student)


def predictor(function: F) -> F:
    """Adds what the training of a model over pictures takes besides its recipe."""
    for add in (
        restart_option(),
        settings_option("A setting of the design, e.g. ridge=0.01; may be repeated."),
        path_option(
            "--family",
            multiple=True,
            help=(
                "A trained trunk of several that share one head, or a front of `unplug search`: all "
                "are members, each in its size. Once a trunk."
            ),
        ),
        path_option("--trunk", help="A trained trunk for a design."),
        click.option(
            "--trunk-data",
            metavar="SPEC",
            help="Pictures that nobody may withdraw, to train a design's trunk on.",
        ),
        click.option(
            "--forgettable",
            metavar="DESIGN",
            help=(
                "Make it to forget exactly, on a trunk without personal data: closed-form or "
                "shards, see `unplug list designs`."
            ),
        ),
        split_file_option,
        split_options,
        out_option("Checkpoint folder to write; an unfinished run there is continued."),
        data_option,
    ):
        function = add(function)
    return function


@train.command(cls=ConfiguredCommand, config="unplug.sdk.learning.training:Recipe", skip=FINE)
@click.option(
    "--edges",
    metavar="YEARS",
    help="Borders of the age groups, as 0,13,18,100, or yearly (default: those that laws name).",
)
@predictor
@computing
@command
def age(edges: str | None, common: Common, **options: Any) -> Outcome:
    """Train a face-age predictor.

    With --forgettable the recipe is that of the trunk, which learns from --trunk-data; --data holds
    the people who may ask to be forgotten, and decides what stands over the trunk.

    Samples are split by subject where subjects are known. The state is saved after every epoch: run
    the same command again after a kill and it goes on, to the same weights.
    """
    return _trained("age", edges, common, **options)


@train.command(
    cls=ConfiguredCommand,
    config="unplug.sdk.learning.training:Recipe",
    skip=("edges", *FINE),
)
@predictor
@computing
@command
def classes(common: Common, **options: Any) -> Outcome:
    """Train a classifier of the labels of the data: imagefolder:, cifar10:, or csv: with a column
    label.

    Samples are split, designs forget, and an unfinished training goes on, as by `unplug train age`.
    """
    return _trained("classes", None, common, **options)


def _trained(
    task: Literal["age", "classes"],
    edges: str | None,
    common: Common,
    *,
    spec: str,
    on_bad: Any,
    out: Path,
    split_file: Path | None,
    validation: float,
    test: float,
    forgettable: str | None,
    trunk_data: str | None,
    trunk: Path | None,
    family: tuple[Path, ...],
    pairs: tuple[str, ...],
    restart: bool,
    **recipe: Any,
) -> Outcome:
    from unplug.plugins import load_checkpoint, read_config
    from unplug.sdk.forgetting.unlearning import check_design
    from unplug.sdk.learning.data import load_dataset
    from unplug.sdk.learning.training import Recipe, parse_edges

    design = settings(pairs)
    family = _members(family)
    given_trunks: dict[str, Any] = {"trunk": trunk, "trunk_data": trunk_data, "family": family}
    check_design(forgettable, design, **given_trunks, edges=edges)
    chosen = given(Recipe, recipe)
    if edges is not None:
        chosen["edges"] = parse_edges(edges)
    trunks = []
    for place in family if trunk is None else (trunk,):
        adopted = read_config(place)[0] == "age-trunk"
        trunks.append(load_checkpoint(place, expect="age-trunk" if adopted else task))
        chosen["image_size"] = trunks[0].model.image_size
    asked = Recipe(**chosen)
    read = partial(load_dataset, size=asked.image_size, on_bad=on_bad, show=common.show)
    known: Sequence[str] | None = () if task == "classes" else None
    consented = None if trunk_data is None else read(trunk_data, labelled=known)
    if known is not None and trunks:
        known = getattr(trunks[0].model, "classes", None) or trunks[0].record.get("labels", ())
    elif known is not None and consented is not None:
        known = consented.classes
    dataset = read(spec, labelled=known)
    split = split_of_options(
        dataset, split_file, seed=common.seed, validation=validation, test=test
    )
    size = forgettable if trunks else asked.size
    common.say(
        f"training {size} at {asked.image_size} px on {len(split.retain)} of {len(dataset)} samples"
    )
    done = journey.train(
        dataset,
        split,
        out=out,
        task=task,
        forgettable=forgettable,
        trunk=None if trunk is None else trunks[0],
        trunk_data=consented,
        family=trunks if family else (),
        design=design,
        restart=restart,
        **common.shared,
        **chosen | {"image_size": asked.image_size},
    )
    return _told(done, out, split)


def _members(family: Sequence[Path]) -> tuple[Path, ...]:
    """The trunks of a family; of a front that `unplug search` wrote all that it found."""
    from unplug.sdk.searching import FRONT_FILE, Front

    return tuple(
        trunk
        for place in family
        for trunk in (
            Front.load(place).trunks(place) if (place / FRONT_FILE).is_file() else (place,)
        )
    )


def _told(done: Checkpoint, out: Path, split: Split) -> Outcome:
    import torch

    from unplug.sdk.forgetting.tasks import GroupTask, task_of
    from unplug.sdk.forgetting.unlearning import members_of

    metrics, cost = done.record["metrics"], done.record["cost"]
    lines = [f"saved {out} ({cost['wall_s']:.1f} s on {cost['device']})"]
    task = task_of(done, device=torch.device("cpu"))
    assert isinstance(task, GroupTask)
    lines += [
        f"{name:<11}{row['n']:>6} samples  {task.describe(row)}" for name, row in metrics.items()
    ]
    lines.append(task.describe_groups(metrics["test"]))
    members = members_of(done)
    for name, member in members.items():
        facts, row = done.record["design"]["members"][name], member.record["metrics"].get("test")
        says = f", test {task.describe(row)}" if row else ""
        lines.append(f"member {name}: {100 * facts['explained']:.0f} % explained{says}")
    value = {
        "out": str(out),
        "sha256": done.sha256,
        "metrics": metrics,
        "cost": cost,
        "split_sha256": split.sha256,
        "members": {name: item.record["metrics"] for name, item in members.items()},
    }
    return Outcome(value=value, text="\n".join(lines))


def split_of_options(dataset: Dataset, file: Path | None, **drawn: Any) -> Split:
    """The split of a file, or a new one."""
    from unplug.sdk.learning.data import fitting, load_split, make_split

    if file is None:
        return make_split(dataset, **drawn)
    split = load_split(file)
    if split.forget:
        fix = "Train on a split without one, then `unplug forget`"
        raise InputError(str(file), "it names a forget set", fix)
    return fitting(split, dataset, show=True)
