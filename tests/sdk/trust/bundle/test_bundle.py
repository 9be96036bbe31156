"""What is in a bundle, what must not be, and how every kind of tampering is found."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from unplug.core import (
    CheckFailed,
    DataError,
    GateFailed,
    IOSpec,
    OutputError,
    ReportError,
    sha256_file,
)
from unplug.export import Card, Session, load_artifact
from unplug.export.artifact import write_card
from unplug.plugins import AgePredictor
from unplug.sdk.learning.data import keyed
from unplug.sdk.releasing import Release, release
from unplug.sdk.report import write_report
from unplug.trust.bundle import (
    Content,
    Gate,
    Lineage,
    Publication,
    Refused,
    Signing,
    load_signer,
    make_key,
    read_manifest,
    read_trust,
    verify_bundle,
    write_bundle,
)

from ...conftest import CPU, QUICK, World

VECTOR_TOLERANCE = 1e-4  # fp32 in another runtime; logits and years are of order 1 to 100


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """One of random bytes that a test may harm."""
    return make_bundle(tmp_path)


GATES = (
    "forgotten (gain)",
    "forgotten (loss)",
    "not over-forgotten (gain)",
    "not over-forgotten (loss)",
    "utility",
    "utility (retain)",
    "budget",
    "parity",
    "audit on artifacts",
    "bench",
)


def make_bundle(
    tmp_path: Path,
    raw: bytes | None = None,
    *,
    name: str = "age.fp32.tflite",
    iospec: IOSpec | None = None,
) -> Path:
    """Writes a bundle whose artifact is of random bytes, or of `raw`."""
    (tmp_path / "vectors").mkdir(parents=True)
    (tmp_path / "vectors" / "vectors.json").write_text("{}")
    file, raw = tmp_path / name, np.random.default_rng(0).bytes(2000) if raw is None else raw
    file.write_bytes(raw)
    iospec = iospec or AgePredictor(image_size=32).iospec
    card = Card(
        target="onnx" if name.endswith(".onnx") else "litert",
        precision="fp32",
        file=file.name,
        sha256=sha256_file(file),
        bytes=len(raw),
        model_type="age",
        iospec=iospec,
        config={},
        checkpoint_sha256="1" * 64,
        flops=10,
        versions={},
        seconds=1.0,
        prepare_seconds=2.0,
    )
    held = Gate(name="", value=0.01, limit=0.1, comparison="<=", passed=True, unit="", detail="")
    gates = [asdict(replace(held, name=gate)) for gate in GATES]
    lineage = Lineage(
        original_sha256="2" * 64,
        checkpoint_sha256="1" * 64,
        data_digest="0" * 64,
        forget_samples=3,
        method="msg",
        compute_fraction=0.04,
        ledger_head=None,
    )
    attacks: dict[str, Any] = {"gain": {}, "loss": {}}
    audit = [
        {"role": "original", "sha256": "2" * 64, "attacks": attacks},
        {"role": "unlearned", "sha256": "1" * 64, "attacks": attacks},
    ]
    content = Content(
        artifacts=[write_card(file, card)],
        reports={"audit.json": {"models": audit}, "release.json": {"gates": gates}},
        vectors=tmp_path / "vectors",
        card="A test.",
        facts={
            "model_type": "age",
            "iospec": iospec.to_dict(),
            "preprocessing": {},
            "postprocessing": {},
            "gates": gates,
            "versions": {},
            "lineage": asdict(lineage),
        },
    )
    made = write_bundle(content, tmp_path / "copy.unplug")
    assert verify_bundle(made).lineage == lineage
    return made


@pytest.mark.long
def test_a_fresh_bundle_verifies(released: Release, world: World) -> None:
    manifest = verify_bundle(released.bundle)
    reports = {f"reports/{name}.json" for name in ("audit", "bom.cdx", "parity", "release")}
    others = {"README.md", ARTIFACT, f"{ARTIFACT}.json", "test_vectors/vectors.json"}
    assert reports | others <= set(manifest.files)
    assert manifest.lineage.forget_samples == len(world.forget_ids)
    assert manifest.lineage.original_sha256 == world.original.sha256
    assert manifest.lineage.data_digest == world.dataset.digest
    assert all(gate.passed for gate in manifest.gates)
    assert manifest.iospec == world.original.model.iospec
    bill = (released.bundle / "reports/bom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    assert manifest.lineage.checkpoint_sha256 in bill and world.dataset.spec not in bill
    card = (released.bundle / "README.md").read_text()
    assert f"has forgotten {len(world.forget_ids)} training samples" in card
    assert "FAILS" not in card and "by whom it is signed, if at all" in card


Json = dict[str, Any]


def harm(bundle: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    path = bundle / name
    path.write_bytes(change(path.read_bytes()))


def edit(bundle: Path, change: Callable[[Json], object]) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    change(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest, sort_keys=True))


def edited(change: Callable[[Json], object]) -> Callable[[Path], object]:
    return lambda bundle: edit(bundle, change)


def listed_as(name: str) -> Callable[[Path], object]:
    """Lists a file under another name, with its true hash and size."""
    return edited(lambda m: m["files"].update({name: m["files"]["README.md"]}))


def without_gate(name: str) -> Callable[[Path], object]:
    return edited(lambda m: m.update(gates=[g for g in m["gates"] if g["name"] != name]))


def rewrite(bundle: Path, name: str, change: Callable[[Json], object]) -> None:
    """A JSON file of the bundle edited, and its new hash in the manifest, as somebody with time
    would do it.
    """
    value = json.loads((bundle / name).read_text())
    change(value)
    raw = json.dumps(value).encode()
    (bundle / name).write_bytes(raw)
    entry = {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    edit(bundle, lambda m: m["files"].update({name: entry}))


ARTIFACT = "artifacts/age.fp32.tflite"
SCHEMA = "manifest.json: it does not follow"
MANY = {f"f{number}": {"sha256": "0" * 64, "bytes": 1} for number in range(5000)}
TAMPERING: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped bit": (
        lambda b: harm(b, ARTIFACT, lambda raw: raw[:999] + bytes([raw[999] ^ 1]) + raw[1000:]),
        f"{ARTIFACT} was changed",
    ),
    "longer file": (
        lambda b: harm(b, "README.md", lambda raw: raw + b" "),
        "README.md was changed",
    ),
    "missing file": (lambda b: (b / "reports/audit.json").unlink(), "audit.json is missing"),
    "extra file": (
        lambda b: (b / "artifacts/more.tflite").write_text("x"),
        "'artifacts/more.tflite' is not in the manifest",
    ),
    "hidden extra file": (
        lambda b: (b / ".hidden").write_text("x"),
        "'.hidden' is not in the manifest",
    ),
    "link instead of a file": (lambda b: relinked(b / "README.md"), "README.md is a link"),
    "extra link to a folder": (
        lambda b: (b / "more").symlink_to("/etc"),
        "'more' is not in the manifest",
    ),
    "pipe": (lambda b: os.mkfifo(b / "pipe"), "'pipe' is not in the manifest"),
    "path out of the folder": (listed_as("../README.md"), "unsafe file '../README.md'"),
    "path out and back": (listed_as("a/../../README.md"), "unsafe file"),
    "absolute path": (listed_as("/etc/passwd"), "unsafe file"),
    "backslashes": (listed_as("..\\README.md"), "unsafe file"),
    "empty name": (listed_as(""), "unsafe file"),
    "edited hash": (
        edited(lambda m: m["files"]["README.md"].update(sha256="0" * 64)),
        "README.md was changed",
    ),
    "dropped entry": (
        edited(lambda m: m["files"].pop("README.md")),
        "'README.md' is not in the manifest",
    ),
    "entry of another type": (edited(lambda m: m["files"].update({"README.md": 7})), SCHEMA),
    "surplus key": (edited(lambda m: m.update(run="rm -rf /")), SCHEMA),
    "no lineage": (edited(lambda m: m.pop("lineage")), SCHEMA),
    "lineage of another type": (edited(lambda m: m.update(lineage=[])), SCHEMA),
    "another schema": (edited(lambda m: m.update(schema="unplug-bundle/9")), SCHEMA),
    "not JSON": (lambda b: (b / "manifest.json").write_text("{"), "manifest.json"),
    "not a number": (
        edited(lambda m: m["lineage"].update(compute_fraction=float("nan"))),
        SCHEMA,
    ),
    "huge manifest": (
        edited(lambda m: m.update(x=" " * 9 * 2**20)),
        "manifest.json: larger than",
    ),
    "endless list of files": (edited(lambda m: m["files"].update(MANY)), "more than 4096 files"),
    "a string for a signature": (edited(lambda m: m.update(signature="ed25519:AAAA")), SCHEMA),
    "failed gate": (edited(lambda m: m["gates"][0].update(passed=False)), "does not hold"),
    "gate beyond its limit": (edited(lambda m: m["gates"][0].update(value=1e9)), "does not hold"),
    "gate that measured nothing": (
        edited(lambda m: m["gates"][0].update(value=None)),
        "nothing measured",
    ),
    "no gates": (edited(lambda m: m.update(gates=[])), "not judged by the gate 'forgotten'"),
    "missing gate": (without_gate("parity"), "not judged by the gate 'parity'"),
    "missing attack": (without_gate("forgotten (loss)"), "not judged by the attack 'loss'"),
    "file of another model": (
        lambda b: rewrite(b, f"{ARTIFACT}.json", lambda c: c.update(checkpoint_sha256="0" * 64)),
        "was made from other weights than its lineage names",
    ),
    "lineage of another model": (
        edited(lambda m: m["lineage"].update(original_sha256="0" * 64)),
        "its audit is about another original model",
    ),
    "report of another release": (
        lambda b: rewrite(b, "reports/release.json", lambda r: r["gates"].pop()),
        "its release report has other gates",
    ),
    "deeply nested": (lambda b: (b / "manifest.json").write_text("[" * 200_000), "manifest.json"),
}


def relinked(path: Path) -> None:
    """A link to the file in its place."""
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


@pytest.mark.parametrize("kind", TAMPERING)
def test_tampering_is_found_and_named(bundle: Path, kind: str) -> None:
    change, message = TAMPERING[kind]
    change(bundle)
    with pytest.raises(CheckFailed, match=re.escape(message)) as caught:
        verify_bundle(bundle)
    assert caught.value.exit_code == 1


def test_no_bundle_at_all_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"no manifest\.json") as caught:
        read_manifest(tmp_path)
    assert caught.value.exit_code == 2


# What must not leave


@pytest.mark.long
def test_nothing_in_a_bundle_names_a_person_or_a_place(released: Release, world: World) -> None:
    words = {
        world.spec,
        *world.dataset.ids,
        *(sample.subject for sample in world.dataset.samples),
        *map(str, (released.bundle.parent, world.original.path, Path.home(), Path.cwd())),
        sys.prefix,
        socket.gethostname(),
    }
    for path in sorted(released.bundle.rglob("*")):
        raw = path.read_bytes() if path.is_file() else b""
        named = [word for word in words if word and len(word) > 4 and word.encode() in raw]
        assert not named, f"{path.name} holds {named[:5]}"


@pytest.mark.long
def test_who_has_a_picture_and_the_files_cannot_try_out_whether_it_was_forgotten(
    released: Release, world: World
) -> None:
    """By ids every hash that names a request could be tried, by pictures every number of one
    sample, for the file gives it.
    """
    text = "".join(
        path.read_text() for path in released.bundle.rglob("*") if path.suffix in (".json", ".md")
    )
    asked = world.split.with_forget(world.forget_ids)
    assert asked.sha256 not in text and asked.forget_sha256 not in text
    assert keyed(asked).sha256 in text, "two audits of one request can still be told to be that"
    models = json.loads((released.bundle / "reports" / "audit.json").read_text())["models"]
    assert models and all(set(model["utility"]) == {"test"} for model in models)
    attacks = [attack for model in models for attack in model["attacks"].values()]
    assert attacks
    assert not any(attack["forget_scores"] or attack["unseen_scores"] for attack in attacks)
    assert not any(model["worst_subject"] for model in models)


@pytest.mark.long
def test_what_was_published_of_an_audit_can_be_drawn(released: Release, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    write_report([released.bundle / "reports" / "audit.json"], out, title="a bundle")
    page = out.read_text()
    assert "the audit is of a bundle" in page and "AUC and 95 % interval" in page


@pytest.mark.long
def test_a_bundle_holds_no_face_of_the_data(released: Release, world: World) -> None:
    """Neither as a picture file, nor in base64, nor as the pixels of a test vector."""
    marks = (b"\x89PNG", b"\xff\xd8\xff", b"RIFF", b"iVBOR", b"data:image", b"/9j/")
    floats = world.dataset.pixels(range(len(world.dataset))).astype("<f4") / np.float32(255.0)
    faces = {
        hashlib.sha256(np.ascontiguousarray(face.transpose(2, 0, 1)).tobytes()).digest()
        for face in floats
    }
    inputs = 0
    for path in sorted(released.bundle.rglob("*")):
        if path.is_file() and path.suffix != ".tflite":
            raw = path.read_bytes()
            assert not [mark for mark in marks if raw.startswith(mark)], path.name
            if path.suffix == ".f32":
                inputs += len(raw) == 3 * 32 * 32 * 4
                assert hashlib.sha256(raw).digest() not in faces, f"{path.name} is of the data"
            else:
                assert not [mark for mark in marks if mark in raw], path.name
    assert inputs == 4


@pytest.mark.long
def test_the_shipped_file_passes_its_own_test_vectors(released: Release) -> None:
    """What an app does on the device: read the inputs, run the file, compare."""
    folder = released.bundle / "test_vectors"
    vectors = json.loads((folder / "vectors.json").read_text())
    assert vectors["schema"] == "unplug-vectors/1"

    def read(side: str, name: str) -> np.ndarray:
        entries = [sample[side][name] for sample in vectors["samples"]]
        assert {entry["dtype"] for entry in entries} == {"float32-le"}
        raw = [(folder / entry["file"]).read_bytes() for entry in entries]
        parts = zip(raw, entries, strict=True)
        return np.concatenate([np.frombuffer(r, "<f4").reshape(e["shape"]) for r, e in parts])

    outputs = Session(load_artifact(released.bundle / ARTIFACT)).run(
        {"image": read("inputs", "image")}
    )
    assert len(vectors["samples"]) == 4 and set(outputs) == {"age_logits", "expected_age"}
    for name, array in outputs.items():
        tolerance = {"atol": VECTOR_TOLERANCE, "rtol": VECTOR_TOLERANCE}
        np.testing.assert_allclose(array, read("outputs", name), **tolerance)
    assert len(np.unique(outputs["expected_age"])) == 4, "the four faces are one face"


# Refusals


def released_into(folder: Path, world: World, ids: tuple[str, ...], **changed: Any) -> Path:
    """What `release` writes into a folder."""
    out, say = folder / "age.unplug", changed.pop("say", lambda _: None)
    config = replace(QUICK, references=0, gates=changed.pop("gates", QUICK.gates))
    arguments = (world.original, world.dataset, ids, out, folder / "work", config)
    release(*arguments, device=CPU, say=say, show=False, **changed)
    return out


@pytest.fixture
def attempt(
    released: Release, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """A release with the artifacts of `released` instead of new ones."""
    paths = sorted((released.bundle / "artifacts").glob("*.tflite"))
    exported = "unplug.sdk.releasing.stages_files.export_checkpoint"
    monkeypatch.setattr(exported, lambda *_a, **_k: [load_artifact(path) for path in paths])
    return partial(released_into, tmp_path, world, world.forget_ids, oracle=world.oracle)


@pytest.mark.long
def test_a_release_is_signed_where_its_gates_hold_and_nowhere_else(
    attempt: Callable[..., Path], tmp_path: Path
) -> None:
    make_key(tmp_path / "key")
    signing = Signing(
        signer=load_signer(str(tmp_path / "key")), publication=Publication(name="age", release=3)
    )
    failing = replace(QUICK.gates, max_mae_above_retrained=-99.0)
    with pytest.raises(GateFailed, match=r"utility: .* must be <= -99 years above retrained"):
        attempt(gates=failing, signing=signing)
    summary = json.loads((tmp_path / "work" / "release.json").read_text())
    assert summary["passed"] is False
    failed = [gate["name"] for gate in summary["gates"] if not gate["passed"]]
    assert failed == ["utility", "utility (retain)"]
    assert not list(tmp_path.glob("*age.unplug*")) and not list(tmp_path.rglob("model.sig"))
    out = attempt(signing=signing)
    assert verify_bundle(out, read_trust(tmp_path / "key.pub")).publication == signing.publication
    with pytest.raises(Refused, match="unknown key"):
        verify_bundle(out)


def test_what_cannot_end_well_is_refused_before_the_work(world: World, tmp_path: Path) -> None:
    def began(_: object) -> None:
        pytest.fail("it began")

    with pytest.raises(DataError, match="at least two"):
        released_into(tmp_path, world, world.forget_ids[:1], say=began)
    (tmp_path / "age.unplug").mkdir()
    (tmp_path / "age.unplug" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="not written by this command"):
        released_into(tmp_path, world, world.forget_ids, say=began)
    assert not (tmp_path / "work").exists()
