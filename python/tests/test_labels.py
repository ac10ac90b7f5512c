"""Labels that are no classes: numbers, one-hot rows, probabilities and tags are refused, with what they are."""

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier, DanceWarning, SplitConformal, metrics

NUMBERS = np.linspace(0, 1, 600)
ONE_HOT = np.eye(5, dtype=int)[np.arange(600) % 5]
TAGS = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0]])[np.arange(600) % 3]
SOFT = np.array([[0.2, 0.8], [0.5, 0.5]])[np.arange(600) % 2]
SEVERAL = np.stack([NUMBERS, NUMBERS], axis=1) * 7
LISTS = [["red", "small"], ["blue"]] * 300


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (NUMBERS, "Unknown label type: continuous. y holds numbers, and labels are classes: use a regressor"),
        (ONE_HOT, r"\(600, 5\) instead. It is one-hot: pass y.argmax\(axis=1\)"),
        (ONE_HOT.astype(bool), "It is one-hot"),
        (TAGS, r"these are tags \(multi-label\), and a point has one label here: fit a model for each tag"),
        (SOFT, r"Its rows are probabilities: pass y.argmax\(axis=1\)"),
        (SEVERAL, "It holds several numbers for each point, and labels are classes: use a regressor"),
        (LISTS, r"several labels in a row \(row 0: \['red', 'small'\]\): these are tags"),
        ([{"red"}, {"blue", "small"}] * 300, "these are tags"),
        (
            np.array([["a", "b"]] * 600),
            r"got an array of shape \(600, 2\) instead. Pass one label for each point",
        ),
    ],
)
def test_what_it_is_is_said(data, labels, message):
    with pytest.raises(ValueError, match=message):
        DanceClassifier(**FAST).fit(data[0], labels)


def test_one_hot_rows_as_advised_are_the_labels(data):
    X, y, test, _ = data
    expected = DanceClassifier(**FAST).fit(X, y).predict_set(test)
    np.testing.assert_array_equal(
        DanceClassifier(**FAST).fit(X, np.eye(5)[y].argmax(axis=1)).predict_set(test), expected
    )


@pytest.mark.filterwarnings("ignore:.*too few to hold some out")
def test_amounts_are_a_warning(data):
    X, _, _, _ = data
    with pytest.warns(
        DanceWarning,
        match="y has 60 different numbers for 60 points, and each is taken for a class. If they are",
    ):
        DanceClassifier(calibration_share=None, **FAST).fit(X[:60], 100 * np.arange(60))


def test_others_take_labels_alike(data):
    p = np.full((600, 5), 0.2)
    with pytest.raises(ValueError, match="It is one-hot"):
        SplitConformal().fit(p, ONE_HOT)
    with pytest.raises(ValueError):
        metrics.coverage(ONE_HOT, p > 0)
