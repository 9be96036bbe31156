"""What all predictors over one small picture share: a trunk of ours or a network of others, a
linear classifier, and how they are saved and loaded.

Shapes: B batch, C pooled channels, K answers, H = W = image_size.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from unplug.core import InputError, TensorSpec

from .adopted import Adopted, Normalized
from .adopted_trunk import AdoptedTrunk
from .age_sizes import ADOPTED, Size, check_written, size_of
from .blocks import ConvNormAct, InvertedBottleneck, init_weights, network_line
from .bounds import check_whole
from .checkpoint import WEIGHTS, find_checkpoint, load_checkpoint
from .model_spec import describe_weights

MAX_RANDOM_FEATURES = 4096


class PictureModel(nn.Module, PyTorchModelHubMixin, library_name="unplug-sdk"):
    """A trunk and a classifier of K answers over its pooled features, or a network of others whole.

    Attributes:
        model_type: key of `unplug.plugins.checkpoint.MODELS`.
        called: the name of the kind in a title, say "Face-age predictor".
        architecture: the name of the kind in the header of a weight file.
        group_word: what its groups are called.
        more: answers over random features besides one a group.
    """

    model_type: ClassVar[str]
    called: ClassVar[str]
    architecture: ClassVar[str]
    group_word: ClassVar[str]
    more: ClassVar[int] = 0

    def _keep(
        self,
        size: str,
        image_size: int,
        dropout: float,
        network: Mapping[str, Any] | None,
        random_features: int,
        own_answer: bool,
    ) -> None:
        """Checks and builds what every kind has; `InputError` names what is out of range."""
        _check_built(size, image_size, dropout, network, random_features)
        ours = network is None and bool(random_features)
        if not isinstance(own_answer, bool) or own_answer > ours:
            why = "true or false; true only of a trunk of ours under random features"
            raise InputError("own_answer", why, "Leave it out")
        self.size, self.image_size = size, image_size
        self.adopted = None if network is None else Adopted.from_dict(network)
        self.network: Normalized | AdoptedTrunk | None = None
        self.dropout = nn.Dropout(dropout)
        self.lift: nn.Linear | None = None
        self.own: nn.Linear | None = None
        if self.adopted is None:
            self._own(size_of(size), random_features, own_answer)
        elif self.adopted.tap is None:
            self.network = Normalized(self.adopted, self.groups)
        else:
            self._over(self.adopted.tap.channels, random_features)
            self.network = AdoptedTrunk(self.adopted)

    def _own(self, table: Size, random_features: int, own_answer: bool) -> None:
        """Trunk and classifier of ours."""
        stem_stride, *strides = table.strides_at(self.image_size)
        self.stem = ConvNormAct(3, table.stem, stride=stem_stride)
        channels, blocks = table.stem, []
        for stage, stride in zip(table.stages, strides, strict=True):
            for index in range(stage.blocks):
                blocks.append(
                    InvertedBottleneck(
                        channels,
                        stage.channels,
                        stride=stride if index == 0 else 1,
                        expand=stage.expand,
                        kernel=stage.kernel,
                        fused=stage.fused,
                    )
                )
                channels = stage.channels
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNormAct(channels, table.head, kernel=1)
        if own_answer:
            self.own = nn.Linear(table.head, self.groups)
        self._over(table.head + own_answer * self.groups, random_features)
        self.apply(init_weights)

    def _over(self, channels: int, random_features: int) -> None:
        """What stands over a trunk."""
        if random_features:
            self.lift = nn.Linear(channels, random_features)
        self.classifier = nn.Linear(
            random_features or channels, self.groups + self.more * (random_features > 0)
        )

    def __repr__(self) -> str:
        """One line: its size, its input, its groups and its parameters."""
        groups = f"{self.groups} {self.group_word}"
        return network_line(self, f"{self.size} at {self.image_size} px, {groups}")

    def answered(self, image_BCHW: Tensor) -> Tensor:
        """What the classifier, or the network of others, answers (B, K)."""
        if self.network is not None and self.lift is None:
            answer_BK: Tensor = self.network(image_BCHW)
            return answer_BK
        features_BC = self.pooled(image_BCHW)
        return self.classifier(  # type: ignore[no-any-return]
            self.dropout(features_BC)
            if self.lift is None
            else nn.functional.relu(self.lift(features_BC))
        )

    def pooled(self, image_BCHW: Tensor) -> Tensor:
        """The trunk's features (B, C), averaged over the picture, and its own answer after them
        where that is read; images as for `forward`.

        Raises:
            InputError: the network was adopted as a whole.
        """
        if self.network is None:
            return pooled(self, image_BCHW)
        if self.lift is None:
            what, why = "an adopted network", "its trunk is not known"
            raise InputError(what, why, "Adopt it with `--trunk`, or train one of our sizes")
        features_BC: Tensor = self.network(image_BCHW)
        return features_BC

    @property
    def answer_channels(self) -> int:
        """A, how many of the trunk's last features are its own answer."""
        if self.own is not None:
            return self.own.out_features
        return 2 * self.adopted.tap.answers if self.adopted and self.adopted.tap else 0

    @property
    @abstractmethod
    def groups(self) -> int:
        """G, the number of groups that have a logit."""

    @abstractmethod
    def answers(self) -> dict[str, Any]:
        """What of ``config.json`` says what the answers mean."""

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> str | None:
        """Hub-style save (``config.json`` + ``model.safetensors``) that also records the model
        type.
        """
        config = {
            "model_type": self.model_type,
            "size": self.size,
            "image_size": self.image_size,
            **self.answers(),
            "dropout": self.dropout.p,
            **({} if self.lift is None else {"random_features": self.lift.out_features}),
            **({} if self.own is None else {"own_answer": True}),
            **({} if self.adopted is None else {"network": self.adopted.to_dict()}),
        }
        self.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # safetensors views what layers share
        return super().save_pretrained(save_directory, config=config, **kwargs)

    def _save_pretrained(self, save_directory: Path) -> None:
        super()._save_pretrained(save_directory)
        describe_weights(
            save_directory / WEIGHTS,
            architecture=f"{self.architecture}-{self.size}",
            title=f"{self.called}, {self.size}, {self.image_size} px",
            resolution=f"{self.image_size}x{self.image_size}",
        )

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        subfolder: str = "",
        **hub: Any,
    ) -> Self:
        """Loads it in eval mode, from a folder or the hub; nothing of its files is trusted.

        huggingface_hub's own falls back to a pickle, and leaves missing tensors as they are.

        Args:
            pretrained_model_name_or_path: a folder, or the name of a repository on the hub.
            subfolder: the model's folder below it.
            hub: see `find_checkpoint`.

        Raises:
            CheckpointError: see `load_checkpoint`.
            InputError: an argument that is not known here.
        """
        folder = find_checkpoint(pretrained_model_name_or_path, WEIGHTS, subfolder=subfolder, **hub)
        model: Self = load_checkpoint(folder, expect=cls.model_type).model
        return model


def picture_spec(side: int, description: str) -> TensorSpec:
    """The one picture that a predictor takes, of a batch of one."""
    return TensorSpec(
        name="image",
        shape=(1, 3, side, side),
        layout="NCHW",
        range=(0.0, 1.0),
        colour="RGB",
        description=description,
    )


def pooled(trunk: Any, image_BCHW: Tensor) -> Tensor:
    """Features (B, C) of a network with ``stem``, ``blocks`` and ``head``, averaged over the
    picture; with ``own``, its probabilities of the groups come after them.
    """
    x_BCHW = trunk.head(trunk.blocks(trunk.stem(image_BCHW * 2.0 - 1.0)))
    # Pooling, not a mean over two axes: LiteRT's converter would transpose in front of that.
    feature_BC = nn.functional.adaptive_avg_pool2d(x_BCHW, 1).flatten(1)
    if trunk.own is None:
        return feature_BC
    return torch.cat([feature_BC, trunk.own(feature_BC).softmax(dim=1)], dim=1)


def _check_built(
    size: str,
    image_size: int,
    dropout: float,
    network: Mapping[str, Any] | None,
    random_features: int,
) -> None:
    if (size == ADOPTED) != (network is not None):
        raise InputError(
            f"size {size!r}",
            f"a network of others belongs to size {ADOPTED!r}, and only to it",
            "Adopt it again",
        )
    check_written("nano" if size == ADOPTED else size, image_size)
    check_whole("random_features", random_features, 0, MAX_RANDOM_FEATURES)
    if not 0.0 <= dropout <= 0.9:
        raise InputError(f"dropout {dropout}", "out of range", "Use 0 to 0.9")
    tapped = network is not None and "tap" in network
    if network is not None and (dropout or bool(random_features) != tapped):
        raise InputError(
            "an adopted network", "it has its own features and dropout", "Leave both at 0"
        )
