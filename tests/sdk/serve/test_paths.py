"""Where a path or a kind of picture is not the usual one: nobody is sent elsewhere, and the bytes
decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sdk.serve.conftest import Api, Place
from tests.sdk.serve.test_api import picture, posting

from unplug.sdk.drawing.inference import Embedded

AS_A_PROXY_PASSES_IT_ON = {
    "host": "forget.example.org",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "evil.example",
    "x-forwarded-for": "1.2.3.4",
    "forwarded": "host=evil.example;proto=https",
}


@pytest.fixture
def api(place: Place) -> Iterator[Api]:
    with Api(place, headers={}, follow_redirects=False) as api:
        yield api


@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/requests/"),
        ("GET", "/health/"),
        ("HEAD", "/health/"),
        ("GET", "/requests//"),
        ("DELETE", "/requests/"),
        ("OPTIONS", "/models/age/predict/"),
        ("POST", "/requests/T-1/withdraw/"),
        ("GET", "/openapi.json/"),
        ("GET", "/assets/page.js/"),
        ("GET", "/metrics/"),
        ("GET", "/releases/J-0123456789abcdef/files/a.zip/"),
    ],
)
def test_a_slash_too_many_sends_nobody_elsewhere(
    api: Api, place: Place, method: str, path: str, token: bool
) -> None:
    body = {"json": {"names": ["subject:bea"]}} if method == "POST" else {}
    headers = AS_A_PROXY_PASSES_IT_ON | {"idempotency-key": "key-one-1"}
    headers |= place.headers if token else {}
    answer = api.request(method, path, headers=headers, **body)
    assert answer.status_code == 404 and "location" not in answer.headers
    assert "example" not in answer.text and place.ledger.requests() == {}


@pytest.mark.parametrize("path", ["//requests", "//requests/", "//evil.example/requests/"])
def test_slashes_before_the_path(api: Api, path: str) -> None:
    """A client library takes ``//`` for a host, so the bytes go to the application as they are."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(api.app(posting(path, AS_A_PROXY_PASSES_IT_ON), receive, send))
    assert sent[0]["status"] == 404 and b"location" not in dict(sent[0]["headers"])


def test_what_proxies_say_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn believes them by default, from loopback or from ``FORWARDED_ALLOW_IPS``; nothing here
    has a use for them.
    """
    import uvicorn

    from unplug.serve.serve import _listen

    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    made: list[uvicorn.Config] = []
    monkeypatch.setattr(
        uvicorn, "run", lambda app, **options: made.append(uvicorn.Config(app, **options))
    )
    _listen(replace(place.settings, recipe=None), "127.0.0.1", 8080)
    assert made[0].proxy_headers is False


@pytest.fixture
def predicting(make_place: Callable[..., Place]) -> Iterator[Api]:
    """A service whose model says 30 of every picture that decodes."""
    model = SimpleNamespace(
        tensor=SimpleNamespace(height=8), sha256="0" * 64, batched=True, model_type="age"
    )
    model.pixels = lambda raw, box: Embedded.pixels(model, raw, box)
    model.answer = lambda pixels: [{"age": 30.0}] * len(pixels)
    with Api(make_place()) as api:
        here = api.app.state.parts
        here.served.row = SimpleNamespace(name="age", sha256=model.sha256, job=None, since="now")
        here.batcher.swap(model)
        yield api


@pytest.mark.parametrize(
    ("bytes_of", "kind", "status"),
    [
        ("JPEG", "image/jpg", 200),
        ("JPEG", "application/octet-stream", 200),
        ("PNG", "IMAGE/JPG; charset=binary", 200),
        ("WEBP", "image/jpeg", 200),
        ("PNG", "image/x-png", 200),
        ("BMP", "binary/octet-stream", 200),
        ("JPEG", "", 200),
        ("JPEG", "application/x-www-form-urlencoded", 200),
        ("JPEG", None, 200),
        ("GIF", "image/png", 422),
        ("JPEG", "text/plain", 415),
        ("JPEG", "multipart/form-data; boundary=x", 415),
        ("JPEG", "application/json", 415),
    ],
)
def test_the_bytes_say_what_a_picture_is(
    predicting: Api, bytes_of: str, kind: str | None, status: int
) -> None:
    headers = {} if kind is None else {"content-type": kind}
    answer = predicting.post("/models/age/predict", content=picture(16, bytes_of), headers=headers)
    assert answer.status_code == status, answer.text
    assert status != 200 or answer.json()["age"] == 30.0
