"""``unplug page --trust``: what is written and served, and which bundles are not put beside a page
in the first place.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.sdk.cli.calls import fail
from tests.sdk.trust.bundle.test_bundle import make_bundle
from tests.vectors.bundles.recipe import OURS, generator, pem, put

from unplug.core import DeviceError
from unplug.mobile_bench import Guard, PageTrust
from unplug.mobile_bench.web import build
from unplug.sdk.cli import main
from unplug.trust.bundle import Publication, Signing, load_signer, make_key, sign_bundle


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><html><head></head><body></body></html>")
    monkeypatch.setenv(build.PAGE_VARIABLE, str(folder))
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    signing = Signing(
        signer=load_signer(str(tmp_path / "key")),
        publication=Publication(name="face-age", release=1),
    )
    sign_bundle(make_bundle(tmp_path), signing, tmp_path / "age.unplug")
    return tmp_path / "age.unplug"


def test_a_page_names_what_it_trusts_by_its_hash(page: Path, bundle: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    words = ["page", str(bundle), "--trust", str(tmp_path / "key.pub"), "--out", str(site)]
    for _ in range(2):
        done = CliRunner().invoke(main, [*words, "--json"])
        assert done.exit_code == 0, done.output
    raw = (site / "trust.json").read_bytes()
    mark = f'<meta name="unplug-trust" content="{hashlib.sha256(raw).hexdigest()}" /></head>'
    assert mark in (site / "index.html").read_text()
    said = json.loads(raw)
    assert said["keys"] == [(tmp_path / "key.pub").read_text()] and said["bundle"] is True
    assert (site / "bundle.zip").read_bytes()[:2] == b"PK"
    assert "unplug-trust" not in (page / "index.html").read_text(), "the built page is as it was"


def test_a_bundle_that_the_page_would_refuse_is_not_put_beside_it(
    page: Path, bundle: Path, tmp_path: Path
) -> None:
    out, ours = ("--out", tmp_path / "site"), ("--trust", tmp_path / "key.pub")
    make_key(tmp_path / "other")
    assert (
        "signed by an unknown key"
        in fail("page", bundle, "--trust", tmp_path / "other.pub", *out, code=1).line
    )
    known = {
        "schema": "unplug-trust/1",
        "keys": [(tmp_path / "key.pub").read_text()],
        "minimum_release": 2,
    }
    (tmp_path / "known.json").write_text(json.dumps(known))
    assert (
        "older than 2"
        in fail("page", bundle, "--trust", tmp_path / "known.json", *out, code=1).line
    )
    (bundle / "model.sig").unlink()
    assert "it is not signed" in fail("page", bundle, *ours, *out, code=1).line
    assert "nothing says whose signature" in fail("page", bundle, *out).line
    assert "nothing to show" in fail("page", *out).line
    (tmp_path / "generator").mkdir()
    (tmp_path / "generator" / "pipeline.json").write_text("{}")
    assert "Make it a bundle" in fail("page", tmp_path / "generator", *ours, *out).line
    assert not (tmp_path / "site").exists()


def test_a_signed_generator_is_put_beside_it(page: Path, tmp_path: Path) -> None:
    (tmp_path / "ours.pub").write_text(pem(OURS))
    for name, raw in generator(publication=put("expires", to=None)).files().items():
        (tmp_path / "small" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "small" / name).write_bytes(raw)
    words = ["page", str(tmp_path / "small"), "--trust", str(tmp_path / "ours.pub"), "--out"]
    done = CliRunner().invoke(main, [*words, str(tmp_path / "site")])
    assert done.exit_code == 0 and (tmp_path / "site" / "bundle.zip").is_file(), done.output
    (tmp_path / "small" / "README.md").write_text("B card.\n")
    assert "README.md was changed" in fail(*words, tmp_path / "other", code=1).line
    (tmp_path / "small" / "model.sig").unlink()
    (tmp_path / "small" / "README.md").write_text("A card.\n")
    assert "it is not signed" in fail(*words, tmp_path / "other", code=1).line
    assert not (tmp_path / "other").exists()


def test_it_is_served_until_it_ends(page: Path, bundle: Path, tmp_path: Path) -> None:
    words = ["page", str(bundle), "--trust", str(tmp_path / "key.pub"), "--minutes", "0.01"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0 and "Open http://127.0.0.1:" in done.output


def test_a_page_of_another_form_is_told(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    with pytest.raises(DeviceError, match="no </head>"):
        Guard(trust=PageTrust(keys=())).pages(tmp_path)
