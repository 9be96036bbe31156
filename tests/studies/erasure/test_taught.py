"""Concepts with an oracle: what is taught, what is kept from it, and how rates are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.studies.erasure import rates as module
from benchmarks.studies.erasure import taught
from PIL import Image

from unplug.core import Estimate, InputError, write_json
from unplug.sdk.learning.data import SynthSource

pytestmark = pytest.mark.study


def test_an_oracle_learns_from_the_same_pictures_but_for_one_thing() -> None:
    whole, less = (
        SynthSource(spec.partition(":")[2].replace("4000", "200"))
        for spec in (taught.spec_of(), taught.spec_of(["clown nose"]))
    )
    differ = [
        whole.params(number).wears
        for number, sample in enumerate(whole.listing().samples)
        if whole.fingerprint(sample) != less.fingerprint(sample)
    ]
    assert len(differ) > 10 and set(differ) == {"clown nose"}
    assert "share" not in taught.spec_of(list(taught.CONCEPTS))
    with pytest.raises(InputError, match="'hat'"):
        taught.spec_of(["hat"])
    assert taught.folder_of(Path("out"), ["poster print", "eye patch"]).name == (
        "without-eye-patch-poster-print"
    )


def test_a_base_that_is_there_is_used_and_another_refused(tmp_path: Path) -> None:
    folder = taught.folder_of(tmp_path, ())
    folder.mkdir()
    record = {
        "data": {"spec": taught.spec_of()},
        "seed": 1,
        "recipe": {"base": taught.RECIPE.to_dict()},
    }
    write_json(folder / "unplug.json", record)
    how: dict[str, Any] = {"device": torch.device("cpu"), "show": False}
    assert taught.train_taught(tmp_path, seed=1, **how) == folder
    with pytest.raises(InputError, match="trained otherwise"):
        taught.train_taught(tmp_path, seed=2, **how)


def test_rates_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base that draws the concept in every second picture where the prompt names it."""
    asked = list[list[str]]()

    def drawn(base: Any, prompts: list[str]) -> list[Any]:
        asked.append(prompts)
        named = prompts[0].endswith(", black glasses")
        return [
            Image.new("RGB", (8, 8), "white" if named and number % 2 else "black")
            for number in range(len(prompts))
        ]

    facts = type("Facts", (), {"recall": Estimate(value=1.0), "false_alarms": Estimate(value=0.0)})
    judge = type("White", (), {"facts": facts})()
    monkeypatch.setattr(module, "drawn", drawn)
    monkeypatch.setattr(
        module,
        "presence_rate",
        lambda pictures, _: Estimate(value=sum(one.getpixel((0, 0))[0] > 0 for one in pictures)),
    )
    rates = module.rates_of(None, {"glasses": judge}, 10)
    assert rates["glasses"].named.value == 5 and rates["glasses"].unnamed.value == 0
    assert [f"{prompt}, black glasses" for prompt in asked[0]] == asked[1]
    assert not any("glasses" in prompt for prompt in asked[0])
