"""The estimator: what it answers, what it keeps, what it refuses."""

import inspect
import json
import pickle
import re
import warnings

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier, DanceWarning, ModelFormatError, _native, datasets
from dance_conformal.protocol import NotFittedError
from dance_conformal.settings import from_settings


def test_sets_cover_and_separate(model, data):
    _, _, X, y = data
    report = model.evaluate(X, y)
    assert 0.85 <= report.coverage <= 1
    assert report.size < 2.5
    assert report.accuracy == model.score(X, y) > 0.7
    assert report.guarantee == model.guarantee_


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
    for labels, unlabeled in (
        (np.where(np.arange(600) % 10 == 0, -1, y), -1),
        (np.where(np.arange(600) % 10 == 0, np.nan, y), np.nan),
        (np.where(np.arange(600) % 10 == 0, "", y.astype(str)), np.nan),
        (np.where(np.arange(600) % 10 == 0, None, y.astype(str).astype(object)), np.nan),
    ):
        if unlabeled != -1:
            with pytest.raises(ValueError, match=r"row 0, row 10, row 20 and 57 more; unlabeled="):
                DanceClassifier(**FAST).fit(X, labels)
        with pytest.warns(DanceWarning, match="60 of 600 points have no label"):
            model = DanceClassifier(**FAST, unlabeled=unlabeled).fit(X, labels)
        assert len(model.classes_) == 5
        # Rows are those of the array that was passed.
        assert (model.reference_indices_ % 10 != 0).all() and model.reference_indices_.max() > 590
        with pytest.warns(DanceWarning, match="no label"):
            known = truth.astype(str) if labels.dtype == object else truth
            report = model.evaluate(
                np.vstack([test, X[:1]]), np.append(known.astype(labels.dtype), labels[:1])
            )
        assert report.coverage > 0.8
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


def test_fit_then_recalibrate(data):
    X, y, test, truth = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:300], y[:300])
    assert model.predict(test).shape == (300,)
    assert model.predict_proba(test).shape == (300, 5)
    with pytest.raises(NotFittedError, match="recalibrate"):
        model.predict_set(test)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(test), model.predict_proba(test))
    assert model.recalibrate(X[300:], y[300:]) is model
    first = model.predict_set(test)
    np.testing.assert_array_equal(copy.recalibrate(X[300:], y[300:]).predict_set(test), first)
    # Another calibration takes the place of the first, with the kernel as it is.
    model.recalibrate(X[300:400], y[300:400])
    assert not np.array_equal(model.predict_set(test), first)
    assert model.evaluate(test, truth).coverage > 0.8


def test_classes_only_calibration_points_have(data):
    X, y, test, truth = data
    known = y[:300] != 4
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:300][known], y[:300][known])
    with pytest.warns(DanceWarning, match="not among the fit data"):
        model.recalibrate(X[300:], y[300:])
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    probabilities = model.predict_proba(test)
    assert (probabilities[:, 4] > 0).all()  # the posterior trains on calibration points too
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert model.predict_set(test)[truth == 4, 4].mean() > 0.5
    # Calibrated once more without that class, it is gone again.
    known = y[300:] != 4
    model.recalibrate(X[300:][known], y[300:][known])
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
    for name, value in ours.items():
        for key, one in value.items() if isinstance(value, dict) else ():
            assert default[name][key] == one, (name, key)
        assert isinstance(value, dict) or default[name] == value
    # Settings that a user gives, and nothing else, differ from them; a loaded model has the same parameters.
    given = {
        "kernel": {"bandwidth": 2.0, "refit": False, "probabilities": "clamp"},
        "scores": {"rank_neighbors": 7, "mix": 0.25},
        "method": "dance",
        "evaluations": 4,
        "memory": "8GiB",
    }
    settings = DanceClassifier(**given)._settings(5)
    assert settings["tune"]["bandwidth"] == [2.0, 2.0] and settings["probabilities"] == "clamp"
    merged = {
        k: {**v, **settings[k]} if isinstance(v, dict) else settings.get(k, v) for k, v in default.items()
    }
    assert from_settings(merged) == {
        **given, "memory": 8 << 30, "calibration": None, "by_class": "all", "new_labels": False, "normalize": "l2",
        "random_state": 5,
    }  # fmt: skip


def test_settings_that_are_not_known_are_named(data):
    X, y, _, _ = data
    for option, message in (
        ({"kernel": {"bandwith": 2}}, "kernel has no setting 'bandwith'; did you mean 'bandwidth'?"),
        ({"kernel": 2}, "kernel = 2: must be None or a dictionary of settings"),
        ({"scores": {"rounds": 2}}, "scores has no setting 'rounds'; the settings are rank_neighbors"),
        ({"memory": "8"}, "memory = '8': a unit is missing"),
        ({"memory": 8}, "memory = 8: a number is in bytes; '8GiB' has a unit"),
        ({"memory": "much"}, "memory = 'much': an amount such as '8GiB'"),
        ({"alpha": 2}, "alpha = 2: must be a number between 0 and 1"),
        ({"alpha": [0.1, 0.2]}, "alpha = .*must be a number"),
    ):
        with pytest.raises(ValueError, match=re.escape(message) if "*" not in message else message):
            DanceClassifier(**option).fit(X, y)


def test_the_constructor_is_small():
    assert len(inspect.signature(DanceClassifier).parameters) <= 16


def test_fit_takes_no_weights_and_says_why(data):
    X, y, _, _ = data
    for method in (DanceClassifier().fit, DanceClassifier().recalibrate):
        with pytest.raises(TypeError, match="takes no sample_weight: p-values count points"):
            method(X, y, sample_weight=np.ones(len(X)))


def test_calibration_data_are_points_of_their_own(data):
    X, y, test, _ = data
    model = DanceClassifier(**FAST).fit(X[:300], y[:300], calibration_data=(X[300:], y[300:]))
    other = (
        DanceClassifier(calibration_share=None, **FAST).fit(X[:300], y[:300]).recalibrate(X[300:], y[300:])
    )
    np.testing.assert_array_equal(model.predict_p(test), other.predict_p(test))
    np.testing.assert_array_equal(model.reference_indices_, other.reference_indices_)
    with pytest.raises(ValueError, match="groups and calibration_data cannot be used together"):
        DanceClassifier(**FAST).fit(X[:9], y[:9], groups=range(9), calibration_data=(X[300:], y[300:]))


def test_every_parameter_is_documented():
    for name in inspect.signature(DanceClassifier).parameters:
        assert f"    {name} : " in DanceClassifier.__doc__


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
    changed = {"evaluations": 3, "kernel": {"rounds": 2}, "method": "posterior"}
    assert loaded.get_params() == {**DanceClassifier().get_params(), **changed}
    fitted = [point.row for point in loaded.reference_points_ if point.part == "fit"]
    again = sum(row < 300 for row in fitted)
    with pytest.warns(DanceWarning, match=f"{again} of the 300 calibration points took part in the fit"):
        loaded.recalibrate(X[:300], y[:300])
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
    for option in (
        {"scores": {"mix": 2}}, {"evaluations": 0}, {"kernel": {"ridge": -1}}, {"calibration_share": 1.5},
        {"kernel": {"bandwidth": (3, 1)}}, {"n_jobs": 0}, {"kernel": {"probability_floor": 0.7}},
        {"scores": {"temperature": 0}}, {"random_state": -1}, {"scores": {"tie_noise": 1}},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            DanceClassifier(**{**FAST, **option}).fit(X, y).predict_set(test)
    with pytest.raises(ValueError, match="two classes"):
        DanceClassifier().fit(X, np.zeros(len(X), int))


def test_too_few_calibration_points_are_a_warning():
    X, y = datasets.clusters(120, classes=2, dimensions=4)
    model = DanceClassifier(**FAST).fit(X, y)
    with pytest.warns(DanceWarning, match="every label passes"):
        assert model.predict_set(X, alpha=0.001).all()


def test_empty_sets_can_get_the_best_label(data):
    X, y, test, _ = data
    model = DanceClassifier(**FAST, method="dance", scores={"mix": 0.5}).fit(X, y)
    before, after = model.predict_set(test, alpha=0.6), model.predict_set(test, alpha=0.6, empty="top1")
    bare = ~before.any(axis=1)
    assert bare.any()
    np.testing.assert_array_equal(after[~bare], before[~bare])
    np.testing.assert_array_equal(after[bare].argmax(axis=1), model.predict(test)[bare])


def test_progress(data, capsys):
    X, y, _, _ = data
    events = []
    DanceClassifier(**FAST, verbose=events.append).fit(X, y)
    assert [e["event"] for e in events].count("evaluated") == 3
    assert not capsys.readouterr().err
    DanceClassifier(**FAST, verbose=2).fit(X, y)
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


@pytest.mark.skipif(
    "alphas" not in json.loads(_native.default_settings()), reason="models do not remember levels yet"
)
def test_a_file_keeps_the_level(tmp_path, data):
    X, y, test, _ = data
    model = DanceClassifier(alpha=0.05, **FAST).fit(X, y)
    model.save(tmp_path / "model.dance")
    loaded = DanceClassifier.load(tmp_path / "model.dance")
    assert loaded.alpha == 0.05
    np.testing.assert_array_equal(loaded.predict_set(test), model.predict_set(test))
    assert DanceClassifier.load(tmp_path / "model.dance", alpha=0.2).alpha == 0.2
    with pytest.warns(DanceWarning, match=r"the file keeps alpha = 0\.05, which fit had, not 0\.3"):
        model.set_params(alpha=0.3).save(tmp_path / "model.dance")
    arrow = pytest.importorskip("dance_conformal.arrow")
    import pyarrow as pa

    [batch] = arrow.predict_batches(tmp_path / "model.dance")(pa.table({"embedding": list(test)}))
    assert [sorted(labels) for labels in batch["set"].to_pylist()] == loaded.predict_set(test, as_labels=True)
