"""``python -m unplug.sdk.cli``: the same as ``unplug``."""

from . import main

main(prog_name="unplug")
