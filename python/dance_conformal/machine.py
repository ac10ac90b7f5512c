"""The kernel machine by itself: which class it would choose, and where it maps points. No calibration is needed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .inputs import as_labels, as_points, class_kind, doubtful_rows, labelled
from .progress import DanceWarning
from .protocol import Estimator, NotFittedError, check_features
from .settings import thread_count


class KernelMachine(Estimator):
    """What a classifier can do that has been fitted."""

    n_jobs: int | None
    unlabelled: Any
    n_features_in_: int
    classes_: NDArray[Any]
    _model: _native.Model

    def predict(self, X: Any) -> NDArray[Any]:
        """The classifier's own best label of every point, whatever ``alpha`` and the sets are.

        ``explain(X, alpha)`` has the best label *of the set*: this one wherever the set holds it or is empty, and otherwise
        the most probable one that the set does hold.
        """
        labels, _ = self._fitted().classify(self._points(X), thread_count(self.n_jobs))
        return np.asarray(self.classes_[labels])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, a column for every one of ``classes_``; 0 for labels that only calibration points have.

        Where they come from is said by the parameter ``probabilities``.
        """
        _, known = self._fitted().classify(self._points(X), thread_count(self.n_jobs))
        probabilities = np.zeros((len(known), len(self.classes_)))
        probabilities[:, : known.shape[1]] = known
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of points whose best label is right. Labels that the model has never seen are counted as missed, and said."""
        labels = as_labels(y)
        warn_of_unknown(labels, self.classes_)
        return float(np.average(self.predict(X) == labels, weights=sample_weight))

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Points under the learned metric: Euclidean distances between rows of the result are the model's distances.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(200, classes=3)
        >>> DanceClassifier(evaluations=2).fit(X, y).transform(X).shape
        (200, 16)
        """
        return self._fitted().transform(self._points(X), thread_count(self.n_jobs))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of ``transform``."""
        self._fitted()
        return np.array([f"danceclassifier{at}" for at in range(self.n_features_in_)], dtype=object)

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

    def _points(self, X: Any) -> NDArray[np.float32]:
        self._fitted()
        points = as_points(X)
        check_features(self, X, points.shape[1], reset=False)
        return points

    def _labelled(
        self, points: NDArray[np.float32], labels: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[Any]]:
        """The rows that have a label, and points and labels there; says what was left out, and what may mean no label."""
        rows = labelled(labels, self.unlabelled)
        if len(rows) < len(labels):
            left = f"{len(labels) - len(rows)} of {len(labels)} points have no label and are left out"
            warnings.warn(left, DanceWarning, stacklevel=3)
            return rows, points[rows], labels[rows]
        if self.unlabelled is None and (where := doubtful_rows(labels)) is not None:
            warnings.warn(
                f"-1 ({where}) is a class like the others; where it means no label, unlabelled=-1 leaves such points out",
                DanceWarning,
                stacklevel=3,
            )
        return rows, points, labels


def warn_of_unknown(labels: NDArray[Any], classes: NDArray[Any]) -> None:
    """Says how many labels are none of the model's."""
    known = set(classes.tolist())
    unknown = [row for row, label in enumerate(labels.tolist()) if label not in known]
    if not unknown:
        return
    own, here = class_kind(classes), class_kind(labels)
    kinds = "" if own == here else f". The model's labels are of the kind {own}, these {here}"
    warnings.warn(
        f"{len(unknown)} of {len(labels)} points carry a label that the model has never seen (the first is "
        f"{labels.tolist()[unknown[0]]!r}, row {unknown[0]}); no set can hold it, so they count as not covered{kinds}",
        DanceWarning,
        stacklevel=3,
    )
