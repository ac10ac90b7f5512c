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
from .explanation import Explanation, Support
from .inputs import alphas, as_labels, as_points, check_directions, check_finite, class_names, encode
from .progress import Event, Listener
from .protocol import Estimator, NotFittedError, check_features


class DanceClassifier(Estimator):
    """Prediction sets on embeddings, with a kernel machine (RFM) and its neighbors as evidence.

    ``fit`` tunes and fits the kernel on one part of the data and calibrates on the rest; ``predict_set`` returns sets that
    hold the true label of a new point with probability ``1 - alpha``. The attribute ``guarantee_`` says in which sense.

    Parameters
    ----------
    alpha : float
        Error level of ``predict_set`` when it is given none.
    calibration : {"reuse", "disjoint"}
        Where neighbors come from. ``"reuse"``: among the calibration points (the smallest sets, a heuristic guarantee);
        ``"disjoint"``: among the points that fitted the kernel (a finite-sample guarantee).
    combine : {"union"}
        How the two scores share alpha.
    mix : "auto" or float
        Share of alpha for the contrastive score: 0 is the k-NN set, 1 the contrastive set; ``"auto"`` selects it on
        calibration points.
    rank_neighbors, contrast_neighbors : int
        Neighbors the two scores look at.
    temperature : float
        Temperature of the contrastive score.
    tie_noise : float
        Width below 1 of the seeded noise that breaks ties of ranks; 0 leaves them.
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
        For every reference point (the possible neighbors) its row in the ``X`` it came from: that of ``conformalize`` in
        reuse mode where it was called, that of ``fit`` otherwise.
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
        calibration: str = "reuse",
        combine: str = "union",
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
        seed = self._draw_seed()
        rows = self._split(codes, seed)
        names = class_names(classes)
        settings = self._settings(seed)
        listener = Listener(self.verbose, self.callback)
        part = points if len(rows) == 1 else points[rows[0]]
        model = _native.Model.fit(part, codes[rows[0]], names, json.dumps(settings), self._threads, listener)
        check_features(self, X, points.shape[1], reset=True)
        self.classes_ = classes
        self.kernel_ = json.loads(model.kernel)
        self._seed = seed
        self._fit_rows = self._kernel_rows(codes[rows[0]], rows[0], settings)
        self._model = model
        if len(rows) == 2:
            self._calibrate(points[rows[1]], labels[rows[1]], rows[1], listener)
        else:
            self._forget_calibration()
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
        listener = Listener(self.verbose, self.callback)
        self._calibrate(points, labels, np.arange(len(points)), listener)
        listener.warn()
        return self

    calibrate = conformalize

    def _calibrate(
        self, points: NDArray[np.float32], labels: NDArray[Any], rows: NDArray[np.int64], listener: Listener
    ) -> None:
        classes, codes = encode(labels)
        names = class_names(classes)
        known = self.classes_[: self._model.fit_classes]
        known_names = class_names(known)
        settings = self._settings(self._seed)
        # With all its classes in one list the data set has the same names and fingerprint as in a file.
        new = [name for name in names if name not in set(known_names)]
        place = {name: number for number, name in enumerate([*known_names, *new])}
        codes = np.array([place[name] for name in names], np.uint32)[codes]
        self._model = self._model.calibrate(
            points, codes, [*known_names, *new], json.dumps(settings["dance"]), self._threads, listener
        )
        value = dict(zip([*names, *known_names], [*classes.tolist(), *known.tolist()], strict=True))
        if len(self._model.classes) > len(known):
            self.classes_ = np.array([value[name] for name in self._model.classes])
        self.guarantee_ = self._model.guarantee
        reuse = settings["dance"]["calibration"] == "reuse"
        self.reference_indices_ = rows if reuse else self._fit_rows

    def _forget_calibration(self) -> None:
        for name in ("guarantee_", "reference_indices_"):
            if hasattr(self, name):
                delattr(self, name)

    # The classifier.

    def predict(self, X: Any) -> NDArray[Any]:
        """The classifier's best label of every point."""
        labels, _ = self._fitted().classify(self._points(X), self._threads)
        return np.asarray(self.classes_[labels])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities, a column for every one of ``classes_``; 0 for labels that only ``conformalize`` saw."""
        _, known = self._fitted().classify(self._points(X), self._threads)
        probabilities = np.zeros((len(known), len(self.classes_)))
        probabilities[:, : known.shape[1]] = known
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of points whose best label is right."""
        labels = as_labels(y)
        return float(np.average(self.predict(X) == labels, weights=sample_weight))

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Points under the learned metric: Euclidean distances between rows of the result are the model's distances.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(200, classes=3)
        >>> DanceClassifier(evaluations=2).fit(X, y).transform(X).shape
        (200, 16)
        """
        return self._fitted().transform(self._points(X), self._threads)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of ``transform``."""
        self._fitted()
        return np.array([f"danceclassifier{at}" for at in range(self.n_features_in_)], dtype=object)

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

    def predict_p(self, X: Any, *, score: str = "dance", alpha: float | None = None) -> NDArray[np.float64]:
        """p-values of every label, (points, classes): a label is in the set at a level below its p-value.

        ``score`` is ``"rank"`` or ``"contrast"`` for one of the two, or ``"dance"`` for their combination under the mix
        that is used at ``alpha`` (a mix that is selected may differ from level to level).
        """
        if score not in ("dance", "rank", "contrast"):
            raise ValueError(f"score = {score!r}: must be 'dance', 'rank' or 'contrast'")
        scored = self._score(X)
        rank, contrast = scored.p_values()
        if score != "dance":
            return rank if score == "rank" else contrast
        mix = self.thresholds(alpha)["mix"]
        with np.errstate(divide="ignore"):
            both = np.minimum(rank / (1 - mix) if mix < 1 else np.inf, contrast / mix if mix > 0 else np.inf)
        return np.asarray(np.minimum(both, 1.0))

    def thresholds(self, alpha: float | None = None) -> dict[str, Any]:
        """The mix and both thresholds in use at ``alpha``, and the grid the mix was selected from."""
        empty = np.empty((0, self._calibrated().dimensions), np.float32)
        scored = self._calibrated().score(empty, json.dumps({"best": False}), self._threads)
        found: dict[str, Any] = json.loads(scored.decide(self.alpha if alpha is None else alpha).thresholds)
        for name in ("rank", "contrast"):
            if found[name]["value"] is None:  # JSON has no infinity
                found[name]["value"] = np.inf
        return found

    def explain(self, X: Any, alpha: float | None = None, *, neighbors: int = 3) -> list[Explanation]:
        """Sets with their reasons: probability, p-values and nearest points of every label in them.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(300, classes=3)
        >>> why = DanceClassifier(evaluations=2).fit(X, y).explain(X[:1])[0]
        >>> why.best == int(y[0]), len(why.labels[0].neighbors)
        (True, 3)
        """
        points = self._points(X)
        scored = self._score_points(points, best=True, support=max(1, neighbors))
        decision = self._decide(scored, self.alpha if alpha is None else alpha)
        probabilities = self.predict_proba(X)
        rank, contrast = scored.p_values()
        offsets, labels, support = decision.offsets, decision.labels, decision.support or []
        rows = self.reference_indices_
        explanations = []
        for point, best in enumerate(scored.best if scored.best is not None else []):
            members = []
            for at in range(offsets[point], offsets[point + 1]):
                label = labels[at]
                members.append(
                    Support(
                        label=self.classes_[label].item(),
                        probability=float(probabilities[point, label]),
                        p_rank=float(rank[point, label]),
                        p_contrast=float(contrast[point, label]),
                        neighbors=[int(rows[row]) for row in support[at][:neighbors]],
                    )
                )
            members.sort(key=lambda member: -member.probability)
            explanations.append(
                Explanation(self.classes_[best].item(), float(scored.nearest[point]), members)
            )
        return explanations

    def kneighbors(self, X: Any, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Distances to and rows of the nearest reference points (see ``reference_indices_``), under the learned metric."""
        if n_neighbors < 1:
            raise ValueError(f"n_neighbors = {n_neighbors}: must be at least 1")
        model = self._calibrated()
        distances, rows = model.neighbors(self._points(X), n_neighbors, self._threads)
        rows = self.reference_indices_[rows]
        return (distances, rows) if return_distance else rows

    def evaluate(self, X: Any, y: Any, alpha: float | None = None) -> dict[str, Any]:
        """Coverage, size and the other metrics of the sets of ``X``, by their true labels (see :mod:`.metrics`).

        A label that the model does not know counts as not covered.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> report = DanceClassifier(evaluations=2).fit(X[:400], y[:400]).evaluate(X[400:], y[400:])
        >>> report["coverage"] > 0.8, report["guarantee"][:9]
        (True, 'heuristic')
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
        if labels not in ("auto", "str", "int"):
            raise ValueError(f"labels = {labels!r}: must be 'auto', 'str' or 'int'")
        loaded = cls(n_jobs=n_jobs)
        model = _native.Model.load(path, loaded._threads)
        settings = json.loads(model.settings)
        for group in ("rfm", "tune", "dance"):
            known = loaded.get_params()
            loaded.set_params(**{k: v for k, v in settings[group].items() if k in known})
        loaded.set_params(normalize=settings["normalize"], probability_floor=settings["probability_floor"])
        loaded.set_params(random_state=settings["dance"]["seed"], calibration_share=None)
        tune = settings["tune"]
        loaded.set_params(bandwidth=tuple(tune["bandwidth"]), shape=tuple(tune["shape"]))
        loaded._seed = settings["dance"]["seed"]
        loaded._model = model
        loaded.classes_ = _label_values(model.classes, labels)
        loaded.n_features_in_ = model.dimensions
        loaded.kernel_ = json.loads(model.kernel)
        loaded.guarantee_ = model.guarantee
        loaded.reference_indices_ = np.arange(len(model.reference_labels()))
        loaded._fit_rows = loaded.reference_indices_
        return loaded

    # Behind the scenes.

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    @property
    def _threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return 0
        if self.n_jobs < 1:
            raise ValueError(f"n_jobs = {self.n_jobs}: must be at least 1, or -1 for one thread a core")
        return int(self.n_jobs)

    def _draw_seed(self) -> int:
        state = self.random_state
        if state is None:
            return int(np.random.default_rng().integers(2**63))
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31 - 1))
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**63))
        if state < 0:
            raise ValueError(f"random_state = {state}: must be at least 0")
        return int(state)

    def _split(self, codes: NDArray[np.uint32], seed: int) -> list[NDArray[np.int64]]:
        share = self.calibration_share
        if share is None:
            return [np.arange(len(codes))]
        if not 0 < share < 1:
            raise ValueError(f"calibration_share = {share}: must be between 0 and 1, or None")
        return _native.split(codes, [1 - share, share], seed)

    def _kernel_rows(
        self, codes: NDArray[np.uint32], rows: NDArray[np.int64], settings: dict[str, Any]
    ) -> NDArray[np.int64]:
        """Rows of the points the kernel keeps: all it was given, or those it was not judged on."""
        tune = settings["tune"]
        if tune["refit"]:
            return rows
        return rows[_native.split(codes, [1 - tune["validation"], tune["validation"]], tune["seed"])[0]]

    def _settings(self, seed: int) -> dict[str, Any]:
        """The parameters in the words of a configuration file."""
        settings: dict[str, Any] = {
            "normalize": self.normalize,
            "rfm": {
                "ridge": self.ridge,
                "rounds": self.rounds,
                "agop_points": self.agop_points,
                "seed": seed,
            },
            "tune": {
                "evaluations": self.evaluations,
                "bandwidth": _pair(self.bandwidth),
                "shape": _pair(self.shape),
                "validation": self.validation,
                "search_points": self.search_points,
                "confirm": self.confirm,
                "refit": bool(self.refit),
                "seed": seed,
                "memory": self.memory,
            },
            "dance": {
                "rank_neighbors": self.rank_neighbors,
                "contrast_neighbors": self.contrast_neighbors,
                "temperature": self.temperature,
                "mix": self.mix,
                "calibration": self.calibration,
                "tie_noise": self.tie_noise,
                "seed": seed,
            },
            "probability_floor": self.probability_floor,
        }
        if "combine" in json.loads(_native.default_settings())["dance"]:
            settings["dance"]["combine"] = self.combine
        elif self.combine != "union":
            raise ValueError(f"combine = {self.combine!r}: must be 'union'")
        plain: dict[str, Any] = json.loads(json.dumps(settings, default=_plain))
        return plain

    def _fitted(self) -> _native.Model:
        if not hasattr(self, "_model"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
                "before using this estimator."
            )
        return self._model

    def _calibrated(self) -> _native.Model:
        if not self._fitted().is_calibrated:
            raise NotFittedError(
                f"This {type(self).__name__} instance is fitted but not calibrated: call conformalize(X, y) with points "
                "that were not passed to fit"
            )
        return self._model

    def _points(self, X: Any) -> NDArray[np.float32]:
        self._fitted()
        points = as_points(X)
        check_features(self, X, points.shape[1], reset=False)
        return points

    def _score(self, X: Any) -> _native.Scored:
        self._calibrated()
        return self._score_points(self._points(X), best=False)

    def _score_points(self, points: NDArray[np.float32], *, best: bool, support: int = 0) -> _native.Scored:
        options = {"best": best, "empty": self.empty, "support": support}
        return self._calibrated().score(points, json.dumps(options), self._threads)

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


def _pair(value: float | tuple[float, float]) -> list[float]:
    low, high = (value, value) if np.ndim(value) == 0 else value  # type: ignore[misc]
    return [float(low), float(high)]  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    """NumPy's numbers (a parameter grid holds them) as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a parameter has the type {type(value).__name__}")


def _label_values(names: list[str], labels: str) -> NDArray[Any]:
    if labels == "auto":
        whole = all(name.removeprefix("-").isdecimal() and name == str(int(name)) for name in names)
        labels = "int" if whole else "str"
    return np.array([int(name) for name in names] if labels == "int" else names)
