"""Maintenance of a model: points to label next, monitoring of a stream, audit of labels, comparison of methods."""

from __future__ import annotations

import copy
import json
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from .inputs import Labels, Levels, Points, alphas, as_labels, as_points, class_kind, class_names, encode
from .parts import PICKED, RANDOM
from .predictor import _Predictor
from .progress import DanceWarning
from .results import (
    Alarm,
    AlikeClasses,
    Audit,
    ComparedMethod,
    Comparison,
    Copies,
    Evidence,
    LabelError,
    ModelPoint,
    MonitorReport,
    Outlier,
    OverlapPoint,
    RareClass,
    RowOrder,
    Rows,
    TwofoldClass,
    _Record,
)
from .settings import RandomState, draw_seed, thread_count

#: A coverage that is less probable than this under the guarantee is not explained by chance.
_IMPROBABLE = 0.025
#: The methods that are compared: method, calibration, by_class, new_labels.
_CANDIDATES = (
    ("posterior", "full", "all", False),
    ("posterior", "full", "balanced", False),
    ("posterior", "full", "clusters", False),
    ("posterior", "full", "each", False),
    ("posterior", "full", "all", True),
    ("posterior", "split", "all", False),
    ("fuse", "full", "all", False),
    ("fuse", "full", "each", False),
    ("fuse", "full", "all", True),
    ("dance", "reuse", "all", False),
    ("dance", "split", "all", False),
)


@dataclass(frozen=True)
class Selection(_Record):
    """Rows of points to label next. Only the random ones may calibrate or test: picked points are unlike new points."""

    #: Rows picked by their embeddings, the most useful first.
    picked: NDArray[np.int64]
    #: Rows drawn at random, before any was picked.
    random: NDArray[np.int64]
    #: Number of points that belong to the model, which are not selected.
    overlap: int

    @property
    def rows(self) -> NDArray[np.int64]:
        """All rows, picked ones first."""
        return np.concatenate([self.picked, self.random])

    @property
    def provenance(self) -> list[str]:
        """The provenance of each of the ``rows``, for ``fit`` and ``recalibrate``."""
        return [PICKED] * len(self.picked) + [RANDOM] * len(self.random)


class Monitor:
    """Monitors a stream of points, with or without labels: see :meth:`DanceClassifier.monitor`.

    ``state`` is a string to keep and to pass to ``monitor`` later, to resume.
    """

    def __init__(
        self, model: _Maintenance, labels: bool, false_alarm: float, seed: int, state: str | None
    ) -> None:
        self._model, self._labels, self._false_alarm, self._seed = model, labels, false_alarm, seed
        self.state = state
        nothing = np.empty((0, model._calibrated().dimensions), np.float32)
        self._add(nothing, np.empty(0, np.int64) if labels else None)

    def watch(self, X: Points, y: Labels | None = None) -> Rows[Alarm]:
        """Adds points in their order. Returns the new alarms."""
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
        return self._add(points, labels)

    def report(self) -> MonitorReport:
        """Returns the points so far, all alarms, and the evidence of a change."""
        return self._report

    def _add(self, points: NDArray[np.float32], labels: NDArray[np.int64] | None) -> Rows[Alarm]:
        model = self._model
        found: dict[str, Any] = json.loads(
            _native.watch(
                model._calibrated(), points, labels, self._false_alarm, self._seed, self.state, model.device,
                thread_count(model.n_jobs),
            )
        )  # fmt: skip
        self.state = found["state"]
        self._report = MonitorReport(
            points=found["points"],
            bound=found["bound"],
            alarms=Rows(Alarm(**alarm) for alarm in found["alarms"]),
            evidence=Rows(Evidence(**evidence) for evidence in found["capital"]),
        )
        return Rows(Alarm(**alarm) for alarm in found["new"])


class _Maintenance(_Predictor):
    """A classifier that selects points to label, monitors streams, audits labels and compares methods."""

    device: str

    def select(self, X: Points, picked: int, *, random: int = 0, random_state: RandomState = 0) -> Selection:
        """Selects rows of ``X``, a pool without labels, to label next: ``picked`` and ``random`` ones.

        Picked points have large sets, many points near by, and differ from each other. They may fit the kernel; only random
        points may calibrate or test. Pass ``provenance`` on with the labels.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:200], y[:200])
        >>> chosen = model.select(X[200:], 20, random=50)
        >>> len(chosen.picked), len(chosen.random), len(set(chosen.picked) & set(chosen.random))
        (20, 50, 0)
        """
        model, points = self._calibrated(), self._points(X)
        picked_rows, random_rows, overlap = _native.select(
            model,
            points,
            int(picked),
            int(random),
            draw_seed(random_state),
            self.device,
            thread_count(self.n_jobs),
        )
        return Selection(picked_rows, random_rows, overlap)

    def monitor(
        self,
        *,
        labels: bool = False,
        false_alarm: float = 0.01,
        random_state: RandomState = 0,
        state: str | None = None,
    ) -> Monitor:
        """Returns a monitor of a stream: an alarm means that points, or with ``labels`` their labels, have changed.

        Without a change, the probability of an alarm in the whole run, however long, is at most ``false_alarm``.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(900, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:600], y[:600])
        >>> monitor = model.monitor(false_alarm=0.001)
        >>> monitor.watch(X[600:]), [alarm.watched for alarm in monitor.watch(-X[600:])]
        ((), ['inputs'])
        >>> monitor.report().points
        600
        """
        self._calibrated()
        return Monitor(self, labels, false_alarm, draw_seed(random_state), state)

    def audit(
        self,
        X: Points,
        y: Labels,
        *,
        parts: ArrayLike | None = None,
        fdr: float = 0.1,
        random_state: RandomState = 0,
    ) -> Audit:
        """Audits points and their labels; this model's calibration points are the standard, so their labels must be right.

        The result is that of :func:`dance_conformal.audit`, which needs no model. Points should not be those that calibrated.
        Copies are found in the learned metric too (``space`` is ``"learned"`` or ``"both"``), and among the points of the
        model: a group lists those under ``model``, with their ``part`` (``"fit"`` or ``"calibration"``), ``row`` and ``id``.
        ``overlap`` lists the points that belong to the model.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:200], y[:200])
        >>> [point.row for point in model.audit(X[199:], y[199:]).overlap]
        [0]
        """
        return _audit(self._calibrated(), X, y, parts, fdr, random_state, self.device, self.n_jobs)

    def compare(
        self, X: Points, y: Labels, alpha: float | Levels | None = None, *, random_state: RandomState = 0
    ) -> Comparison:
        """Compares all methods on this kernel: one half of the points calibrates each, the other half evaluates it.

        The points must not have fitted the kernel. The model itself does not change.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(900, classes=3)
        >>> found = DanceClassifier(evaluations=2).fit(X[:300], y[:300]).compare(X[300:], y[300:])
        >>> len(found.methods), found.methods[0].method, found.evaluation_points
        (11, 'posterior', 300)
        """
        self._calibrated()
        levels, _ = alphas(self.alpha if alpha is None else alpha)
        points = self._points(X)
        labels = as_labels(y, len(points))
        own, points, labels = self._with_labels(points, labels)
        first, second = _native.split(len(own), [0.5, 0.5], draw_seed(random_state))
        measured: list[ComparedMethod] = []
        for number, (method, calibration, by_class, new_labels) in enumerate(_CANDIDATES):
            other = copy.copy(self)
            other.__dict__.pop("feature_names_in_", None)  # the points are an array here
            other.set_params(method=method, calibration=calibration, by_class=by_class, new_labels=new_labels)
            other.set_params(scores=_without(self.get_params()["scores"], method))
            with warnings.catch_warnings():
                if number:  # warnings about the points would be the same for every method
                    warnings.simplefilter("ignore", DanceWarning)
                try:
                    other.recalibrate(points[first], labels[first])
                except _native.DanceError as error:  # too little memory
                    warnings.warn(f"{method} is left out: {error}", DanceWarning, stacklevel=2)
                    continue
                begin = time.perf_counter()
                found = other.evaluate(points[second], labels[second], levels)
                seconds = 1000 * (time.perf_counter() - begin) / len(second)
            measured += [
                ComparedMethod(
                    method, calibration, by_class, new_labels, one.alpha, one.size, one.coverage, one.by_chance,  # type: ignore[arg-type]
                    one.as_low, one.class_deviation, seconds,
                )
                for one in found
            ]  # fmt: skip
        return Comparison(len(first), len(second), _recommended(measured, levels), Rows(measured))

    def recalibrate(self, X: Points, y: Labels) -> _Maintenance:
        """Calibrates on points that did not fit the kernel."""
        raise NotImplementedError


def _without(scores: dict[str, Any] | None, method: str) -> dict[str, Any] | None:
    """Returns settings of scores without those that only the method dance has."""
    if scores is None or method == "dance":
        return scores
    return {name: value for name, value in scores.items() if name not in ("mix", "tie_noise")}


def _recommended(measured: list[ComparedMethod], levels: list[float]) -> ComparedMethod | None:
    """Returns the method with the smallest sets at the first level, among those that promise coverage for all points
    together and keep it on these points at every level."""

    def keeps(one: ComparedMethod) -> bool:
        key = (one.method, one.calibration, one.by_class, one.new_labels)
        same = [of for of in measured if (of.method, of.calibration, of.by_class, of.new_labels) == key]
        return (
            one.by_class in ("all", "balanced")
            and not one.new_labels
            and all(of.as_low >= _IMPROBABLE for of in same)
        )

    able = [one for one in measured if one.alpha == levels[0] and one.calibration != "reuse" and keeps(one)]
    return min(able, key=lambda one: one.size, default=None)


def audit(
    X: Points,
    y: Labels,
    *,
    parts: ArrayLike | None = None,
    fdr: float = 0.1,
    random_state: RandomState = 0,
    device: str = "auto",
    n_jobs: int | None = None,
) -> Audit:
    """Audits points and their labels, as ``dance audit``: label errors, copies, classes that look like two, outliers.

    About a share of ``fdr`` of the listed label errors, and of the classes that look like two, are false suspicions.
    ``parts`` has a word for each point, such as ``"train"``: copies across parts are listed first.

    >>> from dance_conformal import audit, datasets
    >>> X, y = datasets.clusters(300, classes=3)
    >>> y[7] = (y[7] + 1) % 3
    >>> int(np.argmax(audit(X, y).odds))
    7
    """
    return _audit(None, X, y, parts, fdr, random_state, device, n_jobs)


def _audit(
    model: _native.Model | None,
    X: Points,
    y: Labels,
    parts: ArrayLike | None,
    fdr: float,
    random_state: RandomState,
    device: str,
    n_jobs: int | None,
) -> Audit:
    points = as_points(X)
    classes, codes = encode(as_labels(y, len(points)))
    rows = np.arange(len(points), dtype=np.uint32)
    data = (points, codes, class_names(classes), class_kind(classes), rows)
    names = None if parts is None else [str(part) for part in np.asarray(parts).tolist()]
    found: dict[str, Any] = json.loads(
        _native.audit(model, data, names, fdr, 0.01, draw_seed(random_state), device, thread_count(n_jobs))
    )
    label = classes.tolist()

    def copies(group: dict[str, Any]) -> Copies:
        return Copies(**{**group, "model": Rows(ModelPoint(**point) for point in group["model"])})

    return Audit(
        label_errors=Rows(
            LabelError(**{**error, "label": label[error["label"]], "suggested": label[error["suggested"]]})
            for error in found["label_errors"]
        ),
        odds=np.array(found["odds"], np.float64),
        error_share=found["error_share"],
        rule=found["rule"],
        copies=Rows(copies(group) for group in found["copies"]),
        outliers=Rows(Outlier(**outlier) for outlier in found["outliers"]),
        alike=Rows(
            AlikeClasses((label[pair["classes"][0]], label[pair["classes"][1]]), tuple(pair["shares"]))
            for pair in found["alike"]
        ),
        twofold=Rows(
            TwofoldClass(label[one["class"]], one["p_value"], tuple(one["groups"]))
            for one in found["twofold"]
        ),
        rare=Rows(RareClass(label[number], count) for number, count in found["rare"]),
        order=Rows(RowOrder(**order) for order in found["order"]),
        overlap=Rows(OverlapPoint(one["row"], ModelPoint(**one["point"])) for one in found["seen"]),
    )
