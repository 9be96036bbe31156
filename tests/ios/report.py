"""``python -m tests.ios.report FOLDER``: whether the harness takes what Swift wrote when it ran
``tests/vectors/app/bench``.

FOLDER holds ``report.json``, and ``partial.json`` of an app that was killed behind its first cold
start. ``ios_demo/check`` makes both, and calls this where the repository has its environment.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.vectors.app.bench import exchange


def main(folder: Path) -> None:
    """Prints a line a row; an unfit report raises."""
    with tempfile.TemporaryDirectory() as files:
        asked = exchange(Path(files))
        asked.where = None  # the plan's own is a phone, this ran on Linux
        asked.take_report((folder / "partial.json").read_bytes())
        cut = asked.final(0, "the app ended before its benchmark did")
        assert cut is not None and cut.status == "failed" and len(cut.repeats) == 1, cut
        print(f"killed: {cut.reasons[0]}")
        asked.take_report((folder / "report.json").read_bytes())
        whole, refused = (
            asked.final(0, "it was not measured"),
            asked.final(1, "it was not measured"),
        )
    assert (
        whole is not None and whole.status == "ok" and whole.valid and whole.median_ms is not None
    ), whole
    assert refused is not None and refused.status == "failed", refused
    print(
        f"whole: {len(whole.repeats)} cold starts, parity "
        f"{[repeat.parity_db or 'equal' for repeat in whole.repeats]}"
    )
    print(f"refused: {refused.reasons[0]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
