"""After the first day: what to label next, whether a stream has changed, what is wrong with a labelled set."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .inputs import as_labels, as_points, class_kind, class_names, encode
from .provenance import PICKED, RANDOM
from .sets import SetPredictor
from .settings import draw_seed, thread_count


@dataclass(frozen=True)
class Selection:
    """Rows of points to label next. Only those drawn at random may calibrate or judge: others are not like new points."""

    #: Picked for what they are, best first.
    picked: NDArray[np.int64]
    #: Drawn before any was picked: a fair sample.
    random: NDArray[np.int64]
    #: Points that the model has seen before, which are not chosen.
    seen: int

    @property
    def rows(self) -> NDArray[np.int64]:
        """All of them, picked ones first."""
        return np.concatenate([self.picked, self.random])

    @property
    def provenance(self) -> list[str]:
        """What each of the ``rows`` is, for ``fit`` and ``conformalize``."""
        return [PICKED] * len(self.picked) + [RANDOM] * len(self.random)


class Monitor:
    """Watches a stream of points, with their labels where it is told to: see :meth:`DanceClassifier.monitor`.

    ``state`` is what to go on from: a string to keep, and to pass to ``monitor`` another day.
    """

    def __init__(
        self, model: Afterwards, labelled: bool, false_alarm: float, seed: int, state: str | None
    ) -> None:
        self._model, self._labelled, self._false_alarm, self._seed = model, labelled, false_alarm, seed
        self.state = state
        nothing = np.empty((0, model._calibrated().dimensions), np.float32)
        self._take(nothing, np.empty(0, np.int64) if labelled else None)

    def watch(self, X: Any, y: Any = None) -> list[dict[str, Any]]:
        """Takes up further points in their order; alarms that are new, each with what was ``watched`` and the ``row``."""
        if (y is not None) != self._labelled:
            raise ValueError(
                "labels are watched from the begin to the end of a stream, or not at all: labelled=True"
            )
        points = self._model._points(X)
        labels = None
        if y is not None:
            known = {name: number for number, name in enumerate(self._model._calibrated().classes)}
            given = as_labels(y, len(points))
            classes, codes = encode(given)
            numbers = np.array([known.get(name, -1) for name in class_names(classes)], np.int64)
            labels = numbers[codes]
        new: list[dict[str, Any]] = self._take(points, labels)["new"]
        return new

    def _take(self, points: NDArray[np.float32], labels: NDArray[np.int64] | None) -> dict[str, Any]:
        model = self._model
        report: dict[str, Any] = json.loads(
            _native.watch(
                model._calibrated(), points, labels, self._false_alarm, self._seed, self.state, model.device,
                thread_count(model.n_jobs),
            )
        )  # fmt: skip
        self.state = report["state"]
        #: Points so far.
        self.points: int = report["points"]
        #: All alarms so far.
        self.alarms: list[dict[str, Any]] = report["alarms"]
        #: For everything that is watched the evidence of a change now, and the largest so far; it starts at 1.
        self.capital: list[dict[str, Any]] = report["capital"]
        #: The evidence that is an alarm.
        self.bound: float = report["bound"]
        return report


class Afterwards(SetPredictor):
    """What a classifier can do after the first day."""

    def select(self, X: Any, n: int, *, audit: int = 0, random_state: Any = 0) -> Selection:
        """Rows of ``X``, a pool without labels, to label next: ``n`` picked ones, and ``audit`` drawn at random before.

        Picked points together stand for most of what the model is unsure of: large sets, many points near by, unlike each
        other. They may fit; only the drawn ones may calibrate or judge: pass ``provenance`` on with the labels.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:200], y[:200])
        >>> chosen = model.select(X[200:], 20, audit=50)
        >>> len(chosen.picked), len(chosen.random), len(set(chosen.picked) & set(chosen.random))
        (20, 50, 0)
        """
        model, points = self._calibrated(), self._points(X)
        picked, random, seen = _native.select(
            model, points, int(n), int(audit), draw_seed(random_state), self.device, thread_count(self.n_jobs)
        )
        return Selection(picked, random, seen)

    def monitor(
        self,
        *,
        labelled: bool = False,
        false_alarm: float = 0.01,
        random_state: Any = 0,
        state: str | None = None,
    ) -> Monitor:
        """Watches a stream: an alarm when points, or with ``labelled`` their labels too, no longer are what they were.

        While nothing changes, the probability of an alarm in the whole run, however long, is at most ``false_alarm``.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(900, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:600], y[:600])
        >>> monitor = model.monitor(false_alarm=0.001)
        >>> monitor.watch(X[600:]), [alarm["watched"] for alarm in monitor.watch(-X[600:])]
        ([], ['inputs'])
        """
        self._calibrated()
        return Monitor(self, labelled, false_alarm, draw_seed(random_state), state)

    def audit(
        self, X: Any, y: Any, *, parts: Any = None, fdr: float = 0.1, random_state: Any = 0
    ) -> dict[str, Any]:
        """What is wrong with labelled points, judged by this model's calibration points, which must be labelled right.

        As :func:`dance_conformal.audit`, which needs no model; points should not be those that calibrated. Copies are
        looked for in the learned metric too (``space`` is ``"learned"`` or ``"both"``), and among the points of the model:
        a group names those under ``model``, with their ``part`` (``"fit"`` or ``"calibration"``), ``row`` and ``id``.
        ``seen`` lists the points that the model has itself.
        """
        return _audit(self._calibrated(), X, y, parts, fdr, random_state, self.device, self.n_jobs)


def audit(
    X: Any,
    y: Any,
    *,
    parts: Any = None,
    fdr: float = 0.1,
    random_state: Any = 0,
    device: str = "auto",
    n_jobs: int | None = None,
) -> dict[str, Any]:
    """What is wrong with labelled points: what ``dance audit`` finds, with labels as they are and rows of ``X``.

    ``label_errors`` (most suspicious first, of which about ``fdr`` are right), ``odds`` (for every point, how much more
    probable the best other label is, as a log ratio), ``error_share``, ``copies``, ``outliers``, ``alike``, ``twofold``,
    ``rare``, ``order`` and the ``rule`` behind the list.

    A group of ``copies`` has its ``rows``, the ``space`` it was found in, and the ``parts`` of its points (one word each,
    such as ``"train"``); those that lie ``across`` parts come first. A ``twofold`` class has a ``p_value`` for being one and
    the rows of its two ``groups``, those nearest to the centre first.

    >>> from dance_conformal import audit, datasets
    >>> X, y = datasets.clusters(300, classes=3)
    >>> y[7] = (y[7] + 1) % 3
    >>> int(np.argmax(audit(X, y)["odds"]))
    7
    """
    return _audit(None, X, y, parts, fdr, random_state, device, n_jobs)


def _audit(
    model: _native.Model | None,
    X: Any,
    y: Any,
    parts: Any,
    fdr: float,
    random_state: Any,
    device: str,
    n_jobs: int | None,
) -> dict[str, Any]:
    points = as_points(X)
    classes, codes = encode(as_labels(y, len(points)))
    rows = np.arange(len(points), dtype=np.uint32)
    data = (points, codes, class_names(classes), class_kind(classes), rows)
    threads = thread_count(n_jobs)
    said = None if parts is None else [str(part) for part in parts]
    found: dict[str, Any] = json.loads(
        _native.audit(model, data, said, fdr, 0.01, draw_seed(random_state), device, threads)
    )
    values = classes.tolist()
    for error in found["label_errors"]:
        error["label"], error["suggested"] = values[error["label"]], values[error["suggested"]]
    for pair in found["alike"]:
        pair["classes"] = [values[number] for number in pair["classes"]]
    for twofold in found["twofold"]:
        twofold["class"] = values[twofold["class"]]
    found["rare"] = [(values[number], count) for number, count in found["rare"]]
    return found
