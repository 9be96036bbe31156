"""The page of a plugin, from reports written down by hand: losses where an age predictor's page has
years.
"""

from __future__ import annotations

import numpy as np
import pytest

from unplug.core import ReportError
from unplug.sdk.report import collect, render_html
from unplug.sdk.report.plots.audit import shared_edges

from .conftest import Draw, Json, Write, journey, write_all
from .test_page import text_of


def loss_use(value: float, n: int) -> Json:
    return {
        "n": n,
        "accuracy": None,
        "mae": None,
        "loss": value,
        "per_group": [],
        "per_subject": None,
        "loss_interval": {"value": value, "low": value - 0.0021, "high": value + 0.0021},
    }


def journey_of_a_plugin() -> dict[str, Json]:
    """The journey of `conftest`, as a plugin's."""
    parts = journey()
    files = {name: parts[name] for name in ("audit", "release")}
    for model, loss in zip(files["audit"]["models"], (0.1412, 0.1437, 0.1431, 0.1437), strict=True):
        model["utility"] = {
            name: loss_use(loss, n) for name, n in (("retain", 60), ("forget", 30), ("test", 50))
        }
        for attack in model["attacks"].values():
            for side in ("forget_scores", "unseen_scores"):
                attack[side] = [-0.12 - 0.001 * index for index in range(len(attack[side]))]
        if model["distance"]:
            model["distance"] = {
                name: {"value": 0.0123, "low": 0.011, "high": 0.0136} for name in ("forget", "test")
            }
        model["attacks"]["gain"] = model["attacks"].pop("rmia")
    for gate in files["release"]["gates"]:
        gate |= {"unit": " of the oracle's loss above it", "detail": "test loss"}
    files["release"]["title"] = "canny"
    for role in ("original", "unlearned", "retrained"):
        record = files[role] = parts[f"{role}/unplug"]
        record |= {
            "schema": "unplug-plugin/1",
            "recipe": {"steps": 100},
            "base": {"name": "small", "sha256": "ab" * 32},
            "condition": {"kind": "canny", "settings": {"low": "90"}, "without": 0},
            "parameters": 7,
        }
        if "history" in record:
            record["history"] = [
                {"step": 50 * n, "loss": 0.3 / n, "lr": 0.1, "wall_s": 1.0} for n in (1, 2)
            ]
    return files


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The whole journey of a plugin as one page."""
    paths = write_all(tmp_path_factory.mktemp("plugin"), journey_of_a_plugin())
    return render_html(collect(paths), title="A plugin")


@pytest.mark.long
@pytest.mark.parametrize(
    "fact",
    [
        "On the test set the loss went from 0.1412 to 0.1437 (+0.0025); the oracle has 0.1431.",
        "Test loss 0.1412 → 0.1437 retrained 0.1431",
        "Distance to the oracle 0.0123 of the loss, on the forget set; 0.0110 to 0.0136",
        "Model samples loss mean squared error distance to oracle of the loss",
        "unlearned 50 0.1437 0.1416 to 0.1458 0.0123 0.0110 to 0.0136",
        "the outer bins hold everything beyond",
        "forget set loss",  # of the rounding table
        "3.3100 3.2600 to 3.3600",
        "original: condition canny {",
        "unlearned: base small",
        "Training loss in mean squared error per step: original ends at 0.15 after 100 steps",
    ],
)
def test_the_page_has(html: str, fact: str) -> None:
    assert fact in text_of(html) or fact in html, fact


def test_the_page_has_nothing_of_ages(html: str) -> None:
    text = text_of(html)
    for word in ("years", "MAE", "nats", "accuracy 61", "face", "Face", "age group", "epoch"):
        assert word not in text, word


def test_a_plugin_without_an_audit_misses_no_faces(draw: Draw) -> None:
    text = text_of(draw(original=journey_of_a_plugin()["original"]))
    assert "Sample faces" not in text and "Attacks : no audit with attacks was given" in text


def test_a_broken_history_is_refused(write: Write) -> None:
    record = journey_of_a_plugin()["original"] | {"history": [{"step": 1}]}
    with pytest.raises(ReportError, match=r"does not follow its schema \(history.0.loss"):
        collect(write(original=record))


def test_edges_start_at_zero_unless_nothing_is_near_it() -> None:
    near = shared_edges([np.array([0.1, 2.0, 3.0]), np.array([1.0, 5.0])])
    far = shared_edges([np.linspace(0.9, 1.1, 101)])
    assert near[0] == 0.0 and near[-1] < 5.0
    assert far[0] == pytest.approx(0.904) and far[-1] == pytest.approx(1.096)
    assert shared_edges([np.array([0.5, 0.5])]).tolist() == pytest.approx(
        np.linspace(0, 0.5, 21).tolist()
    )
