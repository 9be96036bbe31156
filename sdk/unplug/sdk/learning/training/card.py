"""The model card that goes with a checkpoint. Plain strings: a training server has no template
engine.
"""

from __future__ import annotations

from typing import Any

_CARD = """\
---
library_name: unplug-sdk
pipeline_tag: image-classification
tags: [face-age, on-device, machine-unlearning]
---
# Face-age predictor, {recipe[size]}, {recipe[image_size]} px ({role})

Trained with `unplug` on `{data[spec]}` ({data[samples]} samples, digest `{data[digest]:.16}`), seed {seed}.

| set | samples | accuracy | mean absolute error |
|---|---|---|---|
{rows}

Recipe: {settings}.
{forgotten}
Estimates of age from a face are uncertain and differ between groups of people; see the audit before use.
"""


def model_card(record: dict[str, Any]) -> str:
    """Markdown from a checkpoint's record."""
    rows = (
        f"| {name} | {row['n']} | {100 * row['accuracy']:.1f} % | {row['mae']:.2f} years |"
        for name, row in record["metrics"].items()
    )
    settings = ", ".join(f"{key} {value}" for key, value in record["recipe"].items())
    return _CARD.format_map(
        record | {"rows": "\n".join(rows), "settings": settings, "forgotten": _forgotten(record)}
    )


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
