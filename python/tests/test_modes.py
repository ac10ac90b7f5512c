"""Every way of calibrating with every way of combining scores, from fit to file."""

import itertools
import pickle

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier, datasets

CALIBRATIONS = ("exact", "disjoint", "reuse")
COMBINATIONS = ("evidence", "fuse", "joint", "union")

# A share of a small alpha can be smaller than so few points support; that is said, and not the subject here.
pytestmark = pytest.mark.filterwarnings("ignore::dance_conformal.DanceWarning")


@pytest.fixture(scope="module", params=itertools.product(CALIBRATIONS, COMBINATIONS), ids="-".join)
def each(request, data):
    calibration, combine = request.param
    X, y, _, _ = data
    return DanceClassifier(calibration=calibration, combine=combine, **FAST).fit(X, y)


def test_sets_cover(each, data):
    _, _, test, truth = data
    report = each.evaluate(test, truth)
    assert 0.85 <= report["coverage"] <= 1
    assert report["size"] < 3
    assert each.guarantee_.startswith("heuristic" if each.calibration == "reuse" else "P(label in set)")


def test_a_label_is_in_the_set_when_its_p_value_is_above_alpha(each, data):
    _, _, test, _ = data
    for alpha in (0.05, 0.0731, 0.1, 0.2, 0.5):
        p = each.predict_p(test, alpha=alpha)
        assert p.shape == (300, 5) and (p > 0).all() and (p <= 1).all()
        np.testing.assert_array_equal(p > alpha, each.predict_set(test, alpha=alpha))
        if each.combine != "union":
            np.testing.assert_array_equal(p, each.predict_p(test))


def test_p_values_of_single_scores(each, data):
    _, _, test, _ = data
    rank, contrast = each.predict_p(test, score="rank"), each.predict_p(test, score="contrast")
    count = rank * (each.thresholds()["points"] + 1)
    np.testing.assert_allclose(count, np.round(count))
    assert not np.array_equal(rank, contrast)
    if each.combine == "union":
        mix = each.thresholds(0.1011)["mix"]
        sets = each.predict_set(test, alpha=0.1011)
        np.testing.assert_array_equal(sets, (rank > (1 - mix) * 0.1011) & (contrast > mix * 0.1011))


def test_thresholds(each):
    found = each.thresholds(0.2)
    assert found["alpha"] == 0.2
    halved = each.calibration == "disjoint" and each.combine != "evidence"
    assert found["points"] == (150 if halved else 300)
    if each.combine in ("evidence", "fuse"):
        assert found["mix"] is None and found["trials"] == []
    else:
        assert 0 <= found["mix"] <= 1 and len(found["trials"]) == 11
    if each.combine == "union":
        for name, share in (("rank", 1 - found["mix"]), ("contrast", found["mix"])):
            np.testing.assert_allclose(found[name]["alpha"], 0.2 * share)
            assert found[name]["value"] is not None
    else:
        assert found["rank"] is None and found["contrast"] is None


def test_explanations(each, data):
    _, y, test, _ = data
    sets = each.predict_set(test[:20], alpha=0.1)
    p = None if each.combine == "union" else each.predict_p(test[:20])
    rank, contrast = (each.predict_p(test[:20], score=name) for name in ("rank", "contrast"))
    probability = each.predict_proba(test[:20])
    for row, why in enumerate(each.explain(test[:20], alpha=0.1, neighbors=2)):
        assert sorted(s.label for s in why.labels) == np.flatnonzero(sets[row]).tolist()
        assert f"best {why.best};" in str(why)
        for s in why.labels:
            assert s.p == (None if p is None else p[row, s.label])
            assert (f": p {s.p:.3f}, " in str(why)) if p is not None else (": probability" in str(why))
            assert (s.p_rank, s.p_contrast) == (rank[row, s.label], contrast[row, s.label])
            assert s.probability == probability[row, s.label]
            assert len(s.neighbors) <= 2
            assert (y[s.neighbors] == s.label).all()


def test_labels_nobody_has_are_covered_by_none_of_these():
    generator = np.random.default_rng(4)
    centers = generator.normal(size=(60, 8)) * 4
    kinds = np.minimum(generator.zipf(1.3, size=900) - 1, 59)
    points = centers[kinds] + generator.normal(size=(900, 8))
    model = DanceClassifier(unseen=True, evaluations=2, alpha=0.2).fit(points[:200], kinds[:200])
    mask, none = model.predict_set(points[200:]), model.predict_unseen(points[200:])
    place = {label: at for at, label in enumerate(model.classes_.tolist())}
    hits = [
        none[row] if kind not in place else mask[row, place[kind]] for row, kind in enumerate(kinds[200:])
    ]
    assert any(kind not in place for kind in kinds[200:])
    assert np.mean(hits) > 0.75  # 0.8, less four standard errors of 80 calibration and 700 test points
    with pytest.raises(ValueError, match="unseen=True"):
        DanceClassifier(evaluations=2).fit(points[:200], kinds[:200]).predict_unseen(points[:2])


@pytest.mark.parametrize("by_class", ["fair", "clusters", "each"])
@pytest.mark.parametrize(
    "how", [{"combine": "evidence"}, {}, {"combine": "joint", "mix": 0}, {"combine": "union", "mix": 1}]
)
def test_guarantees_by_class(by_class, how, tmp_path):
    X, y = datasets.clusters(400, classes=3)
    model = DanceClassifier(by_class=by_class, evaluations=2, **how).fit(X[:300], y[:300])
    sets = model.predict_set(X[300:])
    assert sets[np.arange(100), y[300:]].mean() > 0.8
    model.save(tmp_path / "model.dance")
    assert (DanceClassifier.load(tmp_path / "model.dance").predict_set(X[300:]) == sets).all()


@pytest.mark.parametrize(
    "how", [{"combine": "joint"}, {"combine": "union", "mix": 0.5}, {"calibration": "reuse"}]
)
def test_what_has_no_guarantee_by_class_is_refused(how):
    X, y = datasets.clusters(200, classes=3)
    with pytest.raises(ValueError, match="by_class"):
        DanceClassifier(by_class="each", evaluations=2, **how).fit(X, y)


@pytest.mark.parametrize("empty", ["keep", "top1"])
@pytest.mark.parametrize("combine", COMBINATIONS)
def test_the_best_label_is_the_most_probable_of_its_set(data, combine, empty):
    X, y, test, _ = data
    model = DanceClassifier(combine=combine, empty=empty, **FAST).fit(X, y)
    probability, own = model.predict_proba(test), model.predict(test)
    other = bare = 0
    for alpha in (0.02, 0.1, 0.2, 0.4, 0.6, 0.9):
        sets = model.predict_set(test, alpha=alpha)
        for row, why in enumerate(model.explain(test, alpha=alpha)):
            if not sets[row].any():
                assert why.best == own[row] and not why.labels
                bare += 1
                continue
            assert sets[row, why.best] and why.labels[0].label == why.best
            assert probability[row, why.best] == probability[row, sets[row]].max()
            other += why.best != own[row]
    assert (bare > 0) == (empty == "keep")
    # Where probabilities have no say, the classifier's own best label is not always in the set: then the two differ.
    assert other > 0 or combine in ("evidence", "fuse")


def test_the_best_label_of_a_set_of_a_label_that_only_calibration_has(data):
    X, y, test, _ = data
    known = y[:300] != 4
    model = DanceClassifier(calibration_share=None, combine="joint", **FAST)
    model.fit(X[:300][known], y[:300][known]).conformalize(X[300:], y[300:])
    sets = model.predict_set(test, alpha=0.3)
    alone = np.flatnonzero(sets[:, 4] & (sets.sum(axis=1) == 1))
    assert len(alone) > 5
    why = model.explain(test[alone], alpha=0.3)
    assert {one.best for one in why} == {4} and {one.labels[0].probability for one in why} == {0}


def test_files_and_pickles_keep_everything(each, data, tmp_path):
    _, _, test, _ = data
    each.save(tmp_path / "model.safetensors")
    loaded = DanceClassifier.load(tmp_path / "model.safetensors")
    copy = pickle.loads(pickle.dumps(each))
    for other in (loaded, copy):
        assert (other.calibration, other.combine) == (each.calibration, each.combine)
        assert other.guarantee_ == each.guarantee_
        assert other.thresholds(0.2) == each.thresholds(0.2)
        for score in ("combined", "rank", "contrast"):
            np.testing.assert_array_equal(
                other.predict_p(test, score=score), each.predict_p(test, score=score)
            )
        np.testing.assert_array_equal(other.predict_set(test, [0.1, 0.3]), each.predict_set(test, [0.1, 0.3]))
        assert other.reference_points_ == each.reference_points_
    np.testing.assert_array_equal(copy.reference_indices_, each.reference_indices_)
    # A file does not know the arrays its points came from: rows are places in the reference.
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
    {"calibration": "exact"},
    {"calibration": "exact", "refit": False},
    {"calibration": "exact", "fit_neighbors": False},
    {"calibration": "disjoint"},
    {"calibration": "disjoint", "refit": False},
    {"calibration": "reuse"},
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
        for support in why.labels:
            assert (y[support.neighbors] == support.label).all()


@pytest.mark.parametrize("options", REFERENCES)
def test_rows_after_fit_are_those_of_its_data(data, options):
    X, y, _, _ = data
    model = DanceClassifier(**options, **FAST).fit(X, y)
    check_rows(model, X, y)
    assert model.n_samples_fit_ == len(X)
    assert [point.row for point in model.reference_points_] == model.reference_indices_.tolist()
    if options == {"calibration": "exact"}:
        assert sorted(model.reference_indices_) == list(range(len(X)))


@pytest.mark.parametrize("options", REFERENCES)
def test_rows_after_conformalize_go_on_from_those_of_fit(data, options):
    X, y, _, _ = data
    fit, calibration = slice(0, 250), slice(250, 600)
    model = DanceClassifier(**options, calibration_share=None, **FAST).fit(X[fit], y[fit])
    model.conformalize(X[calibration], y[calibration])
    assert model.n_samples_fit_ == 250
    check_rows(model, np.concatenate([X[fit], X[calibration]]), np.concatenate([y[fit], y[calibration]]))
    from_fit = (model.reference_indices_ < 250).sum()
    kept = 200 if options.get("refit") is False else 250
    assert len(model.reference_indices_) - from_fit == (0 if model.calibration == "disjoint" else 350)
    both = model.calibration == "exact" and model.fit_neighbors
    assert from_fit == (kept if both or model.calibration == "disjoint" else 0)
    for point, row in zip(model.reference_points_, model.reference_indices_, strict=True):
        assert (point.part, point.row) == (("fit", row) if row < 250 else ("calibration", row - 250))
    # Once more on other points: they take the place of the first ones.
    model.conformalize(X[300:], y[300:])
    check_rows(model, np.concatenate([X[fit], X[300:]]), np.concatenate([y[fit], y[300:]]))


def test_rows_after_load_and_conformalize(data, tmp_path):
    X, y, _, _ = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:250], y[:250])
    model.conformalize(X[250:], y[250:]).save(tmp_path / "model.safetensors")
    loaded = DanceClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.reference_indices_, np.arange(600))
    assert not hasattr(loaded, "n_samples_fit_")
    loaded.conformalize(X[400:], y[400:])
    assert loaded.n_samples_fit_ == 250
    # The kernel kept all points of the fit, in their order.
    check_rows(loaded, np.concatenate([X[:250], X[400:]]), np.concatenate([y[:250], y[400:]]))


# Parameters.


def test_the_papers_settings():
    model = DanceClassifier.paper(0.2, rounds=1, mix=0.5)
    changed = {
        "alpha": 0.2, "calibration": "reuse", "combine": "union", "refit": False,
        "probabilities": "clamp", "probability_floor": 1e-3, "rounds": 1, "mix": 0.5,
    }  # fmt: skip
    assert model.get_params() == {**DanceClassifier().get_params(), **changed}
    assert DanceClassifier.paper(calibration="disjoint").calibration == "disjoint"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"calibration": "x"}, "calibration = 'x': must be 'exact', 'disjoint' or 'reuse'"),
        ({"calibration": None}, "calibration = None: must be"),
        ({"combine": "sum"}, "combine = 'sum': must be 'evidence', 'fuse', 'joint' or 'union'"),
        ({"normalize": "l1"}, "normalize = 'l1': must be 'l2', 'standardize' or 'none'"),
        ({"probabilities": "softmax"}, "probabilities = 'softmax': must be 'calibrated' or 'clamp'"),
        ({"empty": "fill"}, "empty = 'fill': must be 'keep' or 'top1'"),
    ],
)
def test_words_that_are_not_known(data, option, message):
    X, y, _, _ = data
    with pytest.raises(ValueError, match=message):
        DanceClassifier(**option, **FAST).fit(X, y)


def test_another_score_is_refused(model, data):
    with pytest.raises(ValueError, match="score = 'dance': must be 'combined', 'rank' or 'contrast'"):
        model.predict_p(data[2], score="dance")


def test_the_mode_can_change_with_the_calibration(data):
    X, y, test, _ = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:300], y[:300])
    for calibration, combine in itertools.product(CALIBRATIONS, COMBINATIONS):
        model.set_params(calibration=calibration, combine=combine).conformalize(X[300:], y[300:])
        fresh = DanceClassifier(calibration=calibration, combine=combine, calibration_share=None, **FAST).fit(
            X[:300], y[:300]
        )
        fresh.conformalize(X[300:], y[300:])
        np.testing.assert_array_equal(model.predict_set(test), fresh.predict_set(test))
    # Parameters changed after the calibration wait for the next one.
    p = model.predict_p(test)
    np.testing.assert_array_equal(model.set_params(combine="fuse").predict_p(test), p)


def test_fused_scores_have_no_mix():
    X, y = datasets.clusters(120, classes=3)
    with pytest.raises(ValueError, match="only union and joint have a mix"):
        DanceClassifier(evaluations=1, mix=0.5).fit(X, y)
