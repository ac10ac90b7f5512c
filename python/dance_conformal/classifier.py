"""The classifier: a kernel machine that learns its own metric, and prediction sets around it."""

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
from .keeping import Kept
from .parts import group_names, numbered, reference_rows, split
from .progress import Event, Listener
from .protocol import check_features
from .provenance import drawn_alone, picked_points
from .settings import PAPER, draw_seed, thread_count, to_settings


class DanceClassifier(Kept):
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
    combine : {"fuse", "evidence", "joint", "union"}
        How scores become one decision. ``"evidence"``: a posterior of several experts that learns from every label,
        calibration points included; for few labels and classes that are hard to tell apart. ``"fuse"``: rank,
        contrastive score and class probability as one score. ``"joint"``: rank and contrastive score as one score.
        ``"union"``: each of the two at its own share of alpha, as in the paper.
    by_class : {"together", "fair", "clusters", "each"}
        Whom the guarantee is for. ``"together"``: all points. ``"fair"``: all points, with the difference between classes
        evened out. ``"clusters"``: the labels of every cluster of classes that are about as hard. ``"each"``: every class by
        itself, which costs size. All but the first need ``calibration="exact"`` and one score that decides:
        ``combine="fuse"`` or ``"evidence"``, or ``"joint"`` or ``"union"`` with ``mix=0`` (the rank score alone) or ``mix=1``
        (the contrastive score alone).
    unseen : bool
        Whether sets may hold "none of these", so that labels which no point has are covered too: see
        :meth:`predict_unseen`. Needs ``calibration="exact"``.
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
    unlabelled : label, NaN or None
        Points with this label, or with none (NaN, ``None``, ``""``), are left out wherever labels are needed, with a warning
        that counts them: ``-1`` as in scikit-learn's semi-supervised learning, or ``np.nan``. ``None``: every point needs a
        label.
    stratify : bool
        How these are drawn. ``False``: at random, so that they are to the others what new points are, rare classes
        included; the promise needs that. ``True``: class by class, so that every class with two points is in both parts;
        but calibration becomes easier than reality where classes are rare, and sets then cover less than promised.
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
    probabilities : {"calibrated", "clamp"}
        How outputs of the kernel machine become class probabilities. ``"calibrated"``: above a floor and raised to a power,
        both chosen on held-out points of the fit, so that a probability of 0.8 is right about 80 % of the time. ``"clamp"``:
        the paper's, outputs between a fixed floor and one minus it, divided by their sum; they rank classes, but say little
        about how often they are right.
    probability_floor : float or None
        The floor of ``probabilities="clamp"``, which alone has a fixed one; ``None`` is 1e-3, lower for many classes.
    memory : int or None
        Most bytes the fit may allocate.
    random_state : int, RandomState, Generator or None
        Seed of every random choice; the same seed gives the same sets. ``None`` draws one.
    n_jobs : int or None
        Threads; ``None`` or -1 is one a core. The result does not depend on it.
    device : str
        What heavy work runs on: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` for the second graphics processor, or ``"auto"``:
        cuda where that can be used. A model that is fitted gives the same sets on every device.
    verbose : int
        1 prints the search to stderr, 2 every round as well.
    callback : callable or None
        Called with a dictionary for every event of a fit; an exception it raises ends the fit.

    Attributes
    ----------
    classes_ : array
        The labels, a column of a set each: those of the points that fitted the kernel, sorted; then those that only
        calibration points have, in the order in which they come up.
    guarantee_ : str
        What is promised about the sets.
    unseen_share_ : float or None
        Estimated share (Good-Turing) of new points whose label no point of fit or calibration has. No set can hold such a
        label, so coverage is at most ``1 - unseen_share_``. ``None`` where calibration points do not tell: with
        ``stratify=True``, and in older model files.
    kernel_ : dict
        Bandwidth, shape and rounds chosen, validation accuracy, and what was computed on how many points.
    reference_indices_ : array
        For every reference point (the possible neighbors) its row in the data. Rows count through the ``X`` passed to
        ``fit`` and on through the one passed to ``conformalize``: with both, they are rows of
        ``np.concatenate([X_fit, X_conformalize])``. A model from a file does not know the arrays: rows are then places in
        the reference, and ``conformalize`` counts its rows after the points the kernel keeps.
    reference_points_ : list of ReferencePoint
        For every reference point which ``part`` it is of, ``"fit"`` or ``"calibration"``, and its ``row`` (and ``id``, where
        there are ids) in what was passed there. Model files keep it.
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
        by_class: str = "together",
        unseen: bool = False,
        fit_neighbors: bool = True,
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
        self.calibration = calibration
        self.combine = combine
        self.by_class = by_class
        self.unseen = unseen
        self.fit_neighbors = fit_neighbors
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
        """A model with the paper's settings throughout, but for what is given.

        It calibrates by reuse, takes the union of two sets, keeps the kernel that was judged on held-out points, and clamps
        probabilities above a floor of 1e-3.

        >>> from dance_conformal import DanceClassifier
        >>> model = DanceClassifier.paper(alpha=0.05, mix=0.5)
        >>> model.calibration, model.combine, model.refit, model.probabilities, model.probability_floor, model.mix
        ('reuse', 'union', False, 'clamp', 0.001, 0.5)
        """
        return cls(alpha, **{**PAPER, **parameters})

    # Fitting and calibrating.

    def fit(self, X: Any, y: Any, *, provenance: Any = None, groups: Any = None) -> DanceClassifier:
        """Fits the kernel and, unless ``calibration_share`` is ``None``, calibrates on a part set aside for that.

        ``provenance`` says of every point whether it was ``"picked"`` for what it is, as by :meth:`select`, or is a
        ``"random"`` draw. Picked points are not like new ones: they fit the kernel, and only the others are dealt out.

        ``groups`` says which points belong together (frames of a video, one patient, augmentations of a picture): groups stay
        whole, and one point of each, drawn at random, calibrates. The guarantee is then for a point of a new group.

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
        own, points, labels = self._labelled(points, labels)
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
        # Should the calibration be interrupted, the kernel is there, and nothing of a calibration before.
        self._forget_calibration()
        if len(rows) == 2:
            ways = (True, named is not None)
            self._calibrate(points[rows[1]], codes[rows[1]], classes, own[rows[1]], listener, ways)
        listener.warn()
        return self

    def conformalize(self, X: Any, y: Any, *, provenance: Any = None, groups: Any = None) -> DanceClassifier:
        """Calibrates on points that did not fit the kernel, in place of any calibration before.

        Points that were ``"picked"`` by their ``provenance`` (see :meth:`fit`) are left out, with a warning. Of
        ``groups`` one point each, drawn at random, calibrates.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> model = DanceClassifier(evaluations=2, calibration_share=None).fit(X[:200], y[:200])
        >>> model.conformalize(X[200:400], y[200:400]).predict_set(X[400:]).shape
        (200, 3)
        """
        points = self._points(X)
        labels, picked = as_labels(y, len(points)), picked_points(provenance, len(points))
        named = group_names(groups, len(points))
        if not hasattr(self, "n_samples_fit_"):  # from a file, which keeps no others
            self.n_samples_fit_ = self._model.fit_points
        listener = Listener(self.verbose, self.callback)
        kept, points, labels = self._labelled(points, labels)
        drawn = drawn_alone(picked[kept])
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
        ways: tuple[bool, bool],
    ) -> None:
        """On points with these classes. ``ways`` says whether they are rows of what was passed to ``fit`` (to
        ``conformalize`` otherwise), and whether they are one of every group."""
        of_fit, _ = ways
        names = class_names(classes)
        settings = self._settings(self._seed)
        model = self._model.calibrate(
            (points, codes, names, class_kind(classes), rows.astype(np.uint32)),
            ways,
            json.dumps(settings["dance"]),
            self.device,
            thread_count(self.n_jobs),
            listener,
        )
        # The library matches classes by name and puts those the kernel does not have after those it has.
        known = self.classes_[: model.fit_classes]
        place = {name: number for number, name in enumerate(names)}
        new = [place[name] for name in model.classes[len(known) :]]
        self.classes_ = np.concatenate([known, classes[new]]) if new else known
        self.guarantee_ = model.guarantee
        self.unseen_share_ = model.unseen_share
        counted = rows if of_fit else self.n_samples_fit_ + rows
        self.reference_indices_ = reference_rows(counted, self._fit_rows, settings)
        self._model = model

    def _forget_calibration(self) -> None:
        for name in ("guarantee_", "unseen_share_", "reference_indices_"):
            if hasattr(self, name):
                delattr(self, name)

    # Behind the scenes.

    def _settings(self, seed: int) -> dict[str, Any]:
        return to_settings(self.get_params(deep=False), seed)
