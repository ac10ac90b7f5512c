"""The kernel machine by itself: which class it would choose, and where it maps points. No calibration is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .inputs import as_labels, as_points
from .protocol import Estimator, NotFittedError, check_features
from .settings import thread_count


class KernelMachine(Estimator):
    """What a classifier can do that has been fitted."""

    n_jobs: int | None
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
        """Share of points whose best label is right."""
        labels = as_labels(y)
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
