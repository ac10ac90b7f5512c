"""Points from columns of Arrow, without a copy; and the reasons of rows that are not valid points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrowArray", "ArrowData", "ArrowStream", "column", "pa", "points", "record_batches"]

#: The first version with the PyCapsule interface in both directions.
_OLDEST = (15, 0)


def import_pyarrow() -> Any:
    """Imports pyarrow, and refuses versions that are too old."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            'this needs pyarrow, which is not installed: pip install "dance-conformal[arrow]"'
        ) from error
    found = tuple(int(part) for part in pyarrow.__version__.split(".")[:2] if part.isdigit())
    if found < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ImportError(
            f"this needs pyarrow {oldest} or newer, and {pyarrow.__version__} is installed: "
            'pip install --upgrade "dance-conformal[arrow]"'
        )
    return pyarrow


if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = import_pyarrow()


class ArrowStream(Protocol):
    """A table, a reader or a data frame: a producer of Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns a capsule with a stream of record batches."""


class ArrowArray(Protocol):
    """A record batch: a producer of Arrow's PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Returns capsules with a schema and an array."""


#: Arrow data, or several of them.
ArrowData: TypeAlias = ArrowStream | ArrowArray | Iterable[ArrowStream | ArrowArray]


def record_batches(source: ArrowData) -> Iterator[pa.RecordBatch]:
    """Returns the record batches of any producer of Arrow's PyCapsule interface, or of several of them.

    >>> [batch.num_rows for batch in record_batches([pa.table({"a": [1, 2]}), pa.record_batch({"a": [3]})])]
    [2, 1]
    """
    if isinstance(source, pa.RecordBatch):
        yield source
    elif hasattr(source, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(source)
    elif hasattr(source, "__arrow_c_array__"):
        yield pa.record_batch(source)
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes | dict):
        for part in source:
            yield from record_batches(part)
    else:
        raise TypeError(
            f"{type(source).__name__} is no Arrow data: pass record batches, a table or an object with __arrow_c_stream__"
        )


def column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns the column of this name."""
    place = batch.schema.get_field_index(name)
    if place < 0:
        there = ", ".join(f"`{other}`" for other in batch.schema.names)
        raise ValueError(f"there is no column `{name}` (or several); there are {there}")
    return batch.column(place)


def points(
    array: pa.Array, dimensions: int, name: str
) -> tuple[NDArray[Any], NDArray[np.int64], dict[int, str]]:
    """Returns the numbers of valid rows, the places of these rows, and the reason for every other row.

    Numbers are copied only if something is null.

    >>> floats, rows, wrong = points(pa.array([[1.0, 2.0], None, [3.0]]), 2, "embedding")
    >>> floats.tolist(), rows.tolist(), wrong
    ([[1.0, 2.0]], [0], {1: 'is null', 2: 'has 1 numbers, the model takes 2'})
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    lists = _as_lists(array, dimensions, name)
    every = np.arange(len(lists))
    lengths = _lengths(lists, dimensions)
    if lists.null_count == 0 and (lengths == dimensions).all():
        flat = lists.flatten()
        if flat.null_count == 0:
            return flat.to_numpy(zero_copy_only=True).reshape(-1, dimensions), every, {}
    there = lists.is_valid().to_numpy(zero_copy_only=False)
    wrong = {int(row): "is null" for row in every[~there]}
    wrong |= {
        int(row): f"has {lengths[row]} numbers, the model takes {dimensions}"
        for row in every[there & (lengths != dimensions)]
    }
    rows = every[there & (lengths == dimensions)]
    flat = lists.take(pa.array(rows)).flatten()
    nulls = flat.is_null().to_numpy(zero_copy_only=False).reshape(-1, dimensions).any(axis=1)
    wrong |= {int(row): "holds a null" for row in rows[nulls]}
    values = flat.fill_null(0).to_numpy(zero_copy_only=False).reshape(-1, dimensions)
    return values[~nulls], rows[~nulls], wrong


def _as_lists(array: pa.Array, dimensions: int, name: str) -> pa.Array:
    kind = array.type
    is_view = getattr(pa.types, "is_list_view", lambda _: False)
    if is_view(kind):
        array = array.cast(pa.list_(kind.value_type))
    elif pa.types.is_fixed_size_list(kind):
        if kind.list_size != dimensions:
            raise ValueError(f"`{name}` has {kind.list_size} numbers per row, the model takes {dimensions}")
    elif not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise ValueError(f"`{name}` holds {kind}; a list of floats per row is needed")
    if not pa.types.is_floating(array.type.value_type):
        raise ValueError(
            f"`{name}` holds lists of {array.type.value_type}; lists of 16-, 32- or 64-bit floats are needed"
        )
    return array


def _lengths(lists: pa.Array, dimensions: int) -> NDArray[np.int64]:
    if pa.types.is_fixed_size_list(lists.type):
        return np.full(len(lists), dimensions)
    return np.asarray(np.diff(lists.offsets.to_numpy()), np.int64)
