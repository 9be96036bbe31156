"""Networks of "somebody else" that do what the first check of `unplug adopt` is there for."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GROUPS = 13


class Usual(nn.Module):
    """Two convolutions, a mean and a head: what the others change one thing of."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 2, 1)
        self.head = nn.Linear(16, GROUPS)

    def trunk(self, x: Tensor) -> Tensor:
        return F.relu(self.b(F.relu(self.a(x)))).mean((2, 3))

    def forward(self, x: Tensor) -> Any:
        return self.head(self.trunk(x))


class InPlace(Usual):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x.mul_(2.0))


class ZeroHead(Usual):
    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)


class _Viewing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view(-1).view(ctx.shape)


class ViewsBackwards(Usual):
    """Only its gradient needs contiguous memory."""

    def forward(self, x: Tensor) -> Any:
        return self.head(F.relu(self.b(_Viewing.apply(F.relu(self.a(x))))).mean((2, 3)))


class Strided(Usual):
    """Raises nothing in channels-last memory: it answers otherwise."""

    def forward(self, x: Tensor) -> Any:
        x = F.relu(self.b(F.relu(self.a(x))))
        count, channels, height, width = x.shape
        size = height * width
        return self.head(
            torch.as_strided(x, (count, channels, size), (channels * size, size, 1)).mean(2)
        )


class Sigmoid(Usual):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).sigmoid()


class Tanh(Usual):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).tanh()


class LogSoftmax(Usual):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).log_softmax(1)


class SoftmaxLater(Usual):
    def forward(self, x: Tensor) -> Any:
        logits = super().forward(x)
        return logits if self.training else logits.softmax(1)


class SoftmaxFirst(Usual):
    def forward(self, x: Tensor) -> Any:
        logits = super().forward(x)
        return logits.softmax(1) if self.training else logits


def ends() -> None:
    raise SystemExit(3)


def talks() -> nn.Module:
    print("loading")
    return Usual()


class BatchStatistics(Usual):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(16, track_running_stats=False)

    def trunk(self, x: Tensor) -> Tensor:
        return F.relu(self.b(self.norm(self.a(x)))).mean((2, 3))


class MinusOthers(Usual):
    def trunk(self, x: Tensor) -> Tensor:
        found = super().trunk(x)
        return found - found.mean(0, keepdim=True)


class Dropping(Usual):
    def trunk(self, x: Tensor) -> Tensor:
        return F.dropout(super().trunk(x), 0.3)


class Remembers(Usual):
    """Answers alike at first, and changes what it will answer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(16))

    seen: Tensor

    def trunk(self, x: Tensor) -> Tensor:
        found = super().trunk(x)
        self.seen.lerp_(found.detach().mean(0), 0.1)
        return found


class Keeps(Usual):
    def trunk(self, x: Tensor) -> Tensor:
        self.kept = super().trunk(x)
        return self.kept


class NaNInTraining(Usual):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x) * (float("nan") if self.training else 1.0)


class Detached(Usual):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).detach()


class Lazy(Usual):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.LazyLinear(GROUPS)  # type: ignore[assignment]


class Later(Usual):
    def __init__(self) -> None:
        super().__init__()
        self.head = None  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Any:
        self.head = self.head or nn.Linear(16, GROUPS)
        return super().forward(x)


class OneSize(Usual):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16 * 12 * 12, GROUPS)

    def trunk(self, x: Tensor) -> Tensor:
        return F.relu(self.b(F.relu(self.a(x)))).flatten(1)


class Squeezed(Usual):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).squeeze()


class FourAtATime(Usual):
    def forward(self, x: Tensor) -> Any:
        return self.head(self.trunk(x).view(4, 16))


class Losses(Usual):
    def forward(self, x: Tensor) -> Any:
        logits = super().forward(x)
        return {"loss": logits.sum()} if self.training else logits


class Wide(Usual):
    def forward(self, x: Tensor) -> Any:
        logits = super().forward(x)
        return logits.repeat(1, 2) if self.training else logits


class Reads(Usual):
    """Rates out of a tensor, as networks with stochastic depth are often written."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]


class Half(Usual):
    def __init__(self) -> None:
        super().__init__()
        self.half()


class Frozen(Usual):
    def __init__(self) -> None:
        super().__init__()
        self.a.requires_grad_(False)


class Deviation(Usual):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x / x.std((1, 2, 3), keepdim=True))


class Shared(Usual):
    """Two layers of one weight, which a file holds once."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv2d(16, 16, 3, 2, 1)
        self.c.weight = self.b.weight

    def trunk(self, x: Tensor) -> Tensor:
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x)))))).mean((2, 3))


class NormBehind(Usual):
    """A batch norm behind the pooling: it cannot train on one picture."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def trunk(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(super().trunk(x))
        return found


class Auxiliary(Usual):
    def __init__(self) -> None:
        super().__init__()
        self.aux = nn.Linear(16, GROUPS)

    def forward(self, x: Tensor) -> Any:
        features = self.trunk(x)
        logits, aux = self.head(features), self.aux(features)
        return self.answer(logits, aux) if self.training else logits

    def answer(self, logits: Tensor, aux: Tensor) -> Any:
        return logits, aux


Named = namedtuple("Named", "logits aux")


class AuxiliaryNamed(Auxiliary):
    def answer(self, logits: Tensor, aux: Tensor) -> Any:
        return Named(logits, aux)


class AuxiliaryMapping(Auxiliary):
    def forward(self, x: Tensor) -> Any:
        features = self.trunk(x)
        return OrderedDict(aux=self.aux(features), out=self.head(features))


@dataclass
class Output:
    loss: Tensor | None
    logits: Tensor


class AuxiliaryOutput(Auxiliary):
    def answer(self, logits: Tensor, aux: Tensor) -> Any:
        return Output(loss=aux.mean(), logits=logits)
