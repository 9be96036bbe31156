"""``python -m benchmarks.web_drawing``: what the web page draws in a headless Chromium beside
Python's, number by number.

The page is built with npm and opened with FILES beside it, what ``unplug export`` made of the base
that ships. Every choice of files and delegate draws the same words and seed; the decoder's numbers
and the last latent are compared with those of ``unplug.sdk.drawing.device`` on the same file in
Python's runtime. WebGPU is a software device here, right and slow: it draws fewer steps, and its
times are not kept. Seconds are of a picture, tokens to pixels, with everything open and without
previews, on the one thread of a page that is not isolated. JSON goes to OUT; docs/results/drawing.md shows
the table.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import click
import numpy as np

from unplug.core import git_revision, installed_versions, write_json
from unplug.export import find_browser, psnr_db
from unplug.export.runtime.web.runtime import FLAGS
from unplug.mobile_bench import write_site
from unplug.mobile_bench.web.build import PAGE_VARIABLE, build_in
from unplug.sdk.drawing.device import Words, draw, load_pipeline, web_files

SCHEMA = "unplug-web-drawing/1"
PROMPT, SEED = "a portrait of a child, smiling, red bob, fair skin, mint dots background", 7
STEPS = {"wasm": 25, "webgpu": 4}
RUNTIMES = {"LiteRT.js": "litert", "ONNX Runtime Web": "onnx"}
LISTED = ("ai-edge-litert", "onnxruntime", "numpy")
PARTS = ("text_encoder", "unet", "decoder")
LIST = (
    "[...document.querySelectorAll('#choice option')].map((one) => [one.value, one.textContent, "
    "one.disabled])"
)
HEAR = """document.addEventListener("unplug-drawn", ({detail: {drawn, record}}) => {
  window.last = {latent: Array.from(drawn.latent), decoded: Array.from(drawn.decoded), record};
})"""
READY = """new Promise((done) => {
  const look = () => (document.querySelector("#go").textContent === "Draw" ? done(window.last ?? null) : setTimeout(look, 50));
  look();
})"""
WRONG = "document.querySelector('#draw-alert').textContent"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def browse(folder: Path, url: str, steps: list[list[Any]]) -> list[Any]:
    """What the steps of ``page/tests/browser.mjs`` found."""
    flags = [flag for flag in FLAGS if not flag.startswith("--headless")]
    asked = {
        "url": url,
        "chromium": find_browser(),
        "flags": flags,
        "steps": steps,
        "timeout_ms": 600_000,
    }
    command = ["node", "tests/browser.mjs", json.dumps(asked)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    if "failed" in answer:
        raise click.ClickException(answer["failed"])
    return list(answer["found"])


def one_choice(
    folder: Path, url: str, value: str, delegate: str, rounds: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The last picture of a choice in a fresh browser, and the times of each."""
    draws: list[list[Any]] = [["click", "#go"], ["evaluate", READY], ["evaluate", WRONG]]
    steps: list[list[Any]] = [
        ["open"],
        ["evaluate", HEAR],
        ["click", ".settings summary"],
        ["choose", "#choice", value],
        ["click", "#previews"],
        ["fill", "#prompt", PROMPT],
        ["fill", "#seed", str(SEED)],
        ["fill", "#steps", str(STEPS[delegate])],
        *draws * rounds,
    ]
    answers = browse(folder, url, steps)[-len(draws) * rounds :]
    pictures = [answers[place] for place in range(1, len(answers), len(draws))]
    if pictures[-1] is None:
        raise click.ClickException(answers[-1])
    return pictures[-1], [item["record"] for item in pictures]


def compared(
    files: Path, name: str, picture: dict[str, Any], records: list[dict[str, Any]]
) -> dict[str, Any]:
    """One row: decibels to Python, and times where they mean something."""
    target, precision, delegate = name.split(" ")
    steps = STEPS[delegate]
    mine = draw(
        files, Words(prompt=PROMPT, steps=steps), seeds=(SEED,), target=target, precision=precision
    )
    latent, decoded = (np.array(picture[key], np.float32) for key in ("latent", "decoded"))
    timed = records[1:] if delegate == "wasm" else []
    return {
        "steps": steps,
        "latent_db": psnr_db(mine.latents[0].ravel(), latent),
        "picture_db": psnr_db(mine.decoded[0].ravel(), decoded),
        "runtime": records[0]["runtime"],
        "most_bytes_off": int(
            np.abs(np.rint(decoded * 255) - np.rint(mine.decoded[0].ravel() * 255)).max()
        ),
        "seconds": [item["whole_ms"] / 1e3 for item in timed],
        "threads": records[0]["threads"],
        "parts_ms": {part: [item["parts"][part]["median_ms"] for item in timed] for part in PARTS},
        "python_seconds": list(mine.seconds),
    }


def markdown(facts: dict[str, Any]) -> str:
    """The table; a test holds docs/results/drawing.md to the JSON."""
    lines = [
        "| | steps | dB to Python, picture | latent | seconds a picture | text encoder | UNet step "
        "| decoder |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in facts["rows"].items():
        seconds = row["seconds"]
        took = (
            f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
            if seconds
            else "software GPU"
        )
        parts = [
            f"{statistics.median(row['parts_ms'][part]):.1f} ms" if seconds else ""
            for part in PARTS
        ]
        lines.append(
            f"| {name} | {row['steps']} | {row['picture_db']:.1f} | {row['latent_db']:.1f} | "
            f"{took} | {' | '.join(parts)} |"
        )
    return "\n".join(lines)


@click.command()
@click.option(
    "--files",
    type=click.Path(path_type=Path),
    required=True,
    help="What `unplug export small ...` wrote.",
)
@click.option(
    "--rounds",
    type=click.IntRange(2, 50),
    default=4,
    show_default=True,
    help="The first is not timed.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("out/web-drawing.json"),
    show_default=True,
)
def main(files: Path, rounds: int, out: Path) -> None:
    """Builds the page, draws with every choice in turn, compares, prints the table and writes the
    JSON.
    """
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="unplug-web-") as temporary:
        page = Path(temporary) / "page"
        os.environ[PAGE_VARIABLE] = str(build_in(page, tools=True))
        write_site(web_files(files), Path(temporary) / "site")
        server = ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(_Quiet, directory=str(Path(temporary) / "site"))
        )
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"

        for value, text, disabled in browse(page, url, [["open"], ["evaluate", LIST]])[-1]:
            where, runtime, precision = text.split(" · ")[:3]
            delegate = {"WebGPU": "webgpu", "WebAssembly": "wasm"}[where]
            name = f"{RUNTIMES[runtime]} {precision} {delegate}"
            if disabled:
                click.echo(f"{name}: does not run here", err=True)
                continue
            picture, records = one_choice(
                page, url, value, delegate, rounds if delegate == "wasm" else 1
            )
            rows[name] = compared(files, name, picture, records)
            click.echo(f"{name}: {rows[name]['picture_db']:.1f} dB", err=True)
        server.shutdown()
        server.server_close()
    facts = {
        "schema": SCHEMA,
        "base": load_pipeline(files).name,
        "prompt": PROMPT,
        "seed": SEED,
        "rows": dict(sorted(rows.items())),
        "command": "python -m benchmarks.web_drawing",
        "versions": installed_versions(LISTED),
        "git_revision": git_revision(),
    }
    write_json(out, facts)
    click.echo(markdown(facts))


if __name__ == "__main__":
    main()
