"""WebDataset: tar shards in which an image and its caption share a name."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import name_form

from ..decode import MAX_FILE_BYTES, SUFFIXES, decode_bytes
from ..source import Listing, Sample
from .age_tables import told_of_keys
from .caption_records import (
    MAX_CAPTION_BYTES,
    MAX_RECORD_BYTES,
    age_in,
    caption_from,
    caption_in,
    record_from,
    shown,
    subject_in,
)
from .listed import UNREAD, Listed, leaving_in
from .shards import EXPECTED, MAX_MEMBERS, Member, members, read_member, shards_of

IMAGES = frozenset(suffix.removeprefix(".") for suffix in SUFFIXES)
LIMITS = {"image": MAX_FILE_BYTES, "txt": MAX_CAPTION_BYTES, "json": MAX_RECORD_BYTES}
MAX_NAME = 1024
# the key ends at the first dot of the file's name
_NAME = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)")

Parts = dict[str, list[Member]]


@dataclass(frozen=True, kw_only=True)
class TarImage:
    """An image inside a tar file, and its caption."""

    shard: Path
    name: str
    offset: int
    size: int
    caption: str


class WebDatasetSource:
    """``webdataset:SHARDS``: a tar file, a folder of them, or a pattern such as
    ``shards/{000..003}.tar``.

    A sample is the files of one shard that share their name up to its first dot: an image
    (``.jpg``, ``.jpeg``, ``.png``, ``.webp``, ``.bmp``) with a caption in ``.txt``, or else under
    ``text`` or ``caption`` in ``.json``, where ``age`` and ``subject`` may stand too. Other files
    are counted and not read. Nothing is unpacked: images are read where they lie.
    """

    parallel: Literal["thread", "process"] = "thread"

    def __init__(self, argument: str) -> None:
        self.argument = argument
        self.shards = shards_of(argument)

    def listing(self) -> Listing:
        """Samples of all shards, in the shards' order; a key without an image or a caption is a
        problem.
        """
        root = Path(os.path.commonpath([shard.parent for shard in self.shards]))
        listed, keys, left = Listed(root=root), set[str](), MAX_MEMBERS
        for shard in self.shards:
            entries = members(shard, left)
            left -= len(entries)
            prefix = listed.name(shard)
            for key, parts in _by_key(entries, prefix, listed).items():
                name = f"{prefix}/{key}"
                with listed.reading(name):
                    listed.samples.append(_sample(shard, name, parts, keys))
        return listed.listing(f"webdataset:{self.argument}", EXPECTED, told=told_of_keys(keys))

    def captions(self, sample: Sample, seed: int, variants: int) -> tuple[str, ...]:
        """The one caption that the shard has for the sample."""
        return (sample.payload.caption,)

    def fingerprint(self, sample: Sample) -> bytes:
        """SHA-256 of the image's bytes."""
        return hashlib.sha256(self._bytes(sample)).digest()

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """The picture as RGB pixels (size, size, 3), uint8."""
        return decode_bytes(
            self._bytes(sample), f"{sample.payload.shard}/{sample.payload.name}", size
        )

    def _bytes(self, sample: Sample) -> bytes:
        return read_member(sample.payload.shard, sample.payload.offset, sample.payload.size)


def _by_key(entries: Iterable[Member], prefix: str, listed: Listed) -> dict[str, Parts]:
    """Image, txt and json members by key, in the order in which the keys appear; of others it is
    noted why they are none.
    """
    by_key: dict[str, Parts] = {}
    same: dict[str, str] = {}
    for member in entries:
        name = f"{prefix}/{shown(member.name)}"
        if member.kind == "folder":
            continue
        try:
            if (why := leaving_in(PurePosixPath(member.name))) is not None:
                listed.leave(name, why)
                continue
            key, part = _split(member)
        except ValueError as error:
            listed.refuse(name, str(error))
            continue
        if part in LIMITS:
            by_key.setdefault(same.setdefault(name_form(key), key), {}).setdefault(part, []).append(
                member
            )
        else:
            listed.leave(name, f"neither image nor caption by its name ({part or 'no suffix'})")
    return by_key


def _split(member: Member) -> tuple[str, str]:
    """Key and part (of `LIMITS`, or another suffix) of a member; `ValueError` for what cannot be
    used.
    """
    path = PurePosixPath(member.name)
    if member.kind == "other":
        raise ValueError("a link, a device or a sparse file")
    if len(member.name) > MAX_NAME or not member.name.isprintable():
        raise ValueError(f"its name is not 1 to {MAX_NAME} printable characters")
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("its name leads out of the shard")  # ids become file names elsewhere
    match = _NAME.fullmatch(path.as_posix())
    suffix = match[2].lower() if match else ""
    if f".{suffix}" in UNREAD:
        raise ValueError(f".{suffix} is not read: save it as JPEG, PNG, WebP or BMP")
    return match[1] if match else "", "image" if suffix in IMAGES else suffix


def _sample(shard: Path, name: str, parts: Parts, keys: set[str]) -> Sample:
    """The sample of one key, whose record's keys are added to others.

    Raises:
        ValueError: a part is missing, there twice, too large or unreadable.
    """
    for part, files in parts.items():
        if len(files) > 1:
            raise ValueError(
                f"{len(files)} files for its {part}: {files[0].name} and {files[1].name}"
            )
        if files[0].size > LIMITS[part]:
            raise ValueError(f"{files[0].name}: {files[0].size} bytes are too many")
    if "image" not in parts:
        raise ValueError(
            f"{next(iter(parts.values()))[0].name} has no image of the same name next to it"
        )
    if "txt" not in parts and "json" not in parts:
        raise ValueError("no caption: neither .txt nor .json of the same name next to the image")
    record = record_from(_text(shard, parts["json"][0])) if "json" in parts else {}
    keys.update(record)
    caption = caption_from(_text(shard, parts["txt"][0])) if "txt" in parts else caption_in(record)
    image = parts["image"][0]
    payload = TarImage(
        shard=shard, name=image.name, offset=image.offset, size=image.size, caption=caption
    )
    return Sample(id=name, payload=payload, age=age_in(record), subject=subject_in(record))


def _text(shard: Path, member: Member) -> bytes:
    return read_member(shard, member.offset, member.size)
