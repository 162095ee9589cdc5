"""Handles to tables and their snapshots."""

from __future__ import annotations

import copyreg
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _box, _kubist
from ._data import Data, one_column
from ._directory import InDirectory
from ._errors import InvalidInput, Refused
from ._extent import checked
from ._figures import Commit, parse
from ._objects import Objects
from ._options import checked_options
from ._reports import Cleaning, OptimizeReport, Regridded, Retraction, VerifyReport
from ._sites import AtSites
from ._tunnel import Tunnel
from ._view import View
from ._writer import Writer, append

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ._arguments import Domain, End, Period, Rows, Seconds
    from ._spec import QuerySpec
    from ._widget import Widget


class Table(Objects["Table"], AtSites):
    """An open table, from `kubist.create` or `kubist.open`.

    Threads may share a handle, but each process opens its own: after a fork, the parent's handle
    raises `kubist.Refused`. The first `append` opens a writer. `close`, or the end of a ``with``
    block, closes this writer and the handle.
    """

    def __init__(
        self, table: _kubist.Table, optimizer: _kubist.ReadOptimizer | None = None
    ) -> None:
        self._table = table
        self._read_optimizer = optimizer
        self._closed = False
        self._lock = threading.Lock()
        self._writer: _kubist.Writer | None = None

    @checked_options()
    def append(self, data: Rows, *, step: int | None = None, token: str | None = None) -> Commit:
        """Appends ``data`` as one commit, which is durable and visible on return.

        Other handles, threads and processes can append at the same time.

        Parameters
        ----------
        data
            A pyarrow Table, RecordBatch or RecordBatchReader, a pandas, Polars or Dask DataFrame, a
            dict of columns (numpy arrays, arrays with units, or lists), a list of dicts (one per
            row), an astropy Table or QTable, a numpy structured array, any object with
            ``__arrow_c_stream__``, or an iterator over such objects. Readers, iterators and Dask
            frames need bounded memory. Columns may be in any order. Kubist converts values of
            another type or unit without loss, or refuses them (docs/values.md).
        step, token
            The simulation step, and an identifier that makes a repeated call do nothing, as for
            `Writer.commit`.

        Returns
        -------
        Commit
            The number of rows, and other results.

        Raises
        ------
        InvalidInput
            A column is missing or unknown, or cannot store a value. The message names the table,
            column, row and value. After any error, no row of ``data`` is stored.
        StorageError
            The storage failed; no row of ``data`` is visible.
        """
        return self._append(data, step, token)

    def _append(
        self, data: Rows | Data, step: int | None = None, token: str | None = None
    ) -> Commit:
        self._check()
        number = None if step is None else _box.step("step", step)
        if not isinstance(data, Data):
            data = checked(data, self._extent_of())
        with self._lock:
            writer = self._own_writer()
            try:
                append(writer, data, lambda: self.schema)
                return parse(Commit, writer.commit(step=number, token=token))
            except BaseException:
                # Closing discards pending rows.
                self._writer = None
                writer.close()
                raise

    @checked_options()
    def writer(
        self,
        name: str | None = None,
        *,
        memory_bytes: int | None = None,
        optimize: bool = False,
    ) -> Writer:
        """Opens a writer, which can commit several appends at once.

        Parameters
        ----------
        name
            The writer's name, unique among open writers; None: the first free name of ``writer-1``,
            ``writer-2``, ...
        memory_bytes
            The approximate bytes of pending rows in memory (None: 1 GiB); further rows spill to
            scratch files.
        optimize
            Whether to run `optimize` continuously in a thread, with at most one core.

        Raises
        ------
        Busy
            A writer of this name is open, in this process or another.

        Examples
        --------
        >>> with t.writer("rank-7") as w:
        ...     w.append(batch)
        ...     w.commit()
        """
        self._check()
        if name is not None and not isinstance(name, str):
            raise InvalidInput(f"name must be a string, not {name!r}")
        memory = None if memory_bytes is None else _box.count("memory_bytes", memory_bytes)
        return Writer(
            self._table.writer(name=name, memory_bytes=memory, optimize=bool(optimize)),
            lambda: self.schema,
            self._extent_of(),
        )

    def snapshot(self, step: int | None = None) -> Snapshot:
        """Returns the newest snapshot, on which a query always returns the same rows.

        Parameters
        ----------
        step
            The last step to include, which every declared writer must have finished. Rows without a
            step are included.

        Raises
        ------
        InvalidInput
            The step is not complete; the message names the writers that have not finished it.

        Examples
        --------
        >>> s = t.snapshot()
        >>> len(s), s.count(where="deposited")   # consistent, even while others write
        """
        pinned = self._pinned()
        return Snapshot(
            self._table, pinned if step is None else pinned.at_step(_box.step("step", step))
        )

    def at(self, token: str) -> Snapshot:
        """Opens the snapshot of a token, which has the same rows in any process.

        Parameters
        ----------
        token
            The `Snapshot.token` of a snapshot of this table, from any process or from HTTP.

        Raises
        ------
        SnapshotExpired
            `clean` has deleted files of the snapshot.
        TableReplaced
            The token belongs to another table, perhaps an earlier one at this location, or to
            another history of this table, as after a backup was restored.
        InvalidInput
            The text is not a token.

        Examples
        --------
        >>> token = t.snapshot().token           # text, for a file or a message
        >>> kubist.open(t.location).at(token).count()
        """
        self._check()
        return Snapshot(self._table, self._table.at(_box.token(token)))

    @checked_options()
    def watch(
        self, timeout: Seconds | None = None, since: Snapshot | None = None, every: Seconds = 0.0
    ) -> Iterator[Snapshot]:
        """Yields a snapshot now, and a new one after every change.

        The snapshot comes within a few milliseconds of the change. Changes while the loop body runs
        lead to one snapshot.

        Parameters
        ----------
        timeout
            The iteration ends after this time without a change: seconds, or text such as ``"1
            min"``; None: it never ends.
        since
            Yield only snapshots newer than this one; None: begin with the current snapshot.
        every
            The minimum time between two checks, which read the end of every writer's log: a longer
            time reduces the load of a shared file server.

        Examples
        --------
        >>> for snapshot in t.watch():
        ...     draw(snapshot.query(sample=0.01).to_arrow())
        """
        seconds = 1e9 if timeout is None else _box.seconds("timeout", timeout)
        every = _box.seconds("every", every)
        if since is None:
            seen = self._pinned()
            yield Snapshot(self._table, seen)
        elif isinstance(since, Snapshot):
            seen = since._snapshot
        else:
            raise InvalidInput(f"since must be a snapshot of this table, not {since!r}")
        while True:
            found = self._table.wait(seen, seconds=seconds, every=every)
            if found is None:
                return
            seen = found
            yield Snapshot(self._table, seen)

    @checked_options()
    def add_column(
        self,
        name: str,
        type: pa.DataType | np.dtype[Any] | str,
        default: End = None,
        nullable: bool = True,
        unit: str | None = None,
        accuracy: float | str | None = None,
    ) -> None:
        """Adds a column as the last one; other processes can read and write meanwhile.

        Existing rows, and rows that are appended without the column, have the default value. Open
        handles have the column from their next call on, but a snapshot keeps its old columns. The
        new column is not in the identity, and only `regrid` can make it a dimension.

        Parameters
        ----------
        name
            A name that no column has.
        type
            A name such as ``"float32"`` or ``"timestamp[us]"``, a `numpy.dtype` or a
            `pyarrow.DataType`.
        default
            The default value; None: null.
        nullable
            Whether the column can contain nulls.
        unit
            The unit of the column.
        accuracy
            The error bound of stored values, including the default, as for `kubist.create`.

        Raises
        ------
        InvalidInput
            The name exists, the type is not supported, the default does not fit, or a column
            without nulls has no default.
        """
        self._check()
        if not isinstance(name, str):
            raise InvalidInput(f"{name!r} is not a column name")
        value = _box.plain(f"column {name}", default)
        if unit is not None:
            _box.units({name: unit})
        column = one_column(name, type, bool(nullable))
        bound = None if accuracy is None else _box.bound(name, accuracy)
        self._table.add_column(column, default=value, unit=unit, accuracy=bound)

    @checked_options()
    def set_unit(self, column: str, unit: str | None) -> None:
        """Sets the unit of a column; None removes it.

        The unit is the key ``unit`` of the column's Arrow metadata. An unknown unit is stored as
        text, with a `UserWarning`.
        """
        if isinstance(unit, str) and unit:
            _box.units({column: unit})
        self.set_metadata({"unit": unit}, column=column)

    def set_metadata(self, values: Mapping[str, Any], *, column: str | None = None) -> None:
        """Sets metadata of the table, or of a column.

        Parameters
        ----------
        values
            New JSON values by key; None removes a key, and other keys stay.
        column
            The column, whose Arrow metadata then has the values too; None: the table.

        Examples
        --------
        >>> t.set_metadata({"solver": {"name": "alya", "dt": 1e-4}, "draft": None})
        >>> t.metadata
        """
        self._check()
        if column is not None and not isinstance(column, str):
            raise InvalidInput(f"{column!r} is not a column name")
        self._table.set_metadata(_box.metadata(values), column=column)

    @checked_options()
    def alter(
        self,
        *,
        compression: str | None = None,
        strata: str | None = None,
        shared: bool = False,
    ) -> None:
        """Changes settings of the table; settings that are not given stay.

        Parameters
        ----------
        compression
            The compression of later rows, as for `kubist.create`. ``optimize(recompress=True)``
            rewrites the existing rows.
        strata
            The strata of later rows, as for `kubist.create`. The capacity of a cube stays the same;
            `copy_to` with ``strata="windows"`` also makes larger cubes.
        shared
            Let several machines on the same file system write to the table (docs/where.md); you
            cannot undo this. The next commit of an open writer raises `kubist.Refused`; open the
            writer again.

        Examples
        --------
        >>> t.alter(compression="small")
        >>> t.optimize(recompress=True)
        """
        self._check()
        if compression is not None:
            self._table.set_compression(str(compression))
        if strata is not None:
            self._table.set_strata(str(strata))
        if shared:
            self._table.share()

    def declare_writers(self, writers: Sequence[str] | int, *, after: int | None = None) -> None:
        """Declares which writers, or how many, must finish each step.

        A step is complete when all declared writers have committed or abandoned it, or without a
        declaration, after its first commit. `query` with ``steps``, and `snapshot` with a step,
        accept only complete steps. The same declaration can be repeated; another one needs
        ``after``.

        Parameters
        ----------
        writers
            The names of the writers, or their number.
        after
            A checkpoint's step, from which the simulation continues with other writers: the
            declaration applies only to later steps. First `retract` later steps, if there are any.
        """
        self._check()
        named = not isinstance(writers, int)
        self._table.declare_writers(
            names=_box.names("writers", writers) if named else None,
            count=0 if named else _box.count("writers", writers),
            after=None if after is None else _box.step("after", after),
        )

    def retract(self, *, step_after: int) -> Retraction:
        """Removes all steps after ``step_after`` from the table; older snapshots keep them.

        A solver that restarts from a checkpoint first retracts the later steps, and then commits
        them again, also with the same tokens. Stop the writers of the old run before: a commit that
        they make after the retraction counts.
        """
        self._check()
        return parse(Retraction, self._table.retract(_box.step("step_after", step_after)))

    @checked_options()
    def optimize(
        self,
        debt_share: float = 0.05,
        replication: str | None = None,
        recompress: bool = False,
    ) -> OptimizeReport:
        """Restores the layout after many small commits, while others read and write.

        It starts in the regions where queries of this process read the most rows in vain.

        Parameters
        ----------
        debt_share
            Rewrite a subtree of the index if a new build would move more than this fraction of its
            rows to other cubes.
        replication
            Which rows this call copies into deeper cubes, as for `kubist.create`; None: the setting
            of the table.
        recompress
            Also rewrite rows that were stored before `alter` changed the compression or the strata.
        """
        self._check()
        policy = None if replication is None else str(replication)
        share = _box.number("debt_share", debt_share, low=0)
        report = self._table.optimize(
            debt_share=share, replication=policy, recompress=bool(recompress)
        )
        return parse(OptimizeReport, report)

    @checked_options()
    def regrid(
        self,
        dimensions: Mapping[str, Domain] | Sequence[str] | None = None,
        *,
        period: Mapping[str, Period | None] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Regridded:
        """Changes the grid, the indexed columns and their domains, and moves all rows to it.

        Query results stay the same. Other processes can read and write meanwhile, and writers use
        the new grid from their next commit on. `optimize` can finish an interrupted call.

        Parameters
        ----------
        dimensions
            The columns to index and their domains, as in `create`, also columns that were added
            later. A sample of all rows determines the domains that are not given; None: the same
            columns and scales, with new domains.
        period
            Periods of columns, as in `create`; None removes a period. The values of all rows must
            be in the interval that the period gives.
        progress
            Called repeatedly with the rows moved and left.

        Examples
        --------
        >>> t.regrid({"x": (0, 0.2), "y": None, "z": "quantile"})
        >>> t.regrid(["time", "x", "y", "z"])
        """
        self._check()
        report = self._table.regrid(
            dimensions=None if dimensions is None else _box.dimensions(dimensions),
            period=_box.periods(period),
            progress=progress,
        )
        return Regridded.parse(report)

    def clean(self, retention: Seconds = 86_400) -> Cleaning:
        """Deletes files that no current row has needed for the time ``retention``.

        The first call notes the unused files. A call after ``retention`` deletes them and frees
        unused parts of other files; older snapshots may then raise `kubist.SnapshotExpired`.
        `clean` works on a full disk. It keeps the newest file of an open `Writer`, and closes the
        writer that `append` opened.

        Parameters
        ----------
        retention
            Seconds, or text such as ``"2 days"``; default: one day.
        """
        self._check()
        # An open writer prevents the deletion of its newest segment.
        self._close_own_writer()
        return parse(
            Cleaning,
            self._table.clean(retention_seconds=_box.seconds("retention", retention)),
        )

    @checked_options()
    def verify(
        self, progress: Callable[[int, int], object] | None = None, *, deep: bool = False
    ) -> VerifyReport:
        """Checks the table for damage.

        It reads the header, logs, rewrites, checkpoints and zone maps (the bounds of all rows), and
        checks that every file exists. Only ``deep=True`` reads the rows.

        Parameters
        ----------
        progress
            Called repeatedly with the bytes done and in total.
        deep
            Also read every row, and check all other data that queries use.

        Returns
        -------
        VerifyReport
            ``ok`` is True if everything was read and is intact. ``findings`` has one line per
            defect, ``losses`` the affected rows, and ``unread`` the unreadable files.

        Examples
        --------
        >>> t.verify(deep=True).ok
        True
        """
        self._check()
        return parse(VerifyReport, self._table.verify(deep=bool(deep), progress=progress))

    def view(self, *, open: bool = True) -> View:
        """Serves the explorer page of this table, until `View.stop` or the end of the process.

        Parameters
        ----------
        open
            Whether to open the page in the browser.

        Returns
        -------
        View
            The address, shown as a link in a notebook.

        Raises
        ------
        StorageError
            The command ``kubist`` is not installed, or did not start.

        Examples
        --------
        >>> page = t.view()
        """
        self._check()
        tunnel = Tunnel(self.location)
        return View(tunnel.url, tunnel, open=bool(open))

    def widget(self, *, height: int = 560) -> Widget:
        """Returns a widget that shows the explorer page in a notebook cell.

        It uses the notebook's own connection, and Python can read the selection: ``region``,
        ``filter`` and ``result()``.

        Parameters
        ----------
        height
            The cell's height in pixels.

        Raises
        ------
        ImportError
            anywidget is missing; the message has the install command.

        Examples
        --------
        >>> w = t.widget()
        >>> w                                 # look, draw a box
        >>> w.result(sample=0.1).to_pandas()
        """
        from ._widget import Widget

        return Widget(self, height=height)

    def close(self) -> None:
        """Releases the resources of the handle; later calls raise `kubist.Refused`."""
        if self._closed:
            return
        self._table.check()
        self._closed = True
        self._close_own_writer()
        if self._read_optimizer is not None:
            self._read_optimizer.stop()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.location,)

    def __repr__(self) -> str:
        return self._described("Table")

    def _pinned(self) -> _kubist.Snapshot:
        self._check()
        return self._table.snapshot()

    def _asked(self, question: QuerySpec) -> tuple[_kubist.Snapshot, _kubist.Stream]:
        self._check()
        return self._table.query(question)

    def _open(self, location: str) -> Table:
        return _opened(location)

    def _close_own_writer(self) -> None:
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()

    def _own_writer(self) -> _kubist.Writer:
        if self._writer is None:
            self._writer = self._table.writer(name=None, memory_bytes=None, optimize=False)
        return self._writer

    def _check(self) -> None:
        if self._closed:
            raise Refused(f"this handle of {self.location} is closed: open the table again")
        # Before any lock: at a fork, a thread of the parent may have held it.
        self._table.check()


class Snapshot(InDirectory[Table]):
    """One snapshot of a table, from `Table.snapshot`.

    It has the query methods of a table (`query`, `refine`, `count`, `info`, ``len``), and always
    returns the same results, or raises `kubist.SnapshotExpired` after `clean` deleted its files.
    `Table.at` opens a snapshot by its `token`. A pickled snapshot stores only location and token.
    """

    def __init__(self, table: _kubist.Table, snapshot: _kubist.Snapshot) -> None:
        self._table = table
        self._snapshot = snapshot

    def _pinned(self) -> _kubist.Snapshot:
        return self._snapshot

    def _open(self, location: str) -> Table:
        return _opened(location)

    def __reduce__(self) -> tuple[Any, ...]:
        return _at, (self.location, self.token)

    @property
    def token(self) -> str:
        """Text by which `Table.at` opens this snapshot again, in any process and over HTTP."""
        return self._pinned().token()

    def complete_steps(self) -> list[int]:
        """Returns the steps that every declared writer has committed or abandoned, ascending."""
        return self._snapshot.complete_steps()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        return self._described("Snapshot")


def _opened(location: str) -> Table:
    return Table(_kubist.Table.open(location))


def _at(location: str, token: str) -> Snapshot:
    return _opened(location).at(token)


def _engine_snapshot(location: str, token: str) -> _kubist.Snapshot:
    return _at(location, token)._pinned()


# Lazy frames contain the snapshot of the engine, and are pickled too.
copyreg.pickle(
    _kubist.Snapshot, lambda pinned: (_engine_snapshot, (pinned.location(), pinned.token()))
)


for _public in (Table, Snapshot):
    _public.__module__ = "kubist"
del _public
