"""A few pictures of an audit are kept for a reader, and come back with the rows of an ended run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unplug.sdk.evidence.concepts import SHOWN_EACH, AuditOrder, erasure_audit
from unplug.sdk.forgetting.erasing import Concept
from unplug.sdk.report.png import checked_png

PICTURES = [
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (96, 96, 3), np.uint8))
    for seed in range(8)
]
JUDGE: Any = SimpleNamespace(presence=lambda pictures: np.zeros(len(pictures)))


def audited(work: Path, concepts: int = 1) -> Any:
    """What counts rows, of an audit without bases."""
    audit: Any = object.__new__(erasure_audit._Audit)
    audit.order, audit.pictures, audit.say = AuditOrder(pictures=8), {}, lambda _: None
    audit.concepts = (Concept(words="hat"),) * concepts
    audit.rows, audit.digests = erasure_audit._Rows(work, {}), {"erased": "0" * 64}
    return audit


def count(audit: Any, attack: str, drawn: Callable[[], Any], form: str = "as it is") -> Any:
    scene = SimpleNamespace(concept=audit.concepts[0], plugin=None)
    return audit.counted(scene, "erased", attack, form, "prompts", JUDGE, drawn)


def test_the_first_pictures_of_a_shown_row_are_kept_and_restored(tmp_path: Path) -> None:
    first, again = audited(tmp_path), audited(tmp_path)
    rows = count(first, "named", lambda: [("named", PICTURES)])
    count(first, "named", lambda: [("named", PICTURES)], "fp16")
    count(first, "within", lambda: [("within", PICTURES)])
    assert set(first.pictures) == {"erased/named"}
    shown = first.pictures["erased/named"]
    assert len(shown) == SHOWN_EACH == len({*shown})
    assert all(len(checked_png(png, "")) < 5000 for png in shown)
    again.rows = erasure_audit._Rows(tmp_path, {})
    assert count(again, "named", lambda: pytest.fail("drawn again")) == rows
    assert again.pictures == first.pictures


def test_of_many_concepts_fewer_are_kept(tmp_path: Path) -> None:
    many = audited(tmp_path, concepts=8)
    count(many, "named", lambda: [("named", PICTURES)])
    assert len(many.pictures["erased/named"]) == 3


def test_rows_of_before_there_were_pictures_still_count(tmp_path: Path) -> None:
    old = audited(tmp_path)
    count(old, "named", lambda: [("named", PICTURES)])
    (rows,) = old.rows.kept.values()
    rows[0].pop("shown")
    old.pictures.clear()
    assert len(count(old, "named", lambda: pytest.fail("drawn again"))) == 1
    assert old.pictures == {}
