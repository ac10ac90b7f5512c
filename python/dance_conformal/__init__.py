"""Conformal prediction sets for any classifier built on embeddings.

>>> from dance_conformal import DanceClassifier, datasets
>>> X, y = datasets.clusters(400, classes=4, seed=0)
>>> model = DanceClassifier(alpha=0.1, evaluations=3).fit(X[:300], y[:300])
>>> sets = model.predict_set(X[300:])  # booleans, one row per point, one column per class
>>> sets.shape
(100, 4)
>>> model.guarantee_
'P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows'

- :class:`DanceClassifier`: fit, conformalize, predict sets; a scikit-learn classifier where that is installed.
- :func:`audit`: label errors, copies and outliers in data with labels.
- :func:`embed`: embeddings of pictures and texts (needs onnxruntime).
- :mod:`~dance_conformal.conformal`: split conformal prediction on the class probabilities of any classifier.
- :mod:`~dance_conformal.metrics`: metrics of prediction sets.
- :mod:`~dance_conformal.plots`: figures (needs matplotlib).
- :mod:`~dance_conformal.datasets`: synthetic data for examples.
"""

from . import conformal, datasets, metrics, plots
from ._native import DanceError, ModelFormatError, __version__
from .classifier import DanceClassifier
from .embedding import Embeddings, embed
from .explanation import Explanation, Support
from .maintenance import Monitor, Selection, audit
from .parts import ReferencePoint
from .progress import DanceWarning

__all__ = [
    "DanceClassifier",
    "DanceError",
    "DanceWarning",
    "Embeddings",
    "Explanation",
    "ModelFormatError",
    "Monitor",
    "ReferencePoint",
    "Selection",
    "Support",
    "__version__",
    "audit",
    "conformal",
    "datasets",
    "embed",
    "metrics",
    "plots",
]
