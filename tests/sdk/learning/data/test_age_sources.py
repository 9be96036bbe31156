"""The layouts of face data with ages, each made by hand as it is published: what is read, named a
problem, or refused.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from unplug.core import DataError
from unplug.sdk.learning.data import Dataset, describe, make_split

from .conftest import Draw, load, reasons


def told(dataset: Dataset) -> dict[str, tuple[float | None, str | None, dict[str, str]]]:
    return {
        sample.id: (sample.age, sample.subject, dict(sample.attributes))
        for sample in dataset.samples
    }


def test_utkface_says_sex_and_race_and_leaves_out_what_it_does_not(
    draw: Draw, tmp_path: Path
) -> None:
    expected = {
        "29_0_1_2017.png": {"sex": "male", "race": "Black"},
        "30_1_4_2017.png": {"sex": "female", "race": "Others"},
        "31_1_2017_x.png": {"sex": "female"},
        "32_3_0_2017.png": {"race": "White"},
        "33__2_2017.png": {"race": "Asian"},
        "61_1_20170109142408075.png": {"sex": "female"},
        "39_1_20170116174525125.jpg.chip.png": {"sex": "female"},
    }
    for name in expected:
        draw(f"faces/{name}")
    dataset = load(f"utkface:{tmp_path}/faces")
    assert {sample.id: sample.attributes for sample in dataset.samples} == expected
    assert {sample.age for sample in dataset.samples} == {29, 30, 31, 32, 33, 39, 61}


def test_attributes_of_a_table(draw: Draw, tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        draw(name)
    table = tmp_path / "t.csv"
    table.write_text(
        "path,age,attr:sex,attr: skin ,other\na.png,10,female,IV,x\nb.png,20,,II,y\n"
        "c.png,20-29,male,,z\n"
    )
    dataset = load(f"csv:{table}", on_bad="skip")
    assert told(dataset)["a.png"][2] == {"sex": "female", "skin": "IV"} and told(dataset)["b.png"][
        2
    ] == {"skin": "II"}
    assert reasons(dataset) == {"c.png": "line 4: age 20-29 is a range, not an age in years"}
    assert describe(dataset)["attributes"] == {"sex": {"female": 1}, "skin": {"IV": 1, "II": 1}}
    plain = tmp_path / "plain.csv"
    plain.write_text("path,age\na.png,10\nb.png,20\n")
    assert load(f"csv:{plain}").digest == dataset.digest, "attributes change no digest"
    table.write_text("path,attr:sex\na.png," + "x" * 65 + "\nb.png,y\n")
    assert "64 printable characters" in reasons(load(f"csv:{table}", on_bad="skip"))["a.png"]
    for head in ("path,attr:", "path," + ",".join(f"attr:a{index}" for index in range(17))):
        table.write_text(f"{head}\na.png{',x' * head.count(',')}\n")
        with pytest.raises(DataError, match="attr:NAME are more than 16, or one has no name"):
            load(f"csv:{table}")


def test_agedb_knows_people_so_that_no_split_has_them_twice(draw: Draw, tmp_path: Path) -> None:
    good = ("0_MariaCallas_35_f.png", "1_MariaCallas_41_f.png", "2_Jean_Paul_62_m.png")
    bad = ("3_X_x_f.png", "4_35_f.png", "5_A_30_x.png", "6_B_130_m.png")
    for name in (*good, *bad, "7_C_9_m.png", "8_D_19_m.png", "9_E_29_m.png"):
        draw(f"db/{name}")
    dataset = load(f"agedb:{tmp_path}/db", on_bad="skip")
    assert told(dataset)[good[0]] == (35.0, "MariaCallas", {"sex": "female"})
    assert told(dataset)[good[2]] == (62.0, "Jean_Paul", {"sex": "male"})
    assert set(reasons(dataset)) == set(bad)
    assert make_split(dataset, test=0.3).subject_disjoint


def test_appa_real_takes_the_real_age_and_the_official_parts(draw: Draw, tmp_path: Path) -> None:
    head = "file_name,num_ratings,apparent_age_avg,apparent_age_std,real_age\n"
    for folder, rows in (("train", ["0.jpg", "1.jpg"]), ("valid", ["2.jpg"]), ("test", ["3.jpg"])):
        (tmp_path / f"gt_avg_{folder}.csv").write_text(
            head + "".join(f"{name},30,50.5,3.2,{4 + int(name[0])}\n" for name in rows)
        )
        for name in rows:
            draw(f"{folder}/{name}_face.jpg")
    dataset = load(f"appa-real:{tmp_path}")
    assert {sample.id: (sample.age, sample.partition) for sample in dataset.samples} == {
        "train/0.jpg_face.jpg": (4.0, "train"),
        "train/1.jpg_face.jpg": (5.0, "train"),
        "valid/2.jpg_face.jpg": (6.0, "validation"),
        "test/3.jpg_face.jpg": (7.0, "test"),
    }
    (tmp_path / "gt_avg_test.csv").write_text("file_name,apparent_age_avg\n3.jpg,1\n")
    with pytest.raises(DataError, match="no column 'real_age'"):
        load(f"appa-real:{tmp_path}")


@pytest.mark.parametrize("folder", ["", "fairface-img-margin025-trainval/"])
def test_a_range_of_fairface_is_no_age(draw: Draw, tmp_path: Path, folder: str) -> None:
    (tmp_path / "fairface_label_train.csv").write_text(
        "file,age,gender,race,service_test\ntrain/1.jpg,10-19,Female,East Asian,True\n"
        "train/2.jpg,more than 70,Male,Black,False\n"
        "train/3.jpg,19,Male,Black,False\n../x.jpg,0-2,Male,Black,False\n"
    )
    (tmp_path / "fairface_label_val.csv").write_text(
        "file,age,gender,race,service_test\nval/1.jpg,0-2,,Indian,True\n"
    )
    for name in ("train/1.jpg", "train/2.jpg", "val/1.jpg"):
        draw(f"{folder}{name}")
    dataset = load(f"fairface:{tmp_path}", on_bad="skip")
    assert (
        dataset.age_edges is None
        and np.isnan(dataset.ages).all()
        and [s.label for s in dataset.samples] == [2, 8, 0]
    )
    assert told(dataset)["train/1.jpg"][2] == {"sex": "female", "race": "East Asian"}
    assert (
        told(dataset)["val/1.jpg"][2] == {"race": "Indian"}
        and dataset.samples[2].partition == "test"
    )
    assert (
        "none of its ranges" in reasons(dataset)["train/3.jpg"]
        and "leads out" in reasons(dataset)["../x.jpg"]
    )
    middles = load(f"fairface-midpoints:{tmp_path}", on_bad="skip")
    assert (
        middles.ages.tolist() == [15.0, 80.0, 1.5]
        and middles.age_edges is not None
        and middles.age_edges[-2:] == (70.0, 90.0)
    )


def test_a_face_of_lagenda_is_cut_out_of_its_picture(tmp_path: Path) -> None:
    (tmp_path / "lag_benchmark").mkdir()
    pixels = np.zeros((60, 100, 3), np.uint8)
    pixels[10:30, 20:40], pixels[10:30, 60:80] = (200, 0, 0), (0, 0, 200)
    Image.fromarray(pixels).save(tmp_path / "lag_benchmark" / "a.png")
    head = "img_name,age,gender,face_x0,face_y0,face_x1,face_y1,person_x0,person_y0,person_x1,person_y1\n"
    (tmp_path / "lagenda_annotation.csv").write_text(
        f"{head}lag_benchmark/a.png,10,F,20,10,40,30,0,0,50,60\n"
        "lag_benchmark/a.png,44,M,60,10,80,30,-1,-1,-1,-1\n"
        "lag_benchmark/a.png,-1,-1,1,1,5,5,-1,-1,-1,-1\n"
        "lag_benchmark/a.png,30,M,-1,-1,-1,-1,0,0,50,60\n"
        "lag_benchmark/a.png,30,M,120,10,140,30,0,0,50,60\n"
        "lag_benchmark/a.png,31,M,?,10,140,30,0,0,50,60\n"
        # leads out of the picture, which its makers cut as well
        "lag_benchmark/a.png,50,F,-10,-1,15.0,9.0,0,0,50,60\n"
    )
    dataset = load(f"lagenda:{tmp_path}", on_bad="skip")
    assert [(sample.age, dict(sample.attributes)) for sample in dataset.samples] == [
        (10.0, {"sex": "female"}),
        (44.0, {"sex": "male"}),
        (50.0, {"sex": "female"}),
    ]
    assert dataset.pixels([2])[0].max() == 0
    assert dataset.pixels([0])[0].mean(axis=(0, 1)).round().tolist() == [200, 0, 0]
    assert dataset.pixels([1])[0].mean(axis=(0, 1)).round().tolist() == [0, 0, 200]
    assert sorted(why[:14] for why in reasons(dataset).values()) == [
        "it has no box ",
        "its box of a f",
        "of the box 120",
    ]


def matlab(
    table: Path, rows: list[tuple[float, float, str, float, str, float, float]], name: str = "wiki"
) -> None:
    """A file as the data set has it: one struct whose fields are rows, text in cells."""
    columns: dict[str, Any] = {
        "dob": np.array([[row[0] for row in rows]]),
        "photo_taken": np.array([[row[1] for row in rows]]),
        "full_path": _cells([row[2] for row in rows]),
        "gender": np.array([[row[3] for row in rows]]),
        "name": _cells([row[4] for row in rows]),
        "face_location": _cells([row[2] for row in rows]),
        "face_score": np.array([[row[5] for row in rows]]),
        "second_face_score": np.array([[row[6] for row in rows]]),
    }
    savemat(table, {name: columns}, do_compression=True)


def _cells(texts: list[str]) -> np.ndarray:
    cells = np.empty((1, len(texts)), dtype=object)
    cells[0, :] = texts
    return cells


def test_imdb_wiki_counts_years_and_refuses_pictures_of_two(draw: Draw, tmp_path: Path) -> None:
    born, nan = float(date(1990, 8, 1).toordinal() + 366), float("nan")
    early = float(date(1990, 3, 1).toordinal() + 366)
    matlab(
        tmp_path / "wiki.mat",
        [
            (born, 2010, "00/a.png", 1, "Ann O", 3.1, nan),
            (early, 2010, "00/b.png", 0, "Bo", 2.0, nan),
            (born, 2010, "00/c.png", nan, "Ann O", 3.0, 2.0),
            (born, 2010, "00/d.png", 1, "D", -np.inf, nan),
            (born, 1980, "00/e.png", 1, "E", 1.0, nan),
            (born, 2010, "../f.png", 1, "F", 1.0, nan),
            (born, 2010, "00/g.png", nan, "", 1.0, nan),
        ],
    )
    for name in ("a", "b", "c", "d", "e", "g"):
        draw(f"00/{name}.png")
    dataset = load(f"imdb-wiki:{tmp_path}", on_bad="skip")
    assert told(dataset) == {
        "00/a.png": (19.0, "Ann O", {"sex": "male"}),
        "00/b.png": (20.0, "Bo", {"sex": "female"}),
        "00/g.png": (19.0, None, {}),
    }
    assert {name: why[:9] for name, why in reasons(dataset).items()} == {
        "00/c.png": "two faces",
        "00/d.png": "no face w",
        "00/e.png": "age -11 i",
        "../f.png": "the path ",
    }
    for damaged in (
        b"",
        b"MATLAB 5.0 MAT-file" + b"\0" * 200,
        (tmp_path / "wiki.mat").read_bytes()[:300],
    ):
        (tmp_path / "wiki.mat").write_bytes(damaged)
        with pytest.raises(DataError, match="not a table of IMDB-WIKI"):
            load(f"imdb-wiki:{tmp_path}")
