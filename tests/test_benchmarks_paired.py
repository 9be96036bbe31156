"""`benchmarks.overhead.paired` stops by the interval's width, gives every control every place, and
goes on from its file.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.overhead import paired
from benchmarks.overhead.names import BARE, CONTROLNET, PLUGIN
from benchmarks.overhead.paired import FEWEST, ORDERS, draw_rounds, markdown, narrow, rounds_of
from click.testing import CliRunner

from unplug.core import read_json

CPU = torch.device("cpu")


class Machine:
    """A clock that images turn on; the plugin's image takes `plugin` times the base's."""

    def __init__(self, plugin: Callable[[int], float]) -> None:
        self.now, self.drawn, self.saved = 0.0, list[str](), 0
        rounds = itertools.count()
        self.images: dict[str, Callable[[], object]] = {
            BARE: lambda: self.take(BARE, 1.0),
            CONTROLNET: lambda: self.take(CONTROLNET, 1.5),
            PLUGIN: lambda: self.take(PLUGIN, plugin(next(rounds))),
        }

    def take(self, name: str, seconds: float) -> None:
        self.drawn.append(name)
        self.now += seconds

    def save(self) -> None:
        self.saved += 1

    def draw(self, row: dict[str, Any], most: int = 100, until: float = 1e9) -> dict[str, Any]:
        draw_rounds(row, self.images, CPU, most=most, until=until, save=self.save, clock=self.read)
        return row

    def read(self) -> float:
        return self.now


def new() -> dict[str, Any]:
    return {"steps": 2, "seconds": {name: [] for name in ORDERS[0]}, "load_average": []}


def test_a_row_ends_when_its_interval_is_narrow_and_each_round_is_saved() -> None:
    machine = Machine(lambda number: 1.004 + 0.0001 * (number % 2))
    row = machine.draw(new())
    assert rounds_of(row) == FEWEST == machine.saved == len(row["load_average"]) and narrow(row)
    assert row["seconds"][PLUGIN][:2] == pytest.approx([1.004, 1.0041])
    assert machine.draw(row) is row and machine.saved == FEWEST, "nothing is left to do"


def test_noise_draws_all_rounds_and_a_minute_that_is_over_none() -> None:
    machine = Machine(lambda number: 1.004 + 0.1 * (-1) ** number)
    row = machine.draw(new(), most=40)
    assert rounds_of(row) == 40 and not narrow(row)
    assert rounds_of(machine.draw(row, most=50, until=machine.now)) == 40
    assert rounds_of(machine.draw(row, most=50)) == 50, "it goes on where it stopped"


def test_six_rounds_give_every_control_every_place_twice() -> None:
    machine = Machine(lambda number: 1.0 + number)
    machine.draw(new(), most=6)
    places = Counter((name, place % 3) for place, name in enumerate(machine.drawn))
    assert set(places.values()) == {2} and len(places) == 9


@pytest.mark.long
def test_a_quick_run_is_gone_on_with_and_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.overhead.measure.REPEAT_S", 0.0)
    out = tmp_path / "pairs.json"
    words = ["--quick", "--device", "cpu", "--out", str(out), "--steps", "1"]
    first = CliRunner().invoke(paired.main, [*words, "--rounds", "1"], catch_exceptions=False)
    assert first.exit_code == 0 and "| 1 | 1 | cannot tell | " in first.output
    begun = read_json(out)
    CliRunner().invoke(paired.main, [*words, "--rounds", "3"], catch_exceptions=False)
    facts = read_json(out)
    (row,) = facts["rows"]
    assert rounds_of(row) == 3 and facts["parts"] == begun["parts"]
    assert row["seconds"][BARE][:1] == begun["rows"][0]["seconds"][BARE]
    assert row["overhead"] == paired.overheads(row, facts["parts"]), "it follows from the seconds"
    assert str(tmp_path) not in facts["command"] and markdown(facts).count("\n") == 2
    before = out.read_bytes()
    other = CliRunner().invoke(paired.main, [*words, "--dtype", "bf16"])
    assert other.exit_code == 2 and "another measurement" in other.output
    assert out.read_bytes() == before
