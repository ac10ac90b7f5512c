"""How points came to be chosen: picked for what they are, as ``select`` does, or drawn by chance."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .inputs import missing_values
from .progress import DanceWarning

#: What is said of points that were picked, and of points that were drawn.
PICKED, RANDOM = "picked", "random"


def picked_points(provenance: Any, points: int) -> NDArray[np.bool_]:
    """Which points were picked. Where nothing is said, points count as drawn by chance.

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
    said = ~missing_values(words)
    for row in np.flatnonzero(said):
        if words[row] not in (PICKED, RANDOM):
            raise ValueError(
                f"row {row}: {words[row]!r} is no provenance; {PICKED!r} or {RANDOM!r} is needed"
            )
    picked = np.zeros(points, np.bool_)
    picked[said] = words[said] == PICKED
    return picked


def check_some_drawn(picked: NDArray[np.bool_]) -> None:
    """Refuses points of which none came by chance."""
    if picked.all():
        raise ValueError(
            f"all {len(picked)} points were picked for what they are; only points that came by chance are like new ones and "
            "can calibrate"
        )


def drawn_alone(picked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows of the points that may calibrate; says how many may not."""
    if picked.any():
        check_some_drawn(picked)
        warnings.warn(
            f"{picked.sum()} points that were picked are left out: only points that came by chance are like new ones",
            DanceWarning,
            stacklevel=3,
        )
    return np.flatnonzero(~picked)
