"""Results: frozen records with attributes, which become data frames and tables in a notebook.

>>> from dance_conformal.results import Portion, Rows
>>> rows = Rows([Portion("lowest", 40, 0.85, 2.1), Portion("highest", 40, 0.95, 1.0)])
>>> rows[0].coverage, len(rows)
(0.85, 2)
>>> list(rows.to_frame().columns)
['name', 'points', 'coverage', 'size']
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from .inputs import Label

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T", bound="_Record")

#: Most rows of a table in a notebook.
_SHOWN = 20


def _pandas() -> pd:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame needs pandas, which is not installed: pip install pandas") from error
    return pandas


def _shown(value: object) -> str:
    """Returns a value as text for a table."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        most = [_shown(one) for one in value[:5]]
        return ", ".join(most) + (" …" if len(value) > 5 else "")
    return "" if value is None else str(value)


def _table(header: list[str], rows: Iterable[list[object]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    lines = (
        "<tr>" + "".join(f"<td>{html.escape(_shown(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f"<table>{head}<tbody>{''.join(lines)}</tbody></table>"


class _Record:
    """A frozen dataclass that becomes a row of a data frame, and a table in a notebook."""

    def to_frame(self) -> pd.DataFrame:
        """Returns the single values as a pandas data frame of one row. Lists of records have a ``to_frame`` of their own."""
        return _pandas().DataFrame([self._cells()])

    def _cells(self, prefix: str = "") -> dict[str, object]:
        """Returns the values by name. A record in this one adds its name, as in ``overlap_fit``."""
        cells: dict[str, object] = {}
        for field in fields(self):  # type: ignore[arg-type]
            name, value = prefix + field.name, getattr(self, field.name)
            if isinstance(value, _Record):
                cells |= value._cells(f"{name}_")
            elif not isinstance(value, Rows | np.ndarray):
                cells[name] = value
        return cells

    def _repr_html_(self) -> str:
        parts = [_table([], ([name, value] for name, value in self._cells().items()))]
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Rows) and value:
                title = f"{html.escape(field.name)} ({len(value)})"
                parts.append(f"<details><summary>{title}</summary>{value._repr_html_()}</details>")
        return "".join(parts)


class Rows(tuple[T, ...]):
    """Records in their order: a tuple that becomes a data frame, and a table in a notebook."""

    def to_frame(self) -> pd.DataFrame:
        """Returns a pandas data frame with a row for each record."""
        return _pandas().DataFrame([record._cells() for record in self])

    def _repr_html_(self) -> str:
        cells = [record._cells() for record in self[:_SHOWN]]
        more = f"<p>and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        return _table(list(cells[0]) if cells else [], (list(row.values()) for row in cells)) + more


@dataclass(frozen=True)
class Portion(_Record):
    """Coverage and size of the sets of a part of the points."""

    name: str
    points: int
    coverage: float
    size: float


@dataclass(frozen=True)
class ClassMetrics(_Record):
    """Coverage and size of the sets of the points with one label."""

    label: Label
    points: int
    covered: int
    coverage: float
    size: float


@dataclass(frozen=True)
class Overlap(_Record):
    """The number of points that the model knows from its fit and from its calibration."""

    fit: int
    calibration: int


@dataclass(frozen=True)
class ProbabilityMetrics(_Record):
    """Metrics of class probabilities; smaller is better."""

    #: Mean of ``-ln p`` for the probability p of the true label.
    log_loss: float
    #: Mean squared distance of the probabilities from the true label, from 0 to 2.
    brier: float
    #: Expected calibration error: the mean distance of confidence from accuracy. It is too large with few points.
    calibration_error: float


@dataclass(frozen=True)
class SetMetrics(_Record):
    """Metrics of prediction sets. Shares are between 0 and 1; violations are in per cent."""

    points: int
    alpha: float
    #: The share of points whose most probable label is right.
    accuracy: float | None
    #: The share of sets with the true label.
    coverage: float
    #: The mean number of labels in a set.
    size: float
    #: The class-conditional coverage violation (CCV): the mean over classes of ``|coverage - (1 - alpha)|``.
    class_violation: float
    #: Its mean at perfect coverage, for these numbers of points.
    class_violation_floor: float
    #: The part of the violation from classes below ``1 - alpha``.
    class_undercoverage: float
    #: Root mean square deviation of class coverage from ``1 - alpha``, without the part due to chance.
    class_deviation: float
    #: The mean coverage of the classes.
    macro_coverage: float
    #: The largest ``|coverage - (1 - alpha)|`` over strata of set size (SSCV).
    size_violation: float
    #: The share of empty sets.
    empty: float
    #: The share of sets with one label.
    singletons: float
    #: The share of right labels among those sets.
    singleton_hits: float | None


@dataclass(frozen=True)
class Evaluation(SetMetrics):
    """The result of :meth:`DanceClassifier.evaluate`: metrics of the sets at one error level."""

    #: The interval that holds coverage 95 times in 100 if the guarantee holds.
    by_chance: tuple[float, float]
    #: The probability of a coverage as low as this one.
    as_low: float
    #: The points that the model knows: their coverage is not that of new points.
    overlap: Overlap
    #: The guarantee of the sets, in words.
    guarantee: str
    probabilities: ProbabilityMetrics
    #: Fifths of the points by their largest class probability.
    by_confidence: Rows[Portion]
    #: Groups of points by the size of their sets.
    by_size: Rows[Portion]
    #: Fifths of the points by the number of points with their label.
    by_frequency: Rows[Portion]
    #: Every label that the points carry.
    classes: Rows[ClassMetrics]


@dataclass(frozen=True)
class BatchEvaluation(_Record):
    """The result of :func:`dance_conformal.arrow.report`: the metrics that counts per class can give."""

    points: int
    alpha: float
    accuracy: float
    coverage: float
    by_chance: tuple[float, float]
    as_low: float
    size: float
    class_violation: float
    class_violation_floor: float
    empty: float
    singletons: float
    singleton_hits: float | None
    overlap: Overlap
    #: Points whose label the model does not know.
    unknown: int
    #: Rows that are no valid points.
    refused: int
    guarantee: str
    classes: Rows[ClassMetrics]


@dataclass(frozen=True)
class Threshold(_Record):
    """The threshold of one score."""

    #: Labels whose score is at most this are in the set.
    value: float
    #: The share of alpha that the score has.
    alpha: float
    #: The place of the threshold among the sorted scores of the calibration points, from 1 on.
    index: int
    calibration_points: int


@dataclass(frozen=True)
class MixTrial(_Record):
    """A mix that was tried, and its sets on the points that select the mix."""

    mix: float
    size: float
    violation: float
    objective: float


@dataclass(frozen=True)
class Thresholds(_Record):
    """The rule by which labels enter sets at one error level. Parts that the method does not have are ``None``."""

    alpha: float
    #: The number of calibration points behind the p-values.
    points: int
    #: The part of alpha that is spent on new labels.
    new_label_alpha: float | None
    #: Method dance: the share of alpha for the contrastive score.
    mix: float | None
    #: Method dance: the threshold of the rank.
    rank: Threshold | None
    #: Method dance: the threshold of the contrastive score.
    contrast: Threshold | None
    #: Method dance: the mixes from which this one was selected.
    trials: Rows[MixTrial]


@dataclass(frozen=True)
class LabelExplanation(_Record):
    """A label of a set, with its probability, p-values and nearest points."""

    label: Label
    #: Its class probability, as in ``predict_proba``.
    probability: float
    #: Its p-value: a label is in the set at every level below it.
    p_value: float
    #: The p-value of its rank among the neighbors by itself; ``None`` unless the method is dance.
    rank_p_value: float | None
    #: The p-value of its contrastive score by itself; ``None`` unless the method is dance.
    contrast_p_value: float | None
    #: Rows of the nearest reference points that carry it, nearest first (see ``reference_indices_``).
    support: list[int]

    def __str__(self) -> str:
        by_score = ""
        if self.rank_p_value is not None and self.contrast_p_value is not None:
            by_score = f" (rank {self.rank_p_value:.3f}, contrast {self.contrast_p_value:.3f})"
        return (
            f"{self.label}: probability {self.probability:.3f}, p-value {self.p_value:.3f}{by_score}, "
            f"nearest rows {self.support}"
        )


@dataclass(frozen=True)
class Explanation(_Record):
    """A prediction set with an explanation of its labels."""

    #: The most probable of all labels, as in ``predict``. A set need not hold it.
    prediction: Label
    #: Its class probability, as in ``predict_proba``.
    probability: float
    #: Distance to the nearest reference point: large for a point unlike all of them.
    nearest: float
    #: The labels of the set, the best conforming first.
    set: Rows[LabelExplanation]

    def _cells(self, prefix: str = "") -> dict[str, object]:
        return {**super()._cells(prefix), f"{prefix}set": [one.label for one in self.set]}

    def __str__(self) -> str:
        lines = [
            f"prediction {self.prediction} (probability {self.probability:.3f}), {len(self.set)} label(s) in the set, "
            f"nearest point at {self.nearest:.3g}"
        ]
        lines += [f"  {one}" for one in self.set]
        return "\n".join(lines)


@dataclass(frozen=True)
class Alarm(_Record):
    """An alarm of a monitor."""

    #: The part of the stream that has changed.
    watched: Literal["inputs", "labels"]
    #: The point, from 0 on, at which there was enough evidence.
    row: int


@dataclass(frozen=True)
class Evidence(_Record):
    """The evidence of a change: the capital of a martingale that bets on it, which starts at 1."""

    watched: Literal["inputs", "labels"]
    capital: float
    #: The largest capital so far.
    largest: float


@dataclass(frozen=True)
class MonitorReport(_Record):
    """The state of a monitored stream, in numbers."""

    #: Points so far.
    points: int
    #: The capital at which there is an alarm.
    bound: float
    #: All alarms so far.
    alarms: Rows[Alarm]
    evidence: Rows[Evidence]


@dataclass(frozen=True)
class LabelError(_Record):
    """A label that is probably wrong."""

    row: int
    label: Label
    #: The most probable other label.
    suggested: Label
    #: The probability that the label is wrong; ``None`` where a model tests the labels.
    probability: float | None
    #: The p-value of the given label.
    p_value: float
    #: Rows of the nearest points.
    neighbors: list[int]


@dataclass(frozen=True)
class ModelPoint(_Record):
    """A point of the model."""

    part: Literal["fit", "calibration"]
    row: int | None
    id: str | None


@dataclass(frozen=True)
class Copies(_Record):
    """A group of near-copies."""

    rows: list[int]
    #: The group's points in the model, without those that are points of the data themselves.
    model: Rows[ModelPoint]
    #: The space in which they are near-copies.
    space: Literal["given", "learned", "both"]
    #: The parts of the points, such as ``"train"`` and ``"test"``.
    parts: list[str]
    #: True where the points lie in several parts, which are then not independent.
    across: bool


@dataclass(frozen=True)
class Outlier(_Record):
    """A point far from all others."""

    row: int
    #: The log distance to the fifth neighbor, in robust standard deviations above the median.
    deviations: float
    neighbors: list[int]


@dataclass(frozen=True)
class AlikeClasses(_Record):
    """Two classes that are confused with each other."""

    labels: tuple[Label, Label]
    #: The share of points of each class that fit the other class best.
    shares: tuple[float, float]


@dataclass(frozen=True)
class TwofoldClass(_Record):
    """A class that looks like two."""

    label: Label
    #: The p-value for being one.
    p_value: float
    #: Rows of the two groups, those nearest to the center first.
    groups: tuple[list[int], list[int]]


@dataclass(frozen=True)
class RareClass(_Record):
    """A class with few points."""

    label: Label
    points: int


@dataclass(frozen=True)
class RowOrder(_Record):
    """A test of the order of rows."""

    #: The property that is tested.
    by: Literal["label", "distance"]
    #: The capital of a martingale that bets against a random order; it starts at 1.
    evidence: float
    #: True where the order is not random.
    ordered: bool


@dataclass(frozen=True)
class OverlapPoint(_Record):
    """A point that the model knows."""

    row: int
    point: ModelPoint


@dataclass(frozen=True)
class Audit(_Record):
    """The result of :func:`dance_conformal.audit`, with the labels of ``y`` and rows of ``X``."""

    #: Suspected label errors, the most suspicious first.
    label_errors: Rows[LabelError]
    #: For every point the log ratio of the probabilities of the best other label and its own.
    odds: NDArray[np.float64]
    #: The estimated share of wrong labels; ``None`` where a model tests the labels.
    error_share: float | None
    #: The rule behind the list of label errors, in words.
    rule: str
    #: Groups of near-copies, those across parts first.
    copies: Rows[Copies]
    #: Points far from all others, the farthest first.
    outliers: Rows[Outlier]
    #: Pairs of classes that may be one.
    alike: Rows[AlikeClasses]
    #: Classes that look like two.
    twofold: Rows[TwofoldClass]
    #: Classes with few points.
    rare: Rows[RareClass]
    #: Tests of the order of rows.
    order: Rows[RowOrder]
    #: Points that the model knows.
    overlap: Rows[OverlapPoint]


@dataclass(frozen=True)
class ComparedMethod(_Record):
    """A method with its settings, measured at one error level."""

    method: Literal["posterior", "fuse", "dance"]
    calibration: Literal["full", "split", "reuse"]
    by_class: Literal["all", "balanced", "clusters", "each"]
    new_labels: bool
    alpha: float
    size: float
    coverage: float
    by_chance: tuple[float, float]
    as_low: float
    class_deviation: float
    #: Seconds to predict a thousand points.
    seconds: float


@dataclass(frozen=True)
class Comparison(_Record):
    """The result of :meth:`DanceClassifier.compare`."""

    calibration_points: int
    evaluation_points: int
    #: The method with the smallest sets at the first error level, among those that promise coverage for all points
    #: together and keep it on these points; ``None`` if none does.
    recommended: ComparedMethod | None
    methods: Rows[ComparedMethod]
