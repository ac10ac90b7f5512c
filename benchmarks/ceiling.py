"""How small sets can be with few labels: a bound that no fit can reach, because it is fitted on the test points.

    BEFORE=binary DANCE_DATA=folder python3 benchmarks/ceiling.py [seeds] [files …]

The draws are those of `KIND=10 benchmarks/posterior.py`. The comparison is with the default of the program `BEFORE`.

Experts are trained on all labels, those of fit and calibration points: prototypes whitened by the covariance of all of them, and
kernel ridge regressions on raw, whitened and centered points. Their settings and weights have the least log loss on the test
points themselves. Thresholds have exactly the wanted coverage there, with all classes weighted alike, so they have no sampling
noise. Prints sizes at alpha 0.1 and 0.05, then the geometric mean of the ratios of sizes.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
import environment

environment.enter("numpy", "scipy")

import numpy as np
import posterior
from scipy.special import logsumexp, softmax

PRIORS = (1, 4)
SHRINKAGES = (0.1, 0.3, 0.6, 0.9)
KERNELS = [(width, power, ridge) for width in (1, 2) for power in (1, 2) for ridge in (1e-2, 1e-1, 1)]


def squared(a, b):
    return np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T, 0)


def whitening(points, labels, shrinkage):
    own = np.eye(labels.max() + 1)[labels]
    counts = own.sum(0)
    residuals = points - ((own.T @ points) / np.maximum(counts, 1)[:, None])[labels]
    covariance = residuals.T @ residuals / np.maximum(counts - 1, 0).sum()
    values, vectors = np.linalg.eigh(covariance)
    return vectors / np.sqrt((1 - shrinkage) * np.maximum(values, 0) + shrinkage * values.mean())


def prototypes(points, labels, test, prior):
    own = np.eye(labels.max() + 1)[labels]
    means = (prior * points.mean(0) + own.T @ points) / (prior + own.sum(0))[:, None]
    return -squared(test, means)


def regression(points, labels, test, width, power, ridge):
    between = squared(points, points)
    np.fill_diagonal(between, 0)
    median = np.median(between[between > 0])
    kernel = lambda squares: np.exp(-((np.sqrt(squares / median) / width) ** power))
    inner = kernel(between) + ridge * np.eye(len(points))
    outputs = kernel(squared(test, points)) @ np.linalg.solve(inner, np.eye(labels.max() + 1)[labels])
    return np.log(np.logaddexp(0, outputs / 0.05))


def weighted(tables, labels):
    """The weights of least log loss, none below 0, by Newton's method; and that loss."""
    scales = np.array([table.std(1).mean() for table in tables])
    tables = [table / scale for table, scale in zip(tables, scales, strict=True)]
    rows = np.arange(len(labels))
    stack = lambda weights: sum(weight * table for weight, table in zip(weights, tables, strict=True))
    loss = lambda table: (logsumexp(table, axis=1) - table[rows, labels]).mean()
    weights = np.full(len(tables), 1 / len(tables))
    best = loss(stack(weights))
    for _ in range(30):
        shares = softmax(stack(weights), axis=1)
        away = [table - (shares * table).sum(1, keepdims=True) for table in tables]
        gradient = np.array([-table[rows, labels].mean() for table in away])
        hessian = np.array([[(shares * a * b).sum() / len(labels) for b in away] for a in away])
        free = (weights > 0) | (gradient < 0)
        step = np.zeros(len(tables))
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)] + 1e-6 * np.eye(free.sum()), gradient[free])
        tries = [np.maximum(weights - length * step, 0) for length in 0.5 ** np.arange(8)]
        found = min(tries, key=lambda weights: loss(stack(weights)))
        gained = best - loss(stack(found))
        if gained < 1e-7:
            break
        weights, best = found, best - gained
    return weights / scales, best


def sizes(table, labels):
    scores = logsumexp(table, axis=1, keepdims=True) - table
    own = scores[np.arange(len(labels)), labels]
    order = own.argsort()
    share = (1 / np.bincount(labels)[labels])[order].cumsum()
    return [(scores <= own[order][np.searchsorted(share, (1 - alpha) * share[-1])]).sum(1).mean() for alpha in posterior.ALPHAS]


def ceiling(points, labels, rows_of):
    fit, calibration, test = rows_of
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    known, truth = np.concatenate([fit, calibration]), labels[test]
    centred = points - points[known].mean(0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    families = []
    for space in (points, centred):
        maps = [whitening(space[known], labels[known], shrinkage) for shrinkage in SHRINKAGES]
        families.append([
            prototypes(space[known] @ map, labels[known], space[test] @ map, prior) for map in maps for prior in PRIORS
        ])
        for place in (space, space @ maps[1]):
            families.append([regression(place[known], labels[known], place[test], *kernel) for kernel in KERNELS])
    best = [min(family, key=lambda table: weighted([table], truth)[1]) for family in families]
    weights, _ = weighted(best, truth)
    return sizes(sum(weight * table for weight, table in zip(weights, best, strict=True)), truth)


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ratios = []
    for name in sys.argv[2:] or environment.FILES:
        file = np.load(Path(os.environ["DANCE_DATA"]) / f"{name}.npz")
        labels = np.unique(file["labels"], return_inverse=True)[1]
        found = []
        for seed in range(seeds):
            rows_of = posterior.parts(labels, np.random.default_rng(seed), "10")
            with tempfile.TemporaryDirectory() as folder:
                posterior.written(file["embeddings"], labels, rows_of, Path(folder))
                old = [level[0] for level in posterior.before(Path(folder), seed, os.environ["BEFORE"])]
            found.append([ceiling(file["embeddings"].astype(float), labels, rows_of), old])
        found = np.array(found)
        ratios.append(np.log(found[:, 0] / found[:, 1]).mean(0))
        means = [" / ".join(f"{size:.2f}" for size in found[:, who].mean(0)) for who in (0, 1)]
        print(f"{name}: at best {means[0]}, the default {means[1]}, ratios", np.exp(ratios[-1]).round(3), flush=True)
    print("geometric mean of the ratios:", " / ".join(f"{ratio:.3f}" for ratio in np.exp(np.mean(ratios, 0))))


main()
