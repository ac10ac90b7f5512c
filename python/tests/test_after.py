"""Maintenance of a model: points to label next, monitoring of a stream, audit of labels."""

import numpy as np
import pytest

from dance_conformal import DanceClassifier, audit


def test_a_selection_is_seeded_and_keeps_to_the_pool(model, data):
    _, _, pool, _ = data
    chosen = model.select(pool, 30, random=60)
    again = model.select(pool, 30, random=60)
    other = model.select(pool, 30, random=60, random_state=1)
    rows = np.concatenate([chosen.picked, chosen.random])
    assert len(set(rows)) == 90 and rows.min() >= 0 and rows.max() < len(pool)
    assert np.array_equal(chosen.picked, again.picked) and np.array_equal(chosen.random, again.random)
    assert set(chosen.random) != set(other.random)
    sizes = model.predict_set(pool).sum(1)
    assert sizes[chosen.picked].mean() > sizes.mean(), "picked points have large sets"
    with pytest.raises(ValueError, match="select fewer"):
        model.select(pool, len(pool) + 1)


def test_a_monitor_goes_on_where_it_stood(model, data):
    _, _, points, labels = data
    whole = model.monitor(labels=True)
    assert len(whole.watch(points, labels)) == 0 and whole.report().points == len(points)
    first = model.monitor(labels=True)
    first.watch(points[:100], labels[:100])
    second = model.monitor(labels=True, state=first.state)
    second.watch(points[100:], labels[100:])
    assert second.report() == whole.report() and second.report().bound == 200
    wrong = np.roll(labels, 1)
    assert [alarm.watched for alarm in second.watch(points, wrong)] == ["labels"]
    with pytest.raises(ValueError, match=r"labels=True"):
        second.watch(points)
    with pytest.raises(ValueError, match=r"without labels|with labels"):
        model.monitor(state=second.state)
    with pytest.raises(ValueError, match=r"not the state of a monitor"):
        model.monitor(state="{}")


def test_an_audit_has_the_labels_as_they_are(data):
    X, y, _, _ = data
    names = np.array(["ant", "bee", "cat", "dog", "elk"])[y]
    wrong = names.copy()
    far = np.linalg.norm(
        X[:, None] - np.stack([X[names == name].mean(0) for name in np.unique(names)]), axis=2
    )
    rows = [3, 77, 200]
    wrong[rows] = np.unique(names)[far[rows].argmax(1)]
    found = audit(X, wrong)
    listed = {error.row: error for error in found.label_errors}
    assert set(rows) <= set(listed)
    assert all(listed[row].label == wrong[row] for row in rows)
    assert len(found.odds) == len(X) and found.label_errors.to_frame().row.tolist() == [
        e.row for e in found.label_errors
    ]


def test_an_audit_names_copies_across_parts_and_in_the_model(data):
    X, y, _, _ = data
    X, y = X.copy(), y.copy()
    X[50], y[50] = X[3], y[3]
    parts = np.where(np.arange(len(X)) < 40, "train", "test")
    (group,) = audit(X, y, parts=parts).copies
    assert group.rows == [3, 50] and group.parts == ["test", "train"]
    assert group.across and group.space == "given" and len(group.model) == 0
    with pytest.raises(ValueError, match="one per point"):
        audit(X, y, parts=parts[1:])
    model = DanceClassifier(evaluations=2, kernel={"rounds": 1}).fit(X[:200], y[:200])
    found = model.audit(X[1:200], y[1:200])
    assert len(found.overlap) == 199, "by their numbers, although no row is where it was"
    groups = {group.rows[0]: group for group in found.copies}
    assert groups[9].model[0].row == 10 and groups[9].across and groups[9].space == "both"
    found = model.audit(X[:200], y[:200])
    assert len(found.overlap) == 200 and [group.rows for group in found.copies] == [[3, 50]]


def test_two_classes_under_one_name_are_two(data):
    X, y, _, _ = data
    names = np.array(["ant", "ant", "cat", "dog", "elk"])[y]
    (found,) = audit(X, names).twofold
    assert found.label == "ant" and found.p_value < 0.01
    for group in found.groups:
        share = np.mean(y[group] == 0)
        assert max(share, 1 - share) > 0.9


def test_a_trusted_model_audits_other_labels(data):
    X, y, other, labels = data
    model = DanceClassifier(evaluations=3, kernel={"rounds": 1}, calibration="split").fit(X, y)
    # A third is wrong: with as many calibration points as there are, no p-value is small enough for a few among hundreds.
    wrong = labels[:60].copy()
    wrong[:20] = (wrong[:20] + 2) % 5
    found = model.audit(other[:60], wrong)
    listed = [error.row for error in found.label_errors]
    assert listed and np.mean(np.array(listed) < 20) > 0.5
    assert "Benjamini-Hochberg" in found.rule and found.error_share is None
