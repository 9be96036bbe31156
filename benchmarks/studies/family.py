"""``python -m benchmarks.studies.family --work WORK --out docs/data/family.json``: what the head that
a family shares errs beside a head of each trunk's own, and what a request costs beside as many
models.

Procedural faces: trunks learn from one set of people, heads from another, and the error is that on
pictures of people whom neither saw; a difference is paired by person. WORK keeps the models; a
second call goes on.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import sha256_file, versions, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk import journey
from unplug.sdk.evidence.statistics import mean_estimate
from unplug.sdk.forgetting.unlearning import forget, members_of, ranking
from unplug.sdk.learning.data import Dataset, load_dataset, make_split
from unplug.sdk.learning.training import predict, to_tensors

TRUNKS = {
    "tiny": "8:12x1e2,16x1:48",
    "little": "16:16x1e1,24x1,32x1:96",
    "nano": "nano",
    "small": "small",
}
CPU, DIGITS = torch.device("cpu"), 4


def kept(place: Path, make: Any) -> Checkpoint:
    """A model of the folder, made where it is not there."""
    return load_checkpoint(place) if place.exists() else make(place)


def errors(model: Checkpoint, data: Dataset, ids: Sequence[str]) -> NDArray[np.float64]:
    """Absolute errors in years (N,)."""
    seen = to_tensors(data, ids, model.model.age_edges, CPU)
    error_N: NDArray[np.float64] = np.abs(predict(model.model, seen).age_N - seen.age_N.numpy())
    return error_N


def requests(
    models: Mapping[str, Checkpoint], data: Dataset, ids: Sequence[str], work: Path
) -> tuple[float, dict[str, str]]:
    """Seconds of one request to some models, and the hashes of all that came out."""
    start, hashes = time.perf_counter(), dict[str, str]()
    for name, model in models.items():
        done = forget(model, data, ids, None, work / name, device=CPU, show=False)
        hashes |= {str(path.relative_to(work)): sha256_file(path) for path in weights(done.path)}
    return time.perf_counter() - start, hashes


def weights(folder: Path) -> list[Path]:
    """Every weight file, of members too."""
    return sorted(folder.rglob("model.safetensors"))


@click.command()
@click.option("--work", type=click.Path(path_type=Path), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--pixels", default=32)
@click.option("--epochs", default=24)
@click.option("--pictures", default=4000, help="Of each of the two sets, two a person.")
@click.option("--draw", default=0, help="Of people: maps were chosen on draw 0.")
def main(work: Path, out: Path, pixels: int, epochs: int, pictures: int, draw: int) -> None:
    """Trains the trunks, each design over them, and the family."""
    spec = f"synth:n={pictures},subjects={pictures // 2},seed="
    seeds = (2 * draw + 2, 2 * draw + 1)
    agreed, personal = (load_dataset(f"{spec}{seed}", pixels, show=False) for seed in seeds)
    how: dict[str, Any] = {"device": "cpu", "show": False}
    own, split = make_split(agreed, seed=0), make_split(personal, seed=0)
    trained = {"size": "nano", "epochs": epochs, "batch_size": 16, "lr": 2e-3}
    trunks = {
        name: kept(
            work / name,
            lambda place, size=size: journey.train(
                agreed, own, out=place, **{**trained, "size": size}, **how
            ),
        )
        for name, size in TRUNKS.items()
    }
    exact: dict[str, Any] = {"forgettable": "closed-form", **how}
    alone = {
        name: kept(
            work / f"{name}-alone",
            lambda place, trunk=trunk: journey.train(
                personal, split, out=place, trunk=trunk, trunk_data=agreed, **exact
            ),
        )
        for name, trunk in trunks.items()
    }
    family = kept(
        work / "family",
        lambda place: journey.train(
            personal, split, out=place, family=list(trunks.values()), trunk_data=agreed, **exact
        ),
    )
    design, shared = family.record["design"], members_of(family)
    shared[design["reference"]] = family
    people = {sample.id: sample.person for sample in personal.samples}
    subjects = np.unique([people[name] for name in split.test], return_inverse=True)[1]
    rows = []
    for name in ranking(family):
        member = shared[name]
        mine, theirs = (errors(one, personal, split.test) for one in (member, alone[name]))
        more: Any = mean_estimate(mine - theirs, subjects, 0)
        facts = design["members"].get(name, {"explained": 1.0})
        rows.append(
            {
                "member": name,
                "parameters": sum(value.numel() for value in member.model.parameters()),
                "explained": round(facts["explained"], DIGITS),
                "shared": round(float(mine.mean()), DIGITS),
                "own": round(float(theirs.mean()), DIGITS),
                "more": [round(end, DIGITS) for end in (more.value, more.low, more.high)],
            }
        )
        click.echo(
            f"{name:8} {100 * facts['explained']:5.1f} % explained  shared {mine.mean():.2f}  own "
            f"{theirs.mean():.2f}  more {more.value:+.2f} ({more.low:+.2f} to {more.high:+.2f})"
        )
    inside = list(dict.fromkeys(people[name] for name in split.train))
    steps = []
    for count in (1, 10, 100, 1000):
        gone = {*inside[:count]}
        ids = [name for name in split.train if people[name] in gone]
        steps.append({"people": len(gone)} | asked(family, alone, personal, ids, work))
    facts = {
        "command": f"python -m benchmarks.studies.family --pixels {pixels} --epochs {epochs} "
        f"--pictures {pictures} --draw {draw} --work WORK --out {out.name}",
        "trunks": TRUNKS,
        "data": [agreed.spec, personal.spec],
        "pixels": pixels,
        "epochs": epochs,
        "reference": design["reference"],
        "held": {name: round(error, DIGITS) for name, error in design["errors"].items()},
    }
    write_json(out, {**facts, "members": rows, "requests": steps, "versions": versions()})


def asked(
    family: Checkpoint,
    alone: Mapping[str, Checkpoint],
    data: Dataset,
    ids: Sequence[str],
    work: Path,
) -> dict[str, Any]:
    """A request to the family and to as many models by themselves, and whether the family is a
    refit's, bit for bit.
    """
    place = work / f"request-{len(ids)}"
    shutil.rmtree(place, ignore_errors=True)
    one, hashes = requests({"family": family}, data, ids, place)
    many, _ = requests(alone, data, ids, place)
    refit = forget(family, data, ids, "retrain", place / "refit", device=CPU, show=False)
    same = [sha256_file(path) for path in weights(refit.path)] == list(hashes.values())
    head = sum(
        value.numel() * 4
        for key, value in family.model.state_dict().items()
        if key.startswith("classifier.")
    )
    whole = sum(path.stat().st_size for path in weights(family.path))
    row: dict[str, Any] = {"pictures": len(ids), "equal": same}
    row |= {"seconds": round(one, DIGITS), "alone": round(many, DIGITS)}
    click.echo(f"{row}; {head} bytes of head, {whole} of all models")
    return row | {"head_bytes": head, "models_bytes": whole}


if __name__ == "__main__":
    main()
