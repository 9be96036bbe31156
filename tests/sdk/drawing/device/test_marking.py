"""A picture says of itself that a model drew it, in PNG and in JPEG, where other programs look for
it.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unplug.core import InputError, OutputError
from unplug.sdk.drawing.device import XMP, claim, save_marked

TYPE = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType"
TRAINED = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
FACTS = {"prompt": "a child, smiling", "seed": 4}


def source_type(path: Path) -> str | None:
    """What a reader of XMP finds."""
    with Image.open(path) as picture:
        packet = picture.info["xmp"]
    root = ElementTree.fromstring(packet)
    (found,) = [item.attrib[TYPE] for item in root.iter() if TYPE in item.attrib]
    return found


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.JPEG"])
def test_the_mark_is_read_back_and_the_picture_is_whole(tmp_path: Path, name: str) -> None:
    pixels = np.full((16, 16, 3), 128, np.uint8)
    pixels[4:8] = 40
    save_marked(Image.fromarray(pixels), tmp_path / name, FACTS)
    assert source_type(tmp_path / name) == TRAINED
    with Image.open(tmp_path / name) as picture:
        assert np.abs(np.asarray(picture.convert("RGB")).astype(int) - pixels).max() <= 3
        text = picture.info["unplug"] if name.endswith("png") else picture.info["comment"].decode()
        assert json.loads(text) == FACTS
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_png_holds_the_packet_in_the_chunk_that_xmp_asks_for(tmp_path: Path) -> None:
    save_marked(Image.new("RGB", (2, 2)), tmp_path / "a.png", {})
    assert b"iTXtXML:com.adobe.xmp\0\0\0\0\0" + XMP.encode() in (tmp_path / "a.png").read_bytes()


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="PNG or JPEG"):
        save_marked(Image.new("RGB", (2, 2)), tmp_path / "a.webp", {})
    assert not list(tmp_path.iterdir())


def test_only_pictures_that_a_model_drew_are_replaced(tmp_path: Path) -> None:
    photo, drawn, folder = tmp_path / "photo.jpg", tmp_path / "drawn.png", tmp_path / "folder.png"
    Image.new("RGB", (8, 8)).save(photo)
    folder.mkdir()
    claim(drawn)
    save_marked(Image.new("RGB", (8, 8)), drawn, {"prompt": "a child"})
    claim(drawn, [photo])
    with pytest.raises(InputError, match="does not say of itself that a model drew it"):
        claim(photo)
    with pytest.raises(InputError, match="the new one is made from"):
        claim(drawn, [drawn])
    with pytest.raises(OutputError, match="it is a folder"):
        claim(folder)
