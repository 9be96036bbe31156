"""The release of an erased base: each gate can refuse it, and what passes verifies and draws."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unplug.core import Estimate, GateFailed, InputError, ReportError, read_json, write_json
from unplug.export import Artifact
from unplug.sdk import journey
from unplug.sdk.drawing.diffusion import base_digest, load_base
from unplug.sdk.evidence.concepts import (
    CLAIMS,
    Claim,
    ConceptAudit,
    ErasureAudit,
    JudgeFacts,
    RateRow,
    ShippedFiles,
    claims_of,
    worst_rows,
)
from unplug.sdk.evidence.concepts.findings import Role
from unplug.sdk.forgetting.erasing import Concept, erase
from unplug.sdk.releasing import judge_erased, release_erased
from unplug.trust.bundle import ERASED_GATES, Publication, Signing, load_signer, make_key

from ..conftest import CPU
from ..drawing.diffusion.conftest import base, base_folder, plugin_folder  # noqa: F401 (fixtures)
from ..trust.bundle.test_generator import make_generator
from ..trust.commands import called, refused, shown
from .test_packs import PATCH, pack

WORDS = "eye patch"
FILES = "--to onnx --precision fp32,fp16"
Harm = Callable[[ErasureAudit], ErasureAudit]


@pytest.fixture(scope="module")
def erased(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    out = tmp_path_factory.mktemp("erased") / "base"
    prompts = [f"a {word} child, smiling" for word in ("small", "tall", "sad", "old")] * 2
    concepts = [Concept(words=WORDS)]
    erase(str(base_folder), concepts, out, prompts=prompts, seed=1, device=CPU, show=False)
    return out


def rate(high: float, low: float = 0.0) -> Estimate:
    return Estimate(value=(low + high) / 2, low=low, high=high)


def row(attack: str, holds: Claim | None, form: str, role: Role, high: float) -> RateRow:
    told = rate(high, 0.7 if role == "original" and holds else 0.0)
    return RateRow(
        attack=attack, holds=holds, form=form, role=role, rate=told, pictures=48, seconds=3.0
    )


def concept_audit(rows: tuple[RateRow, ...]) -> ConceptAudit:
    facts = JudgeFacts(
        concept=WORDS,
        recall=rate(1.0, 0.9),
        false_alarms=rate(0.1),
        trained=(1, 1),
        held_out=(1, 1),
        source="draws",
        size=64,
        seed=0,
        recipe={},
    )
    return ConceptAudit(words=WORDS, judge=facts, rows=rows, left_out={}, claims=claims_of(rows))


@pytest.fixture(scope="module")
def audit(erased: Path) -> ErasureAudit:
    """What an audit of the erased base would say had it gone well against prompts, and no further."""
    rows = (
        row("unnamed", None, "as it is", "original", 0.1),
        *(row("named", "prompts", form, "original", 0.9) for form in ("as it is", "fp16")),
        *(row("named", "prompts", form, "erased", 0.1) for form in ("as it is", "fp16")),
        row("control-image", "control images", "as it is", "original", 0.9),
        row("control-image", "control images", "as it is", "erased", 0.35),
        row("control-image", "control images", "fp16", "erased", 0.6),
    )
    told = read_json(erased / "erasure.json")
    digest = base_digest(load_base(str(erased), device=CPU))
    return ErasureAudit(
        models={
            "erased": {"name": "base", "sha256": digest},
            "original": {"name": "tiny", "sha256": told["base"]["sha256"]},
        },
        method=told["method"],
        edit_bytes=(told["map"] or {}).get("bytes"),
        concepts=(concept_audit(rows),),
        retained_db=rate(40.0, 31.0),
        beside={},
        reference="the original without the words",
        pictures=48,
        cost={"wall_s": 9.0, "device": "a test"},
        claim="prompts",
    )


def test_the_worst_row_of_each_attacker(audit: ErasureAudit) -> None:
    (concept,) = audit.concepts
    above, worst = worst_rows(concept.rows)["control images"]
    assert (round(above, 9), worst.form) == (0.5, "fp16")
    assert concept.claims == dict.fromkeys(CLAIMS, "not tried") | {
        "prompts": "holds",
        "control images": "broken",
    }
    # beside an oracle that shows it as often, nothing is broken
    oracle = [replace(item, role="oracle") for item in concept.rows if item.role == "erased"]
    assert claims_of([*concept.rows, *oracle])["control images"] == "holds"


def of_another_base(audit: ErasureAudit) -> ErasureAudit:
    return replace(audit, models=audit.models | {"erased": {"name": "x", "sha256": "0" * 64}})


def of_another_original(audit: ErasureAudit) -> ErasureAudit:
    return replace(audit, models=audit.models | {"original": {"name": "x", "sha256": "0" * 64}})


def of_other_words(audit: ErasureAudit) -> ErasureAudit:
    return replace(audit, concepts=(replace(audit.concepts[0], words="hat"),))


def without_fp16(audit: ErasureAudit) -> ErasureAudit:
    rows = tuple(item for item in audit.concepts[0].rows if item.form != "fp16")
    return replace(audit, concepts=(replace(audit.concepts[0], rows=rows),))


def broken(audit: ErasureAudit) -> ErasureAudit:
    """Its rows say that prompts bring the concept back; its summary says that they do not."""
    (concept,) = audit.concepts
    rows = (*concept.rows, row("within", "prompts", "as it is", "erased", 0.225))
    return replace(audit, concepts=(replace(concept, rows=rows),))


def blurred(audit: ErasureAudit) -> ErasureAudit:
    return replace(audit, retained_db=rate(40.0, 29.5))


@pytest.mark.parametrize(
    ("harm", "claim", "failed"),
    [
        (lambda audit: audit, "prompts", {}),
        (of_another_base, "prompts", {"audit of this base": 0.0}),
        (of_another_original, "prompts", {"audit of this base": 0.0}),
        (of_other_words, "prompts", {"concepts audited": 0.0, "claim": None}),
        (without_fp16, "prompts", {"concepts audited": 1.0}),
        (broken, "prompts", {"claim": 12.5}),
        (blurred, "prompts", {"retained pictures": 29.5}),
        (lambda audit: audit, "control images", {"claim": 50.0}),
        (lambda audit: audit, "weights", {"claim": None}),
    ],
)
def test_gates(
    erased: Path, audit: ErasureAudit, harm: Harm, claim: Claim, failed: dict[str, Any]
) -> None:
    gates = judge_erased(erased, harm(audit), claim, ("fp32", "fp16"))
    assert tuple(gate.name for gate in gates) == ERASED_GATES
    found = {gate.name: gate.value for gate in gates if not gate.passed}
    assert found == pytest.approx(failed)


def test_a_refusal_says_each_gate_and_writes_nothing(
    erased: Path, audit: ErasureAudit, tmp_path: Path
) -> None:
    blurred(of_another_base(audit)).save(tmp_path / "audit.json")
    command = f"release {erased} --audited {tmp_path}/audit.json {FILES} --out {tmp_path}/b.unplug"
    line = refused(command, code=1)
    assert "audit of this base: 0, must be >= 1; retained pictures: 29.5 dB, must be >= 30" in line
    assert {path.name for path in tmp_path.iterdir()} == {"audit.json"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--data synth:n=9", "--data: it applies to models that forget people"),
        ("--override utility=x", "--override: it applies to models that forget people"),
        ("--method msg", "--method: it applies to models that forget people"),
        ("--dry-run", "--dry-run: it applies to models that forget people"),
    ],
)
def test_options_of_models_are_refused(erased: Path, tmp_path: Path, more: str, says: str) -> None:
    out = f"--audited {tmp_path}/audit.json --out {tmp_path}/b.unplug"
    assert says in refused(f"release {erased} {out} {more}")


def test_what_is_missing_or_of_another_kind(
    erased: Path,
    base_folder: Path,  # noqa: F811
    audit: ErasureAudit,
    tmp_path: Path,
) -> None:
    out = f"--out {tmp_path}/b.unplug"
    assert "--audited: it is missing" in refused(f"release {erased} {out}")
    assert "--data: it is missing" in refused(f"release {tmp_path} {out}")
    assert "--claim: it applies to a text-to-image base" in refused(
        f"release {tmp_path} --claim prompts {out}"
    )
    audit.save(tmp_path / "audit.json")
    with pytest.raises(InputError, match="nothing was erased from it"):
        journey.release_erased(base_folder, tmp_path / "audit.json", out=tmp_path / "b")
    write_json(tmp_path / "audit.json", {"schema": "unplug-audit/1"})
    with pytest.raises(ReportError, match="does not follow its schema"):
        journey.release_erased(erased, tmp_path / "audit.json", out=tmp_path / "b")


def made(folder: Path, audit: Path, out: Path, **more: Any) -> list[Path]:
    """A release whose files are made up; what was to be exported."""
    asked: list[Path] = []

    def export(checkpoints: Sequence[Path], place: Path) -> Sequence[Artifact]:
        asked.extend(checkpoints)
        make_generator(place)
        return ()

    release_erased(folder, audit, out, export=export, precisions=("fp32", "fp16"), **more)
    return asked


def test_what_passes_verifies_and_takes_the_place_of_the_last(
    erased: Path, audit: ErasureAudit, tmp_path: Path
) -> None:
    make_key(tmp_path / "key")
    audit.save(tmp_path / "audit.json")
    said = Publication(name="tiny", release=1)
    signing = Signing(signer=load_signer(str(tmp_path / "key")), publication=said)
    one, two = tmp_path / "one.unplug", tmp_path / "two.unplug"
    assert made(erased, tmp_path / "audit.json", one, signing=signing) == [erased]
    told = called(f"bundle verify {one} --trust {tmp_path}/key.pub")
    assert told["erasure"]["against"] == "prompts" and told["erasure"]["concepts"] == [WORDS]
    called(f"bundle sign {one} --supersedes {one} --sign {tmp_path}/key -o {two}")
    again = called(f"bundle verify {two} --trust {tmp_path}/key.pub")
    assert again["erasure"] == told["erasure"] and again["publication"]["release"] == 2
    assert again["publication"]["supersedes"] == [told["id"]]
    assert f"supersedes {told['id'][:16]}" in shown(f"bundle inspect {two}")
    card = (one / "README.md").read_text()
    assert "**Claimed, against prompts:**" in card and "removed" not in card
    assert "control images: eye patch: broken" in card
    kept = "".join(path.read_text() for path in (one / "reports").rglob("*.json"))
    assert read_json(one / "reports/bom.cdx.json")["metadata"]["component"]["name"] == "tiny"
    assert str(erased.parent) not in kept and '"seconds": 3' not in kept and "9.0" not in kept
    # made again from the same, it is the same bytes
    before = (one / "model.sig").read_bytes()
    made(erased, tmp_path / "audit.json", one, signing=signing)
    assert (one / "model.sig").read_bytes() == before


def test_files_that_the_audit_drew_with_are_those_that_ship(
    erased: Path, audit: ErasureAudit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, out, form = tmp_path / "audit.json", tmp_path / "out", "onnx fp32"

    def there(folder: Path) -> list[ShippedFiles]:
        return [ShippedFiles(folder=folder, target="onnx", precision="fp32")]

    monkeypatch.setattr("unplug.sdk.releasing.erased.shipped_files", there)
    monkeypatch.setattr(ShippedFiles, "hashes", lambda _: {"unet": "1" * 64})
    replace(audit, files={form: {"unet": "0" * 64}}).save(kept)
    with pytest.raises(GateFailed, match="did not draw with these files: onnx fp32"):
        made(erased, kept, out)
    assert not out.exists()
    replace(audit, files={form: {"unet": "1" * 64}}).save(kept)
    made(erased, kept, out)
    assert f"drew themselves: {form}." in (out / "README.md").read_text()


def with_plugin(erased: Path, plugin: Path, folder: Path) -> Path:
    shutil.copytree(erased, folder)
    shutil.copytree(plugin, folder / "plugins" / "canny")
    return folder


def test_a_base_with_a_plugin_claims_more_unless_told(
    erased: Path,
    audit: ErasureAudit,
    plugin_folder: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    whole = with_plugin(erased, plugin_folder, tmp_path / "base")
    audit.save(tmp_path / "audit.json")
    command = f"release {whole} --audited {tmp_path}/audit.json {FILES} --out {tmp_path}/b.unplug"
    assert "claim: 50 points, must be <= 0 points" in refused(command, code=1)
    asked = made(whole, tmp_path / "audit.json", tmp_path / "b.unplug", claim="prompts")
    assert asked == [whole, whole / "plugins" / "canny"]
    assert not called(f"bundle verify {tmp_path}/b.unplug")["signed"]


def test_a_pack_that_erased_words_switch_on_is_refused(
    erased: Path, audit: ErasureAudit, tmp_path: Path
) -> None:
    audit.save(tmp_path / "audit.json")
    for word in ("Eye Patches", "patch"):
        back = pack(tmp_path / word, word, PATCH)
        with pytest.raises(InputError, match="prompts that say 'eye patch', which was erased"):
            made(erased, tmp_path / "audit.json", tmp_path / "b", packs=[back])
    assert not (tmp_path / "b").exists()


@pytest.mark.long
def test_what_ships_draws(
    erased: Path,
    audit: ErasureAudit,
    plugin_folder: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    whole = with_plugin(erased, plugin_folder, tmp_path / "base")
    audit.save(tmp_path / "audit.json")
    make_key(tmp_path / "key")
    out = tmp_path / "tiny.unplug"
    how = f"--audited {tmp_path}/audit.json --claim prompts --sign {tmp_path}/key --out {out}"
    told = called(f"release {whole} {how} --to onnx --precision fp32")
    assert "canny/plugin.fp32.onnx" in told["files"]
    assert called(f"bundle verify {out} --trust {tmp_path}/key.pub")["signed"]
    for name in told["files"]:
        if name.endswith(".onnx.json"):
            assert read_json(out / name)["seconds"] == 0.0
    called(f"generate --base {out} --prompt 'a child' --drawn-steps 1 --out {tmp_path}/a.png")
