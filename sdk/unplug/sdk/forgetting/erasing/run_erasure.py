"""``unplug erase``: a base without some concepts, as an ordinary pipeline folder with a record of
what was done.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unplug.core import (
    CheckpointError,
    InputError,
    TrainingError,
    atomic_dir,
    check_replaceable,
    json_sha256,
    one_writer,
    read_json,
    sha256_tree,
    versions,
    write_json,
)
from unplug.plugins import RECORD
from unplug.sdk.drawing.diffusion import (
    BASE_FILES,
    base_digest,
    base_record,
    load_base,
    sampling_of,
    write_pipeline,
)
from unplug.sdk.forgetting.unlearning import with_settings
from unplug.sdk.learning.training import describe_device, training_place

from .concept import Concept, check_wishes
from .method import DEFAULT_ERASURE, build_erasure
from .plugin import PLUGINS, PluginForgetting, find_unlearnable, forget_in_plugin
from .problem import EraseProblem
from .prompts import usual_prompts, without
from .text_map import TextMap

ERASURE_SCHEMA = "unplug-erasure/1"
ERASURE, MAP = "erasure.json", "erasure.safetensors"
ERASED_FILES = (*BASE_FILES, ERASURE, MAP, PLUGINS)


@dataclass(frozen=True, kw_only=True)
class Erased:
    """What an erased base says of itself.

    Args:
        base: name of the base before any erasure. base_sha256: its `base_digest`.
        concepts: the concepts that it does not draw, in the order of their erasure.
        retained: words that were held.
        map_bytes: the size of the map of text states that is the whole edit; None: the edit is in
            the weights.
    """

    base: str
    base_sha256: str
    concepts: tuple[Concept, ...]
    retained: tuple[str, ...]
    map_bytes: int | None


def erased_record(name: str) -> Erased | None:
    """What the record of an erased base says; None for one from which nothing was erased.

    Raises:
        CheckpointError: a record that is none.
    """
    path = Path(name) / ERASURE
    if not path.is_file():
        return None
    raw = read_json(path)
    try:
        if raw["schema"] != ERASURE_SCHEMA:
            raise ValueError(raw["schema"])
        concepts = tuple(Concept(**item) for item in raw["concepts"])
        return Erased(
            base=str(raw["base"]["name"]),
            base_sha256=str(raw["base"]["sha256"]),
            concepts=concepts,
            retained=tuple(map(str, raw["retained"])),
            map_bytes=None if raw["map"] is None else int(raw["map"]["bytes"]),
        )
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise CheckpointError(str(path), f"not an erasure's record ({error})", _AGAIN) from error


_AGAIN = "Erase the concept again from the base as it was"


def original_of(name: str, device: torch.device) -> tuple[Any, str]:
    """The base before any erasure, and its name.

    Args:
        name: the name of a base, erased or not.
        device: the device for the base.

    Raises:
        CheckpointError: the base that the record names is not there any more, or is another one.
    """
    told = erased_record(name)
    if told is None:
        return load_base(name, device=device), name
    original = load_base(told.base, device=device)
    if base_digest(original) != told.base_sha256:
        why = f"it is another base than the one that {name} was erased from"
        raise CheckpointError(told.base, why, _AGAIN)
    return original, told.base


@one_writer
def erase(
    base_name: str,
    concepts: Sequence[Concept],
    out: Path,
    *,
    method: str = DEFAULT_ERASURE,
    options: Mapping[str, str] | None = None,
    retained: Sequence[str] = (),
    prompts: Sequence[str] = (),
    plugins: Sequence[str] = (),
    plugin_options: Mapping[str, str] | None = None,
    seed: int,
    device: torch.device,
    half: bool = False,
    check: Callable[[Any, str], None] = lambda _original, _name: None,
    restart: bool = False,
    show: bool = True,
) -> dict[str, Any]:
    """Takes concepts out of a base and saves it; an unfinished run at `out` is continued.

    Args:
        base_name: see `load_base`. An erased base is erased further: what it must not draw stays
            so.
        concepts: the concepts to erase.
        out: pipeline folder to write; ``.NAME.training`` next to it holds the state until the end.
        method: a name in `ERASURES`.
        options: settings of the method, as text.
        retained: words that must go on working.
        prompts: further prompts; those that say a concept are left out (default: those of
            `usual_prompts`).
        plugins: conditioning plugins that forget with the base, by name or folder; they lie in
            ``plugins`` of `out`.
        plugin_options: settings of `PluginForgetting`, as text.
        seed: the seed of everything random.
        device: the device to compute on.
        half: store the weights in float16.
        check: raises where the original, of this name, is not to be erased from; called when all
            else is in order, and before anything is written.
        restart: drop an unfinished run.
        show: progress bars.

    Returns:
        The record.

    Raises:
        InputError: wishes that contradict each other, see `check_wishes`; or a plugin of another
            base.
        CheckpointError, TrainingError, OutputError: see `load_base`, `train_steps`, `atomic_dir`.
    """
    chosen = build_erasure(method, options)
    told = erased_record(base_name)
    earlier = () if told is None else told.concepts
    kept = tuple(dict.fromkeys((*(() if told is None else told.retained), *retained)))
    check_wishes(concepts, earlier, kept)
    check_replaceable(out, ERASURE, ERASED_FILES)
    original, original_name = original_of(base_name, device)
    words = [concept.words for concept in (*earlier, *concepts)]
    texts = without(prompts, words) if prompts else usual_prompts(original_name, words, seed=seed)
    pupils = {Path(name).name: find_unlearnable(name, original) for name in plugins}
    lessons = with_settings(PluginForgetting(), plugin_options or {}, "plugin")
    getattr(chosen, "refuse", lambda _name: None)(original_name)
    check(original, original_name)
    with training_place(out, ERASURE, ERASED_FILES, restart=restart) as work:
        problem = EraseProblem(
            name=original_name,
            base=load_base(base_name, device=device),
            original=original,
            concepts=tuple(concepts),
            earlier=earlier,
            retained=kept,
            prompts=texts,
            sampling=sampling_of(original_name),
            seed=seed,
            device=device,
            work=work,
            show=show,
        )
        started = time.perf_counter()
        edit = chosen(problem)
        seconds = time.perf_counter() - started
        record = {
            "schema": ERASURE_SCHEMA,
            "base": {"name": original_name, "sha256": base_digest(original)},
            "method": method,
            "settings": asdict(chosen),  # type: ignore[call-overload]
            "concepts": [asdict(concept) for concept in problem.every],
            "retained": list(kept),
            "prompts": {"count": len(texts), "sha256": json_sha256(texts)},
            "seed": seed,
            "plugins": [],
            "changed": _changed(original, problem.base),
            "cost": {"wall_s": seconds, "device": describe_device(device)},
            "versions": versions(),
        }
        if problem.trained:
            record["trained"] = {name: problem.trained[name] for name in ("data", "start")}
        for name, plugin in pupils.items():
            done = forget_in_plugin(problem, plugin, work / PLUGINS / name, lessons)
            record["plugins"].append(done)
        return _save(problem, edit, out, record, half=half)


def _changed(before: Any, after: Any) -> dict[str, int]:
    """Tensors and bytes, in float32, of what differs between two bases.

    Raises:
        TrainingError: one of them holds something other than numbers.
    """
    old, new = (
        {
            f"{part}.{name}": value
            for part in ("unet", "text_encoder", "vae")
            for name, value in getattr(base, part).state_dict().items()
        }
        for base in (before, after)
    )
    tensors = dict[str, int]()
    for name, value in new.items():
        if not bool(value.isfinite().all()):
            why = f"the weights {name} are NaN or infinite"
            raise TrainingError("erasure", why, "Lower `lr` or raise `keep`")
        if not torch.equal(value, old[name]):
            tensors[name] = 4 * value.numel()
    return {"tensors": len(tensors), "bytes": sum(tensors.values())}


def _save(
    problem: EraseProblem, edit: TextMap | None, out: Path, record: dict[str, Any], *, half: bool
) -> dict[str, Any]:
    with atomic_dir(out, owner=ERASURE, ours=ERASED_FILES) as folder:
        write_pipeline(problem.base, folder, half=half)
        if record["plugins"] and problem.work is not None:
            shutil.copytree(problem.work / PLUGINS, folder / PLUGINS)
        weights = sha256_tree(folder / "unet")[0]
        if own := problem.trained or base_record(record["base"]["name"]):
            write_json(folder / RECORD, own | {"sha256": weights})
        if edit is not None:
            edit.save(folder / MAP, problem.original.text_encoder)
        size = None if edit is None else (folder / MAP).stat().st_size
        record |= {"map": None if edit is None else {"bytes": size}, "sha256": weights}
        (folder / "README.md").write_text(_card(record), encoding="utf-8")
        write_json(folder / ERASURE, record)
    return record


def _card(record: dict[str, Any]) -> str:
    claim = _CLAIM
    if trained := record.get("trained"):
        claim = _NEVER_SAW.format(**trained["data"], from_=_BEGUN if trained["start"] else "")
    return _CARD.format(
        claim=claim,
        words=", ".join(item["words"] for item in record["concepts"]),
        base=record["base"]["name"],
        digest=record["base"]["sha256"],
        method=record["method"],
    )


_CARD = """\
---
library_name: diffusers
pipeline_tag: text-to-image
tags: [unplug, stable-diffusion, erasure]
---
# A base without: {words}

Made by `unplug erase --method {method}` from the base `{base}` (SHA-256 `{digest:.16}`): {claim}
It loads in stock diffusers.
"""
_CLAIM = """\
prompts that
say these words give pictures without them. That is a claim about prompts alone: who has control images,
text states or these weights may still get the concept; `unplug audit` measures it."""
_NEVER_SAW = """\
trained anew on `{spec}`
without the {left_out:,} pictures whose captions say these words. It never saw them in this training{from_}."""
_BEGUN = """,
which began from weights that may have"""
