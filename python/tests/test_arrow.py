"""Arrow in, Arrow out: the same sets as from NumPy, whatever the batches; rows that are no points cost only themselves."""

import json
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from dance_conformal import DanceClassifier, DanceWarning  # noqa: E402
from dance_conformal.arrow import evaluate_batches, predict_batches, report  # noqa: E402
from dance_conformal.columns import points  # noqa: E402


def lists(X, kind="fixed", dtype=None):
    """Points as a column of lists of the kind."""
    X = np.ascontiguousarray(X)
    flat = pa.array(X.ravel().astype(dtype or X.dtype))
    offsets = np.arange(0, X.size + 1, X.shape[1])
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, X.shape[1])
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat)
    return pa.LargeListArray.from_arrays(pa.array(offsets), flat)


def sets_of(batches):
    return [labels for batch in batches for labels in batch.column("set").to_pylist()]


@pytest.fixture(scope="module")
def paper(data):
    return DanceClassifier.paper(evaluations=3, kernel={"rounds": 2}).fit(data[0], data[1])


@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_kind_of_list_gives_the_sets_of_numpy(model, data, kind, dtype):
    test = data[2].astype(dtype)
    table = pa.table({"embedding": lists(test, kind, dtype)})
    sets = sets_of(predict_batches(model, alpha=0.2)(table))
    assert [sorted(labels) for labels in sets] == model.predict_set(test, 0.2, as_labels=True)


def test_the_floats_are_not_copied(data):
    test = np.ascontiguousarray(data[2])
    for kind in ("fixed", "list", "large"):
        column = lists(test, kind)
        for part, first in ((column, 0), (column.slice(7, 20), 7)):
            found, rows, wrong = points(part, test.shape[1], "embedding")
            assert np.shares_memory(found, column.flatten().to_numpy())
            assert (found == test[first : first + len(part)]).all()
            assert len(rows) == len(part) and not wrong


def test_batches_cut_anywhere_change_nothing(model, data):
    table = pa.table({"embedding": lists(data[2]), "row": range(len(data[2]))})
    predict = predict_batches(model, keep=["row"], include=["probabilities", "p_values", "support"])
    whole = pa.Table.from_batches(predict(table))
    assert (predict.answered, predict.refused) == (len(data[2]), 0)
    for seed in range(5):
        random = np.random.default_rng(seed)
        cuts = [0, *sorted(random.choice(len(data[2]), 9).tolist()), len(data[2])]
        parts = [table.slice(begin, end - begin) for begin, end in pairwise(cuts)]
        order = random.permutation(len(parts))
        found = pa.Table.from_batches(predict([parts[at] for at in order]), whole.schema)
        assert found.sort_by("row").equals(whole)


def test_contents_of_the_columns(model, data):
    include = ["probabilities", "p_values", "support"]
    [batch] = predict_batches(model, alpha=0.1, include=include)(
        pa.record_batch({"embedding": lists(data[2])})
    )
    assert batch.schema.field("prediction").type == pa.int64()
    assert batch.schema.field("set").type == pa.list_(pa.int64())
    assert batch.schema.field("set_size").type == pa.int32()
    why, novelty = model.explain(data[2], 0.1, neighbors=5), model.novelty(data[2])
    assert batch["novelty"].to_pylist() == novelty.tolist()
    p_values = model.predict_p(data[2])
    for row, (answer, reason) in enumerate(zip(batch.to_pylist(), why, strict=True)):
        assert answer["prediction"] == reason.prediction
        assert answer["set_size"] == len(answer["set"]) == len(json.loads(answer["support"]))
        assert np.isclose(answer["probability"], reason.probability)
        assert answer["p_max"] == p_values[row].max()
        assert answer["p_values"] == [p_values[row][label] for label in answer["set"]]
        assert answer["p_values"] == sorted(answer["p_values"], reverse=True)
        for label, probability in zip(answer["set"], answer["probabilities"], strict=True):
            assert np.isclose(probability, model.predict_proba(data[2][row : row + 1])[0][label])


def test_labels_keep_their_kind(data, names):
    X, y, test, _ = data
    table = pa.table({"embedding": lists(test[:3])})
    for labels, kind in ((names[y], pa.string()), (y * 1.0, pa.float64()), (y > 1, pa.bool_())):
        model = DanceClassifier(evaluations=2, kernel={"rounds": 1}).fit(X, labels)
        [batch] = predict_batches(model)(table)
        assert batch.schema.field("prediction").type == kind
        assert batch.schema.field("set").type.value_type == kind
        assert [sorted(s) for s in batch["set"].to_pylist()] == [
            sorted(s) for s in model.predict_set(test[:3], as_labels=True)
        ]


def test_sets_that_hold_a_new_label_have_a_column_for_it(data):
    X, y, test, _ = data
    model = DanceClassifier(new_labels=True, evaluations=2, kernel={"rounds": 1}).fit(X, y)
    points = np.concatenate([test[:30], -test[:30]])
    predict = predict_batches(model, alpha=0.3, include=["p_values"])
    [batch] = predict(pa.table({"embedding": lists(points)}))
    assert batch.schema.names == [
        "prediction", "probability", "set", "set_size", "p_max", "new_label", "novelty", "p_values",
    ]  # fmt: skip
    new = model.predict_new_label(points, 0.3)
    assert batch["new_label"].to_pylist() == new.tolist()


def test_p_max_of_the_paper_is_the_largest_deciding_p_value(paper, data):
    [batch] = predict_batches(paper, alpha=0.1)(pa.table({"embedding": lists(data[2])}))
    assert np.allclose(batch["p_max"], paper.predict_p(data[2], alpha=0.1).max(axis=1), atol=1e-11)
    assert [sorted(s) for s in batch["set"].to_pylist()] == paper.predict_set(data[2], 0.1, as_labels=True)


@pytest.fixture
def damaged(data):
    """A null, a wrong width, a NaN, an infinity, zeros and a null among the numbers; which rows those are."""
    rows = data[2][:40].astype(np.float64).tolist()
    rows[3] = None
    rows[8] = rows[8][:5]
    rows[11][2] = float("nan")
    rows[12][0] = float("inf")
    rows[20] = [0.0] * len(rows[20])
    rows[39][1] = None
    rows[30] = []
    return rows, {
        3: "is null",
        8: "has 5 numbers, the model takes 12",
        11: "is NaN in column 2",
        12: "is inf in column 0",
        20: "is all zeros and has no direction",
        30: "has 0 numbers, the model takes 12",
        39: "holds a null",
    }


def test_rows_that_are_no_points_cost_only_themselves(model, data, damaged):
    rows, wrong = damaged
    predict = predict_batches(model, on_error="report", keep=["row"])
    table = pa.table({"row": range(40), "embedding": pa.array(rows, pa.list_(pa.float32()))})
    found = pa.Table.from_batches(predict(table)).to_pylist()
    assert (predict.answered, predict.refused) == (40 - len(wrong), len(wrong))
    expected = model.predict_set(data[2][:40], as_labels=True)
    for row, answer in enumerate(found):
        assert answer["row"] == row
        assert answer["error"] == wrong.get(row)
        if row in wrong:
            assert all(
                answer[name] is None for name in ("prediction", "set", "set_size", "p_max", "probability")
            )
        else:
            assert sorted(answer["set"]) == expected[row]
    predict = predict_batches(model, on_error="skip", keep=["row"])
    left = pa.Table.from_batches(predict(table)).to_pylist()
    assert left == [
        {name: value for name, value in answer.items() if name != "error"}
        for answer in found
        if answer["error"] is None
    ]
    assert (predict.answered, predict.refused) == (40 - len(wrong), len(wrong))


def test_by_default_the_first_of_them_is_named(model, damaged):
    rows, wrong = damaged
    table = pa.table({"embedding": pa.array(rows, pa.list_(pa.float32()))})
    halves = [table.slice(0, 2), table.slice(2)]
    with pytest.raises(ValueError, match=r"`embedding` is null at row 3; on_error='skip'"):
        list(predict_batches(model)(halves))
    for row, reason in wrong.items():
        with pytest.raises(ValueError, match=reason):
            list(predict_batches(model)(table.slice(row, 1)))


def test_a_batch_may_be_empty_or_all_wrong(model):
    kind = pa.list_(pa.float32())
    predict = predict_batches(model, on_error="report")
    columns = [pa.array([], kind), pa.array([None, None], kind)]
    empty, nulls = predict(pa.record_batch({"embedding": column}) for column in columns)
    assert empty.num_rows == 0 and nulls["set"].to_pylist() == [None, None]


def test_invalid_arguments_are_refused(model, data):
    good = pa.table({"embedding": lists(data[2]), "set": range(len(data[2]))})
    with pytest.raises(ValueError, match=r"no column `vector`.*`embedding`, `set`"):
        list(predict_batches(model, embedding="vector")(good))
    with pytest.raises(ValueError, match="`set` is the name of an answer"):
        list(predict_batches(model, keep=["set"])(good))
    with pytest.raises(ValueError, match="3 numbers per row, the model takes 12"):
        list(predict_batches(model)(pa.table({"embedding": lists(data[2][:, :3])})))
    with pytest.raises(ValueError, match="holds int64; a list of floats"):
        list(predict_batches(model, embedding="set")(good))
    with pytest.raises(ValueError, match="include = 'everything'"):
        predict_batches(model, include=["everything"])
    with pytest.raises(ValueError, match="on_error = 'null': must be 'raise', 'skip' or 'report'"):
        predict_batches(model, on_error="null")
    with pytest.raises(ValueError, match=r"alpha = 1\.5"):
        predict_batches(model, alpha=1.5)
    with pytest.raises(TypeError, match="int is no Arrow data"):
        list(predict_batches(model)(5))
    with pytest.raises(TypeError, match="model is a int"):
        predict_batches(5)


def test_it_travels(model, data, tmp_path):
    model.save(tmp_path / "model.dance")
    table = pa.table({"embedding": lists(data[2])})
    expected = sets_of(predict_batches(model)(table))
    for source in (model, (tmp_path / "model.dance").read_bytes(), tmp_path / "model.dance"):
        sent = pickle.loads(pickle.dumps(predict_batches(source, n_jobs=1)))
        assert sets_of(sent(table)) == expected
    (tmp_path / "model.dance").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"the model cannot be read on .* put it where all of them see it"
    ):
        list(predict_batches(tmp_path / "model.dance")(table))


def test_other_producers_of_arrow(model, data):
    expected = sets_of(predict_batches(model)(pa.table({"embedding": lists(data[2])})))
    polars = pytest.importorskip("polars")
    width = data[2].shape[1]
    frame = polars.DataFrame({"embedding": polars.Series(data[2], dtype=polars.Array(polars.Float32, width))})
    assert sets_of(predict_batches(model)(frame)) == expected
    as_lists = frame.with_columns(polars.col("embedding").arr.to_list())
    assert sets_of(predict_batches(model)(as_lists)) == expected
    pandas = pytest.importorskip("pandas")
    if hasattr(pandas.DataFrame, "__arrow_c_stream__"):
        frame = pandas.DataFrame({"embedding": list(data[2])})
        assert sets_of(predict_batches(model)(frame)) == expected
    duckdb = pytest.importorskip("duckdb")
    table = pa.table({"embedding": lists(data[2])})
    relation = duckdb.connect().from_arrow(table)
    assert sets_of(predict_batches(model)(relation.to_arrow_table())) == expected


def test_counts_add_up_to_the_metrics(model, data):
    test, truth = data[2:]
    table = pa.table({"embedding": lists(test), "label": truth})
    count = evaluate_batches(model, alpha=0.1)
    expected = model.evaluate(test, truth, 0.1)
    for cuts in ([0, 300], [0, 1, 17, 250, 300]):
        parts = [table.slice(begin, end - begin) for begin, end in pairwise(cuts)]
        found = report(pa.Table.from_batches(count(parts)), model, 0.1)
        for name in ("coverage", "size", "accuracy", "empty", "by_chance", "as_low", "overlap", "guarantee"):
            assert getattr(found, name) == getattr(expected, name), name
        for name in ("class_violation", "class_violation_floor"):
            assert np.isclose(getattr(found, name), getattr(expected, name)), name
        assert found.classes == expected.classes and found.points == 300
    sets = model.predict_set(test, 0.1)
    for one in found.classes:
        own = truth == one.label
        assert one.coverage == sets[own][:, one.label].mean()
        assert one.size == sets[own].sum(axis=1).mean()
    assert found.classes.to_frame().columns.tolist() == ["label", "points", "covered", "coverage", "size"]


@pytest.mark.filterwarnings("ignore::dance_conformal.DanceWarning")
def test_known_points_and_unknown_labels(model, data):
    X, y, test, truth = data
    table = pa.table(
        {
            "embedding": lists(np.concatenate([X[:50], test])),
            "label": pa.array([*y[:50].tolist(), 77, None, *truth[2:].tolist()]),
        }
    )
    with pytest.raises(ValueError, match="row 51 has no label"):
        list(evaluate_batches(model)(table))
    found = report(pa.Table.from_batches(evaluate_batches(model, on_error="skip")(table)), model, 0.1)
    assert found.overlap.fit + found.overlap.calibration == 50
    assert (found.points, found.refused, found.unknown) == (349, 1, 1)
    count = evaluate_batches(model, on_error="skip", exclude_overlap=True)
    found = report(pa.Table.from_batches(count(table)), model, 0.1)
    expected = model.evaluate(
        np.delete(test, 1, axis=0), np.concatenate([[77], truth[2:]]), 0.1, exclude_overlap=True
    )
    assert found.points == 299 and found.coverage == expected.coverage


def test_a_level_that_cannot_be_guaranteed_is_a_warning(model, data):
    with pytest.warns(DanceWarning, match="calibration points"):
        list(predict_batches(model, alpha=1e-4)(pa.table({"embedding": lists(data[2][:2])})))


OLD = """
import pyarrow
pyarrow.__version__ = "12.0.1"
try:
    import dance_conformal.arrow
except ImportError as error:
    print(error)
"""


def test_an_old_pyarrow_is_refused():
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, check=True)
    assert "needs pyarrow 15.0 or newer, and 12.0.1 is installed" in done.stdout
