"""The model card that goes with a checkpoint. Plain strings: a training server has no template
engine.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HUB_ID = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
UNPUBLISHED = ("synth", "canaries", "csv", "imagefolder", "captions", "webdataset")
"""Kinds of data that are no data set with a name of its own."""

PUBLIC = "public weights"
"""What is said of a trunk of which nobody here knows whose pictures trained it."""

_CARD = """\
{front}# {title} ({role})

Trained with `unplug` on `{data[spec]}` ({data[samples]} samples, digest `{data[digest]:.16}`), seed {seed}.

| set | samples | accuracy | {error} |
|---|---|---|---|
{rows}

Recipe: {settings}.
{forgotten}
{caveat}
"""
_YEARS = {
    "error": "mean absolute error",
    "caveat": "Estimates of age from a face are uncertain and differ between groups of people; see "
    "the audit before use.",
}
_CLASSES = {
    "error": "cross entropy",
    "caveat": "It names one of its classes on every picture, also where none of them is shown; its "
    "probabilities are as good as `unplug evaluate` says.",
}


def front_matter(
    title: str,
    tags: Sequence[str],
    record: Mapping[str, Any],
    results: Mapping[str, Mapping[str, float]],
    *,
    pipeline: str = "text-to-image",
) -> str:
    """The lines in front of a card, as the Hugging Face Hub reads them: base, data set, results.

    All of it is JSON, which YAML reads as nothing else. Of the data only the kind is told, since
    its place may be a person's folder; a base is named if it came from the hub.

    Args:
        title: the model's name there.
        tags: words to find it by.
        record: the checkpoint's record.
        results: measured values by their names, for each set of the split.
        pipeline: the hub's word for what it does.

    Reference:
        Hugging Face Hub documentation, Model cards; Papers with Code, model-index.
    """
    kind = record["data"]["spec"].partition(":")[0]
    base = str(record.get("base", {}).get("name", ""))
    from_hub = HUB_ID.fullmatch(base) is not None and not Path(base).exists()
    measured = [
        {
            "task": {"type": pipeline},
            "dataset": {"type": kind, "name": kind, "split": part},
            "metrics": [
                {"type": name, "value": value}
                for name, value in values.items()
                if math.isfinite(value)
            ],
        }
        for part, values in results.items()
    ]
    facts = {
        "library_name": "unplug-sdk",
        "pipeline_tag": pipeline,
        "tags": list(tags),
        **({"base_model": base} if from_hub else {}),
        **({} if kind in UNPUBLISHED else {"datasets": [kind]}),
        "model-index": [{"name": title, "results": measured}],
    }
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in facts.items())
    return f"---\n{lines}---\n"


def model_card(record: dict[str, Any], called: str = "Face-age predictor") -> str:
    """Markdown from the record of a checkpoint of this kind."""
    aged = all("mae" in row for row in record["metrics"].values())
    error = "mae" if aged else "loss"
    rows = (
        f"| {name} | {row['n']} | {100 * row['accuracy']:.1f} % | "
        + (f"{row[error]:.2f} years |" if aged else f"{row[error]:.3f} |")
        for name, row in record["metrics"].items()
    )
    settings = ", ".join(f"{key} {value}" for key, value in record["recipe"].items())
    title = f"{called}, {{size}}, {{image_size}} px".format_map(record["recipe"])
    front = front_matter(
        title,
        (*(["face-age"] if aged else []), "on-device", "machine-unlearning"),
        record,
        {
            name: {error: row[error], "accuracy": row["accuracy"]}
            for name, row in record["metrics"].items()
        },
        pipeline="image-classification",
    )
    trunk = trunk_words(record)
    return _CARD.format_map(
        record
        | (_YEARS if aged else _CLASSES)
        | {
            "front": front,
            "title": title,
            "rows": "\n".join(rows),
            "settings": settings,
            "forgotten": (f"\n{trunk}\n" if trunk else "") + _forgotten(record),
        }
    )


def trained_words(whose: Mapping[str, Any] | str) -> str:
    """Who trained an adopted trunk, as its record's ``trained_on`` says.

    Example:
        >>> trained_words({"spec": "csv:a.csv", "samples": 3}), trained_words(PUBLIC)
        ('`csv:a.csv` (3 samples)', 'public weights (nobody here knows whose pictures those saw)')
    """
    if isinstance(whose, str):
        return f"{whose} (nobody here knows whose pictures those saw)"
    return f"`{whose['spec']}` ({whose['samples']} samples)"


def trunk_words(record: Mapping[str, Any]) -> str:
    """Who trained the adopted trunk that a design stands on; nothing of other models."""
    trunk = record.get("design", {}).get("trunk", {})
    if "trained_on" not in trunk:
        return ""
    words = trained_words(trunk["trained_on"])
    return f"Its trunk, `{trunk['adopted']['factory']}`, was trained on {words} and forgets nobody."


def _forgotten(record: dict[str, Any]) -> str:
    if "forget" not in record:
        return ""
    forget = record["forget"]
    share = 100 * forget["cost"]["compute_fraction"]
    text = (
        f"\nForgotten: {forget['samples']} samples by `{forget['method']}` at {share:.1f} % of "
        "retraining.\n"
    )
    if held_out := forget.get("held_out"):
        text += (
            f"{held_out} more were held out and never trained on; they are in no set any more.\n"
        )
    return text
