"""A bundle is about one model: its gates held, and its files, its audit and its lineage name the
same weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import ArtifactError, InputError, read_json
from unplug.export import load_artifact

if TYPE_CHECKING:
    from .manifest import Gate, Manifest

EXACT = "equality"
"""The gate of a model made to forget, in the place of those of attacks."""
ANEW = (
    "trained anew without them by the recipe that it was adopted with, which is not known to be "
    "its owner's"
)
"""What the detail of that gate says where the original was trained elsewhere: the equality is
between two of ours.
"""
CERTIFIED, RANKED = "certified (method)", "this request (people)"
"""The gates of a release that rests on a certification of its method, and on the ranks of whom it
names.
"""
USE = (("utility",), ("utility (retain)",), ("budget",), ("audit on artifacts",))
ATTACKED = (("forgotten (",), ("not over-forgotten (",), *USE)
ALWAYS = (("parity",), ("bench", "host latency"))
"""What a release is judged by: for each gate its names, of which one must be there; those that end
in a bracket go on. Where an equality decides, no attack has to be made.
"""
MAX_REPORT_BYTES = 64 * 2**20


def failed_gates(gates: Sequence[Gate], *, signed: bool) -> Iterator[str]:
    """Gates of a bundle that failed, or that contradict their own numbers.

    One that was overridden stands there as failed, with the reason: the signer answers for it,
    so that without a signature nobody does.
    """
    for gate in gates:
        if gate.override is not None and gate.override.strip() and not gate.passed:
            if not signed:
                yield f"the gate {gate.name!r} was overridden, and nobody signed that"
            continue
        holds = gate.value is not None and (
            gate.value <= gate.limit if gate.comparison == "<=" else gate.value >= gate.limit
        )
        if not (gate.passed and holds) or gate.override is not None:
            yield f"the gate {gate.explain()}, does not hold"


def gate_problems(gates: Sequence[Gate], *, signed: bool) -> Iterator[str]:
    """What is wrong with the gates of a model's bundle: see `failed_gates`, or one is missing."""
    yield from failed_gates(gates, signed=signed)
    judged = {gate.name for gate in gates}
    forgotten = (
        ((EXACT,),) if EXACT in judged else ((RANKED,), *USE) if CERTIFIED in judged else ATTACKED
    )
    for names in (*forgotten, *ALWAYS):
        if not any(
            name == one or (one.endswith("(") and name.startswith(one))
            for name in judged
            for one in names
        ):
            yield f"it was not judged by the gate {names[0].rstrip(' (')!r}"


def model_problems(bundle: Path, manifest: Manifest) -> Iterator[str]:
    """Where the parts of a bundle are about different models; its files were found whole before."""
    own, family = manifest.lineage.checkpoint_sha256, _members(manifest)
    if family and own not in family.values():
        yield "its family does not list the model of its lineage"
    others = {place: sha256 for place, sha256 in family.items() if sha256 != own}
    known = {"artifacts": own, **others}
    members = {
        "/".join(name.split("/")[:2]) for name in manifest.files if name.startswith("members/")
    }
    for place in sorted(members - known.keys()):
        yield f"{place} is not a member that its family lists"
    artifacts = {
        (place, name[len(place) + 1 :].split("/")[0].removesuffix(".json"))
        for name in manifest.files
        for place in known
        if name.startswith(f"{place}/")
    }
    for place in sorted(known.keys() - {place for place, _ in artifacts}):
        yield "it holds no exported file" + (f" in {place}" if place != "artifacts" else "")
    for place, name in sorted(artifacts):
        try:
            card = load_artifact(bundle / place / name).card
        except ArtifactError as error:
            yield error.why
            continue
        if card.checkpoint_sha256 != known[place]:
            yield f"{place}/{name} was made from other weights than its lineage names"
        if card.model_type != manifest.model_type or card.iospec != manifest.iospec:
            yield f"{place}/{name} has other tensors than its manifest says"
    try:
        yield from _report_problems(bundle, manifest)
    except (InputError, KeyError, TypeError, AttributeError) as error:
        yield f"its reports cannot be read ({type(error).__name__})"


def _members(manifest: Manifest) -> dict[str, str]:
    """Folders of a family's members and their weights, the reference's too, whose files are in
    another; what is not a family has none, and its readers refuse it.
    """
    family = manifest.postprocessing.get("family")
    listed = family.get("members") if isinstance(family, dict) else None
    return {
        f"members/{item.get('name')}": str(item.get("checkpoint_sha256"))
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    }


def _report_problems(bundle: Path, manifest: Manifest) -> Iterator[str]:
    audit, release = (
        read_json(bundle / "reports" / name, max_bytes=MAX_REPORT_BYTES)
        for name in ("audit.json", "release.json")
    )
    first = [model for model in audit["models"] if model.get("member") is None]
    models: dict[str, Any] = {model["role"]: model for model in first}
    for role, sha256 in (
        ("unlearned", manifest.lineage.checkpoint_sha256),
        ("original", manifest.lineage.original_sha256),
    ):
        if models[role]["sha256"] != sha256:
            yield f"its audit is about another {role} model than its lineage names"
    family = _members(manifest)
    for model in audit["models"]:
        place = f"members/{model.get('member')}"
        ours = model in first or model["role"] != "unlearned"
        if not ours and family.get(place) != model["sha256"]:
            yield f"its audit is about another {place} than its family lists"
    judged = {gate.name for gate in manifest.gates}
    if not models["unlearned"]["attacks"] and EXACT not in judged:
        yield "no attack was made on its model, and it was not held to equality either"
    for attack in models["unlearned"]["attacks"]:
        if (
            not {EXACT, CERTIFIED} & judged
            and not {f"forgotten ({attack})", f"not over-forgotten ({attack})"} <= judged
        ):
            yield f"it was not judged by the attack {attack[:60]!r} of its audit"
    if CERTIFIED in judged:
        yield from certification_problems(bundle, manifest)
    if [
        (gate["name"], gate["value"], gate["passed"], gate.get("override"))
        for gate in release["gates"]
    ] != [(gate.name, gate.value, gate.passed, gate.override) for gate in manifest.gates]:
        yield "its release report has other gates than its manifest"


def certification_problems(bundle: Path, manifest: Manifest) -> Iterator[str]:
    """A certification of another original, data or method than those of the lineage, or one that
    certifies nothing.
    """
    report = read_json(bundle / "reports" / "certification.json", max_bytes=MAX_REPORT_BYTES)
    named = tuple(report[name] for name in ("original_sha256", "data_digest", "method", "verdict"))
    lineage = manifest.lineage
    if named != (lineage.original_sha256, lineage.data_digest, lineage.method, "certified"):
        yield (
            "its certification is of another original, data or method than its lineage names, or "
            "certifies nothing"
        )
