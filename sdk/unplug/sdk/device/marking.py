"""Pictures that say of themselves that a model drew them: IPTC's digital source type, as XMP in PNG and JPEG files.

Programs that show where a picture comes from, and services that must label what machines made, read this field. Whoever strips
metadata strips it: it marks pictures, and proves nothing of those without it.

Reference: IPTC, "Digital Source Type" (cv.iptc.org/newscodes/digitalsourcetype); Adobe, XMP specification part 3, "Storage in
files" (JPEG: APP1; PNG: an iTXt chunk).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, atomic_path

if TYPE_CHECKING:
    from PIL.Image import Image

TRAINED = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
"""Made by a model that was trained on media."""
XMP_KEYWORD = "XML:com.adobe.xmp"
SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
JPEG_QUALITY = 95
XMP = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" '
    f'Iptc4xmpExt:DigitalSourceType="{TRAINED}"/>'
    '</rdf:RDF></x:xmpmeta><?xpacket end="w"?>'
)
"""The whole packet: it says nothing else, and nothing of who drew the picture."""


def picture_format(path: Path) -> str:
    """PNG or JPEG, by the end of a file's name; `InputError` for another."""
    found = SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise InputError(str(path), "pictures are written as PNG or JPEG", "Give --out a name that ends in .png or .jpg")
    return found


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
            buffer, format=kind, quality=JPEG_QUALITY, subsampling=0, xmp=XMP.encode(), comment=text.encode()[:65_000]
        )  # fmt: skip
    with atomic_path(path) as temporary:
        temporary.write_bytes(buffer.getvalue())
