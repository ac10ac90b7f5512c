"""Why a label is in a set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native


@dataclass(frozen=True)
class Support:
    """One label of a set, and what speaks for it."""

    #: The label.
    label: Any
    #: The classifier's probability of it.
    probability: float
    #: Its p-value: a label is in the set at every level below it. ``None`` where scores are not combined into one
    #: (``combine="union"``).
    p: float | None
    #: p-value of its rank among the neighbors.
    p_rank: float
    #: p-value of its contrastive score.
    p_contrast: float
    #: Rows of the nearest reference points that carry it, nearest first (see ``reference_indices_``).
    neighbors: list[int]

    def __str__(self) -> str:
        p = "" if self.p is None else f"p {self.p:.3f}, "
        return (
            f"{self.label}: {p}probability {self.probability:.3f}, p(rank) {self.p_rank:.3f}, "
            f"p(contrast) {self.p_contrast:.3f}, like rows {self.neighbors}"
        )


@dataclass(frozen=True)
class Explanation:
    """A prediction set with its reasons, the best label first."""

    #: The most probable label of the set; of all labels where the set is empty. So it is in every set that is not.
    best: Any
    #: Distance to the nearest reference point: large for a point unlike any seen.
    nearest: float
    #: The labels of the set.
    labels: list[Support]

    def __str__(self) -> str:
        lines = [f"{len(self.labels)} label(s), best {self.best}; nearest at {self.nearest:.3g}"]
        lines += [f"  {support}" for support in self.labels]
        return "\n".join(lines)


def explanations(
    scored: _native.Scored,
    decision: _native.Decision,
    *,
    probabilities: NDArray[np.float64],
    classes: NDArray[Any],
    rows: NDArray[np.int64],
    neighbors: int,
) -> list[Explanation]:
    """One for every point that was scored with its best label and with support."""
    rank, contrast = scored.p_values("rank"), scored.p_values("contrast")
    combined = scored.p_values("combined")
    best, support = decision.best, decision.support
    assert best is not None and support is not None
    offsets, labels, values = decision.offsets, decision.labels, classes.tolist()
    found = []
    for point in range(len(best)):
        members = []
        answer = values[best[point]]
        for at in range(offsets[point], offsets[point + 1]):
            label = labels[at]
            members.append(
                Support(
                    label=values[label],
                    probability=float(probabilities[point, label]),
                    p=None if combined is None else float(combined[point, label]),
                    p_rank=float(rank[point, label]),
                    p_contrast=float(contrast[point, label]),
                    neighbors=[int(rows[row]) for row in support[at][:neighbors]],
                )
            )
        # The best one first: labels that only calibration points have are all of probability 0.
        members.sort(key=lambda member: (member.label != answer, -member.probability))
        found.append(Explanation(answer, float(scored.nearest[point]), members))
    return found
