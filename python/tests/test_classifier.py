"""The estimator: what it answers, what it keeps, what it refuses."""

import inspect
import json
import pickle
import warnings

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier, DanceWarning, ModelFormatError, _native, datasets
from dance_conformal.protocol import NotFittedError


def test_sets_cover_and_separate(model, data):
    _, _, X, y = data
    report = model.evaluate(X, y)
    assert 0.85 <= report["coverage"] <= 1
    assert report["size"] < 2.5
    assert report["accuracy"] == model.score(X, y) > 0.7
    assert report["guarantee"] == model.guarantee_


def test_several_alphas_are_single_ones_side_by_side(model, data):
    _, _, X, _ = data
    levels = [0.05, 0.1, 0.3]
    together = model.predict_set(X, alpha=levels)
    assert together.shape == (len(X), 5, 3)
    for at, alpha in enumerate(levels):
        np.testing.assert_array_equal(together[..., at], model.predict_set(X, alpha=alpha))
    assert model.predict_set(X, alpha=[0.1]).shape == (len(X), 5, 1)
    np.testing.assert_array_equal(model.predict_set(X), together[..., 1])


def test_labels_of_sets(model, data):
    _, _, X, _ = data
    lists = model.predict_set(X, as_labels=True)
    assert lists == [np.flatnonzero(row).tolist() for row in model.predict_set(X)]
    assert model.predict_set(X, alpha=[0.1, 0.3], as_labels=True)[0] == lists


@pytest.mark.parametrize("kind", ["strings", "objects", "integers", "booleans", "floats"])
def test_labels_come_back_as_they_were(data, names, kind):
    X, y, test, _ = data
    labels = {
        "strings": names[y],
        "objects": names.astype(object)[y],
        "integers": 10 * y - 20,
        "booleans": y > 2,
        "floats": y.astype(float),
    }[kind]
    model = DanceClassifier(**FAST).fit(X, labels)
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    assert model.predict(test).dtype == model.classes_.dtype == labels.dtype
    assert set(np.concatenate(model.predict_set(test, as_labels=True))) <= set(labels.tolist())


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y, lambda y: y.astype(str), lambda y: y.astype(float), lambda y: y > 2, lambda y: y.astype("i1"),
        lambda y: y.astype(object), lambda y: y.astype(str).astype(object),
    ],
)  # fmt: skip
def test_labels_survive_a_file(tmp_path, data, change):
    X, y, test, truth = data
    labels, truth = change(y), change(truth)
    model = DanceClassifier(**FAST).fit(X, labels)
    model.save(tmp_path / "model")
    loaded = DanceClassifier.load(tmp_path / "model")
    assert [type(value) for value in loaded.classes_.tolist()] == [
        type(value) for value in np.unique(labels).tolist()
    ]
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.score(test, truth) == model.score(test, truth) > 0.7
    assert loaded.predict_set(test, as_labels=True) == model.predict_set(test, as_labels=True)


def test_points_without_a_label(data):
    X, y, test, truth = data
    for labels, unlabelled in (
        (np.where(np.arange(600) % 10 == 0, -1, y), -1),
        (np.where(np.arange(600) % 10 == 0, np.nan, y), np.nan),
        (np.where(np.arange(600) % 10 == 0, "", y.astype(str)), np.nan),
        (np.where(np.arange(600) % 10 == 0, None, y.astype(str).astype(object)), np.nan),
    ):
        if unlabelled != -1:
            with pytest.raises(ValueError, match=r"row 0, row 10, row 20 and 57 more; unlabelled="):
                DanceClassifier(**FAST).fit(X, labels)
        with pytest.warns(DanceWarning, match="60 of 600 points have no label"):
            model = DanceClassifier(**FAST, unlabelled=unlabelled).fit(X, labels)
        assert len(model.classes_) == 5
        # Rows are those of the array that was passed.
        assert (model.reference_indices_ % 10 != 0).all() and model.reference_indices_.max() > 590
        with pytest.warns(DanceWarning, match="no label"):
            known = truth.astype(str) if labels.dtype == object else truth
            report = model.evaluate(
                np.vstack([test, X[:1]]), np.append(known.astype(labels.dtype), labels[:1])
            )
        assert report["coverage"] > 0.8
    with pytest.warns(DanceWarning, match=r"-1 \(row 0, row 10, row 20 and 57 more\) is a class"):
        assert -1 in DanceClassifier(**FAST).fit(X, np.where(np.arange(600) % 10 == 0, -1, y)).classes_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DanceClassifier(**FAST).fit(X, np.where(y > 2, 1, -1))  # two classes: -1 can only be one


def test_unknown_labels_are_a_warning(model, data):
    _, _, test, truth = data
    other = np.where(truth == 4, 9, truth)
    message = rf"{(truth == 4).sum()} of 300 points carry a label that the model does not know \(the first is 9, row"
    with pytest.warns(DanceWarning, match=message):
        assert model.score(test, other) < model.score(test, truth)
    with pytest.warns(DanceWarning, match=message):
        model.evaluate(test, other)
    with pytest.warns(DanceWarning, match="labels are of the kind integer, these text"):
        assert model.score(test, truth.astype(str)) == 0


def test_fit_then_conformalize(data):
    X, y, test, truth = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:300], y[:300])
    assert model.predict(test).shape == (300,)
    assert model.predict_proba(test).shape == (300, 5)
    with pytest.raises(NotFittedError, match="conformalize"):
        model.predict_set(test)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(test), model.predict_proba(test))
    assert model.conformalize(X[300:], y[300:]) is model
    first = model.predict_set(test)
    np.testing.assert_array_equal(copy.calibrate(X[300:], y[300:]).predict_set(test), first)
    # Another calibration takes the place of the first, with the kernel as it is.
    model.conformalize(X[300:400], y[300:400])
    assert not np.array_equal(model.predict_set(test), first)
    assert model.evaluate(test, truth)["coverage"] > 0.8


def test_classes_only_calibration_points_have(data):
    X, y, test, truth = data
    known = y[:300] != 4
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:300][known], y[:300][known])
    with pytest.warns(DanceWarning, match="not among the fit data"):
        model.conformalize(X[300:], y[300:])
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    probabilities = model.predict_proba(test)
    assert (probabilities[:, 4] > 0).all()  # the posterior trains on calibration points too
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert model.predict_set(test)[truth == 4, 4].mean() > 0.5
    # Calibrated once more without that class, it is gone again.
    known = y[300:] != 4
    model.conformalize(X[300:][known], y[300:][known])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.predict_set(test).shape == (300, 4) == model.predict_proba(test).shape


def test_the_same_seed_gives_the_same_sets(data):
    X, y, test, _ = data

    def sets(**options):
        return DanceClassifier(**{**FAST, **options}).fit(X, y).predict_set(test)

    np.testing.assert_array_equal(sets(n_jobs=1), sets(n_jobs=2))
    np.testing.assert_array_equal(
        sets(random_state=np.random.RandomState(4)), sets(random_state=np.random.RandomState(4))
    )
    assert not np.array_equal(sets(random_state=1), sets(random_state=2))


def test_defaults_are_those_of_the_library():
    ours = DanceClassifier()._settings(0)
    default = json.loads(_native.default_settings())
    assert ours["rfm"] == {k: v for k, v in default["rfm"].items() if k != "patience"}
    assert ours == {**default, "rfm": ours["rfm"]}


def test_every_parameter_is_documented():
    for name in inspect.signature(DanceClassifier).parameters:
        assert name in DanceClassifier.__doc__


def test_saving_and_loading(tmp_path, model, data, names):
    X, y, test, _ = data
    model.save(tmp_path / "model.safetensors")
    loaded = DanceClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_set(test), model.predict_set(test))
    np.testing.assert_array_equal(loaded.predict_proba(test), model.predict_proba(test))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert DanceClassifier.load(tmp_path / "model.safetensors", labels="str").classes_.tolist() == list(
        "01234"
    )
    assert loaded.get_params()["evaluations"] == 3
    fitted = [point.row for point in loaded.reference_points_ if point.part == "fit"]
    again = sum(row < 300 for row in fitted)
    with pytest.warns(DanceWarning, match=f"{again} of the 300 calibration points took part in the fit"):
        loaded.conformalize(X[:300], y[:300])
    assert loaded.guarantee_.startswith(f"none: {again} of the calibration points took part in the fit")
    named = DanceClassifier(**FAST).fit(X, names[y])
    named.save(str(tmp_path / "named.safetensors"))
    assert DanceClassifier.load(tmp_path / "named.safetensors").classes_.tolist() == names.tolist()


def test_pickling(model, data):
    _, _, X, _ = data
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_set(X), model.predict_set(X))
    np.testing.assert_array_equal(copy.reference_indices_, model.reference_indices_)


def test_errors(tmp_path, model, data):
    X, y, test, truth = data
    with pytest.raises(FileNotFoundError, match="absent"):
        DanceClassifier.load(tmp_path / "absent")
    with pytest.raises(OSError):
        model.save(tmp_path / "no" / "such" / "folder")
    (tmp_path / "text").write_text("this is not a model")
    with pytest.raises(ModelFormatError, match="text"):
        DanceClassifier.load(tmp_path / "text")
    for bad in (0, 1, -0.1, float("nan"), [], [[0.1]]):
        with pytest.raises(ValueError, match="alpha"):
            model.predict_set(test, alpha=bad)
    bad = test.copy()
    bad[7, 3] = np.nan
    with pytest.raises(ValueError, match="row 7, column 3 is NaN"):
        model.predict_set(bad)
    with pytest.raises(ValueError, match="row 7, column 3 is NaN"):
        DanceClassifier().fit(bad, truth)
    with pytest.raises(ValueError, match="inf"):
        model.predict(test.astype(np.float64) * 1e60)
    with pytest.raises(ValueError, match="features"):
        model.predict(test[:, :5])
    for option, value in {
        "mix": 2, "evaluations": 0, "ridge": -1, "calibration_share": 1.5, "bandwidth": (3, 1), "n_jobs": 0,
        "probability_floor": 0.7, "temperature": 0, "random_state": -1, "tie_noise": 1,
    }.items():  # fmt: skip
        with pytest.raises(ValueError):
            DanceClassifier(**{**FAST, option: value}).fit(X, y).predict_set(test)
    with pytest.raises(ValueError, match="two classes"):
        DanceClassifier().fit(X, np.zeros(len(X), int))


def test_too_few_calibration_points_are_a_warning():
    X, y = datasets.clusters(120, classes=2, dimensions=4)
    model = DanceClassifier(**FAST).fit(X, y)
    with pytest.warns(DanceWarning, match="every label passes"):
        assert model.predict_set(X, alpha=0.001).all()


def test_empty_sets_can_get_the_best_label(data):
    X, y, test, _ = data
    keep = DanceClassifier(**FAST, method="dance", mix=0.5).fit(X, y)
    fill = DanceClassifier(**FAST, method="dance", mix=0.5, empty="top1").fit(X, y)
    before, after = keep.predict_set(test, alpha=0.6), fill.predict_set(test, alpha=0.6)
    bare = ~before.any(axis=1)
    assert bare.any()
    np.testing.assert_array_equal(after[~bare], before[~bare])
    np.testing.assert_array_equal(after[bare].argmax(axis=1), fill.predict(test)[bare])


def test_progress(data, capsys):
    X, y, _, _ = data
    events = []
    DanceClassifier(**FAST, callback=events.append, verbose=2).fit(X, y)
    assert [e["event"] for e in events].count("evaluated") == 3
    printed = capsys.readouterr()
    assert "bandwidth" in printed.err and "round 0" in printed.err and not printed.out
    DanceClassifier(**FAST).fit(X, y)
    assert not capsys.readouterr().err


def test_warnings_can_be_errors():
    X, y = datasets.clusters(30, classes=6, dimensions=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DanceWarning):
            model = DanceClassifier(**FAST).fit(X, y)
            model.predict_set(X, alpha=0.001)
