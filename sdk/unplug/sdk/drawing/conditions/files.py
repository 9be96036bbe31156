"""Conditions of picture files: one, or a folder at a time; what was drawn already is kept, what is
not ours is not touched.

A condition is a PNG file that says in a text chunk what it was made of (settings, size, package
versions, SHA-256 of the picture; no path). A second call draws only the files where that has
changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unplug.core import DataError, InputError, NoFaceError, OutputError, Reply, SeveralFacesError
from unplug.plugins.conditions import Condition, build_condition, checked_size, identity
from unplug.sdk.learning.data import SampleProblem, decode_upright, fingerprint_file, image_files
from unplug.sdk.learning.data import workers as cores

from .outputs import SCHEMA, drawn_before, remove_outdated, save, scratch_folder
from .pool import ConditionPool

# pictures a child process, at most and (where there are enough) at least
CHUNK, SMALL_CHUNK = (
    250,
    50,
)

Choice = Literal["error", "skip"]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What became of one picture.

    Args:
        image, out: paths.
        status: "written"; "kept" (drawn before, with the same settings); "missing" (no face, or
            several); "bad" (unusable).
        reason: the reason for the last two.
    """

    image: str
    out: str
    status: Literal["written", "kept", "missing", "bad"]
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class _Order:
    """How files are drawn; JSON-ready."""

    made_of: dict[str, Any]
    size: int | None
    folder: bool
    on_missing: Choice
    on_bad: Choice


def condition_file(
    kind: str,
    options: Mapping[str, str],
    source: Path,
    out: Path,
    size: int | None = None,
    *,
    show: bool = False,
) -> Drawn:
    """Draws the condition of one picture file.

    Args:
        kind, options: see `unplug.plugins.conditions.build_condition`.
        source: JPEG, PNG, WebP or BMP; EXIF orientation is applied, alpha is dropped, 16-bit grey
            is scaled.
        out: PNG file; replaced where it is there.
        size: side of the condition, of the centre square; None draws the whole picture at its own
            size.
        show: progress bar.

    Raises:
        DataError: the picture is broken, too large or too small, or shows no face, or several.
        InputError: `out` is not the name of a PNG file.
        InputError, MissingExtraError, ConversionError, CheckpointError: the
            condition could not be drawn, for a reason of its own.
        OutputError: `out` is the picture itself, or cannot be written.
    """
    if out.suffix.lower() != ".png":
        raise InputError(
            str(out), "conditions are written as PNG", "Give `out` a name that ends in .png"
        )
    if out.exists() and source.exists() and out.samefile(source):
        raise OutputError(str(out), "it is the picture itself", "Choose another `out`")
    (drawn,) = _draw_all(
        kind,
        options,
        [(source, out)],
        size,
        place=out.parent,
        folder=False,
        on_missing="error",
        on_bad="error",
        show=show,
    )
    return drawn


def condition_folder(
    kind: str,
    options: Mapping[str, str],
    source: Path,
    out: Path,
    size: int | None = None,
    *,
    on_missing: Choice = "error",
    on_bad: Choice = "error",
    show: bool = False,
) -> list[Drawn]:
    """Draws the conditions of all pictures below a folder.

    ``source/a/b.jpg`` becomes ``out/a/b.jpg.png``: the whole name stays, so that ``b.jpg`` and
    ``b.png`` do not meet.

    Args:
        kind, options, size, show: see `condition_file`.
        source: folder, links followed; hidden files are left out, and so is `out` where it lies
            inside.
        out: folder; nothing is written elsewhere, and no file there is replaced that this function
            did not write.
        on_missing: a picture without a face, or of several, is an error, or is skipped and counted.
        on_bad: the same for a picture that cannot be used: unreadable, of another format, a link to
            nothing.

    Returns:
        One row a picture, sorted by path.

    Raises:
        DataError, NoFaceError, SeveralFacesError: of the first such picture; what was drawn before
            it stays.
        InputError, MissingExtraError, ConversionError, CheckpointError, OutputError: see
            `condition_file`.
    """
    pairs, problems = _pairs(source, out)
    if problems and on_bad == "error":
        raise DataError(
            str(source / problems[0].id),
            problems[0].reason,
            "Repair or remove it, or pass `on_bad=skip`",
        )
    bad = [
        Drawn(
            image=str(source / item.id),
            out=str(out / f"{item.id}.png"),
            status="bad",
            reason=item.reason,
        )
        for item in problems
    ]
    rows = _draw_all(
        kind,
        options,
        pairs,
        size,
        place=out,
        folder=True,
        on_missing=on_missing,
        on_bad=on_bad,
        show=show,
    )
    return sorted([*rows, *bad], key=lambda row: Path(row.image))


def _pairs(source: Path, out: Path) -> tuple[list[tuple[Path, Path]], list[SampleProblem]]:
    if not source.is_dir():
        raise DataError(str(source), "no such folder", "Check the path")
    inner, outer = source.resolve(), out.resolve()
    if outer == inner:
        raise OutputError(str(out), "it is the folder of the pictures", "Choose another `out`")
    pairs, listing = [], image_files(source)
    for path in listing.files:
        name = path.relative_to(source)
        if outer.is_relative_to(inner) and (inner / name).is_relative_to(outer):
            continue
        target = out / name.with_name(f"{name.name}.png")
        if not target.parent.resolve().is_relative_to(outer):
            raise OutputError(
                str(target),
                "a link leads outside the folder `out`",
                "Remove the link or choose another `out`",
            )
        pairs.append((path, target))
    if not pairs:
        raise DataError(
            str(source), "it holds no pictures", "Give a folder with JPEG, PNG, WebP or BMP files"
        )
    return pairs, listing.problems


def _draw_all(
    kind: str,
    options: Mapping[str, str],
    pairs: Sequence[tuple[Path, Path]],
    size: int | None,
    *,
    place: Path,
    show: bool,
    **how: Any,
) -> list[Drawn]:
    condition = build_condition(kind, options).resolve()
    if size is not None:
        checked_size(size)
    order = _Order(made_of=identity(condition), size=size, **how)
    pool = ConditionPool(condition, workers=cores(), total=len(pairs), show=show)
    # Enough pictures for a child to be worth its start, and few enough to keep all of them busy.
    step = min(CHUNK, max(SMALL_CHUNK, -(-len(pairs) // pool.workers)))

    def here(pair: tuple[Path, Path]) -> Drawn:
        drawn = _file(condition, order, scratch, *pair)
        pool.tick()
        return drawn

    def in_child(start: int) -> list[Drawn]:
        chunk = [(str(source), str(out)) for source, out in pairs[start : start + step]]
        values = {"order": asdict(order), "pairs": chunk, "scratch": str(scratch)}
        return [Drawn(**row) for row in pool.child(CHILD, values, None, len(chunk)).values["rows"]]

    with scratch_folder(place) as scratch:
        if condition.parallel != "process":
            return list(pool.run(here, pairs))
        return [row for rows in pool.run(in_child, range(0, len(pairs), step)) for row in rows]


CHILD = "unplug.sdk.drawing.conditions.files:files_of_job"


def files_of_job(job: Any) -> Reply:
    """Child process: conditions of the job's files."""
    order, scratch, rows = _Order(**job.values["order"]), Path(job.values["scratch"]), []
    with build_condition(job.values["kind"], job.values["options"]) as condition:
        for source, target in job.values["pairs"]:
            rows.append(asdict(_file(condition, order, scratch, Path(source), Path(target))))
            job.progress(len(rows), len(job.values["pairs"]), "")
    return Reply(values={"rows": rows})


def _file(condition: Condition, order: _Order, scratch: Path, source: Path, target: Path) -> Drawn:
    row = partial(Drawn, image=str(source), out=str(target))
    facts = {"schema": SCHEMA, **order.made_of, "size": order.size}
    try:
        facts["picture_sha256"] = fingerprint_file(source).hex()
        stamp = json.dumps(facts, sort_keys=True)
        if order.folder and drawn_before(target, stamp):
            return row(status="kept")
        image_HWC = np.asarray(decode_upright(source), dtype=np.uint8)
        size = order.size
        drawn_HWC = condition(image_HWC) if size is None else condition.render(image_HWC, size)
    except DataError as error:
        none = isinstance(error, NoFaceError | SeveralFacesError)
        choice = "on_missing" if none else "on_bad"
        if getattr(order, choice) == "skip":
            remove_outdated(target)
            return row(status="missing" if none else "bad", reason=error.why)
        hint = f", or pass `{choice}=skip`" if order.folder else ""
        kind = type(error) if none else DataError
        raise kind(str(source), error.why, error.fix + hint) from error
    save(drawn_HWC, target, stamp, scratch)
    return row(status="written")
