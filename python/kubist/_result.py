"""The answer of a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _kubist
from ._data import need
from ._errors import Refused
from ._figures import Stats, parse

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Result:
    """The answer of a query, read once, in the form you like.

    Nothing is read from disk beyond what the first batches need until you ask:

    >>> r = t.query(box={"x": (0.1, 0.2)}, precision=0.01)
    >>> frame = r.to_pandas()          # or to_arrow(), to_polars()
    >>> for batch in t.query():        # pyarrow.RecordBatch by RecordBatch, bounded memory
    ...     use(batch)
    >>> duckdb.sql("SELECT ... FROM r")   # anything that reads __arrow_c_stream__

    A result is one pass over the data: a second use raises `kubist.Refused`.
    Damage met on the way raises `kubist.Damaged`; Ctrl-C stops the work.
    """

    def __init__(self, stream: _kubist.Stream) -> None:
        self._stream = stream
        self._used: str | None = None

    def to_arrow(self) -> pa.Table:
        """All rows as a `pyarrow.Table`."""
        pa = need("pyarrow", "to_arrow()")
        self._use("to_arrow()")
        return pa.table(self._stream.collect())

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """All rows as a `pandas.DataFrame`; ``options`` go to `pyarrow.Table.to_pandas`."""
        need("pandas", "to_pandas()")
        pa = need("pyarrow", "to_pandas()")
        self._use("to_pandas()")
        return pa.table(self._stream.collect()).to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """All rows as a `polars.DataFrame` (pyarrow is not needed)."""
        polars = need("polars", "to_polars()")
        self._use("to_polars()")
        frame: pl.DataFrame = polars.DataFrame(self._stream.collect())
        return frame

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """All rows as one NumPy array a column (pyarrow is not needed).

        Null is NaN in numbers, which integers and booleans become floats for, and NaT in
        times. Decimals are floats. What NumPy has no type for is text, in an array of
        objects, with None for null.
        """
        numpy = need("numpy", "to_numpy()")
        self._use("to_numpy()")
        fields = self._stream.names()
        parts: list[list[np.ndarray[Any, Any]]] = [[] for _ in fields]
        while (batch := self._stream.next_batch()) is not None:
            for place, column in enumerate(parts):
                column.append(_array(numpy, *batch.column(place)))
        if not parts or not parts[0]:
            empty = self._stream.empty_batch()
            parts = [[_array(numpy, *empty.column(place))] for place in range(len(fields))]
        return {name: _joined(numpy, of) for name, of in zip(fields, parts, strict=True)}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        pa = need("pyarrow", "iteration")
        self._use("iteration")
        return self._batches(pa)

    def _batches(self, pa: Any) -> Iterator[pa.RecordBatch]:
        while (batch := self._stream.next_batch()) is not None:
            yield pa.record_batch(batch)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Streams the batches into any library that speaks the Arrow C stream interface."""
        self._use("__arrow_c_stream__()")
        return self._stream.__arrow_c_stream__(requested_schema)

    def _use(self, how: str) -> None:
        if self._used is not None:
            raise Refused(
                f"this result was already read by {self._used}: a result is one pass over "
                "the data, so run the query again"
            )
        self._used = how

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer, as a `pyarrow.Schema`."""
        return need("pyarrow", "schema").schema(self._stream.schema())

    @property
    def precision(self) -> float:
        """The share of the matching records that the answer holds, in (0, 1].

        All matching records with a priority below it are in the answer, so
        1 / precision is the weight of each row in an estimate. After ``limit``
        it is the priority of the first record left out (1 if none was); asking
        for it then waits for the first batch.
        """
        return self._stream.precision()

    @property
    def stats(self) -> Stats:
        """What the answer has cost so far; final once it has been read.

        A server keeps that to itself: of a remote answer it is `kubist.Refused`.
        """
        return parse(Stats, self._stream.stats())

    def close(self) -> None:
        """Stops the work and lets go of memory; a result that is dropped does so by itself."""
        self._used = self._used or "close()"
        self._stream.close()

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._used is None:
            return f"<kubist.Result not yet read: precision {self._stream.precision():.3g}>"
        return f"<kubist.Result read by {self._used}: {self._stream.rows():,} rows so far>"


def _array(
    numpy: Any,
    values: _kubist.Column | None,
    nulls: _kubist.Column | None,
    texts: list[str | None],
) -> np.ndarray[Any, Any]:
    if values is None:
        objects: np.ndarray[Any, Any] = numpy.empty(len(texts), dtype=object)
        objects[:] = texts
        return objects
    array: np.ndarray[Any, Any] = numpy.asarray(values)
    if nulls is None:
        return array
    if array.dtype.kind in "mM":
        array = numpy.where(numpy.asarray(nulls), numpy.array("NaT", array.dtype), array)
        return array
    floats: np.ndarray[Any, Any] = array.astype(
        array.dtype if array.dtype.kind == "f" else numpy.float64
    )
    floats[numpy.asarray(nulls)] = numpy.nan
    return floats


def _joined(numpy: Any, parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """One array, of its own memory; with a null anywhere numbers are floats throughout."""
    if any(part.dtype.kind == "f" for part in parts):
        parts = [part if part.dtype.kind == "f" else part.astype(numpy.float64) for part in parts]
    joined: np.ndarray[Any, Any] = numpy.concatenate(parts)
    return joined


Result.__module__ = "kubist"
