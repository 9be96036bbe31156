"""SCRUB: leave the teacher on the forget set, stay with it on the retain set, in turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from unplug.sdk.forgetting.tasks import Need

from ..descent import norms_fixed, plan
from ..distil import divergence, frozen, teach
from ..method import ForgetProblem
from ..settings import Stepped, check_range, within


@dataclass(frozen=True, kw_only=True)
class SCRUB(Stepped):
    """Rounds of max steps, -KL(theta_0 || theta; D_f), then min steps, alpha KL(theta_0 || theta;
    D_r) + gamma L(D_r).

    Only the first `max_rounds` of `rounds` have max steps, as many per min step as D_f is smaller
    than D_r (one pass over each in the paper). A budget of fewer min steps than rounds makes fewer
    rounds, in proportion. Max steps leave the running statistics of batch norm alone; the very
    first ones find hardly a gradient, since student and teacher agree.

    Args:
        alpha, gamma: weights of distillation and training loss, 0 to 100. Published: .5 and 1.
        temperature: the temperature of both divergences. Published: 2 to 4.
        rounds, max_rounds: the numbers of rounds, at least 1, max_rounds <= rounds. Published: 5
            epochs, 3 of them with max steps.
        lr: peak learning rate of a cosine. Published: SGD or Adam at 5e-4.
        batch_size: the batch size, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Kurmanji et al., Towards Unbounded Machine Unlearning, 2023, section 3, algorithm 1.
    """

    alpha: float = within(0.0, 100.0, 0.5)
    gamma: float = within(0.0, 100.0, 1.0)
    temperature: float = within(1e-3, 1e3, 2.0)
    rounds: int = within(1, 1000, 5)
    max_rounds: int = 3
    lr: float = 5e-4

    name = "scrub"
    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "labels", "class logits")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("scrub", 1, self.rounds, max_rounds=self.max_rounds)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns in place."""
        return self.in_rounds(model, problem)

    def in_rounds(
        self,
        model: nn.Module,
        problem: ForgetProblem,
        share: float = 1.0,
        on_round: Callable[[], None] | None = None,
    ) -> nn.Module:
        """All rounds, on a share of the budget; `on_round` is called at the end of each."""
        teacher = frozen(model)
        retain, forget = (
            problem.batches(data, self.batch_size) for data in (problem.retain, problem.forget)
        )
        # max steps a min step
        ratio = len(problem.forget) * retain.size / (len(problem.retain) * max(1, forget.size))
        left = plan(problem, 4.0 * retain.size, share)
        kinds = longest(left, ratio, forget.size / retain.size, self.rounds, self.max_rounds)
        steps = iter("".join(kinds))
        ends = set(itertools.accumulate(map(len, kinds)))

        def loss() -> Tensor:
            rising = next(steps) == "+"
            batch = next(forget if rising else retain)
            taught_BG = teach(problem, teacher, batch)
            if rising:
                with norms_fixed(model):
                    student_BG = problem.logits(model, batch)
                return -divergence(student_BG, taught_BG, self.temperature).mean()
            outputs = problem.outputs(model, batch)
            kept = divergence(problem.task.logits(outputs), taught_BG, self.temperature).mean()
            return self.alpha * kept + self.gamma * problem.task.loss(model, outputs, batch).mean()

        def after(step: int) -> None:
            if step + 1 in ends and on_round is not None:
                on_round()

        return self.descend(model, problem, loss, max(ends), on_step=after)


def turns(steps: int, ratio: float, rounds: int, rising: int) -> list[str]:
    """One text a round: a + for each step up, then a - for each step down.

    Args:
        steps: down, in all, at least 1; fewer than `rounds` make fewer rounds.
        ratio: steps up for each step down of a round that has some; at least one.
        rounds: the number of rounds, at least 1.
        rising: how many of the rounds, from the first on, have steps up.

    Example:
        >>> turns(10, 0.5, rounds=5, rising=3)
        ['+--', '+--', '+--', '--', '--']
        >>> turns(1, 0.5, rounds=5, rising=3)
        ['+-']
    """
    count = min(rounds, steps)
    first = max(1, round(count * rising / rounds))
    kinds = []
    for number in range(count):
        down = (number + 1) * steps // count - number * steps // count
        up = max(1, round(ratio * down)) if number < first else 0
        kinds.append("+" * up + "-" * down)
    return kinds


def longest(left: int, ratio: float, price: float, rounds: int, rising: int) -> list[str]:
    """The most `turns` that cost no more than `left` steps down; one step each way where even those
    cost more.

    Args:
        left: steps down that the budget covers.
        price: the price of a step up, in steps down.
        ratio, rounds, rising: see `turns`.
    """
    for steps in range(left, 1, -1):
        kinds = turns(steps, ratio, rounds, rising)
        if steps + price * "".join(kinds).count("+") <= left:
            return kinds
    return turns(1, ratio, rounds, rising)
