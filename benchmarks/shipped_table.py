"""Write the table of the weights that ship, after their files or their version changed.

Run ``python -m benchmarks.shipped_table``.
"""

from __future__ import annotations

from pathlib import Path

import unplug_weights
from unplug.core import sha256_file, write_json
from unplug.plugins.shipped_files import TABLE


def table() -> dict[str, object]:
    """Version, and SHA-256 by path of all that lies in a folder of the package."""
    place = Path(unplug_weights.__file__).parent
    files = sorted(item for item in place.glob("[!_]*/**/*") if item.is_file())
    digests = {item.relative_to(place).as_posix(): sha256_file(item) for item in files}
    return {"version": unplug_weights.__version__, "files": digests}


if __name__ == "__main__":
    write_json(TABLE, table())
