"""Every method with every use of calibration points, from fit to file."""

import pickle

import numpy as np
import pytest
from conftest import FAST, METHODS, fast

from dance_conformal import DanceClassifier, datasets

# A share of a small alpha can be smaller than so few points support. That is a warning, and not the subject here.
pytestmark = pytest.mark.filterwarnings("ignore::dance_conformal.DanceWarning")


@pytest.fixture(scope="module", params=METHODS, ids="-".join)
def each(request, data):
    method, calibration = request.param
    X, y, _, _ = data
    return DanceClassifier(method=method, calibration=calibration, **FAST).fit(X, y)


def test_sets_cover(each, data):
    _, _, test, truth = data
    report = each.evaluate(test, truth)
    assert 0.85 <= report.coverage <= 1
    assert report.size < 3
    assert each.method_ == each.method
    assert each.guarantee_.startswith("heuristic" if each.calibration == "reuse" else "P(label in set)")


def test_a_label_is_in_the_set_when_its_p_value_is_above_alpha(each, data):
    _, _, test, _ = data
    for alpha in (0.05, 0.0731, 0.1, 0.2, 0.5):
        p = each.predict_p(test, alpha=alpha)
        assert p.shape == (300, 5) and (p > 0).all() and (p <= 1).all()
        np.testing.assert_array_equal(p > alpha, each.predict_set(test, alpha=alpha))
        if each.method != "dance":
            np.testing.assert_array_equal(p, each.predict_p(test))


def test_p_values_of_single_scores(each, data):
    _, _, test, _ = data
    if each.method != "dance":
        for score in ("rank", "contrast"):
            message = f"score='{score}' needs method='dance', and this model's method is '{each.method}': drop score"
            with pytest.raises(ValueError, match=message):
                each.predict_p(test, score=score)
        return
    rank, contrast = each.predict_p(test, score="rank"), each.predict_p(test, score="contrast")
    count = rank * (each.thresholds().points + 1)
    np.testing.assert_allclose(count, np.round(count))
    assert not np.array_equal(rank, contrast)
    mix = each.thresholds(0.1011).mix
    sets = each.predict_set(test, alpha=0.1011)
    np.testing.assert_array_equal(sets, (rank > (1 - mix) * 0.1011) & (contrast > mix * 0.1011))


def test_thresholds(each):
    found = each.thresholds(0.2)
    assert found.alpha == 0.2 and found.new_label_alpha is None
    # Split calibration spends half of its points where it selects a mix.
    halved = each.method == "dance" and each.calibration == "split"
    assert found.points == (150 if halved else 300)
    if each.method != "dance":
        assert found.mix is found.rank is found.contrast is None and len(found.trials) == 0
        return
    assert 0 <= found.mix <= 1 and len(found.trials) == 11
    for threshold, share in ((found.rank, 1 - found.mix), (found.contrast, found.mix)):
        np.testing.assert_allclose(threshold.alpha, 0.2 * share)
        assert threshold.value is not None


def test_explanations(each, data):
    _, y, test, _ = data
    sets, p = each.predict_set(test[:20], alpha=0.1), each.predict_p(test[:20], alpha=0.1)
    probability = each.predict_proba(test[:20])
    two_scores = each.method == "dance"
    by_score = {s: each.predict_p(test[:20], score=s) for s in ("rank", "contrast")} if two_scores else {}
    for row, why in enumerate(each.explain(test[:20], alpha=0.1, neighbors=2)):
        assert sorted(s.label for s in why.set) == np.flatnonzero(sets[row]).tolist()
        assert f"prediction {why.prediction} (probability {why.probability:.3f})" in str(why)
        if not two_scores:
            p_values = [s.p_value for s in why.set]
            assert p_values == sorted(p_values, reverse=True)
        for s in why.set:
            assert s.p_value == p[row, s.label]
            assert f"p-value {s.p_value:.3f}" in str(why)
            assert s.rank_p_value == (by_score["rank"][row, s.label] if two_scores else None)
            assert s.contrast_p_value == (by_score["contrast"][row, s.label] if two_scores else None)
            assert s.probability == probability[row, s.label]
            assert len(s.support) <= 2
            assert (y[s.support] == s.label).all()


@pytest.mark.parametrize("method", ["posterior", "fuse"])
def test_new_labels_are_covered_by_sets_that_hold_a_new_label(method):
    generator = np.random.default_rng(4)
    centers = generator.normal(size=(60, 8)) * 4
    kinds = np.minimum(generator.zipf(1.3, size=900) - 1, 59)
    points = centers[kinds] + generator.normal(size=(900, 8))
    options = {"method": method, "evaluations": 2, "alpha": 0.2}
    model = DanceClassifier(new_labels=True, **options).fit(points[:200], kinds[:200])
    mask, new = model.predict_set(points[200:]), model.predict_new_label(points[200:])
    place = {label: at for at, label in enumerate(model.classes_.tolist())}
    hits = [new[row] if kind not in place else mask[row, place[kind]] for row, kind in enumerate(kinds[200:])]
    assert any(kind not in place for kind in kinds[200:])
    assert np.mean(hits) > 0.75  # 0.8, less four standard errors of 80 calibration and 700 test points
    assert 0 < model.thresholds().new_label_alpha <= 0.1
    with pytest.raises(ValueError, match="new_labels=True"):
        DanceClassifier(**options).fit(points[:200], kinds[:200]).predict_new_label(points[:2])


@pytest.mark.parametrize(
    ("method", "by_class"),
    [("posterior", "balanced"), ("posterior", "clusters"), ("posterior", "each"), ("fuse", "each")],
)
def test_guarantees_by_class(method, by_class, tmp_path):
    X, y = datasets.clusters(400, classes=3)
    model = DanceClassifier(method=method, by_class=by_class, evaluations=2).fit(X[:300], y[:300])
    sets = model.predict_set(X[300:])
    assert sets[np.arange(100), y[300:]].mean() > 0.8
    assert ("every class by itself" in model.guarantee_) == (by_class == "each")
    model.save(tmp_path / "model.dance")
    loaded = DanceClassifier.load(tmp_path / "model.dance")
    assert (loaded.method, loaded.by_class) == (method, by_class)
    assert (loaded.predict_set(X[300:]) == sets).all()


def test_files_and_pickles_keep_everything(each, data, tmp_path):
    _, _, test, _ = data
    each.save(tmp_path / "model.safetensors")
    loaded = DanceClassifier.load(tmp_path / "model.safetensors")
    copy = pickle.loads(pickle.dumps(each))
    for other in (loaded, copy):
        assert (other.method, other.calibration) == (each.method, each.calibration)
        assert (other.method_, other.guarantee_) == (each.method_, each.guarantee_)
        assert other.thresholds(0.2) == each.thresholds(0.2)
        for score in (None, "rank", "contrast") if each.method == "dance" else (None,):
            np.testing.assert_array_equal(
                other.predict_p(test, score=score), each.predict_p(test, score=score)
            )
        np.testing.assert_array_equal(other.predict_set(test, [0.1, 0.3]), each.predict_set(test, [0.1, 0.3]))
        np.testing.assert_array_equal(other.predict_proba(test), each.predict_proba(test))
        assert other.reference_points_ == each.reference_points_
    np.testing.assert_array_equal(copy.reference_indices_, each.reference_indices_)
    # A file does not know the arrays of its points: rows are places in the reference.
    distances, places = loaded.kneighbors(test)
    np.testing.assert_array_equal(each.reference_indices_[places], each.kneighbors(test)[1])
    np.testing.assert_array_equal(distances, each.kneighbors(test)[0])


def test_the_order_of_layouts_does_not_matter(each, data):
    _, _, test, _ = data
    expected = each.predict_p(test)
    np.testing.assert_array_equal(each.predict_p(np.asfortranarray(test)), expected)
    np.testing.assert_array_equal(each.predict_p(test.astype(np.float64)), expected)


# Rows of neighbors.

REFERENCES = [
    {"method": "posterior"},
    {"method": "posterior", "kernel": {"refit": False}},
    {"method": "posterior", "calibration": "split"},
    {"method": "fuse"},
    {"method": "dance", "calibration": "split"},
    {"method": "dance", "calibration": "split", "kernel": {"refit": False}},
    {"method": "dance"},
]


def check_rows(model, X, y):
    """Row numbers are those of X: points and labels agree with what the model keeps."""
    rows = model.reference_indices_
    assert len(np.unique(rows)) == len(rows)
    np.testing.assert_array_equal(model.classes_[model._model.reference_labels()], y[rows])
    some = rows[:: max(1, len(rows) // 40)]
    distances, found = model.kneighbors(X[some], n_neighbors=3)
    np.testing.assert_array_equal(found[:, 0], some)  # a reference point is its own nearest neighbor
    np.testing.assert_allclose(distances[:, 0], 0, atol=1e-3)
    mapped = model.transform(X[found[:, 1]]) - model.transform(X[some])
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), distances[:, 1], rtol=1e-3, atol=1e-4)
    assert model.kneighbors(X[:5], 10_000, return_distance=False).shape == (5, len(rows))
    for why in model.explain(X[some[:5]]):
        for one in why.set:
            assert (y[one.support] == one.label).all()


@pytest.mark.parametrize("options", REFERENCES)
def test_rows_after_fit_are_those_of_its_data(data, options):
    X, y, _, _ = data
    model = DanceClassifier(**fast(**options)).fit(X, y)
    check_rows(model, X, y)
    assert model.n_samples_fit_ == len(X)
    assert [point.row for point in model.reference_points_] == model.reference_indices_.tolist()
    if options == {"method": "posterior"}:
        assert sorted(model.reference_indices_) == list(range(len(X)))


@pytest.mark.parametrize("options", REFERENCES)
def test_rows_after_recalibrate_go_on_from_those_of_fit(data, options):
    X, y, _, _ = data
    fit, calibration = slice(0, 250), slice(250, 600)
    model = DanceClassifier(**fast(**options, calibration_share=None)).fit(X[fit], y[fit])
    model.recalibrate(X[calibration], y[calibration])
    assert model.n_samples_fit_ == 250
    check_rows(model, np.concatenate([X[fit], X[calibration]]), np.concatenate([y[fit], y[calibration]]))
    from_fit = (model.reference_indices_ < 250).sum()
    kept = 200 if options.get("kernel") == {"refit": False} else 250
    assert len(model.reference_indices_) - from_fit == (0 if model.calibration == "split" else 350)
    assert from_fit == (0 if model.method == "dance" and model.calibration is None else kept)
    for point, row in zip(model.reference_points_, model.reference_indices_, strict=True):
        assert (point.part, point.row) == (("fit", row) if row < 250 else ("calibration", row - 250))
    # Once more on other points: they take the place of the first ones.
    model.recalibrate(X[300:], y[300:])
    check_rows(model, np.concatenate([X[fit], X[300:]]), np.concatenate([y[fit], y[300:]]))


def test_rows_after_load_and_recalibrate(data, tmp_path):
    X, y, _, _ = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:250], y[:250])
    model.recalibrate(X[250:], y[250:]).save(tmp_path / "model.safetensors")
    loaded = DanceClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.reference_indices_, np.arange(600))
    assert not hasattr(loaded, "n_samples_fit_")
    loaded.recalibrate(X[400:], y[400:])
    assert loaded.n_samples_fit_ == 250
    # The kernel kept all points of the fit, in their order.
    check_rows(loaded, np.concatenate([X[:250], X[400:]]), np.concatenate([y[:250], y[400:]]))


# Parameters.


def test_the_papers_settings():
    model = DanceClassifier.paper(0.2, kernel={"rounds": 1}, scores={"mix": 0.5})
    kernel = {"refit": False, "probabilities": "clamp", "probability_floor": 1e-3, "rounds": 1}
    changed = {"alpha": 0.2, "method": "dance", "kernel": kernel, "scores": {"mix": 0.5}}
    assert model.get_params() == {**DanceClassifier().get_params(), **changed}
    assert DanceClassifier.paper(calibration="split").calibration == "split"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"method": "x"}, "method = 'x': must be 'posterior', 'fuse' or 'dance'"),
        ({"calibration": "x"}, "calibration = 'x': must be 'full', 'split' or 'reuse'"),
        ({"by_class": "x"}, "by_class = 'x': must be 'all', 'balanced', 'clusters' or 'each'"),
        ({"normalize": "l1"}, "normalize = 'l1': must be 'l2', 'standardize' or 'none'"),
        (
            {"kernel": {"probabilities": "softmax"}},
            "probabilities = 'softmax': must be 'calibrated' or 'clamp'",
        ),
    ],
)
def test_words_that_are_not_known(data, option, message):
    X, y, _, _ = data
    with pytest.raises(ValueError, match=message):
        DanceClassifier(**fast(**option)).fit(X, y)


def test_another_treatment_of_empty_sets_is_refused(model, data):
    with pytest.raises(ValueError, match="empty = 'fill': must be 'keep' or 'top1'"):
        model.predict_set(data[2], empty="fill")


@pytest.mark.parametrize(
    "name", ["combine", "evidence", "unseen", "unlabelled", "empty", "rounds", "callback", "stratify"]
)
def test_names_that_are_gone_have_no_aliases(name):
    with pytest.raises(TypeError, match=name):
        DanceClassifier(**{name: "x"})


# Settings that contradict each other, the one to drop, the other one, and a value of this that agrees.
CONTRADICTIONS = [
    ({"calibration": "reuse"}, "calibration", "`method` = posterior", ""),
    ({"method": "posterior", "calibration": "reuse"}, "calibration", "`method` = posterior", ""),
    ({"method": "fuse", "calibration": "split"}, "calibration", "`method` = fuse", ""),
    ({"method": "fuse", "calibration": "reuse"}, "calibration", "`method` = fuse", ""),
    ({"method": "dance", "calibration": "full"}, "calibration", "`method` = dance", ""),
    ({"method": "dance", "by_class": "each"}, "by_class", "`method` = dance", "`method` = posterior"),
    ({"method": "fuse", "by_class": "clusters"}, "by_class", "`method` = fuse", "`method` = posterior"),
    (
        {"calibration": "split", "by_class": "each"},
        "by_class",
        "`calibration` = split",
        "`calibration` = full",
    ),
    ({"method": "dance", "new_labels": True}, "new_labels", "`method` = dance", "`method` = posterior"),
    (
        {"calibration": "split", "new_labels": True},
        "new_labels",
        "`calibration` = split",
        "`calibration` = full",
    ),
    ({"scores": {"mix": 0.5}}, "mix", "`method` = posterior", "`method` = dance"),
    ({"method": "fuse", "scores": {"mix": 0.5}}, "mix", "`method` = fuse", "`method` = dance"),
    ({"method": "fuse", "scores": {"tie_noise": 0.1}}, "tie_noise", "`method` = fuse", "`method` = dance"),
]


@pytest.mark.parametrize(("options", "drop", "other", "agrees"), CONTRADICTIONS)
def test_contradicting_settings_are_refused_by_both_names(data, options, drop, other, agrees):
    X, y, _, _ = data
    alternative = f", or choose {agrees}" if agrees else ""
    value = str({**options, **options.get("scores", {})}[drop]).lower()
    message = f"`{drop}` = {value} cannot be used with {other}: drop `{drop}`{alternative}"
    with pytest.raises(ValueError) as caught:
        DanceClassifier(**options, **FAST).fit(X, y)
    assert str(caught.value) == message
    fitted = DanceClassifier(calibration_share=None, **FAST).fit(X[:300], y[:300])
    with pytest.raises(ValueError) as caught:
        fitted.set_params(**options).recalibrate(X[300:], y[300:])
    assert str(caught.value) == message
    # The advice helps: without the setting that the message names, the model can be calibrated.
    left = {drop: DanceClassifier().get_params()[drop]} if drop in options else {"scores": None}
    fitted.set_params(**left).recalibrate(X[300:], y[300:])


def test_a_number_out_of_its_range_is_no_contradiction(data):
    X, y, _, _ = data
    for scores in ({"mix": 2}, {"tie_noise": 1}, {"rank_neighbors": 0}):
        with pytest.raises(ValueError) as caught:
            DanceClassifier(method="dance", scores=scores, **FAST).fit(X, y)
        assert "cannot be used with" not in str(caught.value) and next(iter(scores)) in str(caught.value)


def test_another_score_is_refused(model, data):
    with pytest.raises(ValueError, match="score = 'dance': must be 'rank' or 'contrast'"):
        model.predict_p(data[2], score="dance")


def test_the_method_can_change_with_the_calibration(data):
    X, y, test, _ = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:300], y[:300])
    for method, calibration in METHODS:
        model.set_params(method=method, calibration=calibration).recalibrate(X[300:], y[300:])
        options = {"method": method, "calibration": calibration, "calibration_share": None}
        fresh = DanceClassifier(**options, **FAST).fit(X[:300], y[:300]).recalibrate(X[300:], y[300:])
        np.testing.assert_array_equal(model.predict_set(test), fresh.predict_set(test))
        np.testing.assert_array_equal(model.predict_proba(test), fresh.predict_proba(test))
    # Parameters changed after the calibration wait for the next one.
    p = model.predict_p(test)
    np.testing.assert_array_equal(model.set_params(method="fuse", calibration=None).predict_p(test), p)
