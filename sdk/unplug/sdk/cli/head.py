"""``unplug head``: people are added to a model and forgotten by the phone itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unplug.core import InputError, counted

from .base import Common, Outcome, command
from .options import PATH, checkpoint_argument, face_options, out_option

if TYPE_CHECKING:
    from unplug.sdk.drawing.inference import DeviceHead

HEAD, TRUNK = "head.safetensors", "trunk"
OWN = "Export the trunk that `unplug head make` wrote next to this head"
F = TypeVar("F", bound=Callable[..., Any])


def picture(function: F) -> F:
    """Adds HEAD, --trunk, --image and where the face is in it."""
    for add in (
        face_options,
        click.option("--image", type=PATH, required=True, help="A picture of one face."),
        click.option(
            "--trunk",
            type=PATH,
            required=True,
            help="The exported trunk, or its checkpoint.",
        ),
        click.argument("head", type=PATH),
    ):
        function = add(function)
    return function


def entry(function: F) -> F:
    """Adds --person, --age, --label and --out: what is written down, and where."""
    for add in (
        out_option("The new head; it may be the old one."),
        click.option("--label", help="Its label, where the head tells labels."),
        click.option("--age", type=float, help="Years, from 0 to 127."),
        click.option(
            "--person",
            "name",
            required=True,
            help="The picture's name, say subject:anna; the same when it is forgotten.",
        ),
    ):
        function = add(function)
    return picture(function)


@click.group()
def head() -> None:
    """Let a phone add people to a closed-form model and forget them, by itself.

    `make` takes a model apart: a trunk to be exported (`unplug export DIR/trunk`), and a head of a
    few numbers that is computed anew, exactly, whenever somebody is added or forgotten. The other
    commands do here what an app does there.
    """


@head.command()
@checkpoint_argument
@out_option("Folder for head.safetensors and the checkpoint of the trunk.")
@command
def make(checkpoint: Path, out: Path, common: Common) -> Outcome:
    """Take a closed-form model apart into a trunk and a head."""
    from unplug.plugins import (
        AgeTrunk,
        load_checkpoint,
        read_config,
        save_checkpoint,
        weights_sha256,
    )
    from unplug.sdk.forgetting.unlearning import design_of, device_head
    from unplug.sdk.learning.training import trunk_words

    task = "classes" if read_config(checkpoint)[0] == "classes" else "age"
    original = load_checkpoint(checkpoint, expect=task)
    design = design_of(original)
    if design != "closed-form":
        kind = f"made to forget by {design}" if design else "an ordinary model"
        why = f"it is {kind}: a phone cannot take anybody out of it"
        raise InputError(
            str(checkpoint), why, f"Train one: `unplug train {task} --forgettable closed-form`"
        )
    record = {
        "schema": "unplug-checkpoint/1",
        "role": "trunk",
        "lineage": {"original": original.path.name, "original_sha256": original.sha256},
    }
    card = (
        f"# The trunk of {original.path.name}\n\nIt says features, from which `{HEAD}` answers. "
        f"{trunk_words(original.record) or 'No personal data is in it.'}\n"
    )
    save_checkpoint(AgeTrunk.of(original.model), out / TRUNK, record=record, card=card)
    made = device_head(original, weights_sha256(out / TRUNK))
    made.save(out / HEAD)
    size = (out / HEAD).stat().st_size
    value = {
        "head": str(out / HEAD),
        "trunk": str(out / TRUNK),
        "pictures": len(made.committed),
        "bytes": size,
    }
    text = (
        f"{out / HEAD}: {counted(len(made.committed), 'picture')} in it, {size:,} bytes\nNext: "
        f"unplug export {out / TRUNK}"
    )
    return Outcome(value=value, text=text)


@head.command()
@entry
@command
def add(
    head: Path,
    trunk: Path,
    image: Path,
    name: str,
    age: float | None,
    label: str | None,
    out: Path,
    common: Common,
    **face: Any,
) -> Outcome:
    """Add a picture whose age or label is known."""
    opened, features_C = _opened(head, trunk, image, **face)
    changed = opened.add(name, features_C, _truth(opened, age, label))
    return _saved(changed, out, f"{name} was added")


@head.command()
@entry
@command
def remove(
    head: Path,
    trunk: Path,
    image: Path,
    name: str,
    age: float | None,
    label: str | None,
    out: Path,
    common: Common,
    **face: Any,
) -> Outcome:
    """Forget a picture: what is left is, bit for bit, the head that never saw it."""
    opened, features_C = _opened(head, trunk, image, **face)
    changed = opened.remove(name, features_C, _truth(opened, age, label))
    return _saved(changed, out, f"{name} is forgotten")


@head.command()
@picture
@command
def answer(head: Path, trunk: Path, image: Path, common: Common, **face: Any) -> Outcome:
    """Say the age of a face, or the label of a picture, by the trunk and this head."""
    from unplug.sdk.drawing.inference import class_rows

    opened, features_C = _opened(head, trunk, image, **face)
    answers, names = opened.answer(features_C[None]), opened.facts.classes
    by = f"by {counted(len(opened.committed), 'picture')}"
    if names:
        value = class_rows(answers["logits"], names)[0]
        text = f"{value['label']}, {value['probability']:.0%}, {by}"
    else:
        age = float(answers["expected_age"][0, 0])
        value, text = {"age": age}, f"{age:.1f} years, {by}"
    return Outcome(value={**value, "pictures": len(opened.committed)}, text=text)


def _truth(head: DeviceHead, age: float | None, label: str | None) -> float:
    """The age in years, or the number of the label, whichever the head tells."""
    names = head.facts.classes
    if (label if names else age) is None or (age if names else label) is not None:
        wanted = "--label" if names else "--age"
        why = f"this head tells {'labels' if names else 'ages'}"
        raise InputError("--age, --label", why, f"Give {wanted} alone")
    if label is None:
        assert age is not None
        return age
    if label not in names:
        known = ", ".join(names[:9])
        raise InputError(f"--label {label[:200]!r}", "no such label", f"Known are {known}")
    return float(names.index(label))


def _opened(
    path: Path, trunk: Path, image: Path, *, box: str | None, landmarker: Path | None, margin: float
) -> tuple[DeviceHead, Any]:
    """The head, and the trunk's features (C,) of the face in a picture."""
    from unplug.sdk.drawing.inference import load_head, run

    opened = load_head(path)
    finder = None if opened.facts.classes else landmarker
    answered = run(trunk, [image], box=box, landmarker=finder, margin=margin)
    if answered.model_type != "age-trunk":
        raise InputError(f"--trunk {trunk}", f"it is a model of type {answered.model_type}", OWN)
    if opened.facts.trunk_sha256 != _weights_of(trunk):
        raise InputError(f"--trunk {trunk}", "the head's features come from another trunk", OWN)
    return opened, answered.outputs["features"][0]


def _weights_of(trunk: Path) -> str:
    """SHA-256 of the weights that a checkpoint holds, or that an exported file was made from."""
    from unplug.export import load_artifact
    from unplug.plugins import weights_sha256

    if (trunk / "config.json").is_file():
        return weights_sha256(trunk)
    return load_artifact(trunk).card.checkpoint_sha256


def _saved(changed: DeviceHead, out: Path, what: str) -> Outcome:
    changed.save(out)
    value = {"head": str(out), "pictures": len(changed.committed)}
    return Outcome(
        value=value, text=f"{what}; {counted(len(changed.committed), 'picture')} in {out}"
    )
