"""Data and models that the tests share: small, since every fit is a search."""

import numpy as np
import pytest

from dance_conformal import DanceClassifier, datasets

FAST = {"evaluations": 3, "rounds": 2}


@pytest.fixture(scope="session")
def data():
    """Training points, test points and their labels, five classes."""
    X, y = datasets.clusters(900, classes=5, dimensions=12, spread=0.7, seed=3)
    return X[:600], y[:600], X[600:], y[600:]


@pytest.fixture(scope="session")
def model(data):
    X, y, _, _ = data
    return DanceClassifier(**FAST).fit(X, y)


@pytest.fixture(scope="session")
def names():
    return np.array(["ant", "bee", "cat", "dog", "eel"])
