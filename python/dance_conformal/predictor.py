"""Answers of a fitted classifier: labels, probabilities, prediction sets with their p-values, explanations and metrics."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native, metrics
from .inputs import (
    Label,
    Labels,
    Levels,
    Points,
    alphas,
    as_labels,
    as_points,
    class_kind,
    doubtful_rows,
    rows_with_labels,
)
from .parts import ReferencePoint
from .progress import DanceWarning, Listener
from .protocol import NotFittedError, _Classifier, check_features
from .results import (
    Evaluation,
    Explanation,
    LabelExplanation,
    MixTrial,
    Overlap,
    Portion,
    ProbabilityMetrics,
    Rows,
    Threshold,
    Thresholds,
)
from .settings import EmptySets, check_alpha, check_word, thread_count


class _Predictor(_Classifier):
    """A fitted classifier, which predicts sets once it is calibrated."""

    alpha: float
    n_jobs: int | None
    unlabeled: Label | None
    n_features_in_: int
    classes_: NDArray[Any]
    method_: str
    guarantee_: str
    reference_indices_: NDArray[np.int64]
    _model: _native.Model

    def predict(self, X: Points) -> NDArray[Any]:
        """Returns the most probable label of every point: the largest entry of ``predict_proba``.

        It does not depend on ``alpha``, and it is the ``prediction`` of ``explain``, of Arrow answers and of the ``dance``
        program. Labels can tie at the floor under the kernel machine's probabilities; then its largest output decides.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X, y)
        >>> bool((model.predict(X) == model.predict_proba(X).argmax(axis=1)).all())
        True
        """
        labels, _ = self._fitted().classify(self._points(X), thread_count(self.n_jobs))
        return np.asarray(self.classes_[labels])

    def predict_proba(self, X: Points) -> NDArray[np.float64]:
        """Returns class probabilities, one column for each of ``classes_``: those behind the sets.

        The method posterior has its own, those of a stack of experts. The methods fuse and dance use the kernel machine's,
        which are 0 for labels that only calibration points have. Before calibration, every method answers from the kernel
        machine.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> probabilities = DanceClassifier(evaluations=2).fit(X, y).predict_proba(X)
        >>> probabilities.shape, round(float(probabilities[0].sum()), 6)
        ((300, 3), 1.0)
        """
        _, known = self._fitted().classify(self._points(X), thread_count(self.n_jobs))
        return _all_columns(known, len(self.classes_))

    def score(self, X: Points, y: Labels, sample_weight: ArrayLike | None = None) -> float:
        """Returns the accuracy of ``predict``. Labels that the model does not know count as errors, with a warning.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> DanceClassifier(evaluations=2).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.8
        True
        """
        labels = as_labels(y)
        _warn_of_unknown(labels, self.classes_)
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        return float(np.average(self.predict(X) == labels, weights=weights))

    def transform(self, X: Points) -> NDArray[np.float32]:
        """Maps points by the learned metric: Euclidean distances between rows of the result are the model's distances.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(200, classes=3)
        >>> DanceClassifier(evaluations=2).fit(X, y).transform(X).shape
        (200, 16)
        """
        return self._fitted().transform(self._points(X), thread_count(self.n_jobs))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Returns the names of the columns of ``transform``.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> model = DanceClassifier(evaluations=2).fit(*datasets.clusters(200, classes=3))
        >>> str(model.get_feature_names_out()[0])
        'danceclassifier0'
        """
        self._fitted()
        name = type(self).__name__.lower()
        return np.array([f"{name}{at}" for at in range(self.n_features_in_)], dtype=object)

    @overload
    def predict_set(
        self,
        X: Points,
        alpha: float | Levels | None = None,
        *,
        as_labels: Literal[False] = False,
        empty: EmptySets = "keep",
    ) -> NDArray[np.bool_]: ...
    @overload
    def predict_set(
        self,
        X: Points,
        alpha: float | None = None,
        *,
        as_labels: Literal[True],
        empty: EmptySets = "keep",
    ) -> list[list[Label]]: ...
    @overload
    def predict_set(
        self, X: Points, alpha: Levels, *, as_labels: Literal[True], empty: EmptySets = "keep"
    ) -> list[list[list[Label]]]: ...
    def predict_set(
        self,
        X: Points,
        alpha: float | Levels | None = None,
        *,
        as_labels: bool = False,
        empty: EmptySets = "keep",
    ) -> NDArray[np.bool_] | list[list[Label]] | list[list[list[Label]]]:
        """Returns prediction sets: booleans (points, classes), or (points, classes, alphas) where ``alpha`` is a list.

        With ``as_labels`` it returns a list of labels for each point (for several alphas a list of those lists). An empty
        set stays empty, or gets the most probable label with ``empty="top1"``.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X, np.array(["ant", "bee", "cat"])[y])
        >>> model.predict_set(X[:1], as_labels=True) == [[str(model.classes_[y[0]])]]
        True
        """
        levels, single = alphas(self.alpha if alpha is None else alpha)
        scored = self._score(X, empty)
        decisions = [self._decide(scored, level) for level in levels]
        if as_labels:
            lists = [self._label_lists(decision) for decision in decisions]
            return lists[0] if single else lists
        if single:
            return decisions[0].mask
        return np.stack([decision.mask for decision in decisions], axis=-1)

    def predict_new_label(self, X: Points, alpha: float | None = None) -> NDArray[np.bool_]:
        """Returns for every set whether it holds "a new label" beside its labels: one that no point of the model has.

        For models with ``new_labels=True``. Part of ``alpha`` is spent on new labels, the rest on known ones: together the
        sets cover the true label with probability 1 - ``alpha``, whether it is known or new.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> DanceClassifier(evaluations=2, new_labels=True).fit(X, y).predict_new_label(X[:4]).tolist()
        [False, False, False, False]
        """
        found: NDArray[np.bool_] | None = self._decide(self._score(X), self._level(alpha)).new_label
        if found is None:
            raise ValueError(
                "new_labels=False: sets of this model hold no new label; fit it with new_labels=True"
            )
        return found

    def predict_p(
        self, X: Points, *, score: Literal["rank", "contrast"] | None = None, alpha: float | None = None
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
        return self._score(X).p_values(self._level(alpha), score)

    def novelty(self, X: Points) -> NDArray[np.float64]:
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

    def thresholds(self, alpha: float | None = None) -> Thresholds:
        """Returns the rule by which labels enter sets at ``alpha``.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> model = DanceClassifier(evaluations=2).fit(*datasets.clusters(300, classes=3))
        >>> model.thresholds().points, model.thresholds().alpha
        (150, 0.1)
        """
        empty = np.empty((0, self._calibrated().dimensions), np.float32)
        scored = self._score_points(empty, best=False)
        found: dict[str, Any] = json.loads(scored.decide(self._level(alpha)).thresholds)

        def threshold(of: dict[str, Any] | None) -> Threshold | None:
            if of is None:
                return None
            value = of["value"]
            if value is None:  # JSON has no infinity
                value = np.inf if of["index"] else -np.inf
            return Threshold(**{**of, "value": value})

        return Thresholds(
            alpha=found["alpha"],
            points=found["points"],
            new_label_alpha=found["new_label_alpha"],
            mix=found["mix"],
            rank=threshold(found["rank"]),
            contrast=threshold(found["contrast"]),
            trials=Rows(MixTrial(**trial) for trial in found["trials"]),
        )

    def explain(
        self, X: Points, alpha: float | None = None, *, neighbors: int = 3, empty: EmptySets = "keep"
    ) -> Rows[Explanation]:
        """Returns sets with the probability, the p-values and the nearest points of every label in them.

        ``prediction`` is the most probable of all labels, as in ``predict``. A set need not hold it. ``neighbors`` is the
        number of nearest points of each label.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> why = DanceClassifier(evaluations=2).fit(X, y).explain(X[:1])[0]
        >>> why.prediction == int(y[0]), len(why.set[0].support)
        (True, 3)
        """
        level = self._level(alpha)
        scored = self._score_points(self._points(X), best=True, support=max(1, neighbors), empty=empty)
        decision = self._decide(scored, level)
        predictions, known, support = scored.predictions, scored.probabilities, decision.support
        assert predictions is not None and known is not None and support is not None
        probabilities = _all_columns(known, len(self.classes_))
        p_values = scored.p_values(level)
        two_scores = self._calibrated().method == "dance"
        rank, contrast = (
            [scored.p_values(level, score) for score in ("rank", "contrast")] if two_scores else (None, None)
        )
        values, labels, offsets = self.classes_.tolist(), decision.labels, decision.offsets
        order, nearest = scored.conforming(decision), scored.nearest

        def member(point: int, place: int) -> LabelExplanation:
            label = labels[place]
            return LabelExplanation(
                label=values[label],
                probability=float(probabilities[point, label]),
                p_value=float(p_values[point, label]),
                rank_p_value=None if rank is None else float(rank[point, label]),
                contrast_p_value=None if contrast is None else float(contrast[point, label]),
                support=[int(self.reference_indices_[row]) for row in support[place][:neighbors]],
            )

        return Rows(
            Explanation(
                prediction=values[prediction],
                probability=float(probabilities[point, prediction]),
                nearest=float(nearest[point]),
                set=Rows(member(point, place) for place in order[offsets[point] : offsets[point + 1]]),
            )
            for point, prediction in enumerate(predictions)
        )

    @overload
    def kneighbors(
        self, X: Points, n_neighbors: int = 5, return_distance: Literal[True] = True
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
    @overload
    def kneighbors(
        self, X: Points, n_neighbors: int = 5, *, return_distance: Literal[False]
    ) -> NDArray[np.int64]: ...
    def kneighbors(
        self, X: Points, n_neighbors: int = 5, return_distance: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]] | NDArray[np.int64]:
        """Returns distances to the nearest reference points under the learned metric, and their rows.

        Rows are those of ``reference_indices_``.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> distances, rows = DanceClassifier(evaluations=2).fit(X, y).kneighbors(X[:1], 2)
        >>> int(rows[0, 0]), rows.shape
        (0, (1, 2))
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
        >>> model = DanceClassifier(evaluations=2)
        >>> points = model.fit(X[:150], y[:150], calibration_data=(X[150:], y[150:])).reference_points_
        >>> points[0], points[150]
        (ReferencePoint(part='calibration', row=0, id=None), ReferencePoint(part='fit', row=0, id=None))
        """
        return [
            ReferencePoint("fit" if of_fit else "calibration", row, name)
            for of_fit, row, name in self._calibrated().reference_points()
        ]

    @overload
    def evaluate(
        self,
        X: Points,
        y: Labels,
        alpha: float | None = None,
        *,
        exclude_overlap: bool = False,
        empty: EmptySets = "keep",
    ) -> Evaluation: ...
    @overload
    def evaluate(
        self,
        X: Points,
        y: Labels,
        alpha: Levels,
        *,
        exclude_overlap: bool = False,
        empty: EmptySets = "keep",
    ) -> Rows[Evaluation]: ...
    def evaluate(
        self,
        X: Points,
        y: Labels,
        alpha: float | Levels | None = None,
        *,
        exclude_overlap: bool = False,
        empty: EmptySets = "keep",
    ) -> Evaluation | Rows[Evaluation]:
        """Returns coverage, size and the other metrics of the sets of ``X``, by their true labels.

        For several alphas it returns a row for each. ``accuracy`` is that of ``predict``. A label that the model does not
        know counts as not covered, with a warning; with ``new_labels=True`` a set covers it by holding "a new label".

        Points that the model knows have not the coverage of new points: there is a warning, and ``exclude_overlap=True``
        leaves them out.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> found = DanceClassifier(evaluations=2).fit(X[:400], y[:400]).evaluate(X[400:], y[400:])
        >>> found.coverage > 0.8, [round(share, 3) for share in found.by_chance], found.overlap
        (True, [0.835, 0.955], Overlap(fit=0, calibration=0))
        >>> len(found.classes), found.classes[0].label, found.by_confidence[0].name
        (3, 0, 'lowest')
        """
        levels, single = alphas(self.alpha if alpha is None else alpha)
        model, points = self._calibrated(), self._points(X)
        labels = as_labels(y, len(points))
        _, points, labels = self._with_labels(points, labels)
        _warn_of_unknown(labels, self.classes_)
        seen = model.seen(points)
        overlap = Overlap(fit=int((seen == 1).sum()), calibration=int((seen == 2).sum()))
        if seen.any():
            effect = (
                "they are left out"
                if exclude_overlap
                else "their coverage is not that of new points; exclude_overlap=True leaves them out"
            )
            warnings.warn(
                f"{(seen > 0).sum()} of the {len(seen)} points belong to the model ({overlap.fit} to the fit of the kernel, "
                f"{overlap.calibration} to its calibration): {effect}",
                DanceWarning,
                stacklevel=2,
            )
        if exclude_overlap:
            if seen.all():
                raise ValueError("every point of X belongs to the model; no test point is left")
            points, labels = points[seen == 0], labels[seen == 0]
        scored = self._score_points(points, best=True, empty=empty)
        rows = Rows(self._evaluation(scored, level, labels, overlap) for level in levels)
        return rows[0] if single else rows

    def _evaluation(
        self, scored: _native.Scored, alpha: float, labels: NDArray[Any], overlap: Overlap
    ) -> Evaluation:
        """Evaluates sets at one level by their true labels."""
        model, decision = self._model, self._decide(scored, alpha)
        mask, best, probabilities = decision.mask, scored.predictions, scored.probabilities
        assert best is not None and probabilities is not None
        known = self.classes_.tolist()
        place = {value: at for at, value in enumerate(known)}
        codes = np.array([place.setdefault(value, len(place)) for value in labels.tolist()], np.uint32)
        names = list(place)
        mask = np.hstack([mask, np.zeros((len(mask), len(names) - len(known)), bool)])
        size = mask.sum(axis=1)
        if decision.new_label is not None:
            # "A new label" is every label that the model does not know: it is a column of its own for the others.
            mask = np.hstack([mask, np.zeros((len(mask), 1), bool)])
            column = np.where(codes >= len(known), codes, len(names))
            mask[np.arange(len(mask)), column] |= decision.new_label
        found = json.loads(_native.set_metrics(mask, codes, alpha, best))
        portions = json.loads(_native.breakdown(mask, codes, probabilities.max(axis=1)))
        calibrating = json.loads(decision.thresholds)["points"]
        low, high, as_low = _native.coverage_band(calibrating, len(mask), alpha, found["coverage"])
        settings = json.loads(model.settings)["conformal"]
        if settings["by_class"] not in ("all", "balanced") or model.method == "dance":
            high = 1.0  # coverage has no upper bound
        if alpha * (calibrating + 1) < 1 - 1e-9:
            as_low = 1.0  # every label that the model knows is in every set
        log_loss, brier, calibration_error = _native.probability_metrics(probabilities, codes)
        return Evaluation(
            **found,
            by_chance=(low, high),
            as_low=as_low,
            overlap=overlap,
            guarantee=self.guarantee_,
            probabilities=ProbabilityMetrics(log_loss, brier, calibration_error),
            by_confidence=_portions(portions, "by_confidence"),
            by_size=_portions(portions, "by_size"),
            by_frequency=_portions(portions, "by_frequency"),
            classes=metrics.by_label(codes, mask, names, size),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _fitted(self) -> _native.Model:
        if not hasattr(self, "_model"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
                "before using this estimator."
            )
        return self._model

    def _calibrated(self) -> _native.Model:
        if not self._fitted().is_calibrated:
            raise NotFittedError(
                f"This {type(self).__name__} instance is fitted but not calibrated: call recalibrate(X, y) with points "
                "that were not passed to fit"
            )
        return self._model

    def _level(self, alpha: float | None) -> float:
        return check_alpha(self.alpha if alpha is None else alpha)

    def _points(self, X: Points) -> NDArray[np.float32]:
        self._fitted()
        points = as_points(X)
        check_features(self, X, points.shape[1], reset=False)
        return points

    def _with_labels(
        self, points: NDArray[np.float32], labels: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[Any]]:
        """Returns the rows that have a label, with their points and labels. Warns of rows that are left out, and of -1."""
        rows = rows_with_labels(labels, self.unlabeled)
        if len(rows) < len(labels):
            left = f"{len(labels) - len(rows)} of {len(labels)} points have no label and are left out"
            warnings.warn(left, DanceWarning, stacklevel=3)
            return rows, points[rows], labels[rows]
        if self.unlabeled is None and (where := doubtful_rows(labels)) is not None:
            warnings.warn(
                f"-1 ({where}) is a class like the others; where it means no label, unlabeled=-1 leaves such points out",
                DanceWarning,
                stacklevel=3,
            )
        return rows, points, labels

    def _score(self, X: Points, empty: EmptySets = "keep") -> _native.Scored:
        self._calibrated()
        return self._score_points(self._points(X), best=False, empty=empty)

    def _score_points(
        self, points: NDArray[np.float32], *, best: bool, support: int = 0, empty: EmptySets = "keep"
    ) -> _native.Scored:
        check_word("empty", empty, ("keep", "top1"))
        options = {"best": best, "probabilities": best, "empty": empty, "support": support}
        return self._calibrated().score(points, json.dumps(options), thread_count(self.n_jobs))

    def _decide(self, scored: _native.Scored, alpha: float) -> _native.Decision:
        decision = scored.decide(alpha)
        listener = Listener()
        listener.messages = decision.warnings
        listener.warn()
        return decision

    def _label_lists(self, decision: _native.Decision) -> list[list[Label]]:
        values = self.classes_[decision.labels].tolist()
        ends = decision.offsets.tolist()
        return [values[begin:end] for begin, end in pairwise(ends)]


def _portions(found: Mapping[str, list[dict[str, Any]]], name: str) -> Rows[Portion]:
    return Rows(Portion(**portion) for portion in found[name])


def _all_columns(probabilities: NDArray[np.float32], classes: int) -> NDArray[np.float64]:
    """Returns probabilities with a column for every class, 0 for those at the end, and rows that sum to 1.

    >>> _all_columns(np.array([[0.25, 0.75]], np.float32), 3).tolist()
    [[0.25, 0.75, 0.0]]
    """
    every = np.zeros((len(probabilities), classes))
    every[:, : probabilities.shape[1]] = probabilities
    return np.asarray(every / every.sum(axis=1, keepdims=True))


def _warn_of_unknown(labels: NDArray[Any], classes: NDArray[Any]) -> None:
    """Warns of labels that the model does not know."""
    known = set(classes.tolist())
    unknown = [row for row, label in enumerate(labels.tolist()) if label not in known]
    if not unknown:
        return
    own, here = class_kind(classes), class_kind(labels)
    kinds = "" if own == here else f". The model's labels are of the kind {own}, these {here}"
    warnings.warn(
        f"{len(unknown)} of {len(labels)} points carry a label that the model does not know (the first is "
        f"{labels.tolist()[unknown[0]]!r}, row {unknown[0]}); no set can hold it, so they count as not covered{kinds}",
        DanceWarning,
        stacklevel=3,
    )
