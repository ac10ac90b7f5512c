#!/usr/bin/env python3
"""Uses the installed Python package in a few lines; nothing of the repository is imported.

python tools/try_package.py
"""

import dance_conformal
from dance_conformal import DanceClassifier, datasets

X, y = datasets.clusters(600, classes=4, seed=0)
model = DanceClassifier(alpha=0.1).fit(X[:400], y[:400])
sets = model.predict_set(X[400:])
assert sets.shape == (200, 4), sets.shape
coverage = sets[range(200), y[400:]].mean()
assert coverage > 0.8, coverage
print(f"dance_conformal {dance_conformal.__version__}: 200 sets, {coverage:.1%} hold the true label")
