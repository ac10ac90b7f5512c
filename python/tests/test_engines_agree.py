"""The program, NumPy, Arrow, Spark and Ray give the same set to every one of 15,000 rows, wherever the rows are cut.

A row's answer follows from its own numbers: ties are broken by them too. Needs the folder named by DANCE_DATA.
"""

import json
import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from dance_conformal import DanceClassifier  # noqa: E402
from dance_conformal.arrow import predict_batches  # noqa: E402

CUTS = [0, 1, 2, 2049, 2050, 6000, 9999, 14_998, 15_000]


@pytest.fixture(scope="module")
def clinc(tmp_path_factory):
    """A model, a folder of files cut at odd places, and the set of every row by NumPy."""
    if "DANCE_DATA" not in os.environ:
        pytest.skip("DANCE_DATA is not set")
    data = np.load(Path(os.environ["DANCE_DATA"]) / "clinc150_minilm.npz")
    X, y = data["embeddings"].astype(np.float32), data["labels"]
    at = tmp_path_factory.mktemp("clinc")
    some = np.random.default_rng(0).permutation(len(X))[:2000]
    model = DanceClassifier(evaluations=2, kernel={"rounds": 1}).fit(X[some], y[some])
    model.save(at / "model.dance")
    (at / "parts").mkdir()
    points = pa.FixedSizeListArray.from_arrays(X.ravel(), X.shape[1])
    table = pa.table({"id": np.arange(len(X)), "embedding": points})
    for number, (begin, end) in enumerate(pairwise(CUTS)):
        part = table.slice(begin, end - begin)
        pq.write_table(part, at / "parts" / f"part-{number}.parquet", row_group_size=1000 + number)
    sets = model.predict_set(X, 0.1, as_labels=True)
    assert len(sets) == 15_000 and len({tuple(labels) for labels in sets}) > 150
    return at, table, sets


def by_id(rows):
    return [sorted(row["set"]) for row in sorted(rows, key=lambda row: row["id"])]


def test_the_program(clinc, dance, tmp_path):
    at, _, expected = clinc
    dance("predict", at / "model.dance", at / "parts", "-o", tmp_path / "sets" / "*.jsonl", "--alpha", 0.1)
    files = sorted((tmp_path / "sets").glob("*.jsonl"))
    assert len(files) == len(CUTS) - 1
    assert by_id(json.loads(line) for file in files for line in file.open()) == expected
    pq.write_table(clinc[1], tmp_path / "one.parquet")
    dance(
        "predict",
        at / "model.dance",
        tmp_path / "one.parquet",
        "-o",
        tmp_path / "sets.parquet",
        "--threads",
        1,
    )
    assert by_id(pq.read_table(tmp_path / "sets.parquet").to_pylist()) == expected


def test_arrow(clinc):
    at, table, expected = clinc
    predict = predict_batches(at / "model.dance", keep=["id"])
    for chunk in (777, 15_000):
        batches = list(predict(table.to_batches(chunk)))
        assert by_id(row for batch in batches for row in batch.to_pylist()) == expected


def test_spark(clinc):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime")
    from pyspark.sql import SparkSession

    from dance_conformal import spark as dance_spark

    at, _, expected = clinc
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False)
    spark = builder.config("spark.driver.host", "localhost").getOrCreate()
    try:
        df = spark.read.parquet(str(at / "parts"))
        for rows in (df, df.repartition(5)):
            answers = dance_spark.predict(rows, at / "model.dance", alpha=0.1)
            assert by_id(row.asDict() for row in answers.collect()) == expected
    finally:
        spark.stop()


def test_ray(clinc):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    from dance_conformal import ray as dance_ray

    at, _, expected = clinc
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - nice otherwise, and starving
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        rows = ray.data.read_parquet(str(at / "parts"))
        answers = dance_ray.predict(
            rows, at / "model.dance", alpha=0.1, concurrency=2, num_cpus=0.5, batch_size=1234
        )
        assert by_id(answers.take_all()) == expected
    finally:
        ray.shutdown()
