"""The page draws: its pictures are Python's, whatever a visitor types, and what does not hold is
one line.
"""

from __future__ import annotations

import base64
import json
import math
import shutil
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.mobile_bench.web.conftest import Browser, Built, _Quiet
from tests.once import once
from tests.sdk.drawing.diffusion.conftest import save_lora, steering_plugin, tiny_pipeline

from unplug.mobile_bench import BenchReport, write_site
from unplug.mobile_bench.web import build
from unplug.plugins import save_checkpoint
from unplug.sdk.drawing.conditions import Steering
from unplug.sdk.drawing.device import (
    GeneratorSource,
    PipelineDefaults,
    VariantSource,
    Words,
    draw,
    export_generator,
    web_files,
)

pytestmark = pytest.mark.nightly

PROMPT, SEED, SIZE = "a portrait of a child, smiling", 11, 64
MIN_DB = 90.0
"""Measured: 98 dB and more on WebAssembly (benchmarks.web_drawing; it has WebGPU, which this tiny
base is not for).
"""
HEAR = """window.pictures = []; document.addEventListener("unplug-drawn", ({detail: {order, drawn}}) => window.pictures.push({
  latent: Array.from(drawn.latent), decoded: Array.from(drawn.decoded), pixels: Array.from(drawn.pixels),
  steers: order.steers.map(({plugin, pixels, strength}) => ({plugin, strength, pixels: Array.from(pixels)}))}));"""
READY = """new Promise((done) => {
  const look = () => (document.querySelector("#go").textContent === "Draw" ? done(null) : setTimeout(look, 50));
  look();
})"""
CANCEL = """new Promise((done) => {
  const [go, line] = [document.querySelector("#go"), document.querySelector("#doing")];
  new MutationObserver(() => {
    if (line.textContent.startsWith("Step 1 ")) go.click();
    if (line.textContent === "Stopped.") setTimeout(done, 100);
  }).observe(line, { childList: true });
  go.click();
})"""
OFF = "[...document.querySelectorAll('#choice option')].map((one) => one.disabled)"
TAKE = "window.pictures.pop()"
FACE = [[0.5 + 0.3 * math.cos(angle / 5), 0.5 + 0.35 * math.sin(angle / 5)] for angle in range(33)]


@pytest.fixture(scope="session")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny base with one variant and a plugin for edges, in LiteRT and ONNX. Tests must not write
    to it.
    """

    def make(folder: Path) -> None:
        pipeline = tiny_pipeline(folder / "tokenizer")
        pipeline.save_pretrained(folder / "base", safe_serialization=True)
        save_checkpoint(steering_plugin(pipeline.unet), folder / "plugin", record={}, card="")
        few = PipelineDefaults(steps=2, guidance=1.0, solver="dpm++")
        lora = save_lora(folder / "base", folder / "lora", 1)
        source = GeneratorSource(
            name="tiny",
            folder=folder / "base",
            plugins={"canny": folder / "plugin"},
            guidance=3.0,
            lora_slots=True,
            variants={"few-steps": VariantSource(loras=(lora,), defaults=few)},
        )
        export_generator(
            source, targets=["litert", "onnx"], precisions=["fp32"], out=folder / "files"
        )

    return once(tmp_path_factory, "web-generator", make) / "files"


@pytest.fixture(scope="session")
def site(generator: Path, built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What `unplug page --out` writes, on a plain web server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.PAGE_VARIABLE, str(built.page))
        folder = tmp_path_factory.mktemp("web-site") / "site"
        write_site(web_files(generator), folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def visit(
    browser: Browser, url: str, named: list[tuple[str, list[Any]]], **more: Any
) -> dict[str, Any]:
    result = browser(url, [step for _, step in named], timeout=300, timeout_ms=120_000, **more)
    assert result["strangers"] == [] and not any(
        "Uncaught" in line or "Security" in line for line in result["errors"]
    )
    return {name: value for (name, _), value in zip(named, result["found"], strict=True) if name}


def drawn(name: str, choice: str) -> list[tuple[str, list[Any]]]:
    """Steps that draw with some files, and wait until the picture is there."""
    return [
        ("", ["choose", "#choice", choice]),
        ("", ["click", "#go"]),
        ("", ["evaluate", READY]),
        (name, ["evaluate", TAKE]),
    ]


@pytest.fixture(scope="session")
def tour(browser: Browser, site: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One long visit; what its steps found, by name."""
    folder = tmp_path_factory.mktemp("web-tour")
    grain = (
        np.random.default_rng(0)
        .integers(0, 255, (6, 6, 3), dtype=np.uint8)
        .repeat(16, 0)
        .repeat(16, 1)
    )
    Image.fromarray(grain).save(folder / "photo.png")
    Image.new("RGB", (80, 80), (90, 90, 90)).save(folder / "flat.png")
    (folder / "text.png").write_text("no picture")
    named: list[tuple[str, list[Any]]] = [
        ("", ["open", "?repeats=1&iterations=2&warmup=0"]),
        ("", ["evaluate", HEAR]),
        ("start", ["axe"]),
        ("notes", ["texts", ".notes li"]),
        ("", ["click", ".settings summary"]),
        ("choices", ["texts", "#choice option"]),
        ("", ["fill", "#prompt", PROMPT]),
        ("", ["fill", "#seed", str(SEED)]),
        ("", ["fill", "#steps", "4"]),
        *drawn("litert wasm", "2"),
        ("done", ["axe"]),
        ("line", ["text", "#doing"]),
        ("", ["click", "#numbers summary"]),
        ("times", ["text", "#times"]),
        ("", ["download", "#record", str(folder / "drawing.json")]),
        ("", ["download", "#download", str(folder / "picture.png")]),
        ("", ["choose", "#variant", "few-steps"]),
        ("few steps", ["text", "#variant-note"]),
        *drawn("variant", "2"),
        ("variant line", ["text", "#doing"]),
        ("", ["choose", "#variant", ""]),
        ("", ["fill", "#steps", "4"]),
        *drawn("onnx wasm", "3"),
        *drawn("", "0"),
        ("no webgpu", ["text", "#draw-alert"]),
        ("", ["click", ".segment:has(#guide-canny)"]),
        ("", ["choose", "#choice", "2"]),
        ("", ["click", "#go"]),
        ("", ["wait", "#draw-alert:not([hidden])"]),
        ("empty guide", ["text", "#draw-alert"]),
        ("alert", ["axe"]),
        ("", ["stroke", "#pad", FACE]),
        *drawn("sketch", "2"),
        ("", ["click", "#guide-undo"]),
        ("undone", ["evaluate", "document.querySelector('.pad').dataset.empty"]),
        ("", ["files", "#guide-file", str(folder / "photo.png")]),
        ("", ["wait", ".pad[data-empty=false]"]),
        *drawn("photo", "2"),
        ("", ["files", "#guide-file", str(folder / "flat.png")]),
        ("", ["until", "No edges were found"]),
        ("flat", ["text", ".guide-side [role=status]"]),
        ("", ["files", "#guide-file", str(folder / "text.png")]),
        ("", ["until", "is no picture"]),
        ("", ["click", "#guide-own"]),
        ("own", ["evaluate", "document.querySelector('.pad').dataset.empty"]),
        ("", ["scheme", "dark"]),
        ("dark", ["axe"]),
        ("", ["size", 320, 640]),
        ("narrow", ["overflow"]),
        ("", ["size", 1280, 900]),
        ("wide", ["overflow"]),
        ("", ["click", ".segment:has(#guide-off)"]),
        ("", ["fill", "#prompt", "a xylophone \U0001f642"]),
        ("unknown", ["text", "#words-note"]),
        ("", ["fill", "#prompt", "a" * 10_000]),
        ("long", ["text", "#words-note"]),
        *drawn("long picture", "2"),
        ("", ["fill", "#seed", "99999999999999999999"]),
        ("", ["click", "#go"]),
        ("", ["wait", "#draw-alert:not([hidden])"]),
        ("bad seed", ["text", "#draw-alert"]),
        ("", ["fill", "#seed", "3"]),
        ("noise", ["text", "#doing"]),
        ("", ["fill", "#steps", "50"]),
        ("", ["evaluate", CANCEL]),
        ("after cancel", ["text", "#go"]),
        ("", ["click", "#tab-bench"]),
        ("", ["wait", "#start"]),
        ("", ["click", "#start"]),
        ("", ["wait", "#bench #download"]),
        ("states", ["texts", ".state"]),
        ("", ["download", "#bench #download", str(folder / "bench.json")]),
    ]
    return {**visit(browser, site, named), "folder": folder}


def decibels(reference: np.ndarray, value: np.ndarray) -> float:
    error = float(np.sqrt(np.mean((reference - value) ** 2)))
    return math.inf if error == 0 else 20 * math.log10(float(np.abs(reference).max()) / error)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("litert wasm", "litert"),
        ("variant", "litert"),
        ("onnx wasm", "onnx"),
        ("sketch", "litert"),
        ("photo", "litert"),
    ],
)
def test_its_picture_is_pythons(
    tour: dict[str, Any], generator: Path, name: str, target: str
) -> None:
    found = tour[name]
    steers = tuple(
        Steering(
            plugin=item["plugin"],
            strength=item["strength"],
            image=np.array(item["pixels"], np.uint8).reshape(SIZE, SIZE, 4)[:, :, :3],
        )
        for item in found["steers"]
    )
    assert bool(steers) == (name in ("sketch", "photo"))
    how = {"variant": "few-steps"} if name == "variant" else {}
    words = Words(prompt=PROMPT, steps=None if how else 4)
    wanted = draw(generator, words, seeds=(SEED,), steerings=steers, target=target, **how)
    assert decibels(wanted.latents[0].ravel(), np.array(found["latent"])) >= MIN_DB
    assert decibels(wanted.decoded[0].ravel(), np.array(found["decoded"])) >= MIN_DB
    pixels = np.array(found["pixels"], np.int16).reshape(SIZE, SIZE, 4)
    assert (pixels[:, :, 3] == 255).all() and np.abs(pixels[:, :, :3] - wanted.images[0]).max() <= 1


def test_a_sketch_is_a_line_of_one_pixel(tour: dict[str, Any]) -> None:
    (steer,) = tour["sketch"]["steers"]
    pixels = np.array(steer["pixels"], np.uint8).reshape(SIZE, SIZE, 4)[:, :, 0]
    assert set(np.unique(pixels)) == {0, 255}
    assert 80 < (pixels == 255).sum() < 240, "the outline of an ellipse, and nothing filled"
    assert tour["undone"] == "true" and tour["own"] == "false"


def test_what_is_saved(tour: dict[str, Any]) -> None:
    saved = np.asarray(Image.open(tour["folder"] / "picture.png").convert("RGB"), np.int16)
    shown = np.array(tour["litert wasm"]["pixels"]).reshape(SIZE, SIZE, 4)[:, :, :3]
    assert (saved == shown).all()
    record = json.loads((tour["folder"] / "drawing.json").read_text())
    assert record["schema"] == "unplug-drawing/1" and record["words"]["seed"] == str(SEED)
    assert {name: len(part["runs_ms"]) for name, part in record["parts"].items()} == {
        "text_encoder": 2,
        "unet": 4,
        "decoder": 1,
    }
    assert sum(sum(part["runs_ms"]) for part in record["parts"].values()) <= record["whole_ms"]
    assert all(
        word in tour["times"] for word in ("Text encoder", "UNet", "Decoder", "Whole picture")
    )


def test_what_it_tells(tour: dict[str, Any]) -> None:
    assert tour["line"].startswith(f"Seed {SEED}") and "a step" in tour["line"]
    assert tour["few steps"] == "Made for 2 steps, without guidance by words."
    assert tour["variant line"].startswith(f"Seed {SEED} · few-steps · ")
    assert "without a network from now on" in tour["notes"][1]
    assert [line.split(" · ")[:2] for line in tour["choices"]] == [
        [where, runtime]
        for where in ("WebGPU", "WebAssembly")
        for runtime in ("LiteRT.js", "ONNX Runtime Web")
    ]
    assert "“xylophone”" in tour["unknown"] and "never taught" in tour["unknown"]
    assert "reads the first 16 only" in tour["long"] and tour["long picture"] is not None
    assert (
        "webgpu does not take all of this file. Choose other files under Settings."
        in tour["no webgpu"]
    )
    assert tour["empty guide"].startswith("The guide is empty")
    assert tour["flat"].startswith("No edges were found") and tour["bad seed"].startswith(
        "The seed must be"
    )
    assert "noise of seed 3" in tour["noise"] and tour["after cancel"] == "Draw"


@pytest.mark.parametrize("state", ["start", "done", "alert", "dark"])
def test_accessible(tour: dict[str, Any], state: str) -> None:
    assert tour[state] == []


def test_nothing_is_wider_than_the_screen(tour: dict[str, Any]) -> None:
    assert (tour["narrow"], tour["wide"]) == (0, 0)


def test_its_parts_are_rows_of_a_benchmark(tour: dict[str, Any]) -> None:
    report = BenchReport.load(tour["folder"] / "bench.json")
    wasm = [row for row in report.rows if row.delegate_asked == "wasm"]
    assert [row.model_type for row in wasm] == ["text_encoder", "slotted_unet", "decoder", "plugin"]
    assert all(row.status == "ok" and row.valid for row in wasm), [row.reasons for row in wasm]
    assert len(report.rows) == 8


def test_without_a_network(browser: Browser, site: str) -> None:
    """Loaded and drawn with once, it opens and draws again where nothing is reached."""
    draws = [("", ["click", "#go"]), ("", ["wait", "#record"]), ("line", ["text", "#doing"])]
    found = visit(
        browser, site, [("", ["open"]), *draws, ("", ["offline", True]), ("", ["open"]), *draws]
    )
    assert found["line"].startswith("Seed ")


def test_without_webgpu(browser: Browser, site: str) -> None:
    gone = "Object.defineProperty(Navigator.prototype, 'gpu', { get: () => undefined })"
    named: list[tuple[str, list[Any]]] = [
        ("", ["open"]),
        ("", ["click", ".settings summary"]),
        ("why", ["text", ".settings"]),
        ("", ["click", "#go"]),
        ("", ["wait", "#record"]),
        ("off", ["evaluate", OFF]),
    ]
    found = visit(browser, site, named, init=gone)
    assert "No WebGPU here: this browser has no WebGPU" in found["why"] and found["off"] == [
        True,
        True,
        False,
        False,
    ]


def zipped(folder: Path, out: Path, changed: dict[str, bytes | None]) -> Path:
    with zipfile.ZipFile(out, "w") as archive:
        for file in sorted(item for item in folder.rglob("*") if item.is_file()):
            name = file.relative_to(folder).as_posix()
            if (body := changed.get(name, file.read_bytes())) is not None:
                archive.writestr(f"FILES/{name}", body)
    return out


def test_folders_that_do_not_hold(
    browser: Browser, static_url: str, generator: Path, tmp_path: Path
) -> None:
    known = json.loads((generator / "pipeline.json").read_text())
    own = shutil.copytree(generator, tmp_path / "own")

    def other(edit: Any) -> dict[str, bytes | None]:
        pipeline = json.loads(json.dumps(known))
        edit(pipeline)
        return {"pipeline.json": json.dumps(pipeline).encode()}

    unet = known["unet"]["files"][0]["file"]
    assert unet.endswith(".tflite")
    wider = known["plugins"]["canny"]["part"]["iospec"]["outputs"][0]["shape"]
    broken = {
        "json": {"pipeline.json": b"{"},
        "schema": other(lambda item: item.update(schema="unplug-pipeline/9")),
        "plugin": other(
            lambda item: item["plugins"]["canny"]["part"]["iospec"]["outputs"][0].update(
                shape=[1, 320, *wider[2:]]
            )
        ),
        "path": other(lambda item: item["unet"]["files"][0].update(file="../secret")),
        "missing": {unet: None},
        "swapped": {unet: base64.b64encode(bytes(100))},
    }
    steps: list[tuple[str, list[Any]]] = []
    for name, changed in broken.items():
        steps += [
            ("", ["open"]),
            ("", ["files", "#pick-files", str(zipped(own, tmp_path / f"{name}.zip", changed))]),
        ]
        if name in ("missing", "swapped"):
            steps += [
                ("", ["wait", "#go"]),
                ("", ["evaluate", "(document.querySelector('#choice').value = '2')"]),
                ("", ["click", "#go"]),
            ]
        where = "#draw-alert" if name in ("missing", "swapped") else "#alert"
        steps += [("", ["wait", f"{where}:not([hidden])"]), (name, ["text", where])]
    found = visit(browser, static_url, steps)
    assert found["json"] == "pipeline.json does not hold: it is not valid JSON."
    assert 'of schema "unplug-pipeline/9"' in found["schema"]
    assert "its plugin canny was made for another base: it gives [1,320," in found["plugin"]
    assert "no plain path inside the folder" in found["path"]
    assert found["missing"].startswith(f"{unet} is missing")
    assert found["swapped"].startswith(f"{unet} is another file than pipeline.json says")
