"""An executor of Spark's that is killed in the middle of a job: a process of its own, as on a cluster."""

import os
import shutil
import sys

import numpy as np
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs a Java runtime", allow_module_level=True)
if not sys.platform.startswith("linux"):
    pytest.skip("finds the executor's process in /proc", allow_module_level=True)

from pyspark.sql import SparkSession

from dance_conformal import spark as dance_spark


@pytest.fixture
def spark(monkeypatch):
    """Two executors with a core each."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", False)
        .config("spark.driver.host", "localhost")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", 20)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def test_an_executor_that_is_killed_is_replaced(spark, model, data, tmp_path):
    """Its finished work is done again; the result is complete and unchanged."""
    mark = str(tmp_path / "killed")

    def kill_once(batches):
        for number, batch in enumerate(batches):
            yield batch
            if number == 1 and not os.path.exists(mark):
                # A task's process is a child of the one that forks them, and that of the executor.
                with open(f"/proc/{os.getppid()}/stat") as stat:
                    executor = int(stat.read().rsplit(")", 1)[1].split()[1])
                with open(f"/proc/{executor}/cmdline") as line, open(mark, "x") as out:
                    out.write(line.read())
                os.kill(executor, 9)

    X = data[2]
    rows = [(int(row), point.tolist()) for row, point in enumerate(X.astype(np.float64))]
    df = spark.createDataFrame(rows, "row long, embedding array<double>").repartition(4)
    sets = dance_spark.predict(df, model)
    answers = sets.mapInArrow(kill_once, sets.schema).orderBy("row").collect()
    with open(mark) as killed:
        assert "CoarseGrainedExecutorBackend" in killed.read()
    assert [row["row"] for row in answers] == list(range(len(X)))
    assert [sorted(row["set"]) for row in answers] == model.predict_set(X, as_labels=True)
