"""Whether something in the pixels of a data set can be learned by a model that is too simple to see
faces.

Shapes: N pictures, F features, G groups, H = W side in pixels.

Reference:
    Huang et al., Unlearnable Examples, 2021 (pictures with added noise that a network learns in
    place of faces); Yu et al., Availability Attacks Create Shortcuts, 2022 (such noise is linearly
    separable).
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
"""Chosen on UTKFace: it tells patches of 4/255, after JPEG, from clean pictures best."""
MARGIN = 0.05
"""By how much more must be right, at the interval's lower end, before we say so."""
BEST = 20
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
Verdict = Literal["simpler than clean pictures are", "as on clean pictures", "cannot tell"]


@dataclass(frozen=True, kw_only=True)
class SimpleProbe:
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
    ridge regression the age group, or the label, from four fifths of the people, and are asked
    about the others. Faces give the same share everywhere; noise that was added so that nothing can
    be learned gives more, as it says the group by itself.

    Args:
        dataset: pictures of at least 16 pixels with ages or labels; at most 2,000 are looked at.
        like: pictures known to be clean, of the same kind; as many of each group are drawn of both.
        seed: the seed of draws and folds.

    Returns:
        ``pictures``, ``groups``, ``left_out`` (pictures that were not looked at), ``probes`` (a
        `SimpleProbe` each), the ``verdict``, and ``best``: the pictures that the thumbnails explain
        best, by id, the first most.

    Raises:
        DataError: fewer than 100 pictures, or than two groups of five, that both have; pictures of
            fewer than 16 pixels; clean pictures of another kind, or the same ones.

    Example:
        ``shortcuts(load_dataset("csv:a.csv", 64), load_dataset("csv:clean.csv", 64))["verdict"]``
    """
    rng = np.random.default_rng([seed, 1661])
    group_N = _groups(dataset)
    taken = _drawn(group_N, group_N if like is None else _groups(like, dataset), rng)
    _check_enough(dataset, group_N[taken])
    person_N, chosen_N = _people(dataset, taken), group_N[taken]
    shuffled_N = rng.permutation(chosen_N)
    clean: dict[str, tuple[Array, NDArray[np.int64]]] = {}
    if like is not None:
        theirs_N = _groups(like, dataset)
        theirs = _drawn(theirs_N, chosen_N, rng)
        people = _people(like, theirs)
        for name, feature_NF in _features(like.pixels(theirs)).items():
            clean[name] = _hits(feature_NF, theirs_N[theirs], people, seed)[0], people
    rows, score_N = [], np.zeros(len(taken))
    for name, feature_NF in _features(dataset.pixels(taken)).items():
        hit_N, sure_N = _hits(feature_NF, chosen_N, person_N, seed)
        chance_N, _ = _hits(feature_NF, shuffled_N, person_N, seed)
        if name == "thumbnails":
            score_N = sure_N
        probe = SimpleProbe(
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
        "pictures": len(taken),
        "groups": len(np.unique(chosen_N)),
        "left_out": len(dataset) - len(taken),
        "probes": [asdict(row) for row in rows],
        "verdict": _verdict(rows),
        "best": [dataset.ids[taken[place]] for place in np.argsort(-score_N)[:BEST]],
    }


def _groups(dataset: Dataset, beside: Dataset | None = None) -> NDArray[np.int64]:
    """The age group or label of each picture (N,), -1 where nobody said one."""
    why = None
    if dataset.size < THUMBNAIL:
        why = f"its pictures have fewer than {THUMBNAIL} pixels"
    elif beside is not None and dataset.digest == beside.digest:
        why = "they are the pictures that are looked at"
    elif beside is not None and dataset.classes != beside.classes:
        why = "its labels are others"
    elif beside is not None and dataset.size != beside.size:
        why = f"it has {dataset.size} pixels, not {beside.size}"
    if why is not None:
        raise DataError(f"data {dataset.spec}", why, "Give others of the same kind")
    if dataset.classes:
        return np.array([-1 if item.label is None else item.label for item in dataset.samples])
    edges = np.asarray((beside or dataset).age_edges or AGE_EDGES)
    place_N = np.clip(np.searchsorted(edges, dataset.ages, side="right") - 1, 0, len(edges) - 2)
    return np.where(np.isnan(dataset.ages), -1, place_N)


def _drawn(
    group_N: NDArray[np.int64], other_M: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Places of pictures, as many of each group as the other set has too: more pictures, or fewer
    groups, would be more often right.
    """
    order_N = rng.permutation(np.flatnonzero(group_N >= 0))
    counts = np.bincount(other_M[other_M >= 0], minlength=int(group_N.max(initial=0)) + 1)
    kept = [
        order_N[group_N[order_N] == group][: counts[group]] for group in np.unique(group_N[order_N])
    ]
    enough = [part for part in kept if len(part) >= FOLDS]
    taken = np.concatenate([*enough, np.zeros(0, np.int64)])
    return np.sort(rng.permutation(taken)[:MOST])


def _check_enough(dataset: Dataset, group_N: NDArray[np.int64]) -> None:
    groups = len(np.unique(group_N))
    if len(group_N) < FEWEST or groups < 2:
        many = counted(len(group_N), "picture")
        why = f"{many} to compare in {counted(groups, 'group')} of five or more"
        fix = f"Give {FEWEST} pictures in two groups, with an age or a label"
        raise DataError(f"data {dataset.spec}", why, fix)


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


def _verdict(rows: list[SimpleProbe]) -> Verdict:
    """Without clean pictures, or where those are the simpler ones, nobody can tell."""
    ends = [(row.more.low, row.more.high) for row in rows if row.more is not None]
    if not ends or any(high is not None and high < -MARGIN for _, high in ends):
        return "cannot tell"
    if any(low is not None and low > MARGIN for low, _ in ends):
        return "simpler than clean pictures are"
    return "as on clean pictures"
