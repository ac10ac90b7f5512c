"""``device=``: words, fallback, and the same sets wherever a model runs."""

import pickle

import numpy as np
import pytest

from dance_conformal import DanceClassifier, DanceError, datasets

X, y = datasets.clusters(400, classes=3)


def usable(device: str) -> bool:
    try:
        DanceClassifier(evaluations=1, kernel={"rounds": 0}, device=device).fit(X[:100], y[:100])
    except DanceError:
        return False
    return True


def test_words_that_name_no_device():
    with pytest.raises(ValueError, match="auto, cpu, cuda, or cuda: and a number"):
        DanceClassifier(device="gpu").fit(X, y)


def test_a_model_runs_on_the_device_of_its_name(tmp_path):
    model = DanceClassifier(evaluations=2, device="cpu").fit(X[:300], y[:300])
    expected = model.predict_set(X[300:])
    model.save(tmp_path / "model.dance")
    for device in ("auto", "cpu"):
        loaded = DanceClassifier.load(tmp_path / "model.dance", device=device)
        assert loaded.device == device
        np.testing.assert_array_equal(loaded.predict_set(X[300:]), expected)
    with pytest.raises(ValueError, match="device = gpu"):
        DanceClassifier.load(tmp_path / "model.dance", device="gpu")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_set(X[300:]), expected)


def test_a_device_that_is_not_there_is_an_error():
    with pytest.raises(DanceError, match="cuda:99: "):
        DanceClassifier(evaluations=1, device="cuda:99").fit(X, y)


def test_the_same_sets_on_a_graphics_processor(tmp_path):
    if not usable("cuda"):
        pytest.skip("no graphics processor that can be used")
    model = DanceClassifier(evaluations=2, device="cuda").fit(X[:300], y[:300])
    model.save(tmp_path / "model.dance")
    on_cpu = DanceClassifier.load(tmp_path / "model.dance", device="cpu")
    np.testing.assert_array_equal(on_cpu.predict_set(X[300:]), model.predict_set(X[300:]))
    np.testing.assert_array_equal(on_cpu.predict_proba(X[300:]), model.predict_proba(X[300:]))


def test_batches_run_on_the_device_of_their_name(model, data):
    arrow = pytest.importorskip("dance_conformal.arrow")
    import pyarrow as pa

    points = pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(data[2][:20]).ravel(), data[2].shape[1])
    table = pa.table({"embedding": points})
    on_cpu, anywhere = (
        [batch.to_pylist() for batch in arrow.predict_batches(model, device=device)(table)]
        for device in ("cpu", "auto")
    )
    assert on_cpu == anywhere
    with pytest.raises(DanceError, match="cuda:99: "):
        list(arrow.predict_batches(model, device="cuda:99")(table))
