"""The judge: a small classifier of synthetic faces, which gives features to the distances and reads
what prompts name.

Shapes: B batch, D features, A attributes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from unplug.core import atomic_path, sha256_file, use_cache
from unplug.plugins import ConvNormAct, init_weights, safetensors_errors
from unplug.sdk.drawing.diffusion import StepRecipe, train_steps
from unplug.sdk.evidence.concepts import posterior_means
from unplug.sdk.learning.data import Dataset, SynthSource, note_people, parse_spec
from unplug.sdk.learning.faces import attributes_of
from unplug.sdk.learning.training import StateFile, fingerprint, seeded

from .report import JudgeFacts
from .setup import Setup

ATTRIBUTES = (
    "age",
    "expression",
    "skin",
    "hair colour",
    "hair style",
    "eyes",
    "beard",
    "glasses",
    "clothes",
    "background colour",
    "background pattern",
)
NOT_NAMED = {"beard": "none", "glasses": "none"}
"""Words that no prompt says: it leaves such an attribute out."""
RECEDING = "receding "


def face_words(attributes: Mapping[str, str]) -> dict[str, str]:
    """A word for each attribute that a picture shows; a bald head has no hair colour.

    Args:
        attributes: as `unplug.sdk.learning.faces.FaceParams.attributes` gives them.

    Example:
        >>> words = face_words({"age": "adult", "background": "sky blue dots", "beard": "none", "clothes": "navy",
        ...     "skin": "fair", "eyes": "blue", "expression": "sad", "glasses": "none", "hair_colour": "red",
        ...     "hair_style": "receding afro"})
        >>> words["hair style"], words["background colour"], words["background pattern"]
        ('afro', 'sky blue', 'dots')
    """
    colour, _, pattern = attributes["background"].rpartition(" ")
    words = {
        name: attributes[name]
        for name in ("age", "expression", "skin", "eyes", "beard", "glasses", "clothes")
    }
    words |= {"background colour": colour, "background pattern": pattern}
    words["hair style"] = attributes["hair_style"].removeprefix(RECEDING)
    if words["hair style"] != "bald":
        words["hair colour"] = attributes["hair_colour"]
    return words


def named_words(words: Mapping[str, str]) -> dict[str, str]:
    """Those of `face_words` that the face's full prompt names.

    Example:
        >>> named_words({"age": "baby", "beard": "none", "glasses": "gold glasses"})
        {'age': 'baby', 'glasses': 'gold glasses'}
    """
    return {name: word for name, word in words.items() if word != NOT_NAMED.get(name)}


def words_of(dataset: Dataset) -> tuple[dict[str, str], ...] | None:
    """`face_words` of every sample in order, or None where the data has no attributes."""
    source = parse_spec(dataset.spec)
    if not isinstance(source, SynthSource):
        return None
    return tuple(
        face_words(attributes_of(source.params(sample.payload))) for sample in dataset.samples
    )


FEATURES = 192
"""D, in front of the heads."""
CELLS, CHANNELS = 8, 32
SIDE = 128
"""Larger pictures are averaged down to it."""
IGNORED = -100
BATCH = 64
"""Pictures that the judge takes at once."""
FORMAT = "unplug-judge/1"
Pixels = NDArray[np.uint8]
Agreement = dict[str, NDArray[np.float64]]
"""For each attribute (N,): 1 where it is read as wanted, 0 where another word is, NaN where none is
wanted.
"""


class Judge(nn.Module):
    """Faces to a word for each attribute: one trunk, one linear head an attribute.

    Plain convolutions instead of depthwise ones: on a CPU they train several times faster, and the
    judge never ships. The heads see where in the picture something is (eight by eight cells):
    clothes are at the bottom, hair is at the top.

    Args:
        words: the words of each attribute, in the order of their logits.

    Example:
        >>> Judge({"age": ("baby", "child"), "skin": ("fair",)})(torch.zeros(2, 3, 64, 64))["age"].shape
        torch.Size([2, 2])
    """

    def __init__(self, words: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.words = {name: tuple(options) for name, options in words.items()}
        self.body = nn.Sequential(
            nn.PixelUnshuffle(
                4
                # four by four pixels at once: the fine layers are most of the cost, and words need
                # few
            ),
            ConvNormAct(48, 64, kernel=1),
            ConvNormAct(64, 96, stride=2),
            ConvNormAct(96, 96),
            ConvNormAct(96, 128, stride=2),
            ConvNormAct(128, 128),
            ConvNormAct(128, CHANNELS, kernel=1),
            nn.AdaptiveAvgPool2d(CELLS),
            nn.Flatten(),
        )
        self.neck = nn.Sequential(
            nn.Linear(CHANNELS * CELLS**2, FEATURES), nn.BatchNorm1d(FEATURES), nn.ReLU()
        )
        self.heads = nn.ModuleList(
            nn.Linear(FEATURES, len(options)) for options in self.words.values()
        )
        self.apply(init_weights)

    def features(self, image_BCHW: Tensor) -> Tensor:
        """What the heads see (B, D), of RGB images in [0, 1]."""
        if image_BCHW.shape[-1] > SIDE:
            image_BCHW = F.adaptive_avg_pool2d(image_BCHW, SIDE)
        feature_BD: Tensor = self.neck(self.body(image_BCHW * 2.0 - 1.0))
        return feature_BD

    def read(self, feature_BD: Tensor) -> dict[str, Tensor]:
        """The logits (M, classes) of each attribute of M pictures."""
        return {name: head(feature_BD) for name, head in zip(self.words, self.heads, strict=True)}

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        """Logits of each attribute, of RGB images in [0, 1]."""
        return self.read(self.features(image_BCHW))


class JudgeLoss(nn.Module):
    """L = mean_a CE_a over the attributes that a face shows.

    Args:
        judge: what is trained.
    """

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge

    def forward(self, image_BCHW: Tensor, target_BA: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of a batch; the generator is for signatures that all trainings share."""
        logits = self.judge(image_BCHW)
        parts = [
            F.cross_entropy(one.float(), target_BA[:, index], ignore_index=IGNORED)
            for index, one in enumerate(logits.values())
            if bool((target_BA[:, index] != IGNORED).any())
        ]
        return torch.stack(parts).mean()


def vocabulary(
    words: Sequence[Mapping[str, str]], names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The words of each attribute that occur, sorted; attributes that never occur are left out."""
    known = {name: tuple(sorted({own[name] for own in words if name in own})) for name in names}
    return {name: options for name, options in known.items() if options}


def targets(
    words: Sequence[Mapping[str, str]], known: Mapping[str, Sequence[str]]
) -> NDArray[np.int64]:
    """Positions of the words (N, A); `IGNORED` where a face has no such attribute, or a word that
    is not known.
    """
    number = {
        name: {word: index for index, word in enumerate(options)} for name, options in known.items()
    }
    return np.array(
        [[number[name].get(own.get(name, ""), IGNORED) for name in known] for own in words],
        np.int64,
    )


class Faces:
    """Draws batches of faces, shifted by up to a sixteenth of their side; half the batches are
    mirrored.

    Args:
        images: (rows, S, S, 3) uint8. rows: which of them (N,). target_NA: their words. device:
            where they go.
    """

    def __init__(
        self,
        images: Pixels,
        rows: NDArray[np.int64],
        target_NA: NDArray[np.int64],
        device: torch.device,
    ) -> None:
        self.images, self.rows, self.device = images, rows, device
        self.target_NA = torch.from_numpy(target_NA)

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """``image_BCHW`` in [0, 1] and ``target_BA``."""
        index_B = torch.randint(len(self.rows), (count,), generator=generator)
        room = self.images.shape[1] // 16
        down, right, mirrored = (
            int(torch.randint(most, (1,), generator=generator))
            for most in (2 * room + 1, 2 * room + 1, 2)
        )
        image_BCHW = to_unit(np.array(self.images[self.rows[index_B.numpy()]]), self.device)
        padded = F.pad(image_BCHW, (room,) * 4, mode="replicate")
        side = image_BCHW.shape[-1]
        image_BCHW = padded[..., down : down + side, right : right + side]
        image_BCHW = image_BCHW.flip(3) if mirrored else image_BCHW
        return {
            "image_BCHW": image_BCHW.contiguous(memory_format=torch.channels_last),
            "target_BA": self.target_NA[index_B].to(self.device),
        }


def to_unit(pixels_NHWC: Pixels, device: torch.device) -> Tensor:
    """uint8 pixels as floats (N, 3, H, W) in [0, 1]."""
    return torch.from_numpy(pixels_NHWC).to(device).permute(0, 3, 1, 2).float().div_(255.0)


@torch.no_grad()
def examine(
    judge: Judge, pixels_NHWC: Pixels, device: torch.device
) -> tuple[NDArray[np.float64], dict[str, list[str]]]:
    """Features (N, D) of pictures, and the word read for each attribute (N each)."""
    judge.to(device).eval()
    features, read = [], dict[str, list[str]]({name: [] for name in judge.words})
    for start in range(0, len(pixels_NHWC), BATCH):
        feature_BD = judge.features(to_unit(np.array(pixels_NHWC[start : start + BATCH]), device))
        for name, logits_BK in judge.read(feature_BD).items():
            read[name] += [judge.words[name][int(index)] for index in logits_BK.argmax(dim=1)]
        features.append(feature_BD.double().cpu().numpy())
    return np.concatenate(features), read


def agreement(read: Mapping[str, Sequence[str]], wanted: Sequence[Mapping[str, str]]) -> Agreement:
    """Whether the words read in N pictures are those wanted, where one is."""
    return {
        name: np.array(
            [
                float(own[name] == word) if name in own else np.nan
                for word, own in zip(words, wanted, strict=True)
            ]
        )
        for name, words in read.items()
    }


def parameters(module: Any) -> int:
    """How many numbers a network holds."""
    return sum(parameter.numel() for parameter in module.parameters())


@dataclass(frozen=True, kw_only=True)
class TrainedJudge:
    """A judge and where it came from.

    Args:
        judge: in eval mode. sha256: of its weight file. samples: faces that it was trained on.
    """

    judge: Judge
    sha256: str
    samples: int


def train_judge(
    dataset: Dataset,
    words: Sequence[Mapping[str, str]],
    ids: Sequence[str],
    recipe: StepRecipe,
    *,
    device: torch.device,
    seed: int = 0,
    show: bool = True,
) -> TrainedJudge:
    """The judge of a data set, from the cache or into it; an unfinished training is continued.

    Args:
        dataset: faces.
        words: `face_words` of all its samples.
        ids: the faces that it may learn from: none that a generated picture is compared with.
        recipe: how.
        device: where to compute.
        seed: of weights and order.
        show: progress bar.
    """
    positions = dataset.indices(ids)
    own = [words[int(position)] for position in positions]
    known = vocabulary(own, ATTRIBUTES)
    key = fingerprint(
        format=FORMAT,
        data=dataset.digest,
        size=dataset.size,
        ids=list(ids),
        words=known,
        recipe=recipe.to_dict(),
        seed=seed,
    )
    path = use_cache() / "diffusion" / f"judge-{key[:32]}.safetensors"
    note_people(path, dataset.spec, [dataset.samples[int(position)] for position in positions])
    with seeded(seed, 41):
        judge = Judge(known)
    if not _load(judge, path, key):
        _fit(
            judge,
            dataset.images,
            dataset.rows[positions],
            targets(own, known),
            recipe,
            path,
            key,
            device,
            seed,
            show,
        )
    return TrainedJudge(judge=judge.eval(), sha256=sha256_file(path), samples=len(own))


def _load(judge: Judge, path: Path, key: str) -> bool:
    """Fills in the weights; False where the cache holds nothing whole (a truncated file is trained
    again).
    """
    if not path.is_file():
        return False
    try:
        with safe_open(path, framework="pt") as handle:
            if json.loads((handle.metadata() or {})["record"])["key"] != key:
                return False
            judge.load_state_dict({name: handle.get_tensor(name) for name in handle.keys()})  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError):
        return False
    return True


def _fit(
    judge: Judge,
    images: Pixels,
    rows: NDArray[np.int64],
    target_NA: NDArray[np.int64],
    recipe: StepRecipe,
    path: Path,
    key: str,
    device: torch.device,
    seed: int,
    show: bool,
) -> None:
    state = StateFile(path=path.with_suffix(".training"), fingerprint=f"{key}/{torch.__version__}")
    # A copy: another memory layout rounds otherwise, and the first call must read pictures as later
    # ones do.
    model = JudgeLoss(copy.deepcopy(judge).to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    done = train_steps(
        model,
        Faces(images, rows, target_NA, device),
        recipe,
        seed=seed,
        device=device,
        state=state,
        show=show,
        label="judge",
    )
    average: Any = done.model
    weights = {
        name: value.detach().cpu().contiguous()
        for name, value in average.judge.state_dict().items()
    }
    notes = {"key": key, "loss": done.history[-1]["loss"]}
    with atomic_path(path) as temporary, safetensors_errors(path):
        save_file(weights, temporary, metadata={"record": json.dumps(notes)})
    state.path.unlink(missing_ok=True)
    judge.load_state_dict(weights)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What pictures look like to a network: features for the distances, and words where the data
    names attributes.

    Args:
        name: of its features, for the report.
        judge: facts about the judge; None where the base's own autoencoder gives the features and
            no words are read.
        examine: pictures to features (N, D) and the word read for each attribute (N each).
        named: the words that the prompt of each source names.
    """

    name: str
    judge: JudgeFacts | None
    examine: Callable[[Pixels], tuple[NDArray[np.float64], dict[str, list[str]]]]
    named: Sequence[Mapping[str, str]] = ()

    def __call__(self, pictures_NHWC: Pixels) -> tuple[NDArray[np.float64], Agreement]:
        """Features (M, D) of pictures made from the sources, and whether their attributes are read
        as the prompts name them.
        """
        features, read = self.examine(pictures_NHWC)
        return features, agreement(read, self.named)

    def features(self, pictures_NHWC: Pixels) -> NDArray[np.float64]:
        """Features (N, D) of any pictures."""
        return self.examine(pictures_NHWC)[0]


def make_reader(setup: Setup) -> Reader:
    """The judge where the data names attributes, else the autoencoder."""
    dataset, device, words = setup.dataset, setup.device, words_of(setup.dataset)
    if words is None:
        return Reader(
            name="latents of the base's autoencoder (posterior means)",
            judge=None,
            examine=lambda pictures: (posterior_means(setup.base.vae, pictures, device), {}),
        )
    trained = train_judge(
        dataset,
        words,
        setup.split.retain,
        setup.request.judge_recipe,
        device=device,
        seed=setup.request.seed,
        show=setup.show,
    )
    named = [named_words(one) for one in words]
    return Reader(
        name=(
            "judge: the layer in front of the heads of a small attribute classifier trained on "
            "held-in faces"
        ),
        judge=_facts(setup, trained, named),
        examine=lambda pictures: examine(trained.judge, pictures, device),
        named=[named[int(position)] for position in dataset.indices(setup.sources.ids)],
    )


def _facts(setup: Setup, trained: TrainedJudge, named: Sequence[Mapping[str, str]]) -> JudgeFacts:
    """How well the judge reads real held-out faces."""
    held_out = setup.dataset.indices((*setup.sources.ids, *setup.others.ids))
    _, read = examine(trained.judge, setup.dataset.pixels(held_out), setup.device)
    right = {
        name: values[~np.isnan(values)]
        for name, values in agreement(read, [named[int(position)] for position in held_out]).items()
    }
    return JudgeFacts(
        sha256=trained.sha256,
        parameters=parameters(trained.judge),
        samples=trained.samples,
        steps=setup.request.judge.steps,
        held_out=len(held_out),
        accuracy={name: float(values.mean()) for name, values in right.items() if len(values)},
        overall=float(np.concatenate(list(right.values())).mean()),
    )
