"""Conformal prediction sets for any classifier built on embeddings.

>>> from dance_conformal import DanceClassifier, datasets
>>> X, y = datasets.clusters(400, classes=4, seed=0)
>>> model = DanceClassifier(alpha=0.1, evaluations=3).fit(X[:300], y[:300])
>>> sets = model.predict_set(X[300:])  # booleans, one row per point, one column per class
>>> sets.shape
(100, 4)
>>> model.guarantee_
'P(label in set) >= 1 - alpha in finite samples, for exchangeable points whose labels it knows'

- :class:`DanceClassifier`: fit, recalibrate, predict sets; a scikit-learn classifier where that is installed.
- :class:`SplitConformal`: sets from the class probabilities of any classifier.
- :func:`audit`: label errors, copies and outliers in data with labels.
- :func:`embed`: embeddings of pictures and texts (needs onnxruntime).
- :mod:`~dance_conformal.results`: the results of ``evaluate``, ``explain``, ``audit`` and others, as records.
- :mod:`~dance_conformal.metrics`: metrics of prediction sets.
- :mod:`~dance_conformal.plots`: figures (needs matplotlib).
- :mod:`~dance_conformal.datasets`: data for examples.
"""

from . import datasets, metrics, plots, results
from ._native import DanceError, ModelFormatError, __version__
from .classifier import DanceClassifier
from .embedding import Embeddings, embed
from .maintenance import Monitor, Selection, audit
from .parts import ReferencePoint
from .progress import DanceWarning
from .results import Audit, Comparison, Evaluation, Explanation, MonitorReport, Rows, SetMetrics, Thresholds
from .settings import KernelSettings, ScoreSettings
from .split_conformal import SplitConformal

__all__ = [
    "Audit",
    "Comparison",
    "DanceClassifier",
    "DanceError",
    "DanceWarning",
    "Embeddings",
    "Evaluation",
    "Explanation",
    "KernelSettings",
    "ModelFormatError",
    "Monitor",
    "MonitorReport",
    "ReferencePoint",
    "Rows",
    "ScoreSettings",
    "Selection",
    "SetMetrics",
    "SplitConformal",
    "Thresholds",
    "__version__",
    "audit",
    "datasets",
    "embed",
    "metrics",
    "plots",
    "results",
]
