"""``unplug search``: draw sizes, drop what is too slow, halve, retrain, time, and rank on people whom
the search never saw.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from scipy.stats import kendalltau

from unplug.core import (
    InputError,
    TrainingError,
    atomic_dir,
    counted,
    json_sha256,
    one_writer,
    versions,
)
from unplug.mobile_bench import device_slug
from unplug.sdk.evidence.fleet import BACKENDS, Result, backend_for, read_result, revive, run_jobs
from unplug.sdk.forgetting.tasks import TASKS, GroupTask
from unplug.sdk.learning.data import Dataset, OnBad, Split, fitting, save_split
from unplug.sdk.learning.training import Recipe, training_dir, training_place

from .finalists import Finalist, Found, milliseconds_of, points_of, save_models
from .front import FRONT_FILE, Front, FrontCost, FrontPoint, with_best
from .halving import at_random, best, rungs
from .order import SearchOrder, TimedOn
from .price import Candidates, Say, draw, known_here
from .space import SPACES
from .trials import Trial, World, context, opened

OURS, FILES = ("at-*", "files"), "files"


class Trainer:
    """Trains what is asked for, once: what a killed search had trained is read."""

    def __init__(self, order: SearchOrder, world: World, folder: Path, on_bad: OnBad, show: bool):
        split, self._device = folder / "split.json", world.sets.train.device
        save_split(world.split, split)
        self.order, self.world, self._folder, self._show = order, world, folder, show
        self._context = context(world, split, on_bad)
        self.facts = json_sha256([world.dataset.digest, world.split.sha256, torch.__version__])
        self.done: dict[Trial, Result] = {}

    def train(self, trials: Sequence[Trial]) -> dict[Trial, Result]:
        """The results of those that did not diverge."""
        new = [one for one in dict.fromkeys(trials) if one not in self.done]
        run_jobs(
            [one.job for one in new],
            self._context,
            self._folder,
            backend=self.order.backend or backend_for(self._device),
            workers=self.order.workers,
            show=self._show,
            fingerprint=self.facts,
            cluster=self.order.cluster,
        ).check("trainings", len(new))
        self.done |= {one: read_result(self._folder, one.job.name) for one in new}
        for refusal in (self.done[one].refused for one in new):
            if refusal is not None and refusal["kind"] != TrainingError.__name__:
                raise revive(refusal)
        return {one: self.done[one] for one in trials if self.done[one].refused is None}


@one_writer
def search(
    task: Literal["age", "classes"],
    dataset: Dataset,
    split: Split,
    out: Path,
    order: SearchOrder,
    on: Sequence[TimedOn],
    recipe: Recipe,
    *,
    on_bad: OnBad = "error",
    seed: int = 0,
    device: torch.device,
    restart: bool = False,
    show: bool = True,
    say: Say = lambda _: None,
) -> list[Front]:
    """Finds the sizes that err least within some milliseconds, and says what that is worth: each
    is compared with the sizes made by hand, and with a random search of equal cost and filter.

    Args:
        task: the kind of model.
        dataset: data at ``recipe.image_size``.
        split: its validation people choose; its test people are asked once, at the end.
        out: the folder of the front, with the checkpoints of what was found; a killed search goes
            on. Of several devices ``OUT/NAME``, a front each, from one set of trainings.
        order: budgets and effort.
        on: the devices that the milliseconds are of.
        recipe: the recipe of a full training; its size is not read.
        on_bad: the way that the data were loaded.
        seed: the seed of draws and of the first training.
        device: the device to train on.
        restart: drop an unfinished search.
        show: progress bars.
        say: told what is done.

    Returns:
        A front a device, as it is in ``front.json``.

    Raises:
        InputError: no size meets a budget, nothing is known of a device, or one is given twice.
        TrainingError: every candidate of a budget diverged.
        DataError, OutputError: see `train_pictures`.

    Reference:
        Jamieson and Talwalkar, 2016 (successive halving); Li and Talwalkar, Random Search and
        Reproducibility for Neural Architecture Search, 2019 (random search stands in the table).
    """
    kind, split = TASKS.get(task), fitting(split, dataset, show=show)
    assert issubclass(kind, GroupTask)
    split = smaller(split, dataset, order.pictures, seed)
    world, names = opened(dataset, split, kind, recipe, device), [device_slug(one.on) for one in on]
    if len({*names}) < len(names):
        raise InputError("`on`", "a device is given twice", "Give each once")
    if order.backend is not None:
        BACKENDS.get(order.backend)
    fronts, shared = list[Front](), training_dir(out)
    for name, one in zip(names, on, strict=True):
        alone = len(on) == 1
        place = out if alone else out / name
        with training_place(place, FRONT_FILE, OURS, restart=restart) as work:
            folder = (work if alone else shared) / "trials"
            trainer = Trainer(order, world, folder, on_bad, show)
            fronts.append(_front(task, trainer, one, place, work, seed, say))
    shutil.rmtree(shared, ignore_errors=True)
    return fronts


def _front(
    task: Literal["age", "classes"],
    trainer: Trainer,
    on: TimedOn,
    out: Path,
    work: Path,
    seed: int,
    say: Say,
) -> Front:
    """The front of one device, with its folder."""
    order, world = trainer.order, trainer.world
    recipe, at = world.task.recipe, tuple(sorted({*order.at}))
    space = SPACES.get(task)(recipe.image_size, len(world.task.edges) - 1)
    timed = (
        known_here(world, space, work / f"machine-{recipe.image_size}", on, say) if on.here else on
    )
    known = timed.calibration()
    searched = draw(space, known, at, order.candidates, seed)
    by_chance = draw(space, known, at, at_random(order.candidates, recipe.epochs), seed + 1)
    chosen = halved(trainer, searched.sizes, rungs(order.candidates, recipe.epochs), seed, say)
    full = [(max(map(len, by_chance.sizes.values())), recipe.epochs)]
    lucky = halved(trainer, by_chance.sizes, full, seed, say)
    hand = {
        size.partition(":")[0]: size
        for size in space.by_hand
        if known.predict(space.work(size)) <= at[-1]
    }
    named: dict[tuple[Found, str], str] = {
        **{("search", f"at-{budget:g}"): size for budget, size in chosen.items()},
        **{("random", f"random-{budget:g}"): size for budget, size in lucky.items()},
        **{("hand", name): size for name, size in hand.items()},
    }
    seeds = range(seed, seed + order.seeds)
    say(f"training {counted(len(named), 'finalist')} with {counted(len(seeds), 'seed')} ...")
    finalists = _trained(trainer, named, work, recipe.epochs, seeds)
    for item in finalists:
        save_models(world, item, seeds)
    say("exporting and comparing the finalists ...")
    files, took = milliseconds_of(finalists, on)
    points = points_of(world, space, known, finalists, files, took, seed)
    front = Front(
        task=task,
        data=world.dataset.facts,
        split_sha256=world.split.sha256,
        people=len(np.unique(world.sets.test.subject_N)),
        recipe={**recipe.to_dict(), "size": ""},
        at=at,
        device=known.device,
        source=known.source,
        delegate=known.setting.delegate,
        threads=known.setting.threads,
        held_out=known.held_out,
        order=_order(points),
        points=with_best(points),
        cost=_cost(trainer, (searched, by_chance)),
        versions=versions(),
    ).sealed()
    with atomic_dir(out, owner=FRONT_FILE, ours=OURS) as temporary:
        for item in finalists:
            if item.found == "search":
                for place in item.places:
                    shutil.copytree(place, temporary / place.name)
                shutil.copytree(item.file, temporary / FILES / item.name)
        front.save(temporary / FRONT_FILE)
    return front


def smaller(split: Split, dataset: Dataset, pictures: int | None, seed: int) -> Split:
    """The split with at most some pictures to train on, of whole people drawn at random."""
    if pictures is None or len(split.train) <= pictures:
        return split
    person = {sample.id: sample.person for sample in dataset.samples}
    people = sorted({person[name] for name in split.train})
    order = np.random.default_rng([seed, 47]).permutation(len(people))
    place = {people[index]: number for number, index in enumerate(order.tolist())}
    kept = sorted(split.train, key=lambda name: (place[person[name]], name))[:pictures]
    # a person who is cut in two stays out
    last = person[kept[-1]]
    inside = {name for name in kept if person[name] != last}
    return replace(split, train=tuple(name for name in split.train if name in inside))


def halved(
    trainer: Trainer,
    sizes: Mapping[float, Sequence[str]],
    steps: Sequence[tuple[int, int]],
    seed: int,
    say: Say,
) -> dict[float, str]:
    """The size of each budget that is left after some rungs: how many train, for how many epochs.

    Raises:
        TrainingError: none is left.
    """
    left = {budget: list(named) for budget, named in sizes.items()}
    for number, (count, epochs) in enumerate(steps):
        asked = [
            Trial(size=size, epochs=epochs, seed=seed)
            for named in left.values()
            for size in named[:count]
        ]
        say(
            f"step {number + 1} of {len(steps)}: {counted(len(asked), 'training')} of "
            f"{counted(epochs, 'epoch')}"
        )
        error = {
            one.size: float(result.facts["error"]) for one, result in trainer.train(asked).items()
        }
        for budget, named in left.items():
            known = {size: error[size] for size in named[:count] if size in error}
            if not known:
                why = f"every candidate for {budget:g} ms diverged"
                raise TrainingError("search", why, "Lower `lr`")
            left[budget] = best(known, len(known))
    return {budget: named[0] for budget, named in left.items()}


def _trained(
    trainer: Trainer, named: Mapping[tuple[Found, str], str], work: Path, epochs: int, seeds: range
) -> list[Finalist]:
    """Finalists by how they were found and their names; what diverges with a seed is told and left
    out.
    """
    trials = {
        key: [Trial(size=size, epochs=epochs, seed=seed) for seed in seeds]
        for key, size in named.items()
    }
    done = trainer.train([one for asked in trials.values() for one in asked])
    # by their content: a search that goes on with another order may find others of the same name
    recipe = trainer.world.task.recipe.to_dict()
    folder = {
        key: work / json_sha256([trainer.facts, recipe, size, list(seeds)])[:24]
        for key, size in named.items()
    }
    return [
        Finalist(
            name=name,
            found=found,
            size=named[found, name],
            places=tuple(
                folder[found, name] / (name if not number else f"{name}-seed-{seed}")
                for number, seed in enumerate(seeds)
            ),
            file=folder[found, name] / FILES,
            results=tuple(done[one] for one in asked),
        )
        for (found, name), asked in trials.items()
        if all(one in done for one in asked)
    ]


def _order(points: Sequence[FrontPoint]) -> float | None:
    """Kendall's tau of estimated and measured milliseconds."""
    known = [(point.estimated_ms, point.measured_ms) for point in points if point.measured_ms]
    if len(known) < 3:
        return None
    return float(kendalltau(*zip(*known, strict=True)).statistic)


def _cost(trainer: Trainer, arms: Sequence[Candidates]) -> FrontCost:
    facts = [result.facts for result in trainer.done.values() if result.refused is None]
    drawn = sum(arm.drawn for arm in arms)
    return FrontCost(
        drawn=drawn,
        left_out=drawn - sum(len(sizes) for arm in arms for sizes in arm.sizes.values()),
        trained=len(trainer.done),
        diverged=len(trainer.done) - len(facts),
        passes=sum(int(row["passes"]) for row in facts),
        seconds=round(sum(float(row["seconds"]) for row in facts), 1),
    )
