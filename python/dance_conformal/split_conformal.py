"""Split conformal prediction on the class probabilities of any classifier.

Scores (``r`` is the rank of a label by probability, ``C_r`` the mass of the first ``r`` labels, ``u`` a seeded draw from
U(0, 1) for each row):

========  ===========================================================================  =====================
``lac``   ``1 - p``                                                                    Sadinle et al. 2019
``aps``   ``C_r - u p``                                                                Romano et al. 2020
``raps``  ``aps + penalty * max(0, r - free_ranks)``                                   Angelopoulos et al. 2021
``saps``  ``u p_max`` at rank 1, ``p_max + (r - 2 + u) * weight`` after it             Huang et al. 2024
========  ===========================================================================  =====================
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native, metrics
from .inputs import Label, Labels, Levels, Points, alphas, as_labels, as_points, check_finite
from .progress import DanceWarning
from .protocol import NotFittedError, _Estimator
from .results import SetMetrics
from .settings import RandomState, check_alpha, check_word, draw_seed, thread_count

SCORES = ("lac", "aps", "raps", "saps")


class SplitConformal(_Estimator):
    """Prediction sets from the class probabilities of any classifier, by split conformal prediction.

    The guarantee, ``P(label in set) >= 1 - alpha`` in finite samples, holds if the rows passed to ``fit`` did not fit the
    classifier.

    Parameters
    ----------
    alpha : float
        Error level of ``predict_set`` where it is given none.
    score : {"lac", "aps", "raps", "saps"}
        The score of a label.
    classes : array or None
        The label of every column of probabilities; ``None`` for column numbers.
    penalty, free_ranks : float, int
        The penalty of the score RAPS, and the number of ranks that are free of it.
    weight : float
        The weight of a rank in the score SAPS.
    randomize : bool
        If False, ``u = 0``: no randomness, larger sets.
    random_state : int, RandomState, Generator or None
        Seed of the draws ``u``.
    n_jobs : int or None
        Threads, as in scikit-learn: ``None`` is one, -1 is all cores.

    Attributes
    ----------
    classes_ : array
        The label of every column.

    Examples
    --------
    >>> from dance_conformal import SplitConformal
    >>> random = np.random.default_rng(0)
    >>> p = random.dirichlet(np.ones(4), size=600)
    >>> y = np.array([random.choice(4, p=row) for row in p])
    >>> predictor = SplitConformal(score="raps").fit(p[:300], y[:300])
    >>> sets = predictor.predict_set(p[300:], alpha=0.1)
    >>> bool(sets[np.arange(300), y[300:]].mean() > 0.85)
    True
    """

    def __init__(
        self,
        alpha: float = 0.1,
        *,
        score: Literal["lac", "aps", "raps", "saps"] = "raps",
        classes: ArrayLike | None = None,
        penalty: float = 0.001,
        free_ranks: int = 1,
        weight: float = 0.2,
        randomize: bool = True,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.score = score
        self.classes = classes
        self.penalty = penalty
        self.free_ranks = free_ranks
        self.weight = weight
        self.randomize = randomize
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, probabilities: Points, y: Labels) -> SplitConformal:
        """Calibrates the score on rows of probabilities and their true labels, which are members of ``classes``.

        >>> SplitConformal(score="lac").fit([[0.9, 0.1], [0.3, 0.7]], [0, 1]).classes_
        array([0, 1])
        """
        check_word("score", self.score, SCORES)
        check_alpha(self.alpha)
        numbers = (self.penalty, self.free_ranks, self.weight)
        if any(not np.isfinite(value) or value < 0 for value in numbers):
            raise ValueError("penalty, free_ranks and weight must be finite and at least 0")
        rows = _probabilities(probabilities, None)
        columns = np.arange(rows.shape[1]) if self.classes is None else np.asarray(self.classes)
        if len(columns) != rows.shape[1] or len(set(columns.tolist())) != len(columns):
            raise ValueError(
                f"classes: expected {rows.shape[1]} different labels, one a column, found {len(columns)}"
            )
        labels = as_labels(y, len(rows))
        place = {value: at for at, value in enumerate(columns.tolist())}
        unknown = [at for at, value in enumerate(labels.tolist()) if value not in place]
        if unknown:
            raise ValueError(
                f"label at row {unknown[0]}: {labels[unknown[0]]!r} has no column of probabilities"
            )
        codes = np.array([place[value] for value in labels.tolist()], np.uint32)
        seed = draw_seed(self.random_state) if self.randomize else None
        options = {"raps": [self.penalty, float(self.free_ranks)], "saps": [self.weight]}.get(self.score, [])
        self._calibration = (rows, codes, self.score, options, seed)
        self.__dict__.pop("_split", None)
        self.classes_: NDArray[Any] = columns
        self._fitted()
        return self

    def threshold(self, alpha: float | None = None) -> float:
        """Returns the threshold: labels whose score is at most this are in the set.

        >>> predictor = SplitConformal(score="lac").fit([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        >>> predictor.threshold(0.5)
        0.5
        """
        value, warning = self._fitted().threshold(check_alpha(self.alpha if alpha is None else alpha))
        if warning is not None:
            warnings.warn(warning, DanceWarning, stacklevel=3)
        return value

    @overload
    def predict_set(
        self, probabilities: Points, alpha: float | Levels | None = None, *, as_labels: Literal[False] = False
    ) -> NDArray[np.bool_]: ...
    @overload
    def predict_set(
        self, probabilities: Points, alpha: float | None = None, *, as_labels: Literal[True]
    ) -> list[list[Label]]: ...
    @overload
    def predict_set(
        self, probabilities: Points, alpha: Levels, *, as_labels: Literal[True]
    ) -> list[list[list[Label]]]: ...
    def predict_set(
        self, probabilities: Points, alpha: float | Levels | None = None, *, as_labels: bool = False
    ) -> NDArray[np.bool_] | list[list[Label]] | list[list[list[Label]]]:
        """Returns booleans (points, classes), or (points, classes, alphas) for a list of alphas; or lists of labels.

        >>> predictor = SplitConformal(score="lac").fit([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        >>> predictor.predict_set([[0.7, 0.3]], alpha=0.5, as_labels=True)
        [[0]]
        """
        split = self._fitted()
        levels, single = alphas(self.alpha if alpha is None else alpha)
        rows = _probabilities(probabilities, len(self.classes_))
        masks = split.sets(rows, [self.threshold(level) for level in levels])
        if as_labels:
            lists = [[self.classes_[row].tolist() for row in mask] for mask in masks]
            return lists[0] if single else lists
        return masks[0] if single else np.stack(masks, axis=-1)

    def predict_p(self, probabilities: Points) -> NDArray[np.float64]:
        """Returns the p-value of every label: a label is in the set at every level below it.

        >>> predictor = SplitConformal(score="lac").fit([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        >>> predictor.predict_p([[0.75, 0.25]]).round(3).tolist()
        [[1.0, 0.333]]
        """
        return self._fitted().p_values(_probabilities(probabilities, len(self.classes_)))

    def evaluate(self, probabilities: Points, y: Labels, alpha: float | None = None) -> SetMetrics:
        """Returns coverage, size and the other metrics of the sets, by the true labels.

        >>> predictor = SplitConformal(score="lac").fit([[0.75, 0.25], [0.5, 0.5]], [0, 1])
        >>> predictor.evaluate([[0.7, 0.3], [0.2, 0.8]], [0, 1], alpha=0.5).coverage
        1.0
        """
        level = check_alpha(self.alpha if alpha is None else alpha)
        sets = self.predict_set(probabilities, level)
        best = self.classes_[_probabilities(probabilities, len(self.classes_)).argmax(axis=1)]
        return metrics.report(as_labels(y, len(sets)), sets, level, classes=self.classes_, prediction=best)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_calibration")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_split"}

    def _fitted(self) -> _native.Split:
        if not hasattr(self, "_calibration"):
            raise NotFittedError("This SplitConformal instance is not fitted yet: call fit(probabilities, y)")
        if "_split" not in self.__dict__:
            self._split = _native.Split(*self._calibration, thread_count(self.n_jobs))
        return self._split


def _probabilities(values: Points, columns: int | None) -> NDArray[np.float32]:
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
