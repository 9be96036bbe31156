"""Two forget sets beside the random one of a board: the youngest people, and those whom models remember most.

``python -m benchmarks.forget_sets --board DIR --original ORIGINAL --fleet FLEET --out docs/data``: ORIGINAL is one of what
``unplug leaderboard --protocol people --out DIR --models-out ORIGINALS`` wrote, and FLEET what ``unplug references ORIGINAL
--data SPEC --models 32 --folds 4 --out FLEET`` trained: 32 models with seeds of their own, of which each left out a quarter of
the people. None of them is scored by any board. Both sets have as many pictures as the board's, of whole people.

Shapes: J people.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import torch

from unplug.core import atomic_path, use_threads
from unplug.plugins import load_checkpoint
from unplug.sdk.auditing import most_memorised
from unplug.sdk.fleet import load_references
from unplug.sdk.studies.leaderboard import Board
from unplug.sdk.tasks import task_of
from unplug.sdk.training import ImageSet

FILES = {"youngest": "leaderboard-forget-youngest.txt", "remembered": "leaderboard-forget-remembered.txt"}


def youngest_people(part: ImageSet) -> np.ndarray:
    """Numbers of all people (J,), those first whose oldest picture is of the youngest age; equal ages by number."""
    people = np.unique(part.subject_N)
    age_N = part.age_N.cpu().numpy()
    oldest_J = np.array([age_N[part.subject_N == person].max() for person in people])
    return np.asarray(people[np.argsort(oldest_J, kind="stable")])


def first_people(part: ImageSet, order_J: np.ndarray, samples: int) -> list[str]:
    """Ids of whole people in this order until there are at least so many samples, in the order of the set."""
    chosen: set[int] = set()
    for person in order_J.tolist():
        if np.isin(part.subject_N, list(chosen)).sum() >= samples:
            break
        chosen.add(int(person))
    return [name for name, person in zip(part.ids, part.subject_N.tolist(), strict=True) if person in chosen]


@click.command()
@click.option("--board", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of a finished leaderboard.")
@click.option("--original", type=click.Path(path_type=Path), required=True, help="An original of it, as a checkpoint.")
@click.option("--fleet", type=click.Path(path_type=Path), required=True, help="References of that original.")
@click.option("--out", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of the two files.")
def main(board: Path, original: Path, fleet: Path, out: Path) -> None:
    """Writes both forget files, for `unplug leaderboard --forget`."""
    use_threads(1)
    opened = Board.open(board)
    whole, samples = opened.local.whole, len(opened.local.split.forget)
    checkpoint = load_checkpoint(original)
    references = load_references(fleet, checkpoint, task_of(checkpoint, device=torch.device("cpu")), opened.local.dataset)
    everybody = len(np.unique(whole.subject_N))
    orders = {
        "youngest": youngest_people(whole),
        "remembered": most_memorised(references, whole.ids, np.asarray(whole.subject_N), everybody),
    }
    for name, order_J in orders.items():
        ids = first_people(whole, order_J, samples)
        with atomic_path(out / FILES[name]) as temporary:
            temporary.write_text("".join(f"{own}\n" for own in ids), encoding="utf-8")
        click.echo(f"{out / FILES[name]}: {len(ids)} samples")


if __name__ == "__main__":
    main()
