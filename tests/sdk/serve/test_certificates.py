"""A release leaves a certificate of each request that it answers, which verifies with what was
fetched and a public key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.serve.conftest import Api, Place, until
from tests.sdk.trust.certificates.conftest import whole_bundle

from unplug.serve import Jobs
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
    with Api(place) as api:
        api.ended(job)
        until(lambda: api.job(job)["certificates"] != "due")
        ended = api.job(job)
        files = {name: api.get(f"/releases/{job}/files/{name}") for name in ended["files"]}
        return ended, {name: answer.content for name, answer in files.items()}


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
    assert job["state"] == "done"
    assert [entry.kind for entry in place.ledger.entries()].count("release") == 1
    names = ["certificate-1-TICKET-17", "certificate-2-office-18"]
    assert set(files) == {f"{name}.{end}" for name in names for end in ("html", "intoto.jsonl")}
    key = load_signer(str(tmp_path / "release.key")).key
    for name, id in zip(names, IDS, strict=True):
        (tmp_path / "fetched").write_bytes(files[f"{name}.intoto.jsonl"])
        checked = check_certificate(tmp_path / "fetched", key, bundle, LOOSE, request=id)
        assert checked.problems == () and checked.certificate.request.answered is None
        assert id.encode() in files[f"{name}.html"]


@pytest.mark.parametrize("why", ["changed since", "nobody signs"])
def test_without_a_certificate_the_release_counts_all_the_same(
    signed: tuple[Place, Path], why: str
) -> None:
    place, bundle = signed
    assert place.settings.recipe is not None
    if why == "nobody signs":
        recipe = replace(place.settings.recipe, sign=None)
        place = replace(place, settings=replace(place.settings, recipe=recipe))
    id = computed(place, bundle)
    if why == "changed since":
        (bundle / "README.md").write_text("changed since")
    job, files = completed(place, id)
    assert (job["state"], files) == ("done", {})
    error = Path(place.settings.folder) / "jobs" / id / "error.txt"
    assert why == "nobody signs" or "README.md was changed" in error.read_text()
