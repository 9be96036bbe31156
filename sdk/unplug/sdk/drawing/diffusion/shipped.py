"""The weights that ship, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unplug.core import CheckpointError, InputError, read_json
from unplug.plugins import shipped_folders, shipped_path, shipped_place, shipped_plugins
from unplug.sdk.drawing.device import (
    MARKS,
    READER,
    SOLVERS,
    WEIGHTS_NAME,
    GuidanceSchedule,
    Solver,
    check_words,
    lora_file,
)

PARTS = {f"small/{part}": part for part in ("text_encoder", "unet", "vae", "decoder")}
"""Parts of the base that phones run, by name."""
MARK_READER = "mark-reader"
"""The name of what reads marks."""
LORA_SCHEMA = "unplug-student/1"
"""The schema of the record next to a student's LoRA weights."""
PACK_SCHEMA = "unplug-learned-pack/1"
"""The schema of the record next to a pack's."""
SMALL = "small"
"""The base that ships."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How pictures are drawn where nobody says otherwise.

    Args:
        steps: the number of solver steps.
        guidance: scale of classifier-free guidance.
        solver: how steps are taken; None is the scheduler that the base came with.
        schedule: the schedule of guidance over the noise levels, see `scheduled_guidance`.
    """

    steps: int
    guidance: float
    solver: Solver | None
    schedule: GuidanceSchedule = "constant"

    @property
    def on_files(self) -> dict[str, Any]:
        """Steps, guidance and solver as `GeneratorSource` and `PipelineDefaults` take them: files
        always name a solver.
        """
        return {"steps": self.steps, "guidance": self.guidance, "solver": self.solver or "ddim"}


OURS = Sampling(steps=6, guidance=2.5, solver="dpm++", schedule="linear")
"""For bases of `unplug train base`; what six, four and two steps of it draw is measured in
docs/draw.md.
"""
USUAL = Sampling(steps=25, guidance=7.5, solver=None)
"""For Stable Diffusion."""


def shipped_loras() -> list[str]:
    """Names of the LoRA weights that ship."""
    return shipped_folders(WEIGHTS_NAME)


def find_lora(name: str) -> Path:
    """The folder of LoRA weights that ship, by their name; else the path that was given. ``./NAME``
    is always a path.

    Raises:
        CheckpointError: see `shipped_path`.
    """
    return shipped_path(name, name) if name in shipped_loras() else Path(name)


def shipped_folder(name: str) -> Path:
    """The folder of a plugin, of the base or of a part of the base that ships, by its name; else
    the folder that was given.

    Of equal names the one that ships: a folder called canny does not change what ``canny`` means,
    ``./canny`` is it.

    Raises:
        CheckpointError: see `shipped_path`.

    Example:
        >>> shipped_folder("canny").name, shipped_folder("my/canny")
        ('canny', PosixPath('my/canny'))
        >>> shipped_folder("small/unet").parent == shipped_folder("small")
        True
    """
    if name == SMALL:
        return shipped_path(name, "base")
    if name in PARTS:
        return shipped_path(name, f"base/{PARTS[name]}")
    if name == MARK_READER:
        return shipped_path(name, f"{MARKS}/{READER}")
    return shipped_path(name, name) if name in shipped_plugins() else Path(name)


def base_folder(name: str) -> Path | None:
    """The folder of a base, found without loading anything; None where the name is one of the hub.

    Args:
        name: small, a folder, or OWNER/NAME on the hub.

    Raises:
        CheckpointError: a folder that is not there.
    """
    folder = shipped_folder(name) if name == SMALL else Path(name)
    if folder.is_dir():
        return folder
    local = folder.is_absolute() or folder.exists() or name.startswith((".", "~"))
    if name.count("/") == 1 and not local:
        return None
    why = "it is a file" if folder.is_file() else "no such folder"
    fix = f"Give {SMALL!r}, a folder that diffusers wrote, or OWNER/NAME on the hub"
    raise CheckpointError(name, why, fix)


def base_name(folder: Path) -> str:
    """What a base is called: by the name that it ships under, else by that of its folder."""
    place = shipped_place()
    ships = place is not None and folder == place / "base"
    return SMALL if ships else folder.resolve().name


def sampling_by_record(folder: Path) -> Sampling:
    """What suits a base by default: fewer steps and less guidance for those of `unplug train base`,
    which have a record.

    The record of a student says itself how it draws.

    Raises:
        CheckpointError: a record that cannot be read, or says something that no sampler can do.
    """
    from unplug.plugins import RECORD

    if not (folder / RECORD).is_file():
        return USUAL
    record = read_json(folder / RECORD, max_bytes=MAX_RECORD_BYTES)
    told = record.get("sampling") if isinstance(record, dict) else None
    return OURS if told is None else _told(told, folder / RECORD)


def sampling_of_lora(weights: Path) -> Sampling | None:
    """What suits LoRA weights, where the record next to them tells: of those that `unplug train
    student` made.

    Args:
        weights: a folder or a file, see `load_loras`.

    Raises:
        CheckpointError: a record that cannot be read, or says something that no sampler can do.
    """
    place, record = _record_of_lora(weights)
    return None if "sampling" not in record else _told(record["sampling"], place)


def teacher_of_lora(weights: Path) -> str | None:
    """`base_digest` of the base that LoRA weights were trained on, where the record next to them
    tells.
    """
    told = _record_of_lora(weights)[1].get("teacher")
    of_pack = _record_of_lora(weights, PACK_SCHEMA)[1].get("base")
    told = of_pack.get("sha256") if isinstance(of_pack, dict) else told
    return told if isinstance(told, str) else None


def word_of_pack(folder: Path) -> str:
    """What prompts say to use a pack; see `pack_record`."""
    word: str = pack_record(folder)["word"]
    return word


def is_pack(folder: Path) -> bool:
    """Whether a folder says that it is a pack; `pack_record` says whether it is right.

    Raises:
        InputError: its record cannot be read.
    """
    is_model = (folder / "config.json").exists()  # whose record may be of any size
    return not is_model and bool(_record_of_lora(folder, PACK_SCHEMA)[1])


def pack_record(folder: Path) -> dict[str, Any]:
    """What ``unplug.json`` of a pack says, its word checked.

    Raises:
        CheckpointError: a folder that `unplug train pack` did not write.
    """
    place, own = _record_of_lora(folder, PACK_SCHEMA)
    word = own.get("word")
    if not isinstance(word, str):
        why = f"it has no {place.name} of a pack" if folder.exists() else "no such folder"
        raise CheckpointError(str(folder), why, "Give a folder that `unplug train pack` wrote")
    try:
        return {**own, "word": check_words(word)}
    except InputError as error:
        raise CheckpointError(str(place), error.why, "Train the pack again") from error


def _record_of_lora(weights: Path, schema: str = LORA_SCHEMA) -> tuple[Path, dict[str, Any]]:
    """The record next to weights of `unplug train student`, or of a pack, and its place; empty
    where there is none of theirs.
    """
    from unplug.plugins import RECORD

    file = lora_file(weights)
    record = file.with_name(RECORD)
    if (
        file.name != WEIGHTS_NAME or not record.is_file()
    ):  # other weights next to a record are not its own
        return record, {}
    own = read_json(record, max_bytes=MAX_RECORD_BYTES)
    return record, own if isinstance(own, dict) and own.get("schema") == schema else {}


MAX_RECORD_BYTES = 16 * 2**20


def _told(sampling: Any, where: Path) -> Sampling:
    """What a record says of a student's sampling."""
    fix = "Train the student again"
    if not isinstance(sampling, dict) or sampling.keys() != {"steps", "guidance", "solver"}:
        raise CheckpointError(str(where), "it does not say how its base is drawn with", fix)
    steps, guidance, solver = (sampling[name] for name in ("steps", "guidance", "solver"))
    right = (
        type(steps) is int
        and 1 <= steps <= 1000
        and isinstance(guidance, int | float)
        and 1 <= guidance <= 50
    )
    if not right or solver not in (*SOLVERS, None):
        raise CheckpointError(str(where), f"it names {str(sampling)[:100]} to draw with", fix)
    return Sampling(steps=steps, guidance=float(guidance), solver=solver)


def find_plugin(name: str) -> Path:
    """The folder of a plugin, by the name that it ships under or by its path; see `shipped_folder`.

    Raises:
        CheckpointError: no such plugin, or see `shipped_path`.
    """
    path = shipped_folder(name)
    if not path.exists():
        known = f"one of: {', '.join(shipped_plugins())}"
        raise CheckpointError(
            name, "no such plugin", f"Give the folder that `unplug train plugin` wrote, or {known}"
        )
    return path
