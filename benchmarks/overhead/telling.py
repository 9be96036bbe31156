"""What whole images with and without a control can tell: the interval of their paired differences,
or "cannot tell".
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.overhead.names import CONTROLNET
from unplug.core import Estimate
from unplug.mobile_bench import mean_interval

LIMIT_PERCENT = 0.2
"""The half of an interval, in percent of the base, up to which an adapter's overhead is told."""


def added_percent(given_R: Sequence[float], base_R: Sequence[float]) -> Estimate:
    """The mean over rounds of 100 (given - base) / base, with Student's interval at 95 %.

    A round's two images follow each other, so that what slows the machine for longer than a round
    leaves their ratio alone. No interval comes of one round.

    Args:
        given_R: seconds of an image with the control, one a round.
        base_R: seconds of the base's image of the same round.

    Raises:
        ValueError: the two have not as many rounds.

    Example:
        >>> found = added_percent([1.01, 2.06], [1.0, 2.0])
        >>> round(found.value, 3), round(found.low, 1), round(found.high, 1)
        (2.0, -10.7, 14.7)
    """
    return mean_interval(
        [100 * (given - base) / base for given, base in zip(given_R, base_R, strict=True)]
    )


def resolved(found: Estimate, control: str) -> bool:
    """Whether the interval supports the number.

    An adapter's must reach `LIMIT_PERCENT` to either side at most; a ControlNet costs so much that
    an interval above zero shows it.
    """
    if found.low is None or found.high is None:
        return False
    narrow = (found.high - found.low) / 2 <= LIMIT_PERCENT
    return narrow or (control == CONTROLNET and found.low > 0)


def told(found: Estimate, control: str) -> str:
    """The number with its interval, or that nobody can tell.

    Example:
        >>> told(added_percent([1.004, 1.0043, 1.0042], [1.0] * 3), "plugin")
        '+0.42 % (+0.38 to +0.45)'
        >>> told(added_percent([1.05, 1.09], [1.0, 1.0]), "plugin")
        'cannot tell (-18.41 to +32.41)'
        >>> told(added_percent([1.05], [1.0]), "plugin")
        'cannot tell'
    """
    ends = "" if found.ends is None else " ({:+.2f} to {:+.2f})".format(*found.ends)
    return f"{found.value:+.2f} %{ends}" if resolved(found, control) else f"cannot tell{ends}"
