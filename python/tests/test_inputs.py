"""Arrays of every layout and type give the sets of the plain array."""

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier, _native
from dance_conformal.inputs import as_points


@pytest.fixture(scope="module")
def plain(data):
    """Numbers that every type below can hold exactly, and the sets of the plain array."""
    X, y, test, _ = data
    X, test = np.float32(np.float16(X)), np.float32(np.float16(test))
    return X, y, test, DanceClassifier(**FAST).fit(X, y).predict_set(test)


def strided(X):
    """Every second column and third row of a larger array."""
    big = np.full((3 * X.shape[0], 2 * X.shape[1]), np.nan, X.dtype)
    big[::3, ::2] = X
    return big[::3, ::2]


def read_only(X):
    copy = X.copy()
    copy.flags.writeable = False
    return copy


def misaligned(X):
    buffer = np.zeros(X.nbytes + 1, np.uint8)
    view = np.ndarray(X.shape, X.dtype, buffer, offset=1)
    view[...] = X
    return view


def column(X):
    """Every row as an object, as in a data frame's column of embeddings."""
    rows = np.empty(len(X), object)
    rows[:] = list(X)
    return rows


LAYOUTS = {
    "fortran": np.asfortranarray,
    "sliced": strided,
    "reversed": lambda X: X[::-1].copy()[::-1],
    "float64": lambda X: X.astype(np.float64),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "big-endian": lambda X: X.astype(">f4"),
    "big-endian float64": lambda X: X.astype(">f8"),
    "fortran float64": lambda X: np.asfortranarray(X.astype(np.float64)),
    "read-only": read_only,
    "misaligned": misaligned,
    "list": lambda X: X.tolist(),
    "object": lambda X: X.astype(object),
    "column of arrays": column,
    "memory view": lambda X: memoryview(X),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_same_sets(plain, layout):
    X, y, test, expected = plain
    change = LAYOUTS[layout]
    model = DanceClassifier(**FAST).fit(change(X), y)
    np.testing.assert_array_equal(model.predict_set(change(test)), expected)


def test_same_sets_from_integers(data):
    X, y, test, _ = data
    X, test = np.round(X * 100), np.round(test * 100)
    expected = DanceClassifier(**FAST).fit(X, y).predict_set(test)
    for kind in (np.int8, np.int16, np.int64):
        model = DanceClassifier(**FAST).fit(X.clip(-128, 127).astype(kind), y)
        if (abs(X) < 127).all():
            np.testing.assert_array_equal(model.predict_set(test.astype(kind)), expected)


def test_the_native_module_checks_the_order_itself(plain, model):
    _, _, test, _ = plain
    straight = model._model.transform(test, 0)
    np.testing.assert_array_equal(model._model.transform(np.asfortranarray(test), 0), straight)
    np.testing.assert_array_equal(model._model.transform(strided(test), 0), straight)
    mask = np.asfortranarray(np.eye(3, dtype=bool)[[0, 1, 1]])
    labels = np.array([0, 1, 1], np.uint32)
    assert _native.set_metrics(mask, labels, 0.1) == _native.set_metrics(mask.copy(order="C"), labels, 0.1)


def test_nothing_is_copied_that_need_not_be(data):
    X = data[0]
    assert as_points(X) is X
    frozen = read_only(X)
    assert as_points(frozen) is frozen
    assert np.shares_memory(as_points(X[5:50]), X)


def test_data_frames(plain):
    X, y, test, expected = plain
    columns = [f"e{at}" for at in range(X.shape[1])]
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    for frame, series in (
        (lambda A: pandas.DataFrame(A, columns=columns), pandas.Series),
        (lambda A: polars.DataFrame(A, schema=columns), polars.Series),
    ):
        model = DanceClassifier(**FAST).fit(frame(X), series(y))
        assert model.feature_names_in_.tolist() == columns
        np.testing.assert_array_equal(model.predict_set(frame(test)), expected)
        with pytest.warns(UserWarning, match="feature names"):
            model.predict_set(test)
        with pytest.raises(ValueError, match="same order"):
            model.predict_set(frame(test)[columns[::-1]])


def test_a_column_of_arrays(plain):
    X, y, test, expected = plain
    pandas = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")

    def column(A):
        frame = pandas.DataFrame({"id": range(len(A))})
        frame["embedding"] = list(A)
        return frame

    for make in (
        lambda A: column(A)["embedding"],
        lambda A: column(A)[["embedding"]],
        lambda A: pandas.DataFrame({"embedding": A.tolist()})["embedding"],
        lambda A: pandas.Series(pa.array(A.tolist()), dtype=pandas.ArrowDtype(pa.list_(pa.float32()))),
        lambda A: polars.Series(A.tolist()),
        lambda A: polars.Series(A, dtype=polars.Array(polars.Float32, A.shape[1])),
        lambda A: polars.DataFrame({"embedding": A.tolist()}),
        lambda A: pa.array(A.tolist()),
        lambda A: pa.chunked_array([A.tolist()[:5], A.tolist()[5:]]),
    ):
        model = DanceClassifier(**FAST).fit(make(X), y)
        np.testing.assert_array_equal(model.predict_set(make(test)), expected)
        assert model.n_features_in_ == X.shape[1] and not hasattr(model, "feature_names_in_")
    broken = column(test)
    broken.at[7, "embedding"] = test[7][:3]
    with pytest.raises(ValueError, match="X: row 7 has 3 numbers, and the first row has 12"):
        model.predict_set(broken["embedding"])
    broken.at[7, "embedding"] = None
    with pytest.raises(ValueError, match=r"X: row 7 has no embedding \(None\); drop it"):
        model.predict_set(broken["embedding"])


def test_rows_of_several_lengths_are_named(model):
    with pytest.raises(ValueError, match="X: row 1 has 1 numbers, and the first row has 2"):
        model.predict_set([[1.0, 2.0], [1.0]])


@pytest.mark.xfail(reason="the reader of Parquet takes one column of lists", strict=False)
def test_a_wide_table_of_pandas_is_read(data, dance, tmp_path):
    """As ``df.to_parquet`` writes it: a column for every number, the label, and an index."""
    pandas = pytest.importorskip("pandas")
    X, y, _, _ = data
    frame = pandas.DataFrame(X, columns=[f"f{at}" for at in range(X.shape[1])]).assign(label=y)
    frame.to_parquet(tmp_path / "wide.parquet")
    frame.to_csv(tmp_path / "wide.csv", index=False)
    options = ["--evaluations", 2]
    dance("fit", tmp_path / "wide.csv", "-o", tmp_path / "csv.dance", *options)
    dance("fit", tmp_path / "wide.parquet", "-o", tmp_path / "parquet.dance", *options)
    csv, parquet = (DanceClassifier.load(tmp_path / f"{name}.dance") for name in ("csv", "parquet"))
    np.testing.assert_array_equal(parquet.predict_p(X[:20]), csv.predict_p(X[:20]))


class Tensor:
    """An array as a tensor library offers it: DLPack, and no ``__array__``."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack(plain):
    X, y, test, expected = plain
    model = DanceClassifier(**FAST).fit(Tensor(X), y)
    np.testing.assert_array_equal(model.predict_set(Tensor(test)), expected)


def test_torch(plain):
    torch = pytest.importorskip("torch")
    X, y, test, expected = plain
    model = DanceClassifier(**FAST).fit(torch.from_numpy(X).requires_grad_(), torch.from_numpy(y))
    np.testing.assert_array_equal(model.predict_set(torch.from_numpy(test).half()), expected)
    np.testing.assert_array_equal(model.predict_set(torch.from_numpy(test).T.contiguous().T), expected)


def test_invalid_arguments_are_refused(model, data):
    _, _, X, _ = data
    with pytest.raises(TypeError, match="sparse"):
        model.predict_set(pytest.importorskip("scipy.sparse").csr_array(X))
    with pytest.raises(ValueError, match="Complex"):
        model.predict_set(X + 1j)
    with pytest.raises(ValueError, match="masked"):
        model.predict_set(np.ma.masked_less(X, 0))
    with pytest.raises(ValueError, match="dtype"):
        model.predict_set(X.astype("datetime64[s]"))
    with pytest.raises(ValueError, match="Reshape"):
        model.predict_set(X[0])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.predict_set(X[:0])
