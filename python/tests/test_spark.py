"""Spark predicts the sets of Python, for every partition of the rows, and also when a worker dies."""

import os
import shutil
import sys

import numpy as np
import pytest

pyspark = pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs a Java runtime", allow_module_level=True)

from pyspark.ml import Pipeline, PipelineModel  # noqa: E402
from pyspark.ml.feature import VectorAssembler  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

from dance_conformal import DanceClassifier  # noqa: E402
from dance_conformal import spark as dance_spark  # noqa: E402


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.driver.host", "localhost")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def frame(spark, X, y=None, kind="float"):
    """Rows with their number, an embedding and, where given, a label."""
    columns = [np.arange(len(X)).tolist(), X.astype(np.float64).tolist()]
    schema = f"row long, embedding array<{kind}>"
    if y is not None:
        columns.append(y.tolist())
        schema += ", label long"
    return spark.createDataFrame(list(zip(*columns, strict=True)), schema)


def sets_of(df):
    return [sorted(row["set"]) for row in df.orderBy("row").collect()]


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("spark") / "model.dance"
    model.save(path)
    return path


@pytest.mark.parametrize("kind", ["float", "double"])
def test_the_sets_are_those_of_python_however_rows_are_partitioned(spark, model, saved, data, kind):
    df = frame(spark, data[2], kind=kind)
    expected = model.predict_set(data[2], 0.1, as_labels=True)
    for source, parts in ((saved, 1), (saved.read_bytes(), 3), (model, 7)):
        sets = dance_spark.predict(df.repartition(parts), source, alpha=0.1)
        assert sets.columns == [
            "row", "prediction", "probability", "set", "set_size", "p_max", "novelty",
        ]  # fmt: skip
        assert dict(sets.dtypes)["set"] == "array<bigint>"
        assert sets_of(sets) == expected
        predictions = [row["prediction"] for row in sets.orderBy("row").collect()]
        assert predictions == model.predict(data[2]).tolist()


def test_evaluating_is_an_aggregation(spark, model, saved, data):
    df = frame(spark, data[2], data[3]).repartition(5)
    found = dance_spark.evaluate(df, saved, alpha=0.1)
    expected = model.evaluate(data[2], data[3], 0.1)
    for name in ("coverage", "size", "accuracy", "by_chance", "as_low", "overlap"):
        assert getattr(found, name) == getattr(expected, name), name
    assert [one.label for one in found.classes] == [0, 1, 2, 3, 4]


def test_a_null_row_costs_only_itself(spark, model, saved, data):
    short = F.array(F.lit(1.0).cast("float"))
    damaged = F.when(F.col("row") == 5, None).when(F.col("row") == 6, short).otherwise(F.col("embedding"))
    df = frame(spark, data[2]).withColumn("embedding", damaged)
    answers = dance_spark.predict(df, saved, on_error="report").orderBy("row").collect()
    assert (answers[5]["set"], answers[5]["error"]) == (None, "is null")
    assert answers[6]["error"] == "has 1 numbers, the model takes 12"
    expected = model.predict_set(data[2], as_labels=True)
    assert all(sorted(row["set"]) == expected[row["row"]] for row in answers if row["error"] is None)
    with pytest.raises(Exception, match=r"is null at row .*on_error='skip' leaves such rows out"):
        dance_spark.predict(df, saved).collect()


def test_a_transformer_in_a_pipeline(spark, model, saved, data, tmp_path):
    names = [f"x{at}" for at in range(data[2].shape[1])]
    rows = [(row, *map(float, point)) for row, point in enumerate(data[2])]
    df = spark.createDataFrame(rows, ["row", *names])
    stages = [
        VectorAssembler(inputCols=names, outputCol="features"),
        dance_spark.DanceModel(model=saved, alpha=0.2, features_col="features", include=["probabilities"]),
    ]
    pipeline = Pipeline(stages=stages).fit(df)
    expected = model.predict_set(data[2], 0.2, as_labels=True)
    answers = pipeline.transform(df)
    assert sets_of(answers) == expected
    assert {"features", "x0", "probabilities", "p_max"} <= set(answers.columns)
    pipeline.save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    assert sets_of(loaded.transform(df)) == expected
    alone = stages[1].setAlpha(0.1)
    alone.save(str(tmp_path / "alone"))
    alone = dance_spark.DanceModel.load(str(tmp_path / "alone"))
    assert sets_of(alone.transform(answers.select("row", "features"))) == model.predict_set(
        data[2], 0.1, as_labels=True
    )


def test_text_labels_stay_text(spark, data, names):
    X, y, test, _ = data
    model = DanceClassifier(evaluations=2, kernel={"rounds": 1}).fit(X, names[y])
    sets = dance_spark.predict(frame(spark, test[:20]), model)
    assert dict(sets.dtypes)["prediction"] == "string"
    assert sets_of(sets) == [sorted(s) for s in model.predict_set(test[:20], as_labels=True)]


def test_invalid_arguments_are_refused_before_the_job(spark, saved, data, tmp_path):
    df = frame(spark, data[2][:5])
    with pytest.raises(ValueError, match="no column `vector`; there are row, embedding"):
        dance_spark.predict(df, saved, features_col="vector")
    with pytest.raises(ValueError, match="a column `set` already"):
        dance_spark.predict(df.withColumn("set", F.lit(1)), saved)
    with pytest.raises(FileNotFoundError, match="cannot be read on"):
        dance_spark.predict(df, tmp_path / "nothing.dance")


def test_a_model_that_is_missing_on_the_worker_is_named(spark, saved, data, tmp_path):
    path = tmp_path / "model.dance"
    shutil.copy(saved, path)
    sets = dance_spark.predict(frame(spark, data[2][:5]), path, ship=False)
    path.unlink()
    with pytest.raises(Exception, match=r"the model cannot be read on .*put it where all of them see it"):
        sets.collect()


def test_a_worker_that_is_killed_is_replaced(spark, model, saved, data, tmp_path):
    """Spark runs the task again; the result is complete and the same."""
    mark = str(tmp_path / "killed")

    def kill_once(batches):
        for batch in batches:
            yield batch
            if batch.num_rows and batch.column("row")[0].as_py() > 100 and not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), 9)

    df = frame(spark, data[2]).repartition(4, "row").sortWithinPartitions("row")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 20)
    try:
        sets = dance_spark.predict(df, saved)
        assert sets_of(sets.mapInArrow(kill_once, sets.schema)) == model.predict_set(data[2], as_labels=True)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert os.path.exists(mark)
