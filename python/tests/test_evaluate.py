"""Evaluation of sets: coverage by chance, and points that the model knows."""

import math
import warnings

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier, DanceWarning, metrics


def beta_binomial(calibration, test, alpha):
    """``P(covered <= j)`` for j = 0 … test: ``BetaBinomial(test, k, n + 1 - k)`` with ``k = ⌈(1 - alpha)(n + 1)⌉``."""
    k = math.ceil((1 - alpha) * (calibration + 1) - 1e-9)

    def log_beta(a, b):
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    mass = [
        math.comb(test, j)
        * math.exp(log_beta(j + k, test - j + calibration + 1 - k) - log_beta(k, calibration + 1 - k))
        for j in range(test + 1)
    ]
    return np.cumsum(mass)


# The method dance can give one of its scores a share of alpha that so few points do not support.
@pytest.mark.filterwarnings("ignore:.*calibration points support no alpha")
@pytest.mark.parametrize(
    ("options", "points"),
    [({}, 300), ({"calibration": "split"}, 300), ({"method": "dance", "calibration": "split"}, 150)],
)
def test_coverage_by_chance(data, options, points):
    X, y, test, truth = data
    model = DanceClassifier(**options, **FAST).fit(X, y)
    for alpha in (0.05, 0.1, 0.3):
        report = model.evaluate(test, truth, alpha)
        below = beta_binomial(points, 300, alpha)
        np.testing.assert_allclose(below[-1], 1)
        low, high = (below > 0.025).argmax() / 300, (below >= 0.975).argmax() / 300
        assert report["by_chance"] == (low, high)
        np.testing.assert_allclose(report["as_low"], below[round(300 * report["coverage"])])
        assert report["overlap"] == {"fit": 0, "calibration": 0}


@pytest.mark.parametrize("options", [{}, {"refit": False}, {"calibration": "split"}, {"method": "fuse"}])
def test_points_that_the_model_knows(data, options):
    X, y, test, truth = data
    model = DanceClassifier(calibration_share=None, **options, **FAST).fit(X[:250], y[:250])
    model.conformalize(X[250:], y[250:])
    # Seven points of the fit and five of calibration after two hundred new ones.
    mixed = np.concatenate([test[:200], X[:7], X[250:255]])
    labels = np.r_[truth[:200], y[:7], y[250:255]]
    seen = r"12 of the 212 points have been seen .* \(7 in the fit of the kernel, 5 in its calibration\)"
    with pytest.warns(DanceWarning, match=seen + ".*exclude_seen=True"):
        report = model.evaluate(mixed, labels)
    assert report["overlap"] == {"fit": 7, "calibration": 5} and report["points"] == 212
    assert report["coverage"] == metrics.coverage(labels, model.predict_set(mixed))
    with pytest.warns(DanceWarning, match=seen + ": they are left out"):
        without = model.evaluate(mixed, labels, exclude_seen=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert without == {**model.evaluate(test[:200], truth[:200]), "overlap": report["overlap"]}
    with (
        pytest.warns(DanceWarning, match="5 of the 5 points"),
        pytest.raises(ValueError, match="seen every point"),
    ):
        model.evaluate(X[250:255], y[250:255], exclude_seen=True)


def test_labels_that_the_model_does_not_know_are_not_covered(model, data):
    _, _, test, truth = data
    other = np.where(np.arange(300) < 30, 77, truth)
    covered = model.predict_set(test)[np.arange(300), truth]
    with pytest.warns(DanceWarning, match="30 of 300 points carry a label that the model does not know"):
        found = model.evaluate(test, other)
    assert found["coverage"] == covered[30:].sum() / 300
