"""``unplug condition``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from unplug.core import counted

from .base import Common, Outcome, command, device_option, settings
from .options import PATH, option, out_option, settings_option

SHOWN = 20


@click.command()
@click.argument("source", type=PATH, metavar="IMAGE|FOLDER")
@click.option(
    "--kind",
    required=True,
    metavar="NAME",
    help="face_landmark, holistic, depth, canny; see `unplug list conditions`.",
)
@out_option("PNG file (not the picture itself), or the folder for a folder's conditions.")
@click.option(
    "--pixels",
    "size",
    type=click.IntRange(16, 4096),
    help="Side in pixels, of the centre square. Default: the whole picture as it is.",
)
@settings_option("A setting of the condition, such as low=50. May be repeated.")
@click.option(
    "--landmarker",
    "task",
    type=click.Path(),
    help="MediaPipe's task file. Default: UNPLUG_FACE_LANDMARKER or UNPLUG_HOLISTIC_LANDMARKER.",
)
@option(
    "--on-missing",
    type=click.Choice(["error", "skip"]),
    default="error",
    help=("Pictures of no face, or of several, in a folder: refuse them, or skip and count them."),
)
@option(
    "--on-bad",
    type=click.Choice(["error", "skip"]),
    default="error",
    help="Unreadable pictures in a folder: refuse them, or skip and count them.",
)
@device_option
@command
def condition(
    source: Path,
    kind: str,
    out: Path,
    size: int | None,
    pairs: tuple[str, ...],
    task: str | None,
    on_missing: Any,
    on_bad: Any,
    common: Common,
) -> Outcome:
    """Draw the picture that steers a plugin: face landmarks, body, depth or edges.

    For a folder, every picture below it is drawn: FOLDER/a/b.jpg becomes OUT/a/b.jpg.png. Run
    again, it goes on; what was drawn with the same settings from the same picture is kept.
    """
    from unplug.sdk.drawing.conditions import condition_file, condition_folder

    options = settings(pairs)
    if task is not None:
        options["task"] = task
    if kind == "depth" and common.device_name != "auto":
        options.setdefault("device", str(common.device))
    if not source.is_dir():
        drawn = condition_file(kind, options, source, out, size, show=common.show)
        return Outcome(
            value={"kind": kind, "size": size, "image": drawn.image, "out": drawn.out},
            text=f"{kind} in {drawn.out}",
        )
    rows = condition_folder(
        kind, options, source, out, size, on_missing=on_missing, on_bad=on_bad, show=common.show
    )
    count = Counter(row.status for row in rows)
    skipped = [
        {"image": row.image, "status": row.status, "reason": row.reason}
        for row in rows
        if row.reason
    ]
    value: dict[str, Any] = {
        "kind": kind,
        "size": size,
        "out": str(out),
        "images": len(rows),
        "skipped": skipped,
        **{status: count[status] for status in ("written", "kept", "missing", "bad")},
    }
    return Outcome(value=value, text=_told(value))


def _told(value: dict[str, Any]) -> str:
    """What became of a folder's pictures, and why some were skipped."""
    line = (
        f"{value['kind']} of {counted(value['images'], 'picture')} in {value['out']}: "
        f"{value['written']} written, {value['kept']} kept, {value['bad']} unreadable, "
        f"{value['missing']} without a face or with several"
    )
    skipped = value["skipped"]
    lines = [line, *(f"  {row['image']}: {row['reason']}" for row in skipped[:SHOWN])]
    if len(skipped) > SHOWN:
        lines.append(f"  and {len(skipped) - SHOWN} more (--json lists all)")
    return "\n".join(lines)
