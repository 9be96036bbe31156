"""The protocols that come with unplug, after the splits and forget sets that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from unplug.core import DataError
from unplug.plugins import ADOPTED, Adopted
from unplug.sdk.learning.data import Dataset, Split, make_split, pick_forget, resolve_names
from unplug.sdk.learning.training import Recipe

from .protocol import BenchmarkProtocol

Pick = Callable[[Dataset, Split, int], tuple[str, ...]]


def random_split(dataset: Dataset, seed: int) -> Split:
    """10 % validation, 20 % test, by subject where subjects are known, by the official partition
    where there is one.
    """
    return make_split(dataset, seed=seed)


def fraction(share: float) -> Pick:
    """Picks a random share of train: whole subjects where they are known."""

    def pick(dataset: Dataset, split: Split, seed: int) -> tuple[str, ...]:
        names = pick_forget(dataset, split, fraction=share, seed=seed)
        return resolve_names(names, dataset, "forget set")

    return pick


def listed(names: Sequence[str]) -> Pick:
    """Picks these samples, all of which must be in train."""

    def pick(dataset: Dataset, split: Split, seed: int) -> tuple[str, ...]:
        ids = resolve_names(names, dataset, "forget set")
        if held := sorted(set(ids) - set(split.train)):
            why = (
                f"{len(held)} of its {len(ids)} samples are not in the training set (first: "
                f"{held[0]})"
            )
            raise DataError(
                "forget set", why, "Name samples of train, or of people who are in train alone"
            )
        chosen = set(ids)
        return tuple(name for name in split.train if name in chosen)

    return pick


PEOPLE_SUMMARY = (
    "Synthetic faces of people with two pictures each; a random 8 % of the training set is "
    "forgotten, whole people. One "
    "unlearned model is made of each original, so that an exact method scores as retraining does. "
    "The network is a plain "
    "one of {weights} weights at 32 pixels that knows its training set by heart (flips alone), so "
    "that "
    "memorisation is real and a board of thousands of models takes hours of one thread."
)
PEOPLE = BenchmarkProtocol(
    name="people",
    summary=PEOPLE_SUMMARY.format(weights="34,000"),
    recipe=Recipe(
        size=ADOPTED,
        image_size=32,
        epochs=24,
        batch_size=64,
        augment="flip",
        dropout=0.0,
        lr=3e-3,
        weight_decay=0.05,
    ),
    network=Adopted(factory="unplug:plain").to_dict(),
    default_data="synth:n=800,subjects=400,seed=1",
    data_help="any data with ages and subjects, for example utkface:DIR",
    split=random_split,
    pick=fraction(0.08),
)
"""The fair board: K = N = 64, methods tuned with one budget on another draw of people."""

PEOPLE_WIDE = replace(
    PEOPLE,
    name="people-wide",
    network=Adopted(factory="unplug:plain-wide").to_dict(),
    summary=PEOPLE_SUMMARY.format(weights="115,000"),
)
"""The same with a network of three times as many weights."""
