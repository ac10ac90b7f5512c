"""Synthetic embeddings for examples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def clusters(
    points: int = 1000, *, classes: int = 10, dimensions: int = 16, spread: float = 0.5, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Returns points around one random center per class; ``spread`` is the noise relative to the center's length.

    >>> X, y = clusters(6, classes=3, dimensions=2)
    >>> X.shape, sorted(y.tolist())
    ((6, 2), [0, 0, 1, 1, 2, 2])
    """
    random = np.random.default_rng(seed)
    centers = random.normal(size=(classes, dimensions)) / np.sqrt(dimensions)
    y = random.permutation(np.arange(points) % classes)
    X = centers[y] + spread * random.normal(size=(points, dimensions)) / np.sqrt(dimensions)
    return X.astype(np.float32), y
