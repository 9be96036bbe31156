"""A base with packs as a bundle: what left it is shown by equality with the one before, and a
certificate of that needs the two bundles alone.

The exported files are those of a toy; each pack's rows are its own.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import CheckFailed, GateFailed, InputError, read_json, sha256_file, write_json
from unplug.export import Artifact
from unplug.sdk import journey
from unplug.sdk.drawing.device import WEIGHTS_NAME, drop_pack, pack_name
from unplug.sdk.drawing.diffusion.shipped import PACK_SCHEMA
from unplug.sdk.releasing import release_packs
from unplug.trust.bundle import (
    BundleCheckFailed,
    GeneratorManifest,
    Publication,
    Signing,
    bundle_id,
    finish_generator,
    load_signer,
    make_key,
    packs_left,
    read_generator,
    verify_dropped,
)

from ..drawing.device.test_packs import packs_in
from ..drawing.device.toy import change, toy
from ..drawing.diffusion.conftest import base_folder  # noqa: F401 (fixture)
from ..trust.bundle.test_bundle import make_bundle
from ..trust.bundle.test_generator import CLAIM, HELD, add_reports
from ..trust.certificates.conftest import PERSON, REQUEST, a_ledger, record_release
from ..trust.commands import called, refused, shown

ROWS = np.arange(1, 13, dtype="<f4").reshape(3, 4)
PATCH, NOSE, HAT = (ROWS[index : index + 1] for index in range(3))
Rows = dict[str, Any]
BOTH: Rows = {"eye patch": PATCH, "clown nose": NOSE}
LEFT: Rows = {"clown nose": NOSE}


def digest(rows: Any) -> str:
    return hashlib.sha256(rows.tobytes()).hexdigest()


def files(folder: Path, packs: Rows, variants: Rows | None = None) -> Path:
    """What `unplug export` leaves."""
    held: dict[str, Any] = {pack_name(word): (rows, None, word) for word, rows in packs.items()}
    toy(folder, held | {name: (rows, None) for name, rows in (variants or {}).items()})
    return folder


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


def pack(folder: Path, word: str, rows: Any, **record: Any) -> Path:
    """The folder of a pack whose weights are its rows."""
    folder.mkdir(parents=True)
    (folder / WEIGHTS_NAME).write_bytes(b"weights" + rows.tobytes())
    write_json(folder / "unplug.json", {"schema": PACK_SCHEMA, "word": word, **record})
    return folder


def released(
    tmp_path: Path, packs: Rows, out: Path, *folders: Path, **how: Any
) -> GeneratorManifest:
    """A release of a base whose export leaves a toy with these packs."""

    def export(checkpoints: Sequence[Path], place: Path) -> Sequence[Artifact]:
        files(place, packs)
        return ()

    return release_packs(tmp_path, folders, out, export=export, **how)


def signing(key: Path, *earlier: Path) -> Signing:
    ids = tuple(map(bundle_id, earlier))
    said = Publication(name="tiny", release=1 + len(earlier), supersedes=ids)
    return Signing(signer=load_signer(str(key)), publication=said, earlier=earlier)


@pytest.fixture
def one(tmp_path: Path, key: Path) -> Path:
    """A signed bundle with both packs."""
    called(f"release {files(tmp_path / 'files', BOTH)} --sign {key} --out {tmp_path}/one.unplug")
    return tmp_path / "one.unplug"


def test_what_is_released_names_its_packs(one: Path, key: Path, tmp_path: Path) -> None:
    told = called(f"bundle verify {one} --trust {key}.pub")
    nose, patch = told["packs"]
    assert nose == {"word": "clown nose", "sha256": digest(NOSE), "weights_sha256": None}
    assert patch["word"] == "eye patch" and told["dropped"] is None and told["gates"] == 0
    text = "Packs, each switched on by its words: clown nose, eye patch."
    assert text in (one / "README.md").read_text()
    assert "packs: clown nose, eye patch" in shown(f"bundle inspect {one}")
    # of a base the folders of the packs are named, whose weights stand there
    folders = [pack(tmp_path / word, word, rows) for word, rows in BOTH.items()]
    made = released(tmp_path, BOTH, tmp_path / "again", *folders)
    weights = sha256_file(folders[1] / WEIGHTS_NAME)
    assert asdict(made.packs[0]) == nose | {"weights_sha256": weights}
    called(f"bundle sign {tmp_path}/again --sign {key}")
    assert read_generator(tmp_path / "again").packs == made.packs


def test_from_release_to_a_certificate_that_two_bundles_bear_out(
    one: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = a_ledger(tmp_path)
    monkeypatch.setenv("UNPLUG_LEDGER", str(tmp_path / "ledger.db"))
    ledger.add([PERSON], id=REQUEST)
    shutil.copytree(one, tmp_path / "next")
    called(f"forget {tmp_path}/next --pack 'eye patch' --yes")
    two = tmp_path / "two.unplug"
    done = called(f"release {tmp_path}/next --sign {key} --supersedes {one} --out {two}")
    left = {"sha256": digest(PATCH), "again": None}
    assert done["dropped"] == {"before": bundle_id(one), "packs": [left]}
    (gate,) = done["gates"]
    assert (gate["name"], gate["value"], gate["limit"], gate["passed"]) == ("equality", 0, 0, True)
    assert done["publication"]["supersedes"] == [bundle_id(one)]
    assert "1 pack left since the bundle" in shown(f"bundle verify {two} --trust {key}.pub")
    assert "**Exact, against weights:**" in (two / "README.md").read_text()
    for path in two.rglob("*.*"):
        assert path.is_dir() or b"eye patch" not in path.read_bytes(), "a word may be a name"
    whole = files(tmp_path / "never", LEFT)
    for path in (path for path in whole.rglob("*") if path.is_file()):
        assert (two / path.relative_to(whole)).read_bytes() == path.read_bytes()

    record_release(ledger, two, REQUEST)
    issue = f"certificate {REQUEST} --bundle {two} --sign {key} --out {tmp_path}/out"
    assert "--superseded: it is missing" in refused(issue)
    told = called(f"{issue} --superseded {one}")["certificate"]
    assert told["evidence"]["shown_by"] == "equality"
    assert told["model"]["original_sha256"] == bundle_id(one)
    assert told["model"]["method"] == f"pack {digest(PATCH)} deleted; all other parts equal"
    page = (tmp_path / "out" / "certificate.html").read_text()
    assert "1 pack left the base." in page and "What attacks find" not in page
    check = f"certificate verify {tmp_path}/out/certificate.intoto.jsonl --trust {key}.pub"
    assert called(f"{check} --bundle {two} --superseded {one}")["problems"] == []
    text = shown(f"{check} --bundle {two} --superseded {one}")
    assert f"pack {digest(PATCH)[:16]} (eye patch) deleted; files left equal those of {one}" in text
    # from zip files as well, and not with another bundle in the place of the one before
    for name in ("one", "two"):
        called(f"bundle pack {tmp_path}/{name}.unplug -o {tmp_path}/{name}.zip")
    called(f"{check} --bundle {tmp_path}/two.zip --superseded {tmp_path}/one.zip")
    assert "is not" in refused(f"{check} --bundle {two} --superseded {two}", code=1)
    write_json(
        tmp_path / "policy.json",
        {"schema": "unplug-certificate-policy/1", "max_error_above": 0.1},
    )
    strict = f"--policy {tmp_path}/policy.json --bundle {two} --superseded {one}"
    assert called(f"{check} {strict}", code=1)["problems"] == [
        "no error was compared with that of what never saw the person"
    ]


def dropped(one: Path, key: Path, tmp_path: Path, packs: Rows = LEFT) -> Path:
    two = tmp_path / "two.unplug"
    released(tmp_path, packs, two, signing=signing(key, one))
    return two


def test_every_flipped_byte_is_seen(one: Path, key: Path, tmp_path: Path) -> None:
    two = dropped(one, key, tmp_path)
    trust = signing(key).trust
    for bundle in (one, two):
        for path in sorted(path for path in bundle.rglob("*") if path.is_file()):
            if bundle == one and path.name == "model.sig":
                continue  # whoever signed it, it is the bundle that the next one names
            raw = path.read_bytes()
            path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
            with pytest.raises(BundleCheckFailed):
                verify_dropped(two, one, trust)
            path.write_bytes(raw)
    assert verify_dropped(two, one, trust).dropped is not None


def test_the_last_pack_leaves_and_one_publishes_it_anew(
    one: Path, key: Path, tmp_path: Path
) -> None:
    two = dropped(one, key, tmp_path, {})
    told = read_generator(two)
    assert told.dropped is not None and len(told.dropped.packs) == 2 and not told.packs
    three = tmp_path / "three.unplug"
    called(f"bundle sign {two} --sign {key} --supersedes {two} -o {three}")
    assert verify_dropped(three, one, signing(key).trust).dropped == told.dropped
    # what had nothing to lose says of nothing that it left
    assert released(tmp_path, {}, tmp_path / "four", signing=signing(key, three)).dropped is None


def other_unet(folder: Path) -> None:
    path = folder / "unet" / "guided_unet.fp32.tflite"
    path.write_bytes(path.read_bytes() + b"1")
    change(folder, "unet files 0 sha256", sha256_file(path))
    change(folder, "unet files 0 bytes", path.stat().st_size)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "another UNet": (other_unet, r"equality: 1 parts that differ.*\(unet\)"),
    "other steps": (lambda f: change(f, "defaults steps", 5), r"\(defaults\)"),
    "another tokenizer": (lambda f: change(f, "tokenizer length", 6), r"\(tokenizer\)"),
    "another word": (
        lambda f: change(f, "variants clown-nose word", "clown noses"),
        r"\(variants\)",
    ),
    "one pack more": (
        lambda f: files(f, {"clown nose": NOSE, "hat": HAT}),
        r"equality: 1 parts that differ.*\(variants\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_else_may_differ(one: Path, key: Path, tmp_path: Path, name: str) -> None:
    harm, says = REFUSED[name]
    harm(files(tmp_path / "next", LEFT))
    with pytest.raises(GateFailed, match=says):
        journey.release_packs(tmp_path / "next", out=tmp_path / "two", signing=signing(key, one))
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    ("packs", "variants"),
    [
        ({"clown nose": NOSE, "patch": PATCH}, {}),  # by another word
        (LEFT, {"style": PATCH}),  # by a name
        (LEFT | {"hat": np.concatenate([HAT, PATCH])}, {}),  # among the rows of another
    ],
)
def test_what_shall_have_left_is_not_there_still(
    one: Path, key: Path, tmp_path: Path, packs: Rows, variants: Rows
) -> None:
    files(tmp_path / "next", packs, variants)
    release = f"release {tmp_path}/next --sign {key} --supersedes {one} --out {tmp_path}/two"
    assert "it shall have left, and" in (line := refused(release, code=1))
    assert f"the pack {digest(PATCH)[:16]} of 'eye patch'" in line
    assert not (tmp_path / "two").exists()


def test_a_variant_of_the_same_rows_leaves_with_it(key: Path, tmp_path: Path) -> None:
    styles = {"style": np.concatenate([HAT, PATCH]), "other": HAT}
    files(tmp_path / "files", BOTH, styles)
    called(f"release {tmp_path}/files --sign {key} --out {tmp_path}/one")
    for kept, says in (({"other": HAT}, None), ({}, r"\(variants\)")):
        shutil.rmtree(tmp_path / "next", ignore_errors=True)
        files(tmp_path / "next", LEFT, kept)
        how: Any = {"out": tmp_path / "two", "signing": signing(key, tmp_path / "one")}
        if says is None:
            assert journey.release_packs(tmp_path / "next", **how).dropped is not None
        else:
            with pytest.raises(GateFailed, match=says):
                journey.release_packs(tmp_path / "next", **how)


def test_a_pack_that_was_trained_again(key: Path, tmp_path: Path) -> None:
    patch, nose = (pack(tmp_path / word, word, rows) for word, rows in BOTH.items())
    one, two = tmp_path / "one", tmp_path / "two"
    released(tmp_path, BOTH, one, patch, nose, signing=signing(key))
    step = {"method": "retrain", "pack_sha256": sha256_file(patch / WEIGHTS_NAME), "exact": True}
    now = BOTH | {"eye patch": HAT}
    again = pack(tmp_path / "again", "eye patch", HAT, forget=step)
    made = released(tmp_path, now, two, again, nose, signing=signing(key, one))
    assert made.dropped is not None and made.gates[0].passed
    assert asdict(made.dropped.packs[0]) == {"sha256": digest(PATCH), "again": digest(HAT)}
    assert verify_dropped(two, one, signing(key).trust) == made
    assert "1 pack trained again without somebody" in (two / "README.md").read_text()
    # nor is any other pack of this word, nor one that nobody says a word of
    others: list[tuple[Path, ...]] = [()]
    for count, forget in enumerate(
        (None, step | {"pack_sha256": "0" * 64}, step | {"method": "x"})
    ):
        others.append((pack(tmp_path / f"other{count}", "eye patch", HAT, forget=forget), nose))
    for folders in others:
        with pytest.raises(InputError, match="no record says that it is this one, trained again"):
            released(tmp_path, now, tmp_path / "x", *folders, signing=signing(key, one))
    assert not (tmp_path / "x").exists()


def test_an_erasure_stays_where_packs_leave(key: Path, tmp_path: Path) -> None:
    one, two = files(tmp_path / "one", BOTH), tmp_path / "two"
    add_reports(one)
    finish_generator(one, {"erasure": asdict(CLAIM), "gates": HELD}, signing(key))
    shutil.copytree(one, tmp_path / "next")
    drop_pack(tmp_path / "next", "eye patch")
    made = journey.release_packs(tmp_path / "next", out=two, signing=signing(key, one))
    assert made.erasure == CLAIM and [gate.name for gate in made.gates][-1] == "equality"
    assert verify_dropped(two, one, signing(key).trust) == made


def test_what_is_no_base_or_no_bundle_before(one: Path, key: Path, tmp_path: Path) -> None:
    release, out = f"release {tmp_path}/files", f"--sign {key} --out {tmp_path}/two"
    old = make_bundle(tmp_path)
    assert "does not follow its schema" in refused(f"{release} {out} --supersedes {old}", code=1)
    pack(tmp_path / "patch", "eye patch", PATCH)
    assert "packs of exported files are" in refused(f"{release} --pack {tmp_path}/patch {out}")
    assert "--to: these files were exported already" in refused(f"{release} --to onnx {out}")
    assert "--audited: it is missing" in refused(f"{release} --claim prompts {out}")
    assert "--pack: it applies to a text-to-image base" in refused(
        f"release {old} --pack {tmp_path}/patch {out}"
    )
    # a bundle before that was changed is none to compare with
    (one / "unet" / "guided_unet.fp32.tflite").write_bytes(b"file of UNET")
    files(tmp_path / "next", LEFT)
    changed = f"release {tmp_path}/next {out} --supersedes {one}"
    assert "guided_unet.fp32.tflite" in refused(changed, code=1)
    assert not (tmp_path / "two").exists()


def test_what_a_signer_claims_against_the_files(one: Path, key: Path, tmp_path: Path) -> None:
    """Whoever signs without our checks is found out by the bundles."""
    two = dropped(one, key, tmp_path)
    told = asdict(read_generator(two))
    facts: Any = {name: told[name] for name in ("erasure", "dropped", "gates")}
    nobody = {"before": bundle_id(one), "packs": [{"sha256": "0" * 64, "again": None}]}
    still = {"before": bundle_id(one), "packs": [{"sha256": digest(NOSE), "again": None}]}
    for harm, says in (
        ({"dropped": still}, "a pack of which it says that it left is there"),
        ({"gates": []}, "was not judged by the gate 'equality'"),
        ({"gates": [told["gates"][0] | {"value": 1.0}]}, "does not hold"),
        ({"gates": [told["gates"][0] | {"passed": False, "override": "x"}]}, "nobody signed"),
    ):
        for name in ("manifest.json", "model.sig"):
            (two / name).unlink(missing_ok=True)
        with pytest.raises(BundleCheckFailed, match=says):
            finish_generator(two, facts | harm, signing(key))
    (two / "manifest.json").unlink()
    finish_generator(two, facts | {"dropped": nobody}, signing(key))
    with pytest.raises(BundleCheckFailed, match="without the packs that left"):
        verify_dropped(two, one, signing(key).trust)
    with pytest.raises(BundleCheckFailed, match="unknown key"):
        make_key(tmp_path / "other")
        verify_dropped(two, one, signing(tmp_path / "other").trust)
    manifest = read_json(two / "manifest.json")
    write_json(two / "manifest.json", manifest | {"packs": []})
    with pytest.raises(CheckFailed, match="names other packs than"):
        packs_left(two, one)


@pytest.mark.nightly
def test_a_base_that_is_exported_again_without_its_packs_is_equal(
    base_folder: Path,  # noqa: F811
    key: Path,
    tmp_path: Path,
) -> None:
    """By the commands, a real converter; the UNet's file keeps the input that no pack uses now."""
    patch, nose = packs_in(base_folder, tmp_path)
    release = f"release {base_folder} --to onnx --precision fp32 --sign {key}"
    one, two = tmp_path / "one", tmp_path / "two"
    told = called(f"{release} --pack '{patch}' --pack '{nose}' --name tiny --out {one}")
    weights = [sha256_file(place / WEIGHTS_NAME) for place in (nose, patch)]
    assert [item["weights_sha256"] for item in told["packs"]] == weights
    told = called(f"{release} --supersedes {one} --out {two}")
    assert len(told["dropped"]["packs"]) == 2 and not told["packs"]
    assert verify_dropped(two, one, signing(key).trust).gates[0].value == 0.0
