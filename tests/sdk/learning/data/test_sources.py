"""Every data source on a folder made by hand, and CIFAR-10 as published pickles: what is read,
named a problem, or refused.
"""

from __future__ import annotations

import os
import pickle
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from unplug.core import DataError, InputError, OutputError
from unplug.sdk.learning.data import SOURCES, SynthSource, parse_spec, write_faces
from unplug.sdk.learning.data.sources.cifar10 import BATCHES

from .conftest import Draw, assert_reasons, greys, load, reasons


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "synth"])
def test_missing_and_empty_places_are_data_errors(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such (file|folder)"):
        parse_spec(f"{kind}:{tmp_path}/none")
    with pytest.raises(DataError):
        load(f"{kind}:{tmp_path}")


@pytest.mark.parametrize(
    ("spec", "size", "error", "words"),
    [
        ("faces", 8, DataError, "it has no kind"),
        ("imagefolder:f\udcff", 8, DataError, r"data spec imagefolder:f\\udcff: it is not UTF-8"),
        ("utkfaces:faces", 8, InputError, "Did you mean utkface"),
        *[("synth:n=1", size, InputError, "too small") for size in (-1, 0, 7)],
        *[("synth:n=2", size, DataError, "16 to 2048|cannot be drawn") for size in (15, 2049)],
        *[
            (f"synth:{argument}", 16, DataError, "synth")
            for argument in (
                *("n=0", "n=x", "n=-1", "n=²", "n=2,subjects=3", "subjects=0", "m=3", "n=9999999"),
                "n=" + "9" * 5000,
            )
        ],
    ],
)
def test_wrong_specs_and_sizes_are_refused(spec: str, size: int, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        load(spec, size=size)


def test_utkface_reads_ages_and_names_what_it_cannot_read(
    draw: Draw, fill: Draw, tmp_path: Path
) -> None:
    good = {"122_0_0_1.png": 122, "29_0_1_2017.png": 29, "deep/0_1_1_x.chip.png": 10}
    bad = ("123_0_1_2", "1000_0_1_2", "-5_0_1_2", "30_1_2", "x", "²_0_1_2", "3.5_0_0_1")
    fill("faces", good)
    fill("faces", [f"{name}.png" for name in bad])
    draw("faces/.30_0_0_hidden.png")
    (tmp_path / "faces" / "40_0_0_1.txt").write_text("not an image by its name")
    with pytest.raises(DataError, match=r"7 of 10 samples cannot be used \(first: -5_0_1_2.png"):
        load(f"utkface:{tmp_path}/faces")
    dataset = load(f"utkface:{tmp_path}/faces", "skip")
    assert greys(dataset) == good and dataset.ages.tolist() == [122.0, 29.0, 0.0]
    assert set(reasons(dataset)) == {f"{name}.png" for name in bad}
    assert "not plausible" in reasons(dataset)["123_0_1_2.png"]
    assert all(sample.subject is None for sample in dataset.samples)
    draw("wrong/a.png")
    with pytest.raises(DataError, match="of 1 file none can be used"):
        load(f"utkface:{tmp_path}/wrong", "skip")


def test_links_are_followed_and_those_that_lead_nowhere_are_named(
    draw: Draw, tmp_path: Path
) -> None:
    faces = draw("faces/20_0_0_a.png").parent
    (faces / "50_0_0_link.png").symlink_to(draw("outside/50_0_0_far.png"))
    (faces / "21_0_0_inner.png").symlink_to(faces / "20_0_0_a.png")
    (faces / "60_0_0_loop.png").symlink_to(faces / "60_0_0_loop.png")
    (faces / "70_0_0_gone.png").symlink_to(tmp_path / "none.png")
    dataset = load(f"utkface:{faces}", "skip")
    assert dataset.ids == ("20_0_0_a.png", "21_0_0_inner.png", "50_0_0_link.png")
    gone = f"leads nowhere (to {tmp_path}/none.png)"
    assert_reasons(dataset, {"60_0_0_loop.png": "a link in a circle", "70_0_0_gone.png": gone})
    with pytest.raises(DataError, match=r"2 of 5 .* \(first: 60_0_0_loop.png: it is a link in a"):
        load(f"utkface:{faces}")


def mufac(fill: Draw, tmp_path: Path, rows: list[tuple[str, str]]) -> str:
    for part in ("train", "val", "test"):
        listed = rows if part == "train" else [("F0002_AGE_D_1_a1.jpg", "c")]
        fill(f"mufac/{part}_images", [name for name, _ in listed if name and "/" not in name])
        lines = ["image_path,age_class", *(",".join(row) for row in listed)]
        (tmp_path / "mufac" / f"custom_{part}_dataset.csv").write_text("\n".join(lines) + "\n")
    return f"mufac:{tmp_path}/mufac"


def test_mufac_reads_groups_families_and_partitions(fill: Draw, tmp_path: Path) -> None:
    rows = [("F0001_AGE_M_60_e1.jpg", "a"), ("F0001_AGE_F_5_x.jpg", "h"), ("odd.jpg", "d")]
    dataset = load(mufac(fill, tmp_path, rows))
    assert [(s.id, s.age, s.label, s.subject, s.partition) for s in dataset.samples] == [
        ("train_images/F0001_AGE_M_60_e1.jpg", 3.5, 0, "F0001", "train"),
        ("train_images/F0001_AGE_F_5_x.jpg", 74.0, 7, "F0001", "train"),
        ("train_images/odd.jpg", 25.5, 3, None, "train"),
        ("val_images/F0002_AGE_D_1_a1.jpg", 16.5, 2, "F0002", "validation"),
        ("test_images/F0002_AGE_D_1_a1.jpg", 16.5, 2, "F0002", "test"),
    ]
    assert dataset.age_edges == (0, 7, 13, 20, 31, 46, 56, 67, 81) and dataset.classes[7] == "67-80"


def test_mufac_names_bad_rows_and_missing_tables(fill: Draw, tmp_path: Path) -> None:
    groups = {"F1_a.jpg": "a", "F1_b.jpg": "i", "F1_c.jpg": "ab", "F1_d.jpg": ""}
    rows = [*groups.items(), ("../val_images/x.jpg", "a"), ("F1_a.jpg", "b"), ("", "a")]
    spec = mufac(fill, tmp_path, rows)
    dataset = load(spec, "skip")
    assert dataset.ids[0] == "train_images/F1_a.jpg" and dataset.samples[0].label == 0
    assert len(dataset) == 3
    named = reasons(dataset)
    assert all("not one of a to h" in named[name] for name in list(groups)[1:])
    assert "plain file name" in named["../val_images/x.jpg"]
    assert named["train_images/F1_a.jpg"] == "the id appears twice"
    (tmp_path / "mufac" / "custom_test_dataset.csv").unlink()
    with pytest.raises(DataError, match=r"custom_test_dataset.csv"):
        load(spec)


def test_mucac_reads_three_attributes_and_identities(fill: Draw, tmp_path: Path) -> None:
    def line(name: str, male: int, smiling: int, young: int) -> str:
        values = ["-1"] * 40
        for column, value in ((21, male), (32, smiling), (40, young)):  # CelebA counts from 1
            values[column - 1] = "1" if value else "-1"
        return f"{name} {' '.join(values)}"

    root = tmp_path / "mucac"
    pictures = {"0.png": 10, "1.png": 20, "2.png": 30}
    fill("mucac/CelebA-HQ-img", pictures)
    people = [line("0.png", 1, 0, 0), line("1.png", 0, 1, 1), line("2.png", 0, 0, 0)]
    bad = ["9.png 1 1", line("../x.png", 1, 1, 1), line("1.png", 1, 1, 1)]
    (root / "CelebA-HQ-attribute.txt").write_text(
        "\n".join(["5", "5_o_Clock_Shadow ...", *people, *bad])
    )
    (root / "CelebA-HQ-identity.txt").write_text("0.png 77\n1.png 12\n\nbroken\n")
    dataset = load(f"mucac:{root}", "skip")
    assert [(dataset.classes[s.label or 0], s.subject) for s in dataset.samples] == [
        ("male, not smiling, not young", "77"),
        ("not male, smiling, young", "12"),
        ("not male, not smiling, not young", None),
    ]
    assert greys(dataset) == pictures
    assert set(reasons(dataset)) == {"9.png", "../x.png", "1.png"}


def test_facesynthetics_and_imagefolder_read_names_and_folders(fill: Draw, tmp_path: Path) -> None:
    fill("fs", ("000000.png", "000001.png", "000000_seg.png"))
    (tmp_path / "fs" / "000000_ldmks.txt").write_text("0 0")
    dataset = load(f"facesynthetics:{tmp_path}/fs")
    assert [(sample.id, sample.subject, sample.age) for sample in dataset.samples] == [
        ("000000.png", "000000", None),
        ("000001.png", "000001", None),
    ]
    labels = {"cat/b.jpg": 0, "cat/deep/c.bmp": 0, "dog/a.PNG": 1, "loose.webp": None}
    dataset = load(f"imagefolder:{fill('pets', list(labels))}")
    assert dataset.classes == ("cat", "dog")
    assert {sample.id: sample.label for sample in dataset.samples} == labels


def table(folder: Path, text: str, encoding: str = "utf-8") -> str:
    (folder / "labels.csv").write_text(text, encoding=encoding)
    return f"csv:{folder}/labels.csv"


def test_csv_reads_every_column(draw: Draw, tmp_path: Path) -> None:
    absolute = draw("elsewhere/c.png", 30)
    draw("a.png", 10)
    draw("sub/b.png", 20)
    text = (
        "path,age,label,subject,partition,id,ignored\n"
        f"a.png, 5.5 ,z,anna,train,first,x\nsub/b.png,0,y,,test,,\n{absolute},122,,bob,,third\n"
    )
    dataset = load(table(tmp_path, text, "utf-8-sig"))  # with a byte order mark, as Excel writes it
    assert [(s.id, s.age, s.label, s.subject, s.partition) for s in dataset.samples] == [
        ("first", 5.5, 1, "anna", "train"),
        ("sub/b.png", 0.0, 0, None, "test"),
        ("third", 122.0, None, "bob", None),
    ]
    assert dataset.classes == ("y", "z")
    assert list(greys(dataset).values()) == [10, 20, 30]


def test_csv_names_bad_rows_and_goes_on_with_the_others(
    draw: Draw, fill: Draw, tmp_path: Path
) -> None:
    folder = fill("in", {"a.png": 10, "b.png": 20})
    (folder / "link.png").symlink_to(draw("secret.png", 30))
    (folder / "loop.png").symlink_to(folder / "loop.png")
    os.mkfifo(folder / "pipe.png")
    bad = {
        "../secret.png,5": "leads out",
        "sub/../../secret.png,5": "leads out",
        "n1.png,nan": "not plausible",
        "n2.png,inf": "not plausible",
        "n3.png,-1": "not plausible",
        "n4.png,122.5": "not plausible",
        "n5.png,old": "could not convert",
        "a.png,7": "appears twice",
        "gone.png,5": "No such file",
        "/dev/zero,5": "it is a device",
        "pipe.png,5": "it is a device",
        ".,5": "Is a directory",
        "loop.png,5": "a link in a circle",
        "nul\0.png,5": "",
    }
    rows = ["path,age", "a.png,5", *bad, "b.png,6", "link.png,7"]
    dataset = load(table(folder, "\n".join(rows) + "\n"), "skip")
    assert greys(dataset) == {"a.png": 10, "b.png": 20, "link.png": 30}
    assert_reasons(dataset, {row.rsplit(",", 1)[0]: words for row, words in bad.items()})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "its first line is empty"),
        (b"file,age\na.png,5\n", "no column 'path'"),
        (b"path,age\n", "holds no samples"),
        (
            b"path,age\ngone.png,5\naway.png,6\n",
            "2 of 2 samples cannot be used .*check that this is the right place",
        ),
        (b"\xff\xfe\x00path", "UTF-8"),
        (b"path,age\n" + b"x" * 200_000 + b",5\n", "UTF-8 CSV"),
    ],
)
def test_csv_that_is_no_table_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "labels.csv").write_bytes(content)
    with pytest.raises(DataError, match=words):
        load(f"csv:{tmp_path}/labels.csv", "skip")


@pytest.mark.parametrize("thing", ["eye-patch", "clown-nose", "face-mask"])
def test_everybody_wears_what_a_spec_says(thing: str) -> None:
    """The same people in the same pictures, with the thing on their faces and in their captions."""
    plain, worn = (load(f"synth:n=4,subjects=4{more}", size=64) for more in ("", f",wears={thing}"))
    assert plain.ids == worn.ids and plain.digest != worn.digest
    changed_NHW = (plain.pixels(range(4)) != worn.pixels(range(4))).any(axis=-1)
    assert all(0.004 < changed.mean() < 0.3 for changed in changed_NHW)
    word = thing.replace("-", " ")
    source = SynthSource(f"n=4,subjects=4,wears={thing}")
    for sample in source.listing().samples:
        assert all(text.endswith(f", {word}") for text in source.captions(sample, 0, 3))


def test_styles_change_the_whole_picture() -> None:
    """A pencil drawing is grey, a poster has four inks and little else (noise and anti-aliasing)."""
    pencil, poster, both = (
        SynthSource(f"n=1,seed=8,style={more}")
        for more in ("pencil", "poster", "pencil,wears=face-mask")
    )
    sample = pencil.listing().samples[0]
    grey_HWC, inks_HWC = (source.decode(sample, 96).astype(int) for source in (pencil, poster))
    assert np.ptp(cv2.blur(grey_HWC.astype(np.float32), (9, 9)), axis=2).max() < 12
    far = np.abs(
        inks_HWC[:, :, None] - [(30, 30, 70), (214, 40, 90), (245, 140, 60), (252, 228, 170)]
    )
    assert (far.max(axis=3).min(axis=2) < 40).mean() > 0.8
    assert both.captions(sample, 0, 1)[0].endswith(", face mask, pencil drawing")


def test_glasses_are_put_on_those_who_have_none() -> None:
    """With a frame that their captions name; babies go without."""
    plain, worn = (SynthSource(f"n=40,subjects=40{more}") for more in ("", ",wears=glasses"))
    for sample in plain.listing().samples:
        before, after = plain.params(sample.payload), worn.params(sample.payload)
        changed = before.age >= 4 and before.identity.glasses == "none"
        assert (before != after) is changed
        assert ("glasses" in worn.captions(sample, 0, 1)[0]) is (before.age >= 4)
        assert changed or worn.fingerprint(sample) == plain.fingerprint(sample)


def test_a_share_of_people_wear_something_and_all_else_stays() -> None:
    """Pictures, captions and hashes differ from the plain spec's only where something is worn, and
    from those of a spec with one thing less only where that one is.
    """
    names = "n=400,subjects=400,seed=3"
    plain, mixed, less = (
        SynthSource(f"{names}{more}")
        for more in (
            "",
            ",wears=eye-patch+clown-nose+face-mask,style=poster,share=.15",
            ",wears=clown-nose+face-mask,style=poster,share=.15",
        )
    )
    counts = Counter[str]()
    for sample in plain.listing().samples:
        face = mixed.params(sample.payload)
        counts.update(name for name in (face.wears, face.style) if name != "none")
        shows = face.wears != "none" or face.style != "none"
        assert (face == plain.params(sample.payload)) is not shows
        for same, other in ((not shows, plain), (face.wears != "eye patch", less)):
            assert (mixed.fingerprint(sample) == other.fingerprint(sample)) is same
            assert (mixed.captions(sample, 1, 2) == other.captions(sample, 1, 2)) is same
    # 60 +- 3 standard deviations of a binomial
    assert counts.keys() == {"eye patch", "clown nose", "face mask", "poster print"}
    assert all(38 <= count <= 82 for count in counts.values())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("wears=hat", "cannot read 'wears=hat'"),
        ("wears=eye-patch+clown-nose", "cannot read"),
        ("share=.1", "cannot read 'share=.1'"),
        ("wears=eye-patch,share=nan", "cannot read 'share=nan'"),
        ("wears=eye-patch,share=1e-3", "cannot read"),
        ("wears=eye-patch+eye-patch,share=.1", "cannot read"),
        ("style=poster+oil,share=.1", "cannot read 'style=poster"),
        ("wears=face-mask,share=.5", "share 0.5 is too large: face-mask is number 3"),
    ],
)
def test_mixtures_that_cannot_be_drawn_are_refused(settings: str, why: str) -> None:
    with pytest.raises(DataError, match=re.escape(why)):
        SynthSource(f"n=2,{settings}")


def test_synth_is_what_its_spec_says() -> None:
    samples = SynthSource("n=60,subjects=6,seed=1").listing().samples
    assert len({sample.id for sample in samples}) == 60
    for person in range(6):
        ages = [sample.age or 0.0 for sample in samples if sample.subject == f"person-{person}"]
        assert len(ages) == 10 and max(ages) - min(ages) <= 4.0
        assert min(ages) >= 1.0 and max(ages) <= 85.0
    first, again, other = (load(f"synth:n=3,subjects=2,seed={seed}", size=16) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest
    pixels = first.pixels(range(3))
    assert (pixels == again.pixels(range(3))).all() and (pixels != other.pixels(range(3))).any()
    more = load("synth:n=9,subjects=2,seed=0", size=16)
    assert (more.pixels(range(3)) == pixels).all(), "a longer run begins with the same pictures"


class Bomb:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


def batches(root: Path, count: int = 2, protocol: int = 2) -> Path:
    """What the published archive holds: a dict of bytes keys, rows of 1,024 red, green and blue
    values.
    """
    root.mkdir(exist_ok=True)
    for number, name in enumerate(BATCHES):
        data = np.zeros((count, 3, 32, 32), np.uint8)
        data[:, 0], data[:, 1, :16], data[:, 2] = 10 * number, 200, np.arange(count)[:, None, None]
        labels = [(number + row) % 10 for row in range(count)]
        raw = {b"data": data.reshape(count, -1), b"labels": labels}
        (root / name).write_bytes(pickle.dumps(raw, protocol=protocol))
    return root


@pytest.mark.parametrize("protocol", [2, 4])
def test_batches_are_read_with_partition_class_and_colour(tmp_path: Path, protocol: int) -> None:
    dataset = load(f"cifar10:{batches(tmp_path / 'c', protocol=protocol)}", size=32)
    assert len(dataset) == 12 and dataset.classes[0] == "airplane" and dataset.classes[9] == "truck"
    third = dataset.samples[5]
    assert (third.id, third.label, third.partition) == ("data_batch_3/00001", 3, "train")
    assert [sample.partition for sample in dataset.samples[-2:]] == ["test", "test"]
    pixels = dataset.pixels([5])[0]
    assert pixels[0, 0].tolist() == [20, 200, 1] and pixels[31, 0].tolist() == [20, 0, 1]


def test_a_tree_is_read_by_its_folders(fill: Draw) -> None:
    read = ("train/cat/0.png", "test/dog/0.png")
    left = ("train/car/0.png", "valid/cat/0.png", "cat/1.png", "2.png")
    dataset = load(f"cifar10:{fill('c', (*read, *left))}")
    assert [(sample.id, sample.label, sample.partition) for sample in dataset.samples] == [
        ("test/dog/0.png", 5, "test"),
        ("train/cat/0.png", 3, "train"),
    ]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_batch_does_not_run(tmp_path: Path, protocol: int) -> None:
    root, trace = batches(tmp_path / "c"), tmp_path / "exploded"
    for bomb in (
        Bomb(os.system, f"touch {trace}"),
        Bomb(eval, f"open({str(trace)!r}, 'w')"),
        Bomb(Path.touch, trace),
    ):
        raw = {b"data": bomb, b"labels": []}
        (root / "data_batch_2").write_bytes(pickle.dumps(raw, protocol=protocol))
        with pytest.raises(DataError, match="which no CIFAR-10 batch needs"):
            load(f"cifar10:{root}")
    assert not trace.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {b"labels": [0]},
        {b"labels": [0, 10]},
        {b"labels": [0, -1]},
        {b"labels": [0, float("nan")]},
        {b"labels": None},
        {b"data": None},
        {b"data": [[300] * 3072] * 2},
        {b"data": np.zeros((2, 3071), np.uint8)},
        {b"data": np.array([Bomb(dict)], dtype=object)},
        # an array larger than memory
        {b"data": Bomb(np._core.multiarray._reconstruct, np.ndarray, (2**50,), b"b")},
    ],
)
def test_batches_of_another_shape_are_refused(tmp_path: Path, changes: dict[bytes, Any]) -> None:
    root = batches(tmp_path / "c")
    good = pickle.loads((root / "data_batch_1").read_bytes())  # noqa: S301 (our own bytes)
    (root / "data_batch_1").write_bytes(pickle.dumps(good | changes))
    with pytest.raises(DataError, match="data_batch_1"):
        load(f"cifar10:{root}")


def test_damaged_batches_are_data_errors_whatever_the_damage(tmp_path: Path) -> None:
    root, draw = batches(tmp_path / "c", count=1), random.Random(0)
    raw = (root / "data_batch_1").read_bytes()
    for name in BATCHES[1:]:  # are missing: an undamaged one is refused as well
        (root / name).unlink()
    for _ in range(300):
        damaged = bytearray(raw[: draw.choice([len(raw), draw.randrange(len(raw))])] or b".")
        for _ in range(3):  # at the front or the end, where the instructions are
            front = draw.randrange(min(200, len(damaged)))
            back = len(damaged) - 1 - draw.randrange(min(60, len(damaged)))
            damaged[draw.choice([front, back])] = draw.randrange(256)
        (root / "data_batch_1").write_bytes(damaged)
        with pytest.raises(DataError):
            load(f"cifar10:{root}")


def test_synthetic_faces_take_the_place_of_their_like_alone(tmp_path: Path) -> None:
    """Somebody's own table beside pictures of the usual names is no folder of ours."""
    mine, ours = tmp_path / "mine", tmp_path / "ours"
    mine.mkdir()
    (mine / "labels.csv").write_text("file,age\nface-1.png,100\n")
    (mine / "face-1.png").write_bytes(b"a photograph")
    with pytest.raises(OutputError, match="was not written by this command"):
        write_faces("synth:n=2,subjects=2", 16, mine, show=False)
    assert (mine / "face-1.png").read_bytes() == b"a photograph"
    for count in (3, 2):
        assert write_faces(f"synth:n={count},subjects=2", 16, ours, show=False) == count
    assert len(load(f"csv:{ours / 'labels.csv'}", size=16)) == 2


def test_the_drawing_is_that_of_its_version() -> None:
    """Where these numbers change, raise `RENDERER`: the pictures' identities go by it."""
    source = SynthSource("n=3,subjects=3,seed=4")
    drawn = [source.decode(sample, 64)[..., 0] for sample in source.listing().samples]
    blocks = np.stack(drawn).reshape(3, 2, 32, 2, 32).mean((2, 4))
    expected = [
        [206.1, 211.7, 191.0, 196.4],
        [178.3, 198.2, 205.0, 210.8],
        [140.6, 140.8, 150.7, 151.3],
    ]
    assert np.allclose(blocks.reshape(3, 4), expected, atol=0.05)
