"""The rows of the data that fit the kernel, that calibrate, and that are neighbors."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _native
from .inputs import missing_values
from .progress import DanceWarning
from .provenance import check_some_drawn


def split(
    codes: NDArray[np.uint32],
    share: float | None,
    seed: int,
    *,
    stratify: bool,
    picked: NDArray[np.bool_] | None = None,
    groups: NDArray[np.uint32] | None = None,
) -> list[NDArray[np.int64]]:
    """Returns rows that fit the kernel and, unless ``share`` is ``None``, rows that calibrate, drawn at random or by class.

    Picked points fit the kernel, and ``share`` is a share of the others. Groups stay whole, ``share`` is a share of groups,
    and one point of each group calibrates.

    >>> codes = np.arange(10, dtype=np.uint32) % 2
    >>> [len(rows) for rows in split(codes, 0.3, 0, stratify=False)]
    [7, 3]
    """
    if share is None:
        return [np.arange(len(codes))]
    if not 0 < share < 1:
        raise ValueError(f"calibration_share = {share}: must be between 0 and 1, or None")
    if groups is not None and stratify:
        raise ValueError("stratify=True cannot keep groups whole: set stratify=False, or pass no groups")
    if picked is None or not picked.any():
        rows = _native.split(codes, [1 - share, share], seed, bool(stratify), groups)
    elif groups is not None:
        raise ValueError(
            f"{picked.sum()} points were picked, and their groups could not be kept whole: fit with calibration_share=None "
            "and pass random points to conformalize"
        )
    else:
        check_some_drawn(picked)
        drawn = np.flatnonzero(~picked)
        rows = [drawn[part] for part in _native.split(codes[drawn], [1 - share, share], seed, bool(stratify))]
        rows[0] = np.concatenate([rows[0], np.flatnonzero(picked)])
        warnings.warn(
            f"{picked.sum()} picked points fit the kernel; only random points calibrate",
            DanceWarning,
            stacklevel=3,
        )
    if len(np.unique(codes[rows[0]])) == 1:
        raise ValueError(
            f"the {len(rows[0])} of {len(codes)} points that fit the kernel all carry the same label, and it needs two "
            "classes: pass more points, set stratify=True, or choose the calibration points yourself "
            "(calibration_share=None, then conformalize)"
        )
    return rows


def group_names(groups: Any, points: int) -> NDArray[Any] | None:
    """Returns the group of every point, as it was given."""
    if groups is None:
        return None
    names = np.asarray(groups).reshape(-1)
    if len(names) != points:
        raise ValueError(
            f"groups has {len(names)} entries, and X has {points} points; one is needed for each"
        )
    missing = np.flatnonzero(missing_values(names))
    if len(missing):
        raise ValueError(f"row {missing[0]} has no group; give a point that is alone a group of its own")
    return names


def numbered(names: NDArray[Any]) -> NDArray[np.uint32]:
    """Returns groups as numbers, in order of appearance.

    >>> numbered(np.array(["b", "a", "b", "c"])).tolist()
    [0, 1, 0, 2]
    """
    number: dict[Any, int] = {}
    return np.array([number.setdefault(name, len(number)) for name in names.tolist()], dtype=np.uint32)


class ReferencePoint(NamedTuple):
    """The origin of a reference point, one of those among which neighbors are found."""

    #: ``"fit"`` for a point that fitted the kernel, ``"calibration"`` for one that calibrates.
    part: str
    #: The row in the array passed to ``fit`` or ``conformalize``, or in the file that the ``dance`` program read.
    row: int | None
    #: The id, where the points of the file had ids: a number where it was one there.
    id: str | int | None


def reference_rows(calibration: NDArray[np.int64], kernel: NDArray[np.int64], use: str) -> NDArray[np.int64]:
    """Returns the rows of the reference points, in the model's order. ``use`` is the use of calibration points.

    >>> reference_rows(np.array([5, 6]), np.array([0, 1]), "full").tolist()
    [5, 6, 0, 1]
    """
    if use == "split":
        return kernel
    return np.concatenate([calibration, kernel]) if use == "full" else calibration
