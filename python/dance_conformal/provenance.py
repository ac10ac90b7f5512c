"""Provenance of points: picked by their embeddings, as ``select`` does, or random."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .inputs import missing_values
from .progress import DanceWarning

#: The words of provenance.
PICKED, RANDOM = "picked", "random"


def picked_points(provenance: Any, points: int) -> NDArray[np.bool_]:
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


def check_some_drawn(picked: NDArray[np.bool_]) -> None:
    """Refuses data without a random point."""
    if picked.all():
        raise ValueError(
            f"all {len(picked)} points were picked; only random points are like new points and can calibrate"
        )


def random_rows(picked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the rows of random points, which may calibrate, and warns of the others."""
    if picked.any():
        check_some_drawn(picked)
        warnings.warn(
            f"{picked.sum()} picked points are left out: only random points are like new points",
            DanceWarning,
            stacklevel=3,
        )
    return np.flatnonzero(~picked)
