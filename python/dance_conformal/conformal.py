"""Split conformal prediction on the class probabilities of any classifier.

>>> from dance_conformal import conformal
>>> random = np.random.default_rng(0)
>>> p = random.dirichlet(np.ones(4), size=600)
>>> y = np.array([random.choice(4, p=row) for row in p])
>>> predictor = conformal.split(p[:300], y[:300], score="raps")
>>> sets = predictor.predict_set(p[300:], alpha=0.1)
>>> bool(sets[np.arange(300), y[300:]].mean() > 0.85)
True

The guarantee, ``P(label in set) >= 1 - alpha`` in finite samples, holds if the calibration rows did not fit the
classifier. Scores (``r`` is the rank of a label by probability, ``C_r`` the mass of the first ``r`` labels, ``u`` a seeded
draw from U(0, 1) for each row):

========  ===========================================================================  =====================
``lac``   ``1 - p``                                                                    Sadinle et al. 2019
``aps``   ``C_r - u p``                                                                Romano et al. 2020
``raps``  ``aps + penalty * max(0, r - free_ranks)``                                   Angelopoulos et al. 2021
``saps``  ``u p_max`` at rank 1, ``p_max + (r - 2 + u) * weight`` after it             Huang et al. 2024
========  ===========================================================================  =====================
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native, metrics
from .inputs import alphas, as_labels, as_points, check_finite
from .progress import DanceWarning

__all__ = ["SplitConformal", "split"]

SCORES = ("lac", "aps", "raps", "saps")


class SplitConformal:
    """A calibrated score, made by :func:`split`."""

    def __init__(self, native: _native.Split, classes: NDArray[Any], score: str) -> None:
        self._native = native
        #: The label of every column.
        self.classes_ = classes
        #: The score's name.
        self.score = score

    def threshold(self, alpha: float) -> float:
        """Returns the threshold: labels whose score is at most this are in the set."""
        value, warning = self._native.threshold(alpha)
        if warning is not None:
            warnings.warn(warning, DanceWarning, stacklevel=3)
        return value

    def predict_set(self, probabilities: Any, alpha: ArrayLike = 0.1, *, as_labels: bool = False) -> Any:
        """Returns booleans (points, classes), or (points, classes, alphas) for a list of alphas; or lists of labels."""
        levels, single = alphas(alpha)
        for level in levels:
            if not 0 < level < 1:
                raise ValueError(f"alpha = {level}: must be between 0 and 1, such as 0.1")
        rows = _probabilities(probabilities, len(self.classes_))
        masks = self._native.sets(rows, [self.threshold(level) for level in levels])
        if as_labels:
            lists = [[self.classes_[row].tolist() for row in mask] for mask in masks]
            return lists[0] if single else lists
        return masks[0] if single else np.stack(masks, axis=-1)

    def predict_p(self, probabilities: Any) -> NDArray[np.float64]:
        """Returns the p-value of every label: a label is in the set at every level below it."""
        return self._native.p_values(_probabilities(probabilities, len(self.classes_)))

    def evaluate(self, probabilities: Any, y: Any, alpha: float = 0.1) -> dict[str, Any]:
        """Returns coverage, size and the other metrics of the sets, by the true labels (see :mod:`.metrics`)."""
        best = self.classes_[np.asarray(probabilities).argmax(axis=1)]
        sets = self.predict_set(probabilities, alpha)
        return metrics.report(as_labels(y, len(sets)), sets, alpha, classes=self.classes_, best=best)


def split(
    probabilities: Any,
    y: Any,
    score: str = "raps",
    *,
    classes: ArrayLike | None = None,
    penalty: float = 0.001,
    free_ranks: int = 1,
    weight: float = 0.2,
    randomize: bool = True,
    random_state: int = 0,
) -> SplitConformal:
    """Calibrates ``score`` on rows of probabilities and their true labels.

    ``y`` are column numbers, or members of ``classes`` (one label per column) where that is given. ``penalty`` and
    ``free_ranks`` belong to RAPS, ``weight`` to SAPS. ``randomize=False`` sets ``u = 0``: no randomness, larger sets.
    """
    options = {"lac": [], "aps": [], "raps": [penalty, float(free_ranks)], "saps": [weight]}
    if score not in options:
        raise ValueError(f"score = {score!r}: must be one of {', '.join(SCORES)}")
    if any(not np.isfinite(value) or value < 0 for value in (penalty, free_ranks, weight)):
        raise ValueError("penalty, free_ranks and weight must be finite and at least 0")
    rows = _probabilities(probabilities, None)
    columns = np.arange(rows.shape[1]) if classes is None else np.asarray(classes)
    if len(columns) != rows.shape[1] or len(set(columns.tolist())) != len(columns):
        raise ValueError(
            f"classes: expected {rows.shape[1]} different labels, one a column, found {len(columns)}"
        )
    labels = as_labels(y, len(rows))
    place = {value: at for at, value in enumerate(columns.tolist())}
    unknown = [at for at, value in enumerate(labels.tolist()) if value not in place]
    if unknown:
        raise ValueError(f"label at row {unknown[0]}: {labels[unknown[0]]!r} has no column of probabilities")
    codes = np.array([place[value] for value in labels.tolist()], np.uint32)
    seed = int(random_state) if randomize else None
    return SplitConformal(_native.Split(rows, codes, score, options[score], seed), columns, score)


def _probabilities(values: Any, columns: int | None) -> NDArray[np.float32]:
    rows = as_points(values, "probabilities")
    check_finite(rows, "probabilities")
    if columns is not None and rows.shape[1] != columns:
        raise ValueError(f"probabilities: expected {columns} columns, one a class, found {rows.shape[1]}")
    sums = rows.sum(axis=1, dtype=np.float64)
    wrong = (rows < 0).any(axis=1) | (abs(sums - 1) > 1e-3)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"probabilities: row {row} has a negative number or sums to {sums[row]:.4g} in place of 1; pass "
            "probabilities, such as the softmax of logits"
        )
    return rows
