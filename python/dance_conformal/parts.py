"""The rows of the data that fit the kernel, that calibrate, and that are neighbors."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from .inputs import missing_values
from .progress import DanceWarning

#: The words of provenance: points picked by their embeddings, as ``select`` does, or random ones.
PICKED, RANDOM = "picked", "random"


def split(
    codes: NDArray[np.uint32],
    share: float | None,
    seed: int,
    *,
    picked: NDArray[np.bool_] | None = None,
    groups: NDArray[np.uint32] | None = None,
) -> list[NDArray[np.int64]]:
    """Returns rows that fit the kernel and, unless ``share`` is ``None``, rows that calibrate, drawn at random.

    Picked points fit the kernel, and ``share`` is a share of the others. Groups stay whole, ``share`` is a share of groups,
    and one point of each group calibrates.

    >>> codes = np.arange(10, dtype=np.uint32) % 2
    >>> [len(rows) for rows in split(codes, 0.3, 0)]
    [7, 3]
    """
    if share is None:
        return [np.arange(len(codes))]
    if not 0 < share < 1:
        raise ValueError(f"calibration_share = {share}: must be between 0 and 1, or None")
    if picked is None or not picked.any():
        rows = _native.split(len(codes), [1 - share, share], seed, groups)
    elif groups is not None:
        raise ValueError(
            f"{picked.sum()} points were picked, and their groups could not be kept whole: fit with calibration_share=None "
            "and pass random points to recalibrate"
        )
    else:
        check_some_random(picked)
        drawn = np.flatnonzero(~picked)
        rows = [drawn[part] for part in _native.split(len(drawn), [1 - share, share], seed)]
        rows[0] = np.concatenate([rows[0], np.flatnonzero(picked)])
        warnings.warn(
            f"{picked.sum()} picked points fit the kernel; only random points calibrate",
            DanceWarning,
            stacklevel=3,
        )
    if len(np.unique(codes[rows[0]])) == 1:
        raise ValueError(
            f"the {len(rows[0])} of {len(codes)} points that fit the kernel all carry the same label, and it needs two "
            "classes: pass more points, or choose the calibration points yourself (calibration_data=(X, y))"
        )
    return rows


def group_names(groups: ArrayLike | None, points: int) -> NDArray[Any] | None:
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
    #: The row in the array passed to ``fit`` or ``recalibrate``, or in the file that the ``dance`` program read.
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


def picked_points(provenance: ArrayLike | None, points: int) -> NDArray[np.bool_]:
    """Returns the mask of picked points. Points without a word count as random.

    >>> picked_points(["picked", "random", None], 3).tolist(), picked_points(None, 2).tolist()
    ([True, False, False], [False, False])
    """
    if provenance is None:
        return np.zeros(points, np.bool_)
    words = np.asarray(provenance, dtype=object).reshape(-1)
    if len(words) != points:
        raise ValueError(
            f"provenance has {len(words)} entries, and X has {points} points; one is needed for each"
        )
    known = ~missing_values(words)
    for row in np.flatnonzero(known):
        if words[row] not in (PICKED, RANDOM):
            raise ValueError(
                f"row {row}: {words[row]!r} is no provenance; {PICKED!r} or {RANDOM!r} is needed"
            )
    picked = np.zeros(points, np.bool_)
    picked[known] = words[known] == PICKED
    return picked


def check_some_random(picked: NDArray[np.bool_]) -> None:
    """Refuses data without a random point."""
    if picked.all():
        raise ValueError(
            f"all {len(picked)} points were picked; only random points are like new points and can calibrate"
        )


def random_rows(picked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the rows of random points, which may calibrate, and warns of the others."""
    if picked.any():
        check_some_random(picked)
        warnings.warn(
            f"{picked.sum()} picked points are left out: only random points are like new points",
            DanceWarning,
            stacklevel=3,
        )
    return np.flatnonzero(~picked)
