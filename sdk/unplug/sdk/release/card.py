"""The card of a bundle: what it is, what was forgotten, what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, StrictUndefined

from unplug.export import Artifact
from unplug.plugins.checkpoint import Checkpoint
from unplug.sdk.audit.report import AuditReport, Estimate

_CARD = """\
# {{ name }}

A face-age predictor ({{ model.image_size }} px in, years out) that has forgotten {{ forget.samples }} training samples by
`{{ forget.method }}`, at {{ "%.1f" | format(100 * forget.cost.compute_fraction) }} % of the compute of retraining.

| attack | original | this model | retrained (oracle) |
|---|---|---|---|
{% for attack in unlearned.attacks -%}
| {{ attack }} AUC | {{ auc(original, attack) }} | {{ auc(unlearned, attack) }} | {{ auc(retrained, attack) }} |
{% endfor %}
Mean absolute error on unseen faces, in years: {{ mae(original) }} (original), {{ mae(unlearned) }} (this model),
{{ mae(retrained) }} (oracle).

| file | bytes | run and attacked here |
|---|---|---|
{% for item in artifacts -%}
| artifacts/{{ item.path.name }} | {{ item.card.bytes }} | {{ "yes" if item.path.name in audited else "no" }} |
{% endfor %}
Gates:
{% for gate in summary.gates %}
- {{ gate.name }}: {{ "%.4g" | format(gate.value) }}{{ gate.unit }}
  (must be {{ gate.comparison }} {{ "%g" | format(gate.limit) }})
{%- endfor %}

Check it with `unplug bundle verify`, and with `test_vectors/` on the device before use. This bundle is not signed.
"""


def bundle_card(
    name: str, unlearned: Checkpoint, report: AuditReport, artifacts: Sequence[Artifact], summary: dict[str, Any]
) -> str:
    """Markdown for a bundle's ``README.md``."""

    def auc(model: Any, attack: str) -> str:
        return _spanned(model.attacks[attack].auc, 3)

    def mae(model: Any) -> str:
        return _spanned(model.utility["test"].mae, 2)

    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(_CARD)
    facts = {
        "name": name,
        "model": unlearned.model,
        "forget": unlearned.record["forget"],
        "artifacts": artifacts,
        "audited": {model.name for model in report.models},
        "summary": summary,
        **{role: report.model(role) for role in ("original", "unlearned", "retrained")},
    }
    return template.render(auc=auc, mae=mae, **facts)


def _spanned(value: Estimate, digits: int) -> str:
    """The number, with its interval where there is one: over fewer than five subjects there is none."""
    text = f"{value.value:.{digits}f}"
    if value.low is None or value.high is None:
        return text
    return f"{text} ({value.low:.{digits}f} to {value.high:.{digits}f})"
