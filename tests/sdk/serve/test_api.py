"""The API in one process: who may do what, what is added once, what is followed, and that nobody's
name gets out.
"""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.sdk.serve.conftest import Place, without_recipe

from unplug.serve import SCOPES, ServeLimits
from unplug.serve.app import make_app
from unplug.serve.logs import JsonLogLines

ANNA = {"names": ["subject:anna-of-the-test", "face-0001"]}
ROUTES = [
    ("POST", "/requests", "requests:write"),
    ("POST", "/requests/R-1/withdraw", "requests:write"),
    ("GET", "/requests", "requests:read"),
    ("GET", "/requests/R-1", "requests:read"),
    ("GET", "/deadlines", "requests:read"),
    ("GET", "/requests/R-1/events", "requests:read"),
    ("GET", "/events", "requests:read"),
    ("GET", "/releases", "requests:read"),
    ("GET", "/releases/J-0123456789abcdef", "requests:read"),
    ("GET", "/releases/J-0123456789abcdef/events", "requests:read"),
    ("POST", "/releases", "releases"),
    ("GET", "/releases/J-0123456789abcdef/files/a.zip", "releases"),
    ("GET", "/models", "models"),
    ("POST", "/models/age/predict", "models"),
    ("GET", "/metrics", "metrics"),
]


@pytest.fixture
def client(place: Place) -> Iterator[TestClient]:
    with TestClient(make_app(place.settings), raise_server_exceptions=False) as found:
        found.headers.update(place.headers)
        yield found


def submit(client: TestClient, key: str, body: Any = ANNA) -> Any:
    return client.post("/requests", json=body, headers={"Idempotency-Key": key})


def until(client: TestClient, job: str, *states: str) -> dict[str, Any]:
    """The job, once it is in one of the states."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found: dict[str, Any] = client.get(f"/releases/{job}").json()
        if found["state"] in states:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def events(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(id, kind, data) of a stream."""
    found = []
    for part in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in part.split("\n")
            if ": " in line and not line.startswith(":")
        )
        if "data" in fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def test_every_route_asks_for_its_scope(client: TestClient, place: Place) -> None:
    listed = {
        (method.upper(), path)
        for path, methods in client.get("/openapi.json").json()["paths"].items()
        for method in methods
    } - {("GET", "/health"), ("GET", "/ready")}
    assert len(listed) == len(ROUTES)
    headers = {scope: place.token_for(*(SCOPES.keys() - {scope})) for scope in SCOPES}
    for method, path, scope in ROUTES:
        given: dict[str, Any] = (
            {"json": ANNA if path == "/requests" else {}}
            if path.startswith("/requests") and method == "POST"
            else {}
        )
        more = {"Idempotency-Key": "a-key-of-mine"}
        assert (
            client.request(
                method, path, headers={"authorization": "Bearer nothing", **more}, **given
            ).status_code
            == 401
        ), path
        wrong = client.request(method, path, headers={**headers[scope], **more}, **given)
        assert wrong.status_code == 403 and scope in wrong.json()["detail"], path
    assert place.ledger.requests() == {}, "nothing was added by who may not"


def test_the_same_key_adds_one_request(client: TestClient, place: Place) -> None:
    first, again = submit(client, "key-one-1"), submit(client, "key-one-1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert (
        first.json()["id"] == again.json()["id"] and first.json()["new"] and not again.json()["new"]
    )
    other = submit(client, "key-one-1", {"names": ["subject:bea"]})
    assert other.status_code == 409 and "other names" in other.json()["detail"]
    assert submit(client, "key-two-2").json()["id"] != first.json()["id"]
    by_id = (
        submit(client, "key-three", {**ANNA, "id": "T-1"}),
        submit(client, "key-four-4", {**ANNA, "id": "T-1"}),
    )
    assert [item.status_code for item in by_id] == [201, 200]
    assert len(place.ledger.requests()) == 3
    elsewhere = client.post(
        "/requests",
        json=ANNA,
        headers={**place.token_for("requests:write"), "Idempotency-Key": "key-one-1"},
    )
    assert elsewhere.status_code == 201 and elsewhere.json()["id"] != first.json()["id"], (
        "a key is its token's own"
    )


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
def test_what_is_not_of_the_form_is_refused_without_repeating_it(
    client: TestClient, body: Any
) -> None:
    refused = submit(client, "key-one-1", body)
    assert refused.status_code == 422 and "anna" not in refused.text
    assert set(refused.json()) == {"status", "detail"}


def test_refusals_of_the_ledger(client: TestClient) -> None:
    assert (
        submit(client, "key-one-1", {"names": ["a"], "received": "2999-01-01"}).status_code == 409
    )
    assert client.post("/requests", json=ANNA).status_code == 422, "no key"
    said = {"Idempotency-Key": "key-one-1", "content-type": "application/json"}
    for raw in (
        '{"names": ["a"], "names": ["face-0001"]}',
        '{"names": ["a"], "id": ' + "9" * 50 + "}",
        '{"names": ' + "[" * 99,
    ):
        refused = client.post("/requests", content=raw, headers=said)
        assert refused.status_code == 422 and refused.json()["detail"].startswith("body")
    assert "NUL" in submit(client, "key-one-1", {"names": ["a\0"]}).json()["detail"]
    assert client.get("/requests/R-nothing").status_code == 404
    assert client.post("/requests/R-nothing/withdraw", json={}).status_code == 404


def test_a_request_is_withdrawn_once(client: TestClient, place: Place) -> None:
    id = submit(client, "key-one-1").json()["id"]
    gone = [client.post(f"/requests/{id}/withdraw", json={"reason": "she wrote"}) for _ in range(2)]
    assert [
        (item.status_code, item.json()["state"], item.json()["days_left"]) for item in gone
    ] == [(200, "withdrawn", None)] * 2
    assert [entry.kind for entry in place.ledger.requests()[id].history] == ["request", "withdrawn"]


def test_lists_pages_and_deadlines(client: TestClient, place: Place) -> None:
    ids = [submit(client, f"key-number-{number}").json()["id"] for number in range(5)]
    place.ledger.refuse(ids[4], "not a customer")
    first = client.get("/requests", params={"limit": 2}).json()
    second = client.get("/requests", params={"limit": 2, "after": first["next"]}).json()
    last = client.get("/requests", params={"limit": 2, "after": second["next"]}).json()
    assert [
        item["id"] for page in (first, second, last) for item in page["requests"]
    ] == ids and last["next"] is None
    assert [
        item["id"]
        for item in client.get("/requests", params={"state": "refused"}).json()["requests"]
    ] == [ids[4]]
    due = client.get("/deadlines", params={"within": 40}).json()
    assert [item["id"] for item in due["requests"]] == ids[:4] and (
        due["late"],
        due["waiting"],
        due["soon"],
    ) == (0, 4, 4)
    assert client.get("/deadlines", params={"within": 1}).json()["requests"] == []


def test_one_release_answers_all_who_wait_and_is_followed(client: TestClient, place: Place) -> None:
    assert client.post("/releases").status_code == 409, "nobody waits"
    ids = [submit(client, f"key-number-{number}").json()["id"] for number in range(3)]
    asked = client.post("/releases")
    assert asked.status_code == 202 and client.post("/releases").status_code == 202
    job = until(client, asked.json()["id"], "done")
    assert (
        job["requests"] == ids
        and job["files"] == ["certificate.html", "cheap.zip", "stray"]
        and job["attempts"] == 1
    )
    for id in ids:
        found = client.get(f"/requests/{id}").json()
        assert found["state"] == "released" and found["job"] == job["id"]
    stream = events(client.get(f"/requests/{ids[0]}/events").text)
    kinds = [kind for _, kind, _ in stream if kind != "progress"]
    assert sorted(kinds) == ["begun", "done", "entry", "entry"], "each once"
    assert kinds[0] == "entry" and kinds[-1] == "done", (
        "an entry that was written before an event is told before it"
    )
    stages = {data["stage"] for _, kind, data in stream if kind == "progress"}
    assert stages and stages <= {f"step {step}" for step in range(10)}, (
        "a line said more, and no more than its stage is told"
    )
    middle = len(stream) // 2
    rest = events(
        client.get(f"/requests/{ids[0]}/events", headers={"last-event-id": stream[middle][0]}).text
    )
    told, missed = (
        [(kind, json.dumps(data)) for _, kind, data in part]
        for part in (rest, stream[middle + 1 :])
    )
    # Entries that were written meanwhile come first to who comes again, so the order is not that of
    # who stayed.
    assert sorted(told) == sorted(missed) and told[-1] == missed[-1], (
        "who comes again gets the rest, and nothing twice"
    )
    every = events(client.get(f"/releases/{job['id']}/events").text)
    assert [kind for _, kind, _ in every][:3] == ["queued", "taken", "begun"]
    assert client.get(f"/releases/{job['id']}/files/certificate.html").content.startswith(
        b"<!doctype"
    )
    assert json.loads(client.get(f"/releases/{job['id']}/files/cheap.zip").content) == ids
    for name in (
        "stray",
        "runs",
        "..%2f..%2fledger.db",
    ):  # outside of its folder; not recorded; a way out
        assert client.get(f"/releases/{job['id']}/files/{name}").status_code in (404, 422)


def test_a_failed_release_says_no_more_than_gates_do(
    client: TestClient, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(client, "key-one-1")
    monkeypatch.setenv("UNPLUG_CHEAP_FAIL", "gate")
    job = until(client, client.post("/releases").json()["id"], "failed")
    assert job["error"] == "release refused: attack_auc 0.71 is above 0.55"
    monkeypatch.setenv("UNPLUG_CHEAP_FAIL", "data")
    job = until(client, client.post("/releases").json()["id"], "failed")
    assert job["error"] == "InputError" and "anna" not in client.get("/releases").text
    kept = Path(place.settings.folder) / "jobs" / job["id"] / "error.txt"
    assert (
        "anna" in kept.read_text()
        and (kept.stat().st_mode | kept.parent.stat().st_mode) & 0o077 == 0
    )
    assert client.get("/requests", params={"state": "open"}).json()["requests"], "it still waits"


def test_no_name_leaves(
    client: TestClient,
    place: Place,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("unplug.serve"), "propagate", True)
    with caplog.at_level(logging.DEBUG, "unplug.serve"):
        id = submit(client, "key-one-1").json()["id"]
        submit(
            client,
            "key-anna-of-the-test",
            {"names": ["subject:anna-of-the-test"], "anna-of-the-test": 1},
        )
        client.get("/requests/anna-of-the-test", params={"who": "anna-of-the-test"})
        client.get("/anna-of-the-test/anna-of-the-test")
        client.request("ANNA-OF-THE-TEST", "/requests")
        answers = [
            client.get(path).text
            for path in ("/requests", f"/requests/{id}", "/deadlines", "/metrics", "/events")
        ]
    lines = [
        JsonLogLines().format(record) for record in caplog.records if record.name == "unplug.serve"
    ]
    assert len(lines) >= 8 and all(json.loads(line)["event"] for line in lines)
    assert {json.loads(line).get("route") for line in lines} >= {
        "/requests",
        "/requests/{id}",
        "other",
    }
    files = [
        path.read_bytes().decode("latin-1") for path in Path(place.where).parent.glob("ledger.db*")
    ]
    for text in (*answers, *lines, *files):
        assert "anna" not in text.lower()
    assert '"token": "' in lines[0] and place.token not in "".join(lines)


def test_a_crash_of_ours_is_a_bare_500_and_logs_no_message(
    client: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("unplug.serve"), "propagate", True)
    monkeypatch.setattr("unplug.serve.routes_jobs.job_shape", lambda _: 1 / 0)
    monkeypatch.setattr(
        "unplug.serve.jobs.Jobs.newest",
        lambda *_: (_ for _ in ()).throw(ValueError("subject:anna")),
    )
    answer = client.get("/releases")
    assert answer.status_code == 500 and "anna" not in answer.text
    line = next(
        line
        for record in caplog.records
        if record.exc_info
        for line in [JsonLogLines().format(record)]
    )
    assert json.loads(line)["exception"] == "ValueError" and "anna" not in line


def test_limits_of_body_rate_and_what_browsers_are_told(make_place: Callable[..., Place]) -> None:
    place = make_place(limits=ServeLimits(body_bytes=2048, rate=0.5, burst=6))
    with TestClient(make_app(place.settings)) as client:
        client.headers.update(place.headers)
        page = client.get("/")
        assert (
            "default-src 'none'" in page.headers["content-security-policy"]
            and page.headers["x-content-type-options"] == "nosniff"
        )
        for name in ("page.js", "page.css"):
            assert (
                client.get(f"/assets/{name}").status_code == 200 and f"/assets/{name}" in page.text
            )
        assert client.get("/assets/index.html").status_code == 404 and "http" not in page.text
        big = {"names": ["x" * 400] * 10}
        assert submit(client, "key-one-1", big).status_code == 413

        def pieces() -> Iterator[bytes]:
            yield b'{"names": ["'
            yield b"x" * 5000

        said = {"Idempotency-Key": "key-two-2", "content-type": "application/json"}
        assert client.post("/requests", content=pieces(), headers=said).status_code == 413, (
            "no length was told"
        )
        codes = [client.get("/deadlines") for _ in range(7)]
        assert [item.status_code for item in codes].count(429) >= 1 and int(
            codes[-1].headers["retry-after"]
        ) >= 1
        assert client.get("/health").status_code == client.get("/ready").status_code == 200, (
            "these are asked all the time"
        )


def test_a_slow_body_ends(make_place: Callable[..., Place]) -> None:
    place = make_place(limits=ServeLimits(total_seconds=1.0))
    from unplug.serve.app import make_app as made

    async def drip() -> None:
        import asyncio

        sent: list[dict[str, Any]] = []
        app = made(place.settings)
        async with app.router.lifespan_context(app):

            async def receive() -> dict[str, Any]:
                await asyncio.sleep(0.3)
                return {"type": "http.request", "body": b" ", "more_body": True}

            async def send(message: Any) -> None:
                sent.append(message)

            headers = [
                (b"authorization", place.headers["authorization"].encode()),
                (b"idempotency-key", b"key-one-1"),
            ]
            scope = {
                "type": "http",
                "method": "POST",
                "path": "/requests",
                "raw_path": b"/requests",
                "query_string": b"",
                "headers": [*headers, (b"content-type", b"application/json")],
                "http_version": "1.1",
                "scheme": "http",
                "server": ("t", 80),
                "client": ("t", 1),
                "root_path": "",
                "asgi": {"version": "3.0"},
            }
            await app(scope, receive, send)  # type: ignore[arg-type]
        assert sent[0]["status"] == 408

    import asyncio

    asyncio.run(drip())


def picture(side: int = 64, kind: str = "PNG") -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (side, side), (200, 120, 40)).save(out, kind)
    return out.getvalue()


@pytest.mark.long
def test_pictures_are_answered_and_the_model_is_swapped(
    make_place: Callable[..., Place], onnx_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from unplug.core import sha256_file
    from unplug.serve.models import put_first_model

    first, second = map(sha256_file, onnx_files)
    place = make_place(artifact=str(onnx_files[0]))
    monkeypatch.setenv("UNPLUG_CHEAP_FILES", str(onnx_files[1]))
    assert place.settings.recipe is not None
    put_first_model(place.tables, place.settings.recipe)
    with TestClient(make_app(place.settings)) as client:
        client.headers.update(place.headers)

        def ask(content: bytes, kind: str = "image/png", **params: str) -> Any:
            return client.post(
                "/models/age/predict",
                content=content,
                headers={"content-type": kind},
                params=params,
            )

        good = ask(picture())
        assert (
            good.status_code == 200
            and good.json()["sha256"] == first
            and 0 <= good.json()["age"] <= 120
        )
        assert good.json()["crop"] == "centre square" and good.json()["note"].startswith(
            "no face was looked for"
        )
        boxed = ask(picture(), box="0,0,32,32").json()
        assert boxed["crop"] == "box 0,0,32,32" and boxed["note"] is None
        assert abs(sum(row["probability"] for row in good.json()["groups"]) - 1) < 1e-6
        assert (
            ask(picture(), box="0,0,32,32").status_code == 200
            and ask(picture(), box="0,0,99,32").status_code == 409
        )
        assert ask(picture(kind="BMP"), "text/plain").status_code == 415
        assert (
            client.post(
                "/models/other/predict", content=picture(), headers={"content-type": "image/png"}
            ).status_code
            == 404
        )
        bomb = picture()[:-40]
        for raw in (b"", b"no picture", bomb, picture()[:30], b"GIF89a" + bytes(60)):
            refused = ask(raw)
            assert refused.status_code == 422 and "picture" in refused.json()["detail"]
        submit(client, "key-one-1")
        until(client, client.post("/releases").json()["id"], "done")
        deadline = time.monotonic() + 30
        while (seen := ask(picture()).json()["sha256"]) == first and time.monotonic() < deadline:
            time.sleep(0.05)
        assert seen == second and client.get("/models").json()["models"][0]["sha256"] == second
        assert 'unplug_model_swaps_total{model="age"} 1.0' in client.get("/metrics").text


def test_without_a_recipe_requests_are_taken_and_nothing_is_released(place: Place) -> None:
    with TestClient(make_app(without_recipe(place.settings))) as client:
        client.headers.update(place.headers)
        assert (
            submit(client, "key-one-1").status_code == 201
            and client.post("/releases").status_code == 409
        )
        assert (
            client.get("/models").json() == {"models": []}
            and client.get("/ready").json()["model"] is None
        )


def test_every_request_may_ask_for_a_release(make_place: Callable[..., Place]) -> None:
    place = make_place(automatic=True)
    with TestClient(make_app(replace(place.settings, poll_seconds=0.02))) as client:
        client.headers.update(place.headers)
        ids = [submit(client, f"key-number-{number}").json()["id"] for number in range(4)]
        deadline = time.monotonic() + 60
        while (
            client.get("/requests", params={"state": "open"}).json()["requests"]
            and time.monotonic() < deadline
        ):
            time.sleep(0.1)
        released = [
            item["job"]
            for item in client.get("/requests", params={"state": "released"}).json()["requests"]
        ]
        assert len(released) == len(ids) and None not in released and len(set(released)) <= 2
