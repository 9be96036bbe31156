"""``unplug page``."""

from __future__ import annotations

from pathlib import Path

import click

from unplug.core import InputError

from .base import Common, Outcome, command
from .options import out_option


@click.command()
@click.argument("files", type=click.Path(path_type=Path))
@click.option(
    "--on", "place", metavar="PORT|HOST:PORT", help="Where to serve it (default: a free port, for this machine only)."
)
@click.option("--minutes", type=click.FloatRange(0.01, 24 * 60), help="How long to serve it (default: until Ctrl-C).")
@out_option("Instead: write a folder of static files, for any web server with https.", required=False)
@command
def page(files: Path, place: str | None, minutes: float | None, out: Path | None, common: Common) -> Outcome:
    """Let a browser draw with FILES, what `unplug export` made of a whole base: words and edges in, a picture out.

    Everything happens in the browser, on WebAssembly or WebGPU; no word and no picture comes back. Only the LiteRT and ONNX
    files are taken, and each is checked against its hash first.
    """
    from unplug.mobile_bench import serve_site, write_site
    from unplug.sdk.device import web_files

    if out is not None and (place or minutes):
        raise InputError("--out", "it writes a folder and serves nothing", "Leave out --on and --minutes, or --out")
    found = web_files(files)
    value = {"files": len(found), "bytes": sum(path.stat().st_size for path in found.values())}
    if out is not None:
        size = write_site(found, out)
        text = f"wrote {out} ({size / 2**20:.0f} MB): put it on a web server with https"
        return Outcome(value={**value, "out": str(out), "site_bytes": size}, text=text)
    serve_site(found, place, common.say, seconds=None if minutes is None else 60 * minutes)
    return Outcome(value=value, text=f"served for {minutes:g} minutes")
