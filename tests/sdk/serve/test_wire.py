"""Bytes on a connection, of a server as `unplug serve` starts it: framing, late and long bodies,
silent connections.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import uvicorn
from tests.sdk.serve.conftest import Place

from unplug.serve import ServeLimits
from unplug.serve.app import make_app
from unplug.serve.protocol import PatientProtocol

BODY = b'{"names":["subject:bea"]}'
CHUNKED = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
HEALTH = b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n"


@contextmanager
def listening(place: Place) -> Iterator[int]:
    """The port of a service in a thread."""
    config = uvicorn.Config(
        make_app(place.settings),
        port=0,
        http=PatientProtocol,
        ws="none",
        log_level="critical",
        limit_concurrency=place.settings.limits.connections,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=30)


@pytest.fixture
def port(place: Place) -> Iterator[int]:
    with listening(place) as number:
        yield number


def opened(port: int, raw: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(raw)
    return connection


def status(connection: socket.socket) -> int:
    """Of the answer; 0 where the connection was closed without one."""
    with connection, connection.makefile("rb") as answer:
        return int((answer.readline().split() or [b"", b"0"])[1])


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNKED + b"\r\n"),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 25\r\n\r\n", CHUNKED + b"\r\n"),
        (b"X: y\nContent-Length: 25\r\n\r\n", BODY),
        (b"X: y\r\nContent-Length: 25\r\n\n", BODY),
        (b"X: y\r\n z\r\nContent-Length: 25\r\n\r\n", BODY),
        (b"Transfer-Encoding: chunked\r\n\r\n", CHUNKED + b"X: y\n\r\n"),
        (b"Transfer-Encoding: chunked\r\n\r\n", CHUNKED + b"\n"),
        (b"Authorization: Bearer other\r\nContent-Length: 25\r\n\r\n", BODY),
        (b"Idempotency-Key: key-two-2\r\nContent-Length: 25\r\n\r\n", BODY),
    ],
)
def test_what_two_programs_may_read_in_two_ways_is_refused(
    port: int, place: Place, head: bytes, body: bytes
) -> None:
    first = b"POST /requests HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nIdempotency-Key: key-one-1\r\n"
    token = b"Authorization: " + place.headers["authorization"].encode() + b"\r\n"
    assert status(opened(port, first + token + head + body)) == 400
    assert place.ledger.requests() == {}
    older = (
        first.replace(b"1.1", b"1.0")
        + token
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + CHUNKED
        + b"\r\n"
    )
    assert status(opened(port, older)) == 400
    assert status(opened(port, first + token + b"Content-Length: 25\r\n\r\n" + BODY)) == 201


@pytest.mark.parametrize(
    ("path", "token", "expected"),
    [
        ("/requests", True, 413),
        ("/models/age/predict", True, 404),
        ("/models/age/predict", False, 401),
        ("/no", True, 413),
    ],
)
def test_who_still_sends_a_long_body_gets_the_answer(
    port: int, place: Place, path: str, token: bool, expected: int
) -> None:
    """A client that reads only when it has sent all would see a reset."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("POST", path)
    for name, value in {
        "Content-Length": str(7 * 2**20),
        "Connection": "close",
        **(place.headers if token else {}),
    }.items():
        connection.putheader(name, value)
    connection.endheaders()
    for _ in range(7):
        connection.send(bytes(2**20))
    assert connection.getresponse().status == expected


@pytest.mark.parametrize("size", [17 * 2**10, 4 * 2**20])
@pytest.mark.parametrize(
    "raw", [b"GET /%b HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: t\r\nX: %b\r\n\r\n"]
)
def test_who_sends_long_headers_gets_the_answer(port: int, size: int, raw: bytes) -> None:
    connection = opened(port, raw % (b"y" * size))
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    assert answer.status == 400 and json.load(answer)["status"] == 400 and connection.recv(1) == b""
    connection.close()


def test_a_body_that_stops_being_http_is_refused_while_it_is_read(port: int) -> None:
    head = b"POST /requests HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
    assert (
        status(
            opened(
                port, head + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nno number" + bytes(2**20)
            )
        )
        == 400
    )


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /health HT",
        b"POST /requests HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n{",
        HEALTH,
    ],
)
def test_silent_connections_keep_nobody_out(make_place: Callable[..., Place], begun: bytes) -> None:
    with listening(make_place(limits=ServeLimits(connections=20))) as port, ExitStack() as held:
        silent = [held.enter_context(opened(port, begun)) for _ in range(60)]
        for path in (b"/health", b"/ready"):
            assert status(opened(port, b"GET %b HTTP/1.1\r\nHost: t\r\n\r\n" % path)) == 200
        silent[0].settimeout(5)
        with suppress(ConnectionResetError):
            while silent[0].recv(1000):  # what it was answered, then the end
                pass


def test_streams_leave_half_of_the_connections_to_others(make_place: Callable[..., Place]) -> None:
    place = make_place(limits=ServeLimits(connections=4, stream_seconds=20.0))
    rest = (
        b" HTTP/1.1\r\nHost: t\r\nAuthorization: "
        + place.headers["authorization"].encode()
        + b"\r\n\r\n"
    )
    with listening(place) as port, ExitStack() as held:
        streams = [held.enter_context(opened(port, b"GET /events" + rest)) for _ in range(2)]
        for stream in streams:
            assert b" 200 " in stream.recv(20)
        assert status(opened(port, b"GET /events" + rest)) == 503
        assert status(opened(port, b"GET /requests" + rest)) == status(opened(port, HEALTH)) == 200
