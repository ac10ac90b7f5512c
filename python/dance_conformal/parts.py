"""Which rows of the data fit the kernel, which calibrate, and which are neighbors."""

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
    """Rows that fit the kernel and, unless ``share`` is ``None``, rows that calibrate: at random, or class by class.

    Points that were picked fit the kernel, whatever the share of the others. Groups stay whole, the share is one of groups,
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
            "and pass points that came by chance to conformalize"
        )
    else:
        check_some_drawn(picked)
        drawn = np.flatnonzero(~picked)
        rows = [drawn[part] for part in _native.split(codes[drawn], [1 - share, share], seed, bool(stratify))]
        rows[0] = np.concatenate([rows[0], np.flatnonzero(picked)])
        warnings.warn(
            f"{picked.sum()} points that were picked fit the kernel; only points that came by chance calibrate",
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
    """The group of every point, as it was given."""
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
    """Groups as numbers, in the order in which they come up.

    >>> numbered(np.array(["b", "a", "b", "c"])).tolist()
    [0, 1, 0, 2]
    """
    number: dict[Any, int] = {}
    return np.array([number.setdefault(name, len(number)) for name in names.tolist()], dtype=np.uint32)


class ReferencePoint(NamedTuple):
    """A point among which neighbors are found: where it came from."""

    #: ``"fit"`` for a point that fitted the kernel, ``"calibration"`` for one that calibrates.
    part: str
    #: Its row in the array passed to ``fit`` or ``conformalize``, or in the file that the ``dance`` program read; ``None``
    #: in model older files.
    row: int | None
    #: Its id, where the points of the file had ids: a number where it was one there.
    id: str | int | None


def reference_rows(
    calibration: NDArray[np.int64], kernel: NDArray[np.int64], settings: dict[str, Any]
) -> NDArray[np.int64]:
    """Rows of the reference points, in the order a calibrated model has them."""
    dance = settings["dance"]
    if dance["calibration"] == "disjoint":
        return kernel
    if dance["calibration"] == "exact" and dance["fit_neighbors"]:
        return np.concatenate([calibration, kernel])
    return calibration
