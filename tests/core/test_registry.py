"""The registry: nothing is imported before it is asked for, no name is taken twice, near names are
suggested.
"""

from __future__ import annotations

import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from unplug.core import InputError, Registry, registry


def entry_points(
    monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str], calls: list[str] | None = None
) -> None:
    def found(*, group: str) -> list[EntryPoint]:
        if calls is not None:
            calls.append(group)
        return [EntryPoint(name, value, group) for name, value in points]

    monkeypatch.setattr(registry, "entry_points", found)


def test_a_target_is_imported_on_get_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazy_target_module.py").write_text(textwrap.dedent("class Thing:\n    pass\n"))
    monkeypatch.syspath_prepend(tmp_path)
    things = Registry("thing", {"thing": "lazy_target_module:Thing"})
    assert list(things) == ["thing"] and "thing" in things
    assert "lazy_target_module" not in sys.modules
    assert things.get("thing").__name__ == "Thing"
    assert things.get("thing") is things.get("thing")


def test_objects_are_registered_as_they_are_and_names_are_sorted() -> None:
    things, thing = Registry("thing", {"c": "json:dumps", "a": "json:loads"}), SimpleNamespace()
    things.register("b", thing)
    assert things.get("b") is thing and list(things) == ["a", "b", "c"]


def test_entry_points_are_read_once_and_only_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    entry_points(monkeypatch, ("other", "json:loads"), calls=calls)
    things = Registry("thing", {"one": "json:dumps"}, group="unplug.things")
    assert calls == []
    assert (
        list(things) == ["one", "other"] and "other" in things and things.get("other")("[1]") == [1]
    )
    assert calls == ["unplug.things"]


@pytest.mark.parametrize(
    "points", [[("one", "json:loads")], [("two", "json:loads"), ("two", "json:dumps")]]
)
def test_a_colliding_entry_point_raises_every_time(
    monkeypatch: pytest.MonkeyPatch, points: list[tuple[str, str]]
) -> None:
    entry_points(monkeypatch, ("third", "json:loads"), *points)
    things = Registry("thing", {"one": "json:dumps"}, group="unplug.things")
    for _ in range(2):  # a second use must not go on with half of the entry points
        with pytest.raises(InputError, match="registered already"):
            list(things)


def test_registering_a_taken_name_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points(monkeypatch, ("other", "json:loads"))
    things = Registry("thing", {"one": "json:dumps"}, group="unplug.things")
    for name in ("one", "other"):
        with pytest.raises(InputError, match=f"thing '{name}': this name is registered already"):
            things.register(name, object())


def test_unknown_names_suggest_near_ones_or_list_all() -> None:
    things = Registry("codec", {"litert": "json:dumps", "onnx": "json:loads"})
    with pytest.raises(InputError, match=r"codec 'litrt': no such name\. Did you mean litert\?$"):
        things.get("litrt")
    with pytest.raises(InputError, match=r"Known: litert, onnx\.$"):
        things.get("zzzzzz")
