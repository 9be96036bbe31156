"""Tables that other programs write: what they say of who is who is read, told or refused with its
line.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sdk.learning.data.conftest import CASES, Draw, load, reasons

from unplug.core import DataError
from unplug.sdk.learning.data import describe, make_split
from unplug.sdk.learning.data.sources.age_tables import age_of, near_column

ROWS = "1.png,20,anna\n2.png,21,anna\n3.png,40,ben\n4.png,41,ben\n5.png,60,cleo\n6.png,61,cleo\n"
SIX = {
    f"{number}.png": name
    for number, name in enumerate(["anna", "anna", "ben", "ben", "cleo", "cleo"], 1)
}


@pytest.fixture
def spec(draw: Draw, tmp_path: Path) -> str:
    for number in range(1, 7):
        draw(f"{number}.png", 10 * number)
    return f"csv:{tmp_path}/t.csv"


def write(spec: str, text: str | bytes, encoding: str = "utf-8") -> None:
    Path(spec.removeprefix("csv:")).write_bytes(
        text if isinstance(text, bytes) else text.encode(encoding)
    )


def people(spec: str) -> dict[str, str | None]:
    return {sample.id: sample.subject for sample in load(spec).samples}


@pytest.mark.parametrize(
    "raw",
    [
        (CASES / "csv-header" / "blank.csv").read_bytes(),
        (CASES / "csv-header" / "case.csv").read_bytes(),
        ("\ufeffPATH , Age,\u200bSUBJECT\n" + ROWS).encode(),
        (
            "path;age;subject\r\n" + ROWS.replace(",", ";")
        ).encode(),  # a spreadsheet in most of Europe
        ("sep=;\npath;age;subject\n" + ROWS.replace(",", ";")).encode(),
        ("path\tage\tsubject\n" + ROWS.replace(",", "\t")).encode("utf-16"),  # "Unicode text"
        ("path,age,subject\n" + ROWS + ",,\n,,\n").encode(),
        ("path,age,subject\n" + ROWS).replace("\n", "\r").encode(),  # old Macs
    ],
)
def test_the_column_of_people_is_found(spec: str, raw: bytes) -> None:
    write(spec, raw)
    assert people(spec) == SIX
    assert make_split(load(spec), test=0.3, validation=0.3).subject_disjoint, (
        "nobody is on two sides"
    )


@pytest.mark.parametrize(
    "column",
    ["Person", "name", "identity", "user_id", "Subject ID", "subjekt", "personID", "Full Name"],
)
def test_a_column_that_nearly_is_one_of_ours_is_refused_by_its_name(spec: str, column: str) -> None:
    write(spec, f"path,age,{column}\n{ROWS}")
    with pytest.raises(
        DataError,
        match=rf"its column '{column}' is not read, and may be what is called 'subject' here",
    ):
        load(spec, "skip")


def test_columns_that_are_not_read_are_told(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        spec,
        "path,age,camera,file size\n"
        + ROWS.replace("anna", "x,1").replace("ben", "x,2").replace("cleo", "y,3"),
    )
    told = (
        "columns that are not read: 'camera', 'file size'; none says who is in a picture "
        "('subject')"
    )
    assert load(spec).told == (told,) and describe(load(spec))["told"] == [told]
    assert near_column(["sex", "file_name", "agent", "page"], "subject") is None
    assert (
        near_column(["page", "Age (years)"], "age") == "Age (years)"
        and near_column(["split"], "partition") == "split"
    )
    write(spec, "Datei,age,subject\n" + ROWS)
    with pytest.raises(DataError, match="no column 'path'"):
        load(spec)
    write(spec, "File Name,age,subject\n" + ROWS)
    with pytest.raises(DataError, match="no column 'path'; 'File Name' may be it"):
        load(spec)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (
            (CASES / "csv-surplus-cells" / "names.csv").read_bytes(),
            "line 2 has 4 cells and the first line 3",
        ),
        ((CASES / "csv-surplus-cells" / "twice.csv").read_bytes(), "line 1 has two columns 'age'"),
        (b"path,age,subject, Subject \n1.png,20,anna,ben\n", "line 1 has two columns 'subject'"),
        ("path,age\n1.png,20\n".encode("utf-16-le"), "it holds NUL characters, as UTF-16"),
        (
            b"path,age,subject\n1.png,20,anna\n\n2.png,ben\n",
            "line 4 has 2 cells and the first line 3",
        ),
        (
            b'path,age,subject\n1.png,20,anna\n2.png,41,"ben\n3.png,62,cleo\n',
            "begins on line 3 .* a quote may be missing",
        ),
        (b'path,age,subject\n1.png,20,"Doe" Anna\n', "begins on line 2 .* a quote may be missing"),
        (
            b"path,age,subject\n1.png,20,5,anna\n",
            "line 2 has 4 cells",
        ),  # a decimal comma without quotes
        (b"PK\x03\x04...", "spreadsheet's own file"),
        (
            "path,age,subject\n1.png,20,José\n".encode("cp1252"),
            r"not UTF-8 text \(byte 0xe9 .*Save it as UTF-8 CSV",
        ),
    ],
)
def test_cells_that_no_column_explains_are_refused_with_their_line(
    spec: str, raw: bytes, why: str
) -> None:
    write(spec, raw)
    with pytest.raises(DataError, match=why):
        load(spec, "skip")


def test_a_name_over_two_lines_is_no_name(spec: str) -> None:
    write(spec, 'path,age,subject\n1.png,20,"anna\n2.png,21,ben"\n3.png,40,cleo\n')
    left = load(spec, "skip")
    assert (
        left.ids == ("3.png",)
        and "control character: a quote may be missing" in reasons(left)["1.png"]
    )


def test_the_tables_of_published_data_are_read_by_the_same_rules(
    draw: Draw, tmp_path: Path
) -> None:
    for part in ("train", "valid", "test"):
        draw(f"appa/{part}/1.jpg_face.jpg")
        (tmp_path / "appa" / f"gt_avg_{part}.csv").write_text("File_Name;Real_Age\n1.jpg;41,75\n")
    assert [sample.age for sample in load(f"appa-real:{tmp_path}/appa").samples] == [41.75] * 3
    (tmp_path / "appa" / "gt_avg_test.csv").write_text("file_name,real_age\n1.jpg,41,75\n")
    with pytest.raises(DataError, match=r"gt_avg_test\.csv: line 2 has 3 cells"):
        load(f"appa-real:{tmp_path}/appa")
    for part, name in (("train", "train/1.jpg"), ("val", "val/1.jpg")):
        draw(f"fair/{name}")
        (tmp_path / "fair" / f"fairface_label_{part}.csv").write_text(
            f"file\tAge\tgender\n{name}\t20-29\tMale\n"
        )
    assert len(load(f"fairface:{tmp_path}/fair")) == 2


@pytest.mark.parametrize(
    ("text", "comma", "age"), [("20,5", False, 20.5), ("20,75", True, 20.75), ("7,0", False, 7.0)]
)
def test_decimal_commas(text: str, comma: bool, age: float) -> None:
    assert age_of(text, comma=comma) == age


@pytest.mark.parametrize("text", ["20,25", "(25, 32)", "25,32"])
def test_what_may_be_a_range_is_named_for_what_it_is(text: str) -> None:
    with pytest.raises(ValueError, match="is a range"):
        age_of(text)


@pytest.mark.parametrize(
    "word", ["NaN", "NA", "N/A", "#N/A", "null", "None", "unknown", "-", "?", "<NA>", " nan "]
)
def test_words_for_nobody_are_nobody_and_are_told(spec: str, word: str) -> None:
    write(spec, f"path,age,subject\n1.png,20,{word}\n2.png,21,{word}\n3.png,40,ben\n")
    dataset = load(spec)
    assert [sample.subject for sample in dataset.samples] == [None, None, "ben"]
    (line,) = dataset.told
    assert f"{word.strip()!r} (line 2) stands for nobody: 2 pictures" in line


def test_records_of_captions_are_read_as_tables_are(draw: Draw, tmp_path: Path) -> None:
    records = [
        {"file_name": "1.png", "text": "a face", " Subject": "anna"},
        {"file_name": "2.png", "text": "a face", "subject": "unknown"},
        {"file_name": "3.png", "text": "a face", "subject": float("nan")},
        {"file_name": "4.png", "text": "a face", "subject": "1,23E+11"},
        {"file_name": "5.png", "text": "a face", "subject": "a", "Subject": "b"},
    ]
    for number in range(1, 6):
        draw(f"{number}.png")
    (tmp_path / "metadata.jsonl").write_text("\n".join(map(json.dumps, records)))
    dataset = load(f"captions:{tmp_path}", "skip")
    assert [sample.subject for sample in dataset.samples] == ["anna", None, None]
    assert (
        "metadata.jsonl:4: subject '1,23E+11': a spreadsheet rounded it"
        in reasons(dataset)["4.png"]
    )
    assert "(metadata.jsonl:2) stands for nobody" in dataset.told[0]
    (tmp_path / "metadata.jsonl").write_text(
        json.dumps({"file_name": "1.png", "text": "a face", "person": "anna"})
    )
    assert load(f"captions:{tmp_path}", "skip").told == (
        "'person' is not read: who is in a picture is called 'subject' here",
    )


ROUNDED, DATED = "a spreadsheet rounded it", "made a date of it"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("1.00012E+11", f"{ROUNDED}; different people may have become one"),
        ('"1,23E+11"', ROUNDED),
        ("1.0E11", ROUNDED),  # as Java writes it
        ("1e+05", ROUNDED),  # as R writes it
        ("12345678901234568.0", ROUNDED),  # as pandas writes a column that has gaps
        ("01-Mar", DATED),
        ("1-Mrz", DATED),
        ("2026-03-01 00:00:00", DATED),
        ("3/1/2026", DATED),
        ("#NAME?", "spreadsheet's error"),
        ("#REF!", "spreadsheet's error"),
        ("########", "spreadsheet's error"),
        ("=A2&B2", "spreadsheet's formula"),
    ],
)
def test_what_a_spreadsheet_did_to_names_is_refused_with_its_line(
    spec: str, name: str, why: str
) -> None:
    write(spec, f"path,age,subject\n1.png,20,ben\n2.png,21,{name}\n")
    with pytest.raises(DataError, match=r"1 of 2 samples .*2\.png: line 3: subject"):
        load(spec)
    left = load(spec, "skip")
    assert left.ids == ("1.png",) and why in reasons(left)["2.png"]


def test_ids_that_a_spreadsheet_rounded_are_refused_too(spec: str) -> None:
    write(spec, "path,age,id\n1.png,20,1.00012E+11\n2.png,21,E11\n3.png,22,1e5\n")
    left = load(spec, "skip")
    assert (
        left.ids == ("E11", "1e5")
        and "line 2: id '1.00012E+11': a spreadsheet rounded" in reasons(left)["1.00012E+11"]
    )


@pytest.mark.long
def test_the_case_of_twenty_people_whom_a_spreadsheet_made_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import runpy

    from unplug.sdk.learning.data import write_faces

    write_faces("synth:n=60,subjects=20,seed=0", 48, tmp_path / "faces", show=False)
    monkeypatch.chdir(tmp_path / "faces")
    runpy.run_path(str(CASES / "csv-scientific-ids" / "make.py"))
    with pytest.raises(
        DataError,
        match=r"60 of 60 samples .*face-00.png: line 2: subject '1.00012E\+11': a spreadsheet",
    ):
        load("csv:excel.csv", "skip")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            ["123.0", "124.0"],
            "'123.0' (line 2) looks as if a program had added to it: requests must name it so; 1 "
            "others too",
        ),
        (["123.0", "123"], "'123.0' (line 2) and '123' (line 3) differ only in"),
        (["7", "007"], "'7' (line 2) and '007' (line 3) differ only in"),
        (["Anna", "anna"], "'Anna' (line 2) and 'anna' (line 3) differ only in capital letters"),
        (["anna", "an\u200bna"], "'an\\u200bna' (line 3) differ only in"),
        (["\uff21nna", "Anna"], "differ only in"),
        (["Anna Doe", "Anna\u00a0Doe"], "differ only in"),
        (
            ["1234567890123450000", "1234567890123460000"],
            "(2) end in zeros, as a spreadsheet rounds them",
        ),
        (["Jos\u00e9", "Jose\u0301"], "is written in 2 Unicode forms: all are one person"),
    ],
)
def test_what_may_be_a_programs_doing_is_told(spec: str, names: list[str], told: str) -> None:
    write(
        spec,
        "path,age,subject\n" + "".join(f"{n}.png,20,{name}\n" for n, name in enumerate(names, 1)),
    )
    dataset = load(spec)
    assert any(told in line for line in dataset.told), dataset.told
    one = names[0].startswith("Jos")
    assert len({sample.subject for sample in dataset.samples}) == (1 if one else len(set(names)))


def test_names_that_nothing_is_wrong_with_are_not_spoken_of(spec: str) -> None:
    names = ["E11", "O'Brien", "100012345678", "F0001", "May", "12-34", "1234567890123456"]
    for name in names:
        write(spec, f"path,age,subject\n1.png,20,{name}\n")
        assert load(spec).told == () and people(spec) == {"1.png": name}


def test_what_is_told_goes_to_standard_error_once(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from unplug.sdk.learning.data import load_dataset

    write(spec, "path,age,subject\n1.png,20,NaN\n")
    for _ in range(2):
        load_dataset(spec, 8, show=True)
    assert (
        capsys.readouterr().err.count(f"note: {spec}: subject 'NaN' (line 2) stands for nobody")
        == 1
    )
