"""Figures. They need matplotlib (``pip install "dance-conformal[plots]"``), draw into ``ax`` and return it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import metrics
from .inputs import Labels, Points, as_labels
from .results import SetMetrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .classifier import DanceClassifier

__all__ = ["class_coverage", "coverage_curve", "kernel_pca", "size_versus_ccv"]

_LEVELS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'plots need matplotlib, which is not installed: pip install "dance-conformal[plots]"'
        ) from error
    return plt.subplots(figsize=(5, 4), layout="constrained")[1]


def coverage_curve(
    model: DanceClassifier, X: Points, y: Labels, *, alphas: ArrayLike = _LEVELS, ax: Axes | None = None
) -> Axes:
    """Plots coverage against its target ``1 - alpha``, and the mean size of sets on a second axis."""
    ax = _axes(ax)
    levels, labels = np.asarray(alphas, dtype=float), as_labels(y)
    sets = model.predict_set(X, alpha=levels)
    covered = [metrics.coverage(labels, sets[..., at], classes=model.classes_) for at in range(len(levels))]
    sizes = [metrics.size(sets[..., at]) for at in range(len(levels))]
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=":", label="target")
    ax.plot(1 - levels, covered, marker="o", label="coverage")
    low = max(0.0, min(1 - levels.max(), min(covered)) - 0.03)
    ax.set(xlim=(low, 1), ylim=(low, 1), xlabel="1 − α", ylabel="coverage", title="Coverage")
    twin = ax.twinx()
    twin.plot(1 - levels, sizes, marker="s", color="C1", label="mean size")
    twin.set_ylabel("labels in a set")
    lines = [*ax.get_lines(), *twin.get_lines()]
    ax.legend(lines, [str(line.get_label()) for line in lines], loc="upper left", frameon=False)
    return ax


def size_versus_ccv(reports: Mapping[str, SetMetrics], *, ax: Axes | None = None) -> Axes:
    """Plots one point per method: mean size and class-conditional violation. ``reports`` are those of ``evaluate``."""
    ax = _axes(ax)
    for name, report in reports.items():
        ax.scatter(report.size, report.class_violation)
        ax.annotate(name, (report.size, report.class_violation), xytext=(5, 4), textcoords="offset points")
    if reports:
        floor = float(np.mean([report.class_violation_floor for report in reports.values()]))
        ax.axhline(floor, color="0.6", linewidth=1, linestyle=":", label="chance alone")
        ax.legend(frameon=False)
    ax.set(xlabel="labels in a set", ylabel="CCV (%)", title="Size and class-conditional coverage")
    return ax


def class_coverage(
    y: ArrayLike, sets: ArrayLike, alpha: float, *, classes: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Plots the coverage of every class, lowest first, with the band that holds 95 % of classes at perfect coverage."""
    ax = _axes(ax)
    shares, counts = metrics.class_coverage(y, sets, classes=classes)
    present = np.flatnonzero(counts > 0)
    order = present[np.argsort(shares[present], kind="stable")]
    names = order if classes is None else [*np.asarray(classes).tolist(), *["?"] * len(counts)]
    places = np.arange(len(order))
    half = 1.96 * np.sqrt(alpha * (1 - alpha) / counts[order])
    ax.fill_between(
        places, np.clip(1 - alpha - half, 0, 1), np.clip(1 - alpha + half, 0, 1), color="0.9", step="mid"
    )
    ax.axhline(1 - alpha, color="0.6", linewidth=1, linestyle=":")
    ax.plot(places, shares[order], marker="o", linestyle="none")
    if len(order) <= 40:
        labels = [str(at) if classes is None else str(names[at]) for at in order]
        ax.set_xticks(places, labels, rotation=90)
    ax.set(ylabel="coverage", xlabel="class", ylim=(-0.03, 1.03), title="Coverage of every class")
    return ax


def kernel_pca(
    model: DanceClassifier, X: Points, y: ArrayLike | None = None, *, ax: Axes | None = None
) -> Axes:
    """Plots points in the two leading principal components of the learned kernel, colored by label."""
    ax = _axes(ax)
    places = _principal_components(model.transform(X), model.kernel_)
    if y is None:
        ax.scatter(places[:, 0], places[:, 1], s=8)
    else:
        labels = np.asarray(y)
        values = np.unique(labels)
        for value in values:
            some = places[labels == value]
            ax.scatter(some[:, 0], some[:, 1], s=8, label=str(value))
        if len(values) <= 12:
            ax.legend(frameon=False, fontsize="small")
    ax.set(xticks=[], yticks=[], title="Kernel PCA")
    return ax


def _principal_components(mapped: NDArray[np.float32], kernel: Mapping[str, float]) -> NDArray[np.float64]:
    points = mapped.astype(np.float64)
    squares = (points**2).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0))
    gram = np.exp(-((distances / kernel["bandwidth"]) ** (1 / kernel["shape"])))
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    return np.asarray(vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 0)))
