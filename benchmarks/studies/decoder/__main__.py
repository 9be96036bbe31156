"""``python -m benchmarks.studies.decoder quality|speed|sizes|files|mark``: each writes its table into
docs/data/decoder.json and keeps those of the others. Prompts and faces are of seeds that no training
saw.
"""

from __future__ import annotations

import click

from .mark import files, mark
from .quality import quality
from .sizes import sizes
from .speed import speed


@click.group()
def main() -> None:
    """Measure quick decoders beside the autoencoder's: quality, milliseconds, sizes, files, mark."""


for command in (quality, speed, sizes, files, mark):
    main.add_command(command)

if __name__ == "__main__":
    main()
