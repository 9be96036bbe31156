"""``python -m tests.vectors.decision.make``: logits and a rule to P(age >= T) and an answer, in
every language.

``decision.json``: ``cases`` are answered, with P within `TOLERANCE`; ``refused`` are parts of a
manifest that no app may use; ``models`` are files by SHA-256, and whether the record's rule was
fitted on them: of others only the age is told. Where P lies on an end of a rule it is exact in
every language: all logits are equal, or so far apart that one group is sure.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from unplug.sdk.drawing.inference import Decision, DecisionRecord, over_probability
from unplug.sdk.drawing.inference.decision_record import GroupHeld, ModelHeld, Share

HERE = Path(__file__).parent
TOLERANCE = 1e-12
EDGES = (0.0, 6.0, 13.0, 16.0, 18.0, 21.0, 25.0, 30.0, 40.0, 60.0, 100.0)
COARSE = (0.0, 10.0, 20.0, 30.0, 50.0)
SURE = (-1000.0, 1000.0)
RANDOM = 40


def case(
    what: str,
    logits: list[float],
    age: float,
    over_from: float,
    under_to: float,
    edges: tuple[float, ...],
) -> dict[str, Any]:
    """One answer; `logits` are float32 numbers, as outputs are."""
    over = over_probability(np.array([logits]), edges, age)
    (answer,) = Decision(age=age, over_from=over_from, under_to=under_to).answers(over)
    return {
        "what": what,
        "edges": list(edges),
        "age_logits": logits,
        "age": age,
        "over_from": over_from,
        "under_to": under_to,
        "over": float(over[0]),
        "answer": answer,
    }


def ends() -> list[dict[str, Any]]:
    """P exactly on an end, one step beside it, and where nobody is over or under."""
    even = [0.5, 0.5, 0.5, 0.5]
    above, below = math.nextafter(0.5, 1.0), math.nextafter(0.5, 0.0)
    return [
        case("over at its end", even, 20.0, 0.5, 0.25, COARSE),
        case("one step below the end of over", even, 20.0, above, 0.25, COARSE),
        case("under at its end", even, 20.0, 0.75, 0.5, COARSE),
        case("one step above the end of under", even, 20.0, 0.75, below, COARSE),
        case("both ends beside each other", even, 20.0, 0.5, below, COARSE),
        case("inside a group: half of it", even, 25.0, 0.375, 0.1, COARSE),
        case("inside a group of twenty years", even, 40.0, 0.126, 0.125, COARSE),
        case("inside the first group", even, 5.0, 0.875, 0.1, COARSE),
        case("sure of over", [*SURE[:1] * 3, SURE[1]], 20.0, 1.0, 0.0, COARSE),
        case(
            "sure of over where nobody is",
            [*SURE[:1] * 3, SURE[1]],
            20.0,
            1.000000000001,
            0.0,
            COARSE,
        ),
        case("sure of under", [SURE[1], *SURE[:1] * 3], 20.0, 1.0, 0.0, COARSE),
        case("sure of under where nobody is", [SURE[1], *SURE[:1] * 3], 20.0, 1.0, -1e-12, COARSE),
        case(
            "logits whose exponentials overflow",
            [1000.0, -1000.0, -1000.0, 1000.0],
            20.0,
            0.5,
            0.25,
            COARSE,
        ),
        case("two groups", [0.0, 0.0], 18.0, 0.6, 0.4, (0.0, 18.0, 100.0)),
    ]


def drawn() -> list[dict[str, Any]]:
    """Outputs as a network gives them, at ages on borders and between them."""
    rng = np.random.default_rng(22)
    rows = []
    for number in range(RANDOM):
        logits = rng.normal(0, 3, len(EDGES) - 1).astype(np.float32).astype(float).tolist()
        age = float(rng.choice([13.0, 16.0, 18.0, 21.0, 25.0, 14.5, 19.25, 99.0, 0.5]))
        under_to, over_from = sorted(np.round(rng.uniform(0.02, 0.98, 2), 6).tolist())
        rows.append(case(f"drawn {number}", logits, age, over_from, under_to, EDGES))
    return rows


def record(**changes: Any) -> dict[str, Any]:
    """The block of a manifest, with some of it changed."""
    share = Share(pictures=790, over=0.01, under=0.5, unsure=0.49)
    made = DecisionRecord(
        schema="unplug-decision/1",
        age=18.0,
        over_from=0.92,
        under_to=0.31,
        max_fpr=0.01,
        max_fnr=0.05,
        method="clopper-pearson",
        confidence=0.95,
        minors_from=0.0,
        minors=790,
        adults=7210,
        data_digest="0" * 64,
        apart="other data",
        by="region",
        groups=(
            GroupHeld(name="a", minors=500, adults=4000, holds=True),
            GroupHeld(name="b", minors=9, adults=90, holds=False),
        ),
        models=(
            ModelHeld(
                name="age.fp32.tflite",
                sha256="1" * 64,
                over_from=0.92,
                under_to=0.31,
                minors=share,
                adults=share,
            ),
        ),
    )
    plain: dict[str, Any] = json.loads(json.dumps(asdict(made)))
    return {key: value for key, value in (plain | changes).items() if value is not ...}


def refused() -> list[dict[str, Any]]:
    """What apps must not decide by."""
    changes: dict[str, dict[str, Any]] = {
        "ends that cross": {"over_from": 0.3, "under_to": 0.31},
        "ends that are equal": {"over_from": 0.31},
        "another version": {"schema": "unplug-decision/2"},
        "no version": {"schema": ...},
        "no age": {"age": ...},
        "no end of over": {"over_from": ...},
        "an end that is a text": {"under_to": "0.31"},
        "an end that is null": {"over_from": None},
        "an age below all groups": {"age": 0.0},
        "an age above all groups": {"age": 100.0},
        "no limit of minors": {"max_fpr": ...},
        "a limit of adults that is a text": {"max_fnr": "0.05"},
        "no models": {"models": ...},
        "models that are no list": {"models": {}},
        "a model without its hash": {"models": [{}]},
        "a model whose hash is a number": {"models": [{"sha256": 1}]},
    }
    return [
        {"what": what, "edges": list(EDGES), "decision": record(**changed)}
        for what, changed in changes.items()
    ]


def models() -> list[dict[str, Any]]:
    """A record of two models, and of none: only what it names by all of its hash is decided about."""
    named = record()["models"]
    two = record(
        models=[named[0], named[0] | {"name": "age.int8-static.tflite", "sha256": "2" * 64}]
    )
    return [
        {"what": "the first of two", "decision": two, "sha256": "1" * 64, "fitted": True},
        {"what": "the second of two", "decision": two, "sha256": "2" * 64, "fitted": True},
        {
            "what": "another file of the same name",
            "decision": two,
            "sha256": "3" * 64,
            "fitted": False,
        },
        {
            "what": "a hash in capitals",
            "decision": record(models=[named[0] | {"sha256": "a" * 64}]),
            "sha256": "A" * 64,
            "fitted": False,
        },
        {"what": "the beginning of a hash", "decision": two, "sha256": "1" * 63, "fitted": False},
        {
            "what": "a record of no model",
            "decision": record(models=[]),
            "sha256": "1" * 64,
            "fitted": False,
        },
    ]


def vectors() -> dict[str, Any]:
    """All of the file."""
    return {
        "tolerance": TOLERANCE,
        "cases": ends() + drawn(),
        "record": {"edges": list(EDGES), "decision": record()},
        "refused": refused(),
        "models": models(),
    }


def main() -> None:
    """Writes the file."""
    (HERE / "decision.json").write_text(
        json.dumps(vectors(), indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
