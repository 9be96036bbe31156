"""Marks without torch: keys, chance by the binomial, how a picture is laid before the reader."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binom
from tests.vectors.mark import TOLERANCE, vectors

from unplug.core import DataError, InputError, UnplugError
from unplug.sdk.drawing.device import key_bits, make_key, read_key
from unplug.sdk.drawing.device.mark import BITS, CHANCE, SIDE, chance_of, readings_of

KEPT = json.loads((Path(__file__).parents[3] / "vectors" / "mark.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("agree", [0, 20, 24, 40, 41, 42, 48])
@pytest.mark.parametrize("readings", [1, 2])
def test_chance_is_the_binomial_tail(agree: int, readings: int) -> None:
    tail = readings * float(binom.sf(agree - 1, BITS, 0.5))
    assert chance_of(agree, readings) == pytest.approx(min(1.0, tail), rel=1e-9)


def test_marked_is_41_bits_or_more() -> None:
    """By hand: 2 sum_{j >= 41} C(48, j) / 2^48 = 6.2e-7 is below a millionth, and from 40 on 3.3e-6."""
    assert chance_of(41) == pytest.approx(6.24e-7, rel=1e-2) and chance_of(41) <= CHANCE
    assert chance_of(40) == pytest.approx(3.3e-6, rel=2e-2) and chance_of(40) > CHANCE


def test_a_key_is_made_once_for_its_owner_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    first = make_key(path)
    assert make_key(path) == read_key(path) == first
    assert path.stat().st_mode & 0o077 == 0
    assert len(key_bits(first)) == BITS and make_key(tmp_path / "other") != first
    assert np.packbits(key_bits(first)).tobytes().hex() == first


@pytest.mark.parametrize("text", ["", "abc", "0" * 13, "g" * 12, "0" * 11 + "\x00", "é" * 12])
def test_a_key_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="12 hexadecimal digits"):
        read_key(path)
    with pytest.raises(InputError):
        make_key(path)
    assert path.read_text(encoding="utf-8") == text


def test_a_picture_is_laid_whole_and_as_a_crop_its_rest_mirrored(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    whole, crop = readings_of(tmp_path / "a.png")
    assert whole.shape == crop.shape == (3, SIDE, SIDE)
    middle = whole[:, 16:112] * 255  # 128 pixels wide already: nothing is resized
    assert np.array_equal(middle.round().astype(np.uint8), pixels.transpose(2, 0, 1))
    assert np.array_equal(whole[:, :16], whole[:, 16:32][:, ::-1])
    assert np.array_equal(whole[:, 112:], whole[:, 96:112][:, ::-1])
    edge = (SIDE - round(0.8 * SIDE)) // 2
    assert np.array_equal(crop[:, :, :edge], crop[:, :, edge : 2 * edge][:, :, ::-1])


def test_what_is_no_picture_to_read_from_is_refused(tmp_path: Path) -> None:
    Image.new("RGB", (63, 200)).save(tmp_path / "small.png")
    (tmp_path / "text.png").write_text("no picture")
    bomb = tmp_path / "bomb.png"
    Image.new("1", (20_000, 10_000)).save(bomb)
    for path in (tmp_path / "small.png", tmp_path / "text.png", bomb, tmp_path):
        with pytest.raises(DataError):
            readings_of(path)
    with pytest.raises(UnplugError):
        readings_of(tmp_path / "none.png")


def test_the_shared_vectors_are_current_and_whole() -> None:
    """`mark.json` is what Python reads today, its bad keys are bad, and it holds both verdicts."""
    assert json.loads(json.dumps(vectors())) == KEPT
    assert KEPT["tolerance"] == TOLERANCE == 1 / 255
    assert [row["marked"] for row in KEPT["verdicts"]] == [True, True, True, False, False]
    assert [row["agree"] for row in KEPT["verdicts"]] == [48, 41, 41, 40, 24]
    for number in (0, 1, 24, 41, 48):
        tail = float(binom.sf(number - 1, BITS, 0.5))
        assert KEPT["chances"][0][number] == pytest.approx(tail, rel=1e-9)


def test_bad_keys_of_the_shared_vectors_are_refused(tmp_path: Path) -> None:
    for text in KEPT["bad_keys"]:
        (tmp_path / "key").write_text(text)
        with pytest.raises(InputError):
            read_key(tmp_path / "key")
