"""Prediction sets of a calibrated classifier, with their p-values, explanations and metrics."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native, metrics
from .explanation import Explanation, explanations
from .inputs import alphas, as_labels
from .machine import KernelMachine, warn_of_unknown
from .parts import ReferencePoint
from .progress import DanceWarning, Listener
from .protocol import NotFittedError
from .settings import check_word, thread_count


class SetPredictor(KernelMachine):
    """A classifier that predicts sets once it is calibrated."""

    alpha: float
    empty: str
    method_: str
    guarantee_: str
    reference_indices_: NDArray[np.int64]

    def predict_set(self, X: Any, alpha: ArrayLike | None = None, *, as_labels: bool = False) -> Any:
        """Returns prediction sets: booleans (points, classes), or (points, classes, alphas) where ``alpha`` is a list.

        With ``as_labels`` it returns a list of labels for each point (for several alphas a list of those lists).

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X, np.array(["ant", "bee", "cat"])[y])
        >>> model.predict_set(X[:1], as_labels=True) == [[str(model.classes_[y[0]])]]
        True
        """
        levels, single = alphas(self.alpha if alpha is None else alpha)
        scored = self._score(X)
        decisions = [self._decide(scored, level) for level in levels]
        if as_labels:
            lists = [self._label_lists(decision) for decision in decisions]
            return lists[0] if single else lists
        if single:
            return decisions[0].mask
        return np.stack([decision.mask for decision in decisions], axis=-1)

    def predict_new_label(self, X: Any, alpha: float | None = None) -> NDArray[np.bool_]:
        """Returns for every set whether it holds "a new label" beside its labels: one that no point of the model has.

        For models with ``new_labels=True``. Part of ``alpha`` is spent on new labels, the rest on known ones: together the
        sets cover the true label with probability 1 - ``alpha``, whether it is known or new.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> DanceClassifier(evaluations=2, new_labels=True).fit(X, y).predict_new_label(X[:4]).tolist()
        [False, False, False, False]
        """
        level = self.alpha if alpha is None else alpha
        found: NDArray[np.bool_] | None = self._decide(self._score(X), level).new_label
        if found is None:
            raise ValueError(
                "new_labels=False: sets of this model hold no new label; fit it with new_labels=True"
            )
        return found

    def predict_p(
        self, X: Any, *, score: str | None = None, alpha: float | None = None
    ) -> NDArray[np.float64]:
        """Returns the p-values of every label, (points, classes).

        A label is in the set at ``alpha`` if and only if its p-value exceeds ``alpha``. The method dance has a p-value for
        each of two scores, ``score="rank"`` and ``score="contrast"``. Its deciding p-value is the smaller of the two, each
        divided by its share of ``alpha``; a selected mix changes with ``alpha``, so this p-value does too.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X, y)
        >>> bool(((model.predict_p(X) > 0.2) == model.predict_set(X, alpha=0.2)).all())
        True
        """
        if score is not None:
            check_word("score", score, ("rank", "contrast"))
            if self._calibrated().method != "dance":
                raise ValueError(
                    f"score={score!r} needs method='dance', and this model's method is {self.method_!r}: drop score"
                )
        return self._score(X).p_values(self.alpha if alpha is None else alpha, score)

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """Returns the novelty p-value of every point: small where it is unlike all calibration points, whatever its label.

        ``model.novelty(X) <= 0.01`` flags unlike points with one false alarm in a hundred. The p-value compares the distance
        to the fifth-nearest reference point with those of the calibration points.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:500], y[:500])
        >>> known, opposite = model.novelty(X[500:]) <= 0.05, model.novelty(-X[500:]) <= 0.05
        >>> bool(known.mean() < 0.2), bool(opposite.mean() > 0.5)
        (True, True)
        """
        return self._score(X).novelty

    def thresholds(self, alpha: float | None = None) -> dict[str, Any]:
        """Returns the rule by which labels enter sets at ``alpha``.

        ``points`` is the number of calibration points behind the p-values, ``new_label_alpha`` the part of ``alpha`` that
        is spent on new labels. The method dance has a ``mix``, the ``trials`` that it was selected from, and a threshold for
        each score, ``rank`` and ``contrast``. Parts that the method does not have are ``None``.
        """
        empty = np.empty((0, self._calibrated().dimensions), np.float32)
        scored = self._score_points(empty, best=False)
        found: dict[str, Any] = json.loads(scored.decide(self.alpha if alpha is None else alpha).thresholds)
        for threshold in (found["rank"], found["contrast"]):
            if threshold is not None and threshold["value"] is None:  # JSON has no infinity
                threshold["value"] = np.inf if threshold["index"] else -np.inf
        return found

    def explain(self, X: Any, alpha: float | None = None, *, neighbors: int = 3) -> list[Explanation]:
        """Returns sets with the probability, the p-values and the nearest points of every label in them.

        ``prediction`` is the most probable of all labels, as in ``predict``. A set need not hold it.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> why = DanceClassifier(evaluations=2).fit(X, y).explain(X[:1])[0]
        >>> why.prediction == int(y[0]), len(why.labels[0].neighbors)
        (True, 3)
        """
        level = self.alpha if alpha is None else alpha
        scored = self._score_points(self._points(X), best=True, support=max(1, neighbors))
        return explanations(
            scored,
            self._decide(scored, level),
            alpha=level,
            two_scores=self._calibrated().method == "dance",
            classes=self.classes_,
            rows=self.reference_indices_,
            neighbors=neighbors,
        )

    def kneighbors(self, X: Any, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Returns distances to the nearest reference points under the learned metric, and their rows.

        Rows are those of ``reference_indices_``.
        """
        if n_neighbors < 1:
            raise ValueError(f"n_neighbors = {n_neighbors}: must be at least 1")
        model = self._calibrated()
        distances, rows = model.neighbors(self._points(X), n_neighbors, thread_count(self.n_jobs))
        rows = self.reference_indices_[rows]
        return (distances, rows) if return_distance else rows

    @property
    def reference_points_(self) -> list[ReferencePoint]:
        """The part, row and id of every reference point, in the order of ``reference_indices_``.

        A model file keeps them: with a loaded model they give the data row behind a place that ``kneighbors`` or
        ``explain`` returns.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2, calibration_share=None).fit(X[:150], y[:150])
        >>> points = model.conformalize(X[150:], y[150:]).reference_points_
        >>> points[0], points[150]
        (ReferencePoint(part='calibration', row=0, id=None), ReferencePoint(part='fit', row=0, id=None))
        """
        return [
            ReferencePoint("fit" if of_fit else "calibration", row, name)
            for of_fit, row, name in self._calibrated().reference_points()
        ]

    def evaluate(
        self, X: Any, y: Any, alpha: float | None = None, *, exclude_seen: bool = False
    ) -> dict[str, Any]:
        """Returns coverage, size and the other metrics of the sets of ``X``, by their true labels (see :mod:`.metrics`).

        ``accuracy`` is that of ``predict``. A label that the model does not know counts as not covered, with a warning.
        Beside the metrics:

        - ``by_chance``: the interval that holds coverage 95 times in 100 if the guarantee holds, for these numbers of
          calibration and test points; ``as_low``: the probability of a coverage as low as this one.
        - ``overlap``: the number of test points that the model knows from its ``fit`` or ``calibration``. Their
          coverage is not that of new points, so there is a warning; ``exclude_seen=True`` leaves them out.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> report = DanceClassifier(evaluations=2).fit(X[:400], y[:400]).evaluate(X[400:], y[400:])
        >>> report["coverage"] > 0.8, report["guarantee"]
        (True, 'P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows')
        >>> report["overlap"], [round(share, 3) for share in report["by_chance"]]
        ({'fit': 0, 'calibration': 0}, [0.835, 0.955])
        """
        level = self.alpha if alpha is None else alpha
        points = self._points(X)
        labels = as_labels(y, len(points))
        _, points, labels = self._with_labels(points, labels)
        warn_of_unknown(labels, self.classes_)
        scored = self._score_points(points, best=True)
        decision = self._decide(scored, level)
        mask, best = decision.mask, scored.predictions
        assert best is not None
        seen = self._model.seen(points)
        overlap = {"fit": int((seen == 1).sum()), "calibration": int((seen == 2).sum())}
        if seen.any():
            effect = (
                "they are left out"
                if exclude_seen
                else "their coverage is not that of new points; exclude_seen=True leaves them out"
            )
            warnings.warn(
                f"{(seen > 0).sum()} of the {len(seen)} points have been seen by the model before ({overlap['fit']} in the "
                f"fit of the kernel, {overlap['calibration']} in its calibration): {effect}",
                DanceWarning,
                stacklevel=2,
            )
        if exclude_seen:
            if seen.all():
                raise ValueError("the model has seen every point of X; no test point is left")
            mask, best, labels = mask[seen == 0], best[seen == 0], labels[seen == 0]
        report = metrics.report(labels, mask, level, classes=self.classes_, best=self.classes_[best])
        calibrating = json.loads(decision.thresholds)["points"]
        low, high, as_low = _native.coverage_band(calibrating, len(mask), level, report["coverage"])
        return {
            **report,
            "by_chance": (low, high),
            "as_low": as_low,
            "overlap": overlap,
            "guarantee": self.guarantee_,
        }

    def _calibrated(self) -> _native.Model:
        if not self._fitted().is_calibrated:
            raise NotFittedError(
                f"This {type(self).__name__} instance is fitted but not calibrated: call conformalize(X, y) with points "
                "that were not passed to fit"
            )
        return self._model

    def _score(self, X: Any) -> _native.Scored:
        self._calibrated()
        return self._score_points(self._points(X), best=False)

    def _score_points(self, points: NDArray[np.float32], *, best: bool, support: int = 0) -> _native.Scored:
        options = {"best": best, "probabilities": best, "empty": self.empty, "support": support}
        return self._calibrated().score(points, json.dumps(options), thread_count(self.n_jobs))

    def _decide(self, scored: _native.Scored, alpha: float) -> _native.Decision:
        decision = scored.decide(alpha)
        listener = Listener()
        listener.messages = decision.warnings
        listener.warn()
        return decision

    def _label_lists(self, decision: _native.Decision) -> list[list[Any]]:
        values = self.classes_[decision.labels].tolist()
        ends = decision.offsets.tolist()
        return [values[begin:end] for begin, end in pairwise(ends)]
