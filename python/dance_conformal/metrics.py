"""Metrics of prediction sets.

Sets are booleans, one row per point and one column per class. True labels are column numbers, or members of ``classes``
where that is given. Shares are between 0 and 1; violations are in per cent.

>>> import numpy as np
>>> sets = np.array([[True, False], [True, True], [False, False]])
>>> round(coverage([0, 1, 1], sets), 3), size(sets), round(report([0, 1, 1], sets, 0.1).class_violation, 6)
(0.667, 1.0, 25.0)
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from .inputs import Label, as_labels
from .results import ClassMetrics, Rows, SetMetrics

__all__ = ["ccv", "ccv_floor", "class_coverage", "coverage", "empty", "report", "size", "sscv"]


def report(
    y: ArrayLike,
    sets: ArrayLike,
    alpha: float,
    *,
    classes: ArrayLike | None = None,
    prediction: ArrayLike | None = None,
) -> SetMetrics:
    """Returns every metric; ``prediction`` are a classifier's labels, for ``accuracy``.

    Compare ``class_violation`` (CCV) with ``class_violation_floor``, its mean at perfect coverage. Labels that are not among
    ``classes`` are never covered.

    >>> report([0, 1], [[True, True], [False, True]], 0.1, prediction=[0, 0]).accuracy
    0.5
    """
    mask = _mask(sets)
    codes, extra = _codes(y, mask.shape, classes)
    if extra:
        mask = np.hstack([mask, np.zeros((len(mask), extra), bool)])
    numbers = None if prediction is None else _codes(prediction, mask.shape, classes)[0]
    return SetMetrics(**json.loads(_native.set_metrics(mask, codes, float(alpha), numbers)))


def coverage(y: ArrayLike, sets: ArrayLike, *, classes: ArrayLike | None = None) -> float:
    """Returns the share of sets with the true label.

    >>> coverage([0, 1], [[True, True], [True, False]])
    0.5
    """
    return report(y, sets, 0.5, classes=classes).coverage


def size(sets: ArrayLike) -> float:
    """Returns the mean number of labels in a set.

    >>> size([[True, True], [True, False]])
    1.5
    """
    return float(_mask(sets).sum(axis=1).mean())


def empty(sets: ArrayLike) -> float:
    """Returns the share of empty sets.

    >>> empty([[True, True], [False, False]])
    0.5
    """
    return float((~_mask(sets).any(axis=1)).mean())


def ccv(y: ArrayLike, sets: ArrayLike, alpha: float, *, classes: ArrayLike | None = None) -> float:
    """Returns the class-conditional coverage violation: 100 times the mean over classes of ``|coverage - (1 - alpha)|``.

    Sets of every label score ``100 * alpha``. Classes with few points score above 0 by chance: see :func:`ccv_floor`.

    >>> round(ccv([0, 1], [[True, True], [True, True]], 0.05), 9)
    5.0
    """
    return report(y, sets, alpha, classes=classes).class_violation


def ccv_floor(y: ArrayLike, alpha: float) -> float:
    """Returns the mean of :func:`ccv` at perfect coverage, for test labels ``y``.

    >>> round(ccv_floor([0] * 10 + [1] * 10, 0.05), 2)
    5.99
    """
    _, counts = np.unique(np.asarray(y), return_counts=True)
    return _native.noise_floor(counts.tolist(), alpha)


def sscv(y: ArrayLike, sets: ArrayLike, alpha: float, *, classes: ArrayLike | None = None) -> float:
    """Returns the size-stratified violation: 100 times the largest ``|coverage - (1 - alpha)|`` over strata of set size.

    >>> round(sscv([0, 1], [[True, True], [True, False]], 0.1), 6)
    90.0
    """
    return report(y, sets, alpha, classes=classes).size_violation


def class_coverage(
    y: ArrayLike, sets: ArrayLike, *, classes: ArrayLike | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns coverage (NaN for a class without points) and number of points of every class (column).

    >>> shares, points = class_coverage([0, 0, 1], [[True, False], [False, False], [True, True]])
    >>> shares.tolist(), points.tolist()
    ([0.5, 1.0], [2, 1])
    """
    mask = _mask(sets)
    codes, extra = _codes(y, mask.shape, classes)
    if extra:
        mask = np.hstack([mask, np.zeros((len(mask), extra), bool)])
    counts = np.bincount(codes, minlength=mask.shape[1])
    hits = np.bincount(codes, weights=mask[np.arange(len(codes)), codes], minlength=mask.shape[1])
    with np.errstate(invalid="ignore"):
        return hits / counts, counts


def by_label(
    codes: NDArray[np.uint32], mask: NDArray[np.bool_], names: list[Label], sizes: NDArray[np.int64]
) -> Rows[ClassMetrics]:
    """Returns coverage and mean size of the sets of every label that points carry, in the order of the labels' columns."""
    covered = mask[np.arange(len(codes)), codes]
    points, hits, labels = (
        np.bincount(codes, weights=weights, minlength=len(names)) for weights in (None, covered, sizes)
    )
    return Rows(
        ClassMetrics(
            label=names[code],
            points=int(points[code]),
            covered=int(hits[code]),
            coverage=float(hits[code] / points[code]),
            size=float(labels[code] / points[code]),
        )
        for code in np.flatnonzero(points)
    )


def _mask(sets: ArrayLike) -> NDArray[np.bool_]:
    mask = np.asarray(sets)
    if mask.ndim != 2:
        raise ValueError(
            f"sets: expected (points, classes), found shape {mask.shape}; take one alpha at a time"
        )
    return mask.astype(bool, copy=False)


def _codes(y: ArrayLike, shape: tuple[int, ...], classes: ArrayLike | None) -> tuple[NDArray[np.uint32], int]:
    """Returns labels as column numbers, and the number of columns to add for labels that have none."""
    labels = as_labels(y)
    if len(labels) != shape[0]:
        raise ValueError(f"labels (one a set): expected {shape[0]}, found {len(labels)}")
    if classes is None:
        if labels.dtype.kind not in "iu":
            raise ValueError("labels are not column numbers; pass classes=, the label of every column")
        if len(labels) and labels.min() < 0:
            raise ValueError(f"label at row {int(labels.argmin())}: {labels.min()} is below 0")
        return labels.astype(np.uint32), 0
    place = {value: at for at, value in enumerate(np.asarray(classes).tolist())}
    known = len(place)
    codes = [place.setdefault(value, len(place)) for value in labels.tolist()]
    return np.array(codes, np.uint32), len(place) - known
