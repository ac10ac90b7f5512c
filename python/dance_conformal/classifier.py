"""The classifier: a kernel machine that learns its own metric, and prediction sets around it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native, metrics
from .explanation import Explanation, explanations
from .inputs import (
    alphas,
    as_labels,
    as_points,
    check_directions,
    check_finite,
    class_names,
    class_values,
    encode,
)
from .machine import KernelMachine
from .parts import reference_rows, split
from .progress import Event, Listener
from .protocol import NotFittedError, check_features
from .settings import PAPER, check_word, draw_seed, from_settings, thread_count, to_settings


class DanceClassifier(KernelMachine):
    """Prediction sets on embeddings, with a kernel machine (RFM) and its neighbors as evidence.

    ``fit`` tunes and fits the kernel on one part of the data and calibrates on the rest; ``predict_set`` returns sets that
    hold the true label of a new point with probability ``1 - alpha``. The attribute ``guarantee_`` says in which sense.
    :meth:`paper` has the settings of the paper.

    Parameters
    ----------
    alpha : float
        Error level of ``predict_set`` when it is given none.
    calibration : {"exact", "disjoint", "reuse"}
        Where neighbors come from, and so what is promised. ``"exact"``: the query is counted among the calibration points;
        a finite-sample guarantee with all the data at work. ``"disjoint"``: neighbors come from the points that fitted the
        kernel; a finite-sample guarantee too, but half of the calibration points are spent when something is selected or
        combined. ``"reuse"``: the calibration points are each other's neighbors, the paper's heuristic.
    combine : {"fuse", "joint", "union"}
        How scores become one decision. ``"fuse"``: rank, contrastive score and class probability are weighed up as
        evidence; the smallest sets. ``"joint"``: rank and contrastive score as one score. ``"union"``: each of the two at
        its own share of alpha, as in the paper.
    fit_neighbors : bool
        In exact mode, whether the points that fitted the kernel serve as neighbors beside the calibration points.
    mix : "auto" or float
        Joint and union: share of alpha for the contrastive score; 0 is the k-NN set, 1 the contrastive set, ``"auto"``
        selects it on a part of the data.
    rank_neighbors, contrast_neighbors : int
        Neighbors the two scores look at.
    temperature : float
        Temperature of the contrastive score.
    tie_noise : float
        Width below 1 of the seeded noise that breaks ties of ranks; 0 leaves them. Fused, the class probability does.
    empty : {"keep", "top1"}
        What becomes of an empty set: it stays, or gets the classifier's best label.
    calibration_share : float or None
        Share of the points passed to ``fit`` that are set aside to calibrate. ``None``: all points fit the kernel, and
        ``conformalize`` must follow before sets can be asked for.
    normalize : {"l2", "standardize", "none"}
        How embeddings are brought to a common scale.
    bandwidth, shape : float or pair of floats
        Of the kernel: a range to search, or a number to fix it. Bandwidths are multiples of the median distance.
    evaluations : int
        Settings the search tries.
    search_points : int or None
        Most points a trial of the search uses; ``None`` is all.
    confirm : int
        Settings tried again on all points when the trials used fewer.
    validation : float
        Share of the kernel's points held out to judge settings.
    refit : bool
        Whether the kernel is fitted once more with the held-out points.
    ridge : float
        Ridge of the kernel regression.
    rounds : int
        Most updates of the metric.
    agop_points : int or None
        Most points over which a metric update averages; ``None`` is all.
    probability_floor : float or None
        Floor under class probabilities; ``None`` is 1e-3, lower for many classes.
    memory : int or None
        Most bytes the fit may allocate.
    random_state : int, RandomState, Generator or None
        Seed of every random choice; the same seed gives the same sets. ``None`` draws one.
    n_jobs : int or None
        Threads; ``None`` or -1 is one a core. The result does not depend on it.
    verbose : int
        1 prints the search to stderr, 2 every round as well.
    callback : callable or None
        Called with a dictionary for every event of a fit; an exception it raises ends the fit.

    Attributes
    ----------
    classes_ : array
        The labels, sorted; a column of a set each. Labels that only ``conformalize`` saw come last.
    guarantee_ : str
        What is promised about the sets.
    kernel_ : dict
        Bandwidth, shape and rounds chosen, validation accuracy, and what was computed on how many points.
    reference_indices_ : array
        For every reference point (the possible neighbors) its row in the data. Rows count through the ``X`` passed to
        ``fit`` and on through the one passed to ``conformalize``: with both, they are rows of
        ``np.concatenate([X_fit, X_conformalize])``. A model from a file does not know where its points came from: rows
        are then places in the reference, and ``conformalize`` counts its rows after the points the kernel keeps.
    n_samples_fit_ : int
        Points passed to ``fit``: a row from here on is one of ``conformalize``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from dance_conformal import DanceClassifier, datasets
    >>> X, y = datasets.clusters(600, classes=5, seed=1)
    >>> model = DanceClassifier(alpha=0.1, evaluations=3).fit(X[:400], y[:400])
    >>> sets = model.predict_set(X[400:])
    >>> sets.shape, sets.dtype
    ((200, 5), dtype('bool'))
    >>> model.predict_set(X[400:], alpha=[0.05, 0.2]).shape
    (200, 5, 2)
    >>> model.predict_set(X[400:402], as_labels=True) == [list(np.flatnonzero(s)) for s in sets[:2]]
    True
    """

    def __init__(
        self,
        alpha: float = 0.1,
        *,
        calibration: str = "exact",
        combine: str = "fuse",
        fit_neighbors: bool = True,
        mix: str | float = "auto",
        rank_neighbors: int = 100,
        contrast_neighbors: int = 50,
        temperature: float = 0.01,
        tie_noise: float = 0.0,
        empty: str = "keep",
        calibration_share: float | None = 0.5,
        normalize: str = "l2",
        bandwidth: float | tuple[float, float] = (0.1, 20.0),
        shape: float | tuple[float, float] = (0.5, 2.0),
        evaluations: int = 25,
        search_points: int | None = 3000,
        confirm: int = 2,
        validation: float = 0.2,
        refit: bool = True,
        ridge: float = 1e-3,
        rounds: int = 5,
        agop_points: int | None = 8000,
        probability_floor: float | None = None,
        memory: int | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], object] | None = None,
    ) -> None:
        self.alpha = alpha
        self.calibration = calibration
        self.combine = combine
        self.fit_neighbors = fit_neighbors
        self.mix = mix
        self.rank_neighbors = rank_neighbors
        self.contrast_neighbors = contrast_neighbors
        self.temperature = temperature
        self.tie_noise = tie_noise
        self.empty = empty
        self.calibration_share = calibration_share
        self.normalize = normalize
        self.bandwidth = bandwidth
        self.shape = shape
        self.evaluations = evaluations
        self.search_points = search_points
        self.confirm = confirm
        self.validation = validation
        self.refit = refit
        self.ridge = ridge
        self.rounds = rounds
        self.agop_points = agop_points
        self.probability_floor = probability_floor
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    @classmethod
    def paper(cls, alpha: float = 0.1, **parameters: Any) -> DanceClassifier:
        """A model with the paper's settings throughout, but for what is given.

        It calibrates by reuse, takes the union of two sets, keeps the kernel that was judged on held-out points, and puts
        a floor of 1e-3 under probabilities.

        >>> from dance_conformal import DanceClassifier
        >>> model = DanceClassifier.paper(alpha=0.05, mix=0.5)
        >>> model.calibration, model.combine, model.refit, model.probability_floor, model.mix
        ('reuse', 'union', False, 0.001, 0.5)
        """
        return cls(alpha, **{**PAPER, **parameters})

    # Fitting and calibrating.

    def fit(self, X: Any, y: Any) -> DanceClassifier:
        """Fits the kernel and, unless ``calibration_share`` is ``None``, calibrates on a part set aside for that.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(200, classes=3)
        >>> DanceClassifier(evaluations=2).fit(X, y).classes_
        array([0, 1, 2])
        """
        points = as_points(X)
        check_finite(points)
        labels = as_labels(y, len(points))
        if len(points) < 2:
            raise ValueError("n_samples=1: a single point cannot both fit and calibrate; pass more")
        if self.normalize == "l2":
            check_directions(points)
        if points.shape[1] == 1 and self.normalize == "l2":
            raise ValueError(
                "n_features=1: brought to length 1, a single feature is nothing but its sign; use normalize='standardize'"
            )
        classes, codes = encode(labels)
        if len(classes) < 2:
            raise ValueError("y has 1 class; at least two classes are needed")
        seed = draw_seed(self.random_state)
        rows = split(codes, self.calibration_share, seed)
        settings = self._settings(seed)
        listener = Listener(self.verbose, self.callback)
        part = points if len(rows) == 1 else points[rows[0]]
        data = (part, codes[rows[0]], class_names(classes))
        model = _native.Model.fit(data, json.dumps(settings), thread_count(self.n_jobs), listener)
        check_features(self, X, points.shape[1], reset=True)
        self.classes_ = classes
        self.kernel_ = json.loads(model.kernel)
        self.n_samples_fit_ = len(points)
        self._seed = seed
        self._fit_rows = rows[0][model.kernel_rows]
        self._model = model
        # Should the calibration be interrupted, the kernel is there, and nothing of a calibration before.
        self._forget_calibration()
        if len(rows) == 2:
            self._calibrate(points[rows[1]], labels[rows[1]], rows[1], listener, of_fit=True)
        listener.warn()
        return self

    def conformalize(self, X: Any, y: Any) -> DanceClassifier:
        """Calibrates on points that did not fit the kernel, in place of any calibration before.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> model = DanceClassifier(evaluations=2, calibration_share=None).fit(X[:200], y[:200])
        >>> model.conformalize(X[200:400], y[200:400]).predict_set(X[400:]).shape
        (200, 3)
        """
        points = self._points(X)
        labels = as_labels(y, len(points))
        if not hasattr(self, "n_samples_fit_"):  # from a file, which keeps no others
            self.n_samples_fit_ = self._model.fit_points
        listener = Listener(self.verbose, self.callback)
        self._calibrate(points, labels, self.n_samples_fit_ + np.arange(len(points)), listener)
        listener.warn()
        return self

    calibrate = conformalize

    def _calibrate(
        self,
        points: NDArray[np.float32],
        labels: NDArray[Any],
        rows: NDArray[np.int64],
        listener: Listener,
        *,
        of_fit: bool = False,
    ) -> None:
        classes, codes = encode(labels)
        names = class_names(classes)
        known = self.classes_[: self._model.fit_classes]
        known_names = class_names(known)
        settings = self._settings(self._seed)
        # With all its classes in one list the data set has the same names and fingerprint as in a file.
        all_names = [*known_names, *(name for name in names if name not in set(known_names))]
        place = {name: number for number, name in enumerate(all_names)}
        data = (points, np.array([place[name] for name in names], np.uint32)[codes], all_names)
        model = self._model.calibrate(
            data, of_fit, json.dumps(settings["dance"]), thread_count(self.n_jobs), listener
        )
        new = [names.index(name) for name in model.classes[len(known) :]]
        self.classes_ = np.concatenate([known, classes[new]]) if new else known
        self.guarantee_ = model.guarantee
        self.reference_indices_ = reference_rows(rows, self._fit_rows, settings)
        self._model = model

    def _forget_calibration(self) -> None:
        for name in ("guarantee_", "reference_indices_"):
            if hasattr(self, name):
                delattr(self, name)

    # Sets.

    def predict_set(self, X: Any, alpha: ArrayLike | None = None, *, as_labels: bool = False) -> Any:
        """Prediction sets: booleans (points, classes), or (points, classes, alphas) when ``alpha`` is a list.

        With ``as_labels`` a list of label lists, one a point (for several alphas a list of those).

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X, np.array(["ant", "bee", "cat"])[y])
        >>> model.predict_set(X[:1], as_labels=True) == [[str(model.classes_[y[0]])]]
        True
        """
        levels, single = alphas(self.alpha if alpha is None else alpha)
        scored = self._score(X)
        decisions = [self._decide(scored, level) for level in levels]
        if as_labels:
            lists = [self._label_lists(decision) for decision in decisions]
            return lists[0] if single else lists
        if single:
            return decisions[0].mask
        return np.stack([decision.mask for decision in decisions], axis=-1)

    def predict_p(
        self, X: Any, *, score: str = "combined", alpha: float | None = None
    ) -> NDArray[np.float64]:
        """p-values of every label, (points, classes).

        A label is in the set at ``alpha`` if and only if its combined p-value is above ``alpha``. ``score`` can also be
        ``"rank"`` or ``"contrast"``, for the p-values of one score by itself. Only ``combine="union"`` looks at ``alpha``
        here: it combines the two under the mix of that level, and a mix that is selected may change from level to level.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X, y)
        >>> bool(((model.predict_p(X) > 0.2) == model.predict_set(X, alpha=0.2)).all())
        True
        """
        check_word("score", score, ("combined", "rank", "contrast"))
        scored = self._score(X)
        if score == "rank":
            return scored.p_values("rank")
        if score == "contrast":
            return scored.p_values("contrast")
        combined = scored.p_values("combined")
        if combined is not None:
            return combined
        mix = self.thresholds(alpha)["mix"]
        rank, contrast = scored.p_values("rank"), scored.p_values("contrast")
        with np.errstate(divide="ignore"):  # a score without a share of alpha has no say
            both = np.minimum(rank / np.float64(1 - mix), contrast / np.float64(mix))
        # Rounded, since 0.07 / 0.7 is above 0.1.
        return np.asarray(np.minimum(both, 1.0).round(12))

    def thresholds(self, alpha: float | None = None) -> dict[str, Any]:
        """How labels are let in at ``alpha``.

        ``mix`` and the ``trials`` it was selected from; the thresholds of both scores, ``rank`` and ``contrast``; and the
        number of calibration ``points`` behind the p-values. Scores that are combined into one have no thresholds of their
        own, and fused ones no mix: these are ``None``. In exact mode thresholds are those before a query joins the
        calibration points and moves them a little.
        """
        empty = np.empty((0, self._calibrated().dimensions), np.float32)
        scored = self._score_points(empty, best=False)
        found: dict[str, Any] = json.loads(scored.decide(self.alpha if alpha is None else alpha).thresholds)
        for threshold in (found["rank"], found["contrast"]):
            if threshold is not None and threshold["value"] is None:  # JSON has no infinity
                threshold["value"] = np.inf if threshold["index"] else -np.inf
        return found

    def explain(self, X: Any, alpha: float | None = None, *, neighbors: int = 3) -> list[Explanation]:
        """Sets with their reasons: probability, p-values and nearest points of every label in them.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> why = DanceClassifier(evaluations=2).fit(X, y).explain(X[:1])[0]
        >>> why.best == int(y[0]), len(why.labels[0].neighbors)
        (True, 3)
        """
        scored = self._score_points(self._points(X), best=True, support=max(1, neighbors))
        return explanations(
            scored,
            self._decide(scored, self.alpha if alpha is None else alpha),
            probabilities=self.predict_proba(X),
            classes=self.classes_,
            rows=self.reference_indices_,
            neighbors=neighbors,
        )

    def kneighbors(self, X: Any, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Distances to and rows of the nearest reference points (see ``reference_indices_``), under the learned metric."""
        if n_neighbors < 1:
            raise ValueError(f"n_neighbors = {n_neighbors}: must be at least 1")
        model = self._calibrated()
        distances, rows = model.neighbors(self._points(X), n_neighbors, thread_count(self.n_jobs))
        rows = self.reference_indices_[rows]
        return (distances, rows) if return_distance else rows

    def evaluate(self, X: Any, y: Any, alpha: float | None = None) -> dict[str, Any]:
        """Coverage, size and the other metrics of the sets of ``X``, by their true labels (see :mod:`.metrics`).

        A label that the model does not know counts as not covered.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> report = DanceClassifier(evaluations=2).fit(X[:400], y[:400]).evaluate(X[400:], y[400:])
        >>> report["coverage"] > 0.8, report["guarantee"]
        (True, 'P(label in set) >= 1 - alpha in finite samples, for exchangeable points with known labels')
        """
        level = self.alpha if alpha is None else alpha
        points = self._points(X)
        labels = as_labels(y, len(points))
        scored = self._score_points(points, best=True)
        decision = self._decide(scored, level)
        best = None if scored.best is None else self.classes_[scored.best]
        report = metrics.report(labels, decision.mask, level, classes=self.classes_, best=best)
        return {**report, "guarantee": self.guarantee_}

    # Keeping.

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model file, the same that the ``dance`` binary reads and writes.

        It keeps labels by their names, and nothing of feature names; pickle keeps everything.
        """
        self._calibrated().save(path)

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, labels: str = "auto", n_jobs: int | None = None
    ) -> DanceClassifier:
        """Reads a model file. ``labels``: ``"str"``, ``"int"``, or ``"auto"`` for integers where all names are such."""
        check_word("labels", labels, ("auto", "str", "int"))
        model = _native.Model.load(path, thread_count(n_jobs))
        parameters = from_settings(json.loads(model.settings))
        loaded = cls(**parameters, calibration_share=None, n_jobs=n_jobs)
        loaded._seed = parameters["random_state"]
        loaded._model = model
        loaded._fit_rows = np.arange(model.fit_points)
        loaded.classes_ = class_values(model.classes, labels)
        loaded.n_features_in_ = model.dimensions
        loaded.kernel_ = json.loads(model.kernel)
        loaded.guarantee_ = model.guarantee
        loaded.reference_indices_ = np.arange(len(model.reference_labels()))
        return loaded

    # Behind the scenes.

    def _settings(self, seed: int) -> dict[str, Any]:
        return to_settings(self.get_params(deep=False), seed)

    def _calibrated(self) -> _native.Model:
        if not self._fitted().is_calibrated:
            raise NotFittedError(
                f"This {type(self).__name__} instance is fitted but not calibrated: call conformalize(X, y) with points "
                "that were not passed to fit"
            )
        return self._model

    def _score(self, X: Any) -> _native.Scored:
        self._calibrated()
        return self._score_points(self._points(X), best=False)

    def _score_points(self, points: NDArray[np.float32], *, best: bool, support: int = 0) -> _native.Scored:
        options = {"best": best, "empty": self.empty, "support": support}
        return self._calibrated().score(points, json.dumps(options), thread_count(self.n_jobs))

    def _decide(self, scored: _native.Scored, alpha: float) -> _native.Decision:
        decision = scored.decide(alpha)
        listener = Listener()
        listener.messages = decision.warnings
        listener.warn()
        return decision

    def _label_lists(self, decision: _native.Decision) -> list[list[Any]]:
        values = self.classes_[decision.labels].tolist()
        ends = decision.offsets.tolist()
        return [values[begin:end] for begin, end in pairwise(ends)]
