"""Pairs of processes race for one ``--out``: the result must be one writer's, whole, and who loses
is told in one line.

Run: python -m benchmarks.races --pairs 200
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

WRITER = """
import sys
from contextlib import nullcontext
from pathlib import Path
from unplug.core import UnplugError, atomic_dir, hold, write_json
out, name, locked = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "locked"
print("ready", flush=True)
sys.stdin.readline()
try:
    with hold(out) if locked else nullcontext():
        for turn in range(3):
            with atomic_dir(out, owner="config.json", ours=("*",)) as folder:
                for number in range(6):
                    (folder / f"{number}.bin").write_text(name * 20_000)
                write_json(folder / "config.json", {"by": name})
except UnplugError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
"""


def race(out: Path, *, locked: bool) -> tuple[list[int], list[str], set[str]]:
    """Two writers that start at once; their exit codes, what they said, and whose bytes the result
    holds.
    """
    command = [sys.executable, "-c", WRITER, str(out)]
    pair = [
        subprocess.Popen(
            [*command, name, "locked" if locked else "free"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name in "ab"
    ]
    for process in pair:
        assert process.stdout is not None
        process.stdout.readline()
    for process in pair:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate()[1] for process in pair]
    seen = {
        text[0]
        for item in out.glob("*.bin")
        if (text := item.read_text()) and text == text[0] * 20_000
    }
    seen |= {(out / "config.json").read_text().split('"')[3]}
    return [process.returncode for process in pair], told, seen


def count(pairs: int, *, locked: bool) -> Counter[str]:
    """How many pairs ended how."""
    endings: Counter[str] = Counter()
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            codes, errors, seen = race(Path(folder) / "out", locked=locked)
            whole = len(list((Path(folder) / "out").iterdir())) == 7 and len(seen) == 1
            told = [text for text in errors if text]
            endings["mixture" if not whole else "whole"] += 1
            endings["refused in one line" if told else "both wrote, one after the other"] += 1
            endings["unclear"] += sum(
                len(text.splitlines()) != 1
                or ("writes it since" not in text and "begun" not in text)
                for text in told
            )
            endings["other exit codes"] += sum(code not in (0, 2) for code in codes)
            endings["left behind"] += len(list(Path(folder).iterdir())) - 1
    return endings


def main() -> None:
    """Prints a line a kind of pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    pairs = parser.parse_args().pairs
    for locked in (True, False):
        endings = count(pairs, locked=locked)
        print(
            "with the lock:" if locked else "without it (exchange alone):",
            dict(sorted(endings.items())),
        )


if __name__ == "__main__":
    main()
