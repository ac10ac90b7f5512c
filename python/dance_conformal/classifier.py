"""The classifier: a kernel machine that learns its own metric, and prediction sets on top of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .inputs import (
    as_labels,
    as_points,
    check_learnable,
    class_kind,
    class_names,
    encode,
)
from .model_file import StoredModel
from .parts import group_names, numbered, reference_rows, split
from .progress import Event, Listener
from .protocol import check_features
from .provenance import picked_points, random_rows
from .settings import PAPER, draw_seed, thread_count, to_settings


class DanceClassifier(StoredModel):
    """Prediction sets on embeddings, by a kernel machine (RFM) that learns its own metric.

    ``fit`` tunes and fits the kernel on one part of the data and calibrates on the rest. ``predict_set`` returns sets that
    hold the true label of a new point with probability ``1 - alpha``; the attribute ``guarantee_`` states the conditions.
    ``predict``, ``predict_proba``, ``score``, ``evaluate`` and ``explain`` answer from the class probabilities behind the
    sets: another ``method`` can give other labels. :meth:`paper` has the settings of the paper.

    Parameters
    ----------
    alpha : float
        Error level of ``predict_set`` where it is given none.
    method : {"posterior", "fuse", "dance"} or None
        The score of a label. ``"posterior"``: the class probability of a stack of experts that train on every label,
        calibration points included. ``"fuse"``: rank among the neighbors, contrastive score and the kernel machine's class
        probability, fused into one score. ``"dance"``: rank and contrastive score, each with its own share of alpha, as in
        the paper. ``None``: ``"posterior"``, or ``"fuse"`` with a warning where the posterior needs more memory than there
        is. The attribute ``method_`` names the method in use.
    calibration : {"full", "split", "reuse"} or None
        The use of calibration points. ``"full"``: the new point joins them under each candidate label (full conformal
        prediction); methods posterior and fuse. ``"split"``: they give thresholds and nothing else (split conformal
        prediction); methods posterior and dance. ``"reuse"``: they give thresholds and are each other's neighbors, the
        paper's heuristic without a guarantee; method dance. ``None``: ``"reuse"`` for the method dance, else ``"full"``.
    by_class : {"all", "balanced", "clusters", "each"}
        The points for which the guarantee holds. ``"all"``: all points together. ``"balanced"``: all points together, with
        class offsets that bring the coverage of classes closer to each other. ``"clusters"``: the points of every cluster
        of classes of similar difficulty. ``"each"``: the points of every class, at the price of larger sets. All but the
        first need full calibration; the method fuse knows the first and the last.
    new_labels : bool
        If True, sets may hold "a new label", so that the guarantee counts labels that no point has: see
        :meth:`predict_new_label`. Needs full calibration.
    mix : "auto" or float
        Method dance: share of alpha for the contrastive score. 0 is the k-NN set, 1 the contrastive set; ``"auto"``
        selects it on a part of the calibration points.
    rank_neighbors, contrast_neighbors : int
        Neighbors that the rank and the contrastive score look at, in the methods fuse and dance.
    temperature : float
        Temperature of the contrastive score.
    tie_noise : float
        Method dance: width below 1 of the seeded noise that breaks ties of ranks; 0 leaves ties.
    empty : {"keep", "top1"}
        The treatment of an empty set: it stays empty, or gets the most probable label.
    calibration_share : float or None
        Share of the points passed to ``fit`` that are set aside to calibrate. ``None``: all points fit the kernel, and
        ``conformalize`` must follow before sets can be predicted.
    unlabelled : label, NaN or None
        Points with this label, or with none (NaN, ``None``, ``""``), are left out of every use of labels, with a warning
        that counts them: ``-1`` as in scikit-learn's semi-supervised learning, or ``np.nan``. ``None``: every point needs a
        label.
    stratify : bool
        If False, calibration points are drawn at random, so that they are to the others as new points are, rare classes
        included; the guarantee needs that. If True, they are drawn class by class, so that every class with two points is
        in both parts. Calibration is then easier than reality where classes are rare, and sets cover less than ``1 - alpha``.
    normalize : {"l2", "standardize", "none"}
        The normalisation of embeddings.
    bandwidth, shape : float or pair of floats
        Bandwidth and shape of the kernel: a range to search, or a number to fix it. Bandwidths are multiples of the median
        distance.
    evaluations : int
        Settings that the search tries.
    search_points : int or None
        Most points that a trial of the search uses; ``None`` is all.
    confirm : int
        Settings tried again on all points where the trials used fewer.
    validation : float
        Share of the kernel's points held out to compare settings.
    refit : bool
        If True, the kernel is fitted once more with the held-out points.
    ridge : float
        Ridge of the kernel regression.
    rounds : int
        Most updates of the metric.
    agop_points : int or None
        Most points over which a metric update averages; ``None`` is all.
    probabilities : {"calibrated", "clamp"}
        The class probabilities of the kernel machine: those of the methods fuse and dance, and of a model before its
        calibration. ``"calibrated"``: outputs above a floor, raised to a power, both chosen on held-out points of the fit,
        so that a probability of 0.8 is right about 80 % of the time. ``"clamp"``: the paper's, outputs between a fixed
        floor and one minus it, divided by their sum; they rank classes, but are no frequencies.
    probability_floor : float or None
        The floor of ``probabilities="clamp"``; ``None`` is 1e-3, lower for many classes.
    memory : int or None
        Most bytes that the fit may allocate.
    random_state : int, RandomState, Generator or None
        Seed of every random choice; the same seed gives the same sets. ``None`` draws one.
    n_jobs : int or None
        Threads; ``None`` or -1 is one per core. The result does not depend on it.
    device : str
        The device of heavy work: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` for the second graphics processor, or ``"auto"``:
        cuda where it can be used. A fitted model gives the same sets on every device.
    verbose : int
        1 prints the search to stderr, 2 every round as well.
    callback : callable or None
        Function of a dictionary, called for every event of a fit; an exception that it raises ends the fit.

    Attributes
    ----------
    classes_ : array
        The labels, one for each column of a set: those of the points that fitted the kernel, sorted; then those that only
        calibration points have, in order of appearance.
    method_ : str
        The method that calibrated the model.
    guarantee_ : str
        The guarantee of the sets, in words.
    new_label_share_ : float or None
        Estimated share (Good-Turing) of new points that carry a new label, one that no point of fit or calibration has.
        Without ``new_labels`` no set can hold such a label, so coverage is at most ``1 - new_label_share_``. ``None`` with
        ``stratify=True``, where calibration points are no random draw.
    kernel_ : dict
        Bandwidth, shape and rounds chosen, validation accuracy, and the number of points behind each step of the fit.
    reference_indices_ : array
        The row of every reference point (the possible neighbors) in the data. Rows count through the ``X`` passed to
        ``fit`` and on through the one passed to ``conformalize``: with both, they are rows of
        ``np.concatenate([X_fit, X_conformalize])``. A model from a file does not know the arrays: its rows are places in
        the reference, and ``conformalize`` counts its rows after the points that the kernel keeps.
    reference_points_ : list of ReferencePoint
        The ``part`` of every reference point, ``"fit"`` or ``"calibration"``, and its ``row`` (and ``id``, where there are
        ids) in the data passed there. Model files keep it.
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
        method: str | None = None,
        calibration: str | None = None,
        by_class: str = "all",
        new_labels: bool = False,
        mix: str | float = "auto",
        rank_neighbors: int = 100,
        contrast_neighbors: int = 50,
        temperature: float = 0.01,
        tie_noise: float = 0.0,
        empty: str = "keep",
        calibration_share: float | None = 0.5,
        unlabelled: Any = None,
        stratify: bool = False,
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
        probabilities: str = "calibrated",
        probability_floor: float | None = None,
        memory: int | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: int = 0,
        callback: Callable[[Event], object] | None = None,
    ) -> None:
        self.alpha = alpha
        self.method = method
        self.calibration = calibration
        self.by_class = by_class
        self.new_labels = new_labels
        self.mix = mix
        self.rank_neighbors = rank_neighbors
        self.contrast_neighbors = contrast_neighbors
        self.temperature = temperature
        self.tie_noise = tie_noise
        self.empty = empty
        self.calibration_share = calibration_share
        self.unlabelled = unlabelled
        self.stratify = stratify
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
        self.probabilities = probabilities
        self.probability_floor = probability_floor
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.callback = callback

    @classmethod
    def paper(cls, alpha: float = 0.1, **parameters: Any) -> DanceClassifier:
        """Returns a model with the paper's settings, except for ``parameters``.

        The method is dance with reuse, the kernel is not fitted again with its validation points, and probabilities are
        clamped above a floor of 1e-3.

        >>> from dance_conformal import DanceClassifier
        >>> model = DanceClassifier.paper(alpha=0.05, mix=0.5)
        >>> model.method, model.refit, model.probabilities, model.probability_floor, model.mix
        ('dance', False, 'clamp', 0.001, 0.5)
        """
        return cls(alpha, **{**PAPER, **parameters})

    def fit(self, X: Any, y: Any, *, provenance: Any = None, groups: Any = None) -> DanceClassifier:
        """Fits the kernel and, unless ``calibration_share`` is ``None``, calibrates on a part set aside for that.

        ``provenance`` has a word for every point: ``"picked"`` for a point that was chosen by its embedding, as by
        :meth:`select`, or ``"random"``. Picked points are unlike new points: they fit the kernel, and only random points
        can calibrate.

        ``groups`` has a name for every point; points of one group belong together (frames of a video, one patient,
        augmentations of a picture). Groups stay whole, and one point of each, drawn at random, calibrates. The guarantee
        is then for a point of a new group.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(200, classes=3)
        >>> DanceClassifier(evaluations=2).fit(X, y).classes_
        array([0, 1, 2])
        """
        points = as_points(X)
        samples = len(points)
        labels, picked = as_labels(y, samples), picked_points(provenance, samples)
        named = group_names(groups, samples)
        check_learnable(points, self.normalize)
        own, points, labels = self._with_labels(points, labels)
        classes, codes = encode(labels)
        if len(classes) < 2:
            raise ValueError("y has 1 class; at least two classes are needed")
        seed = draw_seed(self.random_state)
        together = None if named is None else numbered(named[own])
        rows = split(
            codes, self.calibration_share, seed, stratify=self.stratify, picked=picked[own], groups=together
        )
        settings = self._settings(seed)
        listener = Listener(self.verbose, self.callback)
        used = rows[0]
        part = points if len(rows) == 1 else points[used]
        data = (part, codes[used], class_names(classes), class_kind(classes), own[used].astype(np.uint32))
        model = _native.Model.fit(
            data, json.dumps(settings), self.device, thread_count(self.n_jobs), listener
        )
        check_features(self, X, points.shape[1], reset=True)
        # A rare class may have no point in the kernel's part.
        self.classes_ = classes[np.unique(codes[used])]
        self.kernel_ = json.loads(model.kernel)
        self.n_samples_fit_ = samples
        self._seed = seed
        kept = model.kernel_rows
        assert kept is not None  # they were passed
        self._fit_rows = kept
        self._model = model
        # An interrupted calibration leaves the kernel, and nothing of an earlier calibration.
        self._forget_calibration()
        if len(rows) == 2:
            origin = (True, named is not None)
            self._calibrate(points[rows[1]], codes[rows[1]], classes, own[rows[1]], listener, origin)
        listener.warn()
        return self

    def conformalize(self, X: Any, y: Any, *, provenance: Any = None, groups: Any = None) -> DanceClassifier:
        """Calibrates on points that did not fit the kernel, and replaces an earlier calibration.

        Points with the ``provenance`` ``"picked"`` (see :meth:`fit`) are left out, with a warning. With ``groups``, one
        point of each, drawn at random, calibrates.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> model = DanceClassifier(evaluations=2, calibration_share=None).fit(X[:200], y[:200])
        >>> model.conformalize(X[200:400], y[200:400]).predict_set(X[400:]).shape
        (200, 3)
        """
        points = self._points(X)
        labels, picked = as_labels(y, len(points)), picked_points(provenance, len(points))
        named = group_names(groups, len(points))
        if not hasattr(self, "n_samples_fit_"):  # a model from a file knows only the points that it keeps
            self.n_samples_fit_ = self._model.fit_points
        listener = Listener(self.verbose, self.callback)
        kept, points, labels = self._with_labels(points, labels)
        drawn = random_rows(picked[kept])
        if named is not None:
            drawn = drawn[_native.one_of_each(numbered(named[kept[drawn]]), self._seed)]
        kept, points, labels = kept[drawn], points[drawn], labels[drawn]
        classes, codes = encode(labels)
        self._calibrate(points, codes, classes, kept, listener, (False, named is not None))
        listener.warn()
        return self

    calibrate = conformalize

    def _calibrate(
        self,
        points: NDArray[np.float32],
        codes: NDArray[np.uint32],
        classes: NDArray[Any],
        rows: NDArray[np.int64],
        listener: Listener,
        origin: tuple[bool, bool],
    ) -> None:
        """Calibrates on points with these classes. ``origin`` has two flags: True for rows of the data passed to ``fit``
        (else to ``conformalize``), and True for one point of every group."""
        of_fit, _ = origin
        names = class_names(classes)
        settings = self._settings(self._seed)
        model = self._model.calibrate(
            (points, codes, names, class_kind(classes), rows.astype(np.uint32)),
            origin,
            json.dumps(settings["conformal"]),
            self.device,
            thread_count(self.n_jobs),
            listener,
        )
        # The library matches classes by name and puts those the kernel does not have after those it has.
        known = self.classes_[: model.fit_classes]
        place = {name: number for number, name in enumerate(names)}
        new = [place[name] for name in model.classes[len(known) :]]
        self.classes_ = np.concatenate([known, classes[new]]) if new else known
        self.method_ = model.method
        self.guarantee_ = model.guarantee
        self.new_label_share_ = model.new_label_share
        counted = rows if of_fit else self.n_samples_fit_ + rows
        self.reference_indices_ = reference_rows(counted, self._fit_rows, model.calibration)
        self._model = model

    def _forget_calibration(self) -> None:
        for name in ("method_", "guarantee_", "new_label_share_", "reference_indices_"):
            if hasattr(self, name):
                delattr(self, name)

    def _settings(self, seed: int) -> dict[str, Any]:
        return to_settings(self.get_params(deep=False), seed)
