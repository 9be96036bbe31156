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
from dataclasses import asdict, dataclass
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
"""Small, so that a faint pattern is learned; chosen on UTKFace among .0003 to 1."""
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
    group_N, theirs_M = _groups(dataset), None if like is None else _groups(like, dataset)
    taken = _drawn(group_N, group_N if theirs_M is None else theirs_M, rng)
    _check_enough(dataset, group_N[taken])
    ours = _asked(dataset, taken, group_N[taken], seed)
    chance = _asked(dataset, taken, rng.permutation(group_N[taken]), seed)
    clean: dict[str, _Asked] = {}
    if like is not None and theirs_M is not None:
        also = _drawn(theirs_M, group_N[taken], rng)
        clean = _asked(like, also, theirs_M[also], seed)
    rows = [
        SimpleProbe(
            name=name,
            right=one.share(seed),
            shuffled=chance[name].share(seed),
            like=clean[name].share(seed) if clean else None,
            more=_more(one, clean[name], seed) if clean else None,
        )
        for name, one in ours.items()
    ]
    best = np.argsort(-ours["thumbnails"].lead_N)[:BEST]
    return {
        "pictures": len(taken),
        "groups": len(np.unique(group_N[taken])),
        "left_out": len(dataset) - len(taken),
        "probes": [asdict(row) for row in rows],
        "verdict": _verdict(rows),
        "best": [dataset.ids[taken[place]] for place in best],
    }


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a classifier said of pictures of people that it never saw: whether it was right, and by
    how much the score of the true group leads the best other one.
    """

    hit_N: Array
    lead_N: Array
    person_N: NDArray[np.int64]

    def share(self, seed: int) -> Estimate:
        """How often it was right."""
        return mean_estimate(self.hit_N, self.person_N, seed)


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


def _asked(
    dataset: Dataset, index_N: NDArray[np.int64], group_N: NDArray[np.int64], seed: int
) -> dict[str, _Asked]:
    """Both classifiers, taught on four fifths of the people and asked about the others."""
    person_N = _people(dataset, index_N)
    groups, place_N = np.unique(group_N, return_inverse=True)
    target_NG, every = np.eye(len(groups))[place_N], np.arange(len(place_N))
    people = int(person_N.max()) + 1
    fold_N = (np.random.default_rng([seed, 5]).permutation(people) % FOLDS)[person_N]
    answers = {}
    for name, feature_NF in _features(dataset.pixels(index_N)).items():
        score_NG = np.zeros_like(target_NG)
        for fold in range(FOLDS):
            asked = fold_N == fold
            if asked.any() and not asked.all():
                score_NG[asked] = _ridge(feature_NF[~asked], target_NG[~asked], feature_NF[asked])
        hit_N = score_NG.argmax(axis=1) == place_N
        own_N = score_NG[every, place_N].copy()
        score_NG[every, place_N] = -np.inf
        answers[name] = _Asked(
            hit_N=hit_N.astype(np.float64), lead_N=own_N - score_NG.max(axis=1), person_N=person_N
        )
    return answers


def _ridge(x_NF: Array, y_NG: Array, asked_MF: Array) -> Array:
    """argmin |X W - Y|^2 / F + lam |W|^2 over standardized features, asked of others: (M, G)."""
    mean, spread = x_NF.mean(axis=0), x_NF.std(axis=0) + 1e-6
    scale = spread * np.sqrt(x_NF.shape[1])
    a, b, middle = (x_NF - mean) / scale, (asked_MF - mean) / scale, y_NG.mean(axis=0)
    solved: Array = np.linalg.solve(a.T @ a + RIDGE * np.eye(a.shape[1]), a.T @ (y_NG - middle))
    answer: Array = b @ solved + middle
    return answer


def _more(ours: _Asked, theirs: _Asked, seed: int) -> Estimate:
    """The difference of two shares, with an interval over the people of both."""
    means = []
    for number, item in enumerate((ours, theirs)):
        rng = np.random.default_rng([seed, 77, number])
        weights_RN = subject_weights(item.person_N, REPLICATES, rng)
        means.append((weights_RN @ item.hit_N) / weights_RN.sum(axis=1))
    return with_interval(float(ours.hit_N.mean() - theirs.hit_N.mean()), means[0] - means[1])


def _verdict(rows: list[SimpleProbe]) -> Verdict:
    """Without clean pictures, or where those are the simpler ones, nobody can tell."""
    ends = [(row.more.low, row.more.high) for row in rows if row.more is not None]
    if not ends or any(high is not None and high < -MARGIN for _, high in ends):
        return "cannot tell"
    if any(low is not None and low > MARGIN for low, _ in ends):
        return "simpler than clean pictures are"
    return "as on clean pictures"
