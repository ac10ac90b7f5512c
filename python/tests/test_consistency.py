"""Every output of a model has the same class probabilities: row by row, in every method, in Python and in the program."""

import json

import numpy as np
import pytest
from conftest import FAST, METHODS

from dance_conformal import DanceClassifier, datasets

# Classes that only calibration points have are a warning, and a part of the subject.
pytestmark = pytest.mark.filterwarnings("ignore::dance_conformal.DanceWarning")


@pytest.fixture(scope="module")
def hard():
    """Eight classes that are hard to tell apart, so that methods predict different labels."""
    X, y = datasets.clusters(620, classes=8, dimensions=12, spread=1.1, seed=5)
    return X[:320], y[:320], X[320:], y[320:]


@pytest.fixture(scope="module", params=METHODS, ids="-".join)
def each(request, hard):
    method, calibration = request.param
    return DanceClassifier(method=method, calibration=calibration, **FAST).fit(*hard[:2])


def test_predict_is_the_most_probable_label(each, hard):
    _, _, test, truth = hard
    probability, labels = each.predict_proba(test), each.predict(test)
    np.testing.assert_array_equal(labels, each.classes_[probability.argmax(axis=1)])
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert each.score(test, truth) == (labels == truth).mean()


@pytest.mark.parametrize("empty", ["keep", "top1"])
def test_explain_and_evaluate_have_the_same_labels(each, hard, empty):
    _, _, test, truth = hard
    probability, labels = each.predict_proba(test), each.predict(test)
    for alpha in (0.05, 0.3, 0.8):
        sets = each.predict_set(test, alpha=alpha, empty=empty)
        for row, why in enumerate(each.explain(test, alpha=alpha, empty=empty)):
            assert why.prediction == labels[row]
            assert why.probability == probability[row].max()
            assert {s.label for s in why.set} == set(np.flatnonzero(sets[row]))
            assert all(s.probability == probability[row, s.label] for s in why.set)
        if empty == "top1":
            bare = ~each.predict_set(test, alpha=alpha).any(axis=1)
            np.testing.assert_array_equal(sets[bare].argmax(axis=1), probability[bare].argmax(axis=1))
        report = each.evaluate(test, truth, alpha, empty=empty)
        assert report.accuracy == each.score(test, truth)
        assert report.coverage == sets[np.arange(len(truth)), truth].mean()


def test_arrow_answers_have_the_same_labels(each, hard):
    pa = pytest.importorskip("pyarrow")
    from dance_conformal.arrow import evaluate_batches, predict_batches, report

    _, _, test, truth = hard
    points = pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(test).ravel(), test.shape[1])
    table = pa.table({"embedding": points, "label": truth})
    [batch] = predict_batches(each, alpha=0.1, include=["probabilities"])(table)
    assert batch["prediction"].to_pylist() == each.predict(test).tolist()
    probability = each.predict_proba(test)
    np.testing.assert_allclose(batch["probability"].to_numpy(), probability.max(axis=1), rtol=1e-5)
    sets = each.predict_set(test, alpha=0.1, as_labels=True)
    for row, answer in enumerate(batch.to_pylist()):
        assert sorted(answer["set"]) == sets[row]
        np.testing.assert_allclose(answer["probabilities"], probability[row, answer["set"]], rtol=1e-5)
    counts = pa.Table.from_batches(evaluate_batches(each, alpha=0.1)(table))
    assert report(counts, each, 0.1).accuracy == each.score(test, truth)


def test_a_file_and_a_pickle_predict_the_same_labels(each, hard, tmp_path):
    _, _, test, _ = hard
    each.save(tmp_path / "model.dance")
    loaded = DanceClassifier.load(tmp_path / "model.dance", alpha=0.05)
    assert loaded.alpha == 0.05 and loaded.method == each.method
    np.testing.assert_array_equal(loaded.predict(test), each.predict(test))
    np.testing.assert_array_equal(loaded.predict_proba(test), each.predict_proba(test))
    np.testing.assert_array_equal(loaded.predict_set(test), each.predict_set(test, alpha=0.05))


def test_the_program_predicts_the_same_labels(each, hard, tmp_path, dance):
    _, _, test, _ = hard
    each.save(tmp_path / "model.dance")
    np.save(tmp_path / "queries.npy", test)
    lines = dance("predict", tmp_path / "model.dance", tmp_path / "queries.npy", "--alpha", 0.1).splitlines()
    answers = [json.loads(line) for line in lines]
    probability = each.predict_proba(test)
    assert [answer["prediction"] for answer in answers] == each.predict(test).tolist()
    np.testing.assert_allclose(
        [answer["probability"] for answer in answers], probability.max(axis=1), rtol=1e-5
    )
    assert [sorted(answer["set"]) for answer in answers] == each.predict_set(test, 0.1, as_labels=True)


def test_labels_that_only_calibration_points_have(hard):
    X, y, test, truth = hard
    known = y[:160] != 7
    kernel = DanceClassifier(calibration_share=None, **FAST).fit(X[:160][known], y[:160][known])
    for method, calibration in METHODS:
        model = kernel.set_params(method=method, calibration=calibration).recalibrate(X[160:], y[160:])
        probability, labels = model.predict_proba(test), model.predict(test)
        np.testing.assert_array_equal(labels, model.classes_[probability.argmax(axis=1)])
        assert [why.prediction for why in model.explain(test)] == labels.tolist()
        # The kernel machine does not know the label; experts that train on calibration points recognise it.
        assert (probability[:, 7] > 0).any() == (method == "posterior")
        if (method, calibration) == ("posterior", "full"):
            assert (labels[truth == 7] == 7).mean() > 0.5


def test_before_calibration_labels_are_the_kernel_machines(hard):
    X, y, test, _ = hard
    models = [
        DanceClassifier(method=method, calibration_share=None, **FAST).fit(X[:160], y[:160])
        for method in ("posterior", "fuse")
    ]
    np.testing.assert_array_equal(models[0].predict_proba(test), models[1].predict_proba(test))
    kernel = models[0].predict_proba(test)
    np.testing.assert_array_equal(
        models[1].recalibrate(X[160:], y[160:]).predict_proba(test),
        kernel,
        "fuse keeps the kernel machine's",
    )
    posterior = models[0].recalibrate(X[160:], y[160:])
    assert not np.array_equal(posterior.predict_proba(test), kernel)
    assert (posterior.predict(test) != models[1].predict(test)).any()


def test_without_a_method_the_model_is_the_posterior(hard):
    X, y, test, _ = hard
    default = DanceClassifier(**FAST).fit(X, y)
    assert default.method is None and default.method_ == "posterior"
    named = DanceClassifier(method="posterior", **FAST).fit(X, y)
    np.testing.assert_array_equal(default.predict_proba(test), named.predict_proba(test))
    np.testing.assert_array_equal(default.predict_set(test), named.predict_set(test))
