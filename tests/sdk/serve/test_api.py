"""The API in one process: who may do what, what is added once, what is followed, and that nobody's
name gets out.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.serve.conftest import ANNA, Api, Place, until

from unplug.core import sha256_file
from unplug.serve import SCOPES, ServeLimits
from unplug.serve.app import make_app
from unplug.serve.logs import JsonLogLines
from unplug.serve.models import put_first_model

ROUTES = """
POST /requests requests:write
POST /requests/R-1/withdraw requests:write
GET /requests requests:read
GET /requests/R-1 requests:read
GET /deadlines requests:read
GET /requests/R-1/events requests:read
GET /events requests:read
GET /releases requests:read
GET /releases/J-0123456789abcdef requests:read
GET /releases/J-0123456789abcdef/events requests:read
POST /releases releases
GET /releases/J-0123456789abcdef/files/a.zip releases
GET /models models
POST /models/age/predict models
GET /metrics metrics
"""


@pytest.fixture
def api(place: Place) -> Iterator[Api]:
    with Api(place, raise_server_exceptions=False) as api:
        yield api


def events(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(id, kind, data) of a stream."""
    told = []
    for part in text.split("\n\n"):
        lines = (line.partition(": ") for line in part.split("\n") if not line.startswith(":"))
        fields = {name: value for name, _, value in lines}
        if "data" in fields:
            told.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return told


def test_every_route_asks_for_its_scope(api: Api, place: Place) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    routes = [line.split() for line in ROUTES.strip().splitlines()]
    assert len(routes) == sum(map(len, paths.values())) - 2, "all but /health and /ready"
    key = {"Idempotency-Key": "a-key-of-mine"}
    others = {scope: place.token_for(*(SCOPES.keys() - {scope})) | key for scope in SCOPES}
    for method, path, scope in routes:
        bodies = {"/requests": ANNA, "/requests/R-1/withdraw": {}}
        body = {"json": bodies[path]} if method == "POST" and path in bodies else {}
        nobody = {"authorization": "Bearer nothing", **key}
        assert api.request(method, path, headers=nobody, **body).status_code == 401, path
        wrong = api.request(method, path, headers=others[scope], **body)
        assert wrong.status_code == 403 and scope in wrong.json()["detail"], path
    assert place.ledger.requests() == {}, "nothing was added by who may not"


def test_the_same_key_adds_one_request(api: Api, place: Place) -> None:
    first, again = api.submit("key-one-1"), api.submit("key-one-1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert first.json()["new"] and not again.json()["new"]
    other = api.submit("key-one-1", {"names": ["subject:bea"]})
    assert other.status_code == 409 and "other names" in other.json()["detail"]
    assert api.submit("key-two-2").json()["id"] != first.json()["id"]
    named = [api.submit(key, {**ANNA, "id": "T-1"}) for key in ("key-three", "key-four-4")]
    assert [answer.status_code for answer in named] == [201, 200]
    assert len(place.ledger.requests()) == 3
    headers = {**place.token_for("requests:write"), "Idempotency-Key": "key-one-1"}
    elsewhere = api.post("/requests", json=ANNA, headers=headers)
    assert elsewhere.status_code == 201, "a key is its token's own"
    assert elsewhere.json()["id"] != first.json()["id"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"names": []},
        {"names": ["subject:anna-of-the-test"], "x": 1},
        {"names": "subject:anna-of-the-test"},
        {"names": [1]},
        {"names": ["a"], "id": "a b"},
        {"names": ["a"], "received": "2026-02-30"},
        {"names": ["a"], "identity": "a\nb"},
        [],
        None,
    ],
)
def test_what_is_not_of_the_form_is_refused_without_repeating_it(api: Api, body: Any) -> None:
    refused = api.submit("key-one-1", body)
    assert refused.status_code == 422 and "anna" not in refused.text
    assert set(refused.json()) == {"status", "detail"}


def test_refusals_of_the_ledger(api: Api) -> None:
    late = api.submit("key-one-1", {"names": ["a"], "received": "2999-01-01"})
    assert late.status_code == 409
    assert api.post("/requests", json=ANNA).status_code == 422, "no key"
    headers = {"Idempotency-Key": "key-one-1", "content-type": "application/json"}
    for raw in (
        '{"names": ["a"], "names": ["face-0001"]}',
        '{"names": ["a"], "id": ' + "9" * 50 + "}",
        '{"names": ' + "[" * 99,
    ):
        refused = api.post("/requests", content=raw, headers=headers)
        assert refused.status_code == 422 and refused.json()["detail"].startswith("body")
    assert "NUL" in api.submit("key-one-1", {"names": ["a\0"]}).json()["detail"]
    assert api.get("/requests/R-nothing").status_code == 404
    assert api.post("/requests/R-nothing/withdraw", json={}).status_code == 404


def test_a_request_is_withdrawn_once(api: Api, place: Place) -> None:
    id = api.submit("key-one-1").json()["id"]
    for _ in range(2):
        gone = api.post(f"/requests/{id}/withdraw", json={"reason": "she wrote"})
        assert gone.status_code == 200
        assert (gone.json()["state"], gone.json()["days_left"]) == ("withdrawn", None)
    assert [entry.kind for entry in place.ledger.requests()[id].history] == ["request", "withdrawn"]


def test_lists_pages_and_deadlines(api: Api, place: Place) -> None:
    def listed(**params: Any) -> Any:
        return api.get("/requests", params=params).json()

    ids = [api.submit(f"key-number-{number}").json()["id"] for number in range(5)]
    place.ledger.refuse(ids[4], "not a customer")
    pages = [listed(limit=2)]
    while pages[-1]["next"]:
        pages.append(listed(limit=2, after=pages[-1]["next"]))
    assert [[row["id"] for row in page["requests"]] for page in pages] == [
        ids[:2],
        ids[2:4],
        ids[4:],
    ]
    assert [row["id"] for row in listed(state="refused")["requests"]] == [ids[4]]
    due = api.get("/deadlines", params={"within": 40}).json()
    assert [row["id"] for row in due["requests"]] == ids[:4]
    assert (due["late"], due["waiting"], due["soon"]) == (0, 4, 4)
    assert api.get("/deadlines", params={"within": 1}).json()["requests"] == []


def test_one_release_answers_all_who_wait_and_is_followed(api: Api) -> None:
    assert api.post("/releases").status_code == 409, "nobody waits"
    ids = [api.submit(f"key-number-{number}").json()["id"] for number in range(3)]
    asked = api.post("/releases")
    assert asked.status_code == 202 and api.post("/releases").status_code == 202
    job = api.ended(asked.json()["id"])
    assert (job["state"], job["requests"], job["attempts"]) == ("done", ids, 1)
    assert job["files"] == ["certificate.html", "cheap.zip", "stray"]
    for id in ids:
        request = api.get(f"/requests/{id}").json()
        assert (request["state"], request["job"]) == ("released", job["id"])
    stream = events(api.get(f"/requests/{ids[0]}/events").text)
    kinds = [kind for _, kind, _ in stream if kind != "progress"]
    assert sorted(kinds) == ["begun", "done", "entry", "entry"], "each once"
    # An entry that was written before an event is told before it.
    assert kinds[0] == "entry" and kinds[-1] == "done"
    stages = {data["stage"] for _, kind, data in stream if kind == "progress"}
    # A line of the runner says more, and no more than its stage is told.
    assert stages and stages <= {f"step {step}" for step in range(10)}
    middle = len(stream) // 2
    headers = {"last-event-id": stream[middle][0]}
    rest = events(api.get(f"/requests/{ids[0]}/events", headers=headers).text)
    told, missed = (
        [(kind, json.dumps(data)) for _, kind, data in part]
        for part in (rest, stream[middle + 1 :])
    )
    # Entries that were written meanwhile come first to who comes again, so the order is not that of
    # who stayed.
    assert sorted(told) == sorted(missed) and told[-1] == missed[-1]
    every = events(api.get(f"/releases/{job['id']}/events").text)
    assert [kind for _, kind, _ in every][:3] == ["queued", "taken", "begun"]
    files = f"/releases/{job['id']}/files"
    assert api.get(f"{files}/certificate.html").content.startswith(b"<!doctype")
    assert api.get(f"{files}/cheap.zip").json() == ids
    # outside of its folder; not recorded; a way out
    for name in ("stray", "runs", "..%2f..%2fledger.db"):
        assert api.get(f"{files}/{name}").status_code in (404, 422)


def test_a_failed_release_says_no_more_than_gates_do(
    api: Api, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.submit("key-one-1")
    for fault, error in (
        ("gate", "release refused: attack_auc 0.71 is above 0.55"),
        ("data", "InputError"),
    ):
        monkeypatch.setenv("UNPLUG_CHEAP_FAIL", fault)
        job = api.ended()
        assert (job["state"], job["error"]) == ("failed", error)
    assert "anna" not in api.get("/releases").text
    kept = Path(place.settings.folder) / "jobs" / job["id"] / "error.txt"
    assert "anna" in kept.read_text()
    assert (kept.stat().st_mode | kept.parent.stat().st_mode) & 0o077 == 0
    assert api.get("/requests", params={"state": "open"}).json()["requests"], "it still waits"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """The lines of the service's log so far."""
    monkeypatch.setattr(logging.getLogger("unplug.serve"), "propagate", True)
    caplog.set_level(logging.DEBUG, "unplug.serve")

    def lines() -> list[str]:
        ours = (record for record in caplog.records if record.name == "unplug.serve")
        return [JsonLogLines().format(record) for record in ours]

    return lines


def test_no_name_leaves(api: Api, place: Place, log: Callable[[], list[str]]) -> None:
    name = "anna-of-the-test"
    id = api.submit("key-one-1").json()["id"]
    api.submit(f"key-{name}", {"names": [f"subject:{name}"], name: 1})
    api.get(f"/requests/{name}", params={"who": name})
    api.get(f"/{name}/{name}")
    api.request(name.upper(), "/requests")
    paths = ("/requests", f"/requests/{id}", "/deadlines", "/metrics", "/events")
    answers, lines = [api.get(path).text for path in paths], log()
    assert len(lines) >= 8 and all(json.loads(line)["event"] for line in lines)
    routes = {json.loads(line).get("route") for line in lines}
    assert routes >= {"/requests", "/requests/{id}", "other"}
    files = [path.read_text("latin-1") for path in place.folder.glob("ledger.db*")]
    for text in (*answers, *lines, *files):
        assert "anna" not in text.lower()
    assert '"token": "' in lines[0] and place.token not in "".join(lines)


def test_a_crash_of_ours_is_a_bare_500_and_logs_no_message(
    api: Api, log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise ValueError("subject:anna")

    monkeypatch.setattr("unplug.serve.jobs.Jobs.newest", crash)
    answer = api.get("/releases")
    assert answer.status_code == 500 and "anna" not in answer.text
    (line,) = (line for line in log() if "exception" in line)
    assert json.loads(line)["exception"] == "ValueError" and "anna" not in line


def test_limits_of_body_rate_and_what_browsers_are_told(make_place: Callable[..., Place]) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"names": ["'
        yield b"x" * 5000

    with Api(make_place(limits=ServeLimits(body_bytes=2048, rate=0.5, burst=6))) as api:
        page = api.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"
        for name in ("page.js", "page.css"):
            assert api.get(f"/assets/{name}").status_code == 200 and f"/assets/{name}" in page.text
        assert api.get("/assets/index.html").status_code == 404 and "http" not in page.text
        assert api.submit("key-one-1", {"names": ["x" * 400] * 10}).status_code == 413
        headers = {"Idempotency-Key": "key-two-2", "content-type": "application/json"}
        unsized = api.post("/requests", content=pieces(), headers=headers)
        assert unsized.status_code == 413, "no length was told"
        answers = [api.get("/deadlines") for _ in range(7)]
        assert 429 in [answer.status_code for answer in answers]
        assert int(answers[-1].headers["retry-after"]) >= 1
        # these are asked all the time
        assert api.get("/health").status_code == api.get("/ready").status_code == 200


def test_a_slow_body_ends(make_place: Callable[..., Place]) -> None:
    place = make_place(limits=ServeLimits(total_seconds=1.0))
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.3)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    async def drip() -> None:
        headers = place.headers | {
            "idempotency-key": "key-one-1",
            "content-type": "application/json",
        }
        app = make_app(place.settings)
        async with app.router.lifespan_context(app):
            await app(posting("/requests", headers), receive, send)

    asyncio.run(drip())
    assert sent[0]["status"] == 408


def posting(path: str, headers: dict[str, str]) -> dict[str, Any]:
    """What a server tells an application of a request, the path as it came."""
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("t", 80),
        "client": ("t", 1),
        "root_path": "",
        "asgi": {"version": "3.0"},
    }


def picture(side: int = 64, kind: str = "PNG") -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (side, side), (200, 120, 40)).save(out, kind)
    return out.getvalue()


@pytest.mark.long
def test_pictures_are_answered_and_the_model_is_swapped(
    make_place: Callable[..., Place], onnx_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = map(sha256_file, onnx_files)
    place = make_place(artifact=str(onnx_files[0]))
    monkeypatch.setenv("UNPLUG_CHEAP_FILES", str(onnx_files[1]))
    assert place.settings.recipe is not None
    put_first_model(place.tables, place.settings.recipe)
    with Api(place) as api:

        def ask(raw: bytes, model: str = "age", kind: str = "image/png", **params: str) -> Any:
            headers = {"content-type": kind}
            path = f"/models/{model}/predict"
            return api.post(path, content=raw, headers=headers, params=params)

        good = ask(picture())
        assert good.status_code == 200
        answer = good.json()
        assert answer["sha256"] == first and 0 <= answer["age"] <= 120
        assert answer["crop"] == "centre square"
        assert answer["note"].startswith("no face was looked for")
        assert abs(sum(row["probability"] for row in answer["groups"]) - 1) < 1e-6
        boxed = ask(picture(), box="0,0,32,32").json()
        assert boxed["crop"] == "box 0,0,32,32" and boxed["note"] is None
        assert ask(picture(), box="0,0,99,32").status_code == 409
        assert ask(picture(kind="BMP"), kind="text/plain").status_code == 415
        assert ask(picture(), model="other").status_code == 404
        for raw in (b"", b"no picture", picture()[:-40], picture()[:30], b"GIF89a" + bytes(60)):
            refused = ask(raw)
            assert refused.status_code == 422 and "picture" in refused.json()["detail"]
        api.submit("key-one-1")
        assert api.ended()["state"] == "done"
        until(lambda: ask(picture()).json()["sha256"] == second)
        assert api.get("/models").json()["models"][0]["sha256"] == second
        assert 'unplug_model_swaps_total{model="age"} 1.0' in api.get("/metrics").text


def test_without_a_recipe_requests_are_taken_and_nothing_is_released(place: Place) -> None:
    with Api(place, releases=False) as api:
        assert api.submit("key-one-1").status_code == 201
        assert api.post("/releases").status_code == 409
        assert api.get("/models").json() == {"models": []}
        assert api.get("/ready").json()["model"] is None


def test_every_request_may_ask_for_a_release(make_place: Callable[..., Place]) -> None:
    place = make_place(automatic=True)
    with Api(replace(place, settings=replace(place.settings, poll_seconds=0.02))) as api:

        def listed(state: str) -> list[dict[str, Any]]:
            return list(api.get("/requests", params={"state": state}).json()["requests"])

        for number in range(4):
            api.submit(f"key-number-{number}")
        until(lambda: not listed("open"))
        jobs = [request["job"] for request in listed("released")]
        assert len(jobs) == 4 and None not in jobs and len(set(jobs)) <= 2
