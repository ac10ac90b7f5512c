"""Data for examples: made-up clusters, and definitions of nouns."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class WordNet:
    """Definitions of nouns, embedded: see :func:`load_wordnet`."""

    #: Embeddings of the definitions.
    X: NDArray[np.float32]
    #: The lexical field of each noun, such as ``"animal"``.
    y: NDArray[np.str_]
    #: The noun and its definition.
    texts: NDArray[np.str_]


def load_wordnet() -> WordNet:
    """Returns 4,800 definitions of nouns of WordNet 3.0, embedded by all-MiniLM-L6-v2: 200 of each of 24 lexical fields.

    >>> words = load_wordnet()
    >>> words.X.shape, len(set(words.y))
    ((4800, 384), 24)
    """
    with as_file(files(__package__) / "wordnet" / "wordnet_minilm.npz") as path, np.load(path) as data:
        names = data["class_names"]
        return WordNet(data["embeddings"].astype(np.float32), names[data["labels"]], data["ids"])


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
