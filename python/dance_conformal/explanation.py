"""Why a label is in a set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Support:
    """One label of a set, and what speaks for it."""

    #: The label.
    label: Any
    #: The classifier's probability of it.
    probability: float
    #: p-value of its rank among the neighbors.
    p_rank: float
    #: p-value of its contrastive score.
    p_contrast: float
    #: Rows of the nearest reference points that carry it, nearest first (see ``reference_indices_``).
    neighbors: list[int]


@dataclass(frozen=True)
class Explanation:
    """A prediction set with its reasons, the most probable label first."""

    #: The classifier's own answer.
    best: Any
    #: Distance to the nearest reference point: large for a point unlike any seen.
    nearest: float
    #: The labels of the set.
    labels: list[Support]

    def __str__(self) -> str:
        lines = [
            f"{len(self.labels)} label(s); the classifier says {self.best}; nearest at {self.nearest:.3g}"
        ]
        lines += [
            f"  {s.label}: probability {s.probability:.3f}, p(rank) {s.p_rank:.3f}, "
            f"p(contrast) {s.p_contrast:.3f}, like rows {s.neighbors}"
            for s in self.labels
        ]
        return "\n".join(lines)
