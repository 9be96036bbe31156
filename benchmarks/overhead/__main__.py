"""`make bench`: what steering costs at real size, seconds per image and percent of the bare base.

``python -m benchmarks.overhead --out FILE.json`` times a base of Stable Diffusion 1.5's shape
(512×512, random weights) alone, with a ControlNet, with T2I-Adapters and with our plugin. With a
GPU: ``python -m benchmarks.overhead --device cuda --rounds 5 --out overhead-gpu.json``.

A plugin adds less than a thousandth of an image's time; a step of seconds varies by percents from
one time to the next. A difference of two such times shows nothing (many in turn can, see
`benchmarks.overhead.paired`), so what is added is measured by itself and divided by the base's
time:

- the plugin's (adapter's) single run, with the strength's product and the copy for guidance, caches
  overwritten before it;
- what every step adds, on tensors of exactly the shapes of the base: diffusers clones each
  residual, for one of its additions is in place, and its UNet adds them. So many copies are worked
  through in turn (a gigabyte on a CPU, a quarter on a GPU) that none is still in a cache, as none
  is after the gigabytes of weights of a real step; and one clone alone would time the clock.

Two checks stand beside it. The difference between whole steps (on a GPU whole images) with and
without residuals: its spread is its error, and it would show what the pieces missed. On a CPU also
the clones and additions timed where they happen, inside the UNet's step. A ControlNet adds so much
that the difference itself is its overhead. On a CPU the processor's own time is kept beside the
clock's, and rows computed from it: on a machine shared with others it is the steadier one.

Counted: denoising steps with guidance and scheduler (DDIM, one evaluation of the UNet a step) and
    the VAE's decoder. Not
counted: text encoder, drawing the condition (face landmarks, edges), loading, turning the image
    into a file; leaving them out
makes the overhead larger, not smaller. On a CPU an image is extrapolated from single steps
(`--whole` runs it to its end); on a GPU every image is run. A round measures everything once, A B C
A B C; the range over rounds is the interval that is shown.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import psutil
import torch
from click.core import ParameterSource

from benchmarks.overhead.cold import Cold
from benchmarks.overhead.measure import batch_name, measure
from benchmarks.overhead.names import BARE, DECODER
from benchmarks.overhead.parts import QUICK, SD15, Size, build, parameters
from benchmarks.overhead.report import PROCESSOR, budget, digits, markdown, rows, span, spread
from benchmarks.overhead.work import pieces, residual_shapes, single_steps, whole_images
from unplug.core import InputError, versions, write_json
from unplug.core import installed_versions as installed
from unplug.sdk.learning.training import describe_device, pick_device

SCHEMA = "unplug-overhead/1"
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
DEFAULT_DTYPES = {"cpu": ("fp32",), "cuda": ("fp16", "bf16")}
COLD_BYTES = {"cpu": 2**30, "cuda": 2**28}  # more than the last-level cache of what it may run on
COUNTED = (
    "denoising steps with guidance and scheduler, one decoding by the VAE; the control's single "
    "run or its run at every step"
)
NOT_COUNTED = "text encoder, making the condition image, loading, conversion to a file"


def run_one(
    size: Size,
    device: torch.device,
    dtype: str,
    rounds: int,
    *,
    whole: bool,
    check: bool,
    cold_bytes: int,
) -> dict[str, Any]:
    """Builds everything, measures it and computes the rows."""
    load = psutil.getloadavg()[0]
    base, controls = build(size, device, DTYPES[dtype])
    cold = Cold(residual_shapes(base, controls), cold_bytes, device, DTYPES[dtype])
    works = pieces(base, controls, cold)
    works += (
        whole_images(base, controls, size.steps)
        if whole
        else single_steps(base, controls, check=check)
    )
    label = f"{device.type} {dtype}"
    samples = measure(
        works, rounds, device, cold.sweep, tell=lambda line: click.echo(f"{label} {line}", err=True)
    )
    side = base.latents_1CHW.shape[-1]
    run: dict[str, Any] = {
        "device": device.type,
        "machine": describe_device(device),
        "threads": torch.get_num_threads(),
        "dtype": dtype,
        "cuda": torch.version.cuda,
        "load_average": {"before": load, "after": psutil.getloadavg()[0]},
        "size": size.name,
        "steps": size.steps,
        "image": [8 * side, 8 * side],
        "parameters": parameters(base, controls),
        "rounds": rounds,
        "extrapolated": not whole,
        "cold_bytes": cold_bytes,
        "residual_copies": cold.copies,
        "samples": [asdict(sample) for sample in samples],
    }
    run["rows"] = rows(run)
    run["rows_by_processor_time"] = None if device.type == "cuda" else rows(run, PROCESSOR)
    run["budget"] = [] if size is QUICK else budget(run)
    return run


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON file.")
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), multiple=True, help="[default: all there are]"
)
@click.option(
    "--dtype",
    type=click.Choice(sorted(DTYPES)),
    multiple=True,
    help="[default: fp32 on CPU, fp16 and bf16 on CUDA]",
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--whole/--extrapolate", default=None, help="Run every image to its end.  [default: on CUDA]"
)
@click.option(
    "--check/--no-check",
    default=True,
    help="Time single steps with residuals and with the ControlNet as well.",
)
@click.option(
    "--quick", is_flag=True, help="A shrunk base: shows that it runs; its numbers mean nothing."
)
@click.pass_context
def main(
    ctx: click.Context,
    out: Path,
    device: tuple[str, ...],
    dtype: tuple[str, ...],
    rounds: int,
    whole: bool | None,
    check: bool,
    quick: bool,
) -> None:
    """Measures, prints a table and writes every time."""
    runs = []
    for kind in device or ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        try:
            place = pick_device(kind)
        except InputError as error:
            raise click.UsageError(str(error)) from error
        for name in dtype or DEFAULT_DTYPES[kind]:
            run = run_one(
                QUICK if quick else SD15,
                place,
                name,
                rounds,
                whole=kind == "cuda" if whole is None else whole,
                check=check,
                cold_bytes=2**20 if quick else COLD_BYTES[kind],
            )
            runs.append(run)
            click.echo(summary(run))
            write_json(
                out,
                {
                    "schema": SCHEMA,
                    "command": command_of(ctx),
                    "counted": COUNTED,
                    "not_counted": NOT_COUNTED,
                    "runs": runs,
                    "versions": versions() | installed(("diffusers", "transformers")),
                },
            )
    click.echo(f"raw numbers: {out}")


def summary(run: dict[str, Any]) -> str:
    """What is printed: the table, then the pieces, the checks and the budget."""
    rounds = next(sample["seconds"] for sample in run["samples"] if sample["part"] == "decode")
    decoder = f"{run['parameters'][DECODER] / 1e6:.1f} M"
    lines = [
        markdown({"runs": [run]}),
        "",
        f"decoding ({decoder}): {span(spread([each[0] for each in rounds]))} s",
    ]
    lines += [
        _pieces(row)
        for row in run["rows"]
        if row["steps"] == max(run["steps"]) and row["control"] != BARE
    ]
    for held in run["budget"]:
        verdict = "met" if held["met"] else "not met"
        lines.append(
            f"budget, {batch_name(held['guidance'])}, by {held['clock']}: "
            f"{span(held['percent'])} % of at most "
            f"{held['limit_percent']:g} %: {verdict}; without diffusers' clones "
            f"{span(held['without_clones_percent'])} %"
        )
    return "\n".join(lines)


def _pieces(row: dict[str, Any]) -> str:
    shares = [
        ("work", row["work_percent"]),
        ("difference", row["difference_percent"]),
        ("in situ", row["in_situ_percent"]),
    ]
    told = "; ".join(f"{name} {span(value)} %" for name, value in shares if value is not None)
    once_ms, each_ms = (1e3 * row[name]["median"] for name in ("once_s", "each_step_s"))
    return (
        f"{row['control']}, {batch_name(row['guidance'])}: once {digits(once_ms)} ms, each step "
        f"{digits(each_ms)} ms; "
        f"of {row['steps']} steps: {told}"
    )


def command_of(ctx: click.Context, module: str = "benchmarks.overhead") -> str:
    """The command that makes the file again, without this machine's folders."""
    words = ["python", "-m", module]
    for option in ctx.command.params:
        if (
            option.name is None
            or ctx.get_parameter_source(option.name) is not ParameterSource.COMMANDLINE
        ):
            continue
        value = ctx.params[option.name]
        if isinstance(value, bool):
            words.append((option.opts if value else option.secondary_opts)[0])
            continue
        for part in value if isinstance(value, tuple) else (value,):
            words += [option.opts[0], part.name if isinstance(part, Path) else str(part)]
    return " ".join(words)


if __name__ == "__main__":
    main()
