"""Arrow in, Arrow out: prediction sets for record batches, however many there are.

>>> import pyarrow as pa
>>> from dance_conformal import DanceClassifier, datasets
>>> from dance_conformal.arrow import predict_batches
>>> X, y = datasets.clusters(400, classes=4, seed=0)
>>> model = DanceClassifier(evaluations=3).fit(X[:300], y[:300])
>>> new = pa.table({"id": range(100), "embedding": pa.FixedSizeListArray.from_arrays(X[300:].ravel(), X.shape[1])})
>>> predict = predict_batches(model, alpha=0.1, keep=["id"])
>>> answers = pa.Table.from_batches(predict(new))
>>> answers.schema.names
['id', 'prediction', 'probability', 'set', 'set_size', 'p_max', 'novelty']
>>> predict.answered, predict.refused
(100, 0)

Input is any producer of Arrow's PyCapsule interface: pyarrow, polars, DuckDB, pandas. 32-bit floats are not copied. The
answer of a row depends on its numbers alone, not on its batch or its place.

Needs pyarrow: ``pip install "dance-conformal[arrow]"``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _native
from .batch_metrics import BatchEvaluator, evaluate_batches, report
from .columns import ArrowData, column, pa, points, record_batches
from .inputs import class_values
from .progress import Listener
from .refusals import score_in_parts
from .settings import EmptySets, check_alpha, check_word, stored_alpha, thread_count
from .shipped import AnyModel, ShippedModel

__all__ = ["BatchEvaluator", "BatchPredictor", "evaluate_batches", "predict_batches", "report"]

#: The columns that ``include`` can add, with their types.
_INCLUDE = {
    "probabilities": pa.list_(pa.float32()),
    "p_values": pa.list_(pa.float64()),
    "support": pa.string(),
}
#: Neighbors that are listed for each label, as in the program.
_SUPPORT = 5
#: The Arrow type of labels, by their kind.
_KINDS = {"text": pa.string(), "integer": pa.int64(), "float": pa.float64(), "boolean": pa.bool_()}


class BatchPredictor:
    """A function from Arrow record batches to record batches with a prediction set for every row: :func:`predict_batches`.

    It can be pickled and sent to a worker.

    Parameters
    ----------
    model : path, bytes or DanceClassifier
        A path is opened by the process that calls the function, such as a worker; bytes and classifiers are pickled with it.
    alpha : float or None
        Error level: a set misses the true label in about this share of cases. ``None`` is the one that the model remembers.
    embedding : str
        The column of embeddings: lists, large lists or fixed-size lists of 16-, 32- or 64-bit floats.
    keep : list of str
        Columns that come back with the answers.
    include : list of {"probabilities", "p_values", "support"}
        Columns to add: the probability, the p-value and, as JSON, the nearest points of every label of the set.
    on_error : {"raise", "skip", "report"}
        The treatment of a row that is null, has NaN or another number of dimensions. ``"skip"`` leaves it out.
        ``"report"``: its answers are null, and a column ``error`` has the reason. ``answered`` and ``refused`` of the
        function count the rows of both kinds.
    empty : {"keep", "top1"}
        The treatment of empty sets: they stay empty, or get the most probable label.
    n_jobs : int or None
        Threads, as in scikit-learn: ``None`` is one, -1 is all cores.
    device : str
        The device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"auto"``. The sets are the same on all.

    The columns of the answer are ``prediction``, the most probable of all labels, as in ``predict``; its ``probability``;
    ``set``, the labels of the set, the best conforming first; ``set_size``; ``p_max``, the largest p-value of any label,
    small for a point that fits no label; ``new_label``, where sets may hold a new label; and ``novelty``, small for a point
    unlike all calibration points. Labels have the type that they had in the fit.
    """

    def __init__(
        self,
        model: AnyModel,
        *,
        alpha: float | None = None,
        embedding: str = "embedding",
        keep: Sequence[str] = (),
        include: Sequence[Literal["probabilities", "p_values", "support"]] = (),
        on_error: Literal["raise", "skip", "report"] = "raise",
        empty: EmptySets = "keep",
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        check_word("on_error", on_error, ("raise", "skip", "report"))
        check_word("empty", empty, ("keep", "top1"))
        for what in include:
            check_word("include", what, tuple(_INCLUDE))
        self.model = ShippedModel(model, device)
        self.alpha = None if alpha is None else check_alpha(alpha)
        self.embedding = embedding
        self.keep = list(keep)
        self.include = [what for what in _INCLUDE if what in include]
        self.on_error = on_error
        self.empty = empty
        self.threads = thread_count(n_jobs)
        #: Rows with a set, and rows without.
        self.answered = 0
        self.refused = 0

    def __call__(self, batches: ArrowData) -> Iterator[pa.RecordBatch]:
        """Returns the answers to record batches (or a table, a data frame, a reader), a record batch for each."""
        first = 0
        for batch in record_batches(batches):
            yield self.answer(batch, first)
            first += batch.num_rows

    def answer_fields(self) -> list[pa.Field]:
        """Returns the columns of the answers."""
        model = self.model.open(self.threads)
        label = _KINDS[model.label_kind]
        fields = [
            ("prediction", label),
            ("probability", pa.float32()),
            ("set", pa.list_(label)),
            ("set_size", pa.int32()),
            ("p_max", pa.float64()),
        ]
        if model.new_labels:
            fields.append(("new_label", pa.bool_()))
        fields.append(("novelty", pa.float64()))
        fields += [(what, _INCLUDE[what]) for what in self.include]
        if self.on_error == "report":
            fields.append(("error", pa.string()))
        return [pa.field(name, kind) for name, kind in fields]

    def schema(self, given: pa.Schema) -> pa.Schema:
        """Returns the schema of the answers to batches of the schema ``given``."""
        fields = self.answer_fields()
        twice = [field.name for field in fields if field.name in self.keep]
        if twice:
            raise ValueError(f"keep: `{twice[0]}` is the name of an answer; rename the column")
        return pa.schema([given.field(name) for name in self.keep] + fields)

    def answer(self, batch: pa.RecordBatch, first: int = 0) -> pa.RecordBatch:
        """Returns the answers to one record batch, whose first row is number ``first``."""
        model = self.model.open(self.threads)
        kept = [column(batch, name) for name in self.keep]
        schema = self.schema(batch.schema)
        found, rows, wrong = points(column(batch, self.embedding), model.dimensions, self.embedding)
        parts, refused = score_in_parts(model, found, self._score)
        wrong |= {int(rows[row]): reason for row, reason in refused.items()}
        if wrong and self.on_error == "raise":
            row = min(wrong)
            raise ValueError(
                f"`{self.embedding}` {wrong[row]} at row {first + row}; on_error='skip' leaves such rows out, 'report' "
                "says why"
            )
        answers = [self._columns(model, part) for _, part in parts]
        columns = [pa.concat_arrays([part[at] for part in answers]) for at in range(len(answers[0]))]
        if wrong and self.on_error == "skip":
            answered = np.sort(np.concatenate([rows[part] for part, _ in parts]))
            kept = [part.take(pa.array(answered)) for part in kept]
            order = np.argsort(np.concatenate([rows[part] for part, _ in parts]), kind="stable")
            columns = [part.take(pa.array(order)) for part in columns]
        elif wrong:
            place = np.full(batch.num_rows, -1)
            place[np.concatenate([rows[part] for part, _ in parts])] = np.arange(len(columns[0]))
            order = pa.array(place, mask=place < 0)
            columns = [part.take(order) for part in columns]
        if self.on_error == "report":
            columns.append(pa.array([wrong.get(row) for row in range(batch.num_rows)], pa.string()))
        self.answered += batch.num_rows - len(wrong)
        self.refused += len(wrong)
        return pa.RecordBatch.from_arrays(kept + columns, schema=schema)

    def _score(self, model: _native.Model, queries: NDArray[np.float32]) -> _native.Answers:
        wants = {what: what in self.include for what in _INCLUDE}
        options = {
            "best": True,
            "empty": self.empty,
            "support": _SUPPORT if wants["support"] else 0,
            "probabilities": wants["probabilities"],
        }
        scored = model.score(queries, json.dumps(options), self.threads)
        alpha = stored_alpha(json.loads(model.settings)) if self.alpha is None else self.alpha
        answers = scored.answers(alpha, wants["probabilities"], wants["p_values"], wants["support"])
        listener = Listener()
        listener.messages = answers.warnings
        listener.warn()
        return answers

    def _columns(self, model: _native.Model, answers: _native.Answers) -> list[pa.Array]:
        kind = _KINDS[model.label_kind]
        classes = pa.array(class_values(model.classes, model.label_kind).tolist(), kind)
        offsets = pa.array(answers.offsets)

        def lists(values: NDArray[Any] | None) -> pa.Array:
            return pa.ListArray.from_arrays(offsets, pa.array(values))

        columns = [
            classes.take(pa.array(answers.predictions)),
            pa.array(answers.probability),
            pa.ListArray.from_arrays(offsets, classes.take(pa.array(answers.labels))),
            pa.array(np.diff(answers.offsets)),
            pa.array(answers.largest_p),
        ]
        if answers.new_label is not None:
            columns.append(pa.array(answers.new_label))
        columns.append(pa.array(answers.novelty))
        further: dict[str, Callable[[], pa.Array]] = {
            "probabilities": lambda: lists(answers.probabilities),
            "p_values": lambda: lists(answers.p_values),
            "support": lambda: pa.array(answers.support, pa.string()),
        }
        return columns + [further[what]() for what in self.include]


predict_batches = BatchPredictor
