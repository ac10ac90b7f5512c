"""The classifier: a kernel machine that learns its own metric, and prediction sets on top of it."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from .inputs import (
    Label,
    Labels,
    Points,
    as_labels,
    as_points,
    check_learnable,
    class_kind,
    class_names,
    class_values,
    encode,
    warn_of_numbers,
)
from .maintenance import _Maintenance
from .parts import group_names, numbered, picked_points, random_rows, reference_rows, split
from .progress import DanceWarning, Event, Listener
from .protocol import check_features
from .settings import (
    PAPER_KERNEL,
    ByClass,
    Calibration,
    KernelSettings,
    Method,
    Normalize,
    RandomState,
    ScoreSettings,
    check_alpha,
    check_word,
    draw_seed,
    from_settings,
    stored_alpha,
    thread_count,
    to_settings,
)

Self = TypeVar("Self", bound="DanceClassifier")
P = ParamSpec("P")
R = TypeVar("R")


def _without_weights(method: Callable[Concatenate[Self, P], R]) -> Callable[Concatenate[Self, P], R]:
    """Refuses ``sample_weight``, with the reason."""

    @functools.wraps(method)
    def checked(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.pop("sample_weight", None) is not None:
            raise TypeError(
                f"{method.__name__} takes no sample_weight: p-values count points, and the guarantee is about their number. "
                "Where new points have other proportions, use recalibrate(X, y, weights=...), which draws points by weight"
            )
        return method(self, *args, **kwargs)

    return checked


class DanceClassifier(_Maintenance):
    """Prediction sets on embeddings, by a kernel machine (RFM) that learns its own metric.

    ``fit`` tunes and fits the kernel on one part of the data and calibrates on the rest. ``predict_set`` returns sets that
    hold the true label of a new point with probability ``1 - alpha``; the attribute ``guarantee_`` states the conditions.
    ``predict``, ``predict_proba``, ``score``, ``evaluate`` and ``explain`` answer from the class probabilities behind the
    sets: another ``method`` can give other labels. :meth:`paper` has the settings of the paper.

    Parameters
    ----------
    alpha : float
        Error level of the sets: ``predict_set`` and other methods take another. The model file keeps it.

    **Guarantee**

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

    **Data**

    calibration_share : float or None
        Share of the points passed to ``fit`` that are set aside at random to calibrate. ``None``: all points fit the kernel,
        and :meth:`recalibrate` must follow before sets can be predicted.
    unlabeled : label, NaN or None
        Points with this label, or with none (NaN, ``None``, ``""``), are left out of every use of labels, with a warning
        that counts them: ``-1`` as in scikit-learn's semi-supervised learning, or ``np.nan``. ``None``: every point needs a
        label.
    normalize : {"l2", "standardize", "none"}
        The normalisation of embeddings.

    **Kernel and scores**

    evaluations : int
        Kernels that the search tries. Fewer are faster.
    kernel : dict or None
        Settings of the kernel, such as ``{"bandwidth": 2, "rounds": 3}``: see :class:`KernelSettings`. Settings that it does
        not name have their defaults.
    scores : dict or None
        Settings of the scores of the methods fuse and dance, such as ``{"rank_neighbors": 50, "mix": 0.2}``: see
        :class:`ScoreSettings`.

    **Resources**

    memory : str, int or None
        Most memory that the fit may allocate: ``"8GiB"``, or a number of bytes. A fit that needs more is refused before it
        starts.
    random_state : int, RandomState, Generator or None
        Seed of every random choice; the same seed gives the same sets. ``None`` draws one.
    n_jobs : int or None
        Threads, as in scikit-learn: ``None`` is one, unless a joblib backend says otherwise; -1 is all cores, -2 all but one.
        The result does not depend on it.
    device : str
        The device of heavy work: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` for the second graphics processor, or ``"auto"``:
        cuda where it can be used. A fitted model gives the same sets on every device.
    verbose : int or callable
        1 prints the search to stderr, 2 every round as well. A function is called with a dictionary for every event of a
        fit; an exception that it raises ends the fit.

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
        Without ``new_labels`` no set can hold such a label, so coverage is at most ``1 - new_label_share_``. ``None`` where
        calibration points are no random draw.
    kernel_ : dict
        Bandwidth, shape and rounds chosen, validation accuracy, and the number of points behind each step of the fit.
    reference_indices_ : array
        The row of every reference point (the possible neighbors) in the data. Rows count through the ``X`` passed to
        ``fit`` and on through the one passed to ``recalibrate`` (or ``calibration_data``): with both, they are rows of
        ``np.concatenate([X_fit, X_calibration])``. A model from a file does not know the arrays: its rows are places in
        the reference, and ``recalibrate`` counts its rows after the points that the kernel keeps.
    reference_points_ : list of ReferencePoint
        The ``part`` of every reference point, ``"fit"`` or ``"calibration"``, and its ``row`` (and ``id``, where there are
        ids) in the data passed there. Model files keep it.
    n_samples_fit_ : int
        Points passed to ``fit``: a row from here on is one of ``recalibrate``.
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
        method: Method | None = None,
        calibration: Calibration | None = None,
        by_class: ByClass = "all",
        new_labels: bool = False,
        calibration_share: float | None = 0.5,
        unlabeled: Label | None = None,
        normalize: Normalize = "l2",
        evaluations: int = 25,
        kernel: KernelSettings | None = None,
        scores: ScoreSettings | None = None,
        memory: str | int | None = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        device: str = "auto",
        verbose: int | Callable[[Event], object] = 0,
    ) -> None:
        self.alpha = alpha
        self.method = method
        self.calibration = calibration
        self.by_class = by_class
        self.new_labels = new_labels
        self.calibration_share = calibration_share
        self.unlabeled = unlabeled
        self.normalize = normalize
        self.evaluations = evaluations
        self.kernel = kernel
        self.scores = scores
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    @classmethod
    def paper(cls: type[Self], alpha: float = 0.1, **parameters: Any) -> Self:
        """Returns a model with the paper's settings, except for ``parameters``.

        The method is dance with reuse, the kernel is not fitted again with its validation points, and probabilities are
        clamped above a floor of 1e-3.

        >>> from dance_conformal import DanceClassifier
        >>> model = DanceClassifier.paper(alpha=0.05, kernel={"rounds": 2})
        >>> model.method, model.kernel
        ('dance', {'refit': False, 'probabilities': 'clamp', 'probability_floor': 0.001, 'rounds': 2})
        """
        kernel = {**PAPER_KERNEL, **(parameters.pop("kernel", None) or {})}
        return cls(alpha, **{"method": "dance", **parameters, "kernel": kernel})

    @_without_weights
    def fit(
        self: Self,
        X: Points,
        y: Labels,
        *,
        calibration_data: tuple[Points, Labels] | None = None,
        groups: ArrayLike | None = None,
        provenance: ArrayLike | None = None,
    ) -> Self:
        """Fits the kernel and, unless ``calibration_share`` is ``None``, calibrates on a part set aside for that.

        ``calibration_data`` are other points and their labels to calibrate on: then all of ``X`` fits the kernel.

        ``groups`` has a name for every point; points of one group belong together (frames of a video, one patient,
        augmentations of a picture). Groups stay whole, and one point of each, drawn at random, calibrates. The guarantee
        is then for a point of a new group.

        ``provenance`` has a word for every point: ``"picked"`` for a point that was chosen by its embedding, as by
        :meth:`select`, or ``"random"``. Picked points are unlike new points: they fit the kernel, and only random points
        can calibrate.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(200, classes=3)
        >>> DanceClassifier(evaluations=2).fit(X, y).classes_
        array([0, 1, 2])
        """
        points = as_points(X)
        samples = len(points)
        labels, picked = as_labels(y, samples), picked_points(provenance, samples)
        named = group_names(groups, samples)
        share = self.calibration_share
        if calibration_data is not None:
            share = None
            if named is not None:
                raise ValueError(
                    "groups and calibration_data cannot be used together: fit with calibration_share=None, and pass the "
                    "groups of the calibration points to recalibrate"
                )
        check_learnable(points, self.normalize)
        own, points, labels = self._with_labels(points, labels)
        classes, codes = encode(labels)
        if len(classes) < 2:
            raise ValueError("y has 1 class; at least two classes are needed")
        warn_of_numbers(labels)
        seed = draw_seed(self.random_state)
        together = None if named is None else numbered(named[own])
        rows = split(codes, share, seed, picked=picked[own], groups=together)
        settings = self._settings(seed)
        listener = Listener(self.verbose)
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
            sampling = ("random" if named is None else "groups", 0, 0)
            self._calibrate(
                points[rows[1]], codes[rows[1]], classes, own[rows[1]], listener, sampling, of_fit=True
            )
        listener.warn()
        if calibration_data is not None:
            self.recalibrate(*calibration_data)
        return self

    @_without_weights
    def recalibrate(
        self: Self,
        X: Points,
        y: Labels,
        *,
        groups: ArrayLike | None = None,
        window: int | None = None,
        weights: ArrayLike | None = None,
        label_shift: Points | None = None,
        provenance: ArrayLike | None = None,
    ) -> Self:
        """Calibrates on points that did not fit the kernel, and replaces an earlier calibration.

        Takes seconds: the kernel is not fitted again. Parameters of the method that :meth:`set_params` changed take effect.
        Points with the ``provenance`` ``"picked"`` (see :meth:`fit`) are left out, with a warning. At most one of the
        following selects the points that calibrate; ``guarantee_`` then says for which points the guarantee holds.

        - ``groups`` has a name for every point: one point of each group, drawn at random, calibrates.
        - ``window=N``: the last N points calibrate.
        - ``weights`` has an importance weight for every point, up to a common factor: how much more frequent points like it
          are now. Points are kept in proportion, so that the guarantee holds for current points (covariate shift).
        - ``label_shift`` has current points without labels, where class frequencies have changed and the points within each
          class have not. Points are kept in proportion to the estimated class frequencies.

        >>> from dance_conformal import DanceClassifier, datasets
        >>> X, y = datasets.clusters(600, classes=3)
        >>> model = DanceClassifier(evaluations=2).fit(X[:200], y[:200])
        >>> model.recalibrate(X[200:], y[200:], window=100).thresholds().points
        100
        >>> model.guarantee_.endswith("the latest 100 points calibrated: it holds for points like those")
        True
        """
        given = {"groups": groups, "window": window, "weights": weights, "label_shift": label_shift}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ValueError(
                f"{names[0]} and {names[1]} cannot be used together: each selects the points that calibrate"
            )
        points = self._points(X)
        labels, picked = as_labels(y, len(points)), picked_points(provenance, len(points))
        named, weighed = group_names(groups, len(points)), _weights(weights, len(points))
        if not hasattr(self, "n_samples_fit_"):  # a model from a file knows only the points that it keeps
            self.n_samples_fit_ = self._model.fit_points
        listener = Listener(self.verbose)
        kept, points, labels = self._with_labels(points, labels)
        drawn = random_rows(picked[kept])
        kept, points, labels = kept[drawn], points[drawn], labels[drawn]
        classes, codes = encode(labels)
        seed, of = self._seed, len(kept)
        rows, sampling = np.arange(of), ("random", 0, 0)
        if named is not None:
            rows, sampling = _native.one_of_each(numbered(named[kept]), seed), ("groups", 0, 0)
        elif window is not None:
            if not 1 <= window <= of:
                raise ValueError(f"window = {window}: must be between 1 and {of}, the number of points")
            rows, sampling = rows[of - window :], ("window", int(window), 0)
        elif weighed is not None:
            rows, sampling = _native.rejection_sample(weighed[kept], seed), ("weights", of, 0)
        elif label_shift is not None:
            current = self._points(label_shift)
            data = (points, codes, class_names(classes), class_kind(classes), kept.astype(np.uint32))
            rows = self._calibrated().label_shift(data, current, seed, thread_count(self.n_jobs))
            sampling = ("label_shift", of, len(current))
        if len(rows) == 0:
            raise ValueError(f"{names[0]} leaves no point to calibrate on; more points are needed")
        self._calibrate(points[rows], codes[rows], classes, kept[rows], listener, sampling, of_fit=False)
        listener.warn()
        return self

    def _calibrate(
        self,
        points: NDArray[np.float32],
        codes: NDArray[np.uint32],
        classes: NDArray[Any],
        rows: NDArray[np.int64],
        listener: Listener,
        sampling: tuple[str, int, int],
        *,
        of_fit: bool,
    ) -> None:
        """Calibrates on points with these classes. With ``of_fit`` rows are those of the data passed to ``fit``, else those
        passed to ``recalibrate``."""
        names = class_names(classes)
        settings = self._settings(self._seed)
        model = self._model.calibrate(
            (points, codes, names, class_kind(classes), rows.astype(np.uint32)),
            of_fit,
            sampling,
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

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model file, which the ``dance`` program reads and writes as well.

        It keeps the kernel, the calibration, their settings, the error level that ``fit`` had, and labels as integers,
        floats, booleans or text. It does not keep ``unlabeled`` or feature names; pickle keeps everything.

        >>> import os, tempfile
        >>> from dance_conformal import DanceClassifier, datasets
        >>> path = os.path.join(tempfile.mkdtemp(), "model.dance")
        >>> DanceClassifier(evaluations=2).fit(*datasets.clusters(300, classes=3)).save(path)
        >>> os.path.exists(path)
        True
        """
        model = self._calibrated()
        kept = stored_alpha(json.loads(model.settings))
        if kept != self.alpha:
            warnings.warn(
                f"the file keeps alpha = {kept}, which fit had, not {self.alpha}: pass alpha={self.alpha} to load, or fit "
                "with it",
                DanceWarning,
                stacklevel=2,
            )
        model.save(path)

    @classmethod
    def load(
        cls: type[Self],
        path: str | PathLike[str],
        *,
        alpha: float | None = None,
        labels: Literal["auto", "str", "int"] = "auto",
        n_jobs: int | None = None,
        device: str = "auto",
    ) -> Self:
        """Reads a model file.

        ``alpha`` is the (first) error level that the fit had, unless another is given. ``labels``: ``"auto"`` for labels of
        the kind that they had in the fit, or ``"str"`` or ``"int"``.

        >>> import os, tempfile
        >>> from dance_conformal import DanceClassifier, datasets
        >>> path = os.path.join(tempfile.mkdtemp(), "model.dance")
        >>> DanceClassifier(evaluations=2).fit(*datasets.clusters(300, classes=3)).save(path)
        >>> DanceClassifier.load(path).get_params()["evaluations"]
        2
        """
        check_word("labels", labels, ("auto", "str", "int"))
        model = _native.Model.load(path, device, thread_count(n_jobs))
        settings = json.loads(model.settings)
        parameters = from_settings(settings)
        level = stored_alpha(settings) if alpha is None else check_alpha(alpha)
        loaded = cls(level, **parameters, n_jobs=n_jobs, device=device)
        loaded._seed = parameters["random_state"]
        loaded._model = model
        loaded._fit_rows = np.arange(model.fit_points)
        kind = {"auto": model.label_kind, "str": "text", "int": "integer"}[labels]
        loaded.classes_ = class_values(model.classes, kind)
        loaded.n_features_in_ = model.dimensions
        loaded.kernel_ = json.loads(model.kernel)
        loaded.method_ = model.method
        loaded.guarantee_ = model.guarantee
        loaded.new_label_share_ = model.new_label_share
        loaded.reference_indices_ = np.arange(len(model.reference_labels()))
        return loaded

    def _forget_calibration(self) -> None:
        for name in ("method_", "guarantee_", "new_label_share_", "reference_indices_"):
            if hasattr(self, name):
                delattr(self, name)

    def _settings(self, seed: int) -> dict[str, Any]:
        return to_settings(self.get_params(deep=False), seed)


def _weights(weights: ArrayLike | None, points: int) -> NDArray[np.float64] | None:
    """Returns importance weights, one per point."""
    if weights is None:
        return None
    numbers = np.asarray(weights, np.float64).reshape(-1)
    if len(numbers) != points:
        raise ValueError(
            f"weights has {len(numbers)} entries, and X has {points} points; one is needed for each"
        )
    return numbers
