"""At home in scikit-learn: its own estimator checks, clone, Pipeline, GridSearchCV."""

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier, datasets

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone, is_classifier  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402


def expected_failures(estimator):
    """Checks that cannot pass, and why."""
    if estimator.normalize != "l2":
        return {}
    return {
        "check_estimators_dtypes": "its integers include a row of zeros, which has no direction: "
        "normalize='l2' refuses it and names the row"
    }


@parametrize_with_checks(
    [
        DanceClassifier(evaluations=3, kernel={"rounds": 1}),
        DanceClassifier(evaluations=3, kernel={"rounds": 1}, normalize="standardize"),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::dance_conformal.DanceWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_clone_keeps_parameters(model):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")
    assert is_classifier(copy)


def test_pipeline(data):
    X, y, test, truth = data
    pipeline = make_pipeline(StandardScaler(), DanceClassifier(normalize="none", **FAST)).fit(X, y)
    assert pipeline.score(test, truth) > 0.7
    scaled = pipeline[:-1].transform(test)
    sets = pipeline[-1].predict_set(scaled)
    assert sets.shape == (300, 5) and sets[np.arange(300), truth].mean() > 0.8
    assert pipeline[-1].evaluate(scaled, truth).coverage == sets[np.arange(300), truth].mean()
    by_hand = (test - X.mean(axis=0)) / X.std(axis=0)
    assert (pipeline[-1].predict_set(by_hand.astype(np.float32)) == sets).mean() > 0.99
    # Parameters of the sets can be set through the pipeline.
    pipeline.set_params(danceclassifier__alpha=0.3)
    assert pipeline[-1].predict_set(scaled).sum() < sets.sum()


def test_as_a_metric_learner_in_a_pipeline(data):
    X, y, test, truth = data
    pipeline = make_pipeline(DanceClassifier(**FAST, calibration_share=None), KNeighborsClassifier(10))
    assert pipeline.fit(X, y).score(test, truth) > 0.7
    pipeline[0].set_output(transform="pandas")
    assert pipeline[0].transform(test).columns[0] == "danceclassifier0"


def test_set_output(data):
    pandas = pytest.importorskip("pandas")
    X, y, test, _ = data
    model = DanceClassifier(**FAST).set_output(transform="pandas").fit(X, y)
    frame = model.transform(pandas.DataFrame(test, index=np.arange(300) + 7))
    assert frame.index[0] == 7 and frame.columns[-1] == f"danceclassifier{test.shape[1] - 1}"
    np.testing.assert_array_equal(model.set_output(transform="default").transform(test), frame.to_numpy())

    class Renamed(DanceClassifier):
        pass

    named = Renamed(**FAST).set_output(transform="pandas").fit(X, y)
    assert named.transform(test).columns[0] == "renamed0"


def test_scores_differ_between_methods():
    """Labels of the posterior are its own; fuse and dance share the kernel machine's, and differ in their sets."""
    X, y = datasets.clusters(400, classes=8, dimensions=12, spread=1.1, seed=5)

    def mean_size(estimator, X, y):
        return estimator.predict_set(X).sum(axis=1).mean()

    grid, methods = {"method": ["posterior", "fuse", "dance"]}, DanceClassifier(**FAST, n_jobs=1)
    accuracy = GridSearchCV(methods, grid, cv=2).fit(X, y)
    posterior, fuse, dance = accuracy.cv_results_["mean_test_score"]
    assert posterior != fuse == dance
    assert accuracy.best_params_ == {"method": "posterior" if posterior > fuse else "fuse"}
    assert accuracy.best_estimator_.score(X, y) == (accuracy.predict(X) == y).mean()
    sizes = GridSearchCV(methods, grid, cv=2, scoring=mean_size, refit=False).fit(X, y)
    assert len(set(sizes.cv_results_["mean_test_score"])) == 3
    for method, score in zip(grid["method"], accuracy.cv_results_["mean_test_score"], strict=True):
        alone = cross_val_score(DanceClassifier(method=method, **FAST), X, y, cv=2)
        assert alone.mean() == score


def test_grid_search(data):
    X, y, test, truth = data
    grid = {
        "kernel": [{"rounds": np.int64(0)}, {"rounds": 1, "bandwidth": (0.5, 5.0)}],
        "calibration_share": [0.4, 0.5],
    }
    search = GridSearchCV(DanceClassifier(evaluations=2), grid, cv=2).fit(X, y)
    assert search.best_params_["kernel"]["rounds"] in (0, 1)
    assert search.predict(test).shape == truth.shape
    assert cross_val_score(DanceClassifier(**FAST), X, y, cv=2).mean() > 0.6
