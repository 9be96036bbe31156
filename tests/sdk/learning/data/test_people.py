"""What the cache keeps of people: told by data and by name, and deleted so."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main
from unplug.sdk.learning.data import held_in_cache, load_dataset

Draw = Callable[..., Path]


def unplug(*args: object, code: int = 0) -> Any:
    result = CliRunner().invoke(main, ["cache", *map(str, args), "--json"])
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def two(draw: Draw, tmp_path: Path) -> tuple[str, str]:
    """Two tables in the cache: anna and bert, and bert's other picture with carla's."""
    for number in range(4):
        draw(f"pets/{number}.png", 10 * number)
    for name, rows in {
        "one": ("0.png,anna", "1.png,bert"),
        "two": ("2.png,bert", "3.png,carla"),
    }.items():
        (tmp_path / "pets" / f"{name}.csv").write_text("\n".join(["path,subject", *rows, ""]))
    specs = tuple(f"csv:{tmp_path}/pets/{name}.csv" for name in ("one", "two"))
    for spec in specs:
        load_dataset(spec, 8, show=False)
    return specs[0], specs[1]


def test_info_tells_what_is_kept_of_which_data(two: tuple[str, str]) -> None:
    answer = unplug("info")
    facts = {entry["data"]: entry for entry in answer["entries"]}
    assert (
        set(facts) == set(two)
        and answer["foreign"] == 0
        and answer["bytes"] == sum(fact["bytes"] for fact in facts.values())
    )
    for fact in facts.values():
        assert (
            fact["kind"] == "pictures, 8 px" and fact["samples"] == 2 and fact["modes"] == ["0600"]
        )
        assert (
            sorted(Path(file).suffix for file in fact["files"]) == [".json", ".npy", ".people"]
            and fact["since"][:2] == "20"
        )
    text = CliRunner().invoke(main, ["cache", "info"]).stdout
    assert two[0] in text and "0600" in text and "2 entries" in text


@pytest.mark.parametrize(
    ("names", "gone"),
    [
        ("subject:anna\n", 1),
        ("subject:bert\n", 2),
        ("3.png\n", 1),
        ('{"subjects": ["carla"]}', 1),
        ("subject:dora\n", 0),
    ],
)
def test_people_are_purged_by_name(
    two: tuple[str, str], tmp_path: Path, names: str, gone: int
) -> None:
    (tmp_path / "forget.txt").write_text(names)
    answer = unplug("purge", "--forget", tmp_path / "forget.txt", "--yes")
    assert (len(answer["deleted"]), answer["left"]) == (gone, 2 - gone) and len(
        held_in_cache()
    ) == 2 - gone
    assert not any(Path(file).exists() for entry in answer["deleted"] for file in entry["files"])


def test_data_are_purged_by_their_spec_also_when_they_are_deleted(
    two: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Path(two[0].removeprefix("csv:"))
    monkeypatch.chdir(table.parent)
    table.unlink()
    assert unplug("purge", "--data", "csv:one.csv", "--yes")["left"] == 1
    assert [item.data for item in held_in_cache()] == [two[1]]


def test_everything_goes_but_what_is_not_ours(two: tuple[str, str], tmp_path: Path) -> None:
    cache = Path(os.environ["UNPLUG_CACHE"])
    (cache / "letter.txt").write_text("mine")
    (tmp_path / "precious").write_text("precious")
    (cache / f"{'ab' * 16}-8px.npy").symlink_to(tmp_path / "precious")
    answer = unplug("purge", "--all", "--yes")
    assert len(answer["deleted"]) == 2 and answer["left"] == 0
    assert sorted(path.name for path in cache.iterdir()) == [f"{'ab' * 16}-8px.npy", "letter.txt"]
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "it needs to know what to delete"),
        (("--all", "--data", "synth:n=3"), "it needs to know what to delete"),
        (("--all",), r"2 entries \(.*B\) to delete, and there is no terminal to ask on. Add --yes"),
        (("--forget", "/nowhere", "--yes"), "No such file"),
    ],
)
def test_it_deletes_nothing_unasked(
    two: tuple[str, str], args: tuple[str, ...], message: str
) -> None:
    result = CliRunner().invoke(main, ["cache", "purge", *args])
    assert result.exit_code == 2 and result.stderr.startswith("error: ")
    assert re.search(message, result.stderr), result.stderr
    assert len(held_in_cache()) == 2


def test_a_cache_of_an_older_version_is_named_at_its_next_use(two: tuple[str, str]) -> None:
    cache = Path(os.environ["UNPLUG_CACHE"])
    for note in cache.glob("*.people"):
        note.unlink()
    assert [item.data for item in held_in_cache()] == [None, None]
    load_dataset(two[0], 8, show=False)
    assert [item.data for item in held_in_cache()] == [None, two[0]]
