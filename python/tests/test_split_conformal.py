"""Split conformal prediction on probabilities, against its formulas written out."""

import pickle

import numpy as np
import pytest

from dance_conformal import DanceWarning, SplitConformal
from dance_conformal.protocol import NotFittedError
from dance_conformal.split_conformal import SCORES


@pytest.fixture(scope="module")
def drawn():
    """Probabilities that are right: labels are drawn from them."""
    random = np.random.default_rng(5)
    p = random.dirichlet(np.full(12, 0.3), size=2500).astype(np.float32)
    y = np.array([random.choice(12, p=row / row.sum()) for row in p.astype(np.float64)])
    return p[:500], y[:500], p[500:], y[500:]


def by_hand(p, score):
    """Scores of every label with u = 0."""
    p = p.astype(np.float64)
    order = np.argsort(-p, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, p.shape[1] + 1)[None], axis=1)
    mass = np.empty_like(p)
    np.put_along_axis(mass, order, np.cumsum(np.take_along_axis(p, order, axis=1), axis=1), axis=1)
    top = p.max(axis=1, keepdims=True)
    return {
        "lac": 1 - p,
        "aps": mass,
        "raps": mass + 0.01 * np.maximum(0, ranks - 3),
        "saps": np.where(ranks == 1, 0, top + (ranks - 2) * 0.1),
    }[score]


@pytest.mark.parametrize("score", SCORES)
def test_sets_are_those_of_the_formulas(drawn, score):
    p, y, test, _ = drawn
    predictor = SplitConformal(score=score, penalty=0.01, free_ranks=3, weight=0.1, randomize=False).fit(p, y)
    calibration = np.sort(by_hand(p, score)[np.arange(len(y)), y])
    for alpha in (0.05, 0.1, 0.3):
        threshold = calibration[int(np.ceil((1 - alpha) * (len(y) + 1) - 1e-9)) - 1]
        np.testing.assert_allclose(predictor.threshold(alpha), threshold, atol=1e-12)
        expected = by_hand(test, score) <= threshold + 1e-12
        np.testing.assert_array_equal(predictor.predict_set(test, alpha), expected)
        assert (predictor.predict_p(test) > alpha).sum() == expected.sum()


@pytest.mark.parametrize("score", SCORES)
def test_coverage(drawn, score):
    p, y, test, truth = drawn
    report = SplitConformal(score=score).fit(p, y).evaluate(test, truth, alpha=0.1)
    assert abs(report.coverage - 0.9) < 0.05
    assert report.accuracy == (test.argmax(axis=1) == truth).mean()


def test_labels_and_levels(drawn):
    p, y, test, _ = drawn
    names = np.array([f"class {at}" for at in range(12)])
    plain = SplitConformal(score="aps", random_state=3).fit(p, y)
    named = SplitConformal(score="aps", classes=names, random_state=3).fit(p, names[y])
    sets = plain.predict_set(test, alpha=[0.1, 0.2])
    assert sets.shape == (len(test), 12, 2)
    np.testing.assert_array_equal(named.predict_set(test, 0.2), sets[..., 1])
    assert named.predict_set(test[:3], 0.1, as_labels=True) == [names[row].tolist() for row in sets[:3, :, 0]]


def test_invalid_arguments_are_refused(drawn):
    p, y, test, _ = drawn
    for bad in (p - 0.2, p * 3, np.log(p + 1e-9), p[0], np.where(p > 0.5, np.nan, p)):
        with pytest.raises(ValueError):
            SplitConformal().fit(bad, y)
    with pytest.raises(ValueError, match="score = 'best': must be 'lac', 'aps', 'raps' or 'saps'"):
        SplitConformal(score="best").fit(p, y)
    with pytest.raises(ValueError, match="label at row 0"):
        SplitConformal().fit(p, y + 100)
    with pytest.raises(ValueError, match="columns"):
        SplitConformal().fit(p, y).predict_set(test[:, :4] / test[:, :4].sum(axis=1, keepdims=True))
    with pytest.raises(ValueError, match="alpha"):
        SplitConformal().fit(p, y).predict_set(test, 0)
    with pytest.warns(DanceWarning, match="every label passes"):
        assert SplitConformal().fit(p[:5], y[:5]).predict_set(test, 0.01).all()


def test_it_is_an_estimator(drawn):
    p, y, test, _ = drawn
    model = SplitConformal(0.2, score="saps", n_jobs=2).fit(p, y)
    assert SplitConformal().get_params()["score"] == "raps"
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_set(test), model.predict_set(test, 0.2)
    )
    with pytest.raises(NotFittedError, match="not fitted yet"):
        SplitConformal().predict_set(test)
    sklearn = pytest.importorskip("sklearn.base")
    again = sklearn.clone(model)
    assert again.get_params() == model.get_params() and not hasattr(again, "classes_")
    assert repr(model) == "SplitConformal(alpha=0.2, n_jobs=2, score='saps')"
