"""Conversion of users' data: points become rows of float32, labels become class numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .progress import DanceWarning
from .protocol import DataConversionWarning


class SupportsDLPack(Protocol):
    """An array of another library, such as a tensor."""

    def __dlpack__(self) -> object:
        """Returns a capsule with the array."""


#: Points: an array, a data frame, a tensor, nested lists, or a column of arrays.
Points: TypeAlias = ArrayLike | SupportsDLPack
#: Labels, one per point.
Labels: TypeAlias = ArrayLike | SupportsDLPack
#: A label as a value of Python.
Label: TypeAlias = str | int | float | bool
#: Several error levels.
Levels: TypeAlias = Sequence[float] | NDArray[np.floating[Any]]

#: Labels that are all different numbers, from this many points on, are taken for numbers.
_MANY = 20


def as_points(X: Points, name: str = "X") -> NDArray[np.float32]:
    """Returns ``X`` as float32 rows. A C-contiguous float32 array is returned as it is; everything else is copied.

    >>> X = np.ones((2, 3), np.float32)
    >>> np.shares_memory(as_points(X), X)
    True
    >>> as_points(np.asfortranarray(X)).flags.c_contiguous
    True
    """
    array = as_array(X, name)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: {name} needs a row a point. Reshape your data: "
            f"{name}.reshape(1, -1) is a single point, {name}.reshape(-1, 1) points of one dimension"
        )
    for axis, what in enumerate(("sample(s)", "feature(s)")):
        if array.shape[axis] == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape={array.shape}) while a minimum of 1 is required by dance."
            )
    with np.errstate(
        over="ignore"
    ):  # a number too large for float32 becomes infinite, and is refused as such
        return np.require(array, np.float32, ["C_CONTIGUOUS", "ALIGNED"])


def check_finite(points: NDArray[np.float32], name: str = "X") -> None:
    """Refuses NaN and infinity, with their row in the user's array, which a split would lose."""
    finite = np.isfinite(points)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(
            f"{name}: row {row}, column {column} is {_spelled(points[row, column])}; every number must be finite. "
            "Remove the row or mend the encoder's output"
        )


def check_learnable(points: NDArray[np.float32], normalize: str) -> None:
    """Refuses points to which no model can be fitted."""
    check_finite(points)
    if len(points) < 2:
        raise ValueError("n_samples=1: a single point cannot both fit and calibrate; pass more")
    if normalize == "l2":
        check_directions(points)
        if points.shape[1] == 1:
            raise ValueError(
                "n_features=1: normalised to length 1, a single feature keeps only its sign; use normalize='standardize'"
            )


def check_directions(points: NDArray[np.float32]) -> None:
    """Refuses rows of zeros, which cannot be normalised to length 1."""
    zeros = ~points.any(axis=1)
    if zeros.any():
        raise ValueError(
            f"X: row {int(zeros.argmax())} is all zeros and has no direction to normalise; remove it or choose another "
            "normalisation (normalize='standardize' or 'none')"
        )


def _spelled(value: np.float32) -> str:
    return "NaN" if np.isnan(value) else str(value)


def as_array(X: Any, name: str) -> NDArray[Any]:
    """Returns ``X`` as an array of real numbers; it may be an array, data frame, tensor, nested list or column of arrays.

    >>> as_array([np.ones(2), [1, 2]], "X").tolist()
    [[1.0, 1.0], [1.0, 2.0]]
    """
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError(f"{name} is sparse, but embeddings are dense: pass {name}.toarray()")
    if np.ma.isMaskedArray(X) and np.ma.is_masked(X):
        raise ValueError(f"{name} has masked values; fill or drop them")
    if hasattr(X, "detach") and hasattr(X, "cpu"):  # a torch tensor, which may track gradients or be bfloat16
        X = X.detach().cpu().float()
    if not hasattr(X, "__array__") and hasattr(X, "__dlpack__"):
        X = np.from_dlpack(X)
    try:
        array = np.asarray(X)
    except ValueError:  # rows of several lengths
        array = np.empty(len(X), object)
        array[:] = list(X)
    if array.dtype == object and array.ndim == 2 and array.shape[1] == 1:
        array = _stacked(array[:, 0], name) if _holds_rows(array[:, 0]) else array
    elif array.dtype == object and array.ndim == 1 and _holds_rows(array):
        array = _stacked(array, name)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype.kind in "OUS":
        array = array.astype(np.float64)
    elif array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}; numbers are needed")
    return array


def _holds_rows(column: NDArray[Any]) -> bool:
    """Tells whether a column holds embeddings: arrays or lists."""
    return any(not isinstance(row, str | bytes) and np.ndim(row) == 1 for row in column[:100])


def _stacked(column: NDArray[Any], name: str) -> NDArray[Any]:
    """Returns a column of embeddings, such as that of a data frame, as rows."""
    width = next(len(row) for row in column if np.ndim(row) == 1)
    for at, row in enumerate(column):
        if row is None or np.ndim(row) != 1:
            raise ValueError(f"{name}: row {at} has no embedding ({row!r}); drop it")
        if len(row) != width:
            raise ValueError(f"{name}: row {at} has {len(row)} numbers, and the first row has {width}")
    return np.stack([np.asarray(row) for row in column])


def as_labels(y: Any, points: int | None = None) -> NDArray[Any]:
    """Returns ``y`` as a flat array of labels: integers, strings, booleans or whole floats; NaN and ``None`` are missing.

    Values that are no classes are refused, with what they seem to be: numbers, one-hot rows, probabilities or tags.
    """
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None.")
    if hasattr(y, "detach") and hasattr(y, "cpu"):
        y = y.detach().cpu()
    if not hasattr(y, "__array__") and hasattr(y, "__dlpack__"):
        y = np.from_dlpack(y)
    try:
        labels = np.asarray(y)
    except ValueError:  # lists of several lengths
        labels = np.empty(len(y), object)
        labels[:] = list(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; use y.ravel()",
            DataConversionWarning,
            stacklevel=3,
        )
        labels = labels.ravel()
    if labels.ndim != 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {labels.shape} instead. {_advice(labels)}"
        )
    if labels.dtype == object:
        tagged = [
            row
            for row, value in enumerate(labels)
            if isinstance(value, list | tuple | set | frozenset | np.ndarray)
        ]
        if tagged:
            raise ValueError(
                f"y holds several labels in a row (row {tagged[0]}: {labels[tagged[0]]!r}): {_TAGS}, with y = 1 for points "
                "that have the tag and 0 for the others"
            )
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise ValueError("Input y contains infinity or a value too large for a label.")
        if (labels != np.trunc(labels))[~np.isnan(labels)].any():
            raise ValueError(
                "Unknown label type: continuous. y holds numbers, and labels are classes: use a regressor (MAPIE has "
                "conformal ones), or cut the numbers into classes, as with np.digitize"
            )
    elif labels.dtype.kind not in "iubUSOT":
        raise ValueError(f"Unknown label type: {labels.dtype}; use integers or strings")
    if points is not None and len(labels) != points:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: [{points}, {len(labels)}]"
        )
    return labels


_TAGS = "these are tags (multi-label), and a point has one label here: fit a model for each tag"


def _advice(labels: NDArray[Any]) -> str:
    """Returns what an array of labels with several columns seems to be, and what to pass in its place."""
    if labels.ndim != 2 or labels.dtype.kind not in "fiub" or len(labels) == 0:
        return "Pass one label for each point."
    binary = np.isin(labels, (0, 1)).all()
    if binary and (labels.sum(axis=1) == 1).all():
        return "It is one-hot: pass y.argmax(axis=1), the number of each point's class."
    if binary:
        return f"It is 0 or 1 in each column: {_TAGS}, with y[:, 0], y[:, 1] and so on."
    if (labels >= 0).all() and np.allclose(labels.sum(axis=1), 1, atol=1e-3):
        return "Its rows are probabilities: pass y.argmax(axis=1), the most probable class of each point."
    return "It holds several numbers for each point, and labels are classes: use a regressor (MAPIE has conformal ones)."


def warn_of_numbers(labels: NDArray[Any]) -> None:
    """Warns of whole numbers that are different for most points, such as prices.

    >>> warn_of_numbers(np.arange(10).repeat(10))
    """
    if labels.dtype.kind not in "iuf" or len(labels) < _MANY:
        return
    classes = len(np.unique(labels))
    if 2 * classes > len(labels):
        warnings.warn(
            f"y has {classes} different numbers for {len(labels)} points, and each is taken for a class. If they are "
            "amounts, such as prices, use a regressor, or cut them into classes, as with np.digitize",
            DanceWarning,
            stacklevel=3,
        )


def rows_with_labels(labels: NDArray[Any], unlabeled: Label | None) -> NDArray[np.int64]:
    """Returns the rows that have a label. With ``unlabeled=None`` every row must; otherwise rows with that label have none.

    >>> rows_with_labels(np.array([0, -1, 1]), -1).tolist()
    [0, 2]
    >>> rows_with_labels(np.array([0.0, np.nan]), None)
    Traceback (most recent call last):
        ...
    ValueError: Input y contains NaN or an empty label at row 1; unlabeled=np.nan leaves such rows out
    """
    none = missing_values(labels)
    if unlabeled is None:
        if none.any():
            raise ValueError(
                f"Input y contains NaN or an empty label at {_rows(none)}; unlabeled=np.nan leaves such rows out"
            )
        return np.arange(len(labels))
    none = np.asarray(
        [missing or label == unlabeled for label, missing in zip(labels.tolist(), none, strict=True)], bool
    )
    if none.all():
        raise ValueError(f"no point has a label but {unlabeled!r}")
    return np.flatnonzero(~none)


def doubtful_rows(labels: NDArray[Any]) -> str | None:
    """Returns the rows of -1 where it is the only negative label beside two or more classes, so that it may mean no label.

    >>> doubtful_rows(np.array([0, 1, -1])), doubtful_rows(np.array([-1, 1]))
    ('row 2', None)
    """
    if labels.dtype.kind not in "if" or len(classes := np.unique(labels)) < 3:
        return None
    negative = classes[classes < 0]
    return _rows(labels == -1) if negative.tolist() == [-1] else None


def missing_values(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns the mask of missing values: NaN, ``None``, ``""`` and pandas' NA."""
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind in "iub":
        return np.zeros(len(labels), bool)
    # NaN is the only value that differs from itself; pandas' NA cannot be compared.
    return np.asarray(
        [
            label is None
            or type(label).__name__ == "NAType"
            or label in ("", b"")
            or (isinstance(label, float) and label != label)
            for label in labels.tolist()
        ],
        bool,
    )


def _rows(mask: NDArray[np.bool_]) -> str:
    rows = np.flatnonzero(mask)
    shown = ", ".join(f"row {row}" for row in rows[:3])
    return shown + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")


def encode(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """Returns the classes, sorted, and every label's number among them."""
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"y mixes labels that cannot be sorted ({error}); use one type") from error
    return classes, codes.astype(np.uint32).ravel()


def class_names(classes: NDArray[Any]) -> list[str]:
    """Returns the names of classes, as a model file stores them. A whole float is named like the integer.

    >>> class_names(np.array([0.0, 1.0])), class_names(np.array([False, True]))
    (['0', '1'], ['False', 'True'])
    """
    return [_name(value) for value in classes.tolist()]


def _name(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


#: The kinds of labels, with their types.
_KINDS: dict[str, type] = {"boolean": bool, "integer": int, "float": float, "text": str}


def class_kind(classes: NDArray[Any]) -> str:
    """Returns the kind of classes, as a model file stores it.

    >>> [class_kind(np.array(some)) for some in ([1, 2], ["1", "2"], [1.0, 2.0], [True, False])]
    ['integer', 'text', 'float', 'boolean']
    """
    values = classes.tolist()
    for kind, of in _KINDS.items():
        if all(isinstance(value, of) for value in values):
            return kind
    return "text"


def class_values(names: list[str], kind: str) -> NDArray[Any]:
    """Returns classes of a kind, by their names.

    >>> class_values(["0", "1"], "text").tolist(), class_values(["0", "1"], "float").tolist()
    (['0', '1'], [0.0, 1.0])
    """
    if kind == "boolean":
        return np.array([name == "True" for name in names])
    return np.array([_KINDS[kind](name) for name in names])


def alphas(alpha: ArrayLike) -> tuple[list[float], bool]:
    """Returns error levels as a list, and True for a single number."""
    values = np.asarray(alpha, dtype=np.float64)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"alpha = {alpha!r}: must be a number between 0 and 1, or a list of them")
    return values.ravel().tolist(), values.ndim == 0
