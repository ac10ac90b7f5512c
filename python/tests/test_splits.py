"""The split into fit and calibration points: rare classes, few points, and new labels."""

import pickle

import numpy as np
import pytest
from conftest import FAST, fast

from dance_conformal import DanceClassifier, DanceWarning
from dance_conformal.parts import split

# Classes that one of the two parts lacks are a warning, and the subject here.
quiet = pytest.mark.filterwarnings("ignore::dance_conformal.DanceWarning")


def test_a_point_calibrates_with_the_chance_of_its_share():
    # Row 0 is the only one of its class. Over 2000 seeds it calibrates 600 times, ± 4.4 standard deviations of 20.5.
    codes = np.r_[2, np.arange(39) % 2].astype(np.uint32)
    found = sum(0 in split(codes, 0.3, seed)[1] for seed in range(2000))
    assert abs(found - 600) < 4.4 * np.sqrt(2000 * 0.3 * 0.7)
    for seed in range(50):
        kernel, calibration = split(codes, 0.3, seed)
        assert (len(kernel), len(calibration)) == (28, 12)
        assert sorted([*kernel, *calibration]) == list(range(40))


@pytest.fixture(scope="module")
def rare(data):
    """Twenty points carry labels of their own."""
    X, y, test, _ = data
    return X, np.r_[np.arange(100, 120), y[20:]], test


@quiet
@pytest.mark.parametrize("kind", [np.int64, str, object, np.float64])
def test_classes_that_only_the_calibration_part_has(rare, tmp_path, kind):
    X, y, test = rare
    labels = y.astype(str).astype(object) if kind is object else y.astype(kind)
    model = DanceClassifier(**FAST).fit(X, labels)
    rows = {
        part: [p.row for p in model.reference_points_ if p.part == part] for part in ("fit", "calibration")
    }
    known = np.unique(labels[rows["fit"]])
    # The kernel's, sorted; then the others as they come up.
    later = dict.fromkeys(label for label in labels[rows["calibration"]].tolist() if label not in known)
    assert 2 < len(later) < 18
    assert model.classes_.tolist() == [*known.tolist(), *later]
    assert model.classes_.dtype == model.predict(test).dtype == labels.dtype
    probability = model.predict_proba(test)
    assert (probability > 0).all()
    fuse = DanceClassifier(method="fuse", **FAST).fit(X, labels)
    probability = fuse.predict_proba(test)  # the kernel machine does not know the others
    assert (probability[:, len(known) :] == 0).all() and (probability[:, : len(known)] > 0).all()
    assert set(np.concatenate(model.predict_set(test, 0.01, as_labels=True))) <= set(labels.tolist())
    assert {type(why.prediction) for why in model.explain(test[:5])} == {type(labels.tolist()[0])}
    model.save(tmp_path / "model.safetensors")
    loaded = DanceClassifier.load(tmp_path / "model.safetensors")
    # A whole float is named like an integer.
    names = model.classes_.astype(np.int64 if kind is np.float64 else labels.dtype).astype(str).tolist()
    assert DanceClassifier.load(tmp_path / "model.safetensors", labels="str").classes_.tolist() == names
    np.testing.assert_array_equal(loaded.predict_set(test), model.predict_set(test))
    # Other calibration points bring other classes; the kernel's stay in their columns.
    model.recalibrate(X[rows["calibration"]][:100], labels[rows["calibration"]][:100])
    assert model.classes_[: len(known)].tolist() == known.tolist()


@quiet
def test_the_share_of_new_labels(rare, tmp_path):
    X, y, _ = rare
    model = DanceClassifier(**FAST).fit(X, y)
    calibrating = [point.row for point in model.reference_points_ if point.part == "calibration"]
    # Only the twenty are alone with their labels.
    assert model.new_label_share_ == (np.array(calibrating) < 20).sum() / 300 > 0
    model.save(tmp_path / "model.safetensors")
    for other in (DanceClassifier.load(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(model))):
        assert other.new_label_share_ == model.new_label_share_
    # Of 50 calibration points one has a label of its own; two share one; the rest are known to the kernel.
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[20:300], y[20:300])
    assert not hasattr(model, "new_label_share_")
    model.recalibrate(X[300:350], np.r_[900, 901, 901, y[303:350]])
    assert model.new_label_share_ == 1 / 50
    model.recalibrate(X[300:350], y[300:350])
    assert model.new_label_share_ == 0


def test_a_kernel_part_of_one_class_is_refused_and_the_advice_helps(data):
    X, y = data[0][:30], np.r_[1, np.zeros(29, int)]
    refused = []
    for seed in range(40):
        try:
            kernel, _ = split(y.astype(np.uint32), 0.5, seed)
            assert 0 in kernel
        except ValueError:
            refused.append(seed)
    assert 8 <= len(refused) <= 32  # half of 40, ± 3.8 standard deviations
    problem = r"the 15 of 30 points that fit the kernel all carry the same label.*calibration_data="
    with pytest.raises(ValueError, match=problem):
        DanceClassifier(random_state=refused[0], **FAST).fit(X, y)
    with pytest.warns(DanceWarning):
        model = DanceClassifier(**FAST).fit(X[:15], y[:15], calibration_data=(X[15:], y[15:]))
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:1 class has no calibration point")
def test_a_calibration_part_of_one_class(data):
    """The calibration points have one label, and the model works with it."""
    X, y, test, _ = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[y < 2], y[y < 2])
    other = np.flatnonzero(y[:300] == 1)
    fresh = X[other] + np.float32(1e-3)
    with pytest.warns(DanceWarning, match="near-copy"):
        model.recalibrate(fresh, y[other])
    assert model.predict_set(test).shape == (300, 2)


def test_one_point_of_every_class_fits(data):
    X, y, test, truth = data
    first = np.array([np.flatnonzero(y == label)[0] for label in range(5)])
    model = DanceClassifier(calibration_share=None, **FAST)
    with pytest.warns(
        DanceWarning, match="5 points of 5 classes are too few to hold some out.*leaving one out"
    ):
        model.fit(X[first], y[first])
    # Nothing to search by: no metric, the Laplace kernel exp(-r/L), L the median distance of points of length 1.
    unit, near = (points / np.linalg.norm(points, axis=1, keepdims=True) for points in (test, X[first]))
    apart = np.linalg.norm(near[:, None] - near, axis=2)
    width = model.kernel_["bandwidth"]
    low, high = np.sort(apart[np.triu_indices(5, 1)])[4:6]  # the middle of ten pairs
    assert low - 1e-6 <= width <= high + 1e-6
    assert (model.kernel_["rounds"], model.kernel_["shape"]) == (0, 1)
    beta = np.linalg.inv(np.exp(-apart / width) + 1e-3 * np.eye(5))
    outputs = np.exp(-np.linalg.norm(unit[:, None] - near, axis=2) / width) @ beta
    np.testing.assert_array_equal(model.predict(test), outputs.argmax(axis=1))
    others = np.setdiff1d(np.arange(len(X)), first)
    model.recalibrate(X[others], y[others])
    report = model.evaluate(test, truth)
    assert report.as_low > 0.001 and model.guarantee_.startswith("P(label in set)")


def test_four_points_of_every_class_give_the_warning_too(data):
    X, y, _, _ = data
    # 20 points, of which 4 would be held out.
    some = np.concatenate([np.flatnonzero(y == label)[:4] for label in range(5)])
    with pytest.warns(DanceWarning, match="leaving one out"):
        DanceClassifier(calibration_share=None, **FAST).fit(X[some], y[some])


def test_validation_points_took_part_in_the_fit(data):
    """Without a second fit the kernel keeps 200 of 250 points, and 50 chose its settings: a pickle keeps that as well."""
    X, y, _, _ = data
    model = DanceClassifier(**fast(calibration_share=None, kernel={"refit": False})).fit(X[:250], y[:250])
    for fitted in (model, pickle.loads(pickle.dumps(model))):
        with pytest.warns(DanceWarning, match="250 of the 255 calibration points took part in the fit"):
            fitted.recalibrate(X[:255], y[:255])
        assert fitted.guarantee_ == (
            "none: 250 of the calibration points took part in the fit, so sets may cover less than 1 - alpha"
        )


def test_copies_in_one_data_set_are_other_draws(data):
    """Copies in other rows are other draws, so the guarantee stays."""
    X, y, _, _ = data
    twice = np.concatenate([X[:200], X[:200]])
    with pytest.warns(DanceWarning, match="are copies of points of the fit, from other rows"):
        model = DanceClassifier(**FAST).fit(twice, np.r_[y[:200], y[:200]])
    assert model.guarantee_.startswith("P(label in set)")
