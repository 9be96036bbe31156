"""Whether something in the pixels of a data set can be learned by a model that is too simple to see
faces.

Shapes: N pictures, F features, G groups, H = W side in pixels.

Reference:
    Huang et al., Unlearnable Examples, 2021 (pictures with added noise that a network learns in place of
    faces); Yu et al., Availability Attacks Create Shortcuts, 2022 (such noise is linearly separable).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import Array, DataError, Estimate, counted
from unplug.plugins import AGE_EDGES
from unplug.sdk.learning.data import Dataset

from .statistics import REPLICATES, mean_estimate, subject_weights, with_interval

THUMBNAIL = 16
MOST, FEWEST = 2000, 100
"""Pictures that are looked at, and that a statement needs."""
FOLDS = 5
RIDGE = 0.003
"""Chosen on UTKFace: it tells patches of 4/255 behind JPEG from clean pictures best."""
MARGIN = 0.05
"""By how much more must be right, at the interval's lower end, before we say so."""
BEST = 20
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
Verdict = Literal["simpler than clean pictures are", "as on clean pictures", "cannot tell"]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """How often one simple classifier names the group of a picture that it never saw.

    Args:
        name: "thumbnails" or "statistics".
        right, shuffled, like: the share on the data, on the data with shuffled labels, and on clean
            pictures; the last is None without those.
        more: `right` minus `like`.
    """

    name: str
    right: Estimate
    shuffled: Estimate
    like: Estimate | None = None
    more: Estimate | None = None


def shortcuts(dataset: Dataset, like: Dataset | None = None, *, seed: int = 0) -> dict[str, Any]:
    """Compares two linear classifiers on a data set with the same on clean pictures.

    One sees the picture at 16 pixels, the other six numbers of texture and colour; both learn by
    ridge regression the age group, or the label, from four fifths of the people, and are asked about
    the others. Faces give the same share everywhere; noise that was added so that nothing can be
    learned gives more, as it says the group by itself.

    Args:
        dataset: pictures of at least 16 pixels with ages or labels; of more than 2,000 some are drawn.
        like: pictures known to be clean, of the same kind; as many are drawn of them.
        seed: the seed of draws and folds.

    Returns:
        ``pictures``, ``groups``, ``left_out`` (pictures in groups of fewer than five), a row a
        `Probe`, the ``verdict``, and ``best``: the pictures that the thumbnails explain best, by id,
        the first most.

    Raises:
        DataError: fewer than 100 pictures with an age or a label, fewer than two groups, pictures
            of fewer than 16 pixels, or clean pictures of another kind, or the same ones.

    Example:
        ``shortcuts(load_dataset("csv:faces.csv", 64), load_dataset("csv:clean.csv", 64))["verdict"]``
    """
    if like is not None:
        _check_like(dataset, like)
    rng = np.random.default_rng([seed, 1661])
    ours, group_N, left_out = _drawn(dataset, MOST, rng)
    person_N = _people(dataset, ours)
    shuffled_N = rng.permutation(group_N)
    mine = _features(dataset.pixels(ours))
    clean: dict[str, tuple[Array, NDArray[np.int64]]] = {}
    if like is not None:
        theirs, their_group_N, _ = _drawn(like, len(ours), rng)
        people = _people(like, theirs)
        for name, feature_NF in _features(like.pixels(theirs)).items():
            clean[name] = _hits(feature_NF, their_group_N, people, seed)[0], people
    rows, score_N = [], np.zeros(len(ours))
    for name, feature_NF in mine.items():
        hit_N, sure_N = _hits(feature_NF, group_N, person_N, seed)
        chance_N, _ = _hits(feature_NF, shuffled_N, person_N, seed)
        if name == "thumbnails":
            score_N = sure_N
        probe = Probe(
            name=name,
            right=mean_estimate(hit_N, person_N, seed),
            shuffled=mean_estimate(chance_N, person_N, seed),
        )
        if name in clean:
            probe = replace(
                probe,
                like=mean_estimate(*clean[name], seed),
                more=_more((hit_N, person_N), clean[name], seed),
            )
        rows.append(probe)
    return {
        "pictures": len(ours),
        "groups": len(np.unique(group_N)),
        "left_out": left_out,
        "probes": [asdict(row) for row in rows],
        "verdict": _verdict(rows),
        "best": [dataset.ids[ours[place]] for place in np.argsort(-score_N)[:BEST]],
    }


def _check_like(dataset: Dataset, like: Dataset) -> None:
    why = None
    if like.digest == dataset.digest:
        why = "they are the pictures that are looked at"
    elif like.classes != dataset.classes:
        why = "their labels are others"
    elif like.size != dataset.size:
        why = f"they have {like.size} pixels, not {dataset.size}"
    if why is not None:
        raise DataError(f"clean pictures {like.spec}", why, "Give others of the same kind")


def _drawn(
    dataset: Dataset, most: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Places and groups of pictures whose group has enough, and how many others there are."""
    if dataset.size < THUMBNAIL:
        why = f"its pictures have fewer than {THUMBNAIL} pixels"
        raise DataError(f"data {dataset.spec}", why, "Load larger ones")
    if dataset.classes:
        group_N = np.array([-1 if s.label is None else s.label for s in dataset.samples])
    else:
        edges = np.asarray(dataset.age_edges or AGE_EDGES)
        places = np.searchsorted(edges, dataset.ages, side="right") - 1
        group_N = np.where(np.isnan(dataset.ages), -1, np.clip(places, 0, len(edges) - 2))
    known = np.flatnonzero(group_N >= 0)
    index_N = np.sort(rng.permutation(known)[:most])
    groups, counts = np.unique(group_N[index_N], return_counts=True)
    enough = groups[counts >= FOLDS]
    kept = index_N[np.isin(group_N[index_N], enough)]
    if len(kept) < FEWEST or len(enough) < 2:
        why = f"{counted(len(kept), 'picture')} in {counted(len(enough), 'group')} of five or more"
        fix = f"Give {FEWEST} pictures in two groups"
        raise DataError(f"data {dataset.spec}", why, fix)
    return kept, group_N[kept], len(index_N) - len(kept)


def _people(dataset: Dataset, index_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each person; a picture of nobody in particular has one of its own."""
    names = [dataset.samples[row].subject or f"\0{row}" for row in index_N]
    return np.unique(names, return_inverse=True)[1]


def _features(image_NHWC: NDArray[np.uint8]) -> Mapping[str, Array]:
    """What the two classifiers see of pictures, (N, 768) and (N, 6)."""
    image = image_NHWC.astype(np.float32) / 255.0
    count, side = image.shape[:2]
    edges = np.linspace(0, side, THUMBNAIL + 1).astype(int)[:-1]
    sizes = np.diff(np.append(edges, side)).astype(np.float32)
    small = np.add.reduceat(np.add.reduceat(image, edges, axis=1), edges, axis=2)
    small /= (sizes[:, None] * sizes[None, :])[None, :, :, None]
    light = image @ LUMA
    bend = 4 * light[:, 1:-1, 1:-1] - light[:, :-2, 1:-1] - light[:, 2:, 1:-1]
    bend -= light[:, 1:-1, :-2] + light[:, 1:-1, 2:]
    numbers = (
        light.std(axis=(1, 2)),
        (image[..., 0] - image[..., 1]).mean(axis=(1, 2)),
        (image[..., 2] - light).mean(axis=(1, 2)),
        np.abs(np.diff(light, axis=1)).mean(axis=(1, 2)),
        np.abs(np.diff(light, axis=2)).mean(axis=(1, 2)),
        np.abs(bend).mean(axis=(1, 2)),
    )
    return {
        "thumbnails": small.reshape(count, -1).astype(np.float64),
        "statistics": np.stack(numbers, axis=1).astype(np.float64),
    }


def _hits(
    feature_NF: Array, group_N: NDArray[np.int64], person_N: NDArray[np.int64], seed: int
) -> tuple[Array, Array]:
    """Whether each picture's group was named by a classifier that never saw its person, and by how
    much its score leads the best other one.
    """
    groups, place_N = np.unique(group_N, return_inverse=True)
    target_NG = np.eye(len(groups))[place_N]
    people = int(person_N.max()) + 1
    fold_N = (np.random.default_rng([seed, 5]).permutation(people) % FOLDS)[person_N]
    score_NG = np.zeros_like(target_NG)
    for fold in range(FOLDS):
        asked = fold_N == fold
        if asked.any() and not asked.all():
            score_NG[asked] = _ridge(feature_NF[~asked], target_NG[~asked], feature_NF[asked])
    every = np.arange(len(place_N))
    own_N = score_NG[every, place_N].copy()
    hit_N = score_NG.argmax(axis=1) == place_N
    score_NG[every, place_N] = -np.inf
    return hit_N.astype(np.float64), own_N - score_NG.max(axis=1)


def _ridge(x_NF: Array, y_NG: Array, asked_MF: Array) -> Array:
    """argmin |X W - Y|^2 / F + lam |W|^2 over standardized features, asked of others: (M, G)."""
    mean, spread = x_NF.mean(axis=0), x_NF.std(axis=0) + 1e-6
    scale = spread * np.sqrt(x_NF.shape[1])
    a, b, middle = (x_NF - mean) / scale, (asked_MF - mean) / scale, y_NG.mean(axis=0)
    solved: Array = np.linalg.solve(a.T @ a + RIDGE * np.eye(a.shape[1]), a.T @ (y_NG - middle))
    answer: Array = b @ solved + middle
    return answer


def _more(
    ours: tuple[Array, NDArray[np.int64]], theirs: tuple[Array, NDArray[np.int64]], seed: int
) -> Estimate:
    """The difference of two shares, with an interval over the people of both."""
    means = []
    for number, (hit_N, person_N) in enumerate((ours, theirs)):
        rng = np.random.default_rng([seed, 77, number])
        weights_RN = subject_weights(person_N, REPLICATES, rng)
        means.append((weights_RN @ hit_N) / weights_RN.sum(axis=1))
    return with_interval(float(ours[0].mean() - theirs[0].mean()), means[0] - means[1])


def _verdict(rows: list[Probe]) -> Verdict:
    """ "cannot tell" without clean pictures, or where those are the simpler ones."""
    ends = [(row.more.low, row.more.high) for row in rows if row.more is not None]
    if not ends or any(high is not None and high < -MARGIN for _, high in ends):
        return "cannot tell"
    if any(low is not None and low > MARGIN for low, _ in ends):
        return "simpler than clean pictures are"
    return "as on clean pictures"
