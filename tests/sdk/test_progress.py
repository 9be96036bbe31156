"""Steps that Python calls count pictures where somebody looks, and `show` silences them."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from unplug.sdk import audit, load_dataset, make_split, train, unlearn


class Terminal(io.StringIO):
    """Standard error of somebody who looks."""

    def isatty(self) -> bool:
        return True


def journey(folder: Path, **quiet: bool) -> None:
    people = load_dataset("synth:n=60,subjects=20", size=32, **quiet)
    split = make_split(people)
    person = next(sample.subject for sample in people.samples if sample.id in split.train)
    gone = [f"subject:{person}"]
    model = train(people, split, out=folder / "model", size="nano", epochs=2, **quiet)
    without = unlearn(model, people, gone, budget=1.0, out=folder / "without", **quiet)
    audit([without], people, gone, relearn=True, attacks=["loss"], **quiet)


def test_every_bar_counts_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))  # else nothing may be to decode
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    journey(tmp_path)
    told = stream.getvalue()
    totals = {label: int(most) for label, most in re.findall(r"\r(\w+):[^\r]*/(\d+) \[", told)}
    assert set(re.findall(r"\r(\w+): ", told)) >= {"decode", "train", "measure", "forget", "audit"}
    split = make_split(load_dataset("synth:n=60,subjects=20", size=32))
    assert totals["train"] == 2 * len(split.train), "epochs times pictures"
    assert totals["audit"] == 2 * 60, "of the original and of the model without the person"
    assert set(re.findall(r"([a-z]+)/s[\],]", told)) == {"picture"}


def test_the_switch_silences_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    journey(tmp_path, show=False)
    assert stream.getvalue() == ""
