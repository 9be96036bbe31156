"""Kills and power cuts at every change that commands make to files: a table of
docs/results/robustness.md.

    python -m benchmarks.crashes --out docs/data/crashes.json

What is done at each change, and what must hold then: `crash_walk`.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from unplug.core import use_threads, versions, write_json
from unplug.sdk.cli import main as unplug

from .crash_walk import Call, Scenario, forked_workers, walk_all
from .file_changes import ForkedWorker, in_fork, use_folders

OWN = frozenset(
    [
        "torch",
        "unplug",
        "safetensors",
        "huggingface_hub",
        "onnx",
        "onnxscript",
        "onnx_ir",
        "onnxruntime",
        "sympy",
    ]
)
"""Packages that forks find imported; others may start threads when they are."""
DATA = "--data synth:n=36,subjects=24"
TRAIN = f"train age {DATA} --size nano --pixels 32 --epochs 2 --device cpu"
REQUESTED = f"original {DATA} --forget forget.txt --device cpu"
FORGET = f"forget {REQUESTED}"
FINETUNE = "--method finetune --budget 5"
ONNX = "--to onnx --precision fp32"
RELEASE = f"release {REQUESTED} --method retrain {ONNX} --train-references 0 --no-rounding"
OPEN = "--gate max_artifact_auc_shift=99"
"""By retraining: gates hold such a model to equality, and so few people allow no other."""


def command(line: str) -> Call:
    """A call of the command line; no word has a blank in it."""
    return lambda: unplug(line.split(), standalone_mode=False)


REQUEST = (
    command(f"{TRAIN} --out original"),
    command(f"data pick-forget original {DATA} --fraction 0.2 --out forget.txt"),
)


def _of_model(out: Path) -> str:
    from unplug.plugins import load_checkpoint

    return load_checkpoint(out).sha256


def _of_exports(out: Path) -> str:
    from unplug.export import load_artifact

    cards = [load_artifact(card).card for card in sorted(out.glob("*.json"))]
    return " ".join(f"{card.file} {card.sha256} of {card.checkpoint_sha256}" for card in cards)


def _of_bundle(out: Path) -> str:
    from unplug.trust.bundle import verify_bundle

    manifest = verify_bundle(out)
    return (
        f"{manifest.lineage.checkpoint_sha256} {manifest.files['artifacts/age.fp32.onnx'].sha256}"
    )


SCENARIOS = (
    Scenario(
        name="train age, nothing there yet",
        before=(),
        command=command(f"{TRAIN} --out out"),
        identify=_of_model,
    ),
    Scenario(
        name="train age, over an older model",
        before=(command(f"{TRAIN} --seed 1 --out out"),),
        command=command(f"{TRAIN} --out out"),
        identify=_of_model,
    ),
    Scenario(
        name="forget, over an older model",
        before=(*REQUEST, command(f"{FORGET} {FINETUNE} --seed 1 --out out")),
        command=command(f"{FORGET} {FINETUNE} --out out"),
        identify=_of_model,
    ),
    Scenario(
        name="forget by retraining, nothing there yet",
        before=REQUEST,
        command=command(f"{FORGET} --method retrain --out out"),
        identify=_of_model,
    ),
    Scenario(
        name="export, over files of another model",
        before=(
            *REQUEST,
            command(f"{TRAIN} --seed 1 --out other"),
            command(f"export other {ONNX} --out out"),
        ),
        command=command(f"export original {ONNX} --out out"),
        identify=_of_exports,
        replay=True,
        refusable=True,
    ),
    Scenario(
        name="release, over an older bundle",
        before=(*REQUEST, command(f"{RELEASE} {OPEN} --seed 1 --out out")),
        command=command(f"{RELEASE} {OPEN} --out out"),
        identify=_of_bundle,
        replay=True,
        tries=3,
    ),
)


def import_what_is_used(calls: Sequence[Call], place: Path) -> None:
    """Makes calls in a fork and imports here what they imported there: the forks to come find it
    done.
    """
    place.mkdir()
    names = place / "modules"

    def tell() -> None:
        with names.open("a") as lines:
            lines.write("".join(f"{module}\n" for module in [*sys.modules]))

    def listed() -> None:
        use_folders(place)
        ForkedWorker.last = tell  # type: ignore[method-assign]
        with forked_workers():
            for call in calls:
                try:
                    call()
                except SystemExit as ended:
                    if ended.code:
                        raise
        tell()

    if in_fork(listed, place / "log") != 0:
        raise RuntimeError((place / "log").read_text())
    for name in dict.fromkeys(names.read_text().splitlines()):
        if name.partition(".")[0] in OWN:
            try:
                importlib.import_module(name)
            except ImportError:  # of a name that is no module's
                continue


def markdown(facts: dict[str, Any]) -> str:
    """The table."""
    lines = [
        "| command | changes | kills | older / new / none / refused | power cuts | older / new / "
        "none / refused | not well |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in facts["rows"]:
        changes = (
            f"{row['changes']}" if row["every"] == 1 else f"{row['changes']}, 1 in {row['every']}"
        )
        cells = [row["command"], changes]
        for kind, word in (("kills", " computed" if row["replayed"] else ""), ("power_cuts", "")):
            counts = row[kind]
            cells += [
                f"{counts['points']}{word}",
                " / ".join(str(counts[name]) for name in ("older", "new", "none", "refused")),
            ]
        lines.append(
            f"| {' | '.join(cells)} | {row['kills']['wrong'] + row['power_cuts']['wrong']} |"
        )
    return "\n".join(lines) + "\n"


@click.command()
@click.option(
    "--only",
    default="",
    help="Scenarios whose name holds this text; the others are taken from --out.",
)
@click.option("--workers", default=2, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("docs/data/crashes.json"),
    show_default=True,
)
def main(only: str, workers: int, out: Path) -> None:
    """Walks over every scenario and writes the JSON."""
    use_threads(1)
    versions()  # asks git, once for all forks
    rows_by_name = (
        {row["command"]: row for row in json.loads(out.read_text())["rows"]}
        if out.is_file()
        else {}
    )
    with tempfile.TemporaryDirectory(prefix="unplug-crashes-") as name:
        for number, scenario in enumerate(item for item in SCENARIOS if only in item.name):
            import_what_is_used(
                [*scenario.before, scenario.command], Path(name) / f"import-{number}"
            )
            rows_by_name[scenario.name] = row = walk_all(
                scenario, Path(name) / str(number), workers
            )
            click.echo(json.dumps(row, indent=1))
            rows = [rows_by_name[item.name] for item in SCENARIOS if item.name in rows_by_name]
            write_json(out, {"schema": "unplug-crashes/1", "rows": rows, "versions": versions()})


if __name__ == "__main__":
    main()
