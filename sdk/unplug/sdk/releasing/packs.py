"""The release of a base with packs, and what every release of a base says of packs that left it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from unplug.core import GateFailed, InputError, atomic_dir, counted, sha256_file
from unplug.export import Artifact, write_card
from unplug.sdk.drawing.device import WEIGHTS_NAME, find_pack, load_pipeline
from unplug.sdk.drawing.diffusion import pack_record
from unplug.sdk.forgetting.erasing import erased_record
from unplug.trust.bundle import (
    ERASED_GATES,
    MANIFEST,
    PIPELINE,
    DroppedPacks,
    GeneratorManifest,
    Signing,
    copy_parts,
    finish_generator,
    generator_entries,
    packs_left,
    read_generator,
    weights_of,
)

Export = Callable[[Sequence[Path], Path], Sequence[Artifact]]


def release_packs(
    base: Path,
    packs: Sequence[Path],
    out: Path,
    *,
    export: Export,
    signing: Signing | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> GeneratorManifest:
    """Ships a base from which nothing was erased, with its packs, as one bundle; where packs left
    since the bundle that it supersedes, only if all the rest is equal.

    Args:
        base: a diffusers folder, or what ``unplug export`` wrote, whose packs lie in it.
        packs: folders that `train_pack` wrote.
        out: bundle folder to write.
        export: converts a base with these packs into a folder.
        signing: the signer, and the release's place and predecessor.
        say: called with a line for each gate.

    Raises:
        InputError: the base was erased, or a pack is in the place of another that it was not
            trained again from.
        GateFailed: something else differs from the bundle that had the packs.
        CheckFailed: a pack that left is still there; see `packs_left`.
        OutputError: the place is taken.
    """
    exported = (base / PIPELINE).is_file()
    if exported and packs:
        why = "the packs of exported files are those next to them"
        raise InputError("`packs`", why, "Release the base itself, or export it with these")
    if not exported and erased_record(str(base)) is not None:
        fix = f"Measure it with `unplug audit {base}`, and name what that wrote"
        raise InputError("`audited`", "it is missing: what is claimed of a base is measured", fix)
    with atomic_dir(out, owner=PIPELINE, ours=generator_entries(out), private=False) as folder:
        if exported:
            copy_parts(base, folder)
        else:
            write_timeless(export([base], folder))
        card = (
            f"# {out.stem}\n\nA text-to-image base as exported files; `pipeline.json` names them.\n"
        )
        facts: dict[str, Any] = {"erasure": None, "gates": []}
        return finish_base(folder, facts, card, packs=packs, signing=signing, say=say)


def write_timeless(files: Sequence[Artifact]) -> None:
    """Cards of exported files without how long anything took."""
    for item in files:
        write_card(item.path, replace(item.card, seconds=0.0, prepare_seconds=0.0))


def finish_base(
    folder: Path,
    facts: Mapping[str, Any],
    card: str,
    *,
    packs: Sequence[Path],
    signing: Signing | None,
    say: Callable[[str], None],
) -> GeneratorManifest:
    """Makes exported files a bundle that names its packs, and those that left since the bundles that
    it supersedes.

    Args:
        folder: a folder with ``pipeline.json``.
        facts: ``erasure`` and ``gates``. Where nothing was erased now and packs left, those of the
            bundle before stay, for all that they are about is equal.
        card: Markdown for ``README.md``.
        packs: folders of those that were exported with it.
        signing, say: see `release_packs`.

    Raises:
        InputError, GateFailed, CheckFailed: see `release_packs`.
        Refused, BundleCheckFailed: see `finish_generator`.
    """
    earlier = () if signing is None else signing.earlier
    before = [read_generator(path) for path in earlier]
    records = _records(folder, packs)
    weights = weights_of(*before) | {
        rows: sha256_file(place / WEIGHTS_NAME) for rows, (place, _) in records.items()
    }
    told = {**facts, "dropped": None}
    (folder / "README.md").write_text(card, encoding="utf-8")
    words = [pack.word for pack in finish_generator(folder, told, None, weights).packs]
    lines = [f"\nPacks, each switched on by its words: {', '.join(words)}.\n"] if words else []
    for path, old in zip(earlier, before, strict=True):
        if (left := packs_left(path, folder)) is None:
            continue
        dropped, gate = left
        say(f"{'holds' if gate.passed else 'FAILS'} {gate.explain()} ({gate.detail})")
        if not gate.passed:
            fix = "Nothing was written. Change one thing a release: first let the packs leave"
            raise GateFailed("release refused", f"{gate.explain()} ({gate.detail})", fix)
        _check_again(dropped, old, {rows: own for rows, (_, own) in records.items()})
        told |= _kept(old) if facts["erasure"] is None else {}
        told |= {"dropped": asdict(dropped), "gates": [*told["gates"], asdict(gate)]}
        lines.append(_exact(dropped))
        break
    (folder / MANIFEST).unlink()
    (folder / "README.md").write_text("".join((card, *lines)), encoding="utf-8")
    return finish_generator(folder, told, signing, weights)


def _records(folder: Path, packs: Sequence[Path]) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Packs with their records, by the SHA-256 of the rows that they have become."""
    if not packs:
        return {}
    pipeline, found = load_pipeline(folder), {}
    for place in packs:
        own = pack_record(place)
        found[pipeline.variants[find_pack(pipeline, own["word"])].sha256] = place, own
    return found


def _check_again(
    dropped: DroppedPacks, old: GeneratorManifest, records: Mapping[str, dict[str, Any]]
) -> None:
    """Refuses a pack in another's place that does not say that it is that one, trained again."""
    was = {pack.sha256: pack.weights_sha256 for pack in old.packs}
    for item in dropped.packs:
        step = records.get(item.again or "", {}).get("forget")
        told = step if isinstance(step, dict) and step.get("method") == "retrain" else {}
        if item.again and (was[item.sha256] is None or told.get("pack_sha256") != was[item.sha256]):
            why = "another has its word, and no record says that it is this one, trained again"
            fix = "Release once without it, then with the other; or give what `unplug forget` wrote"
            raise InputError(f"the pack {item.sha256[:16]}", why, fix)


def _kept(old: GeneratorManifest) -> dict[str, Any]:
    """What the bundle before says of its erasure."""
    gates = [asdict(gate) for gate in old.gates if gate.name in ERASED_GATES]
    return {"erasure": old.erasure and asdict(old.erasure), "gates": gates}


def _exact(dropped: DroppedPacks) -> str:
    deleted = sum(item.again is None for item in dropped.packs)
    again = len(dropped.packs) - deleted
    what = [
        f"{counted(count, 'pack')} {done}"
        for count, done in (
            (deleted, "deleted"),
            (again, "trained again without somebody, by the same recipe and seed"),
        )
        if count
    ]
    return (
        f"\n**Exact, against weights:** since the bundle {dropped.before}: {', '.join(what)}. All "
        "other parts are that bundle's, by SHA-256, and none of them ever saw what those packs "
        "learned from: these files hold nothing of it.\n"
    )
