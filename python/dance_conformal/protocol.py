"""The estimator protocol: scikit-learn's own base classes where it is installed, and a small stand-in where it is not.

With the stand-in every method of the classifier works. Functions of scikit-learn that take estimators (clone, Pipeline,
GridSearchCV) need scikit-learn.
"""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .inputs import Labels, Points

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.exceptions import DataConversionWarning as DataConversionWarning
    from sklearn.exceptions import NotFittedError as NotFittedError

    HAS_SKLEARN = True

    class _Estimator(BaseEstimator):  # type: ignore[misc]
        """A scikit-learn estimator."""

    class _Classifier(ClassifierMixin, TransformerMixin, _Estimator):  # type: ignore[misc]
        """A scikit-learn classifier that can also transform."""

except ImportError:  # pragma: no cover - covered by the test that hides scikit-learn
    HAS_SKLEARN = False

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """A model was used before it was fitted."""

    class DataConversionWarning(UserWarning):  # type: ignore[no-redef]
        """An argument was converted to the expected shape."""

    class _Estimator:  # type: ignore[no-redef]
        """An estimator whose parameters are the constructor's arguments."""

        def get_params(self, deep: bool = True) -> dict[str, object]:
            """Returns the parameters."""
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **params: object) -> _Estimator:
            """Changes parameters."""
            known = self.get_params()
            for name, value in params.items():
                if name not in known:
                    raise ValueError(f"Invalid parameter {name!r}; the parameters are {', '.join(known)}")
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            defaults = inspect.signature(type(self)).parameters
            changed = {k: v for k, v in self.get_params().items() if repr(v) != repr(defaults[k].default)}
            return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    class _Classifier(_Estimator):  # type: ignore[no-redef]
        """A classifier that can also transform."""

        def fit_transform(self, X: Points, y: Labels) -> NDArray[np.float32]:
            """Fits, then transforms the same points."""
            mapped: NDArray[np.float32] = self.fit(X, y).transform(X)
            return mapped


def feature_names(X: object) -> NDArray[np.object_] | None:
    """Returns the column names of a data frame, if all are strings."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "__array__"):
        return None
    names = np.asarray(list(columns), dtype=object)
    kinds = {isinstance(name, str) for name in names}
    if kinds == {True, False}:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has names of "
            "several types. Convert them all: X.columns = X.columns.astype(str)"
        )
    return names if kinds == {True} else None


def check_features(estimator: Any, X: object, columns: int, *, reset: bool) -> None:
    """Stores number and names of the features (``reset``), or compares them with those of the fit."""
    names = feature_names(X)
    if names is not None and len(names) != columns:
        names = None  # one column that holds the embeddings as arrays
    kind = type(estimator).__name__
    if reset:
        estimator.n_features_in_ = columns
        if names is not None:
            estimator.feature_names_in_ = names
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    known = getattr(estimator, "feature_names_in_", None)
    if names is None and known is not None:
        warnings.warn(
            f"X does not have valid feature names, but {kind} was fitted with feature names", stacklevel=4
        )
    elif names is not None and known is None:
        warnings.warn(f"X has feature names, but {kind} was fitted without feature names", stacklevel=4)
    elif names is not None and known is not None and list(names) != list(known):
        raise ValueError(_difference(list(known), list(names)))
    if columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {columns} features, but {kind} is expecting {estimator.n_features_in_} features as input."
        )


def _difference(known: list[str], names: list[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    unexpected, missing = sorted(set(names) - set(known)), sorted(set(known) - set(names))
    for title, some in (
        ("Feature names unseen at fit time:\n", unexpected),
        ("Feature names seen at fit time, yet now missing:\n", missing),
    ):
        if some:
            message += (
                title + "".join(f"- {name}\n" for name in some[:5]) + ("- ...\n" if len(some) > 5 else "")
            )
    if not unexpected and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message
