"""``unplug run``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, table

from .base import Common, Outcome, command
from .options import face_options, shipped_or_given

if TYPE_CHECKING:
    from unplug.sdk.inference import Answer


@click.command()
@click.argument("model", type=click.Path(), callback=shipped_or_given)
@click.option("--image", "images", multiple=True, type=click.Path(path_type=Path), help="A picture; may be repeated.")
@click.option(
    "--array", type=click.Path(path_type=Path), help="Instead: .npz with an array of N samples of each input, or .npy."
)
@click.option("--random", is_flag=True, help="Instead: one random sample within the ranges of the inputs, by --seed.")
@face_options
@click.option(
    "--align", "aligned", is_flag=True,
    help="With --face-landmarker: turn, scale and move the face until its eyes lie where UTKFace has them; refuse one "
    "that is too small or too dark.",
)  # fmt: skip
@click.option(
    "--out", "-o", "outs", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
    help="NAME.npz for the outputs, NAME.png for a picture of them; may be repeated.",
)  # fmt: skip
@command
def run(
    model: Path, images: tuple[Path, ...], array: Path | None, random: bool, box: str | None, face_landmarker: Path | None,
    margin: float, aligned: bool, outs: tuple[Path, ...], common: Common,
) -> Outcome:  # fmt: skip
    """Run MODEL, an exported file (in its own runtime) or a checkpoint, on pictures or arrays and show what comes out.

    An age predictor says the age on a photograph. A plugin takes drawn conditions (`unplug condition`) and shows its
    residuals, a UNet and a decoder take --array FILE.npz or --random. Without --box or --face-landmarker the centre
    square of a picture is taken, which is right for faces that are cropped already.
    """
    from unplug.sdk.inference import Frame
    from unplug.sdk.inference import run as answer_of

    if bool(images) + (array is not None) + random != 1:
        raise InputError("unplug run", "it needs one kind of input", "Give --image FILE, --array FILE.npz or --random")
    if aligned and (face_landmarker is None or box is not None):
        raise InputError("--align", "it needs eyes to go by", "Give --face-landmarker FILE, and no --box")
    inputs: Any = common.seed if random else array or images
    answer = answer_of(model, inputs, box=box, landmarker=face_landmarker, margin=margin, frame=Frame() if aligned else None)
    for out in outs:
        answer.save(out)
    value = {"model": str(model), "results": list(answer.results), "outputs": answer.summary()}
    return Outcome(value=value | {"out": [str(out) for out in outs]}, text="\n".join(_lines(answer, outs)))


def _lines(answer: Answer, outs: tuple[Path, ...]) -> list[str]:
    lines = []
    for item in answer.results:
        groups = ", ".join(f"{row['ages']}: {100 * row['probability']:.0f} %" for row in item["groups"][:3])
        lines.append(f"{item['image']}: {item['age']:.1f} years ({groups}) [{item['crop']}]")
    if not answer.results:
        cells = [
            (row["name"], "x".join(map(str, row["shape"])), *(f"{row[key]:.4g}" for key in ("min", "max", "mean", "rms")))
            for row in answer.summary()
        ]
        lines.append(table(("output", "shape", "min", "max", "mean", "rms"), cells))
    return lines + [f"saved {out}" for out in outs]
