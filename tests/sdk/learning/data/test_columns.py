"""Tables as companies have them: columns by mapping, ages from dates, consent, folders per user."""

from __future__ import annotations

from pathlib import Path

import pytest

from unplug.core import DataError
from unplug.sdk.learning.data import load_again, whole_spec
from unplug.sdk.learning.data.sources.age_tables import years_between

from .conftest import Draw, assert_reasons, greys, load

ROWS = """\
photo;user_id;taken;born;birth_year;consent;city
u1/a.png;anna;2020-05-03;2000-05-04;2000;yes;Rome
u1/b.png;anna;2020-05-04 09:30:00;2000-05-04;2000;Yes ;Rome
u2/a.png;ben;2001-02-28;2000-02-29;2000;no;Bonn
u2/b.png;ben;2001-03-01T08:00:00Z;2000-02-29;2000;no;Bonn
u3/a.png;cleo;1999;1987.0;1987;;Bonn
"""
MAPPED = "path=photo,subject=user_id,age=taken - born"
NO_AGE = "path=photo,subject=user_id,age="


@pytest.fixture
def table(draw: Draw, tmp_path: Path) -> Path:
    for number, row in enumerate(ROWS.splitlines()[1:]):
        draw(row.partition(";")[0], 10 * number)
    (tmp_path / "photos.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path / "photos.csv"


def test_columns_are_what_the_spec_says(table: Path) -> None:
    data = load(f"csv:{table},{MAPPED}")
    assert {sample.id: (sample.subject, sample.age) for sample in data.samples} == {
        "u1/a.png": ("anna", 19.0),
        "u1/b.png": ("anna", 20.0),
        "u2/a.png": ("ben", 0.0),
        "u2/b.png": ("ben", 1.0),
        "u3/a.png": ("cleo", 12.0),
    }
    assert list(greys(data).values()) == [0, 10, 20, 30, 40]
    assert data.told == ("columns that are not read: 'birth_year', 'consent', 'city'",)
    years = load(f"csv:{table}, PATH = Photo , age=taken-birth_year,subject=folder,attr:City=city")
    assert [sample.age for sample in years.samples] == [20.0, 20.0, 1.0, 1.0, 12.0]
    assert [sample.subject for sample in years.samples] == ["u1", "u1", "u2", "u2", "u3"]
    assert years.samples[0].attributes == {"City": "Rome"}
    assert [sample.age for sample in load(f"csv:{table},{NO_AGE}").samples] == [None] * 5


def test_consent_picks_rows(table: Path) -> None:
    agreed, others = (load(f"csv:{table},{MAPPED},consent{sign}=YES") for sign in ("", "!"))
    assert agreed.ids == ("u1/a.png", "u1/b.png")
    assert others.ids == ("u2/a.png", "u2/b.png", "u3/a.png")
    both = load(f"csv:{table},{MAPPED},consent!=yes,user_id=ben")
    assert both.ids == ("u2/a.png", "u2/b.png")


def test_names_with_commas_and_dashes(table: Path) -> None:
    text = ROWS.replace("photo;", "photo, small;").replace("birth_year", "birth - year")
    odd = table.with_name("a=1, b.csv")
    odd.write_text(text, encoding="utf-8")
    data = load(f"csv:{odd},path=photo, small,subject=user_id,age=taken - birth - year")
    assert [sample.age for sample in data.samples] == [20.0, 20.0, 1.0, 1.0, 12.0]
    plain = table.with_name("b.csv,path=photo")
    plain.write_text("path\nu1/a.png\n")
    assert load(f"csv:{plain}").ids == ("u1/a.png",), "a file that is there is no setting"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("path=photos", r"no column 'photos'; 'photo' may be it; it has 'photo', 'user_id', "),
        ("path=photo", r"'user_id' is not read.*Write csv:.*photos\.csv,path=photo,subject=user_i"),
        ("path=photo,subject=userid", r"no column 'userid' to be 'subject'.*mean 'user_id'\?"),
        ("path=photo,subject=user_id,age=taken - borm", r"not a difference of two.*mean 'born'\?"),
        ("path=photo,subject=user_id,age=taken + born", r"'taken \+ born' to be 'age'.*age=A - B"),
        ("path=photo,subject=user_id,age=2020 - born", r"age=2020 - born is not a difference"),
        (
            "path=photo,subject=user_id,age=__import__('os')",
            r"no column \"__import__\('os'\)\" to be",
        ),
        ("path=photo,subject=user_id,agreed=yes", r"no column 'agreed'; it has 'photo'.*Name one"),
        ("path=photo,subjct=user_id", r"no column 'subjct'.*mean 'subject'\?"),
        (
            "path=photo,subject=user_id,consent=maybe",
            r"no row has consent=maybe\. There are 'no', ",
        ),
        ("path=photo,path=photo", "it says twice which column is 'path'"),
    ],
)
def test_settings_that_fit_no_table_are_one_line(table: Path, settings: str, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        load(f"csv:{table},{settings}", "skip")
    assert "\n" not in str(caught.value)


def test_rows_without_an_age_a_date_or_a_picture_are_named_and_skipped(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {
        "": "line 7: it names no picture",
        "e1.png": "line 8: its 'taken' is empty",
        "e2.png": "line 9: its 'born' is empty",
        "e3.png": "line 10: '0000-00-00' is neither a date (YYYY-MM-DD) nor a year",
        "e4.png": "line 11: '03.05.2020' is neither a date",
        "e5.png": "line 12: -10 years from 1990-01-01 to 1980-05-04 are not plausible",
        "e6.png": "line 13: '2001-02-29' is neither a date",
    }
    rows = [
        ";gus;2020-05-03;2000-05-04",
        "e1.png;gus;;2000-05-04",
        "e2.png;gus;2020-05-03;",
        "e3.png;gus;2020-05-03;0000-00-00",
        "e4.png;gus;03.05.2020;2000-05-04",
        "e5.png;gus;1980-05-04;1990-01-01",
        "e6.png;gus;2001-02-29;1990-01-01",
    ]
    table.write_text(ROWS + "".join(f"{row};;;\n" for row in rows), encoding="utf-8")
    with pytest.raises(DataError, match=r"7 of 12 samples cannot be used.*pass `on_bad=skip`"):
        load(f"csv:{table},{MAPPED}")
    left = load(f"csv:{table},{MAPPED}", "skip")
    assert len(left) == 5
    assert_reasons(left, {name or "a row": why for name, why in bad.items()})
    record = {"data": left.facts}
    assert load_again(f"csv:{table},{MAPPED}", 8, record).digest == left.digest
    assert "goes on without 7 samples as training did" in capsys.readouterr().err
    with pytest.raises(DataError, match="7 of 12"):
        load_again(f"csv:{table},{MAPPED}", 8, {"data": {"unusable": 0}}, show=False)
    plain = table.with_name("plain.csv")
    plain.write_text("path,age\nu1/a.png,20\nu1/b.png,\n")
    assert_reasons(load(f"csv:{plain}", "skip"), {"u1/b.png": "line 3: its 'age' is empty"})
    plain.write_text("path,age\nu1/a.png,\nu1/b.png,\n")
    assert [sample.age for sample in load(f"csv:{plain}").samples] == [None, None]


def test_whole_years_by_the_calendar() -> None:
    assert years_between("2024-02-29", "2000-02-29") == 24.0
    assert years_between("2023-02-28", "2000-02-29") == 22.0
    assert years_between("2023-12-31", "2000-12-31") == years_between("2024-12-30", "2000-12-31")
    assert years_between("2024-01-01", "2000") == years_between("2024", "2000-12-31") == 24.0
    with pytest.raises(ValueError, match="123 years from 1900 to 2023"):
        years_between("2023", "1900")


def test_a_spec_with_settings_means_the_same_everywhere(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    assert whole_spec(f"csv:photos.csv,{MAPPED}") == f"csv:{table},{MAPPED}"
    assert whole_spec("synth:n=4,seed=1") == "synth:n=4,seed=1"
