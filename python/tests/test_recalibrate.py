"""Calibration on part of the points: a window, importance weights, a label shift."""

import warnings

import numpy as np
import pytest
from conftest import FAST
from test_provenance import parts

from dance_conformal import DanceClassifier, DanceWarning, datasets


@pytest.fixture
def kernel(data):
    X, y, _, _ = data
    return DanceClassifier(**FAST).fit(X[:300], y[:300])


def test_the_last_points_calibrate(kernel, data):
    _, _, more, labels = data
    kernel.recalibrate(more, labels, window=120)
    assert sorted(parts(kernel)[1]) == list(range(180, 300))
    assert kernel.guarantee_.endswith("the latest 120 points calibrated: it holds for points like those")
    # Rows without a label and picked ones are no part of the window.
    given, words = labels.astype(float), np.array(["random"] * 300)
    given[299], words[298] = np.nan, "picked"
    with pytest.warns(DanceWarning):
        kernel.set_params(unlabeled=np.nan).recalibrate(more, given, window=3, provenance=words)
    assert sorted(parts(kernel)[1]) == [295, 296, 297]


def test_points_are_kept_in_proportion_to_their_weights(kernel, data):
    _, _, more, labels = data
    weights = np.where(labels == 0, 3.0, 1.0)
    kernel.recalibrate(more, labels, weights=weights)
    rows = np.array(sorted(parts(kernel)[1]))
    kept = {label: (labels[rows] == label).sum() / (labels == label).sum() for label in range(5)}
    # The point with the largest weight sets the scale and is out; a third of the others are kept.
    points = (labels == 0).sum()
    assert kept[0] == (points - 1) / points
    assert all(0.1 < kept[label] < 0.6 for label in range(1, 5))
    assert "some of 300 points, kept in proportion to their importance weights" in kernel.guarantee_
    first = kernel.predict_p(more[:20])
    np.testing.assert_array_equal(
        kernel.recalibrate(more, labels, weights=7 * weights).predict_p(more[:20]), first
    )
    # A weight of 0 leaves a point out.
    kernel.recalibrate(more, labels, weights=np.r_[np.zeros(200), np.ones(100)])
    assert sorted(parts(kernel)[1]) == list(range(201, 300))


def test_classes_have_the_frequencies_of_points_without_labels(kernel, data):
    X, y = datasets.clusters(3000, classes=5, dimensions=12, spread=0.7, seed=3)
    some = np.random.default_rng(0).random(3000) < np.where(y == 2, 1, 0.2)
    current = X[1500:][some[1500:]]
    kernel.recalibrate(X[600:1500], y[600:1500], label_shift=current)
    rows = np.array(sorted(parts(kernel)[1]))
    share, now = (y[600:1500][rows] == 2).mean(), (y[1500:][some[1500:]] == 2).mean()
    assert now > 0.5 and abs(share - now) < 0.08, (share, now)
    assert (
        f"some of 900 points, kept in the class proportions estimated from {len(current)}"
        in kernel.guarantee_
    )


@pytest.mark.filterwarnings("ignore:1 class has no calibration point")
def test_the_program_keeps_the_same_points(kernel, data, dance, tmp_path):
    _, _, more, labels = data
    kernel.save(tmp_path / "model.dance")
    np.savez(tmp_path / "new.npz", embeddings=more, labels=labels)
    np.save(tmp_path / "weights.npy", 1.0 + labels)
    np.save(tmp_path / "current.npy", more[labels > 1])
    for options, flags in (
        ({"window": 100}, ["--window", 100]),
        ({"weights": 1.0 + labels}, ["--weights", tmp_path / "weights.npy"]),
        ({"label_shift": more[labels > 1]}, ["--label-shift", tmp_path / "current.npy"]),
    ):
        kernel.recalibrate(more, labels, **options).save(tmp_path / "python.dance")
        dance(
            "recalibrate",
            tmp_path / "model.dance",
            tmp_path / "new.npz",
            "-o",
            tmp_path / "rust.dance",
            *flags,
        )
        rust = DanceClassifier.load(tmp_path / "rust.dance")
        assert rust.guarantee_ == kernel.guarantee_
        np.testing.assert_array_equal(rust.predict_p(more[:50]), kernel.predict_p(more[:50]))


def test_invalid_arguments_are_refused(kernel, data):
    _, _, more, labels = data
    for options, message in (
        ({"window": 0}, "window = 0: must be between 1 and 300"),
        ({"window": 301}, "window = 301: must be between 1 and 300"),
        ({"window": 5, "weights": np.ones(300)}, "window and weights cannot be used together"),
        ({"groups": labels, "label_shift": more}, "groups and label_shift cannot be used together"),
        ({"weights": np.ones(3)}, "weights has 3 entries, and X has 300 points"),
        ({"weights": -np.ones(300)}, "the weight at row 0 is -1"),
        ({"weights": np.zeros(300)}, "no weight is above 0"),
        ({"weights": np.eye(300)[0]}, "weights leaves no point to calibrate on"),
        ({"label_shift": more[:, :3]}, "X has 3 features"),
    ):
        before = kernel.predict_p(more[:3])
        with pytest.raises(ValueError, match=message):
            kernel.recalibrate(more, labels, **options)
        np.testing.assert_array_equal(kernel.predict_p(more[:3]), before)


def test_methods_are_compared_on_one_kernel(kernel, data):
    _, _, more, labels = data
    before = kernel.get_params(), kernel.predict_p(more[:3])
    found = kernel.compare(more, labels, [0.1, 0.2])
    assert kernel.get_params() == before[0]
    np.testing.assert_array_equal(kernel.predict_p(more[:3]), before[1])
    assert (found.calibration_points, found.evaluation_points, len(found.methods)) == (150, 150, 22)
    best = found.recommended
    assert best.alpha == 0.1 and best.by_class in ("all", "balanced") and best.calibration != "reuse"
    fair = [one for one in found.methods if one.alpha == 0.1 and one.by_class == "all" and not one.new_labels]
    assert best.size <= min(one.size for one in fair if one.as_low >= 0.025 and one.calibration != "reuse")
    frame = found.methods.to_frame()
    assert frame.method.unique().tolist() == ["posterior", "fuse", "dance"] and (frame.seconds > 0).all()
    # The scores of a method that has none of these settings do not stand in the way.
    dance = DanceClassifier(method="dance", scores={"mix": 0.3, "rank_neighbors": 20}, **FAST).fit(*data[:2])
    assert len(dance.compare(more, labels).methods) == 11


def test_a_comparison_takes_data_frames(data):
    pandas = pytest.importorskip("pandas")
    X, y, more, labels = data
    frame = pandas.DataFrame(X).rename(columns=str)
    model = DanceClassifier(**FAST).fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.compare(pandas.DataFrame(more).rename(columns=str), labels).recommended is not None
    assert model.feature_names_in_[0] == "0"
