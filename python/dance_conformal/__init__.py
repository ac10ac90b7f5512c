"""Conformal prediction sets for any classifier built on embeddings.

>>> from dance_conformal import DanceClassifier, datasets
>>> X, y = datasets.clusters(400, classes=4, seed=0)
>>> model = DanceClassifier(alpha=0.1, evaluations=3).fit(X[:300], y[:300])
>>> sets = model.predict_set(X[300:])  # booleans, a row a point, a column a class
>>> sets.shape
(100, 4)
>>> model.guarantee_
'P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows'

- :class:`DanceClassifier`: fit, conformalize, predict sets; a scikit-learn classifier where that is installed.
- :func:`audit`: what is wrong with labelled points.
- :func:`embed`: pictures and texts become embeddings (needs onnxruntime).
- :mod:`~dance_conformal.conformal`: split conformal prediction on ready-made class probabilities.
- :mod:`~dance_conformal.metrics`: how good sets are.
- :mod:`~dance_conformal.plots`: figures (needs matplotlib).
- :mod:`~dance_conformal.datasets`: made-up data to try things on.
"""

from . import conformal, datasets, metrics, plots
from ._native import DanceError, ModelFormatError, __version__
from .after import Monitor, Selection, audit
from .classifier import DanceClassifier
from .embedding import Embeddings, embed
from .explanation import Explanation, Support
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
