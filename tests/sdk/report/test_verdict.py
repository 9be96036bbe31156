"""The verdict follows the paired intervals against the oracle, and colours can be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.sdk.report import collect
from unplug.sdk.report.plots.audit import shared_edges, shares
from unplug.sdk.report.plots.bench import Timing, latency_svg
from unplug.sdk.report.plots.canvas import canvas, thin, to_svg
from unplug.sdk.report.render import HERE
from unplug.sdk.report.verdict import verdict

Json = dict[str, Any]
Write = Callable[..., list[Path]]


def _gaps(audit: Json, role: str, *ends: tuple[float, float] | None) -> None:
    model = next(model for model in audit["models"] if model["role"] == role)
    for attack, pair in zip(model["attacks"].values(), ends, strict=True):
        attack["minus_retrained"] = pair and {"value": sum(pair) / 2, "low": pair[0], "high": pair[1]}


AROUND, ABOVE, BELOW = (-0.02, 0.03), (0.01, 0.2), (-0.2, -0.01)


@pytest.mark.parametrize(
    ("original", "unlearned", "word"),
    [
        ((ABOVE, ABOVE), (AROUND, AROUND), "Forgotten"),
        ((ABOVE, AROUND), (AROUND, AROUND), "Forgotten"),
        ((ABOVE, ABOVE), (AROUND, ABOVE), "Not forgotten"),
        ((ABOVE, ABOVE), (BELOW, AROUND), "Over-forgotten"),
        ((ABOVE, ABOVE), (BELOW, ABOVE), "Not forgotten"),
        ((AROUND, AROUND), (AROUND, AROUND), "Inconclusive"),
        ((ABOVE, ABOVE), (AROUND, None), "Not compared"),
    ],
)
def test_the_word(write: Write, parts: dict[str, Json], original: Any, unlearned: Any, word: str) -> None:
    _gaps(parts["audit"], "original", *original)
    _gaps(parts["audit"], "unlearned", *unlearned)
    assert verdict(collect(write(audit=parts["audit"]))).word == word


def test_the_sentence_is_about_the_attack_that_still_works(write: Write, parts: dict[str, Json]) -> None:
    _gaps(parts["audit"], "unlearned", AROUND, ABOVE)
    assert "AUC of the rmia attack" in verdict(collect(write(audit=parts["audit"]))).sentence


def test_lost_use_is_said(write: Write, parts: dict[str, Json]) -> None:
    parts["audit"]["models"][1]["utility"]["test"]["mae"] = {"value": 9.0, "low": 8.5, "high": 9.5}
    assert verdict(collect(write(audit=parts["audit"]))).word == "Forgotten, but less useful"


def test_no_audit_is_said(write: Write, parts: dict[str, Json]) -> None:
    assert verdict(collect(write(card=parts["card"]))).word == "Not audited"
    parts["audit"]["models"] = [model for model in parts["audit"]["models"] if model["role"] == "original"]
    assert verdict(collect(write(audit=parts["audit"]))).word == "Not compared"


def test_histograms_share_bins_and_lose_no_sample() -> None:
    rng = np.random.default_rng(1)
    losses = [rng.gamma(2, 1, 200), rng.gamma(2, 2, 100)]
    edges_E = shared_edges(losses)
    assert all(np.isclose(shares(part, edges_E).sum(), 1.0) for part in losses)
    assert shares(np.array([1e9]), edges_E)[-1] == 1.0


def test_thin_keeps_both_ends() -> None:
    kept = thin(np.arange(1000.0), 10)
    assert (len(kept), kept[0], kept[-1]) == (10, 0.0, 999.0)


@pytest.mark.parametrize("runs", [[0.0, 0.0], [-1.0, 2.0], [1e-9, 1e12]])
def test_latency_plots_any_number(runs: list[float]) -> None:
    timing = Timing(label="a $x^{ <b>", runs_N=np.array(runs), median=runs[0], low=None, high=None)
    assert "&lt;b&gt;" in latency_svg([timing, timing], name="n", title="t", width=354)


def test_the_clean_up_leaves_text_alone() -> None:
    with canvas(300, 200) as (figure, axes):
        axes.set_title('0.87654 href="#a" url(#b) #010203')
        svg = to_svg(figure, "p", 'a "label" & more')
    assert '0.87654 href="#a" url(#b) #010203' in svg
    assert 'aria-label="a &quot;label&quot; &amp; more"' in svg
    assert "font-family" not in svg and "<style" not in svg and "metadata" not in svg


def _luminance(colour: str) -> float:
    parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_and_marks_have_contrast_in_light_and_dark() -> None:
    blocks = re.findall(r":root \{(.*?)\}", (HERE / "style.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 3  # light, dark, print
    for block in blocks:
        colour = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for name in ("ink", "muted", "accent", "original", "unlearned", "retrained"):
            assert _contrast(colour[name], colour["paper"]) >= 4.5, name
        for name in ("good", "bad", "warn"):
            assert _contrast(colour[name], colour[f"{name}-soft"]) >= 4.5, name
        assert _contrast(colour["muted"], colour["panel"]) >= 4.5
        assert _contrast(colour["artifact"], colour["paper"]) >= 3.0  # a mark, never text
