"""Data to append, as Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _astropy, _kubist
from ._errors import InvalidInput
from ._libraries import is_a, need
from ._numpy import from_numpy, is_array

if TYPE_CHECKING:
    import pyarrow as pa

ACCEPTED = (
    "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or Polars DataFrame, "
    "a dict of columns, a list of dicts, an astropy Table, a numpy structured array, a Dask "
    "DataFrame, anything with __arrow_c_stream__, or an iterator of these"
)


class Data:
    """The schema of data, and its batches in one pass.

    ``like`` returns the schema of the target table, for the type of untyped values such as lists of
    Python numbers.
    """

    def __init__(self, source: Any, like: Callable[[], pa.Schema] | None = None) -> None:
        if (parts := _parts_of(source)) is not None:
            self._of_parts(parts, like)
            return
        source = _with_arrow(source, like)
        self._batches: Iterator[_kubist.Incoming]
        if is_a(source, "pyarrow", "Table") or is_a(source, "pyarrow", "RecordBatch"):
            _check(source)
        if is_a(source, "pyarrow", "RecordBatchReader"):
            # Iterated in Python, so an exception of the reader's generator keeps its type.
            self.schema = _kubist.Schema(source.schema)
            empty = source.schema.empty_table()
            self._batches = (_kubist.Incoming(part) for part in _or_empty(source, empty))
        else:
            own = isinstance(source, _kubist.Incoming)
            incoming = source if own else _kubist.Incoming(source)
            self.schema = incoming.schema()
            self._batches = iter((incoming,))

    def _of_parts(self, parts: Iterator[Any], like: Callable[[], pa.Schema] | None) -> None:
        first = next(parts, None)
        if first is None:
            raise InvalidInput("the iterator gave no data, not even an empty batch with columns")
        head = Data(first, like)
        self.schema = head.schema

        def batches() -> Iterator[_kubist.Incoming]:
            yield from head
            for part in parts:
                yield from Data(part, like)

        self._batches = batches()

    def __iter__(self) -> Iterator[_kubist.Incoming]:
        return self._batches


def _parts_of(source: Any) -> Iterator[Any] | None:
    """The parts of data; None if it has a single part."""
    if is_a(source, "pyarrow", "RecordBatchReader") or hasattr(source, "__arrow_c_stream__"):
        return None
    if hasattr(source, "npartitions") and hasattr(source, "get_partition"):
        # A Dask frame, one partition in memory at a time.
        return (source.get_partition(at).compute() for at in range(source.npartitions))
    if isinstance(source, Iterator):
        return source
    if isinstance(source, (list, tuple)) and not isinstance(next(iter(source), {}), Mapping):
        return iter(source)
    return None


def is_schema(value: Any) -> bool:
    return hasattr(value, "__arrow_c_schema__") and not (
        hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    )


def _or_empty(reader: Any, empty: Any) -> Iterator[Any]:
    came = False
    for batch in reader:
        came = True
        _check(batch)
        yield batch
    if not came:
        yield empty


def _check(data: Any) -> None:
    """Checks the lengths of the buffers, which the engine cannot check."""
    try:
        data.validate()
    except ValueError as error:
        raise InvalidInput(f"the data could not be read: {error}") from None


def _with_arrow(source: Any, like: Callable[[], pa.Schema] | None) -> Any:
    if is_a(source, "numpy", "ndarray") and source.dtype.names:
        source = {name: source[name] for name in source.dtype.names}
    if _astropy.is_table(source):
        return _astropy.table(source)
    if isinstance(source, Mapping):
        return _from_columns(source, like)
    if isinstance(source, (list, tuple)):
        return _from_columns(_from_rows(source, like), like)
    if is_a(source, "polars", "DataFrame"):
        _check_polars(source)
    if is_a(source, "pandas", "DataFrame"):
        return _from_pandas(source)
    if is_a(source, "polars", "LazyFrame"):
        raise InvalidInput("a Polars LazyFrame has no rows yet: call collect() on it first")
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return source
    if isinstance(source, (str, os.PathLike)):
        raise InvalidInput(
            f"expected {ACCEPTED}, not the name of a file: ingest files with "
            "kubist.ingest() or the command `kubist ingest`"
        )
    raise InvalidInput(f"expected {ACCEPTED}, not a {type(source).__name__}")


def _from_columns(columns: Mapping[Any, Any], like: Callable[[], pa.Schema] | None) -> Any:
    """A table of named columns: Kubist's own for NumPy arrays, else pyarrow's."""
    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise InvalidInput(f"{name!r} is not a column name")
        arrays[name] = _column(name, values, like)
    units = {name: unit for name, values in columns.items() if (unit := _unit(values))}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        lengths_shown = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InvalidInput(f"the columns differ in length: {lengths_shown} records")
    if all(isinstance(array, _kubist.NumpyColumn) for array in arrays.values()):
        return _kubist.numpy_columns(list(arrays), list(arrays.values()))
    pa = need("pyarrow", "a dict of columns")
    table = pa.table(arrays)
    fields = [
        field.with_metadata({"unit": units[field.name]}) if field.name in units else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields)) if units else table


def _from_rows(rows: Sequence[Any], like: Callable[[], pa.Schema] | None) -> dict[str, list[Any]]:
    """The columns of rows that are dicts; missing keys are null."""
    columns: dict[Any, list[Any]] = {}
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidInput(f"row {at}: expected a dict of values, not a {type(row).__name__}")
        for name in row.keys() - columns.keys():
            columns[name] = []
    names = [*rows[0], *sorted(columns.keys() - rows[0].keys(), key=str)] if rows else []
    if not rows and like is not None:
        return {name: [] for name in like().names}
    return {name: [row.get(name) for row in rows] for name in names}


def _check_polars(frame: Any) -> None:
    """Refuses types that Polars cannot export."""
    for name, kind in frame.schema.items():
        if str(kind) in ("Int128", "UInt128", "Object"):
            raise InvalidInput(
                f"column {name}: Polars' {kind} has no Arrow type: cast the column first, "
                "for example to Int64, Decimal(38, 0) or String"
            )


def _unit(values: Any) -> str | None:
    if is_a(values, "xarray", "DataArray"):
        return _astropy.unit_text(values.attrs.get("units"))
    if not _astropy.is_measured(values):
        return None
    return _astropy.unit_text(getattr(values, "unit", getattr(values, "units", None)))


def _column(name: str, values: Any, like: Callable[[], pa.Schema] | None) -> Any:
    if _astropy.is_measured(values):
        try:
            made = _astropy.columns(name, values)
        except _astropy.Unreadable as why:
            raise InvalidInput(f"column {name}: {why}") from None
        if name not in made:
            raise InvalidInput(
                f"column {name}: expected one dimension, not an array of {len(made)}"
            )
        return made[name][0]
    if is_array(values):
        return from_numpy(name, values)
    if not hasattr(values, "__len__") or isinstance(values, (str, bytes, Mapping)):
        raise InvalidInput(f"column {name}: expected values, not {values!r}")
    pa = need("pyarrow", f"column {name}, which is a {type(values).__name__} and no NumPy array,")
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    wanted = None
    if getattr(values, "dtype", None) is None and like is not None:
        schema = like()
        wanted = schema.field(name).type if schema.get_field_index(name) >= 0 else None
    try:
        given = _untyped(pa, values, wanted)
        return pa.array(values, type=wanted) if given is None else given
    except OverflowError as error:
        large = (
            at for at, v in enumerate(values) if isinstance(v, int) and not -(2**63) <= v < 2**64
        )
        if (row := next(large, None)) is None:
            raise InvalidInput(f"column {name}: {error}") from error
        raise InvalidInput(
            f"column {name}, row {row}: {values[row]} does not fit an integer of 64 bits: give "
            "floats, or decimal.Decimal values"
        ) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        row = _first_bad(pa, values, wanted)
        place = f"column {name}" if row is None else f"column {name}, row {row}"
        raise InvalidInput(f"{place}: {error}") from error


def _first_bad(pa: Any, given: Any, wanted: Any) -> int | None:
    """The first row that cannot be converted with those before it; None without rows."""
    values = list(given)
    first, last = 0, len(values)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            pa.array(values[:middle], type=wanted)
            first = middle
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            last = middle
    return first if last else None


def _untyped(pa: Any, values: Any, wanted: Any) -> Any:
    """Numbers and times in their own type; None: pyarrow converts them to ``wanted``.

    With the table's type, pyarrow would truncate them.
    """
    kinds = pa.types
    if wanted is not None and not (kinds.is_primitive(wanted) or kinds.is_decimal(wanted)):
        return None
    try:
        given = pa.array(values)
    except (pa.ArrowException, OverflowError):
        # For example, integers beyond 64 bits.
        return None
    found = given.type
    # pyarrow infers a type without pandas' nanoseconds.
    if kinds.is_timestamp(found) and any(getattr(v, "nanosecond", 0) for v in values):
        given = pa.array(values, pa.timestamp("ns", found.tz))
    elif kinds.is_duration(found) and any(getattr(v, "nanoseconds", 0) for v in values):
        given = pa.array(values, pa.duration("ns"))
    if wanted is None or found == wanted:
        return given
    if kinds.is_floating(wanted) and kinds.is_floating(found):
        return _narrower(given, wanted)
    if kinds.is_temporal(wanted) and not kinds.is_temporal(found):
        # Numbers in the unit of ``wanted``.
        return None
    if kinds.is_timestamp(wanted) and kinds.is_timestamp(found) and wanted.tz and not found.tz:
        # Times without a zone are in UTC.
        return None
    return given if kinds.is_primitive(found) or kinds.is_decimal(found) else None


def _narrower(given: Any, wanted: Any) -> Any:
    """Python numbers, rounded to a narrower type if they print as before: 0.1, not 2460000.123."""
    import numpy as np
    import pyarrow as pa

    values = given.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow = values.astype(wanted.to_pandas_dtype())
    printed = narrow.astype(str).astype("f8")
    rounded = np.where(printed == values, narrow.astype("f8"), values)
    return pa.array(rounded, mask=given.is_null().to_numpy(zero_copy_only=False))


def _from_pandas(frame: Any) -> pa.Table:
    pa = need("pyarrow", "a pandas DataFrame")
    # A named index is data; an unnamed one counts rows.
    keep_index = any(name is not None for name in frame.index.names)
    try:
        table = pa.Table.from_pandas(frame, preserve_index=keep_index)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(f"the DataFrame does not fit into columns: {error}") from error
    return table.replace_schema_metadata(None)


def one_column(name: str, type: Any, nullable: bool) -> _kubist.Schema:
    """A schema with a single column; ``type`` is a name, a `numpy.dtype` or a
    `pyarrow.DataType`."""
    if isinstance(type, str):
        return _kubist.Schema.of_column(name, type, nullable)
    if is_a(type, "numpy", "dtype"):
        return _kubist.Schema.of_column(name, type.name, nullable)
    pa = need("pyarrow", "a column of a type that is not text")
    try:
        return _kubist.Schema(pa.schema([pa.field(name, type, nullable=nullable)]))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"column {name}: {type!r} is not a type: {error}") from None
