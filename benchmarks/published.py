"""The face-landmark study that Google published of MediaPipe's plugins, with ours beneath it.

The two have neither base, pictures, judge nor machine in common; only rows of one study compare.
"""

from __future__ import annotations

from collections.abc import Sequence

from unplug.mobile_bench import Baselines

GPU, PHONE = "NVIDIA V100", "Samsung Galaxy S23"


def study_markdown(baselines: Baselines, ours: Sequence[str]) -> str:
    """One table: the published rows, then ours.

    Args:
        baselines: with the study's rows, each a model with its FID, CLIP similarity and seconds.
        ours: lines of a table: model, error of landmarks, Fréchet distance, prompt kept, seconds
            a picture, times the base's.

    Raises:
        StopIteration: the study lacks a number.
    """
    rows = [row for row in baselines.rows if row.series == "plugin" and row.unit != "ms"]
    models = list(dict.fromkeys(row.model for row in rows))

    def value(model: str, unit: str, device: str | None = None) -> float:
        return next(
            row.value or 0.0
            for row in rows
            if (row.model, row.unit, row.device) == (model, unit, device)
        )

    lines = []
    for model in models:
        gpu_s, phone_s = (value(model, "s", device) for device in (GPU, PHONE))
        gpu, phone = (
            seconds / value(models[0], "s", device)
            for seconds, device in ((gpu_s, GPU), (phone_s, PHONE))
        )
        lines.append(
            f"| published: {model.removeprefix(models[0]).strip() or model} | – | {value(model, 'FID'):.2f} | "
            f"CLIP {value(model, 'CLIP similarity'):.2f} | {gpu_s:.1f}, phone {phone_s:.1f} | "
            f"{gpu:.2f}×, phone {phone:.2f}× |"
        )
    head, rule, *measured = ours
    return "\n".join([head, rule, *lines, *(f"| ours: {line[2:]}" for line in measured)])
