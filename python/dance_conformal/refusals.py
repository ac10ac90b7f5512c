"""Rows that are not valid points: they are found and left out, and the others are scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _native
from .inputs import as_points

T = TypeVar("T")
#: Scores points with a model; a ``ValueError`` means that one of them is not valid.
Score = Callable[[_native.Model, NDArray[np.float32]], T]


def score_in_parts(
    model: _native.Model, found: NDArray[Any], score: Score[T]
) -> tuple[list[tuple[NDArray[np.int64], T]], dict[int, str]]:
    """Returns the results of ``score`` with their rows, and the reason for every row without a result.

    All rows are scored together. Only if the model refuses them are the rows checked one by one: numbers that are not
    finite and rows without a direction are found directly; the rest is halved until every refusal has its row.
    """
    points = as_floats(found, model.dimensions)
    every = np.arange(len(points))
    try:
        return [(every, score(model, points))], {}
    except ValueError:
        refused = _invalid_rows(model, points)
    parts: list[tuple[NDArray[np.int64], T]] = []
    nothing = np.empty(0, np.int64)
    left = [np.array([row for row in every if row not in refused], np.int64)]
    while left and len(rows := left.pop()):
        try:
            parts.append((rows, score(model, points[rows])))
        except ValueError as error:
            if len(rows) == 1:
                refused[int(rows[0])] = f"is refused by the model ({error})"
            else:
                left += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
    return parts or [(nothing, score(model, points[:0]))], refused


def as_floats(found: NDArray[Any], dimensions: int) -> NDArray[np.float32]:
    """Returns numbers as 32-bit floats, without a copy where they have that type."""
    return as_points(found) if len(found) else np.empty((0, dimensions), np.float32)


def _invalid_rows(model: _native.Model, points: NDArray[np.float32]) -> dict[int, str]:
    finite = np.isfinite(points)
    wrong = {}
    for row in np.flatnonzero(~finite.all(axis=1)):
        at = int((~finite[row]).argmax())
        value = "NaN" if np.isnan(points[row, at]) else str(points[row, at])
        wrong[int(row)] = f"is {value} in column {at}"
    if json.loads(model.settings)["normalize"] == "l2":
        for row in np.flatnonzero(~points.any(axis=1)):
            wrong[int(row)] = "is all zeros and has no direction"
    return wrong
