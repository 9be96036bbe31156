"""``unplug run``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, printable, table
from unplug.sdk import journey

from .base import Common, Outcome, command, folded, seed_option
from .bundle import trust_of, trust_option
from .options import face_options, path_option, shipped_or_given

if TYPE_CHECKING:
    from unplug.sdk.drawing.inference import Answer


@click.command()
@click.argument("model", type=click.Path(), callback=shipped_or_given)
@path_option(
    "--image",
    "images",
    multiple=True,
    help="A picture; may be repeated.",
)
@path_option(
    "--array",
    help="Inputs instead of pictures: .npz with an array of N samples of each input, or .npy.",
)
@click.option(
    "--random",
    is_flag=True,
    help="One random sample instead of pictures, within the ranges of the inputs, by --seed.",
)
@face_options
@click.option(
    "--align",
    is_flag=True,
    help="Turn, scale and move the face of a --landmarker until its eyes lie where UTKFace has them, or where a "
    "bundle says (which needs no --align); refuse one that is too small or too dark.",
)
@path_option(
    "--decision",
    metavar="FILE",
    help="Decision from `unplug threshold`: over, under or unsure, for the models that it names "
    "(default: a bundle's own).",
)
@trust_option
@path_option(
    "--out",
    "-o",
    "outs",
    multiple=True,
    metavar="PATH",
    help="NAME.npz for the outputs, NAME.png for a picture of them; may be repeated.",
)
@seed_option
@command
def run(
    model: Path,
    images: tuple[Path, ...],
    array: Path | None,
    random: bool,
    trusted: tuple[Path, ...],
    outs: tuple[Path, ...],
    common: Common,
    **options: Any,
) -> Outcome:
    """Run MODEL on pictures or arrays and show what comes out.

    MODEL is an exported file (in its own runtime), a checkpoint, or a bundle, which is verified
    first; the first of its files whose runtime is installed here is taken, of a family one of the
    best member that takes a frame of a preview (33 ms) at most.

    An age predictor says the age on a photograph, a classifier a label with its probability. A
    plugin takes drawn conditions (`unplug condition`) and shows its residuals, a UNet and a decoder
    take --array FILE.npz or --random.
    Without --box or --landmarker the centre square of a picture is taken, which is right for
    faces that are cropped already.
    """
    if bool(images) + (array is not None) + random != 1:
        raise InputError(
            "unplug run",
            "it needs one kind of input",
            "Give --image FILE, --array FILE.npz or --random",
        )
    inputs: Any = common.seed if random else array or images
    answer = journey.run(model, inputs, trust=trust_of(trusted), **options)
    for out in outs:
        answer.save(out)
    value: dict[str, Any] = {
        "model": answer.model,
        "results": list(answer.results),
        "outputs": answer.summary(),
        "notes": list(answer.notes),
        "out": [str(out) for out in outs],
    }
    if answer.decision is not None:
        value["decision_holds"] = answer.holds
    lines = _lines(answer, outs) + [folded(f"note: {note}") for note in answer.notes]
    return Outcome(value=value, text="\n".join(lines))


def _lines(answer: Answer, outs: tuple[Path, ...]) -> list[str]:
    lines = []
    for result in answer.results:
        if (decision := result.get("decision")) is not None:
            lines.append(
                f"{result['image']}: {decision['answer']} {decision['age']:g} (P = {decision['over']:.4f})"
            )
        if "label" in result:
            others = ", ".join(
                f"{printable(row['label'])}: {100 * row['probability']:.0f} %"
                for row in result["labels"][1:4]
            )
            said = f"{printable(result['label'])}, {100 * result['probability']:.0f} %"
            lines.append(f"{result['image']}: {said} ({others}) [{result['crop']}]")
            continue
        groups = ", ".join(
            f"{row['ages']}: {100 * row['probability']:.0f} %" for row in result["groups"][:3]
        )
        lines.append(f"{result['image']}: {result['age']:.1f} years ({groups}) [{result['crop']}]")
    if answer.decision is not None and answer.results:
        lines.append(
            f"the decision holds: {answer.decision.limit()}"
            if answer.holds
            else "note: no decision, for it was fitted on other models than this one, and nothing shows what it holds here"
        )
    if not answer.results:
        cells = [
            (
                row["name"],
                "x".join(map(str, row["shape"])),
                *(f"{row[key]:.4g}" for key in ("min", "max", "mean", "rms")),
            )
            for row in answer.summary()
        ]
        lines.append(table(("output", "shape", "min", "max", "mean", "rms"), cells))
    return lines + [f"saved {out}" for out in outs]
