"""Prediction sets on Spark: a function on data frames, and a transformer for pipelines.

>>> from dance_conformal import spark as dance_spark  # doctest: +SKIP
>>> sets = dance_spark.predict(df, "model.dance", alpha=0.1, features_col="embedding")  # doctest: +SKIP

Rows pass through ``mapInArrow``: Spark passes Arrow record batches, and :mod:`dance_conformal.arrow` returns the answers.
The model is sent once per executor (a broadcast variable) and opened once per worker process. Each task has one thread, as
Spark runs one task per core. Embeddings are arrays of floats or doubles, or vectors of ``pyspark.ml``.

Needs pyspark 3.5 or newer and pyarrow where the tasks run: ``pip install "dance-conformal[spark]"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

try:
    from pyspark.ml import Model
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import VectorUDT
    from pyspark.ml.param import Param, Params, TypeConverters
    from pyspark.ml.param.shared import HasFeaturesCol
    from pyspark.ml.util import (
        DefaultParamsReader,
        DefaultParamsWriter,
        MLReadable,
        MLReader,
        MLWritable,
        MLWriter,
    )
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
except ImportError as error:
    raise ImportError(
        'dance_conformal.spark needs pyspark, which is not installed: pip install "dance-conformal[spark]"'
    ) from error

from .arrow import BatchPredictor, predict_batches
from .batch_metrics import COUNTS, evaluate_batches, report
from .columns import pa
from .results import BatchEvaluation
from .settings import EmptySets
from .shipped import AnyModel, ShippedModel

__all__ = ["DanceModel", "evaluate", "predict"]

#: The name of the column of embeddings on the workers.
_FEATURES = "_dance_features"


def predict(
    df: DataFrame,
    model: AnyModel,
    *,
    features_col: str = "embedding",
    keep: Sequence[str] | None = None,
    ship: bool = True,
    n_jobs: int = 1,
    **options: Any,
) -> DataFrame:
    """Returns ``df`` with a prediction set for every row.

    Parameters
    ----------
    model : path, bytes or DanceClassifier
        A path is read here, on the driver.
    keep : list of str or None
        Columns to keep beside the answers; ``None`` is all but ``features_col``.
    ship : bool
        If True, the model is sent with the job, once per executor. If False, every worker reads the path itself, on storage
        that all of them see.
    n_jobs : int
        Threads of a task; with more than one, set ``spark.task.cpus`` to as many.

    The other parameters (``alpha``, ``include``, ``on_error``, ``empty``) and the columns of the answers are those of
    :func:`dance_conformal.arrow.predict_batches`.
    """
    if keep is None:
        keep = [name for name in df.columns if name != features_col]
    mapper = predict_batches(model, embedding=_FEATURES, keep=keep, n_jobs=n_jobs, **options)
    schema = _schema(df, mapper)
    mapper.model = _shipped(df, mapper.model, ship)
    return _with_features(df, keep, features_col).mapInArrow(mapper, schema)


def evaluate(
    df: DataFrame,
    model: AnyModel,
    *,
    alpha: float | None = None,
    features_col: str = "embedding",
    label_col: str = "label",
    ship: bool = True,
    n_jobs: int = 1,
    **options: Any,
) -> BatchEvaluation:
    """Returns coverage with its interval by chance, size and other metrics, in all and for every class.

    It is an aggregation: workers count, and one row of counts per class reaches the driver. The report is that of
    :func:`dance_conformal.arrow.report`; the other parameters (``on_error``, ``exclude_overlap``) are those of
    :func:`dance_conformal.arrow.evaluate_batches`.
    """
    mapper = evaluate_batches(
        model, alpha=alpha, embedding=_FEATURES, label=label_col, n_jobs=n_jobs, **options
    )
    mapper.model.open(mapper.threads)  # so that an unreadable model is refused before the job
    mapper.model = _shipped(df, mapper.model, ship)
    fields = [T.StructField("class", T.StringType()), *(T.StructField(name, T.LongType()) for name in COUNTS)]
    counts = _with_features(df, [label_col], features_col).mapInArrow(mapper, T.StructType(fields))
    added = counts.groupBy("class").agg(*(F.sum(name).alias(name) for name in COUNTS)).collect()
    rows = [row.asDict() for row in added]
    return report(pa.Table.from_pylist(rows, schema=mapper.schema()), model, alpha)


class DanceModel(Model, HasFeaturesCol, MLReadable, MLWritable):  # type: ignore[misc]
    """A calibrated model as a transformer for a ``Pipeline``: ``transform`` adds the columns of :func:`predict`.

    ``save`` writes parameters and model file to any storage that Spark can write, ``load`` reads them.
    """

    alpha: Any = Param(Params._dummy(), "alpha", "error level", TypeConverters.toFloat)
    include: Any = Param(
        Params._dummy(), "include", "columns to add to the sets", TypeConverters.toListString
    )
    onError: Any = Param(Params._dummy(), "onError", "raise, skip or report", TypeConverters.toString)
    empty: Any = Param(Params._dummy(), "empty", "keep or top1", TypeConverters.toString)

    def __init__(
        self,
        *,
        model: AnyModel | None = None,
        alpha: float = 0.1,
        features_col: str = "embedding",
        include: Sequence[str] = (),
        on_error: Literal["raise", "skip", "report"] = "raise",
        empty: EmptySets = "keep",
    ) -> None:
        super().__init__()
        self._contents: bytes | None = None if model is None else ShippedModel(model).with_contents().contents
        self._set(alpha=alpha, featuresCol=features_col, include=list(include), onError=on_error, empty=empty)

    def setAlpha(self, alpha: float) -> DanceModel:
        """Sets the error level, without another fit."""
        self._set(alpha=alpha)
        return self

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return predict(
            dataset,
            self._model(),
            alpha=self.getOrDefault(self.alpha),
            features_col=self.getFeaturesCol(),
            keep=dataset.columns,
            include=self.getOrDefault(self.include),
            on_error=self.getOrDefault(self.onError),
            empty=self.getOrDefault(self.empty),
        )

    def evaluate(self, dataset: DataFrame, label_col: str = "label", **options: Any) -> BatchEvaluation:
        """Evaluates the model at its error level: see :func:`evaluate`."""
        level, features = self.getOrDefault(self.alpha), self.getFeaturesCol()
        return evaluate(
            dataset, self._model(), alpha=level, features_col=features, label_col=label_col, **options
        )

    def _model(self) -> bytes:
        if self._contents is None:
            raise ValueError("DanceModel has no model: DanceModel(model='model.dance')")
        return self._contents

    def write(self) -> MLWriter:
        """Returns the writer behind ``save``."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader:
        """Returns the reader behind ``load``."""
        return _Reader(cls)


class _Writer(MLWriter):  # type: ignore[misc]
    def __init__(self, instance: DanceModel) -> None:
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:
        spark = SparkSession.builder.getOrCreate()
        DefaultParamsWriter.saveMetadata(self.instance, path, spark.sparkContext)
        contents = [(bytearray(self.instance._model()),)]
        spark.createDataFrame(contents, "model binary").coalesce(1).write.parquet(f"{path}/model")


class _Reader(MLReader):  # type: ignore[misc]
    def __init__(self, cls: type[DanceModel]) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> DanceModel:
        spark = SparkSession.builder.getOrCreate()
        metadata = DefaultParamsReader.loadMetadata(path, spark.sparkContext)
        row = spark.read.parquet(f"{path}/model").head()
        if row is None:
            raise ValueError(f"{path}: there is no model in it; save it again")
        loaded: DanceModel = self.cls(model=bytes(row["model"]))
        loaded._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(loaded, metadata)
        return loaded


def _with_features(df: DataFrame, keep: Sequence[str], features_col: str) -> DataFrame:
    """Returns the columns to keep, and the embeddings as lists."""
    if features_col not in df.columns:
        raise ValueError(f"there is no column `{features_col}`; there are {', '.join(df.columns)}")
    features = F.col(f"`{features_col}`")
    if isinstance(df.schema[features_col].dataType, VectorUDT):
        features = vector_to_array(features, "float32")
    return df.select(*(F.col(f"`{name}`") for name in keep), features.alias(_FEATURES))


def _shipped(df: DataFrame, model: ShippedModel, ship: bool) -> ShippedModel:
    """Returns the model as a broadcast variable, which every executor fetches once."""
    if not ship:
        return model
    model = model.with_contents()
    model.contents = df.sparkSession.sparkContext.broadcast(model.contents)
    return model


def _schema(df: DataFrame, mapper: BatchPredictor) -> Any:
    """Returns the schema of the answers, in Spark's types."""
    kinds = {
        pa.string(): T.StringType(),
        pa.int64(): T.LongType(),
        pa.int32(): T.IntegerType(),
        pa.float32(): T.FloatType(),
        pa.float64(): T.DoubleType(),
        pa.bool_(): T.BooleanType(),
    }

    def kind(of: Any) -> T.DataType:
        return T.ArrayType(kind(of.value_type)) if pa.types.is_list(of) else kinds[of]

    added = mapper.answer_fields()
    twice = [field.name for field in added if field.name in mapper.keep]
    if twice:
        raise ValueError(f"there is a column `{twice[0]}` already, which is the name of an answer; rename it")
    kept = [df.schema[name] for name in mapper.keep]
    return T.StructType(kept + [T.StructField(field.name, kind(field.type)) for field in added])
