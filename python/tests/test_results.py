"""Results are frozen records with attributes, data frames and tables for notebooks."""

import dataclasses

import numpy as np
import pytest

from dance_conformal import Rows, audit, results

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def found(model, data):
    """A result of every kind."""
    X, y, test, truth = data
    monitor = model.monitor(labels=True)
    monitor.watch(test, truth)
    return {
        "evaluation": model.evaluate(test, truth),
        "audit": audit(X[:200], y[:200]),
        "thresholds": model.thresholds(),
        "explanations": model.explain(test[:3]),
        "monitor": monitor.report(),
        "selection": model.select(test, 5, random=5),
        "comparison": model.compare(test, truth),
    }


def test_they_are_frozen(found):
    for one in found.values():
        one = one[0] if isinstance(one, Rows) else one
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, dataclasses.fields(one)[0].name, None)


def test_every_result_is_a_frame_and_a_table(found):
    for name, one in found.items():
        frame = one.to_frame()
        assert isinstance(frame, pandas.DataFrame) and len(frame) == (3 if name == "explanations" else 1), (
            name
        )
        assert one._repr_html_().startswith("<table>"), name


def test_frames_hold_what_attributes_hold(found):
    evaluation = found["evaluation"]
    frame = evaluation.to_frame()
    assert frame.coverage.item() == evaluation.coverage and frame.by_chance.item() == evaluation.by_chance
    assert frame.overlap_calibration.item() == 0
    assert frame.probabilities_log_loss.item() == evaluation.probabilities.log_loss
    assert evaluation.classes.to_frame().coverage.tolist() == [one.coverage for one in evaluation.classes]
    explained = found["explanations"].to_frame()
    assert explained.columns.tolist() == ["prediction", "probability", "nearest", "set"]
    assert explained.set[0] == [one.label for one in found["explanations"][0].set]
    evidence = found["monitor"].evidence.to_frame()
    assert (
        evidence.watched.tolist() == ["inputs", "labels"] and found["monitor"].to_frame().points.item() == 300
    )


def test_tables_escape_text():
    rows = Rows(results.Portion(f"<b>{at}", 1, 0.5, 1.0) for at in range(30))
    shown = rows._repr_html_()
    assert "&lt;b&gt;0" in shown and "<b>" not in shown and "and 10 more" in shown
    assert Rows()._repr_html_() == "<table><tbody></tbody></table>" and len(Rows().to_frame()) == 0


def test_parts_of_a_record_unfold(found):
    shown = found["evaluation"]._repr_html_()
    assert "<summary>classes (5)</summary>" in shown and "coverage" in shown


def test_numbers_are_those_of_python(found):
    """Not of NumPy, so that they can be written as JSON."""
    for one in (found["evaluation"], *found["evaluation"].classes, *found["explanations"]):
        for value in one._cells().values():
            assert not isinstance(value, np.generic), one
