"""What a calibrated model says about points: sets, p-values, reasons, and how good they are."""

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
    """What a classifier can do that has been calibrated."""

    alpha: float
    empty: str
    guarantee_: str
    reference_indices_: NDArray[np.int64]

    def predict_set(self, X: Any, alpha: ArrayLike | None = None, *, as_labels: bool = False) -> Any:
        """Prediction sets: booleans (points, classes), or (points, classes, alphas) when ``alpha`` is a list.

        With ``as_labels`` a list of label lists, one a point (for several alphas a list of those).

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

    def predict_unseen(self, X: Any, alpha: float | None = None) -> NDArray[np.bool_]:
        """Whether every set holds "none of these" beside its labels: a label that no point has may be the true one.

        For models with ``unseen=True``. Part of ``alpha`` is spent on such labels, the rest on known ones: with both,
        sets cover the truth with probability 1 - ``alpha``, be it known or not.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> DanceClassifier(evaluations=2, unseen=True).fit(X, y).predict_unseen(X[:4]).tolist()
        [False, False, False, False]
        """
        level = self.alpha if alpha is None else alpha
        found: NDArray[np.bool_] | None = self._decide(self._score(X), level).none_of_these
        if found is None:
            raise ValueError(
                'unseen = False: sets of this model do not hold "none of these"; fit it with unseen=True'
            )
        return found

    def predict_p(
        self, X: Any, *, score: str = "combined", alpha: float | None = None
    ) -> NDArray[np.float64]:
        """p-values of every label, (points, classes).

        A label is in the set at ``alpha`` if and only if its combined p-value is above ``alpha``. ``score`` can also be
        ``"rank"`` or ``"contrast"``, for the p-values of one score by itself. Only ``combine="union"`` looks at ``alpha``
        here: it combines the two under the mix of that level, and a mix that is selected may change from level to level.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X, y)
        >>> bool(((model.predict_p(X) > 0.2) == model.predict_set(X, alpha=0.2)).all())
        True
        """
        check_word("score", score, ("combined", "rank", "contrast"))
        scored = self._score(X)
        if score == "rank":
            return scored.p_values("rank")
        if score == "contrast":
            return scored.p_values("contrast")
        combined = scored.p_values("combined")
        if combined is not None:
            return combined
        mix = self.thresholds(alpha)["mix"]
        rank, contrast = scored.p_values("rank"), scored.p_values("contrast")
        with np.errstate(divide="ignore"):  # a score without a share of alpha has no say
            both = np.minimum(rank / np.float64(1 - mix), contrast / np.float64(mix))
        # Rounded, since 0.07 / 0.7 is above 0.1.
        return np.asarray(np.minimum(both, 1.0).round(12))

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """A p-value of every point for coming from where the calibration points come from, whatever its label.

        Small for points unlike anything seen: ``model.novelty(X) <= 0.01`` flags them with one false alarm in a hundred.
        The distance to the fifth-nearest reference point decides, compared with those of the calibration points.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:500], y[:500])
        >>> noise = np.random.default_rng(0).normal(size=(20, X.shape[1]))
        >>> bool((model.novelty(X[500:]) <= 0.01).mean() < 0.1), bool((model.novelty(noise) <= 0.01).all())
        (True, True)
        """
        found = self._score(X).novelty
        if found is None:
            raise ValueError(
                "the model file is from before novelty, and its calibration points are not kept: call conformalize(X, y)"
            )
        return found

    def thresholds(self, alpha: float | None = None) -> dict[str, Any]:
        """How labels are let in at ``alpha``.

        ``mix`` and the ``trials`` it was selected from; the thresholds of both scores, ``rank`` and ``contrast``; and the
        number of calibration ``points`` behind the p-values. Scores that are combined into one have no thresholds of their
        own, and fused ones no mix: these are ``None``. In exact mode thresholds are those before a query joins the
        calibration points and moves them a little.
        """
        empty = np.empty((0, self._calibrated().dimensions), np.float32)
        scored = self._score_points(empty, best=False)
        found: dict[str, Any] = json.loads(scored.decide(self.alpha if alpha is None else alpha).thresholds)
        for threshold in (found["rank"], found["contrast"]):
            if threshold is not None and threshold["value"] is None:  # JSON has no infinity
                threshold["value"] = np.inf if threshold["index"] else -np.inf
        return found

    def explain(self, X: Any, alpha: float | None = None, *, neighbors: int = 3) -> list[Explanation]:
        """Sets with their reasons: probability, p-values and nearest points of every label in them.

        ``best`` is the most probable label of the set, so it is in every set that is not empty; where the set is empty, it
        is the most probable of all labels, which is what ``predict`` says.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> why = DanceClassifier(evaluations=2).fit(X, y).explain(X[:1])[0]
        >>> why.best == int(y[0]), len(why.labels[0].neighbors)
        (True, 3)
        """
        scored = self._score_points(self._points(X), best=True, support=max(1, neighbors))
        return explanations(
            scored,
            self._decide(scored, self.alpha if alpha is None else alpha),
            probabilities=self.predict_proba(X),
            classes=self.classes_,
            rows=self.reference_indices_,
            neighbors=neighbors,
        )

    def kneighbors(self, X: Any, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Distances to and rows of the nearest reference points (see ``reference_indices_``), under the learned metric."""
        if n_neighbors < 1:
            raise ValueError(f"n_neighbors = {n_neighbors}: must be at least 1")
        model = self._calibrated()
        distances, rows = model.neighbors(self._points(X), n_neighbors, thread_count(self.n_jobs))
        rows = self.reference_indices_[rows]
        return (distances, rows) if return_distance else rows

    @property
    def reference_points_(self) -> list[ReferencePoint]:
        """What the reference points are, in the order of ``reference_indices_``: part, row and id of each.

        A model file keeps them, so that the places ``kneighbors`` and ``explain`` of a loaded model name can be looked up.

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
        """Coverage, size and the other metrics of the sets of ``X``, by their true labels (see :mod:`.metrics`).

        A label that the model does not know counts as not covered, with a warning. Beside the metrics:

        - ``by_chance``: between which two numbers coverage lies 95 times in 100 if the promise holds, given how many points
          calibrate and how many judge; ``as_low``: how often it would then be as low as it is.
        - ``overlap``: how many of the points the model has seen before, in its ``fit`` and as ``calibration`` points. They
          say nothing about new points, so there is a warning; ``exclude_seen=True`` leaves them out.

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
        _, points, labels = self._labelled(points, labels)
        warn_of_unknown(labels, self.classes_)
        scored = self._score_points(points, best=True)
        decision = self._decide(scored, level)
        mask, best = decision.mask, scored.best
        assert best is not None
        seen = self._model.seen(points)
        overlap = {"fit": int((seen == 1).sum()), "calibration": int((seen == 2).sum())}
        if seen.any():
            effect = (
                "they are left out"
                if exclude_seen
                else "they say nothing about new points; exclude_seen=True leaves them out"
            )
            warnings.warn(
                f"{(seen > 0).sum()} of the {len(seen)} points have been seen by the model before ({overlap['fit']} in the "
                f"fit of the kernel, {overlap['calibration']} in its calibration): {effect}",
                DanceWarning,
                stacklevel=2,
            )
        if exclude_seen:
            if seen.all():
                raise ValueError("the model has seen every point of X; nothing is left to judge by")
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

    # Behind the scenes.

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
        options = {"best": best, "empty": self.empty, "support": support}
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
