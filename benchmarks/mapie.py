"""LAC, APS, RAPS and SAPS of dance together against APS alone of the PyPI package `mapie`, 5000 + 5000 rows of 1000 classes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.pop(0)  # this file has the name of the package
sys.path.append(str(Path(__file__).resolve().parent))
import environment

environment.enter("numpy", "scikit-learn", "mapie")

import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin

ROWS, CLASSES = 5000, 1000


class Given(ClassifierMixin, BaseEstimator):
    """Probabilities that are already there: the rows of `X`."""

    def __init__(self):
        self.classes_ = np.arange(CLASSES)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(1)

    def __sklearn_is_fitted__(self):
        return True


def rows(seed):
    random = np.random.default_rng(seed)
    labels = random.integers(CLASSES, size=ROWS)
    weights = np.exp(2 * random.normal(size=(ROWS, CLASSES)))
    weights[np.arange(ROWS), labels] *= 3000
    return weights / weights.sum(1, keepdims=True), labels


(calibration, labels), (test, _) = rows(1), rows(2)
begin = time.perf_counter()
classifier = SplitConformalClassifier(Given(), confidence_level=0.9, conformity_score="aps", prefit=True)
classifier.conformalize(calibration, labels)
_, sets = classifier.predict_set(test)
peer = time.perf_counter() - begin
command = ["cargo", "bench", "--quiet", "-p", "dance-conformal", "--bench", "probabilities"]
output = subprocess.run(command, cwd=environment.ROOT, check=True, capture_output=True, text=True, env=os.environ)
own = json.loads(output.stdout.strip().splitlines()[-1])
print(f"mapie, APS alone: {peer:.2f} s, {sets.sum() / ROWS:.2f} labels a set")
print(f"dance, LAC, APS, RAPS and SAPS: {own['seconds']:.3f} s, peak {own['peak']}, {own['sizes']} labels a set")
print(f"ratio {peer / own['seconds']:.1f}")
