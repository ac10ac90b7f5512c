"""Labels, class probabilities and the learned metric of a fitted classifier."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .inputs import as_labels, as_points, class_kind, doubtful_rows, rows_with_labels
from .progress import DanceWarning
from .protocol import Estimator, NotFittedError, check_features
from .settings import thread_count


class KernelMachine(Estimator):
    """A fitted classifier, calibrated or not."""

    n_jobs: int | None
    unlabelled: Any
    n_features_in_: int
    classes_: NDArray[Any]
    _model: _native.Model

    def predict(self, X: Any) -> NDArray[Any]:
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

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns class probabilities, one column for each of ``classes_``: those behind the sets.

        The method posterior has its own, those of a stack of experts. The methods fuse and dance use the kernel machine's
        (see the parameter ``probabilities``), which are 0 for labels that only calibration points have. Before calibration,
        every method answers from the kernel machine.
        """
        _, known = self._fitted().classify(self._points(X), thread_count(self.n_jobs))
        return all_columns(known, len(self.classes_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy of ``predict``. Labels that the model does not know count as errors, with a warning."""
        labels = as_labels(y)
        warn_of_unknown(labels, self.classes_)
        return float(np.average(self.predict(X) == labels, weights=sample_weight))

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Maps points by the learned metric: Euclidean distances between rows of the result are the model's distances.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(200, classes=3)
        >>> DanceClassifier(evaluations=2).fit(X, y).transform(X).shape
        (200, 16)
        """
        return self._fitted().transform(self._points(X), thread_count(self.n_jobs))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Returns the names of the columns of ``transform``."""
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

    def _with_labels(
        self, points: NDArray[np.float32], labels: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[Any]]:
        """Returns the rows that have a label, with their points and labels. Warns of rows that are left out, and of -1."""
        rows = rows_with_labels(labels, self.unlabelled)
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


def all_columns(probabilities: NDArray[np.float32], classes: int) -> NDArray[np.float64]:
    """Returns probabilities with a column for every class, 0 for those at the end, and rows that sum to 1.

    >>> all_columns(np.array([[0.25, 0.75]], np.float32), 3).tolist()
    [[0.25, 0.75, 0.0]]
    """
    every = np.zeros((len(probabilities), classes))
    every[:, : probabilities.shape[1]] = probabilities
    return np.asarray(every / every.sum(axis=1, keepdims=True))


def warn_of_unknown(labels: NDArray[Any], classes: NDArray[Any]) -> None:
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
