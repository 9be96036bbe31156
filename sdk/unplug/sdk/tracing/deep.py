"""Folders that nobody wrote down: every file is known by what is in it, whatever its name.

Pictures are compared by their exact pixels, weights and exported files by their hashes, texts by
the words in them; archives are looked into. A picture that was encoded or cut anew has other
pixels: it is found by its name alone, or not. Whatever is not looked into is a line.
"""

from __future__ import annotations

import codecs
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

from unplug.core import (
    DataError,
    InputError,
    counted,
    open_regular,
    parse_json,
    progress,
    text_encoding,
)
from unplug.sdk.learning.data import decode_image, parse_spec, square
from unplug.trust.certificates import TracedPlace

from .archives import HARMED, HEAD, Item, blocks_of, is_archive, item_of, members
from .person import Person, unknown
from .pictures import beside_pixels, is_picture
from .records import CALLED, DELETE, Found
from .walk import walk
from .words import ENCODED

MAX_FILE_BYTES = 64 * 2**30
SIDE = 64
"""Pictures are compared as squares of so many pixels, as a training sees them."""
WEIGHTS = (
    ".safetensors",
    ".onnx",
    ".tflite",
    ".pte",
    ".pt",
    ".pth",
    ".ckpt",
    ".bin",
    ".h5",
    ".keras",
    ".gguf",
    ".npz",
    ".pkl",
)
_PACKED = {b"7z\xbc\xaf": "7z", b"\x28\xb5\x2f\xfd": "zstd", b"Rar!": "rar"}
_DOCUMENTS = (b"%PDF", b"{\\rtf", b"%!PS")
"""What is written in letters and is not text: what it shows is packed in it."""


def her_pixels(spec: str, person: Person) -> tuple[frozenset[bytes], list[TracedPlace]]:
    """SHA-256 of the pixels of her pictures, and those that cannot be read any more."""
    source, closed, seen = parse_spec(spec), [], set[bytes]()
    for sample in source.listing().samples:
        if sample.id in person.ids:
            try:
                seen.add(hashlib.sha256(source.decode(sample, SIDE).tobytes()).digest())
            except DataError as error:
                why = f"it cannot be read ({error.why}), so copies of it are found by name alone"
                closed.append(unknown(f"{spec} {sample.id}", "data", why))
    return frozenset(seen), closed


class Search:
    """Looks into files for one person.

    Args:
        person: the person to look for.
        pixels: the pixels that `her_pixels` gives.
        found: gets what is found, and says at the end what the weights that it knows were trained
            on.
    """

    def __init__(self, person: Person, pixels: frozenset[bytes], found: Found) -> None:
        self.person, self.pixels, self.found = person, pixels, found
        self.binaries: list[tuple[Path, str]] = []
        self.unread: Counter[str] = Counter()

    def folders(self, folders: Sequence[Path], show: bool) -> None:
        """Every file below some folders."""
        for path in progress(
            walk(folders, self.person.called), label="search", unit="file", show=show
        ):
            if isinstance(path, TracedPlace):
                self.found.places.append(path)
                continue
            try:
                with open_regular(path, max_bytes=MAX_FILE_BYTES) as handle:
                    record = item_of(path, path.name, blocks_of(handle))
                    opened = is_opened(path, record.head)
                    self._item(record, opened=opened)
                    for inner in members(path, handle, record.head) if opened else ():
                        self._item(inner)
            except (InputError, OSError) as error:
                self.found.places.append(unknown(path, "file", error))

    def finish(self, folders: Sequence[Path]) -> None:
        """What is neither picture, text nor record: weights by their hashes, all else as a number."""
        for path, sha256 in self.binaries:
            place = self.found.weights(path, sha256)
            if place is None and path.suffix.lower() in WEIGHTS:
                place = unknown(path, "weights", "no record says what it was trained on")
            elif place is None:
                self.unread[path.suffix.lower() or "no suffix"] += 1
            self.found.places += [place] if isinstance(place, TracedPlace) else []
        if self.unread:
            kinds = ", ".join(f"{suffix} {number}" for suffix, number in self.unread.most_common(8))
            why = f"{counted(self.unread.total(), 'file')} of formats that are not read ({kinds})"
            self.found.places.append(unknown(", ".join(map(str, folders)), "files", why))

    def _item(self, item: Item | TracedPlace, *, opened: bool = False) -> None:
        """One file; of one that is opened its name alone."""
        if isinstance(item, TracedPlace):
            self.found.places.append(item)
            return
        places = list[TracedPlace]()
        try:
            for place in () if opened else self._look(item):
                places.append(place)
        except (InputError, *HARMED) as error:
            places.append(unknown(item.path, "file", error))
        if (
            item.name
            and not any(place.standing in ("holds", "names") for place in places)
            and self.person.called(item.name)
        ):
            places.append(
                TracedPlace(path=str(item.path), kind="file", standing="names", goes_by=CALLED)
            )
        self.found.places += places

    def _look(self, item: Item) -> Iterator[TracedPlace]:
        path = str(item.path)
        packed = next(
            (name for magic, name in _PACKED.items() if item.head.startswith(magic)), None
        )
        if not item.name:
            if self.person.names.in_bytes(item.whole()):
                yield TracedPlace(path=path, kind="archive", standing="names", goes_by=DELETE)
        elif is_picture(item.head):
            yield from self._picture(item)
        elif is_opened(item.path, item.head):
            yield unknown(path, "archive", "an archive in an archive is not opened")
        elif packed is not None:
            yield unknown(path, "archive", f"what {packed} packed is not opened")
        elif is_text(item.head):
            yield from self._text(item)
        else:
            digest = hashlib.sha256()
            for block in item.blocks():
                digest.update(block)
            self.binaries.append((item.path, digest.hexdigest()))

    def _text(self, item: Item) -> Iterator[TracedPlace]:
        path, raw = str(item.path), item.whole()
        try:
            text, whole = raw.decode(text_encoding(raw)), True
        except UnicodeDecodeError:
            text, whole = raw.decode("utf-8", "replace"), False
        value = None
        try:
            value = parsed(item.path, text)
        except InputError as error:
            yield unknown(path, "file", error)
        yield from self.found.record(item.path, value, len(self.person.names.within(text)))
        if not whole or "\0" in text:
            yield unknown(path, "file", "it begins as a text, and not all of it is one")
        elif ENCODED.search(text):
            yield unknown(
                path,
                "file",
                "it holds encoded parts (base64, say), which are not decoded",
            )

    def _picture(self, item: Item) -> Iterator[TracedPlace]:
        path, raw = str(item.path), item.whole()
        beside = beside_pixels(raw)
        try:
            if self._is_hers(raw, path):
                by = "delete it, after the models forgot"
                yield TracedPlace(
                    path=path, kind="picture", standing="holds", samples=1, goes_by=by
                )
            elif is_named(item.path, self.person):
                by = "its name is hers and its pixels are not those of the data: look at it"
                yield TracedPlace(path=path, kind="picture", standing="names", goes_by=by)
        except InputError as error:
            yield unknown(path, "picture", error)
        if any(map(self.person.names.in_bytes, beside.notes)):
            yield TracedPlace(
                path=path,
                kind="picture",
                standing="names",
                goes_by="a note in it names them: delete it, or take it out",
            )
        told = [f"{beside.behind} bytes follow it"] if beside.behind else []
        told += ["it holds further pictures"] if beside.more else []
        for part in beside.within:
            try:
                if self._is_hers(part, path):
                    yield TracedPlace(
                        path=path,
                        kind="picture",
                        standing="holds",
                        samples=1,
                        goes_by="a picture within it is hers",
                    )
            except InputError:
                told += ["what begins like a picture or an archive in it cannot be read"]
        if told:
            yield unknown(path, "picture", "; ".join(dict.fromkeys(told)))

    def _is_hers(self, raw: bytes, name: str) -> bool:
        image_HW3 = square(decode_image(raw, name), SIDE)
        return hashlib.sha256(image_HW3.tobytes()).digest() in self.pixels


def is_opened(path: PurePath, head: bytes) -> bool:
    """Whether a file is an archive of files; weights that are packed as one (torch's, NumPy's) are
    known as a whole.
    """
    return is_archive(head) and path.suffix.lower() not in WEIGHTS


def is_text(head: bytes) -> bool:
    """Whether a file that begins so is UTF-8 text, or UTF-16 with its mark; the last letter may be
    cut.
    """
    if head.startswith(_DOCUMENTS):
        return False
    try:
        text = codecs.getincrementaldecoder(text_encoding(head))().decode(head, len(head) < HEAD)
    except UnicodeDecodeError:
        return False
    return "\0" not in text


def is_named(path: PurePath, person: Person) -> bool:
    """Whether a file, or a folder that it lies in, has her name, or an id of hers is the end of its
    path.

    Example:
        >>> anna = Person(name="subject:anna", ids=frozenset({"faces/17.jpg"}))
        >>> [is_named(PurePath(name), anna) for name in ("x/faces/17.jpg", "x/anna/2.png", "x/anna.png", "x/17.jpg")]
        [True, True, True, False]
    """
    whole = path.as_posix()
    return any(whole.endswith(f"/{name}") for name in person.ids) or any(
        map(person.called, path.parts)
    )


def parsed(path: Path, text: str) -> Any:
    """JSON as it is, of a text that is none the records that are a line of it."""
    text = text.lstrip("\ufeff \t\r\n")
    if text[:1] not in ("{", "["):
        return None
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        if path.suffix == ".json":
            raise InputError(
                str(path), f"not valid JSON ({error})", "Look into it yourself"
            ) from error
    return [line_value(line) for line in text.splitlines() if '"schema"' in line]


def line_value(line: str) -> Any:
    """JSON of a line, or the line itself."""
    try:
        return parse_json(line.encode())
    except ValueError:
        return line
