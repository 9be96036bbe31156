"""``unplug run``."""

from __future__ import annotations

from pathlib import Path

import click

from .base import Common, Outcome, command


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--image", "images", multiple=True, required=True, type=click.Path(path_type=Path), help="A photograph; may be repeated."
)
@click.option("--box", help="Where the face is, in pixels: LEFT,TOP,RIGHT,BOTTOM.")
@click.option(
    "--face-landmarker", type=click.Path(path_type=Path), envvar="UNPLUG_FACE_LANDMARKER",
    help="MediaPipe's face_landmarker.task: finds and crops the face (needs the extra [conditions]).",
)  # fmt: skip
@click.option(
    "--margin", type=click.FloatRange(-0.2, 2.0), default=0.01, show_default=True,
    help="Around the found face, as a fraction of its box; the default frames it as UTKFace does.",
)  # fmt: skip
@command
def run(
    model: Path, images: tuple[Path, ...], box: str | None, face_landmarker: Path | None, margin: float, common: Common
) -> Outcome:
    """Predict the age on photographs with MODEL: an exported file (in its own runtime) or a checkpoint.

    Without --box or --face-landmarker the centre square of the image is taken, which is right for faces that
    are cropped already.
    """
    from unplug.sdk.inference import predict_images

    results = predict_images(model, images, box=box, landmarker=face_landmarker, margin=margin)
    lines = []
    for item in results:
        groups = ", ".join(f"{row['ages']}: {100 * row['probability']:.0f} %" for row in item["groups"][:3])
        lines.append(f"{item['image']}: {item['age']:.1f} years ({groups}) [{item['crop']}]")
    return Outcome(value={"model": str(model), "results": results}, text="\n".join(lines))
