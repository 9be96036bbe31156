"""``unplug bundle push``: a bundle into the Android demo app."""

from __future__ import annotations

from pathlib import Path

import click

from unplug.core import temporary_folder

from .base import Common, Outcome, command
from .options import path_argument, path_option


@click.command()
@path_argument("path")
@click.option(
    "--android",
    "place",
    is_flag=False,
    flag_value="",
    required=True,
    metavar="[SERIAL]",
    help="Push over adb into the demo app, on the phone of this serial number, or the only one.",
)
@path_option(
    "--trust",
    metavar="KEY.pub",
    help="A public key to send too; the app asks whether to trust it.",
)
@command
def push(path: Path, place: str, trust: Path | None, common: Common) -> Outcome:
    """Send a bundle to a phone: packed, pushed, and checked by the app before it opens."""
    from unplug.mobile_bench import push_to_app
    from unplug.trust.bundle import pack_bundle, read_trust

    with temporary_folder("unplug-push-") as folder:
        archive = folder / "bundle.zip"
        id_ = pack_bundle(path, archive)
        files, size = {f"{id_[:16]}.zip": archive}, archive.stat().st_size
        for key in () if trust is None else read_trust(trust).keys:
            text = folder / f"{key.hint[:16]}.pub"
            text.write_text(key.pem, encoding="ascii")
            files[text.name] = text
        serial = push_to_app(files, place or None)
    asked = "" if trust is None else "; say yes to its key there"
    return Outcome(
        value={"device": serial, "bytes": size, "id": id_},
        text=f"{serial}: {size:,} bytes, id {id_}. Open Bundles in the app{asked}",
    )
