"""Data on its way in: whatever holds columns, as Arrow batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _kubist
from ._errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

ACCEPTED = (
    "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or Polars DataFrame, "
    "a dict of columns, a numpy structured array, or anything with __arrow_c_stream__"
)


class Data:
    """Columns from anywhere: their schema at once, their batches in one pass.

    ``like`` returns the schema of the table that they go to; it gives types
    to values that have none of their own, as lists of Python numbers.
    """

    def __init__(self, source: Any, like: Callable[[], pa.Schema] | None = None) -> None:
        source = _with_arrow(source, like)
        self._batches: Iterator[_kubist.Incoming]
        if _is_a(source, "pyarrow", "Table") or _is_a(source, "pyarrow", "RecordBatch"):
            _check(source)
        if _is_a(source, "pyarrow", "RecordBatchReader"):
            # Pulled from Python, so that an exception of a generator behind
            # the reader stays what it is.
            self.schema = _kubist.Schema(source.schema)
            empty = source.schema.empty_table()
            self._batches = (_kubist.Incoming(part) for part in _or_empty(source, empty))
        else:
            incoming = _kubist.Incoming(source)
            self.schema = incoming.schema()
            self._batches = iter((incoming,))

    def __iter__(self) -> Iterator[_kubist.Incoming]:
        return self._batches


def is_schema(value: Any) -> bool:
    """A schema rather than data?"""
    return hasattr(value, "__arrow_c_schema__") and not (
        hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    )


def _or_empty(reader: Any, empty: Any) -> Iterator[Any]:
    """The reader's batches; if there are none, no rows with its columns."""
    came = False
    for batch in reader:
        came = True
        _check(batch)
        yield batch
    if not came:
        yield empty


def _check(data: Any) -> None:
    """Are the buffers as long as the arrays need? Beyond this border nobody knows.

    What is in them is looked at there, value by value.
    """
    try:
        data.validate()
    except ValueError as error:
        raise InvalidInput(f"the data could not be read: {error}") from None


def _with_arrow(source: Any, like: Callable[[], pa.Schema] | None) -> Any:
    """Something that speaks Arrow and has named columns."""
    if _is_a(source, "numpy", "ndarray") and source.dtype.names:
        source = {name: source[name] for name in source.dtype.names}
    if isinstance(source, Mapping):
        return _from_columns(source, like() if like else None)
    if _is_a(source, "pandas", "DataFrame"):
        return _from_pandas(source)
    if _is_a(source, "polars", "LazyFrame"):
        raise InvalidInput("a Polars LazyFrame has no rows yet: call collect() on it first")
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return source
    raise InvalidInput(f"expected {ACCEPTED}, not a {type(source).__name__}")


def _from_columns(columns: Mapping[Any, Any], like: pa.Schema | None) -> pa.Table:
    pa = need("pyarrow", "a dict of columns")
    arrays = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise InvalidInput(f"{name!r} is not a column name")
        arrays[name] = _column(name, values, like)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        lengths_shown = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InvalidInput(f"the columns differ in length: {lengths_shown} rows")
    return pa.table(arrays)


def _column(name: str, values: Any, like: pa.Schema | None) -> Any:
    pa = need("pyarrow", "a dict of columns")
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if not hasattr(values, "__len__") or isinstance(values, (str, bytes, Mapping)):
        raise InvalidInput(f"column {name}: expected values, not {values!r}")
    dtype: Any = getattr(values, "dtype", None)
    wanted = None
    if dtype is None and like is not None and like.get_field_index(name) >= 0:
        wanted = like.field(name).type
    if getattr(dtype, "byteorder", "=") not in "=|" and hasattr(values, "astype"):
        # Files of other machines: Arrow has native byte order only.
        values = values.astype(dtype.newbyteorder("="))
    if getattr(values, "ndim", 1) != 1:
        raise InvalidInput(
            f"column {name}: expected one dimension, not an array of shape {values.shape}"
        )
    try:
        return pa.array(values, type=wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"column {name}: {error}") from error


def _from_pandas(frame: Any) -> pa.Table:
    pa = need("pyarrow", "a pandas DataFrame")
    # A named index holds data; an unnamed one only counts rows.
    keep_index = any(name is not None for name in frame.index.names)
    try:
        table = pa.Table.from_pandas(frame, preserve_index=keep_index)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(f"the DataFrame does not fit into columns: {error}") from error
    return table.replace_schema_metadata(None)


def _is_a(value: Any, module: str, name: str) -> bool:
    """An instance of a class of a library that may not even be there."""
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def need(module: str, what: str) -> Any:
    """The optional library that ``what`` is made with."""
    try:
        return __import__(module)
    except ImportError as error:
        raise ImportError(f"{what} needs {module}: pip install {module}") from error
