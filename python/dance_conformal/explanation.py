"""Explanations: the evidence for every label of a set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .machine import all_columns


@dataclass(frozen=True)
class Support:
    """A label of a set, with its probability, p-values and nearest points."""

    #: The label.
    label: Any
    #: Its class probability, as in ``predict_proba``.
    probability: float
    #: Its p-value: a label is in the set at every level below it.
    p_value: float
    #: The p-value of its rank among the neighbors by itself; ``None`` unless the method is dance.
    rank_p_value: float | None
    #: The p-value of its contrastive score by itself; ``None`` unless the method is dance.
    contrast_p_value: float | None
    #: Rows of the nearest reference points that carry it, nearest first (see ``reference_indices_``).
    neighbors: list[int]

    def __str__(self) -> str:
        by_score = ""
        if self.rank_p_value is not None and self.contrast_p_value is not None:
            by_score = f" (rank {self.rank_p_value:.3f}, contrast {self.contrast_p_value:.3f})"
        return (
            f"{self.label}: probability {self.probability:.3f}, p-value {self.p_value:.3f}{by_score}, "
            f"nearest rows {self.neighbors}"
        )


@dataclass(frozen=True)
class Explanation:
    """A prediction set with the support of its labels."""

    #: The most probable of all labels, as in ``predict``. A set need not hold it.
    prediction: Any
    #: Its class probability, as in ``predict_proba``.
    probability: float
    #: Distance to the nearest reference point: large for a point unlike all of them.
    nearest: float
    #: The labels of the set, the best conforming first.
    labels: list[Support]

    def __str__(self) -> str:
        lines = [
            f"prediction {self.prediction} (probability {self.probability:.3f}), {len(self.labels)} label(s) in the set, "
            f"nearest point at {self.nearest:.3g}"
        ]
        lines += [f"  {support}" for support in self.labels]
        return "\n".join(lines)


def explanations(
    scored: _native.Scored,
    decision: _native.Decision,
    *,
    alpha: float,
    two_scores: bool,
    classes: NDArray[Any],
    rows: NDArray[np.int64],
    neighbors: int,
) -> list[Explanation]:
    """Returns an explanation for every point that was scored with its probabilities and with support."""
    predictions, known, support = scored.predictions, scored.probabilities, decision.support
    assert predictions is not None and known is not None and support is not None
    probabilities = all_columns(known, len(classes))
    p_values = scored.p_values(alpha)
    by_score = (
        [scored.p_values(alpha, score) for score in ("rank", "contrast")] if two_scores else [None, None]
    )
    values, labels, offsets = classes.tolist(), decision.labels, decision.offsets
    order, nearest = scored.conforming(decision), scored.nearest

    def member(point: int, place: int) -> Support:
        label = labels[place]
        rank, contrast = (None if every is None else float(every[point, label]) for every in by_score)
        return Support(
            label=values[label],
            probability=float(probabilities[point, label]),
            p_value=float(p_values[point, label]),
            rank_p_value=rank,
            contrast_p_value=contrast,
            neighbors=[int(rows[row]) for row in support[place][:neighbors]],
        )

    return [
        Explanation(
            prediction=values[prediction],
            probability=float(probabilities[point, prediction]),
            nearest=float(nearest[point]),
            labels=[member(point, place) for place in order[offsets[point] : offsets[point + 1]]],
        )
        for point, prediction in enumerate(predictions)
    ]
