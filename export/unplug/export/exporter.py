"""Checkpoint to artifacts: one child process a target, all its precisions in it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from unplug.core import (
    DEFAULT_TIMEOUT_SECONDS,
    Array,
    Child,
    InputError,
    IOSpec,
    OutputError,
    Progress,
    atomic_entries,
    call_in_child,
    check_replaceable,
    installed_versions,
    memory_for,
    one_writer,
    require_modules,
    seconds_for,
    sha256_tree,
    temporary_folder,
    writable,
)
from unplug.plugins import ONNX, read_config, weights_files

from .artifact import Artifact, Calibrated, Card, write_card
from .precisions import ALL, ON_REQUEST, PRECISIONS, looks_at_samples
from .targets import TARGETS
from .targets.base import IOS, OLDEST_IOS, Target
from .tensors import digest_inputs

Layout = Literal["NCHW", "NHWC"]
PACKAGES = {
    ".mlpackage": ("Manifest.json", ("Data", "*.json")),
    ".aimodel": ("metadata.json", ("main.*",)),
}
"""Artifacts that are folders: the file that marks one, so that a new export may replace it, and
what else it may hold.
"""


class _Tally:
    """Sums the progress of targets that are converted at the same time."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total = progress, total
        self._done: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, target: str) -> Progress:
        def report(done: int, _total: int, text: str) -> None:
            with self._lock:
                self._done[target] = done
                if self._progress is not None:
                    self._progress(sum(self._done.values()), self._total, text)

        return report


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What the children of one export share."""

    checkpoint: Path
    config: dict[str, Any]
    calibration: Mapping[str, Array]
    out: Path
    how: Mapping[str, Any]
    tally: _Tally
    timeout: float
    children: Mapping[str, Child]
    cancel: threading.Event = field(default_factory=threading.Event)


@one_writer
def export_checkpoint(
    checkpoint: Path,
    *,
    targets: Sequence[str] = ("litert", "coreml", "onnx"),
    precisions: Sequence[str] = ("fp32",),
    out: Path,
    calibration: Mapping[str, Array] | None = None,
    layout: Layout = "NCHW",
    ios: int = OLDEST_IOS,
    progress: Progress | None = None,
    workers: int = 1,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    view: str | None = None,
    children: Mapping[str, Child] | None = None,
) -> list[Artifact]:
    """Exports a checkpoint to every target in every precision.

    Args:
        checkpoint: a folder that `unplug train` wrote.
        targets: names in TARGETS.
        precisions: names in PRECISIONS, each of which each target must support; or "all" of each
            target's, but for those that are made on request only.
        out: the folder for ``<model_type>.<precision><suffix>`` files and their cards.
        calibration: input name to array of N samples, for precisions that look at some; never of
            what was forgotten.
        layout: the layout of images in the files; phones have "NHWC". Calibration samples are
            always NCHW.
        ios: the oldest iOS that Core ML files shall run on, one of `targets.base.IOS`.
        progress: called with (artifacts done, artifacts in all, what is being done).
        workers: targets converted at the same time; each takes up to 0.7 GB.
        timeout: seconds that one target may take.
        view: another way to run its weights, see `unplug.plugins.load_checkpoint`; the files are
            named by it.
        children: target to the process that converts, where several checkpoints share theirs:
            converters load for seconds.

    Returns:
        One artifact a pair, targets in the order given, precisions within.

    Raises:
        InputError: an unknown name, an unsupported pair, no calibration where a precision needs
            one, or one of constants; found before any work starts. Or one that does not fit the
            model.
        MissingExtraError: a converter is not installed.
        CheckpointError: the checkpoint is missing or broken.
        ConversionError: a converter failed; says how.
        OutputError: `out` cannot be written.
    """
    pairs = plan_pairs(targets, precisions)
    if workers < 1:
        raise InputError(f"workers {workers}", "at least one is needed", "Use 1 or 2")
    if ios not in IOS:
        raise InputError(
            f"iOS {ios}",
            "Core ML files cannot be made for it",
            f"Use {' or '.join(map(str, IOS))}",
        )
    _, config = read_config(Path(checkpoint))
    check_targets(config, pairs)
    wanted = {name for names in pairs.values() for name in names}
    work = _Work(
        checkpoint=Path(checkpoint),
        config=config,
        calibration=_checked_calibration(calibration or {}, wanted),
        out=Path(out),
        how={"view": view, "layout": layout, "ios": ios},
        tally=_Tally(progress, sum(map(len, pairs.values()))),
        timeout=timeout,
        children=children or {},
    )
    with writable(work.out):
        return _export_all(work, pairs, workers)


def plan_pairs(targets: Sequence[str], precisions: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Target to the precisions that are made of it.

    Example:
        >>> plan_pairs(["onnx", "coreml"], ["all"])["onnx"], plan_pairs(["onnx"], ["fp16"])
        (('fp32', 'fp16', 'int8-static'), {'onnx': ('fp16',)})

    Raises:
        InputError: nothing to do, an unknown precision or an unsupported pair.
        MissingExtraError: a converter is not installed.
    """
    if not targets or not precisions:
        raise InputError(
            "export", "no target or no precision is named", f"Targets: {', '.join(TARGETS)}"
        )
    pairs: dict[str, tuple[str, ...]] = {}
    for target in map(TARGETS.get, dict.fromkeys(targets)):
        every = [name for name in target.precisions if name not in ON_REQUEST]
        wanted = dict.fromkeys(
            name for given in precisions for name in (every if given == ALL else [given])
        )
        pairs[target.name] = tuple(wanted)
        for precision in wanted:
            PRECISIONS.get(precision)
            if precision not in target.precisions:
                known = ", ".join(target.precisions)
                raise InputError(
                    f"{target.name} {precision}",
                    "this target cannot hold this precision",
                    f"Use one of: {known}",
                )
    for name in pairs:
        require_modules(TARGETS.get(name).modules, TARGETS.get(name).extra)
    return pairs


def check_targets(config: Mapping[str, Any], targets: Iterable[str]) -> None:
    """Refuses targets for which there is no torch network to convert: `InputError`.

    Args:
        config: the checkpoint's ``config.json``.
        targets: names in TARGETS.
    """
    network = config.get("network")
    graph = isinstance(network, Mapping) and network.get("factory") == f"{ONNX}:graph"
    if others := [name for name in targets if graph and name != ONNX]:
        why = "the model's trunk is an ONNX file, which no torch network computes"
        raise InputError(f"export to {', '.join(others)}", why, "Export it to onnx alone")


def _checked_calibration(
    calibration: Mapping[str, Array], precisions: Iterable[str]
) -> Mapping[str, Array]:
    """The samples as far as these precisions look at some."""
    for precision in precisions:
        if PRECISIONS.get(precision).calibration == "needed" and not calibration:
            raise InputError(
                f"precision {precision!r}",
                "activations get their ranges from samples, and none are given",
                "Give `calibrate`, say the data that it was trained on",
            )
    if not looks_at_samples(precisions):
        return {}
    for name, array in calibration.items():
        if array.min() == array.max():
            why = f"all its numbers are {float(array.min()):g}, which says nothing of ranges"
            raise InputError(f"calibration input {name!r}", why, "Give real samples")
    return calibration


def _export_all(work: _Work, pairs: Mapping[str, tuple[str, ...]], workers: int) -> list[Artifact]:
    done: dict[str, list[Artifact]] = {}
    with ThreadPoolExecutor(max_workers=min(workers, len(pairs))) as pool:
        futures = {
            pool.submit(_export_target, work, TARGETS.get(name), names): name
            for name, names in pairs.items()
        }
        try:
            for future in as_completed(futures):
                done[futures[future]] = future.result()
        finally:
            # An error or Ctrl-C: the other children are killed, so that the pool can end.
            work.cancel.set()
            for future in futures:
                future.cancel()
    return [artifact for name in pairs for artifact in done[name]]


def _export_target(work: _Work, target: Target, precisions: tuple[str, ...]) -> list[Artifact]:
    with temporary_folder("unplug-export-") as staging:
        call = work.children[target.name].call if target.name in work.children else call_in_child
        made = call(
            "unplug.export.convert:convert_checkpoint",
            {
                **work.how,
                "checkpoint": str(work.checkpoint.resolve()),
                "target": target.name,
                "precisions": precisions,
                "staging": str(staging),
            },
            work.calibration,
            what=f"export of {work.checkpoint.name} to {target.name}",
            timeout=seconds_for(0, work.timeout),
            memory=memory_for(*weights_files(work.checkpoint)),
            progress=work.tally.of(target.name),
            cancel=work.cancel,
        ).values
        return [_publish(work, target, staging, made, written) for written in made["written"]]


def _calibrated(work: _Work, precision: str, correction: dict[str, Any]) -> Calibrated | None:
    """What the conversion to a precision looked at."""
    if not work.calibration or not looks_at_samples([precision]):
        return None
    return Calibrated(
        samples=len(next(iter(work.calibration.values()))),
        sha256=digest_inputs(work.calibration),
        corrected=correction["corrected"],
        uncorrected=tuple(correction["uncorrected"]),
    )


def _publish(
    work: _Work, target: Target, staging: Path, made: dict[str, Any], written: dict[str, Any]
) -> Artifact:
    source, path = staging / written["file"], work.out / written["file"]
    _check_free(path, package=source.is_dir())
    digest, size = sha256_tree(source)
    card = Card(
        target=target.name,
        precision=written["precision"],
        file=path.name,
        sha256=digest,
        bytes=size,
        model_type=made["model_type"],
        iospec=IOSpec.from_dict(made["iospec"]),
        config=work.config,
        checkpoint_sha256=made["checkpoint_sha256"],
        flops=made["flops"],
        parameters=made["parameters"],
        minimum_ios=work.how["ios"] if target.name == "coreml" else None,
        calibration=_calibrated(work, written["precision"], made["correction"]),
        versions=installed_versions(target.distributions),
        seconds=round(written["seconds"], 3),
        prepare_seconds=round(made["prepare_seconds"], 3),
    )
    # Both are on the disk before either is in place: between the two the card is of another file,
    # and `load_artifact` says so.
    with atomic_entries(work.out, path.name) as folder:
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / path.name)
        write_card(folder / path.name, card)
    return Artifact(path=path, card=card)


def _check_free(path: Path, *, package: bool) -> None:
    """Refuses a place for an artifact that something else has taken."""
    if package:
        check_replaceable(path, *PACKAGES.get(path.suffix, (None, ())))
    elif path.exists() and not path.is_file():
        raise OutputError(
            str(path), "it is a folder, a device or a pipe", "Choose an `out` that is a file"
        )
