"""A folder of images with captions: ``metadata.jsonl`` tables, or one text file next to each image."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from unplug.core import MAX_JSON_BYTES, DataError, name_form, open_regular

from ..decode import SUFFIXES, decode_file, fingerprint_file
from ..source import Listing, Sample, SampleProblem
from .age_tables import told_of_keys
from .caption_records import (
    MAX_CAPTION_BYTES,
    age_in,
    caption_from,
    caption_in,
    record_from,
    shown,
    subject_in,
)
from .listed import FolderSource, image_files

TABLE = "metadata.jsonl"
TEXTS = frozenset({".txt", ".caption"})
MAX_LINES = 2_000_000  # of all tables
EXPECTED = (
    f'Give a folder of images with a {TABLE} ({{"file_name": ..., "text": ...}} a line) or '
    "NAME.txt next to NAME.jpg"
)


@dataclass(frozen=True, kw_only=True)
class CaptionedFile:
    """An image file and its caption."""

    path: Path
    caption: str


class CaptionsSource(FolderSource):
    """``captions:DIR``: images in DIR and below it; every image needs one caption, every caption
    its image.

    Where there is a ``metadata.jsonl``, in DIR or below, these tables count and text files do not:
    one JSON object a line with ``file_name`` (relative to the table's folder, not out of it) and
    ``text`` or ``caption``, optionally ``age`` and ``subject``. Else ``NAME.txt`` or
    ``NAME.caption`` next to ``NAME.jpg``.
    """

    kind, expected = "captions", EXPECTED

    def listing(self) -> Listing:
        """Samples with captions; what does not match is a problem."""
        listed = image_files(self.root, also={Path(TABLE).suffix, *TEXTS})
        images = {
            listed.name(path): path for path in listed.files if path.suffix.lower() in SUFFIXES
        }
        tables = [path for path in listed.files if path.name == TABLE]
        texts = [] if tables else [path for path in listed.files if path.suffix.lower() in TEXTS]
        read = {*images.values(), *tables, *texts}
        for path in listed.files:
            if path not in read:
                listed.leave(
                    listed.name(path),
                    f"next to {TABLE}, which has the captions"
                    if tables
                    else f"no {TABLE} by its name",
                )
        problems, keys = listed.problems, set[str]()
        samples = (
            self._from_tables(tables, images, problems, keys)
            if tables
            else self._from_texts(texts, images, problems)
        )
        listed.samples = [samples[name] for name in images if name in samples]
        return self.of(listed, told=told_of_keys(keys))

    def captions(self, sample: Sample, seed: int, variants: int) -> tuple[str, ...]:
        """The one caption that lies next to the picture."""
        return (sample.payload.caption,)

    def fingerprint(self, sample: Sample) -> bytes:
        """SHA-256 of the image file."""
        return fingerprint_file(sample.payload.path)

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """The picture as RGB pixels (size, size, 3), uint8."""
        return decode_file(sample.payload.path, size)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _from_tables(
        self,
        tables: list[Path],
        images: Mapping[str, Path],
        problems: list[SampleProblem],
        keys: set[str],
    ) -> dict[str, Sample]:
        samples: dict[str, Sample] = {}
        first: dict[str, str] = {}  # image to the line that spoke of it
        here = {name_form(name): name for name in images}
        for place, folder, raw in self._lines(tables):
            name = place
            try:
                record = record_from(raw)
                keys.update(record)
                name = _inside(folder, record.get("file_name"))
                name = name if name in images else here.get(name_form(name), name)
                if name not in images:
                    raise ValueError(f"{place} captions it, but there is no such image")
                if name in first:
                    raise ValueError(f"{place} captions it again ({first[name]} did)")
                first[name] = place
                samples[name] = Sample(
                    id=name,
                    payload=CaptionedFile(path=images[name], caption=caption_in(record)),
                    age=age_in(record),
                    subject=subject_in(record),
                    place=place,
                )
            except ValueError as error:
                problems.append(SampleProblem(id=shown(name), reason=str(error)))
        problems += [
            SampleProblem(id=name, reason=f"no caption: no line of a {TABLE} names it")
            for name in images
            if name not in first
        ]
        return samples

    def _lines(self, tables: list[Path]) -> Iterator[tuple[str, PurePosixPath, bytes]]:
        """``table:number``, the table's folder and the content of every line that is not blank."""
        count = 0
        for table in tables:
            name = self._name(table)
            too_large = "Split the folder"
            try:
                with io.BufferedReader(  # type: ignore[type-var]
                    open_regular(
                        table, max_bytes=MAX_JSON_BYTES, error=DataError, too_large=too_large
                    )
                ) as handle:
                    for number, line in enumerate(handle, start=1):
                        if not line.strip():
                            continue
                        count += 1
                        if count > MAX_LINES:
                            raise DataError(
                                str(table), f"more than {MAX_LINES} captions", "Split the folder"
                            )
                        yield f"{name}:{number}", PurePosixPath(name).parent, line
            except OSError as error:
                raise DataError(
                    str(table), error.strerror or str(error), "Check its permissions"
                ) from error

    def _from_texts(
        self, paths: list[Path], images: Mapping[str, Path], problems: list[SampleProblem]
    ) -> dict[str, Sample]:
        texts: dict[str, list[Path]] = {}
        for path in paths:
            texts.setdefault(_stem(self._name(path)), []).append(path)
        samples: dict[str, Sample] = {}
        for name in images:
            beside = texts.get(_stem(name), [])
            try:
                if not beside:
                    raise ValueError(
                        f"no caption: neither a {TABLE} nor {Path(name).stem}.txt next to it"
                    )
                if len(beside) > 1:
                    raise ValueError(f"two captions: {beside[0].name} and {beside[1].name}")
                file = CaptionedFile(path=images[name], caption=caption_from(_head(beside[0])))
                samples[name] = Sample(id=name, payload=file)
            except ValueError as error:
                problems.append(SampleProblem(id=shown(name), reason=str(error)))
        stems = {_stem(name) for name in images}
        orphans = (path for stem, paths in texts.items() if stem not in stems for path in paths)
        problems += [
            SampleProblem(
                id=self._name(path), reason="a caption, but there is no image of this name"
            )
            for path in orphans
        ]
        return samples


def _inside(folder: PurePosixPath, name: object) -> str:
    """An image's name relative to DIR, from its name relative to `folder`."""
    if not isinstance(name, str) or not name:
        raise ValueError("it names no file ('file_name')")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"file_name {shown(name)!r} leads out of the folder")
    return (folder / path).as_posix()


def _stem(name: str) -> str:
    return name_form(PurePosixPath(name).with_suffix("").as_posix())


def _head(path: Path) -> bytes:
    """A text file, or as much of it as shows that it is too large."""
    try:
        with path.open("rb") as handle:
            return handle.read(MAX_CAPTION_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read ({error.strerror or error})") from error
