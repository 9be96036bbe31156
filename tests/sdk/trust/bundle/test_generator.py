"""A base of exported files as a bundle: signed, verified, compared, and every harm to it refused.

The files are random bytes: nothing here runs them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from unplug.core import InputError, sha256_tree
from unplug.sdk.evidence.concepts import CLAIMS
from unplug.trust.bundle import (
    ATTACKERS,
    ERASED_GATES,
    BundleCheckFailed,
    ErasureClaim,
    Gate,
    Publication,
    Refused,
    Signing,
    Trust,
    finish_generator,
    generator_entries,
    load_signer,
    make_key,
    read_generator,
    sign_generator,
    verify_bundle,
    verify_generator,
)
from unplug.trust.bundle.generator_parts import MAX_PIPELINE_BYTES

from ..commands import called, refused, shown

PARTS: Mapping[str, tuple[tuple[str, str, int], ...]] = {
    "text_encoder": (("onnx", "fp32", 400), ("onnx", "fp16", 200)),
    "unet": (("onnx", "fp32", 3000), ("onnx", "fp16", 1500), ("coreml", "fp16", 1400)),
    "decoder": (("onnx", "fp32", 700), ("onnx", "fp16", 350)),
}
CLAIM = ErasureClaim(
    base_sha256="1" * 64,
    original_sha256="2" * 64,
    concepts=("glasses",),
    method="uce",
    edit_bytes=6416,
    against="prompts",
)
HELD = [
    asdict(Gate(name=name, value=1.0, limit=1.0, comparison=">=", passed=True, unit="", detail=""))
    for name in ERASED_GATES
]


def make_generator(folder: Path, edit: bytes = b"") -> Path:
    """What ``unplug export`` writes, of made-up bytes; the text encoder's end with `edit`."""
    record: dict[str, Any] = {"schema": "unplug-pipeline/1", "name": "tiny", "plugins": {}}
    for part, forms in PARTS.items():
        files = [_file(folder, part, *form, edit) for form in forms]
        record[part] = {"model_type": part, "files": files}
    record["plugins"]["canny"] = {"condition": "canny", "part": record["unet"] | {"files": []}}
    record["plugins"]["canny"]["part"]["files"] = [_file(folder, "canny", "onnx", "fp32", 90, b"")]
    (folder / "pipeline.json").write_text(json.dumps(record | {"tokenizer": {"merges": ["ü"]}}))
    return folder


def _file(
    folder: Path, part: str, target: str, precision: str, size: int, edit: bytes
) -> dict[str, Any]:
    place = folder / part / f"{part}.{precision}.{'mlpackage' if target == 'coreml' else target}"
    body = (part + precision).encode() * (size // len(part + precision))
    if target == "coreml":
        (place / "Data" / "x").mkdir(parents=True)
        (place / "Data.json").write_bytes(b"a name that sorts otherwise as text")
        (place / "Data" / "x" / "weights.bin").write_bytes(body)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(body + (edit if part == "text_encoder" else b""))
    place.with_name(f"{place.name}.json").write_text("{}")
    sha256, total = sha256_tree(place)
    named = {"target": target, "precision": precision, "sha256": sha256, "bytes": total}
    return {**named, "file": f"{part}/{place.name}"}


def add_reports(folder: Path, **changes: Any) -> None:
    """An audit and an erasure's record as `CLAIM` has them, but for changes."""
    claims = {"prompts": "holds", "control images": "broken", "weights": "broken"}
    audit = {
        "models": {"erased": {"sha256": "1" * 64}, "original": {"sha256": "2" * 64}},
        "concepts": [{"words": "glasses", "claims": claims | changes.get("claims", {})}],
    }
    record = {
        "base": {"sha256": "2" * 64},
        "method": "uce",
        "map": {"bytes": 6416},
        "concepts": [{"words": "glasses"}],
    }
    (folder / "reports").mkdir()
    (folder / "reports" / "audit.json").write_text(json.dumps(audit | changes.get("audit", {})))
    told = json.dumps(record | changes.get("record", {}))
    (folder / "reports" / "erasure.json").write_text(told)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return make_generator(tmp_path / "files")


@pytest.fixture
def signed(plain: Path, key: Path, tmp_path: Path) -> Path:
    called(f"bundle sign {plain} --sign {key} --name tiny -o {tmp_path}/one.unplug")
    return tmp_path / "one.unplug"


def signing(key: Path, *earlier: Path) -> Signing:
    said = Publication(name="tiny", release=2)
    return Signing(signer=load_signer(str(key)), publication=said, earlier=earlier)


def test_the_words_of_claims_are_those_of_audits() -> None:
    assert ATTACKERS == CLAIMS


def test_a_round_trip(plain: Path, signed: Path, key: Path, tmp_path: Path) -> None:
    told = called(f"bundle verify {signed} --trust {key}.pub")
    assert told["signed"] and told["publication"]["release"] == 1 and told["erasure"] is None
    assert {path.name for path in signed.iterdir()} - {path.name for path in plain.iterdir()} == {
        "manifest.json",
        "model.sig",
    }
    called(f"bundle pack {signed} -o {tmp_path}/one.zip")
    assert called(f"bundle verify {tmp_path}/one.zip --trust {key}.pub")["id"] == told["id"]
    # in its place, and again: the same bundle is the same bytes
    assert called(f"bundle sign {plain} --sign {key} --name tiny")["id"] == told["id"]
    assert called(f"bundle sign {plain} --sign {key} --name tiny")["id"] == told["id"]
    assert "release 1 of tiny" in shown(f"bundle inspect {plain}")


def test_whom_nobody_trusts_and_other_readers(signed: Path, key: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    assert "unknown key" in refused(f"bundle verify {signed} --trust {tmp_path}/other.pub", code=1)
    with pytest.raises(BundleCheckFailed, match="does not follow its schema"):
        verify_bundle(signed, Trust(keys=(load_signer(str(key)).key,)))
    stores = f"--hub {tmp_path}/hub --trust {key}.pub"
    assert "stores take bundles of one model" in refused(f"bundle pack {signed} {stores}")


def test_every_flipped_byte_is_refused(signed: Path, key: Path) -> None:
    trust = Trust(keys=(load_signer(str(key)).key,))
    for path in sorted(path for path in signed.rglob("*") if path.is_file()):
        raw = path.read_bytes()
        for at in {0, len(raw) // 2, len(raw) - 1}:
            path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
            with pytest.raises(BundleCheckFailed):
                verify_generator(signed, trust)
        path.write_bytes(raw)
    verify_generator(signed, trust)


@pytest.mark.parametrize(
    ("harm", "verdict"),
    [
        (lambda b: (b / "more.bin").write_bytes(b"x"), "unlisted"),
        (lambda b: (b / "unet" / "more.onnx.json").write_text("{}"), "unlisted"),
        (lambda b: (b / "reports").mkdir() or (b / "reports/x.html").write_text(""), "unlisted"),
        (lambda b: (b / "unet" / "unet.fp16.onnx").unlink(), "missing"),
        (lambda b: (b / "unet" / "unet.fp16.onnx.json").unlink(), "missing"),
        (lambda b: shutil.rmtree(b / "unet" / "unet.fp16.mlpackage"), "missing"),
        (lambda b: (b / "unet/unet.fp16.mlpackage/Data/x/weights.bin").write_bytes(b""), "changed"),
        (lambda b: (b / "unet/unet.fp16.mlpackage/more").write_bytes(b""), "changed"),
        (lambda b: (b / "unet" / "unet.fp16.onnx").write_bytes(b"other"), "changed"),
        (lambda b: (b / "unet" / "link").symlink_to("/etc/hostname"), "link"),
        (lambda b: (b / "more").symlink_to(b / "unet"), "link"),
        (lambda b: (b / "unet" / ".hidden").write_text(""), "unsafe-name"),
        (lambda b: renamed(b, "../unet.onnx"), "unsafe-name"),
        (lambda b: renamed(b, "/etc/hostname"), "unsafe-name"),
        (lambda b: renamed(b, "decoder/decoder.fp32.onnx"), "changed"),
        (lambda b: pipeline(b, plugins=twice(b)), "manifest"),
        (lambda b: pipeline(b, plugins=[]), "manifest"),
        (lambda b: pipeline(b, schema="unplug-pipeline/9"), "manifest"),
        (lambda b: pipeline(b, tokenizer=1e300), "manifest"),
        (lambda b: (b / "pipeline.json").write_text("[" * 10**5), "manifest"),
        (lambda b: (b / "pipeline.json").write_text('{"a":1,"a":2}'), "manifest"),
        (lambda b: os.truncate(b / "pipeline.json", MAX_PIPELINE_BYTES + 1), "too-large"),
        (lambda b: many(b, 5000), "too-many"),
    ],
)
def test_what_is_not_whole_is_not_signed(
    plain: Path, key: Path, tmp_path: Path, harm: Callable[[Path], object], verdict: str
) -> None:
    harm(plain)
    with pytest.raises(Refused) as error:
        sign_generator(plain, signing(key), tmp_path / "out")
    assert error.value.verdict == verdict
    assert not (tmp_path / "out").exists()


def pipeline(folder: Path, **changes: Any) -> None:
    path = folder / "pipeline.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def twice(folder: Path) -> dict[str, Any]:
    """A second plugin of the same files."""
    plugins: dict[str, Any] = json.loads((folder / "pipeline.json").read_text())["plugins"]
    return plugins | {"again": plugins["canny"]}


def renamed(folder: Path, name: str) -> None:
    """The UNet's first file lies elsewhere, as its record has it."""
    unet = json.loads((folder / "pipeline.json").read_text())["unet"]
    unet["files"][0]["file"] = name
    pipeline(folder, unet=unet)


def many(folder: Path, count: int) -> None:
    variant = {"file": "variants/a.lora", "sha256": "0" * 64, "bytes": 1}
    pipeline(folder, variants={f"a{number}": variant for number in range(count)})


def test_a_manifest_signed_by_somebody_trusted_cannot_name_too_much(plain: Path, key: Path) -> None:
    """A signer without our checks: all files are as signed, and one is no part."""
    from unplug.trust.bundle.bundle import inventory
    from unplug.trust.bundle.signing import write_manifest

    (plain / "tool.exe").write_bytes(b"MZ")
    said = {"name": "tiny", "release": 1, "expires": None}
    said |= {name: [] for name in ("supersedes", "revokes", "requests")}
    told = {"schema": "unplug-generator-bundle/1", "publication": said, "erasure": None}
    write_manifest(plain, told | {"gates": [], "files": inventory(plain)})
    signing(key).seal(plain, "unplug-generator-bundle/1")
    told_no = refused(f"bundle verify {plain} --trust {key}.pub", code=1)
    assert "'tool.exe' is no part that pipeline.json names" in told_no


def test_huge_and_broken_manifests(signed: Path) -> None:
    for raw in (b"{}", b"[" * 10**5, b'{"schema": "unplug-bundle/2"}'):
        (signed / "manifest.json").write_bytes(raw)
        refused(f"bundle verify {signed}", code=1)
    os.truncate(signed / "manifest.json", 9 * 2**20)
    assert "larger than" in refused(f"bundle inspect {signed}", code=1)


def test_what_a_device_fetches_again(tmp_path: Path, key: Path) -> None:
    before = make_generator(tmp_path / "before")
    after = make_generator(tmp_path / "after", b"twelve bytes")
    told = called(f"bundle diff {before} {after}")
    assert told["changed"] == {
        "text_encoder": {"onnx fp32": [400, 412], "onnx fp16": [192, 204]},
    }
    assert told["same"] == ["unet", "decoder", "plugins.canny"] and told["edit_bytes"] is None
    assert told["fetched"]["onnx fp32"] == [412, 412 + 3000 + 693 + 90]
    assert told["fetched"]["coreml fp16"][0] == 0
    add_reports(after)
    finish_generator(after, {"erasure": asdict(CLAIM), "gates": HELD}, None)
    text = shown(f"bundle diff {before} {after}")
    assert "fetched again, onnx fp32: 412 of" in text and "the edit itself is 6,416 bytes" in text
    assert not called(f"bundle diff {after} {after}")["changed"]
    (tmp_path / "empty").mkdir()
    assert "there is no pipeline.json" in refused(f"bundle diff {before} {tmp_path}/empty")


def test_a_claim_that_its_reports_bear_out(plain: Path, key: Path, tmp_path: Path) -> None:
    add_reports(plain)
    finish_generator(plain, {"erasure": asdict(CLAIM), "gates": HELD}, signing(key))
    told = called(f"bundle verify {plain} --trust {key}.pub")
    assert told["erasure"]["against"] == "prompts" and told["gates"] == 4
    assert "claimed against prompts" in shown(f"bundle verify {plain} --trust {key}.pub")
    # who publishes it anew keeps claim and gates
    called(f"bundle sign {plain} --sign {key} -o {tmp_path}/again.unplug --supersedes {plain}")
    assert read_generator(tmp_path / "again.unplug").erasure == CLAIM


@pytest.mark.parametrize(
    ("facts", "reports", "says"),
    [
        ({}, {"claims": {"prompts": "broken"}}, "does not say that 'glasses' holds against"),
        ({"against": "weights"}, {}, "holds against control images"),
        ({"base_sha256": "3" * 64}, {}, "its audit is about another base"),
        ({"edit_bytes": 9}, {}, "record says something else"),
        ({"concepts": ("hat",)}, {}, "record says something else"),
        ({}, {"record": {"base": {"sha256": "9" * 64}}}, "record says something else"),
        ({}, {"audit": {"models": []}}, "cannot be read"),
        ({}, {"audit": {"concepts": [{"words": ["x"]}]}}, "cannot be read"),
    ],
)
def test_a_claim_that_its_reports_do_not_bear_out(
    plain: Path, key: Path, facts: dict[str, Any], reports: dict[str, Any], says: str
) -> None:
    add_reports(plain, **reports)
    with pytest.raises(BundleCheckFailed, match=says):
        finish_generator(plain, {"erasure": asdict(CLAIM) | facts, "gates": HELD}, signing(key))
    assert not (plain / "model.sig").exists()


@pytest.mark.parametrize(
    ("gates", "says"),
    [
        (HELD[1:], "not judged by the gate 'audit of this base'"),
        ([*HELD[1:], HELD[0] | {"value": 0.0}], "does not hold"),
        ([*HELD[1:], HELD[0] | {"passed": False, "override": "trust me"}], "nobody signed"),
    ],
)
def test_gates_that_do_not_hold(plain: Path, key: Path, gates: Any, says: str) -> None:
    add_reports(plain)
    with pytest.raises(BundleCheckFailed, match=says):
        finish_generator(plain, {"erasure": asdict(CLAIM), "gates": gates}, signing(key))


def test_missing_reports(plain: Path, key: Path) -> None:
    with pytest.raises(Refused, match=r"reports/audit.json is missing"):
        finish_generator(plain, {"erasure": asdict(CLAIM), "gates": HELD}, signing(key))


def test_what_was_erased_stays_erased(tmp_path: Path, key: Path) -> None:
    old, new = (make_generator(tmp_path / name) for name in ("old", "new"))
    add_reports(old)
    finish_generator(old, {"erasure": asdict(CLAIM), "gates": HELD}, None)
    with pytest.raises(InputError, match="'glasses' was erased from"):
        finish_generator(new, {"erasure": None, "gates": []}, signing(key, old))


def test_only_an_older_one_of_its_kind_is_replaced(plain: Path, key: Path, tmp_path: Path) -> None:
    out = make_generator(tmp_path / "out")
    assert {"unet", "canny", "pipeline.json"} <= {*generator_entries(out)}
    (out / "notes.txt").write_text("mine")
    assert "it holds notes.txt" in refused(f"bundle sign {plain} --sign {key} -o {out}")
    renamed(out, "*/x.onnx")
    assert "it holds notes.txt" in refused(f"bundle sign {plain} --sign {key} -o {out}")
    assert (out / "notes.txt").read_text() == "mine"
