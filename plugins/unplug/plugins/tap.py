"""Where the features of a network that was built elsewhere are read, and an ONNX file in the place
of such a network.

Shapes: B batch, C features, K answers, H = W side in pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError, require_modules

from .age_sizes import ONNX
from .bounds import check_whole

MAX_CHANNELS = 2048
"""With more, sums over them would no longer be exact in float64 (`ClosedForm`)."""
MAX_SIZE = 2**29
INPUT = "input"
"""After a layer's name and a colon: what goes into it."""


@dataclass(frozen=True, kw_only=True)
class Tap:
    """Where features are read.

    Args:
        layer: the layer whose output they are, or with ``:input`` after it what goes into it; of an
            ONNX file a tensor; empty for what the network answers.
        channels: C, 1 to 2,048.
        answers: K, the groups or classes of the network's own answer, which is read as well; 0
            leaves it out.
        logits: whether a softmax makes probabilities of that answer.
        size: the answers that a network of a package's list is built with; of an ONNX file its
            bytes.

    Raises:
        InputError: a value out of range.
    """

    layer: str = ""
    channels: int
    answers: int = 0
    logits: bool = True
    size: int = 0

    def __post_init__(self) -> None:
        check_whole("channels", self.channels, 1, MAX_CHANNELS)
        check_whole("answers", self.answers, 0, (self.channels - 1) // 2)
        check_whole("size", self.size, 0, MAX_SIZE)
        if not (isinstance(self.layer, str) and isinstance(self.logits, bool)):
            raise InputError("tap", "it is of another form", "Adopt the trunk again")


class OnnxGraph(nn.Module):
    """An ONNX file that lies among the weights as it is, run by ONNX Runtime on one thread: it has
    no gradient.

    Its outputs are the features and, where they are read, the answers.

    Args:
        size: the file's bytes.
    """

    graph: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("graph", torch.zeros(size, dtype=torch.uint8))
        self._session: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the session: a copy opens its own."""
        return {**self.__dict__, "_session": None}

    def _load_from_state_dict(self, *args: Any) -> None:
        self._session = None
        super()._load_from_state_dict(*args)

    @torch.no_grad()
    def forward(self, image_BCHW: Tensor) -> list[Tensor]:
        """The graph's outputs."""
        session = self._opened()
        given = image_BCHW.detach().float().cpu().contiguous().numpy()
        try:
            answers = session.run(None, {session.get_inputs()[0].name: given})
        except Exception as error:
            raise _refused(error) from error
        return [torch.from_numpy(answer).to(image_BCHW.device) for answer in answers]

    def _opened(self) -> Any:
        if self._session is None:
            require_modules(["onnxruntime"], ONNX)
            import onnxruntime

            options = onnxruntime.SessionOptions()
            # how sums are split among threads decides their last bits
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 4
            try:
                self._session = onnxruntime.InferenceSession(
                    self.graph.cpu().numpy().tobytes(), options, providers=["CPUExecutionProvider"]
                )
            except Exception as error:
                raise _refused(error) from error
        return self._session


def _refused(error: Exception) -> InputError:
    # in front are places in ONNX Runtime's own source
    why = f"ONNX Runtime refuses it: {' '.join(str(error).split())[-200:]}"
    return InputError("ONNX file", why, "Export it again, in operators that ONNX Runtime has")
