"""``unplug page --trust``: what is written and served, and which bundles are not put beside a page in the first place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.sdk.bundle.test_bundle import make_bundle
from tests.sdk.cli.calls import fail

from unplug.core import DeviceError
from unplug.mobile_bench import Guard, PageTrust
from unplug.mobile_bench.web import build
from unplug.mobile_bench.web.server import PageServer
from unplug.sdk.bundle import Publication, Signer, Signing, load_signer, make_key, read_trust, sign_bundle
from unplug.sdk.cli import main
from unplug.sdk.updates import RoleKeys, init_updates, publish_bundle, revoke_release

from .test_site import ask


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><html><head></head><body></body></html>")
    monkeypatch.setenv(build.PAGE_VARIABLE, str(folder))
    return folder


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    make_key(tmp_path / "key")
    return load_signer(str(tmp_path / "key"))


@pytest.fixture
def bundle(tmp_path: Path, signer: Signer) -> Path:
    publication = Publication(name="face-age", release=1)
    sign_bundle(make_bundle(tmp_path), Signing(signer=signer, publication=publication), tmp_path / "age.unplug")
    return tmp_path / "age.unplug"


@pytest.fixture
def updates(tmp_path: Path, signer: Signer, bundle: Path) -> Path:
    one = (signer.key,)
    keys = RoleKeys(root=one, root_threshold=1, targets=one, snapshot=one, timestamp=one)
    init_updates(tmp_path / "updates", keys, [signer])
    publish_bundle(tmp_path / "updates", bundle, read_trust(tmp_path / "key.pub"), [signer])
    return tmp_path / "updates"


def test_a_page_names_what_it_trusts_by_its_hash(page: Path, bundle: Path, updates: Path, tmp_path: Path) -> None:
    words = [
        "page",
        str(bundle),
        "--trust",
        str(tmp_path / "key.pub"),
        "--updates",
        str(updates),
        "--out",
        str(tmp_path / "site"),
    ]
    for _ in range(2):
        done = CliRunner().invoke(main, [*words, "--json"])
        assert done.exit_code == 0, done.output
    site = tmp_path / "site"
    raw = (site / "trust.json").read_bytes()
    assert (
        f'<meta name="unplug-trust" content="{hashlib.sha256(raw).hexdigest()}" /></head>' in (site / "index.html").read_text()
    )
    said = json.loads(raw)
    assert said["keys"] == [(tmp_path / "key.pub").read_text()] and said["bundle"] is True and said["root"]
    copied = {path.name: path.read_bytes() for path in (site / "updates" / "metadata").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in (updates / "metadata").iterdir()}
    assert (site / "bundle.zip").read_bytes()[:2] == b"PK"
    assert "unplug-trust" not in (page / "index.html").read_text(), "the built page is as it was"


def test_a_bundle_that_the_page_would_refuse_is_not_put_beside_it(
    page: Path, bundle: Path, updates: Path, signer: Signer, tmp_path: Path
) -> None:
    out, ours = ("--out", tmp_path / "site"), ("--trust", tmp_path / "key.pub")
    make_key(tmp_path / "other")
    assert "signed by an unknown key" in fail("page", bundle, "--trust", tmp_path / "other.pub", *out, code=1).line
    revoke_release(updates, "face-age", [signer], release=1)
    assert "took it back" in fail("page", bundle, *ours, "--updates", updates, *out, code=1).line
    (bundle / "model.sig").unlink()
    assert "it is not signed" in fail("page", bundle, *ours, *out, code=1).line
    assert "nothing says whose signature" in fail("page", bundle, *out).line
    assert "nothing is signed" in fail("page", bundle, "--updates", updates, *out).line
    assert "nothing to show" in fail("page", *out).line
    assert "no update metadata is there" in fail("page", *ours, "--updates", tmp_path / "none", *out).line
    (tmp_path / "generator").mkdir()
    (tmp_path / "generator" / "pipeline.json").write_text("{}")
    assert "it is a generator" in fail("page", tmp_path / "generator", *ours, *out).line
    assert not (tmp_path / "site").exists()


def test_metadata_is_served_anew_and_nothing_else_of_its_folder(page: Path, updates: Path, signer: Signer) -> None:
    (updates / "metadata" / "secret.json").write_text("{}")
    with PageServer(page, None, updates=updates / "metadata") as server:
        first = ask(server, "updates/metadata/timestamp.json")
        assert first[0] == 200 and first[2] == "application/json"
        revoke_release(updates, "face-age", [signer], release=1)
        assert ask(server, "updates/metadata/timestamp.json")[1] != first[1]
        assert ask(server, "updates/metadata/3.targets.json")[0] == 200
        for path in ("secret.json", "2.root.json", "../metadata/timestamp.json", "9" * 20 + ".root.json", ""):
            assert ask(server, f"updates/metadata/{path}")[0] == 404, path
    with PageServer(page, None) as server:
        assert ask(server, "updates/metadata/timestamp.json")[0] == 404


def test_it_is_served_until_it_ends(page: Path, bundle: Path, tmp_path: Path) -> None:
    words = ["page", str(bundle), "--trust", str(tmp_path / "key.pub"), "--minutes", "0.01"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0 and "Open http://127.0.0.1:" in done.output


def test_a_page_of_another_form_is_told(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    with pytest.raises(DeviceError, match="no </head>"):
        Guard(trust=PageTrust(keys=())).pages(tmp_path)
