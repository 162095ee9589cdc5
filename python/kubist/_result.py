"""The answer of a query."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _forms, _kubist
from ._data import need
from ._errors import InvalidInput, Refused
from ._figures import Stats, parse

if TYPE_CHECKING:
    import astropy.table
    import geopandas
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyvista
    import xarray


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

    def to_numpy(
        self, frames: str | None = None, atoms: str | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """All rows as one NumPy array a column (pyarrow is not needed).

        Null is NaN in numbers, which integers and booleans become floats for, and NaT in
        times. Decimals are floats. What NumPy has no type for is text, in an array of
        objects, with None for null.

        Args:
            frames, atoms: Columns that tell frames, and atoms, apart. With both each other
                column is an array of shape (frames, atoms), in their order, and these two
                are their values.

        Raises:
            InvalidInput: Not every atom has one row in every frame.

        Example:
            >>> a = t.query(where="pid in (3, 7)").to_numpy(frames="time", atoms="pid")
            >>> a["x"].shape, a["time"].shape
            ((250, 2), (250,))
        """
        if (frames is None) != (atoms is None):
            raise InvalidInput("to_numpy(): frames and atoms go together")
        if frames is not None and atoms is not None:
            return _forms.grid(self.to_numpy(), (frames, atoms), "to_numpy()")
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

    def to_xarray(self, *axes: str) -> xarray.Dataset:
        """All rows as an `xarray.Dataset`, with units.

        Args:
            axes: Columns that become the dimensions, as ``"time", "pid"``; the others are
                arrays over them. None: one dimension, ``row``.

        Raises:
            InvalidInput: There is not one row for each place of the axes.
        """
        need("xarray", "to_xarray()")
        return _forms.to_xarray(self.to_arrow(), axes)

    def to_geopandas(self, x: str = "x", y: str = "y", crs: Any = None) -> geopandas.GeoDataFrame:
        """All rows as a `geopandas.GeoDataFrame` of points.

        Args:
            x, y: The columns that hold the coordinates.
            crs: Their reference system, as ``"EPSG:4326"``.
        """
        need("geopandas", "to_geopandas()")
        return _forms.to_geopandas(self.to_arrow(), x, y, crs)

    def to_astropy(self) -> astropy.table.Table:
        """All rows as an `astropy.table.Table`, with units; nulls are masked."""
        need("astropy", "to_astropy()")
        return _forms.to_astropy(self.to_arrow())

    def to_pyvista(self, x: str = "x", y: str = "y", z: str | None = "z") -> pyvista.PolyData:
        """All rows as a `pyvista.PolyData` of points, the other columns as their data.

        Args:
            x, y, z: The columns that hold the coordinates; z None: they lie in a plane.
        """
        need("pyvista", "to_pyvista()")
        return _forms.to_pyvista(self.to_arrow(), x, y, z)

    def write(
        self, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Writes all rows to a file for other programs: .las, .laz, .vtp, .fits, or openPMD as
        .h5 or .bp.

        Args:
            path: The file; its ending says what it becomes.
            metadata: ``t.metadata`` of a table that came from a LAS file: its scales and
                offsets then bring positions back exactly.

        Raises:
            InvalidInput: The ending names no format, or a column has no place in it.
        """
        from .exporting import write

        need("pyarrow", "write()")
        write(self.to_arrow(), path, metadata or {})

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
