"""The model card that goes with a checkpoint."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, StrictUndefined

_CARD = """\
---
library_name: unplug
pipeline_tag: image-classification
tags: [face-age, on-device, machine-unlearning]
license: apache-2.0
---
# Face-age predictor, {{ recipe.size }}, {{ recipe.image_size }} px ({{ role }})

Trained with `unplug` on `{{ data.spec }}` ({{ data.samples }} samples, digest `{{ data.digest[:16] }}`), seed {{ seed }}.

| set | samples | accuracy | mean absolute error |
|---|---|---|---|
{% for name, row in metrics.items() -%}
| {{ name }} | {{ row.n }} | {{ "%.1f" | format(100 * row.accuracy) }} % | {{ "%.2f" | format(row.mae) }} years |
{% endfor %}
Recipe: {% for key, value in recipe.items() %}{{ key }} {{ value }}{{ ", " if not loop.last }}{% endfor %}.
{% if forget is defined %}
Forgotten: {{ forget.samples }} samples by `{{ forget.method }}` at {{ "%.1f" | format(100 * forget.cost.compute_fraction) }} % of retraining.
{% endif %}
Estimates of age from a face are uncertain and differ between groups of people; see the audit before use.
"""


def model_card(record: dict[str, Any]) -> str:
    """Markdown from a checkpoint's record."""
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(_CARD).render(**record)
