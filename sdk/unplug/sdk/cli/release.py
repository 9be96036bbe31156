"""``unplug release``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unplug.core import InputError

from .base import Common, Outcome, command, names, settings
from .bundle import publication_options, signing_of
from .options import (
    base_option,
    checkpoint_argument,
    data_option,
    faces_option,
    fleet_option,
    forget_option,
    out_option,
    traces,
)


@click.command()
@checkpoint_argument
@data_option
@forget_option
@click.option("--method", help="See `unplug list methods` (default: the design's own way, or msg for an ordinary model).")
@click.option("--budget", type=float, default=0.05, show_default=True, help="Fraction of retraining; a design needs none.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A hyperparameter of the method; may be repeated.")
@click.option("--retrained", type=click.Path(path_type=Path), help="The oracle (default: train it, but with --fleet).")
@click.option(
    "--references", type=click.IntRange(0, 64), default=1, show_default=True,
    help="Reference models to train: RMIA needs one, LiRA two; with --fleet none is trained.",
)  # fmt: skip
@fleet_option
@click.option("--oracle", is_flag=True, help="With --fleet: train the oracle all the same.")
@click.option(
    "--certification", type=click.Path(path_type=Path),
    help="What `unplug certify` wrote: evidence of the method, where one request is too few people to show anything.",
)  # fmt: skip
@click.option("--to", "targets", default="litert,coreml,onnx", show_default=True, help="Comma-separated targets.")
@click.option("--precision", "precisions", default="fp32,fp16", show_default=True, help="Comma-separated precisions.")
@click.option("--gate", "gate_pairs", multiple=True, metavar="KEY=VALUE", help="A threshold, e.g. max_mae_above_retrained=0.5.")
@click.option("--rounding/--no-rounding", default=True, show_default=True, help="Measure what export did to the edit.")
@faces_option
@base_option
@click.option("--restart", is_flag=True, help="Drop unfinished trainings of an earlier run instead of continuing them.")
@click.option("--sign", "key", help="Sign with this key: a file, env:NAME, or command:WORDS that sign standard input.")
@publication_options
@out_option("Bundle folder to write, for example face-age.unplug.")
@command
def release(
    checkpoint: Path, spec: str, on_bad: Any, forget_file: Path, method: str | None, budget: float, pairs: tuple[str, ...],
    retrained: Path | None, references: int, fleet: Path | None, oracle: bool, certification: Path | None, targets: str,
    precisions: str, gate_pairs: tuple[str, ...], rounding: bool, faces: bool, base: str | None, restart: bool, out: Path,
    key: str | None, common: Common, **said: Any,
) -> Outcome:  # fmt: skip
    """Forget, audit, export, check, time and bundle; refuse (exit 1) where a gate does not hold.

    Intermediate results stay in .NAME.release beside the bundle, so a killed release goes on where it was.
    """
    from unplug.plugins import load_checkpoint
    from unplug.sdk.data import describe_request, load_dataset, read_forget_file
    from unplug.sdk.releasing import ReleaseConfig, gates_from
    from unplug.sdk.releasing import release as run
    from unplug.sdk.tasks import task_of

    signing = None if key is None else signing_of(key, out, **said)
    if signing is None and any(said.values()):
        raise InputError("the signer's options", "nothing is signed", "Add --sign KEY, or leave them out")
    original = load_checkpoint(checkpoint)
    given = load_checkpoint(retrained, expect=original.model_type) if retrained else None
    task = task_of(original, device=common.device, base=base)
    dataset = load_dataset(spec, task.image_size, on_bad=on_bad, show=common.show)
    ids = read_forget_file(forget_file, dataset)
    common.say(describe_request(ids, dataset))
    config = ReleaseConfig(
        method=method, options=settings(pairs), budget=budget, references=references, targets=names(targets),
        precisions=names(precisions), gates=gates_from(settings(gate_pairs), budget), rounding=rounding,
        faces=faces, seed=common.seed, fleet=fleet, oracle=oracle, certification=certification,
    )  # fmt: skip
    work = out.parent / f".{out.name}.release"
    done = run(
        original,
        dataset,
        ids,
        out,
        work,
        config,
        oracle=given,
        task=task,
        device=common.device,
        say=common.say,
        show=common.show,
        restart=restart,
        signing=signing,
    )
    lines = [gate_line(gate) for gate in done.summary["gates"]]
    if len(done.summary["tries"]) > 1:
        lines.append(f"try {len(done.summary['tries'])} of this request; the report shows all of them")
    trust = " --trust KEY.pub" if signing else ""
    lines.append(f"bundle {done.bundle}; check it with `unplug bundle verify {done.bundle}{trust}`")
    lines.append(traces(forget_file))
    return Outcome(value={"bundle": str(done.bundle), "work": str(work), **done.summary}, text="\n".join(lines))


def gate_line(gate: dict[str, Any]) -> str:
    """One gate as a line of text."""
    shown = "not measured" if gate["value"] is None else f"{gate['value']:.4g}"
    word = "holds" if gate["passed"] else "open" if gate["inconclusive"] else "FAILS"
    return f"{word:<6}{gate['name']:<28}{shown:>10} {gate['comparison']} {gate['limit']:g}{gate['unit']} ({gate['detail']})"
