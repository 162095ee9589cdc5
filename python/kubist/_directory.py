"""Methods of tables and snapshots whose files this process reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, cast

from . import _box, _kubist
from ._asked import Part, Region, Rest
from ._data import one_column
from ._errors import InvalidInput
from ._figures import Explanation
from ._libraries import need
from ._looks import Looks
from ._options import checked_options
from ._pushdown import both
from ._shown import counted
from ._speed import expected
from ._split import Split
from .neighbours import Neighbours

if TYPE_CHECKING:
    import dask.dataframe
    import numpy as np
    import pyarrow as pa

    from ._arguments import Box, Domain, Period
    from ._speed import Explains

Mapped = TypeVar("Mapped")

# The type of an open table, because the module of `Table` imports this one.
Opened = TypeVar("Opened")


class InDirectory(Neighbours, Looks, Generic[Opened]):
    """A table or a snapshot whose files this process reads."""

    _table: _kubist.Table

    def _pinned(self) -> _kubist.Snapshot:
        raise NotImplementedError

    def _open(self, location: str) -> Opened:
        raise NotImplementedError

    @property
    def location(self) -> str:
        """The location of the table."""
        return self._table.location()

    @checked_options(Rest)
    def explain(
        self,
        box: Box | None = None,
        *,
        fit: str | os.PathLike[str] | None = None,
        predict: bool = False,
        **asked: Unpack[Rest],
    ) -> Explanation:
        """Runs a query, discards its rows, and reports how long each stage took.

        Parameters
        ----------
        box, where, region, relation, sample, window, steps, columns, inclusion, limit, order_by,
        per_cell
            As for `query`.
        fit
            A file that ``kubist model fit -o FILE`` wrote for this store, to predict the time.
        predict
            Also predict the time on this machine, as ``expected``. About 40 random queries first
            measure the machine, in up to 4 seconds, and the measurement is valid for two minutes.

        Examples
        --------
        >>> t.explain(sample=0.01, fit="droplets.fit.json").predicted
        >>> t.explain(box={"x": (0.1, 0.2)}, predict=True).expected
        """
        question = self._question(box=box, **asked)
        text = None if fit is None else Path(fit).read_text(encoding="utf-8")
        found = Explanation.parse(self._pinned().explain(question, text))
        if not predict:
            return found
        own = cast("Explains", self)
        return replace(found, expected=expected(own, {"box": box, **asked}, found.stats))

    @checked_options()
    def held(self, box: Box | None = None, *, columns: Sequence[str] | None = None) -> float:
        """Returns the fraction of the rows of a box that a partial copy holds; 1 for other tables.

        Queries on the box with at most this ``sample`` are answered without the source.

        Parameters
        ----------
        box
            The region, as for `query`; None: everywhere.
        columns
            The columns of the queries; None: all columns that the copy was made for.

        Examples
        --------
        >>> t.held({"x": (0.1, 0.2)})
        0.0121
        """
        return self._pinned().held(self._question(box=box, columns=columns))

    @checked_options()
    def crops(
        self,
        number: int,
        size: float | Mapping[str, float],
        *,
        points: int,
        columns: Sequence[str] | None = None,
        centre: Literal["records", "space"] = "records",
        box: Box | None = None,
        where: str | None = None,
        seed: int = 0,
        batch: int = 1,
        first: int = 0,
    ) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
        """Yields random boxes in space with their rows (crops), for models of point clouds.

        A crop has up to ``points`` rows of lowest priority in its box, which are a uniform sample.
        Crops depend only on the parameters and the snapshot of this call.

        Parameters
        ----------
        number
            The number of crops.
        size
            The width of a crop by axis, in the column's unit: ``{"x": 0.1, "y": 0.1}``; or a number
            for all dimensions.
        points
            The maximum number of rows of a crop.
        columns
            Columns and expressions of numbers, which become ``x``.
        centre
            ``"records"``: crops around random rows. ``"space"``: crops around random positions in
            the box or the domain; these crops may be empty.
        box, where
            The rows, as for `query`.
        seed
            The seed of the centres.
        batch
            The number of crops per yielded dict.
        first
            The number of the first crop, to continue an interrupted loop.

        Returns
        -------
        Iterator of dict
            ``pos``: positions relative to the centre, float32, of shape (rows, axes). ``x``: the
            columns, float32, of shape (rows, columns), with NaN for null. ``batch``: the rows' crop
            indices, from 0. ``ptr``: the crops' first rows, and the number of rows. PyTorch
            Geometric uses the same names. ``centre``: of shape (crops, axes). ``number``: the
            numbers of the crops.

        Raises
        ------
        InvalidInput
            An option is invalid, a column does not have numbers, or the table samples by a weight
            or strata, so that the rows of lowest priority are not a uniform sample.

        Examples
        --------
        >>> for crop in t.crops(1000, {"x": 5, "y": 5}, points=1024, columns=["z"], batch=16):
        ...     train(crop["pos"], crop["x"], crop["batch"])
        """
        need("numpy", "crops()")
        from . import _crops

        asked = _crops.asked(
            number,
            size,
            axes=[each.column for each in self._about().dimensions],
            points=points,
            columns=columns,
            centre=centre,
            box=box,
            where=where,
            seed=seed,
            batch=batch,
            first=first,
        )
        return _crops.crops(self, asked)

    @checked_options(Part)
    def splits(
        self,
        parts: int,
        *,
        box: Box | None = None,
        by: Literal["space", "hosts"] = "space",
        **asked: Unpack[Part],
    ) -> list[Split]:
        """Splits a query into disjoint parts, for several processes or machines.

        Each row of the query is in exactly one part. Parts are compact in space, have about equally
        many rows, can be pickled, and read the snapshot of this call in any process.

        Parameters
        ----------
        parts
            The number of parts, 1 to 65,536; some may be empty.
        box, where, region, relation, sample, window, steps, columns, inclusion
            As for `query`.
        by
            ``"space"``, or ``"hosts"`` for a table on a cluster: a single host, the first of
            ``preferred_hosts``, can then read the whole part, but parts are not compact.

        Raises
        ------
        InvalidInput
            As for `query`; ``parts`` is out of range; ``limit`` or ``per_cell``, which select from
            all rows, is given.

        Examples
        --------
        >>> with multiprocessing.Pool() as pool:
        ...     tables = pool.map(kubist.Split.to_arrow, t.splits(8, sample=0.1))
        """
        question = self._question(box=box, **asked)
        number = _box.count("parts", parts, least=1, most=2**16)
        if by not in ("space", "hosts"):
            raise InvalidInput(f"by: expected 'space' or 'hosts', not {by!r}")
        return [Split(text) for text in self._pinned().splits(question, number, by == "hosts")]

    @checked_options(Part)
    def map(
        self,
        function: Callable[[Split], Mapped],
        processes: int | None = None,
        *,
        splits: int | None = None,
        box: Box | None = None,
        progress: Callable[[int, int], object] | None = None,
        **asked: Unpack[Part],
    ) -> list[Mapped]:
        """Calls a function with every part of a query, in several processes.

        Parameters
        ----------
        function
            Called with a `Split` in another process; ``split.to_pandas()`` reads its rows. The
            function and its results are pickled; lambdas and functions of a notebook need
            cloudpickle.
        processes
            The number of processes; None: one for each core.
        splits
            The number of parts; None: four for each process.
        box, where, region, relation, sample, window, steps, columns, inclusion
            As for `query`.
        progress
            Called after each part with the approximate rows done and in total.

        Returns
        -------
        list
            The results, in the order of `splits`.

        Raises
        ------
        InvalidInput
            As for `query`; or the function cannot be pickled.
        StorageError
            A process was killed.

        Notes
        -----
        The first exception, or Ctrl-C, stops all processes. Each process imports the main script,
        so put the script's calls under ``if __name__ == "__main__":``.

        Examples
        --------
        >>> def drops(part):
        ...     return part.to_pandas()["deposited"].sum()
        >>> sum(t.map(drops, processes=4, box={"x": (0.1, 0.2)}))
        """
        from ._map import map_parts

        number = _box.count("processes", processes or os.cpu_count() or 1, least=1, most=4096)
        parts = self.splits(4 * number if splits is None else splits, box=box, **asked)
        return map_parts(function, parts, number, progress)

    @checked_options(Part)
    def to_dask(
        self, partitions: int | None = None, *, box: Box | None = None, **asked: Unpack[Part]
    ) -> dask.dataframe.DataFrame:
        """Returns the rows of a query as a Dask DataFrame.

        Each partition is a split, which a worker reads from the snapshot of this call. Dask pushes
        down columns, but no filters: select rows by the parameters of this call. Nullable integers
        and booleans have pandas' nullable types.

        Parameters
        ----------
        partitions
            The number of partitions; None: about a million rows each.
        box, where, region, relation, sample, window, steps, columns, inclusion
            As for `query`.

        Examples
        --------
        >>> df = t.to_dask(8, where="diameter > 2e-5", sample=0.1)
        >>> df.groupby("deposited")["ux"].mean().compute()
        """
        from ._partitions import ROWS, frame

        if partitions is None:
            partitions = 1 + self.count(box, **_region(asked)) // ROWS
        parts = self.splits(partitions, box=box, **asked)
        nothing = both(asked.get("where"), "FALSE")
        empty: Part = {**asked, "where": nothing}
        found: dask.dataframe.DataFrame = frame(parts, self.query(box, **empty))
        return found

    @checked_options()
    def copy_to(
        self,
        path: str | os.PathLike[str],
        *,
        dimensions: Mapping[str, Domain] | Sequence[str] | None = None,
        capacity: int | None = None,
        types: Mapping[str, pa.DataType | np.dtype[Any] | str] | None = None,
        strata: str | None = None,
        period: Mapping[str, Period | None] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Opened:
        """Copies all rows into a new table at ``path``.

        The copy has the rows of a single snapshot, appears as a whole or not at all, and needs
        bounded memory. It keeps columns, identity, seed (and so the samples), steps, units and
        metadata. It has no commit tokens and no declared writers, so all its steps are complete.

        Parameters
        ----------
        path
            The location of the copy; nothing may exist there.
        dimensions
            The columns to index and their domains, as in `create`; only columns that the table was
            created with. A sample of all rows determines the domains that are not given; None: the
            same grid.
        capacity
            The approximate number of rows in a cube; None: as in this table, or the default for
            other strata.
        types
            Wider types of columns, for later appends: integers or floats that can store every old
            value.
        strata
            ``"halvings"``, or ``"windows"`` for `Loader`, as for `create`; None: the same.
        period
            New periods of columns, as for `create`; None removes the period of a column.
        progress
            Called repeatedly with the number of rows done and in total.

        Returns
        -------
        Table
            The copy, open.

        Examples
        --------
        >>> t.copy_to("better.kubist", dimensions={"x": (0, 0.2), "z": "quantile"})
        >>> wide = t.copy_to("wide.kubist", types={"id": "uint64"})
        """
        location = location_of(path)
        self._pinned().copy_to(
            location,
            dimensions=None if dimensions is None else _box.dimensions(dimensions),
            capacity=None if capacity is None else _box.count("capacity", capacity, most=2**32 - 1),
            types=[one_column(name, kind, True) for name, kind in (types or {}).items()],
            strata=None if strata is None else str(strata),
            period=_box.periods(period),
            progress=progress,
        )
        return self._open(location)

    @checked_options()
    def pack(
        self,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> Opened:
        """Writes all rows to one sealed file at ``path``, for publishing (docs/publishing.md).

        Like a copy of `copy_to`, the file has the rows of a single snapshot and appears as a whole
        or not at all. It never changes. `open` also opens it in an object store and at
        ``https://...`` on a web server with range requests. `kubist.unpack` makes a writable table
        from it.

        Parameters
        ----------
        path
            The path of the new file; nothing may exist there.
        progress
            Called repeatedly with the number of rows done and in total.

        Returns
        -------
        Table
            The sealed table, open.

        Examples
        --------
        >>> t.pack("airway.kubist1").count()
        1000000
        """
        location = location_of(path)
        self._pinned().pack(location, progress=progress)
        return self._open(location)

    def _described(self, kind: str) -> str:
        try:
            rows = counted(len(self), "record")
        except Exception as error:
            rows = f"{type(error).__name__}: {error}"
        return f"<kubist.{kind} {self.location!r}: {rows}>"


def _region(asked: Part) -> Region:
    names = Region.__annotations__
    return cast("Region", {name: value for name, value in asked.items() if name in names})


def location_of(path: str | os.PathLike[str]) -> str:
    try:
        location = os.fspath(path)
    except TypeError:
        kind = type(path).__name__
        raise InvalidInput(f"path must be a string or a path, not a {kind}") from None
    if not isinstance(location, str):
        raise InvalidInput(f"path must be text, not {type(location).__name__}")
    return location
