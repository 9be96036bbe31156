"""``unplug page``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from unplug.core import InputError, seconds, temporary_folder

from .base import Common, Outcome, command
from .bundle import trust_of, trust_option
from .options import PATH, FloatRange, out_option, path_option

if TYPE_CHECKING:
    from unplug.mobile_bench import Guard
    from unplug.trust.bundle import Trust


@click.command()
@click.argument("files", required=False, type=PATH)
@click.option(
    "--port",
    "place",
    metavar="[HOST:]PORT",
    help="Port to serve it at (default: a free port, for this machine only).",
)
@click.option(
    "--minutes",
    type=FloatRange(0.01, 24 * 60),
    help="How long to serve it (default: until Ctrl-C).",
)
@path_option(
    "--mark-reader",
    metavar="FOLDER",
    help="A folder of `unplug export mark-reader`: the page reads each picture's public mark with it.",
)
@trust_option
@out_option(
    "Instead: write a folder of static files, for any web server with https.", required=False
)
@command
def page(
    files: Path | None,
    place: str | None,
    minutes: float | None,
    mark_reader: Path | None,
    trusted: tuple[Path, ...],
    out: Path | None,
    common: Common,
) -> Outcome:
    """Let a browser draw with FILES, what `unplug export` made of a whole base; or run FILES, a
    signed bundle of models or of such a base, with --trust.

    Everything happens in the browser, on WebAssembly or WebGPU; no word and no picture comes back.
    Only the LiteRT and ONNX files of a base are taken, and each is checked against its hash first.
    With --trust the page runs nothing but bundles that one of these keys signed, and refuses all
    that is older once it ran a newer one; FILES may be left out then, and bundles are dropped on
    it.
    """
    from unplug.mobile_bench import serve_site, write_site
    from unplug.sdk.drawing.device import web_files

    if mark_reader is not None and trusted:
        raise InputError(
            "--mark-reader",
            "with --trust the page runs nothing but signed bundles",
            "Leave out --mark-reader, or --trust",
        )
    if out is not None and (place or minutes):
        raise InputError(
            "--out",
            "it writes a folder and serves nothing",
            "Leave out --port and --minutes, or --out",
        )
    trust = trust_of(trusted)
    if trust is not None and trust.roots:
        raise InputError(
            "--trust",
            "the page reads bundles of plain keys, and these are certificates",
            "Give a public key",
        )
    with temporary_folder(".page.", None) as temporary:
        guard = None if trust is None else _guard(trust, files, temporary)
        shown = {} if guard is not None else web_files(_generator(files), mark_reader)
        count = len(shown) if guard is None or guard.bundle is None else 1
        value = {
            "files": count,
            "bytes": sum(path.stat().st_size for path in shown.values()),
            "trusted": guard is not None,
        }
        if out is not None:
            size = write_site(shown, out, guard)
            text = f"wrote {out} ({size / 2**20:.0f} MB): put it on a web server with https"
            return Outcome(value={**value, "out": str(out), "site_bytes": size}, text=text)
        try:
            serve_site(
                shown,
                place,
                common.say,
                seconds=None if minutes is None else 60 * minutes,
                guard=guard,
            )
        except KeyboardInterrupt:  # how serving ends that has no --minutes
            return Outcome(value=value, text="stopped: the page is served no longer")
    return Outcome(value=value, text=f"served for {seconds(60 * (minutes or 0.0))}")


def _generator(files: Path | None) -> Path:
    if files is None:
        raise InputError(
            "unplug page",
            "nothing to show",
            "Give what `unplug export` made of a whole base, or --trust KEY.pub",
        )
    if files.is_file() or (files / "manifest.json").is_file():
        raise InputError(
            str(files),
            "it is a bundle, and nothing says whose signature it must have",
            "Add --trust KEY.pub",
        )
    return files


def _guard(trust: Trust, bundle: Path | None, temporary: Path) -> Guard:
    """What the page trusts; a bundle that is put next to it must be one that the page would run
    now.
    """
    from unplug.mobile_bench import Guard, PageTrust
    from unplug.trust.bundle import (
        holds_generator,
        open_source,
        pack_bundle,
        verify,
        verify_generator,
    )

    packed = None
    if bundle is not None:
        packed = temporary / "bundle.zip"
        pack_bundle(bundle, packed)
        if holds_generator(packed):
            verify_generator(packed, trust)
        else:
            with open_source(packed) as source:
                verify(source, trust)
    trusted = PageTrust(
        keys=tuple(key.pem for key in trust.keys),
        name=trust.name,
        minimum_release=trust.minimum_release,
        revoked=tuple(sorted(trust.revoked)),
        superseded=tuple(sorted(trust.superseded)),
        bundle=packed is not None,
    )
    return Guard(trust=trusted, bundle=packed)
