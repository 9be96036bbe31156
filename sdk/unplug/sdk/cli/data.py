"""``unplug data``: synth, inspect, split, pick-forget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from unplug.core import InputError, counted

from .base import Common, Outcome, command, computing, seed_option
from .options import on_bad_option, option, out_option, path_argument, spec_option, split_options

size_option = option(
    "--pixels",
    "size",
    type=click.IntRange(8, 1024),
    default=64,
    help="Side in pixels to decode to.",
)


@click.group()
def data() -> None:
    """Make synthetic faces, describe a data spec, draw a random forget set.

    A data spec is KIND:ARGUMENT: synth:n=3000,subjects=600,seed=0, utkface:DIR, agedb:DIR,
    appa-real:DIR, fairface:DIR, fairface-midpoints:DIR, imdb-wiki:DIR, lagenda:DIR, mufac:DIR,
    mucac:DIR, facesynthetics:DIR, cifar10:DIR, imagefolder:DIR, csv:FILE, captions:DIR,
    webdataset:SHARDS, canaries:DIR.
    """


@data.command()
@option(
    "--count",
    type=click.IntRange(1, 1_000_000),
    default=100,
    help="Pictures.",
)
@click.option("--subjects", type=click.IntRange(1, 1_000_000), help="People (default n / 5).")
@option("--pixels", "size", type=click.IntRange(16, 1024), default=256, help="Side in pixels.")
@out_option("Folder for the PNG files and labels.csv.")
@seed_option
@command
def synth(count: int, subjects: int | None, size: int, out: Path, common: Common) -> Outcome:
    """Write synthetic faces as PNG files with a labels.csv (usable as csv:OUT/labels.csv)."""
    from unplug.sdk.learning.data import write_faces

    people = subjects or max(1, count // 5)
    written = write_faces(
        f"synth:n={count},subjects={people},seed={common.seed}", size, out, show=common.show
    )
    text = (
        f"{counted(written, 'face')} of {counted(people, 'person', 'people')} at {size} px in "
        f"{out}\n"
        f"Use them with --data csv:{out}/labels.csv"
    )
    return Outcome(
        value={"out": str(out), "samples": written, "subjects": people, "size": size}, text=text
    )


@data.command()
@click.argument("spec")
@size_option
@on_bad_option()
@click.option("--ids", is_flag=True, help="List the sample ids and subjects too.")
@click.option(
    "--shortcuts", is_flag=True, help="Look for what a model too simple for faces can learn."
)
@click.option("--like", metavar="SPEC", help="Clean pictures that --shortcuts compares with.")
@seed_option
@command
def inspect(
    spec: str, size: int, on_bad: Any, ids: bool, shortcuts: bool, like: str | None, common: Common
) -> Outcome:
    """Decode everything that SPEC names and describe it."""
    from unplug.sdk.learning.data import describe, load_dataset

    if like is not None and not shortcuts:
        raise InputError("`like`", "nothing is compared", "Give `shortcuts` too")
    dataset = load_dataset(spec, size, on_bad=on_bad, show=common.show, tells=False)
    value = describe(dataset)
    lines = [
        f"{spec}: {counted(value['samples'], 'sample')} at {size} px, "
        f"{value['subjects'] or 'unknown'} subjects",
        *_described(value),
    ]
    if ids:
        value["ids"] = [
            {"id": sample.id, "subject": sample.subject, "age": sample.age}
            for sample in dataset.samples
        ]
        lines += [f"{sample.id}\t{sample.subject or ''}" for sample in dataset.samples]
    if shortcuts:
        from unplug.sdk.evidence.shortcuts import shortcuts as look

        clean = None if like is None else load_dataset(like, size, show=common.show, tells=False)
        value["shortcuts"] = look(dataset, clean, seed=common.seed)
        lines += _shortcuts(value["shortcuts"])
    return Outcome(value=value, text="\n".join(lines))


def _shortcuts(found: Mapping[str, Any]) -> Iterator[str]:
    """The verdict, then a line a classifier."""
    hint = "" if found["probes"][0]["like"] else ": give `like`, pictures known to be clean"
    yield f"shortcuts {found['verdict']}{hint}"
    for row in found["probes"]:
        clean = f", on clean pictures {_share(row['like'])}" if row["like"] else ""
        chance = f", with shuffled labels {_share(row['shuffled'])}"
        yield f"          {row['name']}: right {_share(row['right'])}{clean}{chance}"
    yield f"          explained best: {', '.join(found['best'][:5])}"


def _share(share: Mapping[str, Any]) -> str:
    value, low, high = (share[name] for name in ("value", "low", "high"))
    return f"{100 * value:.0f} %" + (
        "" if low is None else f" ({100 * low:.0f} to {100 * high:.0f})"
    )


def _described(value: Mapping[str, Any]) -> Iterator[str]:
    """What `describe` says of a data set, a line a fact."""
    yield f"digest    {value['digest']}"
    yield f"unusable  {len(value['unusable'])}"
    yield from (f"          {row['id']}: {row['reason']}" for row in value["unusable"][:20])
    yield from (f"note      {line}" for line in value["told"])
    if value["left_out"]:
        yield f"left out  {sum(row['count'] for row in value['left_out'])}"
        for row in value["left_out"]:
            yield f"          {row['count']} {row['reason']} (first: {row['first']})"
    ages = value["ages"]
    if ages["known"]:
        yield f"ages      {ages['min']:g} to {ages['max']:g}, mean {ages['mean']:.1f}"
        top = max(ages["per_decade"])
        for decade, number in enumerate(ages["per_decade"]):
            if number:
                bar = "#" * max(1, round(40 * number / top))
                yield f"  {decade * 10:3d}-{decade * 10 + 9:<3d} {number:6d} {bar}"
    yield from (f"class     {name}: {number}" for name, number in value["classes"].items())
    yield from (f"partition {name}: {number}" for name, number in value["partitions"].items())
    for name, counts in value["attributes"].items():
        shares = ", ".join(f"{what} {number}" for what, number in counts.items())
        yield f"attribute {name}: {shares}"
    if captions := value["captions"]:
        yield f"captions  {captions['samples']}, the first: {captions['first']}"


@data.command()
@click.argument("spec")
@size_option
@on_bad_option()
@split_options
@out_option("Split file to write (for `unplug train age --split`).")
@seed_option
@command
def split(
    spec: str, size: int, on_bad: Any, validation: float, test: float, out: Path, common: Common
) -> Outcome:
    """Split SPEC into train, validation and test (by subject where subjects are known) and write it
    with its hash.
    """
    from unplug.sdk.learning.data import load_dataset, make_split, save_split

    made = make_split(
        load_dataset(spec, size, on_bad=on_bad, show=common.show),
        seed=common.seed,
        validation=validation,
        test=test,
    )
    save_split(made, out)
    counts = {"train": len(made.train), "validation": len(made.validation), "test": len(made.test)}
    shared = "no subject in two of them" if made.subject_disjoint else "subjects unknown or shared"
    text = ", ".join(f"{name} {count}" for name, count in counts.items())
    value = {
        "out": str(out),
        **counts,
        "subject_disjoint": made.subject_disjoint,
        "sha256": made.sha256,
    }
    return Outcome(value=value, text=f"{text} ({shared}) in {out}")


@data.command("pick-forget")
@path_argument("checkpoint")
@spec_option("The data that the checkpoint was trained on.")
@option("--fraction", type=float, default=0.02, help="Fraction of the training set.")
@on_bad_option()
@out_option("Forget file to write.")
@computing
@command
def pick_forget(
    checkpoint: Path, spec: str, fraction: float, on_bad: Any, out: Path, common: Common
) -> Outcome:
    """Draw a random forget set from a checkpoint's training set (whole subjects where they are
    known).
    """
    from unplug.core import atomic_path
    from unplug.plugins import load_checkpoint
    from unplug.sdk.forgetting.tasks import task_of
    from unplug.sdk.learning.data import load_again
    from unplug.sdk.learning.data import pick_forget as draw
    from unplug.sdk.learning.training import split_of

    loaded = load_checkpoint(checkpoint)
    # A plugin says its side without its base, which a task would open; somebody else's kind need
    # not be exportable.
    spec_of = getattr(loaded.model, "iospec", None)
    side = (
        task_of(loaded, device=common.device, base=None).image_size
        if spec_of is None
        else spec_of.inputs[0].shape[-1]
    )
    dataset = load_again(spec, side, loaded.record, on_bad=on_bad, show=common.show)
    picked = draw(dataset, split_of(loaded, dataset), fraction=fraction, seed=common.seed)
    with atomic_path(out, private=True) as temporary:
        temporary.write_text("".join(f"{name}\n" for name in picked), encoding="utf-8")
    return Outcome(
        value={"out": str(out), "lines": len(picked)},
        text=f"{len(picked)} line{'s' if len(picked) != 1 else ''} in {out}",
    )
