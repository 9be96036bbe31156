"""A release leaves a certificate of each request that it answers, which verifies with what was
fetched and a public key.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.sdk.serve.conftest import Place
from tests.sdk.trust.certificates.conftest import whole_bundle

from unplug.serve import Jobs
from unplug.serve.app import make_app
from unplug.trust.bundle import Publication, Signing, bundle_id, load_signer, make_key, sign_bundle
from unplug.trust.certificates import CertificatePolicy, check_certificate

IDS = ("TICKET-17", "office:18")
LOOSE = CertificatePolicy(max_auc_above=1.0, max_auc_below=1.0)


def computed(place: Place, bundle: Path) -> str:
    """A job whose worker died behind the release: the next one has only to complete it."""
    jobs = Jobs(place.tables, recipe=place.settings.recipe_key)
    jobs.ask()
    job = jobs.claim("gone", 60)
    assert job is not None and jobs.pin(job, IDS)
    result = {
        "requests": list(IDS),
        "bundle": str(bundle),
        "bundle_id": bundle_id(bundle),
        "checkpoint": "none",
        "files": {},
    }
    assert jobs.keep_result(job, result) and jobs.give_back(job)
    return job.id


def completed(place: Place, job: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The job as the service finished it, and its files as clients fetch them."""
    with TestClient(make_app(place.settings), headers=place.headers) as client:
        deadline = time.monotonic() + 60
        while (found := client.get(f"/releases/{job}").json())["state"] != "done" or found[
            "certificates"
        ] == "due":
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return found, {
            name: client.get(f"/releases/{job}/files/{name}").content for name in found["files"]
        }


@pytest.fixture
def signed(make_place: Callable[..., Place], tmp_path: Path) -> tuple[Place, Path]:
    """A service that signs, with two requests, and the bundle that answers them."""
    make_key(tmp_path / "release.key")
    place = make_place(sign=str(tmp_path / "release.key"))
    for id in IDS:
        place.ledger.add([f"subject:{id}"], id=id, identity="passport seen")
    signing = Signing(
        signer=load_signer(str(tmp_path / "release.key")),
        publication=Publication(name="age", release=1, requests=IDS),
    )
    sign_bundle(whole_bundle(tmp_path / "made"), signing, tmp_path / "age.unplug")
    return place, tmp_path / "age.unplug"


def test_each_request_has_its_certificate(signed: tuple[Place, Path], tmp_path: Path) -> None:
    place, bundle = signed
    job, files = completed(place, computed(place, bundle))
    assert (
        job["state"] == "done"
        and [entry.kind for entry in place.ledger.entries()].count("release") == 1
    )
    names = ["certificate-1-TICKET-17", "certificate-2-office-18"]
    assert sorted(files) == sorted(
        f"{name}.{end}" for name in names for end in ("html", "intoto.jsonl")
    )
    key = load_signer(str(tmp_path / "release.key")).key
    for name, id in zip(names, IDS, strict=True):
        (tmp_path / "fetched").write_bytes(files[f"{name}.intoto.jsonl"])
        checked = check_certificate(tmp_path / "fetched", key, bundle, LOOSE, request=id)
        assert checked.problems == () and checked.certificate.request.answered is None
        assert id.encode() in files[f"{name}.html"]


def test_without_a_certificate_the_release_counts_all_the_same(signed: tuple[Place, Path]) -> None:
    place, bundle = signed
    (bundle / "README.md").write_text("changed since")
    job, files = completed(place, computed(place, bundle))
    assert (job["state"], files) == ("done", {})
    told = Path(place.settings.folder) / "jobs" / job["id"] / "error.txt"
    assert "README.md was changed" in told.read_text()


def test_nothing_is_certified_that_nobody_signs(signed: tuple[Place, Path]) -> None:
    place, bundle = signed
    assert place.settings.recipe is not None
    unsigned = replace(
        place, settings=replace(place.settings, recipe=replace(place.settings.recipe, sign=None))
    )
    job, files = completed(unsigned, computed(place, bundle))
    assert (job["state"], files) == ("done", {})
