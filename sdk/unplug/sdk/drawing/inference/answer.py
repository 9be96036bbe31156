"""What a model answered: named arrays, what they mean where that is known, and a picture of them."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unplug.core import Array, InputError, IOSpec, TensorSpec, atomic_path, one_line

from .decision import Decision, over_probability
from .decision_record import DecisionRecord

LIKELIEST = 5
"""Classes that an answer lists."""
GAP = 4
"""White pixels between the pictures of `Answer.picture`."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The inputs and outputs of one run over N samples.

    Args:
        model: the model that ran: an exported file or a checkpoint folder.
        model_type: the model type of its card or configuration, say "age".
        iospec: its named tensors, images as NCHW.
        inputs, outputs: name to array of N samples.
        results: the results of an age predictor, one row per picture: ``image``, ``age`` in years,
            ``groups`` by falling probability and ``crop``, the part that was cut out. With a
            decision also ``decision``: ``age`` T, ``over`` P(age >= T) and the ``answer``. Of a
            classifier ``label``, its ``probability`` and the first ``labels`` in place of these.
            Empty for other models and for arrays.
        notes: caveats for readers of the results, say that nothing looked for a face.
        decision: the record of the decision that was asked for, or that the bundle carries.
        holds: whether that was fitted on this model; else no result has a decision.
    """

    model: str
    model_type: str
    iospec: IOSpec
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    results: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    decision: DecisionRecord | None = None
    holds: bool = False

    __repr__ = one_line

    def summary(self) -> list[dict[str, Any]]:
        """A row an output: name, shape, dtype, smallest, largest and mean value, and rms, the root
        of the mean square.
        """
        rows = []
        for name, array in self.outputs.items():
            wide = array.astype(np.float64)
            facts = {
                "min": wide.min(),
                "max": wide.max(),
                "mean": wide.mean(),
                "rms": np.sqrt(np.mean(wide**2)),
            }
            numbers = {key: float(value) for key, value in facts.items()}
            rows.append(
                {"name": name, "shape": list(array.shape), "dtype": str(array.dtype), **numbers}
            )
        return rows

    def picture(self) -> Image.Image:
        """One line a sample: the pictures among its inputs, then its outputs.

        An output in colour is shown as it is; any other map (C, H, W) by its energy sqrt(mean over
        C of r^2), white where it is largest in this sample.

        Raises:
            InputError: no output has a height and a width.
        """
        outputs = [spec for spec in self.iospec.outputs if _is_map(spec)]
        if not outputs:
            raise InputError(
                f"model of type {self.model_type}",
                "it gives no picture",
                "Give `out` a name that ends in .npz",
            )
        inputs = [spec for spec in self.iospec.inputs if _is_colour(spec)]
        side = max(max(spec.shape[2:]) for spec in (*inputs, *outputs))
        lines = [
            [
                _shown(spec, array[index], side)
                for specs, arrays in ((inputs, self.inputs), (outputs, self.outputs))
                for spec in specs
                for array in (arrays[spec.name],)
            ]
            for index in range(len(self.outputs[outputs[0].name]))
        ]
        return _sheet(lines, side)

    def save(self, out: str | Path) -> None:
        """Writes the outputs, atomically: NAME.npz holds the arrays, NAME.png is `picture`.

        Raises:
            InputError: another suffix, or a model that gives no picture.
            OutputError: it cannot be written.
        """
        path, buffer = Path(out), io.BytesIO()
        if path.suffix == ".npz":
            np.savez(buffer, **self.outputs)  # type: ignore[arg-type]  # numpy's stub takes a keyword for a switch
        elif path.suffix == ".png":
            self.picture().save(buffer, format="PNG")
        else:
            raise InputError(
                f"`out` {path}",
                "neither .npz (arrays) nor .png (a picture)",
                "Give it one of these ends",
            )
        with atomic_path(path) as temporary:
            temporary.write_bytes(buffer.getvalue())


def age_rows(
    outputs: dict[str, Array],
    edges: Sequence[float],
    images: Sequence[tuple[Path, str]],
    decision: Decision | None = None,
) -> list[dict[str, Any]]:
    """Expected age and group probabilities, and what is decided, a row a picture, see `Answer`.

    Args:
        outputs: ``age_logits`` (N, G) and ``expected_age`` (N, 1) in years.
        edges: G + 1 group borders in years.
        images: N files, each with what was cut out of it.
        decision: None decides nothing.

    Raises:
        InputError: the decision is about an age outside of the groups.
    """
    logits_NG, age_N = outputs["age_logits"], outputs["expected_age"].reshape(-1)
    rows: list[dict[str, Any]] = [
        {"image": str(path), "age": float(age), "groups": group_rows(logits_G, edges), "crop": crop}
        for (path, crop), logits_G, age in zip(images, logits_NG, age_N, strict=True)
    ]
    if decision is not None:
        over_N = over_probability(logits_NG, edges, decision.age)
        for row, over, answer in zip(rows, over_N.tolist(), decision.answers(over_N), strict=True):
            row["decision"] = {"age": decision.age, "over": over, "answer": answer}
    return rows


def group_rows(logits_G: Array, edges: Sequence[float]) -> list[dict[str, Any]]:
    """``ages`` and ``probability`` of each age group, by falling probability.

    Args:
        logits_G: the logits of G groups.
        edges: G + 1 group borders in years.
    """
    weights = np.exp(logits_G - logits_G.max())
    rows: list[dict[str, Any]] = [
        {"ages": f"{low:g}-{high:g}", "probability": float(probability)}
        for (low, high), probability in zip(
            itertools.pairwise(edges), weights / weights.sum(), strict=True
        )
    ]
    rows.sort(key=lambda row: row["probability"], reverse=True)
    return rows


def class_rows(logits_NG: Array, classes: Sequence[str]) -> list[dict[str, Any]]:
    """``label``, its ``probability`` and the `LIKELIEST` ``labels`` of each of N pictures.

    Example:
        >>> class_rows(np.log([[1.0, 3.0]]), ["cat", "dog"])[0]["probability"]
        0.75
    """
    rows = []
    for logits_G in logits_NG.astype(np.float64):
        weight_G = np.exp(logits_G - logits_G.max())
        order = np.argsort(-weight_G, kind="stable")[:LIKELIEST]
        labels = [
            {"label": classes[place], "probability": float(weight_G[place] / weight_G.sum())}
            for place in order
        ]
        rows.append({**labels[0], "labels": labels})
    return rows


def _is_map(spec: TensorSpec) -> bool:
    return spec.layout == "NCHW"


def _is_colour(spec: TensorSpec) -> bool:
    return _is_map(spec) and spec.shape[1] == 3 and spec.range is not None


def _shown(spec: TensorSpec, map_CHW: Array, side: int) -> Image.Image:
    if _is_colour(spec) and spec.range is not None:
        low, high = spec.range
        unit_HWC = ((map_CHW.astype(np.float64) - low) / (high - low)).transpose(1, 2, 0)
    else:
        energy_HW = np.sqrt(np.mean(map_CHW.astype(np.float64) ** 2, axis=0))
        unit_HWC = np.repeat((energy_HW / (energy_HW.max() or 1.0))[..., None], 3, axis=2)
    drawn = Image.fromarray((np.clip(unit_HWC, 0.0, 1.0) * 255.0).round().astype(np.uint8))
    return drawn.resize((side, side), Image.Resampling.NEAREST)


def _sheet(lines: Sequence[Sequence[Image.Image]], side: int) -> Image.Image:
    if len(lines) == len(lines[0]) == 1:
        return lines[0][0]
    step = side + GAP
    sheet = Image.new("RGB", (len(lines[0]) * step - GAP, len(lines) * step - GAP), "white")
    for row, line in enumerate(lines):
        for column, picture in enumerate(line):
            sheet.paste(picture, (column * step, row * step))
    return sheet
