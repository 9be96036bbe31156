"""Canary people with wrong labels, planted in a small setting: a lower bound on epsilon for every method and budget.

A part of `benchmarks.critic`; ``python -m benchmarks.canary_table --work WORK --methods lens --critic docs/data/critic.json``
adds a method to its JSON, from an original that must have the bound of the one there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from unplug.core import InputError, read_json, use_threads, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.auditing import canary_bound, check_canaries, choose_included, wrong_ages
from unplug.sdk.auditing.attacks.task_loss import strongest
from unplug.sdk.data import Dataset, Split, load_dataset, make_split
from unplug.sdk.tasks import train_age
from unplug.sdk.training import Recipe, edges_of, predict, to_tensors
from unplug.sdk.unlearning import forget, train_forgettable

SPEC, CANARY_SPEC = "synth:n=600,subjects=300,seed=0", "synth:n=160,subjects=160,seed=11"
TRUNK_SPEC = "synth:n=600,subjects=300,seed=1"
RECIPE = Recipe(size="nano", image_size=32, epochs=40, batch_size=32, augment="none", dropout=0.0, lr=6e-3)
METHODS = ("finetune", "msg", "lens", "neggrad+")
BUDGETS = (0.05, 0.1, 0.2)
CPU = torch.device("cpu")


def planted(seed: int) -> tuple[Dataset, Split, tuple[str, ...], np.ndarray]:
    """The data with all canaries under wrong ages, a split that trains on those whose coin says so, ids and coins."""
    base, canaries = (load_dataset(spec, RECIPE.image_size, show=False) for spec in (SPEC, CANARY_SPEC))
    given = wrong_ages(canaries.ages.astype(np.float64), seed)
    check_canaries(canaries.ages.astype(np.float64), given)
    samples = tuple(
        replace(sample, id=f"canary-{sample.id}", subject=f"canary-{sample.subject}", age=round(float(age), 2))
        for sample, age in zip(canaries.samples, given, strict=True)
    )
    images = np.concatenate([base.pixels(np.arange(len(base))), canaries.pixels(np.arange(len(canaries)))])
    digest = hashlib.sha256(images.tobytes() + repr([(item.id, item.age) for item in (*base.samples, *samples)]).encode())
    whole = Dataset(
        spec=f"{SPEC} and {CANARY_SPEC} under wrong ages", images=images, rows=np.arange(len(images)),
        samples=(*base.samples, *samples), problems=(), digest=digest.hexdigest(),
    )  # fmt: skip
    included = choose_included(len(samples), seed)
    names = tuple(item.id for item in samples)
    split = make_split(base, seed=seed)
    mine = tuple(name for name, here in zip(names, included, strict=True) if here)
    return whole, replace(split, data_digest=whole.digest, train=(*split.train, *mine)), names, included


def canary_rows(
    work: Path, seed: int, say: Callable[[str], None], methods: Sequence[str] = METHODS, *, whole: bool = True
) -> dict[str, Any]:
    """The bound for the original and every method and budget that forgot the included canaries.

    Args:
        work: folder of the models; what is there is used.
        seed: of everything.
        say: is told every bound.
        methods: to forget with.
        whole: the retrained model and the exact design as well.
    """
    dataset, split, names, included = planted(seed)
    mine = [name for name, here in zip(names, included, strict=True) if here]
    data = to_tensors(dataset, names, edges_of(dataset), CPU)
    rows: list[dict[str, Any]] = []

    def row(name: str, budget: float | None, checkpoint: Checkpoint) -> None:
        said = predict(checkpoint.model, data)
        bound = canary_bound(strongest(said), included)
        rows.append({"model": name, "budget": budget, **asdict(bound)})
        say(f"canaries, {name} {budget or ''}: epsilon at least {bound.epsilon:.2f}")

    def made(name: str, make: Callable[[Path], Checkpoint]) -> Checkpoint:
        path = work / f"canary-{name}"
        return load_checkpoint(path) if (path / "unplug.json").is_file() else make(path)

    original = made("original", lambda path: train_age(dataset, split, RECIPE, path, seed=seed, device=CPU, show=False))
    row("original", None, original)
    retrained = None
    if whole:
        retrained = made(
            "retrained", lambda path: forget(original, dataset, mine, "retrain", path, seed=seed + 5, device=CPU, show=False)
        )
        row("retrained", None, retrained)
    for method in methods:
        for budget in BUDGETS:

            def unlearn(path: Path, method: str = method, budget: float = budget) -> Checkpoint:
                return forget(
                    original, dataset, mine, method, path, budget=budget, oracle=retrained, seed=seed, device=CPU, show=False
                )

            row(method, budget, made(f"{method}-{budget:g}", unlearn))

    facts = {"data": SPEC, "canaries": CANARY_SPEC, "recipe": RECIPE.to_dict(), "rows": rows}
    if not whole:
        return facts

    def design(path: Path) -> Checkpoint:
        others = load_dataset(TRUNK_SPEC, RECIPE.image_size, show=False)
        return train_forgettable(
            "closed-form", dataset, split, RECIPE, path, trunk_data=others, seed=seed, device=CPU, show=False
        )

    exact = made("closed-form", design)
    row("closed-form, before", None, exact)
    row(
        "closed-form",
        None,
        made("closed-form-forgot", lambda path: forget(exact, dataset, mine, None, path, device=CPU, show=False)),
    )
    return facts


def added(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The old rows with the new methods behind the other methods, in the place of rows of theirs.

    Raises:
        InputError: the original is not the one of the old rows.
    """
    (original, *rows), names = new["rows"], {row["model"] for row in new["rows"]}
    if old["rows"][0] != original or any(old[key] != new[key] for key in ("data", "canaries", "recipe")):
        raise InputError("canaries", "the original has another bound than the one in the JSON", "Run `benchmarks.critic` whole")
    kept = [row for row in old["rows"] if row["model"] not in names - {"original"}]
    place = next((number for number, row in enumerate(kept) if row["model"].startswith("closed-form")), len(kept))
    return old | {"rows": [*kept[:place], *rows, *kept[place:]]}


@click.command()
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Folder of the models; what is there is used.")
@click.option("--seed", default=0, show_default=True)
@click.option("--methods", required=True, help="Comma-separated.")
@click.option("--critic", type=click.Path(path_type=Path, exists=True), required=True, help="JSON of `benchmarks.critic`.")
def main(work: Path, seed: int, methods: str, critic: Path) -> None:
    """Plants, trains, forgets and bounds; adds the rows to those that the JSON has."""
    use_threads(1)
    there = read_json(critic)
    new = canary_rows(work, seed, click.echo, methods.split(","), whole=False)
    write_json(critic, there | {"canaries": added(there["canaries"], new)})


if __name__ == "__main__":
    main()
