"""The server's routes and limits, against a client that lies. No browser is needed."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import DeviceError, JsonLines
from unplug.export import Artifact
from unplug.mobile_bench import Plan
from unplug.mobile_bench.devices.bench_device import BenchJob, DeviceInfo
from unplug.mobile_bench.exchange import Exchange, rows_head
from unplug.mobile_bench.rows import Taken, measured_row
from unplug.mobile_bench.web import server as server_module
from unplug.mobile_bench.web.server import PageServer

from ..fakes import repeat_of

PLAN = Plan(threads=1, warmup=0, iterations=2, repeats=1)


@pytest.fixture
def job(onnx: Artifact) -> BenchJob:
    return BenchJob(
        artifact=onnx,
        runtime="onnx-web",
        runtime_version="1.30.0",
        delegate="wasm",
        inputs={"image": np.full((2, 3, 32, 32), 0.5, np.float32)},
        reference=None,
    )


@pytest.fixture
def kept(job: BenchJob, tmp_path: Path) -> Callable[[Plan], JsonLines]:
    path = tmp_path / "bench.json.web.part"
    return lambda plan: JsonLines(path, rows_head([job], plan, None), print)


@pytest.fixture
def exchange(job: BenchJob, kept: Callable[[Plan], JsonLines]) -> Iterator[Exchange]:
    outputs = {"age_logits": np.zeros((2, 13)), "expected_age": np.ones((2, 1))}
    with kept(PLAN) as journal:
        yield Exchange([job], [outputs], PLAN, journal=journal)


@pytest.fixture
def served(exchange: Exchange, tmp_path: Path) -> Iterator[PageServer]:
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html>")
    (page / "assets" / "main.js").write_text("1")
    (tmp_path / "secret.txt").write_text("not yours")
    (page / "link.txt").symlink_to(tmp_path / "secret.txt")
    with PageServer(page, exchange) as server:
        yield server


def ask(
    server: PageServer, path: str, method: str = "GET", body: bytes | None = None
) -> tuple[int, bytes, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, body=body)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, data, response.headers


def own(server: PageServer, path: str, body: object = None) -> tuple[int, bytes, Any]:
    raw = None if body is None else json.dumps(body).encode()
    return ask(server, f"/{server.token}/{path}", "GET" if body is None else "POST", raw)


@pytest.fixture
def row(job: BenchJob) -> dict[str, Any]:
    """As the page sends it."""
    repeat = repeat_of((1.0, 2.0), parity_db=120.0, delegate_got="wasm", compared=4)
    placement = {"timed_until": "read_back"}
    info = DeviceInfo(where="device", device="Pixel 8", os="Android 15")
    return asdict(measured_row(info, job, PLAN, Taken(repeats=(repeat,), placement=placement)))


def report(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    head = {"schema": "unplug-bench/1", "seed": 0, "versions": {}, "git_revision": None}
    return {**head, "rows": rows, **changes}


def test_the_page_and_its_headers(served: PageServer) -> None:
    status, body, headers = own(served, "")
    assert (status, body) == (200, b"<!doctype html>")
    for name, value in {
        "Content-Type": "text/html; charset=utf-8",
        "Cross-Origin-Embedder-Policy": "require-corp",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }.items():
        assert headers[name] == value
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert own(served, "assets/main.js?v=1")[1] == b"1"
    status, body, headers = own(served, "plan.json")
    assert headers["Cache-Control"] == "no-store" and "Python" not in headers["Server"]
    plan = json.loads(body)
    assert (plan["schema"], plan["plan"]["iterations"]) == ("unplug-bench-plan/1", 2)
    assert plan["jobs"][0]["min_psnr_db"] == 100.0


def test_files_and_vectors(served: PageServer, job: BenchJob) -> None:
    assert own(served, "files/0")[1] == job.artifact.path.read_bytes()
    vectors = json.loads(own(served, "vectors/0/vectors.json")[1])
    assert vectors["schema"] == "unplug-vectors/1" and len(vectors["samples"]) == 2
    name = vectors["samples"][1]["inputs"]["image"]["file"]
    assert own(served, f"vectors/0/{name}")[1] == job.inputs["image"][1].tobytes()
    for path in ("files/1", "files/99999", *(f"vectors/0/{n}.f32" for n in ("9-image", "x-image"))):
        assert own(served, path)[0] == 404, path


@pytest.mark.parametrize(
    "path",
    ["/", "/plan.json", "/wrong-token/plan.json", "/wrong-token/", "//plan.json", "/%2e%2e/"],
)
def test_without_the_secret_nothing_is_there(served: PageServer, path: str) -> None:
    assert ask(served, path)[0] == 404 and ask(served, path, "POST", b"{}")[0] == 404
    assert not served.exchange.begun, "a stranger is no sign of life"


def raw(server: PageServer, text: str, body: bytes = b"", close: bool = True) -> tuple[int, str]:
    """Status and body of what is answered to bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(text.encode("latin-1") + body)
        if close:
            connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read().decode()
    return int(answer.split(" ")[1]), answer.partition("\r\n\r\n")[2]


def upload(
    server: PageServer, path: str, head: str, body: bytes, close: bool = True
) -> tuple[int, str]:
    text = f"POST /{server.token}/{path} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n"
    return raw(server, text, body, close)


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "assets/../../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "link.txt",
        "assets",
        "//etc/passwd",
        "/etc/passwd",
        ".",
        "assets/.hidden",
        "assets\\..\\x",
        "a\x00b",
    ],
)
def test_no_path_leads_out(served: PageServer, path: str) -> None:
    status, body = raw(served, f"GET /{served.token}/{path} HTTP/1.0\r\n\r\n")
    assert status in (404, 400) and "not yours" not in body


@pytest.mark.parametrize(
    ("head", "status", "message"),
    [
        ("Content-Length: 99999999999", 413, "larger than the limit of 67108864"),
        ("X: y", 411, "must give its size"),
        ("Content-Length: -5", 411, "must give its size"),
        ("Content-Length: 5x", 411, "must give its size"),
        ("Content-Length: 5\r\nContent-Length: 7", 411, "must give its size"),
        ("Transfer-Encoding: chunked", 411, "must give its size"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", 411, "must give its size"),
        ("Content-Length: 5000", 400, "the upload said 5000 bytes and 2 came; nothing was taken"),
    ],
)
def test_uploads_that_lie_about_their_size(
    served: PageServer, head: str, status: int, message: str
) -> None:
    got, body = upload(served, "report", head, b"{}")
    error = json.loads(body)["error"]
    assert got == status and message in error and "\n" not in error
    assert not served.used and own(served, "plan.json")[0] == 200, "nothing is lost"


def test_more_than_was_said_is_not_read(served: PageServer) -> None:
    body = json.dumps({"share": 0.5, "text": "half"}).encode()
    head = f"Content-Length: {len(body)}"
    assert upload(served, "progress", head, body + b"x" * 1000)[0] == 200
    assert served.exchange.progress.share == 0.5


def test_a_silent_upload_ends(served: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SOCKET_S", 0.3)
    status, body = upload(served, "report", "Content-Length: 50", b"{", close=False)
    assert status == 400 and "1 came" in body


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"share": 0.25, "text": "age.fp32.onnx on wasm"}, 200),
        ({"share": 2, "text": ""}, 400),
        ({"share": "x"}, 400),
        ([], 400),
        ({"share": 0.5, "text": "\x1b[2J"}, 400),
        ({"share": float("nan"), "text": ""}, 400),
        ({"share": 10**400, "text": ""}, 400),
        ({"share": 0.1, "text": "x" * 5000}, 413),
    ],
)
def test_progress_is_small_and_plain(served: PageServer, body: Any, status: int) -> None:
    assert own(served, "progress", body)[0] == status and served.exchange.begun
    assert served.exchange.progress.text == (body["text"] if status == 200 else "")


def test_one_report_and_the_address_is_used(served: PageServer, row: dict[str, Any]) -> None:
    assert own(served, "report", report(row))[0] == 200
    assert served.exchange.reported.wait(5) and served.exchange.rows[0].valid
    for path, body in (("report", report(row)), ("plan.json", None), ("", None), ("row/0", row)):
        status, answer, _ = own(served, path, body)
        assert status == 410 and "has been used" in json.loads(answer)["error"]


@pytest.mark.parametrize(
    "change", [{"schema": "unplug-bench/2"}, {"rows": [{"file": "other.onnx"}]}, None]
)
def test_a_report_that_does_not_hold_loses_nothing(
    served: PageServer, row: dict[str, Any], change: Any
) -> None:
    assert own(served, "row/0", row)[0] == 200
    bad = "text" if change is None else report(row, **change)
    status, answer, _ = own(served, "report", bad)
    assert status == 400 and "\n" not in json.loads(answer)["error"]
    assert served.exchange.rows[0].valid and not served.exchange.reported.is_set()
    assert own(served, "report", report(row))[0] == 200


def test_rows_survive_in_the_journal(
    served: PageServer,
    exchange: Exchange,
    kept: Callable[[Plan], JsonLines],
    row: dict[str, Any],
    tmp_path: Path,
) -> None:
    assert own(served, "row/0", row)[0] == 200
    assert own(served, "row/1", row)[0] == 404 and own(served, "row/0", {"file": 1})[0] == 400
    exchange._journal.close()
    other = replace(PLAN, iterations=3)
    for plan, rows in ((PLAN, exchange.rows), (other, {})):
        with kept(plan) as lines:
            again = Exchange(exchange.jobs, exchange.expected, plan, journal=lines)
        assert again.rows == rows and again.missing() == ([] if rows else [0])
    assert (tmp_path / "bench.json.web.part.old1").is_file(), "nothing is lost"


def test_unfinished_rows_are_marked(
    served: PageServer, exchange: Exchange, row: dict[str, Any]
) -> None:
    partial = {"repeats": [], "status": "failed", "reasons": ["the rest is to come"]}
    assert own(served, "row/0", {**row, **partial})[0] == 200 and exchange.missing() == [0]
    last = exchange.final(0, "the browser ended")
    assert last is not None and (last.status, last.valid) == ("failed", False)
    assert "the browser ended" in last.reasons[0]


@pytest.mark.long
def test_silent_connections_keep_no_browser_out(served: PageServer) -> None:
    """64 of them, and 100 that begin a request and stop: the oldest make room, and few threads wait
    on them.
    """
    silent = []
    for number in range(164):
        silent.append(socket.create_connection(("127.0.0.1", served.port)))
        if number >= 63 and number % 25 == 0:
            assert own(served, "plan.json")[0] == 200
    assert len(served._http._strangers) <= server_module.MAX_STRANGERS
    for connection in silent:
        connection.close()
    assert own(served, "plan.json")[0] == 200


def test_a_taken_port_is_one_clear_line(served: PageServer, exchange: Exchange) -> None:
    with pytest.raises(DeviceError, match=f"127.0.0.1:{served.port}: .*in use.* Name another port"):
        PageServer(served.page, exchange, "127.0.0.1", served.port)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD"])
def test_other_methods_are_refused(served: PageServer, method: str) -> None:
    assert ask(served, f"/{served.token}/", method)[0] == 501
