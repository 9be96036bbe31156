"""Folders that nobody wrote down: every file is known by what is in it, whatever its name.

Pictures are compared by their exact pixels, weights and exported files by their hashes, texts by the words in them;
archives are looked into. A picture that was encoded or cut anew has other pixels: it is found by its name alone, or not.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath
from tarfile import TarError
from typing import Any

from unplug.core import DataError, InputError, counted, open_regular, parse_json, progress
from unplug.sdk.bundle import DAMAGE
from unplug.sdk.data import decode_image, parse_spec, square

from .place import Person, Place, unknown
from .records import Found
from .walk import HEAD, Item, is_archive, members, walk

MAX_FILE_BYTES = 64 * 2**30
SIDE = 64
"""Pictures are compared as squares of so many pixels, as a training sees them."""
WEIGHTS = (".safetensors", ".onnx", ".tflite", ".pte", ".pt", ".pth", ".ckpt", ".bin", ".h5", ".keras", ".gguf", ".npz", ".pkl")
_PACKED = {b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "7z", b"\x28\xb5\x2f\xfd": "zstd", b"Rar!": "rar"}
_PARTS = [re.compile(f"[^{ends}]+") for ends in (r"\r\n", r"\r\n,;\t", r"\s,;:=\"'()\[\]{}<>|")]
"""Lines, cells and words of a text, found one after the other: a list of all would be many times as large as the text."""


def her_pixels(spec: str, person: Person) -> tuple[frozenset[bytes], list[Place]]:
    """SHA-256 of the pixels of her pictures, and those that cannot be read any more."""
    source, closed, seen = parse_spec(spec), [], set[bytes]()
    for sample in source.listing().samples:
        if sample.id in person.ids:
            try:
                seen.add(hashlib.sha256(source.decode(sample, SIDE).tobytes()).digest())
            except DataError as error:
                why = f"it cannot be read ({error.why}), so copies of it are found by name alone"
                closed.append(unknown(f"{spec} {sample.id}", "data", InputError("it", why)))
    return frozenset(seen), closed


class Search:
    """Looks into files for one person.

    Args:
        person: whom to look for.
        pixels: of `her_pixels`.
        found: gets what is found, and says at the end what the weights that it knows were trained on.
    """

    def __init__(self, person: Person, pixels: frozenset[bytes], found: Found) -> None:
        self.person, self.pixels, self.found = person, pixels, found
        self.binaries: list[tuple[Path, str]] = []
        self.unread: Counter[str] = Counter()

    def folders(self, folders: Sequence[Path], show: bool) -> None:
        """Every file below some folders."""
        for path in progress(walk(folders), label="search", unit="file", show=show):
            if isinstance(path, Place):
                self.found.places.append(path)
                continue
            try:
                with open_regular(path, max_bytes=MAX_FILE_BYTES) as handle:
                    head = handle.read(HEAD) or b""
                    if is_opened(path, head):
                        for item in members(path, handle, head):
                            self._item(item)
                    else:
                        self._item(Item(path=path, size=0, head=head, rest=handle))
            except (InputError, OSError) as error:
                self.found.places.append(unknown(str(path), "file", error))

    def finish(self, folders: Sequence[Path]) -> None:
        """What is neither picture, text nor record: weights by their hashes, all else as a number."""
        for path, sha256 in self.binaries:
            place = self.found.weights(path, sha256)
            if place is None and path.suffix.lower() in WEIGHTS:
                place = unknown(str(path), "weights", InputError("it", "no record says what it was trained on"))
            elif place is None:
                self.unread[path.suffix.lower() or "no suffix"] += 1
            self.found.places += [place] if isinstance(place, Place) else []
        if self.unread:
            kinds = ", ".join(f"{suffix} {number}" for suffix, number in self.unread.most_common(8))
            why = f"{counted(self.unread.total(), 'file')} of formats that are not read ({kinds})"
            self.found.places.append(unknown(", ".join(map(str, folders)), "files", InputError("it", why)))

    def _item(self, item: Item | Place) -> None:
        try:
            place = item if isinstance(item, Place) else self._look(item)
        except (InputError, *DAMAGE, TarError) as error:
            place = unknown(str(item.path), "file", error)
        self.found.places += [place] if place is not None else []

    def _look(self, item: Item) -> Place | None:
        if is_picture(item.head):
            return self._picture(item)
        if is_opened(item.path, item.head):
            return unknown(str(item.path), "archive", InputError("it", "an archive in an archive is not opened"))
        packed = next((name for magic, name in _PACKED.items() if item.head.startswith(magic)), None)
        if packed is not None:
            return unknown(str(item.path), "archive", InputError("it", f"what {packed} packed is not opened"))
        if is_text(item.head):
            return self.found.record(item.path, parsed(item.path, item.whole(), self.person.words))
        digest = hashlib.sha256()
        for block in item.blocks():
            digest.update(block)
        self.binaries.append((item.path, digest.hexdigest()))
        return None

    def _picture(self, item: Item) -> Place | None:
        path = str(item.path)
        named = is_named(item.path, self.person)
        try:
            image_HW3 = square(decode_image(item.whole(), path), SIDE)
        except InputError as error:
            return unknown(path, "picture", error)
        if hashlib.sha256(image_HW3.tobytes()).digest() in self.pixels:
            return Place(path=path, kind="picture", standing="holds", samples=1, goes_by="delete it, after the models forgot")
        if named:
            why = "its name is hers and its pixels are not those of the data: look at it"
            return Place(path=path, kind="picture", standing="names", goes_by=why)
        return None


def is_opened(path: PurePath, head: bytes) -> bool:
    """Whether a file is an archive of files; weights that are packed as one (torch's, NumPy's) are known as a whole."""
    return is_archive(head) and path.suffix.lower() not in WEIGHTS


def is_picture(head: bytes) -> bool:
    """Whether a file that begins so is of a format that the data readers decode (JPEG, PNG, WebP, BMP)."""
    return (
        head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")) or head[:4] + head[8:12] == b"RIFFWEBP"
        or (head[:2] == b"BM" and head[6:10] == bytes(4))
    )  # fmt: skip


def is_text(head: bytes) -> bool:
    """Whether a file that begins so is UTF-8 text; the last character may be cut."""
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return b"\0" not in head and error.start > len(head) - 4 and len(head) == HEAD
    return b"\0" not in head


def is_named(path: PurePath, person: Person) -> bool:
    """Whether a file, or a folder that it lies in, has her name, or an id of hers is the end of its path.

    Example:
        >>> anna = Person(name="subject:anna", ids=frozenset({"faces/17.jpg"}))
        >>> [is_named(PurePath(name), anna) for name in ("x/faces/17.jpg", "x/anna/2.png", "x/anna.png", "x/17.jpg")]
        [True, True, True, False]
    """
    whole = path.as_posix()
    return any(whole.endswith(f"/{name}") for name in person.ids) or bool({*path.parts, path.stem} & person.words)


def parsed(path: Path, raw: bytes, words: frozenset[str]) -> Any:
    """JSON as it is; of any other text those of some words that are a line, a cell or a word of it.

    Example:
        >>> parsed(Path("mail.txt"), b"to (anna), from carl", frozenset({"anna", "car"}))
        ['anna']
    """
    if raw.lstrip()[:1] in (b"{", b"["):
        try:
            return parse_json(raw)
        except ValueError as error:
            if path.suffix == ".json":
                raise InputError(str(path), f"not valid JSON ({error})", "Look into it yourself") from error
    text = raw.decode("utf-8", "replace")
    return sorted({hit for form in _PARTS for part in form.finditer(text) if (hit := part[0].strip(' "')) in words})
