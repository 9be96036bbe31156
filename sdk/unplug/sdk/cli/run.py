"""``unplug run``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, MissingExtraError, require_modules, table

from .base import Common, Outcome, command, folded
from .bundle import trust_of, trust_option
from .options import face_options, shipped_or_given

if TYPE_CHECKING:
    from unplug.sdk.drawing.inference import Answer, DecisionRecord, Frame


@click.command()
@click.argument("model", type=click.Path(), callback=shipped_or_given)
@click.option(
    "--image",
    "images",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A picture; may be repeated.",
)
@click.option(
    "--array",
    type=click.Path(path_type=Path),
    help="Instead: .npz with an array of N samples of each input, or .npy.",
)
@click.option(
    "--random",
    is_flag=True,
    help="Instead: one random sample within the ranges of the inputs, by --seed.",
)
@face_options
@click.option(
    "--align",
    "aligned",
    is_flag=True,
    help="With --face-landmarker: turn, scale and move the face until its eyes lie where UTKFace has them, or where a "
    "bundle says (which needs no --align); refuse one that is too small or too dark.",
)
@click.option(
    "--decision",
    "decided",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What `unplug threshold` wrote: over, under or unsure, of the models that it names (default: the one that a bundle "
    "carries).",
)
@trust_option
@click.option(
    "--out",
    "-o",
    "outs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="NAME.npz for the outputs, NAME.png for a picture of them; may be repeated.",
)
@command
def run(
    model: Path,
    images: tuple[Path, ...],
    array: Path | None,
    random: bool,
    box: str | None,
    landmarker: Path | None,
    margin: float,
    aligned: bool,
    decided: Path | None,
    trusted: tuple[Path, ...],
    outs: tuple[Path, ...],
    common: Common,
) -> Outcome:
    """Run MODEL on pictures or arrays and show what comes out.

    MODEL is an exported file (in its own runtime), a checkpoint, or a bundle, which is verified
    first; the first of its files whose runtime is installed here is taken.

    An age predictor says the age on a photograph. A plugin takes drawn conditions (`unplug
    condition`) and shows its residuals, a UNet and a decoder take --array FILE.npz or --random.
    Without --box or --face-landmarker the centre square of a picture is taken, which is right for
    faces that are cropped already.
    """
    from unplug.sdk.drawing.inference import Frame, read_decision
    from unplug.sdk.drawing.inference import run as answer_of

    if bool(images) + (array is not None) + random != 1:
        raise InputError(
            "unplug run",
            "it needs one kind of input",
            "Give --image FILE, --array FILE.npz or --random",
        )
    if aligned and (landmarker is None or box is not None):
        raise InputError(
            "--align", "it needs eyes to go by", "Give --face-landmarker FILE, and no --box"
        )
    inputs: Any = common.seed if random else array or images
    model, record, framed = _opened(model, trusted)
    record = record if decided is None else read_decision(decided)
    holds = record is not None and record.fitted_on(_sha256(model))
    rule = record.rule if record is not None and holds else None
    frame = framed or Frame() if aligned else framed
    answer = answer_of(
        model, inputs, box=box, landmarker=landmarker, margin=margin, frame=frame, decision=rule
    )
    for out in outs:
        answer.save(out)
    notes = list(answer.notes)
    value: dict[str, Any] = {
        "model": str(model),
        "results": list(answer.results),
        "outputs": answer.summary(),
        "notes": notes,
    }
    if record is not None:
        value["decision_holds"] = holds
    lines = _lines(answer, outs, record, holds)
    if framed is not None and notes:
        notes.append("this bundle puts eyes in their place, and nothing found any here")
    lines += [folded(f"note: {note}") for note in notes]
    return Outcome(value=value | {"out": [str(out) for out in outs]}, text="\n".join(lines))


def _opened(
    model: Path, trusted: tuple[Path, ...]
) -> tuple[Path, DecisionRecord | None, Frame | None]:
    """The file that is run, and the decision and the frame of faces that a bundle carries."""
    if not (model / "manifest.json").is_file():
        return model, None, None
    from unplug.sdk.drawing.inference import decision_in, frame_in
    from unplug.trust.bundle import artifact_paths, read_manifest

    path = _running(model, artifact_paths([model], trust_of(trusted)))
    manifest, where = read_manifest(model), str(model / "manifest.json")
    return (
        path,
        decision_in(manifest.postprocessing, where),
        frame_in(manifest.preprocessing, where),
    )


def _running(model: Path, paths: Sequence[Path]) -> Path:
    """The first file whose own runtime is installed and runs here; else the first that a stand-in
    runs.
    """
    from unplug.export import STAND_INS, load_artifact, runtime_of

    runtimes = {path: runtime_of(load_artifact(path)) for path in paths}
    missing, reasons = list[MissingExtraError](), list[str]()
    for path in sorted(paths, key=lambda path: runtimes[path].name in STAND_INS.values()):
        if (reason := runtimes[path].unavailable()) is not None:
            reasons.append(f"{path.name}: {reason}")
            continue
        try:
            require_modules(runtimes[path].modules, runtimes[path].extra)
        except MissingExtraError as error:
            missing.append(error)
        else:
            return path
    if missing:
        raise missing[0]
    raise InputError(
        str(model), f"none of its files runs here ({'; '.join(reasons)})", "Run it elsewhere"
    )


def _sha256(model: Path) -> str:
    """Of the weights of a checkpoint, or of an exported file."""
    from unplug.export import load_artifact
    from unplug.plugins import weights_sha256

    return (
        weights_sha256(model)
        if (model / "config.json").is_file()
        else load_artifact(model).card.sha256
    )


def _lines(
    answer: Answer, outs: tuple[Path, ...], record: DecisionRecord | None, holds: bool
) -> list[str]:
    lines = []
    for item in answer.results:
        if (said := item.get("decision")) is not None:
            lines.append(
                f"{item['image']}: {said['answer']} {said['age']:g} (P = {said['over']:.4f})"
            )
        groups = ", ".join(
            f"{row['ages']}: {100 * row['probability']:.0f} %" for row in item["groups"][:3]
        )
        lines.append(f"{item['image']}: {item['age']:.1f} years ({groups}) [{item['crop']}]")
    if record is not None and answer.results:
        lines.append(
            f"the decision holds: {record.limit()}"
            if holds
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
