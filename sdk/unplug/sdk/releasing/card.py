"""The card of a bundle: what it is, what was forgotten, what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, StrictUndefined

from unplug.export import Artifact
from unplug.plugins import Checkpoint
from unplug.sdk.auditing import AuditReport, Estimate

_CARD = """\
# {{ name }}

{{ what }} that has forgotten {{ forget.samples }} training samples by
`{{ forget.method }}`, at {{ "%.1f" | format(100 * forget.cost.compute_fraction) }} % of the compute of retraining.

| attack | original | this model | retrained (oracle) |
|---|---|---|---|
{% for attack in unlearned.attacks -%}
| {{ attack }} AUC | {{ auc(original, attack) }} | {{ auc(unlearned, attack) }} | {{ auc(retrained, attack) }} |
{% endfor %}
{{ error }}: {{ mae(original) }} (original), {{ mae(unlearned) }} (this model),
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

    years = unlearned.model_type == "age"

    def auc(model: Any, attack: str) -> str:
        return _spanned(model.attacks[attack].auc, 3)

    def mae(model: Any) -> str:
        return _spanned(model.utility["test"].error, 2 if years else 4)

    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(_CARD)
    facts = {
        "name": name,
        "what": _what(unlearned),
        "error": "Mean absolute error on unseen faces, in years" if years else "Noise prediction loss on unseen samples",
        "forget": unlearned.record["forget"],
        "artifacts": artifacts,
        "audited": {model.name for model in report.models},
        "summary": summary,
        **{role: report.model(role) for role in ("original", "unlearned", "retrained")},
    }
    return template.render(auc=auc, mae=mae, **facts)


def _what(model: Checkpoint) -> str:
    if model.model_type == "age":
        return f"A face-age predictor ({model.model.image_size} px in, years out)"
    base = model.record["base"]
    return (
        f"A {model.record['condition']['kind']} plugin ({model.model.config.image_size} px in, residuals out) for the "
        f"diffusion base `{base['sha256']:.16}`"
    )


def processing(model: Checkpoint) -> dict[str, Any]:
    """How an app feeds the model, and reads it."""
    if model.model_type == "age":
        return {
            "preprocessing": {"crop": "centre square", "resize": model.model.image_size, "scale": "pixel / 255"},
            "postprocessing": {"age_edges": list(model.model.age_edges), "unit": "years"},
        }
    condition = model.record["condition"]
    return {
        "preprocessing": {
            "crop": "centre square", "resize": model.model.config.image_size, "scale": "pixel / 255",
            "condition": condition["kind"], "base_sha256": model.record["base"]["sha256"],
        },
        "postprocessing": {"added": "to the UNet's encoder at every step, run once an image", "unit": "residuals"},
    }  # fmt: skip


def _spanned(value: Estimate, digits: int) -> str:
    """The number, with its interval where there is one: over fewer than five subjects there is none."""
    text = f"{value.value:.{digits}f}"
    if value.low is None or value.high is None:
        return text
    return f"{text} ({value.low:.{digits}f} to {value.high:.{digits}f})"
