"""Prediction sets on Ray Data: a callable class for ``map_batches``, one model per actor.

>>> from dance_conformal import ray as dance_ray  # doctest: +SKIP
>>> sets = dance_ray.predict(ray.data.read_parquet("new/"), "model.dance", alpha=0.1)  # doctest: +SKIP

Needs Ray with its data library: ``pip install "dance-conformal[ray]"``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

try:
    import ray
    import ray.data
except ImportError as error:
    raise ImportError(
        'dance_conformal.ray needs Ray Data, which is not installed: pip install "dance-conformal[ray]"'
    ) from error

from .arrow import BatchPredictor, predict_batches
from .columns import pa
from .progress import DanceWarning
from .shipped import AnyModel, ShippedModel

__all__ = ["DancePredictor", "predict"]


class DancePredictor:
    """A callable on batches of the format ``pyarrow``: ``dataset.map_batches(DancePredictor, fn_constructor_kwargs=…)``.

    ``model`` is a path that every node can read, the bytes of a model file, or a reference to them (``ray.put``); the
    other parameters are those of :func:`dance_conformal.arrow.predict_batches`. ``keep=None`` keeps all columns but the
    embeddings.
    """

    def __init__(
        self,
        model: AnyModel | ray.ObjectRef,
        *,
        keep: Sequence[str] | None = None,
        n_jobs: int = 1,
        **options: Any,
    ) -> None:
        contents = ray.get(model) if isinstance(model, ray.ObjectRef) else model
        self._keep = keep
        self._predict: BatchPredictor = predict_batches(contents, n_jobs=n_jobs, **options)
        self._predict.model.open(self._predict.threads)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Returns the answers to a table."""
        if self._keep is None:
            self._predict.keep = [name for name in table.column_names if name != self._predict.embedding]
        else:
            self._predict.keep = list(self._keep)
        answers = list(self._predict(table))
        return pa.Table.from_batches(answers, schema=self._predict.schema(table.schema))


def predict(
    dataset: ray.data.Dataset,
    model: AnyModel,
    *,
    concurrency: int | tuple[int, int] = 1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    batch_size: int | None = 8192,
    ship: bool = True,
    **options: Any,
) -> ray.data.Dataset:
    """Returns ``dataset`` with a prediction set for every row, by ``concurrency`` actors (or between two numbers of
    them) of ``num_cpus`` each.

    ``ship=True`` puts the model into Ray's object store once, where every node fetches it; with ``False`` every actor reads
    the path itself. With ``device="cuda"`` every actor requests a GPU, or ``num_gpus`` of one. The other parameters are
    those of :class:`DancePredictor`.
    """
    if num_gpus is None and str(options.get("device", "cpu")).startswith("cuda"):
        num_gpus = 1
    if ship:
        model = ray.put(ShippedModel(model).with_contents().contents)
    least, most = concurrency if isinstance(concurrency, tuple) else (concurrency, concurrency)
    resources = {"num_cpus": num_cpus, "num_gpus": num_gpus}
    taken = least * (1 if num_cpus is None else num_cpus)
    if taken >= ray.cluster_resources().get("CPU", 0):
        warnings.warn(
            f"{least} actors take {taken:g} CPUs and leave Ray none to read rows with: the job may wait for ever. Request "
            "fewer (concurrency) or less of each (num_cpus=0.5)",
            DanceWarning,
            stacklevel=2,
        )
    return dataset.map_batches(
        DancePredictor,
        fn_constructor_args=[model],
        fn_constructor_kwargs=options,
        batch_format="pyarrow",
        batch_size=batch_size,
        zero_copy_batch=True,
        # One batch in work and one that waits: with more for each actor, some would be idle at the end.
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most, max_tasks_in_flight_per_actor=2),
        **{name: value for name, value in resources.items() if value is not None},
    )
