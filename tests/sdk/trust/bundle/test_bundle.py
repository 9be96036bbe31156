"""What is in a bundle, what must not be, and how every kind of tampering is found."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

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
from unplug.sdk.releasing import Gates, Release, release
from unplug.sdk.report import write_report
from unplug.trust.bundle import (
    Content,
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
    sha256, iospec = sha256_file(file), iospec or AgePredictor(image_size=32).iospec
    card = Card(
        target="onnx" if name.endswith(".onnx") else "litert",
        precision="fp32",
        file=file.name,
        sha256=sha256,
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
    gates = [
        {
            "name": name,
            "value": 0.01,
            "limit": 0.1,
            "comparison": "<=",
            "passed": True,
            "unit": "",
            "detail": "",
        }
        for name in (
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
    ]
    models = [
        {"role": role, "sha256": digit * 64, "attacks": {"gain": {}, "loss": {}}}
        for role, digit in (("original", "2"), ("unlearned", "1"))
    ]
    lineage = Lineage(
        original_sha256="2" * 64,
        checkpoint_sha256="1" * 64,
        data_digest="0" * 64,
        forget_samples=3,
        method="msg",
        compute_fraction=0.04,
        ledger_head=None,
    )
    facts = {
        "model_type": "age",
        "iospec": iospec.to_dict(),
        "preprocessing": {},
        "postprocessing": {},
        "gates": gates,
        "versions": {},
        "lineage": asdict(lineage),
    }
    content = Content(
        artifacts=[write_card(file, card)],
        reports={"audit.json": {"models": models}, "release.json": {"gates": gates}},
        vectors=tmp_path / "vectors",
        card="A test.",
        facts=facts,
    )
    made = write_bundle(content, tmp_path / "copy.unplug")
    assert verify_bundle(made).lineage == lineage
    return made


@pytest.mark.long
def test_a_fresh_bundle_verifies(released: Release, world: World) -> None:
    manifest = verify_bundle(released.bundle)
    names = set(manifest.files)
    assert {
        "README.md",
        "artifacts/age.fp32.tflite",
        "artifacts/age.fp32.tflite.json",
        "test_vectors/vectors.json",
    } <= names
    assert {f"reports/{name}.json" for name in ("audit", "parity", "release")} <= names
    assert manifest.lineage.forget_samples == len(world.forget_ids)
    assert manifest.lineage.original_sha256 == world.original.sha256
    assert manifest.lineage.data_digest == world.dataset.digest
    assert all(gate.passed for gate in manifest.gates)
    assert manifest.iospec == world.original.model.iospec
    card = (released.bundle / "README.md").read_text()
    assert f"has forgotten {len(world.forget_ids)} training samples" in card
    assert "FAILS" not in card and "by whom it is signed, if at all" in card


def harm(bundle: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    path = bundle / name
    path.write_bytes(change(path.read_bytes()))


def edit(bundle: Path, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    manifest = json.loads((bundle / "manifest.json").read_text())
    change(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest, sort_keys=True))


def refile(name: str) -> Callable[[dict], object]:  # type: ignore[type-arg]
    """Lists a file under another name, with its true hash and size."""
    return lambda manifest: manifest["files"].update({name: manifest["files"]["README.md"]})


def rewrite(bundle: Path, name: str, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    """A JSON file of the bundle edited, and its new hash in the manifest, as somebody with time
    would do it.
    """
    value = json.loads((bundle / name).read_text())
    change(value)
    raw = json.dumps(value).encode()
    (bundle / name).write_bytes(raw)
    edit(
        bundle,
        lambda m: m["files"].update(
            {name: {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}}
        ),
    )


def recard(bundle: Path, **changes: object) -> None:
    rewrite(bundle, "artifacts/age.fp32.tflite.json", lambda card: card.update(changes))


TAMPERING: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped bit": (
        lambda b: harm(
            b,
            "artifacts/age.fp32.tflite",
            lambda raw: raw[:999] + bytes([raw[999] ^ 1]) + raw[1000:],
        ),
        "artifacts/age.fp32.tflite was changed",
    ),
    "longer file": (
        lambda b: harm(b, "README.md", lambda raw: raw + b" "),
        "README.md was changed",
    ),
    "missing file": (
        lambda b: (b / "reports/audit.json").unlink(),
        "reports/audit.json is missing",
    ),
    "extra file": (
        lambda b: (b / "artifacts/more.tflite").write_text("x"),
        "'artifacts/more.tflite' is not in the manifest",
    ),
    "hidden extra file": (
        lambda b: (b / ".hidden").write_text("x"),
        "'.hidden' is not in the manifest",
    ),
    "link instead of a file": (
        lambda b: (
            (b / "README.md").rename(b.parent / "README.md"),
            (b / "README.md").symlink_to(b.parent / "README.md"),
        ),
        "README.md is a link",
    ),
    "extra link to a folder": (
        lambda b: (b / "more").symlink_to("/etc"),
        "'more' is not in the manifest",
    ),
    "pipe": (lambda b: os.mkfifo(b / "pipe"), "'pipe' is not in the manifest"),
    "path out of the folder": (
        lambda b: edit(b, refile("../README.md")),
        "unsafe file '../README.md'",
    ),
    "path out and back": (lambda b: edit(b, refile("a/../../README.md")), "unsafe file"),
    "absolute path": (lambda b: edit(b, refile("/etc/passwd")), "unsafe file"),
    "backslashes": (lambda b: edit(b, refile("..\\README.md")), "unsafe file"),
    "empty name": (lambda b: edit(b, refile("")), "unsafe file"),
    "edited hash": (
        lambda b: edit(b, lambda m: m["files"]["README.md"].update(sha256="0" * 64)),
        "README.md was changed",
    ),
    "dropped entry": (
        lambda b: edit(b, lambda m: m["files"].pop("README.md")),
        "'README.md' is not in the manifest",
    ),
    "entry of another type": (
        lambda b: edit(b, lambda m: m["files"].update({"README.md": 7})),
        "manifest.json: it does not follow",
    ),
    "surplus key": (
        lambda b: edit(b, lambda m: m.update(run="rm -rf /")),
        "manifest.json: it does not follow",
    ),
    "no lineage": (
        lambda b: edit(b, lambda m: m.pop("lineage")),
        "manifest.json: it does not follow",
    ),
    "lineage of another type": (
        lambda b: edit(b, lambda m: m.update(lineage=[])),
        "manifest.json: it does not follow",
    ),
    "another schema": (
        lambda b: edit(b, lambda m: m.update(schema="unplug-bundle/9")),
        "manifest.json: it does not follow",
    ),
    "not JSON": (lambda b: (b / "manifest.json").write_text("{"), "manifest.json"),
    "not a number": (
        lambda b: edit(b, lambda m: m["lineage"].update(compute_fraction=float("nan"))),
        "manifest.json: it does not follow",
    ),
    "huge manifest": (
        lambda b: edit(b, lambda m: m.update(x=" " * 9 * 2**20)),
        "manifest.json: larger than",
    ),
    "endless list of files": (
        lambda b: edit(
            b,
            lambda m: m["files"].update(
                {f"f{n}": {"sha256": "0" * 64, "bytes": 1} for n in range(5000)}
            ),
        ),
        "more than 4096 files",
    ),
    "a string for a signature": (
        lambda b: edit(b, lambda m: m.update(signature="ed25519:AAAA")),
        "manifest.json: it does not follow",
    ),
    "failed gate": (
        lambda b: edit(b, lambda m: m["gates"][0].update(passed=False)),
        "does not hold",
    ),
    "gate beyond its limit": (
        lambda b: edit(b, lambda m: m["gates"][0].update(value=1e9)),
        "does not hold",
    ),
    "gate that measured nothing": (
        lambda b: edit(b, lambda m: m["gates"][0].update(value=None)),
        "nothing measured",
    ),
    "no gates": (
        lambda b: edit(b, lambda m: m.update(gates=[])),
        "not judged by the gate 'forgotten'",
    ),
    "missing gate": (
        lambda b: edit(
            b, lambda m: m.update(gates=[g for g in m["gates"] if g["name"] != "parity"])
        ),
        "not judged by the gate 'parity'",
    ),
    "missing attack": (
        lambda b: edit(
            b, lambda m: m.update(gates=[g for g in m["gates"] if g["name"] != "forgotten (loss)"])
        ),
        "not judged by the attack 'loss'",
    ),
    "file of another model": (
        lambda b: recard(b, checkpoint_sha256="0" * 64),
        "was made from other weights than its lineage names",
    ),
    "lineage of another model": (
        lambda b: edit(b, lambda m: m["lineage"].update(original_sha256="0" * 64)),
        "its audit is about another original model",
    ),
    "report of another release": (
        lambda b: rewrite(b, "reports/release.json", lambda r: r["gates"].pop()),
        "its release report has other gates",
    ),
    "deeply nested": (lambda b: (b / "manifest.json").write_text("[" * 200_000), "manifest.json"),
}


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
    subjects = {sample.subject for sample in world.dataset.samples}
    here = {
        str(released.bundle.parent),
        str(world.original.path),
        str(Path.home()),
        str(Path(sys.prefix)),
        str(Path.cwd()),
    }
    words = {
        world.spec,
        *world.dataset.ids,
        *subjects,
        *(place for place in here if len(place) > 3),
        socket.gethostname(),
    }
    for path in sorted(released.bundle.rglob("*")):
        if not path.is_file():
            continue
        raw = path.read_bytes()
        found = [word for word in words if word and len(word) > 4 and word.encode() in raw]
        assert not found, f"{path.name} holds {found[:5]}"


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
    audit = json.loads((released.bundle / "reports" / "audit.json").read_text())
    assert audit["models"] and all(set(model["utility"]) == {"test"} for model in audit["models"])
    attacks = [attack for model in audit["models"] for attack in model["attacks"].values()]
    assert attacks and not any(
        attack["forget_scores"] or attack["unseen_scores"] for attack in attacks
    )
    assert not any(model["worst_subject"] for model in audit["models"])


@pytest.mark.long
def test_what_was_published_of_an_audit_can_be_drawn(released: Release, tmp_path: Path) -> None:
    write_report(
        [released.bundle / "reports" / "audit.json"], tmp_path / "report.html", title="a bundle"
    )
    page = (tmp_path / "report.html").read_text()
    assert "the audit is of a bundle" in page and "AUC and 95 % interval" in page


@pytest.mark.long
def test_a_bundle_holds_no_face_of_the_data(released: Release, world: World) -> None:
    """Neither as a picture file, nor in base64, nor as the pixels of a test vector."""
    marks = (
        b"\x89PNG",
        b"\xff\xd8\xff",
        b"RIFF",
        base64.b64encode(b"\x89PNG")[:5],
        b"data:image",
        b"/9j/",
    )
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
                assert hashlib.sha256(raw).digest() not in faces, (
                    f"{path.name} is a face of the data"
                )
            else:
                assert not [mark for mark in marks if mark in raw], path.name
    assert inputs == 4


# Test vectors


@pytest.mark.long
def test_the_shipped_file_passes_its_own_test_vectors(released: Release) -> None:
    """What an app does on the device: read the inputs, run the file, compare."""
    folder = released.bundle / "test_vectors"
    vectors = json.loads((folder / "vectors.json").read_text())
    assert vectors["schema"] == "unplug-vectors/1"

    def read(entry: dict) -> np.ndarray:  # type: ignore[type-arg]
        assert entry["dtype"] == "float32-le"
        return np.frombuffer((folder / entry["file"]).read_bytes(), "<f4").reshape(entry["shape"])

    inputs = {
        "image": np.concatenate([read(sample["inputs"]["image"]) for sample in vectors["samples"]])
    }
    outputs = Session(load_artifact(released.bundle / "artifacts/age.fp32.tflite")).run(inputs)
    assert len(vectors["samples"]) == 4 and set(outputs) == {"age_logits", "expected_age"}
    for name, array in outputs.items():
        expected = np.concatenate([read(sample["outputs"][name]) for sample in vectors["samples"]])
        np.testing.assert_allclose(array, expected, atol=VECTOR_TOLERANCE, rtol=VECTOR_TOLERANCE)
    ages = outputs["expected_age"]
    assert len(np.unique(ages)) == 4, "the four faces are one face"


# Refusals


@pytest.fixture
def refuse(
    released: Release, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """A release with the artifacts of `released` instead of new ones."""
    made = [
        load_artifact(path) for path in sorted((released.bundle / "artifacts").glob("*.tflite"))
    ]
    monkeypatch.setattr(
        "unplug.sdk.releasing.stages_files.export_checkpoint", lambda *_a, **_k: made
    )

    def attempt(gates: Gates, signing: Signing | None = None) -> Path:
        out = tmp_path / "age.unplug"
        config = replace(QUICK, gates=gates, references=0)
        release(
            world.original,
            world.dataset,
            world.forget_ids,
            out,
            tmp_path / "work",
            config,
            oracle=world.oracle,
            device=CPU,
            say=lambda _: None,
            show=False,
            signing=signing,
        )
        return out

    return attempt


@pytest.mark.long
def test_a_failed_gate_leaves_no_bundle(refuse: Callable[..., Path], tmp_path: Path) -> None:
    gates = replace(QUICK.gates, max_mae_above_retrained=-99.0)
    with pytest.raises(
        GateFailed, match=r"utility: .* must be <= -99 years above retrained"
    ) as caught:
        refuse(gates)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "age.unplug").exists()
    summary = json.loads((tmp_path / "work" / "release.json").read_text())
    assert summary["passed"] is False
    assert [gate["name"] for gate in summary["gates"] if not gate["passed"]] == [
        "utility",
        "utility (retain)",
    ]
    assert not list(tmp_path.glob(".age.unplug.*"))


@pytest.mark.long
def test_a_release_is_signed_where_its_gates_hold_and_nowhere_else(
    refuse: Callable[..., Path], tmp_path: Path
) -> None:
    make_key(tmp_path / "key")
    signing = Signing(
        signer=load_signer(str(tmp_path / "key")), publication=Publication(name="age", release=3)
    )
    with pytest.raises(GateFailed):
        refuse(replace(QUICK.gates, max_mae_above_retrained=-99.0), signing)
    assert not (tmp_path / "age.unplug").exists() and not list(tmp_path.rglob("model.sig"))
    out = refuse(QUICK.gates, signing)
    assert verify_bundle(out, read_trust(tmp_path / "key.pub")).publication == signing.publication
    with pytest.raises(Refused, match="unknown key"):
        verify_bundle(out)


def test_a_place_that_is_taken_is_refused_before_the_work(world: World, tmp_path: Path) -> None:
    (tmp_path / "age.unplug").mkdir()
    (tmp_path / "age.unplug" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="not written by this command"):
        release(
            world.original,
            world.dataset,
            world.forget_ids,
            tmp_path / "age.unplug",
            tmp_path / "work",
            QUICK,
            device=CPU,
            say=lambda _: pytest.fail("it began"),
            show=False,
        )
    assert not (tmp_path / "work").exists()


def test_a_request_that_cannot_be_audited_is_refused_before_the_work(
    world: World, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="at least two"):
        release(
            world.original,
            world.dataset,
            world.forget_ids[:1],
            tmp_path / "age.unplug",
            tmp_path / "work",
            QUICK,
            device=CPU,
            say=lambda _: pytest.fail("it began"),
            show=False,
        )
