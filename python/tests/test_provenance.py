"""Points that were picked fit the kernel, and never calibrate."""

import warnings

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier
from dance_conformal.progress import DanceWarning


def parts(model):
    """Rows of the fit and of calibration."""
    rows = {"fit": set(), "calibration": set()}
    for point in model.reference_points_:
        rows[point.part].add(point.row)
    return rows["fit"], rows["calibration"]


def test_picked_points_fit_and_the_others_are_dealt_out(data):
    X, y, _, _ = data
    picked = np.arange(200) % 4 == 1
    words = np.where(picked, "picked", "random")
    model = DanceClassifier(calibration_share=0.4, **FAST)
    with pytest.warns(DanceWarning, match="50 picked points fit the kernel"):
        model.fit(X[:200], y[:200], provenance=words)
    fit, calibration = parts(model)
    assert fit | calibration == set(range(200)) and not fit & calibration
    assert set(np.flatnonzero(picked)) <= fit and len(calibration) == 60  # 0.4 of 150
    assert model.guarantee_.startswith("P(label in set)")
    # As the program does: the drawn points are split as if they were alone.
    alone = DanceClassifier(calibration_share=0.4, **FAST).fit(X[:200][~picked], y[:200][~picked])
    assert {int(np.flatnonzero(~picked)[row]) for row in parts(alone)[1]} == calibration
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = DanceClassifier(**FAST).fit(X[:200], y[:200], provenance=["random"] * 200)
        silent = DanceClassifier(**FAST).fit(X[:200], y[:200], provenance=[None, "", np.nan, "random"] * 50)
        # All points fit the kernel, so nothing is split.
        DanceClassifier(calibration_share=None, **FAST).fit(X[:200], y[:200], provenance=words)
    usual = DanceClassifier(**FAST).fit(X[:200], y[:200])
    for other in (plain, silent):
        assert np.array_equal(other.predict_p(X[200:250]), usual.predict_p(X[200:250]))


def test_selected_points_are_left_out_of_calibration(model, data):
    _, _, pool, labels = data
    chosen = model.select(pool, 30, random=60)
    assert chosen.provenance == ["picked"] * 30 + ["random"] * 60
    again = DanceClassifier(calibration_share=None, **FAST).fit(*data[:2])
    with pytest.warns(DanceWarning, match="30 picked points are left out"):
        again.recalibrate(pool[chosen.rows], labels[chosen.rows], provenance=chosen.provenance)
    assert parts(again)[1] == set(range(30, 90))
    # Rows without a label are left out, with their provenance.
    given = labels[chosen.rows].astype(float)
    given[[0, 40]] = np.nan
    again.set_params(unlabeled=np.nan)
    with (
        pytest.warns(DanceWarning, match="2 of 90 points have no label"),
        pytest.warns(DanceWarning, match="29 picked points are left out"),
    ):
        again.recalibrate(pool[chosen.rows], given, provenance=chosen.provenance)
    assert parts(again)[1] == set(range(30, 90)) - {40}


def test_points_that_cannot_calibrate_are_refused(data):
    X, y, _, _ = data
    model = DanceClassifier(**FAST)
    with pytest.raises(ValueError, match="all 50 points were picked"):
        model.fit(X[:50], y[:50], provenance=["picked"] * 50)
    with pytest.raises(ValueError, match="provenance has 49 entries, and X has 50 points"):
        model.fit(X[:50], y[:50], provenance=["picked"] * 49)
    with pytest.raises(ValueError, match="row 1: 'chosen' is no provenance; 'picked' or 'random'"):
        model.fit(X[:2], y[:2], provenance=["picked", "chosen"])
    model.fit(X[:300], y[:300])
    with pytest.raises(ValueError, match="all 50 points were picked"):
        model.recalibrate(X[300:350], y[300:350], provenance=["picked"] * 50)
    assert model.predict_set(X[350:]).any(), "the calibration before is still there"
