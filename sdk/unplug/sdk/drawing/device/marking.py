"""Pictures that say of themselves that a model drew them: IPTC's digital source type, as XMP in PNG
and JPEG files.

Programs that show where a picture comes from, and services that must label what machines made, read
this field. Stripping metadata strips it: it marks pictures, and proves nothing of those
without it.

Reference: IPTC, "Digital Source Type" (cv.iptc.org/newscodes/digitalsourcetype); Adobe, XMP
    specification part 3, "Storage in
files" (JPEG: APP1; PNG: an iTXt chunk).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, OutputError, atomic_path

if TYPE_CHECKING:
    from PIL.Image import Image

TRAINED = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
"""Made by a model that was trained on media."""
XMP_KEYWORD = "XML:com.adobe.xmp"
SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
JPEG_QUALITY = 95
MARK_WITHIN = 2**18
"""Bytes from a file's beginning: both formats have the mark in front of the pixels."""
XMP = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" '
    f'Iptc4xmpExt:DigitalSourceType="{TRAINED}"/>'
    '</rdf:RDF></x:xmpmeta><?xpacket end="w"?>'
)
"""The whole packet: it says nothing else, and nothing of who drew the picture."""


def picture_format(path: Path) -> str:
    """PNG or JPEG, by the end of a file's name; `InputError` for another."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise InputError(
            str(path),
            "pictures are written as PNG or JPEG",
            "Give `out` a name that ends in .png or .jpg",
        )
    return kind


def claim(path: Path, inputs: Sequence[Path] = ()) -> None:
    """Refuses a place that holds anything but a picture of ours: what lies there would be lost.

    Args:
        path: the path for a picture.
        inputs: pictures that it is made from.

    Raises:
        InputError: it is one of the inputs, or a file that no model drew.
        OutputError: it is a folder, a device or a pipe.
    """
    if not path.exists():
        return
    if not path.is_file():
        raise OutputError(
            str(path), "it is a folder, a device or a pipe", "Choose an `out` that is a file"
        )
    if any(item.exists() and item.samefile(path) for item in inputs):
        raise InputError(
            f"`out` {path}", "it is the picture that the new one is made from", "Give another name"
        )
    with path.open("rb") as handle:
        marked = TRAINED.encode() in handle.read(MARK_WITHIN)
    if not marked:
        why = "a file is there that does not say of itself that a model drew it"
        raise InputError(f"`out` {path}", why, "Give another name, or remove that file")


def save_marked(picture: Image, path: Path, facts: Mapping[str, Any]) -> None:
    """Writes a picture that says that a model drew it, and how; atomically.

    Args:
        picture: RGB.
        path: ends in .png, .jpg or .jpeg.
        facts: how it was made; JSON in a text chunk of a PNG, in the comment of a JPEG.

    Raises:
        InputError: another kind of file.
        OutputError: it cannot be written.
    """
    from PIL.PngImagePlugin import PngInfo

    kind, text, buffer = picture_format(path), json.dumps(dict(facts), sort_keys=True), io.BytesIO()
    if kind == "PNG":
        info = PngInfo()
        info.add_text("unplug", text)
        info.add_itxt(XMP_KEYWORD, XMP)
        picture.save(buffer, format=kind, pnginfo=info)
    else:
        picture.save(
            buffer,
            format=kind,
            quality=JPEG_QUALITY,
            # Colours of thin lines bleed with a quarter of the chroma.
            subsampling=0,
            xmp=XMP.encode(),
            # A JPEG segment holds 65,533 bytes.
            comment=text.encode()[:65_000],
        )
    with atomic_path(path) as temporary:
        temporary.write_bytes(buffer.getvalue())
