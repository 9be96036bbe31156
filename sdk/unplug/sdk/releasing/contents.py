"""What a release writes besides the artifacts: the bundle's card, how an app feeds the model, test
vectors; and, where it is asked for and for the local report alone, thumbnails of faces of the test
set. Nothing in a bundle shows a person.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from numpy.typing import NDArray
from PIL import Image

from unplug.core import write_json
from unplug.export import INDEX, reference_outputs, vector_bytes, vector_name, vectors_index
from unplug.plugins import Checkpoint
from unplug.sdk.drawing.conditions import example_inputs
from unplug.sdk.evidence.assurance import card_text
from unplug.sdk.evidence.auditing import NEVER_SAW, Estimate
from unplug.sdk.forgetting.tasks import StoredTask
from unplug.sdk.learning.data import Dataset, same_pictures
from unplug.sdk.learning.training import Sets, pictures, predict
from unplug.sdk.report import Face, FaceSheet

from .decided import decision_card
from .evidence import ReleaseEvidence

SHOWN = 12  # faces
VECTORS = 4  # samples
_CARD = """\
# {{ name }}

{{ what }} that has forgotten {{ forget.samples }} training samples by
`{{ forget.method }}`, at {{ "%.1f" | format(100 * forget.cost.compute_fraction) }} % of the compute of retraining.
{%- if forget.get("held_out") %}

{{ forget.held_out }} more samples of the request were held out: no weights were trained on them. They are in no set any more;
that the original was selected or measured with them stays.
{%- endif %}

{% if unlearned.attacks %}
| attack | original | this model | {{ "retrained (oracle)" if others == "oracle" else others }} |
|---|---|---|---|
{% for attack in unlearned.attacks -%}
| {{ attack }} AUC | {{ auc(original, attack) }} | {{ auc(unlearned, attack) }} | {{ auc(retrained, attack) }} |
{% endfor %}
{%- else %}
An equality decides here, and no attack was made: see the gate `equality` below.
{% endif %}
{{ error }}: {{ mae(original) }} (original), {{ mae(unlearned) }} (this model),
{{ mae(retrained) }} ({{ others }}).

| file | bytes | run here |
|---|---|---|
{% for item in artifacts -%}
| artifacts/{{ item.path.name }} | {{ item.card.bytes }} | {{ "yes" if item.path.name in ran else "no" }} |
{% endfor %}
{%- for member, files in members.items() -%}
{% for item in files.artifacts -%}
| members/{{ member }}/{{ item.path.name }} | {{ item.card.bytes }} | {{ "yes" if item.path.name in ran else "no" }} |
{% endfor %}
{%- endfor %}
Gates:
{% for gate in summary.gates %}
- {{ gate.name }}: {{ "not measured," if gate.value is none else "%.4g" | format(gate.value) }}{{ gate.unit }}
  (must be {{ gate.comparison }} {{ "%g" | format(gate.limit) }})
{%- if gate.override is not none %}; it does not hold, and was overridden: {{ gate.override }}{% endif %}
{%- endfor %}
{{ decision }}{% if summary.tries | length > 1 %}
This was try {{ summary.tries | length }} of the same request; `reports/release.json` tells of all.
{% endif %}
Check it with `unplug bundle verify`, which also says by whom it is signed, if at all,
and with `test_vectors/` on the device before use.
"""


def bundle_card(
    name: str, task: StoredTask, evidence: ReleaseEvidence, summary: dict[str, Any]
) -> str:
    """Markdown for a bundle's ``README.md``; what is known at age limits where an evaluation of
    these weights is at hand.
    """
    unlearned, report, evaluation = evidence.unlearned, evidence.audit, evidence.evaluation

    def auc(model: Any, attack: str) -> str:
        return _spanned(model.attacks[attack].auc, 3)

    def mae(model: Any) -> str:
        return _spanned(model.utility["test"].error, task.error_digits)

    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(_CARD)
    facts = {
        "name": name,
        "what": task.title(unlearned),
        "error": task.error_name,
        "forget": unlearned.record["forget"],
        "artifacts": evidence.artifacts,
        "members": evidence.members or {},
        "ran": {row.file for row in evidence.parity.rows if row.status != "not_run"},
        "summary": summary,
        "decision": "" if evidence.decided is None else decision_card(evidence.decided),
        "others": "oracle" if report.model("retrained").name == "retrained" else NEVER_SAW,
        **{role: report.model(role) for role in ("original", "unlearned", "retrained")},
    }
    card = template.render(auc=auc, mae=mae, **facts)
    judged = None if evaluation is None else evaluation.of(unlearned.sha256)
    return (
        card if evaluation is None or judged is None else f"{card}\n{card_text(evaluation, judged)}"
    )


def _spanned(value: Estimate, digits: int) -> str:
    """The number, with its interval where there is one: over fewer than five subjects there is
    none.
    """
    text = f"{value.value:.{digits}f}"
    if value.low is None or value.high is None:
        return text
    return f"{text} ({value.low:.{digits}f} to {value.high:.{digits}f})"


def write_vectors(checkpoint: Checkpoint, folder: Path) -> None:
    """Writes inputs and expected outputs with which a device checks itself before use: an index,
    one file a tensor and sample.

    Inputs are procedural, never pictures of people.

    Args:
        checkpoint: its outputs are the expected ones.
        folder: an existing folder.
    """
    iospec = checkpoint.model.iospec
    inputs = example_inputs(checkpoint.model_type, iospec, VECTORS)
    outputs = reference_outputs(checkpoint.path, iospec, inputs).outputs
    for name, array in {**inputs, **outputs}.items():
        for number in range(VECTORS):
            (folder / vector_name(number, name)).write_bytes(vector_bytes(array[number]))
    write_json(folder / INDEX, vectors_index(iospec, VECTORS))


def face_samples(sets: Sets, dataset: Dataset, models: Mapping[Any, Checkpoint]) -> FaceSheet:
    """``unplug-faces/2``: up to `SHOWN` test samples, spread over the set, with predictions per
    model.

    Nobody who was forgotten is among them: no picture of a person with a forgotten picture, none
    that is the very same as a forgotten one under another id. Where the data does not say who is in
    a picture, nothing more can be known.

    Args:
        sets: the sets with the test and the forget set.
        dataset: the data set that they belong to.
        models: name in the report to checkpoint.
    """
    showable = _showable(sets, dataset)
    if not showable:
        return FaceSheet(schema="unplug-faces/2", faces=())
    spread = np.linspace(0, len(showable) - 1, min(SHOWN, len(showable)))
    index = np.unique(spread.round().astype(int))
    chosen = pictures(sets.test.subset([showable[place] for place in index]))
    device = chosen.device
    ages = {name: predict(item.model.to(device), chosen).age_N for name, item in models.items()}
    pixels = chosen.image_NCHW.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    faces = tuple(
        Face(
            png=base64.b64encode(_png(pixels[position])).decode(),
            age=float(chosen.age_N[position]),
            predictions={name: float(values[position]) for name, values in ages.items()},
        )
        for position in range(len(chosen))
    )
    return FaceSheet(schema="unplug-faces/2", faces=faces)


def _showable(sets: Sets, dataset: Dataset) -> list[int]:
    """Places in the test set whose picture is of nobody in the forget set, as far as subjects and
    pixels tell.
    """
    person = {sample.id: sample.subject for sample in dataset.samples}
    gone = {person[name] for name in sets.forget.ids} - {None}
    twins = {stays for _, stays in same_pictures(sets.forget.ids, dataset)}
    return [
        place
        for place, name in enumerate(sets.test.ids)
        if person[name] not in gone and name not in twins
    ]


def _png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()
