"""Coverage by counts: every batch becomes a few counts per class, which can be added up anywhere.

>>> import pyarrow as pa
>>> from dance_conformal import DanceClassifier, datasets
>>> from dance_conformal.arrow import evaluate_batches, report
>>> X, y = datasets.clusters(600, classes=3)
>>> model = DanceClassifier(evaluations=2).fit(X[:400], y[:400])
>>> points = pa.FixedSizeListArray.from_arrays(X[400:].ravel(), X.shape[1])
>>> count = evaluate_batches(model, alpha=0.1)
>>> counts = pa.Table.from_batches(count(pa.table({"embedding": points, "label": y[400:]})))
>>> found = report(counts, model, alpha=0.1)
>>> found.coverage == model.evaluate(X[400:], y[400:]).coverage, found.points
(True, 200)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from . import _native
from .columns import ArrowData, column, pa, points, record_batches
from .inputs import class_names, class_values
from .refusals import as_floats, score_in_parts
from .results import BatchEvaluation, ClassMetrics, Overlap, Rows
from .settings import check_alpha, check_word, stored_alpha, thread_count
from .shipped import AnyModel, ShippedModel

#: The counts of every class.
COUNTS = (
    "points", "covered", "labels", "right", "empty", "single", "single_right", "overlap_fit",
    "overlap_calibration", "refused",
)  # fmt: skip


def evaluate_batches(
    model: AnyModel,
    *,
    alpha: float | None = None,
    embedding: str = "embedding",
    label: str = "label",
    on_error: Literal["raise", "skip"] = "raise",
    exclude_overlap: bool = False,
    n_jobs: int | None = None,
) -> BatchEvaluator:
    """Returns a function from Arrow record batches with labels to record batches of counts, one row per class of a batch.

    Counts of one ``class`` add up; :func:`report` turns them into coverage, size and other metrics. Parameters are those of
    :func:`~dance_conformal.arrow.predict_batches`, and ``on_error="skip"`` counts rows that are no points as ``refused``.
    ``exclude_overlap`` leaves out points that belong to the model.
    """
    check_word("on_error", on_error, ("raise", "skip"))
    return BatchEvaluator(
        ShippedModel(model), alpha, embedding, label, on_error, exclude_overlap, thread_count(n_jobs)
    )


class BatchEvaluator:
    """The function that :func:`evaluate_batches` returns. It can be pickled and sent to a worker."""

    def __init__(
        self,
        model: ShippedModel,
        alpha: float | None,
        embedding: str,
        label: str,
        on_error: str,
        exclude_overlap: bool,
        threads: int,
    ) -> None:
        self.model = model
        self.alpha = None if alpha is None else check_alpha(alpha)
        self.embedding = embedding
        self.label = label
        self.on_error = on_error
        self.exclude_overlap = exclude_overlap
        self.threads = threads

    def __call__(self, batches: ArrowData) -> Iterator[pa.RecordBatch]:
        """Returns the counts of record batches (or a table, a data frame, a reader)."""
        first = 0
        for batch in record_batches(batches):
            yield self.count(batch, first)
            first += batch.num_rows

    @staticmethod
    def schema() -> pa.Schema:
        """Returns the schema of the counts."""
        return pa.schema([("class", pa.string()), *((name, pa.int64()) for name in COUNTS)])

    def count(self, batch: pa.RecordBatch, first: int = 0) -> pa.RecordBatch:
        """Returns the counts of one record batch, whose first row is number ``first``."""
        model = self.model.open(self.threads)
        names, codes = _labels(column(batch, self.label))
        found, rows, wrong = points(column(batch, self.embedding), model.dimensions, self.embedding)
        wrong |= {int(row): "has no label" for row in np.flatnonzero(codes < 0)}
        found, rows = found[codes[rows] >= 0], rows[codes[rows] >= 0]
        parts, refused = score_in_parts(model, found, self._score)
        wrong |= {int(rows[row]): reason for row, reason in refused.items()}
        if wrong and self.on_error == "raise":
            row = min(wrong)
            raise ValueError(f"row {first + row} {wrong[row]}; on_error='skip' counts the other rows")
        known = {name: code for code, name in enumerate(model.classes)}
        own = np.array([known.get(name, -1) for name in names], np.int64)
        counts = np.zeros((len(names) + 1, len(COUNTS)), np.int64)
        for part, answers in parts:
            of_part = codes[rows[part]]
            seen = model.seen(as_floats(found, model.dimensions)[part])
            tallied = _tallies(own[of_part], answers, seen)
            if self.exclude_overlap:
                tallied[seen > 0, :7] = 0
            np.add.at(counts, of_part, tallied)
        counts[-1, COUNTS.index("refused")] = len(wrong)
        used = counts.any(axis=1)
        columns = [pa.array([*names, None], pa.string()), *map(pa.array, counts.T.copy())]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema()).filter(pa.array(used))

    def _score(self, model: _native.Model, queries: NDArray[np.float32]) -> _native.Answers:
        scored = model.score(queries, json.dumps({"best": True}), self.threads)
        return scored.answers(_level(model, self.alpha), False, False, False)


def _labels(array: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Returns the names of the labels that occur, and the number of every row's label among them; -1 for none."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    names = class_names(np.array(array.dictionary.to_pylist(), object))
    codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    nothing = np.array([name in ("", "nan", "None") for name in names] + [True])
    return names, np.where(nothing[codes], -1, codes)


def _tallies(
    truth: NDArray[np.int64], answers: _native.Answers, seen: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Returns a row of counts for every point; ``truth`` is -1 for a label that the model does not know."""
    sizes = np.diff(answers.offsets)
    row_of_label = np.repeat(np.arange(len(truth)), sizes)
    hits = row_of_label[answers.labels == truth[row_of_label]]
    covered = np.bincount(hits, minlength=len(truth)).astype(bool)
    columns = [
        np.ones(len(truth), bool), covered, sizes, answers.predictions == truth, sizes == 0, sizes == 1,
        covered & (sizes == 1), seen == 1, seen == 2, np.zeros(len(truth), bool),
    ]  # fmt: skip
    return np.stack(columns, axis=1).astype(np.int64)


def report(counts: ArrowData, model: AnyModel, alpha: float | None = None) -> BatchEvaluation:
    """Returns coverage, size and other metrics from counts of :func:`evaluate_batches` at the same ``alpha``."""
    opened = ShippedModel(model).open(1)
    level = _level(opened, None if alpha is None else check_alpha(alpha))
    table = pa.table(counts).group_by("class").aggregate([(name, "sum") for name in COUNTS])
    names = table["class"].to_pylist()
    each = np.stack([table[f"{name}_sum"].to_numpy() for name in COUNTS], axis=1).astype(np.int64)
    total = dict(zip(COUNTS, each.sum(axis=0).tolist(), strict=True))
    n = total["points"]
    if n == 0:
        raise ValueError("there are no points with labels")
    coverage = total["covered"] / n
    empty = np.empty((0, opened.dimensions), np.float32)
    decision = opened.score(empty, json.dumps({"best": False}), 1).decide(level)
    calibrating = json.loads(decision.thresholds)["points"]
    low, high, as_low = _native.coverage_band(calibrating, n, level, coverage)
    present = sorted(
        ((name, of) for name, of in zip(names, each, strict=True) if of[0] > 0),
        key=lambda pair: str(pair[0]),
    )
    values = dict(zip(opened.classes, class_values(opened.classes, opened.label_kind).tolist(), strict=True))
    shares = np.array([of[1] / of[0] for _, of in present])
    return BatchEvaluation(
        points=n,
        alpha=level,
        accuracy=total["right"] / n,
        coverage=coverage,
        by_chance=(low, high),
        as_low=as_low,
        size=total["labels"] / n,
        class_violation=float(100 * np.abs(shares - (1 - level)).mean()),
        class_violation_floor=_native.noise_floor([int(of[0]) for _, of in present], level),
        empty=total["empty"] / n,
        singletons=total["single"] / n,
        singleton_hits=total["single_right"] / total["single"] if total["single"] else None,
        overlap=Overlap(fit=total["overlap_fit"], calibration=total["overlap_calibration"]),
        unknown=sum(int(of[0]) for name, of in present if name not in values),
        refused=total["refused"],
        guarantee=opened.guarantee,
        classes=Rows(
            ClassMetrics(
                label=values.get(name, name),
                points=int(of[0]),
                covered=int(of[1]),
                coverage=float(of[1] / of[0]),
                size=float(of[2] / of[0]),
            )
            for name, of in present
        ),
    )


def _level(model: _native.Model, alpha: float | None) -> float:
    """Returns the error level that is given, or the one that the model remembers."""
    return stored_alpha(json.loads(model.settings)) if alpha is None else alpha
