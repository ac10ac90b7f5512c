"""Ray Data predicts the sets of Python, in batches of any size."""

import os
import warnings

import numpy as np
import pytest

ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ray.data")

from dance_conformal import ray as dance_ray  # noqa: E402
from dance_conformal.progress import DanceWarning  # noqa: E402


@pytest.fixture(scope="module")
def engine():
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - nice otherwise, and starving
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("ray") / "model.dance"
    model.save(path)
    return path


def dataset(X, parts):
    points = pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(X).ravel(), X.shape[1])
    return ray.data.from_arrow(pa.table({"row": range(len(X)), "embedding": points})).repartition(parts)


def sets_of(answers):
    rows = sorted(answers.take_all(), key=lambda row: row["row"])
    return [sorted(row["set"]) for row in rows]


def test_the_sets_are_those_of_python(engine, model, saved, data):
    expected = model.predict_set(data[2], 0.1, as_labels=True)
    for parts, batch_size, workers in ((1, 64, 1), (5, None, 2)):
        answers = dance_ray.predict(
            dataset(data[2], parts),
            saved,
            alpha=0.1,
            batch_size=batch_size,
            concurrency=workers,
            num_cpus=0.5,
        )
        assert answers.schema().names == [
            "row", "prediction", "probability", "set", "set_size", "p_max", "novelty",
        ]  # fmt: skip
        assert sets_of(answers) == expected
        predictions = [row["prediction"] for row in sorted(answers.take_all(), key=lambda row: row["row"])]
        assert predictions == model.predict(data[2]).tolist()


def test_the_callable_class_by_itself(engine, model, saved, data):
    answers = dataset(data[2], 2).map_batches(
        dance_ray.DancePredictor,
        fn_constructor_args=[str(saved)],
        fn_constructor_kwargs={"alpha": 0.2, "keep": ["row"], "on_error": "report"},
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=1),
        num_cpus=0.5,
    )
    rows = answers.take_all()
    assert all(row["error"] is None for row in rows)
    assert sets_of(answers) == model.predict_set(data[2], 0.2, as_labels=True)


def test_a_device_is_requested_with_its_gpu(engine, saved, data, monkeypatch):
    requested = {}

    def map_batches(self, *arguments, **options):
        requested.update(options)

    monkeypatch.setattr(ray.data.Dataset, "map_batches", map_batches)
    for given, expected in (
        ({}, None),
        ({"device": "cuda"}, 1),
        ({"device": "cuda:0", "num_gpus": 0.5}, 0.5),
    ):
        requested.clear()
        dance_ray.predict(dataset(data[2], 1), saved, num_cpus=0.5, **given)
        assert requested.get("num_gpus") == expected and requested["num_cpus"] == 0.5
        assert requested["fn_constructor_kwargs"].get("device") == given.get("device")


def test_actors_that_leave_no_cpu_are_noticed(engine, saved, data):
    with pytest.warns(DanceWarning, match="2 actors take 2 CPUs and leave Ray none to read rows with"):
        dance_ray.predict(dataset(data[2], 1), saved, concurrency=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DanceWarning)
        dance_ray.predict(dataset(data[2], 1), saved, concurrency=(1, 2))


def test_a_model_that_is_missing_is_named(engine, data, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.dance"):
        dance_ray.predict(dataset(data[2], 1), tmp_path / "nothing.dance")
    answers = dance_ray.predict(
        dataset(data[2], 1), str(tmp_path / "nothing.dance"), ship=False, num_cpus=0.5
    )
    with pytest.raises(Exception, match="the model cannot be read on"):
        answers.take_all()
