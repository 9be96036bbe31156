"""How one control came about: its rates, its cost, its validation loss on the way, and whether that
was flat at the end.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """How far a training was.

    Args:
        step: of the optimizer.
        wall_s: seconds since it started, without those in which it was measured.
        validation: loss on the validation set of the weights averaged until then.
    """

    step: int
    wall_s: float
    validation: float


LEARNED = 0.02
"""Share of the base's loss that a training must have taken off to be said to have learned anything.
"""
FLAT = 0.05
"""A loss is called flat where no more than this share of all that was gained came in the last third
of the steps.
"""


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training of a control.

    Args:
        seed: of weights, order and noise.
        lr: peak learning rate.
        wall_s: seconds that it took.
        loss: of its last steps.
        validation: its loss on the validation set, by which one of several learning rates is taken;
            null without such a set.
        device: it ran on.
        sha256: of the weights.
        stored: type of the numbers in the weight file, as safetensors names it.
        given: it was trained before and passed in.
        steps: of the optimizer; null in files of before they were kept.
        zero_rate: factor on the learning rate of kernels that start at zero.
        curve: the validation loss on the way, the start first; empty where it was not measured.
    """

    seed: int
    lr: float
    wall_s: float
    loss: float
    validation: float | None
    device: str
    sha256: str
    stored: str
    given: bool
    steps: int | None = None
    zero_rate: float = 1.0
    curve: tuple[CurvePoint, ...] = ()

    @property
    def late_gain(self) -> float | None:
        """Share of what the validation loss lost over the training that it lost in the last third.

        Null without a curve, and where less than `LEARNED` of it was lost at all.

        A learning rate that falls to nothing flattens any curve at its end, so a share of a few
        percent says that these steps were used up, and not that more of them would have gained
        nothing.

        Example:
            >>> points = [CurvePoint(step=step, wall_s=0.0, validation=loss) for step, loss in ((0, 1.0), (60, 0.6), (90, 0.5))]
            >>> made = Training(seed=0, lr=1.0, wall_s=0.0, loss=0.0, validation=None, device="", sha256="", stored="F32",
            ...                 given=False, curve=tuple(points))
            >>> round(made.late_gain, 3)
            0.2
        """
        if len(self.curve) < 3:
            return None
        start, end = self.curve[0].validation, self.curve[-1].validation
        before = next(
            point.validation
            for point in reversed(self.curve)
            if point.step <= 2 / 3 * self.curve[-1].step
        )
        return None if start - end < LEARNED * start else (before - end) / (start - end)

    @property
    def converged(self) -> bool | None:
        """Whether the loss was flat at the end (`FLAT`); null without a curve. What gained nothing
        has not converged.
        """
        if len(self.curve) < 3:
            return None
        return self.late_gain is not None and self.late_gain <= FLAT
