"""Every data source on a folder made by hand, and CIFAR-10 as published pickles: what is read,
named a problem, or refused.
"""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import DataError, InputError, OutputError
from unplug.sdk.learning.data import (
    SOURCES,
    Dataset,
    SynthSource,
    load_dataset,
    parse_spec,
    write_faces,
)
from unplug.sdk.learning.data.sources.cifar10 import BATCHES

from .conftest import Draw, assert_reasons, load, reasons


def greys(dataset: Dataset) -> dict[str, int]:
    """Id to grey value: pixels and labels belong together or this is wrong."""
    return {
        sample.id: int(dataset.pixels([row])[0, 4, 4, 0])
        for row, sample in enumerate(dataset.samples)
    }


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "synth"])
def test_missing_and_empty_places_are_data_errors(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such (file|folder)"):
        parse_spec(f"{kind}:{tmp_path}/none")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError):
        load(f"{kind}:{empty}")


def test_specs_are_kind_and_argument() -> None:
    with pytest.raises(DataError, match="it has no kind"):
        parse_spec("faces")
    with pytest.raises(DataError, match=r"data spec imagefolder:f\\udcff: it is not UTF-8"):
        parse_spec("imagefolder:f\udcff")
    with pytest.raises(InputError, match="Did you mean utkface"):
        parse_spec("utkfaces:faces")
    for size in (-1, 0, 7):
        with pytest.raises(InputError, match="too small"):
            load("synth:n=1", size=size)
    for size in (15, 2049):
        with pytest.raises(DataError, match=r"16 to 2048 pixels|cannot be drawn"):
            load("synth:n=2", size=size)
    for argument in (
        "n=0",
        "n=x",
        "n=-1",
        "n=²",
        "n=2,subjects=3",
        "subjects=0",
        "m=3",
        "n=9999999",
        "n=" + "9" * 5000,
    ):
        with pytest.raises(DataError):
            SynthSource(argument)


def test_utkface_reads_ages_and_names_what_it_cannot_read(draw: Draw, tmp_path: Path) -> None:
    for name, value in (
        ("29_0_1_2017.png", 29),
        ("deep/0_1_1_x.chip.png", 10),
        ("122_0_0_1.png", 122),
    ):
        draw(f"faces/{name}", value)
    for name in (
        "123_0_1_2.png",
        "1000_0_1_2.png",
        "-5_0_1_2.png",
        "30_1_2.png",
        "x.png",
        "²_0_1_2.png",
        "3.5_0_0_1.png",
    ):
        draw(f"faces/{name}")
    draw("faces/.30_0_0_hidden.png")
    (tmp_path / "faces" / "40_0_0_1.txt").write_text("not an image by its name")
    with pytest.raises(DataError, match=r"7 of 10 samples cannot be used \(first: -5_0_1_2.png"):
        load(f"utkface:{tmp_path}/faces")
    dataset = load(f"utkface:{tmp_path}/faces", "skip")
    ages = {sample.id: sample.age for sample in dataset.samples}
    assert ages == {"122_0_0_1.png": 122.0, "29_0_1_2017.png": 29.0, "deep/0_1_1_x.chip.png": 0.0}
    assert greys(dataset) == {
        "122_0_0_1.png": 122,
        "29_0_1_2017.png": 29,
        "deep/0_1_1_x.chip.png": 10,
    }
    assert len(reasons(dataset)) == 7 and "not plausible" in reasons(dataset)["123_0_1_2.png"]
    assert all(sample.subject is None for sample in dataset.samples)
    draw("wrong/a.png")
    with pytest.raises(DataError, match="of 1 file none can be used"):
        load(f"utkface:{tmp_path}/wrong", "skip")


def test_links_are_followed_and_those_that_lead_nowhere_are_named(
    draw: Draw, tmp_path: Path
) -> None:
    outside = draw("outside/50_0_0_far.png")
    inside = draw("faces/20_0_0_a.png")
    (tmp_path / "faces" / "50_0_0_link.png").symlink_to(outside)
    (tmp_path / "faces" / "21_0_0_inner.png").symlink_to(inside)
    (tmp_path / "faces" / "60_0_0_loop.png").symlink_to(tmp_path / "faces" / "60_0_0_loop.png")
    (tmp_path / "faces" / "70_0_0_gone.png").symlink_to(tmp_path / "none.png")
    dataset = load(f"utkface:{tmp_path}/faces", "skip")
    assert dataset.ids == ("20_0_0_a.png", "21_0_0_inner.png", "50_0_0_link.png")
    assert_reasons(
        dataset,
        {
            "60_0_0_loop.png": "a link in a circle",
            "70_0_0_gone.png": f"leads nowhere (to {tmp_path}/none.png)",
        },
    )
    with pytest.raises(
        DataError,
        match=r"2 of 5 samples cannot be used \(first: 60_0_0_loop.png: it is a link in a circle",
    ):
        load(f"utkface:{tmp_path}/faces")


def mufac(draw: Draw, tmp_path: Path, rows: list[tuple[str, str]]) -> str:
    root = tmp_path / "mufac"
    for part, folder in (("train", "train_images"), ("val", "val_images"), ("test", "test_images")):
        names = [("F0002_AGE_D_1_a1.jpg", "c")] if part != "train" else rows
        lines = [f"{name},{group}" for name, group in names]
        root.mkdir(exist_ok=True)
        (root / f"custom_{part}_dataset.csv").write_text(
            "\n".join(["image_path,age_class", *lines]) + "\n"
        )
        for name, _ in names:
            if name and "/" not in name:
                draw(f"mufac/{folder}/{name}")
    return f"mufac:{root}"


def test_mufac_reads_groups_families_and_partitions(draw: Draw, tmp_path: Path) -> None:
    dataset = load(
        mufac(
            draw,
            tmp_path,
            [("F0001_AGE_M_60_e1.jpg", "a"), ("F0001_AGE_F_5_x.jpg", "h"), ("odd.jpg", "d")],
        )
    )
    rows = {
        sample.id: (sample.age, sample.label, sample.subject, sample.partition)
        for sample in dataset.samples
    }
    assert rows == {
        "train_images/F0001_AGE_M_60_e1.jpg": (3.5, 0, "F0001", "train"),
        "train_images/F0001_AGE_F_5_x.jpg": (74.0, 7, "F0001", "train"),
        "train_images/odd.jpg": (25.5, 3, None, "train"),
        "val_images/F0002_AGE_D_1_a1.jpg": (16.5, 2, "F0002", "validation"),
        "test_images/F0002_AGE_D_1_a1.jpg": (16.5, 2, "F0002", "test"),
    }
    assert dataset.age_edges == (0, 7, 13, 20, 31, 46, 56, 67, 81) and dataset.classes[7] == "67-80"


def test_mufac_names_bad_rows_and_missing_tables(draw: Draw, tmp_path: Path) -> None:
    rows = [
        ("F1_a.jpg", "a"),
        ("F1_b.jpg", "i"),
        ("F1_c.jpg", "ab"),
        ("F1_d.jpg", ""),
        ("../val_images/x.jpg", "a"),
    ]
    dataset = load(mufac(draw, tmp_path, [*rows, ("F1_a.jpg", "b"), ("", "a")]), "skip")
    assert (
        dataset.ids[0] == "train_images/F1_a.jpg"
        and dataset.samples[0].label == 0
        and len(dataset) == 3
    )
    found = reasons(dataset)
    assert {"F1_b.jpg", "F1_c.jpg", "F1_d.jpg"} <= {
        name for name, why in found.items() if "none of a to h" in why
    }
    assert "plain file name" in found["../val_images/x.jpg"]
    assert found["train_images/F1_a.jpg"] == "the id appears twice"
    spec = mufac(draw, tmp_path, [("F1_a.jpg", "a")])
    (tmp_path / "mufac" / "custom_test_dataset.csv").unlink()
    with pytest.raises(DataError, match=r"custom_test_dataset.csv"):
        load(spec)


def test_mucac_reads_three_attributes_and_identities(draw: Draw, tmp_path: Path) -> None:
    def line(name: str, male: int, smiling: int, young: int) -> str:
        values = ["-1"] * 40
        for column, value in (
            (21, male),
            (32, smiling),
            (40, young),
        ):  # CelebA counts attributes from 1
            values[column - 1] = "1" if value else "-1"
        return f"{name} {' '.join(values)}"

    root = tmp_path / "mucac"
    for name, value in (("0.png", 10), ("1.png", 20), ("2.png", 30)):
        draw(f"mucac/CelebA-HQ-img/{name}", value)
    lines = [
        line("0.png", 1, 0, 0),
        line("1.png", 0, 1, 1),
        line("2.png", 0, 0, 0),
        "9.png 1 1",
        line("../x.png", 1, 1, 1),
    ]
    (root / "CelebA-HQ-attribute.txt").write_text(
        "\n".join(["5", "5_o_Clock_Shadow ...", *lines, line("1.png", 1, 1, 1)])
    )
    (root / "CelebA-HQ-identity.txt").write_text("0.png 77\n1.png 12\n\nbroken\n")
    dataset = load(f"mucac:{root}", "skip")
    rows = {
        sample.id: (dataset.classes[sample.label or 0], sample.subject)
        for sample in dataset.samples
    }
    assert rows == {
        "0.png": ("male, not smiling, not young", "77"),
        "1.png": ("not male, smiling, young", "12"),
        "2.png": ("not male, not smiling, not young", None),
    }
    assert greys(dataset) == {"0.png": 10, "1.png": 20, "2.png": 30}
    assert set(reasons(dataset)) == {"9.png", "../x.png", "1.png"}


def test_facesynthetics_and_imagefolder_read_names_and_folders(draw: Draw, tmp_path: Path) -> None:
    for name in ("000000.png", "000001.png", "000000_seg.png"):
        draw(f"fs/{name}")
    (tmp_path / "fs" / "000000_ldmks.txt").write_text("0 0")
    dataset = load(f"facesynthetics:{tmp_path}/fs")
    assert [(sample.id, sample.subject, sample.age) for sample in dataset.samples] == [
        ("000000.png", "000000", None),
        ("000001.png", "000001", None),
    ]
    for name, value in (
        ("dog/a.PNG", 1),
        ("cat/b.jpg", 2),
        ("cat/deep/c.bmp", 3),
        ("loose.webp", 4),
    ):
        draw(f"pets/{name}", value)
    dataset = load(f"imagefolder:{tmp_path}/pets")
    assert dataset.classes == ("cat", "dog")
    assert [(sample.id, sample.label) for sample in dataset.samples] == [
        ("cat/b.jpg", 0),
        ("cat/deep/c.bmp", 0),
        ("dog/a.PNG", 1),
        ("loose.webp", None),
    ]


def table(tmp_path: Path, text: str, encoding: str = "utf-8") -> str:
    (tmp_path / "labels.csv").write_text(text, encoding=encoding)
    return f"csv:{tmp_path}/labels.csv"


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
    assert dataset.classes == ("y", "z") and greys(dataset) == {
        "first": 10,
        "sub/b.png": 20,
        "third": 30,
    }


def test_csv_names_bad_rows_and_goes_on_with_the_others(draw: Draw, tmp_path: Path) -> None:
    good = draw("in/a.png", 10)
    draw("secret.png", 30)
    draw("in/b.png", 20)
    (tmp_path / "in" / "link.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "in" / "loop.png").symlink_to(tmp_path / "in" / "loop.png")
    os.mkfifo(tmp_path / "in" / "pipe.png")
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
    spec = table(
        tmp_path / "in", "path,age\na.png,5\n" + "\n".join(bad) + "\nb.png,6\nlink.png,7\n"
    )
    dataset = load(spec, "skip")
    assert good.is_file() and greys(dataset) == {"a.png": 10, "b.png": 20, "link.png": 30}
    found = reasons(dataset)
    assert len(dataset.problems) == len(bad)
    for row, words in bad.items():
        name = row.rsplit(",", 1)[0]
        assert words in found[name], (name, found[name])


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


def test_synth_is_what_its_spec_says() -> None:
    samples = SynthSource("n=60,subjects=6,seed=1").listing().samples
    assert len({sample.id for sample in samples}) == 60
    for person in range(6):
        ages = [sample.age for sample in samples if sample.subject == f"person-{person}"]
        assert (
            len(ages) == 10
            and max(ages) - min(ages) <= 4.0
            and min(ages) >= 1.0
            and max(ages) <= 85.0
        )  # type: ignore[type-var, operator]
    first, again, other = (load(f"synth:n=3,subjects=2,seed={seed}", size=16) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest
    assert (first.pixels([0, 1, 2]) == again.pixels([0, 1, 2])).all() and (
        first.pixels([0]) != other.pixels([0])
    ).any()
    # a longer run begins with the same pictures
    more = load("synth:n=9,subjects=2,seed=0", size=16)
    assert (more.pixels([0, 1, 2]) == first.pixels([0, 1, 2])).all()


class Bomb:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


def batches(root: Path, count: int = 2, protocol: int = 2, **changes: Any) -> Path:
    """What the published archive holds: a dict of bytes keys, rows of 1,024 red, green and blue
    values.
    """
    root.mkdir(exist_ok=True)
    for number, name in enumerate(BATCHES):
        data = np.zeros((count, 3, 32, 32), np.uint8)
        data[:, 0], data[:, 1, :16], data[:, 2] = 10 * number, 200, np.arange(count)[:, None, None]
        raw = {
            b"data": data.reshape(count, -1),
            b"labels": [(number + row) % 10 for row in range(count)],
            **changes,
        }
        (root / name).write_bytes(pickle.dumps(raw, protocol=protocol))
    return root


@pytest.mark.parametrize("protocol", [2, 4])
def test_batches_are_read_with_partition_class_and_colour(tmp_path: Path, protocol: int) -> None:
    dataset = load_dataset(f"cifar10:{batches(tmp_path / 'c', protocol=protocol)}", 32, show=False)
    assert len(dataset) == 12 and dataset.classes[0] == "airplane" and dataset.classes[9] == "truck"
    third = dataset.samples[5]
    assert (third.id, third.label, third.partition) == ("data_batch_3/00001", 3, "train")
    assert [sample.partition for sample in dataset.samples[-2:]] == ["test", "test"]
    pixels = dataset.pixels([5])[0]
    assert pixels[0, 0].tolist() == [20, 200, 1] and pixels[31, 0].tolist() == [20, 0, 1]


def test_a_tree_is_read_by_its_folders(draw: Draw, tmp_path: Path) -> None:
    for name in (
        "train/cat/0.png",
        "test/dog/0.png",
        "train/car/0.png",
        "valid/cat/0.png",
        "cat/1.png",
        "2.png",
    ):
        draw(f"c/{name}")
    dataset = load_dataset(f"cifar10:{tmp_path}/c", 8, show=False)
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
        (root / "data_batch_2").write_bytes(
            pickle.dumps({b"data": bomb, b"labels": []}, protocol=protocol)
        )
        with pytest.raises(DataError, match="which no CIFAR-10 batch needs"):
            load_dataset(f"cifar10:{root}", 8, show=False)
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
    ],
)
def test_batches_of_another_shape_are_refused(tmp_path: Path, changes: dict[bytes, Any]) -> None:
    root = batches(tmp_path / "c")
    good = pickle.loads((root / "data_batch_1").read_bytes())  # noqa: S301 (our own bytes)
    (root / "data_batch_1").write_bytes(pickle.dumps(good | changes))
    with pytest.raises(DataError, match="data_batch_1"):
        load_dataset(f"cifar10:{root}", 8, show=False)


def test_an_array_larger_than_memory_is_a_data_error(tmp_path: Path) -> None:
    root = batches(tmp_path / "c")
    bomb = Bomb(np._core.multiarray._reconstruct, np.ndarray, (2**50,), b"b")  # type: ignore[attr-defined]
    (root / "data_batch_1").write_bytes(pickle.dumps({b"data": bomb, b"labels": []}))
    with pytest.raises(DataError, match="data_batch_1"):
        load_dataset(f"cifar10:{root}", 8, show=False)


def test_damaged_batches_are_data_errors_whatever_the_damage(tmp_path: Path) -> None:
    root = batches(tmp_path / "c", count=1)
    raw = (root / "data_batch_1").read_bytes()
    for name in BATCHES[1:]:
        (root / name).unlink()
    random.seed(0)
    for _ in range(300):
        damaged = bytearray(raw[: random.choice([len(raw), random.randrange(len(raw))])] or b".")
        for _ in range(3):  # at the front or the end, where the instructions are
            place = random.choice(
                [
                    random.randrange(min(200, len(damaged))),
                    len(damaged) - 1 - random.randrange(min(60, len(damaged))),
                ]
            )
            damaged[place] = random.randrange(256)
        (root / "data_batch_1").write_bytes(damaged)
        with pytest.raises(
            DataError
        ):  # the other batches are missing: an undamaged one is refused as well
            load_dataset(f"cifar10:{root}", 8, show=False)


def test_synthetic_faces_take_the_place_of_their_like_alone(tmp_path: Path) -> None:
    """Somebody's own table beside pictures of the usual names is no folder of ours."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "labels.csv").write_text("file,age\nface-1.png,100\n")
    (mine / "face-1.png").write_bytes(b"a photograph")
    with pytest.raises(OutputError, match="was not written by this command"):
        write_faces("synth:n=2,subjects=2", 16, mine, show=False)
    assert (mine / "face-1.png").read_bytes() == b"a photograph"
    for count in (3, 2):
        assert (
            write_faces(f"synth:n={count},subjects=2", 16, tmp_path / "ours", show=False) == count
        )
    assert len(load_dataset(f"csv:{tmp_path / 'ours' / 'labels.csv'}", 16, show=False)) == 2


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
