"""Points that belong together stay together, and one of each group calibrates."""

import numpy as np
import pytest
from conftest import FAST
from test_provenance import parts

from dance_conformal import DanceClassifier

pytestmark = pytest.mark.filterwarnings("ignore:.*no calibration point")


def test_groups_stay_whole_and_each_gives_one(data):
    X, y, _, _ = data
    groups = np.array([f"video {row // 4}" for row in range(200)])
    model = DanceClassifier(calibration_share=0.4, **FAST).fit(X[:200], y[:200], groups=groups)
    fit, calibration = parts(model)
    of_fit, of_calibration = set(groups[list(fit)]), list(groups[list(calibration)])
    assert len(calibration) == len(set(of_calibration)) == 20  # 0.4 of 50 groups, one point each
    assert not of_fit & set(of_calibration) and len(of_fit) == 30 and len(fit) == 120
    assert model.guarantee_.endswith(
        "one point of each group calibrated: it holds for a point of a new group"
    )
    # Names do not matter, only which are the same.
    again = DanceClassifier(calibration_share=0.4, **FAST).fit(
        X[:200], y[:200], groups=np.arange(200) // 4 + 7
    )
    assert parts(again) == (fit, calibration)
    alone = DanceClassifier(calibration_share=0.4, **FAST).fit(X[:200], y[:200])
    assert "group" not in alone.guarantee_


def test_one_of_each_group_calibrates_afterwards(data):
    X, y, more, labels = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:100], y[:100])
    model.recalibrate(more[:60], labels[:60], groups=np.arange(60) // 3)
    rows = sorted(parts(model)[1])
    assert [row // 3 for row in rows] == list(range(20)) and len({row % 3 for row in rows}) == 3
    assert "new group" in model.guarantee_
    assert "group" not in model.recalibrate(more[:60], labels[:60]).guarantee_
    # Rows without a label and picked ones are out before a point is drawn.
    given, words = labels[:60].astype(float), np.array(["random"] * 60)
    given[0], words[1] = np.nan, "picked"
    with pytest.warns():
        model.set_params(unlabeled=np.nan).recalibrate(
            more[:60], given, groups=np.arange(60) // 3, provenance=words
        )
    assert len(parts(model)[1]) == 20 and 2 in parts(model)[1]


def test_groups_that_cannot_stay_whole_are_refused(data):
    X, y, _, _ = data
    groups = np.arange(100) // 2
    with pytest.raises(ValueError, match="groups has 100 entries, and X has 50 points"):
        DanceClassifier(**FAST).fit(X[:50], y[:50], groups=groups)
    with pytest.raises(ValueError, match="row 3 has no group"):
        DanceClassifier(**FAST).fit(X[:4], y[:4], groups=["a", "b", "a", None])
    with pytest.raises(ValueError, match="1 points were picked, and their groups"):
        DanceClassifier(**FAST).fit(X[:100], y[:100], groups=groups, provenance=["picked"] + ["random"] * 99)
