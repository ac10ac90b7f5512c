"""Metrics, against their definitions written out."""

import math

import numpy as np
import pytest

from dance_conformal import metrics


@pytest.fixture(scope="module")
def example():
    random = np.random.default_rng(2)
    return random.integers(0, 7, 400), random.random((400, 7)) < random.uniform(0.1, 0.9, (400, 1))


def test_by_definition(example):
    y, sets = example
    hits, sizes, alpha = sets[np.arange(400), y], sets.sum(axis=1), 0.3
    assert metrics.coverage(y, sets) == hits.mean()
    assert metrics.size(sets) == sizes.mean()
    assert metrics.empty(sets) == (sizes == 0).mean()
    shares = np.array([hits[y == label].mean() for label in range(7)])
    np.testing.assert_allclose(metrics.class_coverage(y, sets)[0], shares)
    np.testing.assert_allclose(metrics.ccv(y, sets, alpha), 100 * abs(shares - 0.7).mean())
    strata = np.digitize(sizes, [2, 4, 11, 101])
    gaps = [abs(hits[strata == s].mean() - 0.7) for s in np.unique(strata)]
    np.testing.assert_allclose(metrics.sscv(y, sets, alpha), 100 * max(gaps))
    floor = []
    for m in np.bincount(y):
        mass = [math.comb(m, k) * 0.7**k * 0.3 ** (m - k) for k in range(m + 1)]
        floor.append(sum(p * abs(k / m - 0.7) for k, p in enumerate(mass)))
    np.testing.assert_allclose(metrics.ccv_floor(y, alpha), 100 * np.mean(floor))


def test_report_names_everything(example):
    y, sets = example
    report = metrics.report(y, sets, 0.1, prediction=y)
    assert report.accuracy == 1 and report.points == 400
    assert report.class_violation == metrics.ccv(y, sets, 0.1)
    assert report.class_violation_floor == metrics.ccv_floor(y, 0.1)


def test_labels_by_name_and_unknown_ones(example):
    y, sets = example
    names = np.array(list("abcdefg"))
    assert metrics.report(names[y], sets, 0.1, classes=names) == metrics.report(y, sets, 0.1)
    other = names[y].astype(object)
    other[0] = "never seen"
    before = metrics.coverage(names[y], sets, classes=names)
    assert metrics.coverage(other, sets, classes=names) == before - sets[0, y[0]] / 400


def test_invalid_arguments_are_refused(example):
    y, sets = example
    for labels, some in ((y[:5], sets), (y, sets[0]), (y - 3, sets), (y + 7, sets), (y[:0], sets[:0])):
        with pytest.raises(ValueError):
            metrics.coverage(labels, some)
    with pytest.raises(ValueError, match="classes="):
        metrics.coverage(y.astype(str), sets)
