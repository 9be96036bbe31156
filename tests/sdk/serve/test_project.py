"""A project over HTTP: the release of a job is that of `unplug answer`, and the other way round."""

from __future__ import annotations

import zipfile
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

import pytest
from tests.sdk.project.conftest import kinds, remembering
from tests.sdk.project.conftest import project as project  # a fixture

from unplug.core import Job
from unplug.sdk import Project, verify_bundle
from unplug.serve import SCOPES, ServeSettings, ServiceTables, add_token
from unplug.serve.project_run import project_recipe, run_answer
from unplug.trust.bundle import read_trust

from .conftest import SOON, Api, Place, until

LONG = 3 * SOON


@pytest.fixture
def place(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))  # the tests' own is in use
    where = project.settings.record.ledger
    tables = ServiceTables(where)
    tables.create()
    settings = ServeSettings(
        ledger=where,
        folder=str(project.folder / ".unplug/service"),
        recipe=project_recipe(project),
        poll_seconds=0.05,
    )
    token = add_token(tables, "all", list(SCOPES))[1]
    return Place(where=where, folder=project.folder, tables=tables, settings=settings, token=token)


@pytest.mark.nightly
def test_three_people_over_http(project: Project, place: Place) -> None:
    trust = read_trust(project.folder / "keys/release.key.pub")

    def released(api: Api) -> dict[str, object]:
        id = api.post("/releases").json()["id"]
        until(lambda: api.get(f"/releases/{id}").json()["state"] in ("done", "failed"), LONG)
        told: dict[str, object] = api.get(f"/releases/{id}").json()
        assert told["state"] == "done", told
        return told

    with project.surroundings(), Api(place) as api:
        one = released(api)
        first = project.state()
        assert (first.release, first.answered) == (1, ("T-1",))
        names = [str(name) for name in one["files"]]  # type: ignore[attr-defined]
        assert "face-age.zip" in names and any(name.endswith(".intoto.jsonl") for name in names)
        packed = api.get(f"/releases/{one['id']}/files/face-age.zip")
        assert "manifest.json" in zipfile.ZipFile(BytesIO(packed.content)).namelist()
        api.submit("k-of-two-people", {"names": ["subject:person-2"], "id": "T-2"})
        api.submit("k-of-the-third", {"names": ["subject:person-14"], "id": "T-3"})
        two = released(api)
        second = project.state()
        assert (second.release, second.answered) == (2, ("T-1", "T-2", "T-3"))
        assert second.releases[1].began == first.current
        for person in ("person-0", "person-2", "person-14"):
            assert remembering(project, f"subject:{person}") == ["models/age"]
        assert kinds(project) == {"release": 2, "search": 3}
        assert verify_bundle(project.bundle(2), trust).publication is not None

        values = {
            "recipe": asdict(project_recipe(project)),
            "folder": str(Path(place.settings.folder) / "jobs" / str(two["id"])),
            "requests": ["T-2", "T-3"],
        }
        again = run_answer(Job(project.folder, values, {}, {}))
        assert again.values["requests"] == ["T-2", "T-3"], "its worker was killed after its work"
        assert kinds(project) == {"release": 2, "search": 3}

    project.request("person-20", id="T-4")
    assert project.plan().begins == "release 2, which forgot T-1, T-2, T-3"
