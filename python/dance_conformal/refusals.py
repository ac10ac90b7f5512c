"""Rows that a model refuses, told apart from those it answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _native
from .inputs import as_points

T = TypeVar("T")
#: Asks a model about points; a ``ValueError`` says that one of them is none.
Ask = Callable[[_native.Model, NDArray[np.float32]], T]


def ask_in_parts(
    model: _native.Model, found: NDArray[Any], ask: Ask[T]
) -> tuple[list[tuple[NDArray[np.int64], T]], dict[int, str]]:
    """What ``ask`` says, with the rows it says it of, and why it says nothing of the others.

    All are asked about together. Only where the model refuses them are the rows looked at: those with numbers that are not
    finite, or without a direction, are known by sight; what is left is halved until each refusal has its row.
    """
    points = as_floats(found, model.dimensions)
    every = np.arange(len(points))
    try:
        return [(every, ask(model, points))], {}
    except ValueError:
        refused = _by_sight(model, points)
    parts: list[tuple[NDArray[np.int64], T]] = []
    nothing = np.empty(0, np.int64)
    left = [np.array([row for row in every if row not in refused], np.int64)]
    while left and len(rows := left.pop()):
        try:
            parts.append((rows, ask(model, points[rows])))
        except ValueError as error:
            if len(rows) == 1:
                refused[int(rows[0])] = f"is refused by the model ({error})"
            else:
                left += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
    return parts or [(nothing, ask(model, points[:0]))], refused


def as_floats(found: NDArray[Any], dimensions: int) -> NDArray[np.float32]:
    """32-bit floats, not copied where they are that."""
    return as_points(found) if len(found) else np.empty((0, dimensions), np.float32)


def _by_sight(model: _native.Model, points: NDArray[np.float32]) -> dict[int, str]:
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
