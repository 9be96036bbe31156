"""Rounds of steps up and down in turns, as many as a budget covers."""

from __future__ import annotations


def turns(steps: int, ratio: float, rounds: int, rising: int) -> list[str]:
    """One text a round: a + for each step up, then a - for each step down.

    Args:
        steps: down, in all, at least 1; fewer than `rounds` make fewer rounds.
        ratio: steps up for each step down of a round that has some; at least one.
        rounds: at least 1.
        rising: how many of the rounds, from the first on, have steps up.

    Example:
        >>> turns(10, 0.5, rounds=5, rising=3)
        ['+--', '+--', '+--', '--', '--']
        >>> turns(1, 0.5, rounds=5, rising=3)
        ['+-']
    """
    count = min(rounds, steps)
    first = max(1, round(count * rising / rounds))
    found = []
    for number in range(count):
        down = (number + 1) * steps // count - number * steps // count
        found.append("+" * (max(1, round(ratio * down)) if number < first else 0) + "-" * down)
    return found


def longest(left: int, ratio: float, price: float, rounds: int, rising: int) -> list[str]:
    """The most `turns` that cost no more than `left` steps down; one step each way where even those cost more.

    Args:
        left: steps down that the budget covers.
        price: of a step up, in steps down.
        ratio, rounds, rising: see `turns`.
    """
    for steps in range(left, 1, -1):
        found = turns(steps, ratio, rounds, rising)
        if steps + price * sum(text.count("+") for text in found) <= left:
            return found
    return turns(1, ratio, rounds, rising)
