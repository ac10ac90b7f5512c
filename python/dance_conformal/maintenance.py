"""Maintenance of a model: points to label next, monitoring of a stream, audit of labels."""

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
    """Rows of points to label next. Only the random ones may calibrate or test: picked points are unlike new points."""

    #: Rows picked by their embeddings, the most useful first.
    picked: NDArray[np.int64]
    #: Rows drawn at random, before any was picked.
    random: NDArray[np.int64]
    #: Number of points that the model knows already, which are not selected.
    seen: int

    @property
    def rows(self) -> NDArray[np.int64]:
        """All rows, picked ones first."""
        return np.concatenate([self.picked, self.random])

    @property
    def provenance(self) -> list[str]:
        """The provenance of each of the ``rows``, for ``fit`` and ``conformalize``."""
        return [PICKED] * len(self.picked) + [RANDOM] * len(self.random)


class Monitor:
    """Monitors a stream of points, with or without labels: see :meth:`DanceClassifier.monitor`.

    ``state`` is a string to keep and to pass to ``monitor`` later, to resume.
    """

    def __init__(
        self, model: Maintenance, labels: bool, false_alarm: float, seed: int, state: str | None
    ) -> None:
        self._model, self._labels, self._false_alarm, self._seed = model, labels, false_alarm, seed
        self.state = state
        nothing = np.empty((0, model._calibrated().dimensions), np.float32)
        self._add(nothing, np.empty(0, np.int64) if labels else None)

    def watch(self, X: Any, y: Any = None) -> list[dict[str, Any]]:
        """Adds points in their order. Returns the new alarms, each with what was ``watched`` and the ``row``."""
        if (y is not None) != self._labels:
            raise ValueError(
                "a monitor with labels=True needs y in every call, and one with labels=False takes none"
            )
        points = self._model._points(X)
        labels = None
        if y is not None:
            known = {name: number for number, name in enumerate(self._model._calibrated().classes)}
            given = as_labels(y, len(points))
            classes, codes = encode(given)
            numbers = np.array([known.get(name, -1) for name in class_names(classes)], np.int64)
            labels = numbers[codes]
        new: list[dict[str, Any]] = self._add(points, labels)["new"]
        return new

    def _add(self, points: NDArray[np.float32], labels: NDArray[np.int64] | None) -> dict[str, Any]:
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
        #: The capital of the martingale of points and of that of labels: its evidence of a change, now and at its largest.
        #: It starts at 1.
        self.capital: list[dict[str, Any]] = report["capital"]
        #: The capital at which there is an alarm.
        self.bound: float = report["bound"]
        return report


class Maintenance(SetPredictor):
    """A classifier that selects points to label, monitors streams and audits labels."""

    def select(self, X: Any, n: int, *, audit: int = 0, random_state: Any = 0) -> Selection:
        """Selects rows of ``X``, a pool without labels, to label next: ``n`` picked ones, and ``audit`` random ones.

        Picked points have large sets, many points near by, and differ from each other. They may fit the kernel; only random
        points may calibrate or test. Pass ``provenance`` on with the labels.

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
        labels: bool = False,
        false_alarm: float = 0.01,
        random_state: Any = 0,
        state: str | None = None,
    ) -> Monitor:
        """Returns a monitor of a stream: an alarm means that points, or with ``labels`` their labels, have changed.

        Without a change, the probability of an alarm in the whole run, however long, is at most ``false_alarm``.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(900, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:600], y[:600])
        >>> monitor = model.monitor(false_alarm=0.001)
        >>> monitor.watch(X[600:]), [alarm["watched"] for alarm in monitor.watch(-X[600:])]
        ([], ['inputs'])
        """
        self._calibrated()
        return Monitor(self, labels, false_alarm, draw_seed(random_state), state)

    def audit(
        self, X: Any, y: Any, *, parts: Any = None, fdr: float = 0.1, random_state: Any = 0
    ) -> dict[str, Any]:
        """Audits points and their labels; this model's calibration points are the standard, so their labels must be right.

        The report is that of :func:`dance_conformal.audit`, which needs no model. Points should not be those that calibrated.
        Copies are found in the learned metric too (``space`` is ``"learned"`` or ``"both"``), and among the points of the
        model: a group lists those under ``model``, with their ``part`` (``"fit"`` or ``"calibration"``), ``row`` and ``id``.
        ``seen`` lists the points that the model knows.
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
    """Audits points and their labels: the report of ``dance audit``, with the labels of ``y`` and rows of ``X``.

    - ``label_errors``: suspected label errors, the most suspicious first; a share of about ``fdr`` are false suspicions.
      ``rule`` is the rule behind the list, ``error_share`` the estimated share of wrong labels.
    - ``odds``: for every point the log ratio of the probabilities of the best other label and its own.
    - ``copies``: groups of near-copies, with their ``rows``, the ``space`` they were found in and the ``parts`` of their
      points (one word each, such as ``"train"``); groups ``across`` parts come first.
    - ``twofold``: classes that look like two, with a ``p_value`` for being one and the rows of the two ``groups``, those
      nearest to the centre first.
    - ``outliers``, ``alike`` (pairs of similar classes), ``rare`` (classes with few points), ``order``.

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
    names = None if parts is None else [str(part) for part in parts]
    found: dict[str, Any] = json.loads(
        _native.audit(model, data, names, fdr, 0.01, draw_seed(random_state), device, threads)
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
