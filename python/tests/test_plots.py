"""Figures are drawn into the axes given, and returned."""

import numpy as np
import pytest

from dance_conformal import plots

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture
def ax():
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    yield ax
    figure.canvas.draw()
    plt.close("all")


def test_coverage_curve(model, data, ax):
    _, _, X, y = data
    assert plots.coverage_curve(model, X, y, alphas=[0.1, 0.2, 0.4], ax=ax) is ax
    levels, coverage = ax.get_lines()[1].get_data()
    np.testing.assert_allclose(levels, [0.9, 0.8, 0.6])
    assert (np.diff(coverage) <= 0).all()


def test_class_coverage(model, data, ax):
    _, _, X, y = data
    assert plots.class_coverage(y, model.predict_set(X), 0.1, classes=model.classes_, ax=ax) is ax
    assert sorted(tick.get_text() for tick in ax.get_xticklabels()) == list("01234")


def test_size_versus_ccv(model, data, ax):
    _, _, X, y = data
    reports = {f"{alpha}": model.evaluate(X, y, alpha) for alpha in (0.1, 0.3)}
    assert plots.size_versus_ccv(reports, ax=ax) is ax
    assert [text.get_text() for text in ax.texts] == ["0.1", "0.3"]


def test_kernel_pca(model, data, ax):
    _, _, X, y = data
    assert plots.kernel_pca(model, X, y, ax=ax) is ax
    assert len(ax.collections) == 5
    assert plots.kernel_pca(model, X[:50]).get_title() == "Kernel PCA"
