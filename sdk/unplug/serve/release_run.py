"""One release, in a child process: from the names in the open requests to a bundle, its zip
file, and what is served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from unplug.core import Job, Reply

from .recipe import ServeRecipe

STAGES = 12
"""About so many lines a release tells; a share of them is how far it is."""


@dataclass(frozen=True, kw_only=True)
class Before:
    """The release in front of this one.

    Args:
        checkpoint: the checkpoint after it; the next release goes on from there, so that people
            once forgotten stay so.
        bundle: its folder.
        number: how many there were.
        weights: SHA-256 of those that any of them started from or shipped.
    """

    checkpoint: str
    bundle: str | None
    number: int
    weights: Sequence[str] = ()


def run_release(job: Job) -> Reply:
    """What a job runs unless its recipe names another function; a test may put a cheap one in its
    place.

    Args:
        job: its values are ``recipe``, ``ledger``, ``folder`` (of the job: what a killed run left
            there is gone on from), ``requests`` (ids), ``job`` and ``before`` (see `Before`, or
            None).

    Returns:
        ``requests``, those that are answered by it; ``bundle`` and ``checkpoint``, folders;
        ``weights``, SHA-256 of those before and after; ``artifact``, the file to serve, and its
        ``sha256``, or None; ``files``, name to path of what may be fetched.

    Raises:
        InputError: of no request do the data hold everybody whom it names.
        GateFailed: a gate does not hold.
    """
    from unplug.trust.bundle import bundle_id, pack_bundle, read_manifest

    recipe = ServeRecipe.of(job.values["recipe"])
    folder = Path(job.values["folder"])
    before = None if job.values["before"] is None else Before(**job.values["before"])
    out = folder / f"{recipe.name}.unplug"
    lines = [0]

    def say(line: str) -> None:
        lines[0] += 1
        job.progress(min(lines[0], STAGES), STAGES, line)

    answered, checkpoint = _release(recipe, job.values, before, out, folder / "work", say)
    packed, lineage = folder / f"{recipe.name}.zip", read_manifest(out).lineage
    pack_bundle(out, packed)
    artifact, sha256 = served_file(out, recipe.served)
    return Reply(
        values={
            "requests": list(answered),
            "bundle": str(out),
            "bundle_id": bundle_id(out),
            "checkpoint": checkpoint,
            "weights": [lineage.original_sha256, lineage.checkpoint_sha256],
            "artifact": artifact,
            "sha256": sha256,
            "files": {packed.name: str(packed)},
        }
    )


def _release(
    recipe: ServeRecipe,
    values: Mapping[str, Any],
    before: Before | None,
    out: Path,
    work: Path,
    say: Any,
) -> tuple[Sequence[str], str]:
    """The ids of the requests that are answered, and the folder of the checkpoint that forgot them."""
    from unplug.sdk.forgetting.tasks import task_of
    from unplug.sdk.learning.data import load_again, named_samples, resolve_names
    from unplug.sdk.learning.training import pick_device
    from unplug.sdk.releasing import (
        ReleaseChoices,
        ReleaseConfig,
        answerable,
        cover,
        gates_from,
        release,
    )
    from unplug.trust.ledger import open_ledger

    device = pick_device(recipe.device)
    original = _start(recipe, before)
    task = task_of(original, device=device)
    dataset = load_again(recipe.data, task.image_size, original.record, show=False)
    ledger = open_ledger(values["ledger"])
    open_ = answerable(ledger, named_samples(dataset.samples), original.sha256)
    asked = {id: names for id, names in open_.items() if id in values["requests"]}
    forgotten = resolve_names(
        sorted({name for names in asked.values() for name in names}), dataset, "the queue"
    )
    answered = cover(ledger, tuple(asked), dataset, forgotten, original.sha256).requests
    choices = {item.name: getattr(recipe, item.name) for item in fields(ReleaseChoices)}
    config = ReleaseConfig(**choices, gates=gates_from(recipe.gates, recipe.budget))
    release(
        original,
        dataset,
        forgotten,
        out,
        work,
        config,
        task=task,
        device=device,
        say=say,
        show=False,
        signing=_signing(recipe, before, answered),
        ledger=ledger,
    )
    retrained = recipe.method == "retrain" and not (work / "unlearned").is_dir()
    return answered, str(work / ("retrained" if retrained else "unlearned"))


def _start(recipe: ServeRecipe, before: Before | None) -> Any:
    """The model that the last release left; or the recipe's, where somebody put another there
    since.
    """
    from unplug.plugins import load_checkpoint

    if before is None:
        return load_checkpoint(recipe.checkpoint)
    if before.weights and Path(recipe.checkpoint).exists():
        given = load_checkpoint(recipe.checkpoint)
        if given.sha256 not in before.weights:
            return given
    return load_checkpoint(before.checkpoint)


def _signing(recipe: ServeRecipe, before: Before | None, answered: Sequence[str]) -> Any:
    """The signer, and which release of the model it is; None where the recipe names no key."""
    if recipe.sign is None:
        return None
    from unplug.trust.bundle import Publication, Signing, bundle_id, load_signer

    signer = load_signer(recipe.sign, None if recipe.public is None else Path(recipe.public))
    publication = Publication(name=recipe.name, release=1, requests=tuple(answered))
    if before is not None and before.bundle is not None:
        earlier = Path(before.bundle)
        publication = replace(
            publication, release=before.number + 1, supersedes=(bundle_id(earlier),)
        )
        return Signing(signer=signer, publication=publication, earlier=(earlier,))
    return Signing(signer=signer, publication=publication)


def served_file(bundle: Path, precision: str) -> tuple[str | None, str | None]:
    """The ONNX file of a precision in a bundle, and its SHA-256; None twice where the bundle has
    none.
    """
    from unplug.core import sha256_file

    files = sorted((bundle / "artifacts").glob(f"*.{precision}.onnx"))
    return (str(files[0]), sha256_file(files[0])) if files else (None, None)
