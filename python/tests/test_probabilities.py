"""Class probabilities: calibrated on held-out points, or clamped as in the paper."""

import numpy as np
import pytest
from conftest import fast

from dance_conformal import DanceClassifier, datasets


@pytest.fixture(scope="module")
def drawn():
    """Twenty classes, too many for clamped probabilities: 600 points to fit and 3000 to test."""
    X, y = datasets.clusters(3600, classes=20, dimensions=12, spread=0.8, seed=3)
    return X[:600], y[:600], X[600:], y[600:]


@pytest.fixture(scope="module")
def fitted(drawn):
    def fit(**kernel):
        return DanceClassifier(**fast(calibration_share=None, kernel=kernel)).fit(*drawn[:2])

    return {
        "calibrated": fit(),
        "clamp": fit(probabilities="clamp"),
        "low floor": fit(probabilities="clamp", probability_floor=1e-6),
    }


def test_calibrated_probabilities_are_frequencies(drawn, fitted):
    _, _, X, y = drawn
    off, loss = {}, {}
    for name in ("calibrated", "clamp"):
        p = fitted[name].predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        right = fitted[name].predict(X) == y
        # Distance between probability and accuracy, over groups of points with similar probabilities.
        groups = np.digitize(p.max(axis=1), [0.3, 0.5, 0.7, 0.9])
        off[name] = sum(abs((p.max(axis=1) - right)[groups == group].sum()) for group in range(5)) / len(y)
        loss[name] = -np.log(p[np.arange(len(y)), y]).mean()
    # 120 points chose floor and power, so the standard error of a probability is some 3 %.
    assert off["calibrated"] < 0.08 < 0.2 < off["clamp"]
    assert loss["calibrated"] < 0.6 * loss["clamp"]


def test_calibrated_ones_are_a_power_of_the_outputs(drawn, fitted):
    """``p ∝ max(f, floor)^power``: far above floors and below 1, odds are those of clamped outputs to one power."""
    X = drawn[2]
    order = np.argsort(-fitted["low floor"].predict_proba(X), axis=1)[:, :2]
    clamped, calibrated = (
        np.take_along_axis(fitted[name].predict_proba(X), order, axis=1)
        for name in ("low floor", "calibrated")
    )
    plain = (clamped[:, 0] < 0.7) & (clamped[:, 1] > 0.2) & (clamped[:, 0] > 1.2 * clamped[:, 1])
    assert plain.sum() > 100
    odds, powered = (np.log(p[plain, 0] / p[plain, 1]) for p in (clamped, calibrated))
    power = powered[0] / odds[0]
    assert 0.25 <= power <= 16
    np.testing.assert_allclose(powered, power * odds, rtol=1e-4)


def test_they_order_labels_alike(drawn, fitted):
    X = drawn[2]
    best = fitted["calibrated"].predict(X)
    for model in fitted.values():
        np.testing.assert_array_equal(model.predict(X), best)


def test_the_floor_is_clamped_ones_alone(drawn, fitted):
    X = drawn[2]
    # No class has less than the floor over the sum, which is at most one a class; without a floor some have none.
    assert fitted["clamp"].predict_proba(X).min() >= 1e-3 / 20
    with_floor = DanceClassifier(**fast(calibration_share=None, kernel={"probability_floor": 0.3})).fit(
        *drawn[:2]
    )
    np.testing.assert_array_equal(with_floor.predict_proba(X), fitted["calibrated"].predict_proba(X))


def test_files_keep_them(drawn, fitted, tmp_path):
    _, _, X, y = drawn
    for name in ("calibrated", "low floor"):
        model = fitted[name].recalibrate(X[:300], y[:300])
        model.save(tmp_path / "model.safetensors")
        loaded = DanceClassifier.load(tmp_path / "model.safetensors")
        assert (loaded.kernel or {}).get("probabilities") == model.kernel.get("probabilities")
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
