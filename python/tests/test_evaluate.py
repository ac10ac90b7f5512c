"""Evaluation of sets: coverage by chance, and points that the model knows."""

import json
import math
import warnings
from dataclasses import fields, replace

import numpy as np
import pytest
from conftest import FAST, fast

from dance_conformal import DanceClassifier, DanceWarning, datasets, metrics
from dance_conformal.results import Overlap, SetMetrics


def beta_binomial(calibration, test, alpha):
    """``P(covered <= j)`` for j = 0 … test: ``BetaBinomial(test, k, n + 1 - k)`` with ``k = ⌈(1 - alpha)(n + 1)⌉``."""
    k = math.ceil((1 - alpha) * (calibration + 1) - 1e-9)

    def log_beta(a, b):
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    mass = [
        math.comb(test, j)
        * math.exp(log_beta(j + k, test - j + calibration + 1 - k) - log_beta(k, calibration + 1 - k))
        for j in range(test + 1)
    ]
    return np.cumsum(mass)


# The method dance can give one of its scores a share of alpha that so few points do not support.
@pytest.mark.filterwarnings("ignore:.*calibration points support no alpha")
@pytest.mark.parametrize(
    ("options", "points"),
    [({}, 300), ({"calibration": "split"}, 300), ({"method": "dance", "calibration": "split"}, 150)],
)
def test_coverage_by_chance(data, options, points):
    X, y, test, truth = data
    model = DanceClassifier(**options, **FAST).fit(X, y)
    for alpha in (0.05, 0.1, 0.3):
        report = model.evaluate(test, truth, alpha)
        below = beta_binomial(points, 300, alpha)
        np.testing.assert_allclose(below[-1], 1)
        low, high = (below > 0.025).argmax() / 300, (below >= 0.975).argmax() / 300
        # Two scores that decide together cover more than 1 - alpha.
        assert report.by_chance == (low, 1 if options.get("method") == "dance" else high)
        np.testing.assert_allclose(report.as_low, below[round(300 * report.coverage)])
        assert report.overlap == Overlap(fit=0, calibration=0)


@pytest.mark.parametrize(
    "options", [{}, {"kernel": {"refit": False}}, {"calibration": "split"}, {"method": "fuse"}]
)
def test_points_that_the_model_knows(data, options):
    X, y, test, truth = data
    model = DanceClassifier(**fast(calibration_share=None, **options)).fit(X[:250], y[:250])
    model.recalibrate(X[250:], y[250:])
    # Seven points of the fit and five of calibration after two hundred new ones.
    mixed = np.concatenate([test[:200], X[:7], X[250:255]])
    labels = np.r_[truth[:200], y[:7], y[250:255]]
    seen = r"12 of the 212 points belong to the model \(7 to the fit of the kernel, 5 to its calibration\)"
    with pytest.warns(DanceWarning, match=seen + ".*exclude_overlap=True"):
        report = model.evaluate(mixed, labels)
    assert report.overlap == Overlap(fit=7, calibration=5) and report.points == 212
    assert report.coverage == metrics.coverage(labels, model.predict_set(mixed))
    with pytest.warns(DanceWarning, match=seen + ": they are left out"):
        without = model.evaluate(mixed, labels, exclude_overlap=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert without == replace(model.evaluate(test[:200], truth[:200]), overlap=report.overlap)
    with (
        pytest.warns(DanceWarning, match="5 of the 5 points"),
        pytest.raises(ValueError, match="every point of X belongs to the model"),
    ):
        model.evaluate(X[250:255], y[250:255], exclude_overlap=True)


def test_labels_that_the_model_does_not_know_are_not_covered(model, data):
    _, _, test, truth = data
    other = np.where(np.arange(300) < 30, 77, truth)
    covered = model.predict_set(test)[np.arange(300), truth]
    with pytest.warns(DanceWarning, match="30 of 300 points carry a label that the model does not know"):
        found = model.evaluate(test, other)
    assert found.coverage == covered[30:].sum() / 300


def test_the_parts_of_an_evaluation(model, data):
    _, _, test, truth = data
    found = model.evaluate(test, truth)
    sets, p = model.predict_set(test), model.predict_proba(test)
    hits = sets[np.arange(300), truth]
    assert [one.label for one in found.classes] == [0, 1, 2, 3, 4]
    for one in found.classes:
        own = truth == one.label
        assert (one.points, one.covered) == (own.sum(), hits[own].sum())
        assert one.coverage == hits[own].mean() and one.size == sets[own].sum(axis=1).mean()
    of_one = next(part for part in found.by_size if part.name == "0 or 1")
    assert (
        of_one.points == (sets.sum(axis=1) <= 1).sum()
        and of_one.coverage == hits[sets.sum(axis=1) <= 1].mean()
    )
    # Points of equal confidence are in one fifth, so some can be empty.
    assert found.by_confidence[0].name == "lowest" and sum(part.points for part in found.by_confidence) == 300
    lowest = np.argsort(p.max(axis=1), kind="stable")[: found.by_confidence[0].points]
    assert found.by_confidence[0].coverage == hits[lowest].mean()
    assert sum(part.points for part in found.by_frequency) == 300
    np.testing.assert_allclose(
        found.probabilities.log_loss, -np.log(p[np.arange(300), truth]).mean(), rtol=1e-4
    )
    onehot = np.eye(5)[truth]
    np.testing.assert_allclose(found.probabilities.brier, ((p - onehot) ** 2).sum(axis=1).mean(), rtol=1e-4)
    assert 0 < found.probabilities.calibration_error < 0.2


def test_several_levels_are_rows(model, data):
    _, _, test, truth = data
    rows = model.evaluate(test, truth, [0.05, 0.2])
    assert rows == (model.evaluate(test, truth, 0.05), model.evaluate(test, truth, 0.2))
    frame = pytest.importorskip("pandas").DataFrame(rows.to_frame())
    assert frame.alpha.tolist() == [0.05, 0.2] and frame.overlap_fit.tolist() == [0, 0]
    assert frame.coverage.tolist() == [one.coverage for one in rows]


def test_a_level_below_the_smallest_is_never_too_low(model, data):
    _, _, test, truth = data
    with pytest.warns(DanceWarning):
        assert model.evaluate(test, np.where(truth == 4, 9, truth), 1e-3).as_low == 1


def test_coverage_of_a_guarantee_by_class_has_no_upper_bound(data):
    X, y, test, truth = data
    model = DanceClassifier(by_class="each", **FAST).fit(X, y)
    assert model.evaluate(test, truth, 0.3).by_chance[1] == 1


@pytest.mark.filterwarnings("ignore::dance_conformal.DanceWarning")
def test_a_new_label_covers_labels_that_the_model_does_not_know():
    X, y = datasets.clusters(900, classes=60, dimensions=12, seed=4)
    known = y < 40
    rare = np.flatnonzero(known)[:200]
    model = DanceClassifier(new_labels=True, alpha=0.3, evaluations=2).fit(X[rare], y[rare])
    others = np.setdiff1d(np.arange(len(X)), rare)
    with pytest.warns(DanceWarning, match="carry a label that the model does not know"):
        found = model.evaluate(X[others], y[others])
    mask, new = model.predict_set(X[others]), model.predict_new_label(X[others])
    place = {label: at for at, label in enumerate(model.classes_.tolist())}
    hits = [
        new[row] if label not in place else mask[row, place[label]] for row, label in enumerate(y[others])
    ]
    assert found.coverage == np.mean(hits)
    np.testing.assert_allclose(found.size, (mask.sum(axis=1) + new).mean())


def test_the_program_measures_the_same(model, data, dance, tmp_path):
    _, _, test, truth = data
    model.save(tmp_path / "model.dance")
    np.savez(tmp_path / "test.npz", embeddings=test, labels=truth)
    printed = json.loads(
        dance("evaluate", tmp_path / "model.dance", tmp_path / "test.npz", "--alpha", 0.1, "--json")
    )
    [level], found = printed["levels"], model.evaluate(test, truth, 0.1)
    for name in (field.name for field in fields(SetMetrics)):
        assert getattr(found, name) == level[name], name
    assert (list(found.by_chance), found.as_low) == (level["by_chance"], level["as_low"])
    assert [part.coverage for part in found.by_size] == [
        part["coverage"] for part in level["portions"]["by_size"]
    ]
    for name in ("log_loss", "brier", "calibration_error"):
        assert getattr(found.probabilities, name) == printed["probabilities"][name]
