"""The audit of an erased base: how often the concept comes back, by what an attacker holds,
compared with the original and a base that never saw it.
"""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from unplug.core import Estimate, InputError, json_sha256, read_json, write_json
from unplug.plugins import weights_sha256
from unplug.sdk.drawing.diffusion import base_digest, find_plugin, load_base, sampling_of
from unplug.sdk.forgetting.erasing import (
    PLUGINS,
    Concept,
    erased_record,
    original_of,
    usual_prompts,
)
from unplug.sdk.learning.training import describe_device

from .attack import USUAL_ATTACKS, Unable, attack_of
from .conditions import FORMS
from .findings import (
    SHOWN,
    SHOWN_ALL,
    SHOWN_EACH,
    THUMBNAIL,
    UNNAMED,
    Claim,
    ConceptAudit,
    ErasureAudit,
    FrechetApart,
    RateRow,
    Role,
    claims_of,
    most_claimed,
)
from .learned import concept_judge
from .likeness import frechet_apart, same_noise_db
from .presence import Judge, presence_rate
from .scene import Scene
from .shipped import ShippedFiles, shipped_files

PROMPT_SEED = 3_000_000


@dataclass(frozen=True, kw_only=True)
class AuditOrder:
    """What is audited, and how thoroughly.

    Args:
        attacks: see `attack_of`; empty: `USUAL_ATTACKS`.
        forms: names in `FORMS` in which prompts and control images are tried.
        pictures: the number of pictures in each row.
        beside: other words whose rate is compared with the original's.
        plugin: a name or a folder; control images are tried through it, and for the erased base
            through the one of this name that forgot with it, where there is one.
        files: the folder that `unplug export` made of the erased base: prompts and control images
            are tried on every target and precision in it that runs here.
    """

    attacks: tuple[str, ...] = ()
    forms: tuple[str, ...] = ("as it is", "fp16", "int8")
    pictures: int = field(default=48, metadata={"range": (8, 10_000)})
    beside: tuple[str, ...] = ()
    plugin: str | None = None
    files: Path | None = None

    def __post_init__(self) -> None:
        for name in self.attacks:
            attack_of(name)
        for form in self.forms:
            if form not in FORMS:
                raise InputError(f"form {form!r}", "no such form", f"Use {', '.join(FORMS)}")
        if not 8 <= self.pictures <= 10_000:
            raise InputError(f"pictures {self.pictures}", "out of range", "Use 8 to 10000")


def audit_erasure(
    erased: str,
    order: AuditOrder,
    *,
    oracle: str | None = None,
    seed: int,
    device: torch.device,
    work: Path,
    show: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> ErasureAudit:
    """Audits an erased base; rows that an ended run finished are not drawn again.

    Args:
        erased: folder that `unplug erase` wrote.
        order: how.
        oracle: a base that never saw the concepts.
        seed: the seed of judges and attacks.
        device: the device to compute on.
        work: folder for finished rows.
        show: progress bars.
        say: takes one line a row.

    Raises:
        InputError: a base from which nothing was erased.
        CheckpointError: see `original_of`.
    """
    started = time.perf_counter()
    told = erased_record(erased)
    if told is None:
        why = "nothing was erased from it"
        raise InputError(f"base {erased}", why, "Give what `unplug erase` wrote")
    if oracle is not None and erased_record(oracle) is not None:
        why = "it is an erased base, not one that never saw the concept"
        raise InputError(f"oracle {oracle}", why, "Give a base that was trained without it")
    original, name = original_of(erased, device)
    bases: dict[Role, Any] = {"original": original, "erased": load_base(erased, device=device)}
    names: dict[Role, str] = {"original": name, "erased": erased}
    if oracle is not None:
        bases["oracle"], names["oracle"] = load_base(oracle, device=device), oracle
    digests = {role: base_digest(base) for role, base in bases.items()}
    # prompts follow from the words: those that say a concept are left out
    words = [concept.words for concept in told.concepts]
    rows = _Rows(work, {"original": digests["original"], "seed": seed, "words": words})
    audit = _Audit(
        order, name, Path(erased), bases, digests, told.concepts, seed, device, show, say, rows
    )
    concepts = tuple(map(audit.concept, told.concepts))
    retained_db, frechet = audit.alike()
    record = read_json(Path(erased) / "erasure.json")
    return ErasureAudit(
        models={
            role: {"name": Path(names[role]).name, "sha256": digest}
            for role, digest in digests.items()
        },
        method=str(record["method"]),
        edit_bytes=told.map_bytes,
        concepts=concepts,
        retained_db=retained_db,
        frechet=frechet,
        beside=audit.beside(),
        reference="a base that never saw it" if oracle else "the original without the words",
        pictures=order.pictures,
        claim=most_claimed([item.claims for item in concepts]),
        files={one.form: one.hashes() for one in audit.files},
        cost={"wall_s": time.perf_counter() - started, "device": describe_device(device)},
    )


class _Rows:
    """Finished rows on disk, under the hash of what they were drawn with."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self.path = folder / f"rows-{json_sha256(facts)[:16]}.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.kept = read_json(self.path) if self.path.is_file() else {}

    def get(self, facts: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] | None = self.kept.get(json_sha256(facts))
        return found

    def put(self, facts: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
        self.kept[json_sha256(facts)] = rows
        write_json(self.path, self.kept)


def _sha(plugin: str | Path) -> str:
    return weights_sha256(find_plugin(str(plugin)))


def _row(raw: dict[str, Any]) -> RateRow:
    facts = {name: value for name, value in raw.items() if name != "shown"}
    return RateRow(**facts | {"rate": Estimate(**raw["rate"])})


def _thumbnail(picture: Image.Image) -> str:
    """A small PNG file of 64 colours, which is half as large as one of all colours, in base64."""
    buffer = io.BytesIO()
    small = picture.convert("RGB").resize((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
    small.quantize(64).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


@dataclass
class _Audit:
    """The pieces of one audit."""

    order: AuditOrder
    name: str
    folder: Path
    bases: dict[Role, Any]
    digests: dict[Role, str]
    concepts: tuple[Concept, ...]
    seed: int
    device: torch.device
    show: bool
    say: Callable[[str], None]
    rows: _Rows
    pictures: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        words = [concept.words for concept in self.concepts]
        self.learn = usual_prompts(self.name, words, seed=PROMPT_SEED)
        every = usual_prompts(self.name, words, seed=PROMPT_SEED + 1, held_out=True)
        self.prompts = tuple(every[number % len(every)] for number in range(self.order.pictures))
        self.sampling = sampling_of(self.name)
        self.shown = dict[str, tuple[Image.Image, ...]]()
        self.unasked = dict[Role, list[Image.Image]]()
        found = () if self.order.files is None else tuple(shipped_files(self.order.files))
        self.files = tuple(one for one in found if isinstance(one, ShippedFiles))
        self.left_out = dict(one.split(": ", 1) for one in found if isinstance(one, str))

    def concept(self, concept: Concept) -> ConceptAudit:
        judge = self.judge(concept)
        rows, left_out, self.pictures = list[RateRow](), dict(self.left_out), {}
        for role in self.bases:
            scene = self.scene(role, concept)
            rows += self.unnamed(scene, role, judge)
            for attack in self.order.attacks or USUAL_ATTACKS:
                for form in self.forms(attack, role):
                    try:
                        rows += self.attacked(scene, role, attack, form, judge)
                    except Unable as error:
                        left_out[attack] = str(error)
        return ConceptAudit(
            words=concept.words,
            judge=judge.facts,
            rows=tuple(rows),
            left_out=left_out,
            claims=claims_of(rows),
            pictures={name: self.pictures[name] for name in SHOWN if name in self.pictures},
        )

    def judge(self, concept: Concept) -> Judge:
        how: dict[str, Any] = {"seed": self.seed, "device": self.device, "show": self.show}
        return concept_judge(self.bases["original"], self.name, concept, self.sampling, **how)

    def scene(self, role: Role, concept: Concept) -> Scene:
        own = None
        if role == "erased" and self.order.plugin is not None:
            beside = self.folder / PLUGINS / Path(self.order.plugin).name
            own = str(beside) if beside.is_dir() else None
        return Scene(
            base=self.bases[role],
            original=self.bases["original"],
            concept=concept,
            prompts=self.prompts,
            learn=self.learn,
            plugin=own or self.order.plugin,
            sampling=self.sampling,
            seed=self.seed,
            device=self.device,
            show=self.show,
        )

    def forms(self, attack: str, role: Role) -> Sequence[str | ShippedFiles]:
        cheap = attack_of(attack).holds in ("prompts", "control images")
        if not cheap or attack == "within":
            return ("as it is",)
        drawn = attack != "image-to-image" and role == "erased"  # exported bases take no pictures
        return (*self.order.forms, *(self.files if drawn else ()))

    def unnamed(self, scene: Scene, role: Role, judge: Judge) -> list[RateRow]:
        return self.counted(
            scene,
            role,
            UNNAMED,
            "as it is",
            None,
            judge,
            lambda: [(UNNAMED, self.plain(role, scene))],
        )

    def plain(self, role: Role, scene: Scene) -> list[Image.Image]:
        """Pictures of the prompts as they are, drawn once for all concepts."""
        if role not in self.unasked:
            self.unasked[role] = scene.draw(scene.prompts, self.bases[role])
        return self.unasked[role]

    def attacked(
        self, scene: Scene, role: Role, attack: str, form: str | ShippedFiles, judge: Judge
    ) -> list[RateRow]:
        chosen = attack_of(attack)

        def drawn() -> Iterator[tuple[str, list[Image.Image]]]:
            shown = self.controls(scene) if chosen.holds == "control images" else ()
            if isinstance(form, ShippedFiles):
                return chosen(replace(scene, files=form, controls=shown))
            base, sampling = FORMS[form](scene.base, scene.sampling)
            return chosen(replace(scene, base=base, sampling=sampling, controls=shown))

        return self.counted(scene, role, attack, form, chosen.holds, judge, drawn)

    def controls(self, scene: Scene) -> tuple[Image.Image, ...]:
        """Pictures of the concept by the original, once for all models."""
        words = scene.concept.words
        if scene.plugin is not None and words not in self.shown:
            named = [scene.concept.named(prompt) for prompt in scene.prompts]
            self.shown[words] = tuple(scene.draw(named, scene.original))
        return self.shown.get(words, ())

    def counted(
        self,
        scene: Scene,
        role: Role,
        attack: str,
        form: str | ShippedFiles,
        holds: Claim | None,
        judge: Judge,
        drawn: Callable[[], Any],
    ) -> list[RateRow]:
        name = form.form if isinstance(form, ShippedFiles) else form
        settings = {} if attack == UNNAMED else asdict(attack_of(attack))  # type: ignore[call-overload]
        facts: dict[str, Any] = {
            "attack": attack,
            **({"settings": settings} if settings else {}),
            "form": name,
            **({"files": form.hashes()} if isinstance(form, ShippedFiles) else {}),
            "base": self.digests[role],
            "words": scene.concept.words,
            "pictures": self.order.pictures,
            "plugin": None if scene.plugin is None else _sha(scene.plugin),
        }
        if (kept := self.rows.get(facts)) is None:
            kept = list(self.judged(scene.concept, role, name, holds, judge, drawn))
            self.rows.put(facts, kept)
        for item in kept:
            if item.get("shown"):
                self.pictures[f"{role}/{item['attack']}"] = tuple(item["shown"])
        return [_row(item | {"role": role}) for item in kept]

    def judged(
        self,
        concept: Concept,
        role: Role,
        form: str,
        holds: Claim | None,
        judge: Judge,
        drawn: Callable[[], Any],
    ) -> Iterator[dict[str, Any]]:
        """Rows as they are kept: with the pictures that the report shows."""
        started = time.perf_counter()
        for variant, pictures in drawn():
            seconds = time.perf_counter() - started
            row = RateRow(
                attack=variant,
                holds=holds,
                form=form,
                role=role,
                rate=presence_rate(pictures, judge),
                pictures=len(pictures),
                seconds=seconds,
            )
            self.say(f"{concept.words}, {role}, {variant} ({form}): {row.rate.value:.1%}")
            shown = form == "as it is" and f"{role}/{variant}" in SHOWN
            few = pictures[: min(SHOWN_EACH, SHOWN_ALL // len(self.concepts))] if shown else []
            yield asdict(row) | {"shown": [*map(_thumbnail, few)]}

    def alike(self) -> tuple[Estimate, FrechetApart]:
        """How alike pictures are that say no concept, erased against original."""
        scene = self.scene("erased", self.concepts[0])
        now, then = (self.plain(role, scene) for role in ("erased", "original"))
        frechet = frechet_apart(now, then, self.bases["original"].vae, self.seed)
        return same_noise_db(now, then, self.seed), frechet

    def beside(self) -> dict[str, dict[str, Estimate]]:
        """Rates of other words, by the original and by the erased base."""
        return {
            words: {role: self.besides(words, role) for role in ("original", "erased")}
            for words in self.order.beside
        }

    def besides(self, words: str, role: Role) -> Estimate:
        """How often one base draws other words; kept for all audits of these concepts."""
        facts = {
            "beside": words,
            "base": self.digests[role],
            "pictures": self.order.pictures,
        }
        if (kept := self.rows.get(facts)) is None:
            concept = Concept(words=words)
            named = [concept.named(prompt) for prompt in self.prompts]
            drawn = self.scene(role, concept).draw(named)
            kept = [asdict(presence_rate(drawn, self.judge(concept)))]
            self.rows.put(facts, kept)
        return Estimate(**kept[0])
