"""Content Credentials: read by their own reader where unplug is not loaded, broken by a changed pixel,
trusted where a root is; keys and certificates that cannot sign are refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from PIL import Image

from unplug.core import InputError
from unplug.sdk.drawing.device import save_marked, sign_picture
from unplug.sdk.drawing.device.marking import TRAINED
from unplug.trust.bundle import load_signer, make_key

from ...cli.calls import fail, run
from ...trust.bundle.test_chain import Holder, pem

pytest.importorskip("c2pa")
FACTS = {"prompt": "a child", "models": {"unet": "ab" * 32}}
READ = """
import json, sys, c2pa
settings = {"trust": {"trust_anchors": sys.argv[2]}} if sys.argv[2] else {}
print(c2pa.Reader(sys.argv[1], context=c2pa.Context.from_dict(settings)).json())
assert not [name for name in sys.modules if name.startswith("unplug")]
"""


def read(path: Path, roots: str = "") -> Any:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), roots], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def picture(path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    save_marked(Image.fromarray(pixels), path, {"seed": 1})
    return path


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_reader_finds_what_was_said_and_that_nobody_trusts_it_yet(
    name: str, tmp_path: Path
) -> None:
    path = picture(tmp_path / name)
    plain = np.asarray(Image.open(path))
    make_key(tmp_path / "key")
    sign_picture(path, load_signer(str(tmp_path / "key")), FACTS)
    told = read(path)
    manifest = told["manifests"][told["active_manifest"]]
    assertions = {item["label"]: item["data"] for item in manifest["assertions"]}
    (action,) = assertions["c2pa.actions.v2"]["actions"]
    assert (action["action"], action["digitalSourceType"]) == ("c2pa.created", TRAINED)
    assert assertions["unplug.drawing"] == FACTS and "thumbnail" not in manifest
    assert told["validation_state"] == "Valid"
    assert [item["code"] for item in told["validation_status"]] == ["signingCredential.untrusted"]
    assert np.array_equal(np.asarray(Image.open(path)), plain)
    assert TRAINED.encode() in path.read_bytes()  # XMP, for readers without it


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_changed_pixel_breaks_it(name: str, tmp_path: Path) -> None:
    path = picture(tmp_path / name)
    make_key(tmp_path / "key")
    sign_picture(path, load_signer(str(tmp_path / "key")), FACTS)
    bits = bytearray(path.read_bytes())
    bits[-100] ^= 1
    path.write_bytes(bits)
    told = read(path)
    codes = {item["code"] for item in told["validation_status"]}
    assert told["validation_state"] == "Invalid" and "assertion.dataHash.mismatch" in codes


def certified(folder: Path, purpose: Any) -> tuple[Path, Path, Path]:
    """A key, its chain, and the root: valid now, for the reader looks at its own clock."""
    now, day = datetime.now(UTC), timedelta(days=1)
    valid = now - day, now + day
    root = Holder("root", authority=True, valid=valid)
    signer = Holder("signer", root, valid=valid, purpose=purpose)
    key = signer.write(folder / "key.pem")
    return key, pem(folder / "chain.pem", signer), pem(folder / "root.pem", root)


def test_who_holds_the_root_trusts_it(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    key, chain, root = certified(tmp_path, ExtendedKeyUsageOID.EMAIL_PROTECTION)
    sign_picture(path, load_signer(str(key), chain=chain), FACTS)
    assert read(path)["validation_state"] == "Valid"
    assert read(path, root.read_text())["validation_state"] == "Trusted"


def test_a_certificate_for_something_else_is_refused(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    before = path.read_bytes()
    key, chain, _ = certified(tmp_path, ExtendedKeyUsageOID.SERVER_AUTH)
    with pytest.raises(InputError, match="Its certificate must allow"):
        sign_picture(path, load_signer(str(key), chain=chain), FACTS)
    assert path.read_bytes() == before


def test_the_command_refuses_before_it_draws(tmp_path: Path) -> None:
    call = ("generate", "--prompt", "a child", "--out", tmp_path / "x.png")
    assert "nothing is signed" in fail(*call, "--chain", pem(tmp_path / "c.pem", Holder("a"))).line
    assert str(tmp_path / "none") in fail(*call, "--sign", tmp_path / "none").line
    assert not (tmp_path / "x.png").exists()


@pytest.mark.long
def test_the_command_signs_each_picture_and_names_the_models(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    run(f"generate --prompt x --count 2 --sign {tmp_path}/key --out {tmp_path}/x.png")
    for name in ("x.png", "x-0.png", "x-1.png"):
        told = read(tmp_path / name)
        (data,) = (
            item["data"]
            for item in told["manifests"][told["active_manifest"]]["assertions"]
            if item["label"] == "unplug.drawing"
        )
        assert data["models"].keys() == {"text_encoder", "unet", "decoder"}
        assert data["base"] == "small" and told["validation_state"] == "Valid"
