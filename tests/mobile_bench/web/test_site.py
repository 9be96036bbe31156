"""The page with a generator beside it: what is served and written, and nothing else."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.sdk.drawing.device.toy import dummy, tensor, toy

from unplug.core import DeviceError, InputError, IOSpec, OutputError
from unplug.mobile_bench import serve_site, write_site
from unplug.mobile_bench.web import build
from unplug.mobile_bench.web.server import PageServer
from unplug.sdk.cli import main

from .conftest import files_in


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "assets" / "main.js").write_text("1")
    monkeypatch.setenv(build.PAGE_VARIABLE, str(folder))
    return folder


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    folder = tmp_path / "FILES"
    (folder / "unet").mkdir(parents=True)
    (folder / "pipeline.json").write_text("{}")
    (folder / "unet" / "unet.fp32.onnx").write_bytes(b"model")
    (folder / "secret.txt").write_text("not yours")
    return {name: folder / name for name in ("pipeline.json", "unet/unet.fp32.onnx")}


def ask(server: PageServer, path: str, method: str = "GET") -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, f"/{server.token}/{path}", body=b"{}" if method == "POST" else None)
    answer = connection.getresponse()
    told = answer.status, answer.read(), answer.headers.get("Content-Type", "")
    connection.close()
    return told


def test_only_what_was_named_is_served(page: Path, files: dict[str, Path]) -> None:
    named = {f"generator/{name}": path for name, path in files.items()}
    with PageServer(page, None, files=named) as server:
        assert ask(server, "")[:2] == (200, b"<!doctype html>")
        assert ask(server, "generator/pipeline.json") == (200, b"{}", "application/json")
        assert ask(server, "generator/unet/unet.fp32.onnx?sha256=00")[:2] == (200, b"model")
        beside = ("generator/secret.txt", "generator/../secret.txt", "generator/")
        for path in (*beside, "plan.json", "files/0", "vectors/0/x"):
            assert ask(server, path)[0] == 404, path
        for path in ("row/0", "report", "progress"):
            assert ask(server, path, "POST")[0] == 404, path


def test_it_says_where_and_ends(page: Path, files: dict[str, Path]) -> None:
    lines, before = list[str](), threading.active_count()
    serve_site(files, None, lines.append, seconds=0.01)
    assert lines[0].startswith("Open http://127.0.0.1:") and threading.active_count() == before
    for place, words in (("headless", "nobody would see the page"), ("a b", "not a port")):
        with pytest.raises(InputError, match=words):
            serve_site(files, place, lines.append)


def test_a_folder_of_static_files(page: Path, files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "site"
    size = write_site(files, out)
    written = files_in(out)
    beside = {f"generator/{name}" for name in files}
    assert set(written) == {"index.html", "assets/main.js", *beside}
    assert size == sum(map(len, written.values()))
    assert write_site(files, out) == size, "its own folder is replaced"
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="was not written by this command"):
        write_site(files, other)
    assert (other / "mine.txt").read_text() == "mine"


def test_the_command(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "toy"
    toy(folder)
    out = tmp_path / "site"

    def ran(folder: Path, *words: str) -> Any:
        return CliRunner().invoke(main, ["page", str(folder), *words])

    done = ran(folder, "--out", str(out), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["out"] == str(out)
    name = "pipeline.json"
    assert (out / "generator" / name).read_bytes() == (folder / name).read_bytes()
    done = ran(folder, "--minutes", "0.01")
    assert done.exit_code == 0 and "Open http://127.0.0.1:" in done.output
    done = ran(folder, "--out", str(out), "--port", "8080")
    assert done.exit_code == 2 and "it writes a folder and serves nothing" in done.output
    done = ran(tmp_path, "--out", str(out))
    assert done.exit_code == 2 and "pipeline.json: No such file" in done.output
    monkeypatch.setenv(build.PAGE_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(DeviceError, match=r"no index\.html"):
        serve_site({}, None, print, seconds=0.01)


def test_a_swapped_file_is_not_put_on_a_server(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    toy(folder)
    unet = next(path for path in folder.rglob("*.tflite") if "unet" in path.name)
    unet.write_bytes(unet.read_bytes() + b"x")
    done = CliRunner().invoke(main, ["page", str(folder), "--out", str(tmp_path / "site")])
    assert done.exit_code == 2 and unet.name in done.output and not (tmp_path / "site").exists()


def reader(folder: Path, bits: int = 48) -> Path:
    """A folder as `unplug export mark-reader` writes it, its file of no use."""
    image, logits = tensor("image", 1, 3, 128, 128), tensor("bits", 1, bits, layout="NC")
    dummy(folder, "mark-reader", IOSpec(inputs=(image,), outputs=(logits,)))
    return folder / "mark-reader"


def test_a_reader_of_marks_lies_beside_the_generator(page: Path, tmp_path: Path) -> None:
    toy(tmp_path / "toy")
    out, own = tmp_path / "site", reader(tmp_path)

    def ran(*words: str) -> Any:
        return CliRunner().invoke(main, ["page", str(tmp_path / "toy"), *words, "--out", str(out)])

    key = ("--trust", str(tmp_path / "key.pub"))
    for words, why in (
        (("--mark-reader", str(tmp_path / "toy" / "canny")), "that reads marks of 48 bits"),
        (("--mark-reader", str(reader(tmp_path / "short", 32))), "that reads marks of 48 bits"),
        (("--mark-reader", str(tmp_path / "none")), "no such file"),
        (("--mark-reader", str(own), *key), "runs nothing but signed bundles"),
    ):
        done = ran(*words)
        assert done.exit_code == 2 and why in done.output and not out.exists(), done.output
    assert ran("--mark-reader", str(own)).exit_code == 0
    beside, name = out / "generator" / "mark-reader", "mark_reader.fp32.tflite"
    assert sorted(path.name for path in beside.iterdir()) == ["card.json", name]
    assert (beside / name).read_bytes() == (own / name).read_bytes()
    assert json.loads((beside / "card.json").read_text())["file"] == name
    assert ran().exit_code == 0 and not beside.exists()
    (own / name).write_bytes(b"another")
    done = ran("--mark-reader", str(own))
    assert done.exit_code == 2 and name in done.output
