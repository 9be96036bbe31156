"""Mean absolute error per age group, one line a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .canvas import COLOUR, LINE, MARK, canvas, finish, to_svg


@dataclass(frozen=True, kw_only=True)
class GroupLine:
    """MAE in years of one model per age group; None where a group is empty."""

    role: str
    label: str
    mae: Sequence[float | None]


def groups_svg(ages: Sequence[str], lines: Sequence[GroupLine], top: float, *, name: str, title: str) -> str:
    """Draws one set.

    Args:
        ages: name of each group.
        lines: one a model, each with one value a group.
        top: upper end of the shared axis, years.
        name: prefix of ids.
        title: of the panel.
    """
    with canvas(340, 250) as (figure, axes):
        for line in lines:
            axes.plot(
                range(len(ages)), [float("nan") if value is None else value for value in line.mae], color=COLOUR[line.role],
                linestyle=LINE[line.role], marker=MARK[line.role], markersize=4, linewidth=1.4,
            )  # fmt: skip
        axes.set(xlim=(-0.4, len(ages) - 0.6), ylim=(0.0, top))
        axes.set_xticks(range(len(ages)), labels=ages, rotation=45, ha="right", rotation_mode="anchor")
        axes.grid(axis="x", visible=False)
        finish(axes, title=title, x="age group (years)")
        return to_svg(figure, name, f"Mean absolute error in years per age group, {title}: {_spoken(ages, lines)}.")


def _spoken(ages: Sequence[str], lines: Sequence[GroupLine]) -> str:
    worst = []
    for line in lines:
        known = [(value, group) for value, group in zip(line.mae, ages, strict=True) if value is not None]
        if known:
            value, group = max(known)
            worst.append(f"{line.label} is worst at ages {group} with {value:.1f}")
    return "; ".join(worst) or "no group has samples"
