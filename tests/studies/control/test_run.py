"""A comparison that is really run on a base of random weights: what it says, and how it goes on
after a kill.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.studies.control import (
    ComparisonReport,
    Row,
    Setup,
    compare_controls,
    contenders,
    costs,
    pictures,
    prepare,
    run,
)
from benchmarks.studies.control.run import NO_RATIO
from benchmarks.studies.control.setup import LEARNING_RATES
from PIL import Image

from unplug.core import CheckpointError
from unplug.sdk.learning.data import load_split, parse_spec

from .conftest import CPU, PICTURES, QUICK, SIZE, SPEC, Ask, Made

pytestmark = pytest.mark.study

CONTROLS = ("controlnet", "t2i-adapter", "plugin")
FLOORS = ("source", "shuffled", "autoencoder")


def forbid(name: str) -> Any:
    return lambda *_, **__: pytest.fail(f"{name} ran again")


def again(request: Any) -> ComparisonReport:
    return compare_controls(request, device=CPU, show=False)


@pytest.fixture
def copied(made: Made, ask: Ask, tmp_path: Path) -> Any:
    """The request of `made` in a folder of its own."""
    shutil.copytree(made.out, tmp_path / "copy")
    return ask(tmp_path / "copy")


def folder_of(out: Path, name: str) -> Path:
    return out / "controls" / f"{name}-seed0-lr{LEARNING_RATES[name]:g}"


# What it says


def mean_of(row: Row, name: str) -> float:
    return float(np.mean([value for one in row.raw[name] for value in one if value is not None]))


def test_rows_in_order_with_what_belongs_to_each(made: Made) -> None:
    report = made.report
    assert [row.name for row in report.rows] == [*FLOORS, "base", *CONTROLS]
    assert [row.role for row in report.rows] == ["floor"] * 3 + ["base"] + ["control"] * 3
    for row in report.rows:
        assert (
            ("loss" in row.measures)
            == (row.speed is not None)
            == (row.macs is not None)
            == (row.role != "floor")
        )
        assert {
            "edge_f1",
            "edge_precision",
            "edge_recall",
            "frechet",
            "frechet_finite",
            "kid",
            "consistency",
        } <= row.measures.keys()
        assert len(row.trainings) == (row.role == "control")
    assert {row.name: row.trainings[0].lr for row in report.rows[4:]} == dict(LEARNING_RATES)
    assert report.row("controlnet").every_step and not report.row("plugin").every_step
    assert report.row("controlnet").macs > report.row("plugin").macs > report.row("base").macs


def test_values_are_the_means_of_the_raw_numbers(made: Made) -> None:
    for row in made.report.rows:
        for name in (
            "edge_f1",
            "edge_precision",
            "edge_recall",
            *(["loss"] if row.role != "floor" else []),
        ):
            assert row.measures[name].value == pytest.approx(mean_of(row, name))
            assert row.measures[name].pictures == PICTURES and len(row.raw[name][0]) == PICTURES
        named = [
            value
            for name, one in row.raw.items()
            if name.startswith("attribute:")
            for value in one[0]
            if value is not None
        ]
        assert row.measures["consistency"].value == pytest.approx(np.mean(named))
        for name, item in row.measures.items():
            assert item.low is None or item.low <= item.high, name


def test_differences_are_from_controlnet_and_paired(made: Made) -> None:
    report = made.report
    assert report.reference == "controlnet"
    own = report.row("controlnet")
    assert (
        all(item.difference is None for item in own.measures.values())
        and "frechet_ratio" not in own.measures
    )
    for name in ("base", "t2i-adapter", "plugin"):
        row = report.row(name)
        for number in ("edge_f1", "loss", "frechet", "kid", "consistency"):
            gap = row.measures[number].difference
            assert gap is not None
            assert gap.value == pytest.approx(
                row.measures[number].value - own.measures[number].value, abs=1e-9
            )
        if "frechet_ratio" in row.measures:
            ratio = row.measures["frechet_ratio"].value
            assert ratio == pytest.approx(
                row.measures["frechet"].value / own.measures["frechet"].value
            )
        else:
            assert row.missing["frechet_ratio"] == NO_RATIO
    assert "frechet_ratio" not in report.row("source").measures


def test_other_samples_pictures_are_the_zero_of_every_control_number(made: Made) -> None:
    """The same pictures in another order: real ones, that follow another condition and other
    prompts.
    """
    source, other = made.report.row("source"), made.report.row("shuffled")
    assert source.measures["edge_f1"].value == source.measures["edge_f1"].low == 1.0
    assert other.measures["edge_f1"].value < 0.5 and other.raw["edge_f1"] != source.raw["edge_f1"]
    assert other.measures["frechet_finite"].value == pytest.approx(
        source.measures["frechet_finite"].value
    )
    assert other.measures["kid"].value == pytest.approx(source.measures["kid"].value)


@pytest.mark.long
def test_a_second_call_loads_each_network_once_and_does_nothing_again(
    copied: Any, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources are not looked at twice: their edges are the conditions; four ways to draw and the
    autoencoder remain.
    """
    loaded, whole = list[str](), contenders.load_weights
    monkeypatch.setattr(
        contenders,
        "load_weights",
        lambda *given: loaded.append(given[1].parent.name) or whole(*given),
    )
    seen, judge = list[int](), run.control_error

    def spy(setup: Setup) -> Any:
        error = judge(setup)
        return replace(
            error, see=lambda pictures: seen.append(len(pictures)) or error.see(pictures)
        )

    monkeypatch.setattr(run, "control_error", spy)
    for module, name in (
        (contenders, "fit_control"),
        (pictures, "generate"),
        (costs, "time_pictures"),
    ):
        monkeypatch.setattr(module, name, forbid(name))
    assert again(copied) == made.report
    assert (
        sorted(loaded) == sorted(folder_of(copied.out, name).name for name in CONTROLS)
        and seen == [PICTURES] * 5
    )


def test_held_out_pictures_were_not_trained_on(made: Made) -> None:
    split = load_split(made.request.split)
    assert {picture.id for picture in made.report.pictures} <= set(split.test)
    assert made.report.data["train"] == len(split.train)
    source = parse_spec(SPEC).listing().samples
    subject_of = {sample.id: sample.subject for sample in source}
    drawn = [subject_of[picture.id] for picture in made.report.pictures]
    assert len(set(drawn)) == PICTURES  # one picture a subject while they last
    assert made.report.data["real"] == sum(
        subject_of[name] not in drawn for name in (*split.test, *split.validation)
    )


def test_the_files_of_a_comparison(made: Made) -> None:
    sheet = Image.open(made.out / "compare.png")
    assert sheet.height > 5 * 160 and sheet.width > PICTURES * 160
    for name in CONTROLS:
        folder = folder_of(made.out, name)
        assert (folder / "diffusion_pytorch_model.safetensors").is_file() and (
            folder / "unplug.json"
        ).is_file()
        pixels = np.load(made.out / "pictures" / f"{name}-seed0.npy")
        assert pixels.shape == (PICTURES, SIZE, SIZE, 3)
    assert not list(made.out.rglob("*.training"))
    text = (made.out / "compare.json").read_text()  # no place on this machine
    assert (
        str(made.out.parent) not in text
        and made.request.base not in text
        and '"name": "tiny"' in text
    )


# Going on


@pytest.mark.long
def test_more_pictures_retrain_nothing(
    copied: Any, ask: Ask, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contenders, "fit_control", forbid("training"))
    report = again(
        ask(copied.out, pictures=PICTURES + 1, controls=("controlnet", "plugin"), rounds=1)
    )
    assert [row.name for row in report.rows] == [*FLOORS, "base", "controlnet", "plugin"]
    assert len(report.pictures) == PICTURES + 1
    assert report.row("plugin").raw["edge_f1"][0][:PICTURES] == pytest.approx(
        made.report.row("plugin").raw["edge_f1"][0], abs=0.05
    )


@pytest.mark.long
def test_killed_while_it_trains_and_while_it_draws_it_goes_on(
    copied: Any, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second control is missing, and the pictures of the third are cut short."""
    shutil.rmtree(folder_of(copied.out, "t2i-adapter"))
    target = copied.out / "pictures" / "plugin-seed0.npy"
    wanted = np.load(target)
    target.unlink()
    trained, fit = [], contenders.fit_control
    monkeypatch.setattr(
        contenders,
        "fit_control",
        lambda one, *rest, **how: trained.append(one.label) or fit(one, *rest, **how),
    )
    monkeypatch.setattr(pictures, "BATCH", 3)
    drawn, whole = list[int](), pictures.generate

    def dies(pipe: Any, prompts: Any, **more: Any) -> Any:
        if len(drawn) == 1:
            drawn.append(0)
            raise KeyboardInterrupt
        drawn.append(len(prompts))
        return whole(pipe, prompts, **more)

    monkeypatch.setattr(pictures, "generate", dies)
    with pytest.raises(KeyboardInterrupt):
        again(copied)
    assert trained == ["T2I-Adapter"] and drawn == [3, 0] and not target.exists()
    report = again(copied)
    assert trained == ["T2I-Adapter"] and drawn == [3, 0, PICTURES - 3]
    # other batch sizes round otherwise
    assert np.abs(np.load(target).astype(int) - wanted).max() <= 1
    for name in CONTROLS:
        assert report.row(name).trainings[0].sha256 == made.report.row(name).trainings[0].sha256
    assert report.row("t2i-adapter").raw == made.report.row("t2i-adapter").raw


def test_what_was_trained_otherwise_or_is_broken_is_refused(
    copied: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = prepare(copied, device=CPU, show=False, say=lambda _: None)
    rate = LEARNING_RATES["plugin"]
    with pytest.raises(CheckpointError, match="another recipe"):
        contenders.contender(
            replace(setup, request=ask(copied.out, recipe=replace(QUICK, steps=3))),
            "plugin",
            0,
            rate,
        )
    path = folder_of(copied.out, "plugin") / "diffusion_pytorch_model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    with pytest.raises(CheckpointError, match="other weights than those next to it"):
        contenders.contender(setup, "plugin", 0, rate)
    path.write_bytes(whole)
    monkeypatch.setattr(Setup, "captions", "0" * 64)  # other prompts are another training
    with pytest.raises(CheckpointError, match="other data"):
        contenders.contender(
            prepare(copied, device=CPU, show=False, say=lambda _: None), "plugin", 0, rate
        )


# Several learning rates or trainings, and one control alone


@pytest.mark.long
def test_of_several_rates_the_best_on_validation_pictures_is_measured(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter([0.3, 0.1, 0.2])
    seen, whole = list[tuple[str, ...]](), contenders.mean_loss

    def spy(control: Any, network: Any, base: Any, data: Any, **more: Any) -> float:
        seen.append(data.ids)
        whole(control, network, base, data, **more)
        return next(said)

    monkeypatch.setattr(contenders, "mean_loss", spy)
    request = ask(
        tmp_path / "rates",
        controls=("plugin",),
        lrs={"plugin": (3e-3, 1e-3)},
        rounds=1,
        seeds=2,
        steps={"plugin": 3},
    )
    report = again(request)
    row = report.row("plugin")
    assert [(one.lr, one.validation) for one in row.tried] == [(3e-3, 0.3), (1e-3, 0.1)]
    assert [(one.lr, one.seed, one.validation) for one in row.trainings] == [
        (1e-3, 0, 0.1),
        (1e-3, 1, 0.2),
    ]
    assert row.trainings[0] == row.tried[1] and {one.steps for one in row.trainings} == {3}
    assert any("plugin 3" in note for note in report.notes)
    assert set(seen) == {tuple(load_split(request.split).validation)}
    assert "lowest loss on 8 validation samples" in " ".join(report.notes)
    assert row.trainings[0].sha256 != row.trainings[1].sha256
    assert len(row.raw["loss"]) == 2 and len(report.row("base").raw["loss"]) == 1
    assert report.reference is None and row.measures["loss"].difference is None
    assert "1 degrees of freedom over 2 trainings" in " ".join(report.notes)
    with pytest.raises(KeyError):
        report.row("controlnet")
