"""The result of a query."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _forms, _kubist, _saved, _shown
from ._errors import InvalidInput, Refused
from ._figures import Stats, parse
from ._libraries import need
from ._polars import polars_frame

if TYPE_CHECKING:
    import astropy.table
    import geopandas
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyvista
    import xarray

_SHOWN = 10
"""Maximum number of rows that a console or a notebook shows."""


class Result:
    """The result of a query, for conversion to arrays, tables and files.

    A conversion or an iteration reads the rows; before, only the first batches are read.

    >>> r = t.query(box={"x": (0.1, 0.2)}, sample=0.01)
    >>> arrays = r.to_numpy()          # or to_arrow(), to_pandas(), to_polars()
    >>> for batch in t.query():        # pyarrow.RecordBatch by RecordBatch, bounded memory
    ...     use(batch)
    >>> duckdb.sql("SELECT ... FROM r")   # anything that reads __arrow_c_stream__

    A second conversion reads the same rows again, from the same snapshot, unless `materialize`
    keeps them in memory. Damaged data raises `kubist.Damaged`. Ctrl-C stops the query.
    """

    def __init__(
        self,
        stream: _kubist.Stream,
        again: Callable[[], _kubist.Stream],
        metadata: Callable[[], str],
        origin: _saved.Origin | None = None,
    ) -> None:
        # All streams have the same fraction and schema as the first one.
        self._first = stream
        self._latest = stream
        self._again = again
        self._metadata = metadata
        self._origin = origin
        self._kept: tuple[_kubist.Batches, str] | None = None
        self._times_read = 0
        self._closed = False
        self._lock = threading.Lock()

    def _read(self) -> _kubist.Stream:
        with self._lock:
            if self._closed:
                raise Refused("this result was closed by close(): run the query again")
            if self._kept is not None:
                batches, stats = self._kept
                self._latest = _kubist.replay(batches, stats, self._first.fraction())
            elif self._times_read > 0:
                self._latest = self._again()
            self._times_read += 1
            return self._latest

    def materialize(self) -> Result:
        """Reads all rows into memory for later conversions.

        Returns
        -------
        Result
            This result.

        Examples
        --------
        >>> r = t.query(box={"x": (0.1, 0.2)}).materialize()
        >>> r.to_numpy(), r.to_pandas()                # read once
        """
        if self._kept is None:
            stream = self._read()
            batches = stream.collect()
            try:
                stats = stream.stats()
            except Refused:
                stats = ""  # a server does not report costs
            with self._lock:
                self._kept = batches, stats
        return self

    def to_arrow(self) -> pa.Table:
        """Returns all rows as a `pyarrow.Table`."""
        pa = need("pyarrow", "to_arrow()")
        # `pa.table` would import pandas to check for a DataFrame.
        return pa.RecordBatchReader.from_stream(self._read().collect()).read_all()

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Returns all rows as a `pandas.DataFrame`; ``options`` go to `pyarrow.Table.to_pandas`.

        Integers and booleans with nulls get pandas' nullable types ``Int64`` and ``boolean``, so
        integers stay exact. In floats, null becomes NaN. A column with nulls and NaN gets the type
        ``double[pyarrow]`` or ``float[pyarrow]``, which distinguishes them. `Table.append` reads
        NaN in pandas' own types as null.
        """
        need("pandas", "to_pandas()")
        need("pyarrow", "to_pandas()")
        if options:
            return _forms.to_pandas(self.to_arrow(), options)
        return _forms.frame(self._read().whole())

    def to_polars(self) -> pl.DataFrame:
        """Returns all rows as a `polars.DataFrame`, without pyarrow."""
        return polars_frame(self._read().collect(), "to_polars()")

    def to_numpy(
        self, frames: str | None = None, atoms: str | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Returns all rows as one NumPy array per column, without pyarrow.

        A column with nulls is a `numpy.ma.MaskedArray` of the column's type. Nulls in times, and in
        floats without NaN, become NaT and NaN in a plain array; decimals become floats. Types that
        NumPy lacks become strings in an array of objects, with None for null.

        Parameters
        ----------
        frames, atoms
            The columns of frame and atom numbers, given together: these arrays then have the sorted
            numbers, and the others the shape (frames, atoms).

        Raises
        ------
        InvalidInput
            An atom does not have exactly one row in every frame.

        Examples
        --------
        >>> a = t.query(where="pid in (3, 7)").to_numpy(frames="time", atoms="pid")
        >>> a["x"].shape, a["time"].shape
        ((250, 2), (250,))
        """
        if (frames is None) != (atoms is None):
            raise InvalidInput("to_numpy(): give both frames and atoms, or neither")
        if frames is not None and atoms is not None:
            return _forms.grid(self.to_numpy(), (frames, atoms), "to_numpy()")
        numpy = need("numpy", "to_numpy()")
        whole = self._read().whole()
        return {name: _column(numpy, whole, place) for place, name in enumerate(whole.names())}

    def _batches(self) -> Iterator[_kubist.Batch]:
        stream = self._read()
        while (batch := stream.next_batch()) is not None:
            yield batch

    def _numpy_batches(self, numpy: Any) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
        """The batches as arrays by column; at least one batch, which may be empty."""
        stream = self._read()
        names = stream.names()
        batch: _kubist.Batch | None = stream.next_batch() or stream.empty_batch()
        while batch is not None:
            yield {name: _array(numpy, *batch.column(place)) for place, name in enumerate(names)}
            batch = stream.next_batch()

    def to_xarray(self, *axes: str) -> xarray.Dataset:
        """Returns all rows as an `xarray.Dataset`, with units.

        Parameters
        ----------
        axes
            The columns that become dimensions, as ``"time", "pid"``; the other columns become
            arrays over these dimensions. Without axes, the dimension is ``row``.

        Raises
        ------
        InvalidInput
            A combination of axis values does not have exactly one row.
        """
        need("xarray", "to_xarray()")
        return _forms.to_xarray(self.to_arrow(), axes)

    def to_geopandas(self, x: str = "x", y: str = "y", crs: Any = None) -> geopandas.GeoDataFrame:
        """Returns all rows as a `geopandas.GeoDataFrame` of points.

        Parameters
        ----------
        x, y
            The columns of the coordinates.
        crs
            The reference system of the coordinates, as ``"EPSG:4326"``.
        """
        need("geopandas", "to_geopandas()")
        return _forms.to_geopandas(self.to_arrow(), x, y, crs)

    def to_astropy(self) -> astropy.table.Table:
        """Returns all rows as an `astropy.table.Table`, with units; nulls are masked."""
        need("astropy", "to_astropy()")
        return _forms.to_astropy(self.to_arrow())

    def to_pyvista(self, x: str = "x", y: str = "y", z: str | None = "z") -> pyvista.PolyData:
        """Returns all rows as a `pyvista.PolyData` of points, with the other columns as point data.

        Parameters
        ----------
        x, y, z
            The columns of the coordinates; without z the points are in a plane.
        """
        need("pyvista", "to_pyvista()")
        return _forms.to_pyvista(self.to_arrow(), x, y, z)

    def write(
        self, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Writes all rows to a file: Parquet, Arrow, CSV, ECSV, FITS, LAS, LAZ, VTP or openPMD.

        Parameters
        ----------
        path
            The file; its suffix selects the format: .parquet, .arrow, .csv, .fits, .las, .laz,
            .copc.laz, .vtp, or .h5 and .bp for openPMD.
        metadata
            Metadata for the format; None: the metadata of the table, with which positions from a
            LAS file are written exactly.

        Raises
        ------
        InvalidInput
            The suffix belongs to no format, or the format cannot store a column.
        FileNotFoundError
            The folder does not exist.
        """
        from .exporting import write

        need("pyarrow", "write()")
        write(self.to_arrow(), path, json.loads(self._metadata()) if metadata is None else metadata)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the query, so that `recompute` can repeat it and compare the rows.

        The file has location, snapshot, query, version, and the number and a digest of the rows,
        which this call reads. `write` stores the rows themselves.

        Parameters
        ----------
        path
            The file, such as ``"deposition.kubist"``.

        Examples
        --------
        >>> t.query(where="deposited").save("deposition.kubist")
        >>> kubist.recompute("deposition.kubist").same
        True
        """
        need("pyarrow", "save()")
        _saved.write(path, self._origin, _saved.rows_answer(self, self.fraction))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        pa = need("pyarrow", "iteration")
        return _batches(self._read(), pa)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Streams the batches through the Arrow C stream interface."""
        return self._read().__arrow_c_stream__(requested_schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result, as a `pyarrow.Schema`."""
        return need("pyarrow", "schema").schema(self._first.schema())

    @property
    def fraction(self) -> float:
        """The fraction of the matching rows that is in the result, in (0, 1].

        The result has all matching rows with a priority below the fraction, so each row has the
        weight 1 / fraction in an estimate. With ``limit``, it is the priority of the first row that
        was left out (or 1), and this property waits for the first batch.
        """
        return self._first.fraction()

    @property
    def stats(self) -> Stats:
        """The cost of the latest read so far, final after all rows were read.

        For remote results, it raises `kubist.Refused`.
        """
        text = self._latest.stats()
        if not text:
            raise Refused("a server does not report the cost of its results")
        return parse(Stats, text)

    def close(self) -> None:
        """Stops the query and frees its memory, as garbage collection does."""
        with self._lock:
            self._closed = True
            self._kept = None
        self._first.close()
        self._latest.close()

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInput(
            "the result of a query cannot be pickled: pickle its rows (to_arrow()), the snapshot "
            "and ask it again, or a part of t.splits()"
        )

    def __repr__(self) -> str:
        if self._kept is not None and not self._closed:
            return _shown.text_table(*self._preview())
        columns = ", ".join(map(_kubist.printable, self._first.names()))
        if self._closed:
            state = "closed"
        elif self._times_read == 0:
            state = "not yet read"
        else:
            state = f"{_shown.counted(self._latest.rows(), 'record')} read so far"
        fraction = _kubist.fraction(self._first.fraction())
        return f"<kubist.Result of {columns}: fraction {fraction}, {state}>"

    def _repr_html_(self) -> str:
        if self._closed:
            return _shown.html_notes([repr(self)])
        return _shown.html_table(*self._preview())

    def _preview(
        self, stream: _kubist.Stream | None = None, most: int = _SHOWN
    ) -> tuple[list[str], list[list[str | None]], list[str]]:
        if stream is None and self._kept is not None:
            stream = _kubist.replay(*self._kept, self._first.fraction())
        elif stream is None:
            stream = self._again()
        titles = zip(stream.names(), stream.units(), strict=True)
        names = [_shown.with_unit(name, unit) for name, unit in titles]
        rows: list[list[str | None]] = []
        found = 0
        try:
            while (batch := stream.next_batch()) is not None:
                found += batch.rows()
                columns = [batch.texts(place, most - len(rows)) for place in range(len(names))]
                rows += map(list, zip(*columns, strict=True))
                # Counting rows in memory costs nothing.
                if len(rows) >= most and self._kept is None:
                    break
        finally:
            stream.close()
        fraction = f"fraction {_kubist.fraction(self._first.fraction())}"
        if self._kept is not None or found < most:
            note = f"{_shown.counted(found, 'record')}, {fraction}"
        else:
            note = f"the first {len(rows)} records, {fraction}"
        return names, rows, [note]


def _batches(stream: _kubist.Stream, pa: Any) -> Iterator[pa.RecordBatch]:
    while (batch := stream.next_batch()) is not None:
        yield pa.record_batch(batch)


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
    masked: np.ndarray[Any, Any] = numpy.ma.MaskedArray(array, numpy.asarray(nulls))
    return masked


def _column(numpy: Any, whole: _kubist.Whole, place: int) -> np.ndarray[Any, Any]:
    """A column as one array with its own memory."""
    array = _array(numpy, *whole.column(place))
    return _forms.unmasked(array) if isinstance(array, numpy.ma.MaskedArray) else array


Result.__module__ = "kubist"
