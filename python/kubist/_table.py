"""Tables: what `kubist.create` and `kubist.open` return."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _box, _kubist
from ._arguments import Storage
from ._data import Data, is_schema
from ._directory import InDirectory, location_of
from ._errors import InvalidInput, Refused
from ._figures import (
    Cleaning,
    Commit,
    OptimizeReport,
    Regridded,
    Retraction,
    VerifyReport,
    parse,
)
from ._libraries import is_a, need
from ._options import checked_options, group
from ._tunnel import Tunnel
from ._view import View
from ._writer import Writer, append

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ._arguments import ArrowSchema, Domain, End, Rows, Seconds
    from ._spec import QuerySpec
    from ._widget import Widget


@checked_options()
def create(
    path: str | os.PathLike[str],
    data_or_schema: Rows | ArrowSchema,
    dimensions: Mapping[str, Domain] | Sequence[str],
    identity: Sequence[str] | None = None,
    capacity: int | None = None,
    seed: int = 0,
    exist_ok: bool = False,
    units: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    lookup: Sequence[str] | None = None,
    accuracy: Mapping[str, float | str] | None = None,
    storage: Storage | None = None,
) -> Table:
    """Creates a table at ``path``.

    Args:
        path: Where the table will be: a directory, ``s3://bucket/prefix`` (docs/where.md) or
            ``cassandra://hosts/keyspace/table`` (docs/cassandra.md). Nothing may be there yet.
        data_or_schema: A `pyarrow.Schema` for an empty table, or data of any
            kind that `Table.append` takes: its records become the first commit.
        dimensions: The 1 to 8 columns to index: integers, floats, dates, times,
            timestamps. A dict says where their values lie, in the column's unit:
            ``{"x": None}`` learns it from the first commit, ``{"time": (0, 1)}``
            gives it, ``{"z": "quantile"}`` learns a skewed distribution. A list
            of names learns all. Once the data has outgrown what was learned or
            given, the optimizer makes another grid, as `Table.regrid` does. Values
            elsewhere are kept and found all the same: a domain shapes the index, never
            an answer.
        identity: The columns that define the sampling unit: records that agree in them
            are in a sample together. ``["pid", "time"]`` samples records, ``["pid"]``
            whole trajectories. None: each record by itself. It is no key: equal
            identities may repeat.
        capacity: About how many records a cube of the index keeps. None: the default.
        seed: Two tables with equal identities and seed sample the same records.
        exist_ok: Open a table that is already there, if its columns, dimensions,
            identity, lookup and seed agree, instead of raising; data is then appended.
            Columns may have been added since, and their metadata stays.
        units: Units of columns, ``{"x": "m"}``. They stand in the columns' Arrow
            metadata under ``unit``, in ``schema`` and in answers; a unit that is
            there already counts too, and data in another one is converted, as by `Table.append`.
            One that is not known is kept as text, with a `UserWarning`.
        metadata: What else is kept with the table, of any kind that JSON has: the run,
            the code, its parameters.
        lookup: Columns by whose values records are found without a scan. With
            ``["pid"]`` a query ``where="pid = 17"`` or ``"pid in (17, 18)"``, joined
            by AND with whatever else, reads only where those particles are; for a few
            percent of storage. Said at creation only; any type that can be an identity.
        accuracy: How far stored values may be from those that are given, by column: a number in
            the column's unit, text with another unit (``"1um"``), or a part of each value
            (``"1e-4 rel"``). No stored value is further from its given one; it takes fewer
            bytes, and is what all questions find. Said at creation only; of integers and floats
            that are neither in ``identity`` nor in ``lookup``. docs/storage.md has figures.
        storage: How it is stored, as ``{"compression": "small", "shared": True}``:
            ``compression``: How hard numbers are compressed: ``"fast"`` to write, ``"small"`` on
            disk, or ``"balanced"``, the default. `Table.alter` changes it; docs/storage.md has
            figures.
            ``replication``: What `Table.optimize` copies into deeper cubes, which makes small
            boxes cheaper and the table larger: ``"none"``, ``"outlook(B)"`` or ``"full"``. The
            default is ``"outlook(-1)"``; docs/replication.md has figures.
            ``shared``: Several machines write to the directory, which is on NFS, Lustre, GPFS or
            the like: locks are not relied on (docs/where.md). The table remembers it. Where the
            file system says that it is such a one, a new table is shared in any case.

    Returns:
        The table, open.

    Raises:
        InvalidInput: A column is missing, or of a type that cannot be stored or
            indexed, or a domain has low >= high; the message names it.
        TableExists: Something is at ``path``.

    Example:
        >>> t = kubist.create(
        ...     "airway.kubist",
        ...     first_step,
        ...     dimensions={"x": None, "y": None, "z": None, "time": (0, 1)},
        ...     identity=["pid", "time"],
        ... )
    """
    stored = group("create", "storage", storage, Storage)
    compression, replication = stored.get("compression"), stored.get("replication")
    data = None if is_schema(data_or_schema) else Data(data_or_schema)
    table = Table(
        _kubist.Table.create(
            location_of(path),
            _kubist.Schema(data_or_schema) if data is None else data.schema,
            dimensions=_box.dimensions(dimensions),
            identity=[] if identity is None else _box.names("identity", identity),
            lookup=[] if lookup is None else _box.names("lookup", lookup),
            capacity=None if capacity is None else _box.count("capacity", capacity, most=2**32 - 1),
            seed=_box.count("seed", seed),
            replication=None if replication is None else str(replication),
            compression=None if compression is None else str(compression),
            accuracy=_box.accuracy(accuracy),
            units=_box.units(units),
            metadata=_box.metadata(metadata),
            exist_ok=bool(exist_ok),
            shared=bool(stored.get("shared")),
        )
    )
    if data is not None:
        try:
            table._append(data)
        except BaseException as error:
            table.close()
            shown = _kubist.printable(_kubist.without_password(location_of(path)))
            error.add_note(f"{shown} was created and holds nothing of this data: append to it")
            raise
    return table


def open(path: str | os.PathLike[str], *, optimize: bool = False) -> Table:
    """Opens the table at ``path``.

    Other processes may be writing to it: each call on the handle sees what has
    been committed by then. `Table.snapshot` pins a moment.

    Args:
        path: Where the table is: a directory, ``s3://bucket/prefix`` or ``cassandra://hosts/keyspace/table``.
        optimize: Restore the layout, on a thread of its own, where the queries of
            this handle read many more records than they return. It needs to write to
                the table.

    Raises:
        NotATable: There is no table at ``path``.
        NewerFormat: The table was written by a newer Kubist.
    """
    table = _kubist.Table.open(location_of(path))
    return Table(table, table.optimize_reads() if optimize else None)


class Table(InDirectory["Table"]):
    """An open table; made by `kubist.create` and `kubist.open`.

    A handle may be shared by threads. Each process opens its own: after a fork
    the parent's handle refuses to work. Use it as a context manager, or call
    `close`, to let go of the writer that `append` opened.
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
        """Appends ``data`` and commits it: durable and visible, whole, on return.

        Args:
            data: A pyarrow Table, RecordBatch or RecordBatchReader, a pandas or
                Polars DataFrame, a dict of columns (numpy arrays or lists), a
                numpy structured array, or anything with ``__arrow_c_stream__``.
                Readers are taken batch by batch, in bounded memory. The columns
                are those of the table, in any order. Values of another type or unit are
                converted without loss, or refused (docs/values.md).
            step, token: As for `Writer.commit`.

        Returns:
            What the commit did.

        Raises:
            InvalidInput: A column is missing or unknown, or a value has no place in it; the
                message names the table, the column, the row and the value. Nothing of this data is kept, whatever raised.
            StorageError: The disk refused; nothing of this data is visible.

        The first call opens a writer, which belongs to this handle until it is
        closed. Other handles, threads and processes can append at the same time.
        """
        return self._append(data, step, token)

    def _append(
        self, data: Rows | Data, step: int | None = None, token: str | None = None
    ) -> Commit:
        self._check()
        number = None if step is None else _box.step("step", step)
        with self._lock:
            writer = self._own_writer()
            try:
                append(writer, data, lambda: self.schema)
                return parse(Commit, writer.commit(step=number, token=token))
            except BaseException:
                # Closing forgets what was pending; the next append opens another.
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
        """A writer of your own, for commits of several appends.

        Args:
            name: Its name in the table's log, one writer at a time; None: the
                first free one of ``writer-1``, ``writer-2``, ...
            memory_bytes: About how many bytes of records are held in memory before
                a commit spills to scratch files; None: 1 GiB.
            optimize: Restore the layout after commits, on a thread of its own that
                takes a part of one core and ends with the writer.

        Raises:
            Busy: A writer of this name is open, in this process or another.

        Example:
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
        )

    def snapshot(self, step: int | None = None) -> Snapshot:
        """Everything committed by now, pinned: the same answer to the same question.

        Args:
            step: Only up to this step of the simulation, which every declared
                writer must have finished; records without a step are seen too.

        Raises:
            InvalidInput: The step is not complete; the message says whom it waits for.

        Example:
            >>> s = t.snapshot()
            >>> len(s), s.count(where="deposited")   # of one snapshot, while others write
        """
        pinned = self._pinned()
        return Snapshot(
            self._table, pinned if step is None else pinned.at_step(_box.step("step", step))
        )

    def at(self, token: str) -> Snapshot:
        """The snapshot that a token names: the same records, in any process, whatever came later.

        Args:
            token: The `Snapshot.token` of a snapshot of this table, taken here, in another
                process or over HTTP.

        Raises:
            SnapshotExpired: The files of that snapshot were cleaned away, or the table was
                never in that state: it was restored from a backup, or is a copy.
            TableReplaced: It is of another table, perhaps one that was in this place before.
            InvalidInput: It is not a token.

        Example:
            >>> token = t.snapshot().token           # text, for a file or a message
            >>> kubist.open(t.location).at(token).count()
        """
        self._check()
        return Snapshot(self._table, self._table.at(_box.token(token)))

    @checked_options()
    def watch(
        self, timeout: Seconds | None = None, since: Snapshot | None = None, every: Seconds = 0.0
    ) -> Iterator[Snapshot]:
        """Yields a snapshot now, and a new one after every change, as it lands.

        A change is seen within a few milliseconds; several that come faster than
        they are taken are seen as one.

        Args:
            timeout: The time without a change after which the iteration ends: seconds, or
                ``"1 min"``; None: never.
            since: Only what comes after this moment; None: the one of now is the first.
            every: At least so many seconds between two looks. Each asks for every
                writer's log, which a file server that many share should not be asked
                for hundreds of times a second.

        Example:
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
        """Adds a column behind the others, while others read and write.

        Records that are here have the default, and so have records that are appended
        without the column. Open handles see it at their next call, and a snapshot
        keeps the columns that it had. It cannot be a dimension or an identity.

        Args:
            name: Of no column that is here.
            type: Its name, as ``"float32"`` or ``"timestamp[us]"``, a `numpy.dtype` or a
                `pyarrow.DataType`.
            default: A value that the type can hold; None: null.
            nullable: Whether there may be nulls.
            unit: Its unit.
            accuracy: How far stored values may be from those that are given, as for
                `kubist.create`; the default is stored so too.

        Raises:
            InvalidInput: The name is taken, the type is not supported, the default
                does not fit, or there is none for a column without nulls.
        """
        self._check()
        if not isinstance(name, str):
            raise InvalidInput(f"{name!r} is not a column name")
        value = _box.plain(f"column {name}", default)
        if unit is not None:
            _box.units({name: unit})
        column = _one_column(name, type, bool(nullable))
        bound = None if accuracy is None else _box.bound(name, accuracy)
        self._table.add_column(column, default=value, unit=unit, accuracy=bound)

    @checked_options()
    def set_unit(self, column: str, unit: str | None) -> None:
        """Sets the unit of a column; None removes it.

        It stands in the column's Arrow metadata, under ``unit``. One that is not known is kept all
        the same, with a `UserWarning`.
        """
        if isinstance(unit, str) and unit:
            _box.units({column: unit})
        self.set_metadata({"unit": unit}, column=column)

    def set_metadata(self, values: Mapping[str, Any], *, column: str | None = None) -> None:
        """Sets metadata of the table, or of a column.

        Args:
            values: New values by key, of any kind that JSON has; None removes one.
                Other keys keep their values.
            column: The column; metadata of columns stands in their Arrow metadata
                too. None: the table.

        Example:
            >>> t.set_metadata({"solver": {"name": "alya", "dt": 1e-4}, "draft": None})
            >>> t.metadata
        """
        self._check()
        if column is not None and not isinstance(column, str):
            raise InvalidInput(f"{column!r} is not a column name")
        self._table.set_metadata(_box.metadata(values), column=column)

    @checked_options()
    def alter(self, *, compression: str | None = None, shared: bool = False) -> None:
        """Changes settings of the table; those that are not given stay.

        Args:
            compression: How hard numbers are compressed in records that are written from now on,
                as for `kubist.create`. ``optimize(recompress=True)`` rewrites the records that
                are there.
            shared: Several machines may write to it from now on, for good. Its directory is on a
                file system that all of them have mounted (docs/where.md). Running writers are
                refused at their next commit, and can be opened again.

        Example:
            >>> t.alter(compression="small")
            >>> t.optimize(recompress=True)
        """
        self._check()
        if compression is not None:
            self._table.set_compression(str(compression))
        if shared:
            self._table.share()

    def declare_writers(self, writers: Sequence[str] | int, *, after: int | None = None) -> None:
        """Declares the writers that every step waits for, by name or by their number.

        `query` with ``steps`` and `snapshot` at a step see a step only once all of
        them have committed or abandoned it. Can be declared once; the same again is fine.
        Without it a step is complete with its first commit.

        Args:
            writers: Their names, or how many different ones.
            after: Declares them anew, for the steps after this one: a simulation goes on from a
                checkpoint with other writers. `retract` takes later steps back first.
        """
        self._check()
        named = not isinstance(writers, int)
        self._table.declare_writers(
            names=_box.names("writers", writers) if named else None,
            count=0 if named else _box.count("writers", writers),
            after=None if after is None else _box.step("after", after),
        )

    def retract(self, *, step_after: int) -> Retraction:
        """Takes back all steps after ``step_after``: nothing of them is seen again.

        For a solver that starts again from a checkpoint: it retracts, and commits
        the steps anew, under the same tokens if it likes. Stop the writers of the
        old attempt first: what they commit afterwards counts.
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

        Goes first where queries of this process read most records that they did not return.

        Args:
            debt_share: Rewrites a part of the tree once this share of its records is
                not where a fresh build would put it.
            replication: What to copy into deeper cubes this time, as for `kubist.create`.
                None: as the table was created.
            recompress: Rewrite the records that use another compression than the table;
                `alter` changes the table's.
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
        progress: Callable[[int, int], object] | None = None,
    ) -> Regridded:
        """Gives the table another grid and moves all records to it.

        Answers stay the same, while others read and write; writers take up the new grid
        with their next commit. Stopped, it can be finished by `optimize`.

        Args:
            dimensions: The columns to index, with the domains of their values, as in `create`:
                any that can be, also columns that were added later. Domains that are not given
                are learned from a sample of all records. None: the same columns, with domains
                learned and divided as before.
            progress: Called now and then with the records placed anew and those left.

        Example:
            >>> t.regrid({"x": (0, 0.2), "y": None, "z": "quantile"})
            >>> t.regrid(["time", "x", "y", "z"])
        """
        self._check()
        report = self._table.regrid(
            dimensions=None if dimensions is None else _box.dimensions(dimensions),
            progress=progress,
        )
        return Regridded.parse(report)

    def clean(self, retention: Seconds = 86_400) -> Cleaning:
        """Deletes files that have not been needed for ``retention``: seconds, or ``"2 days"``.

        The first call notes what is not needed; a later one deletes it, and gives back such
        parts of files that stay. Snapshots taken longer ago may then raise
        `kubist.SnapshotExpired`. A full disk is no hindrance. What a `Writer` that is
        still open wrote last stays; the writer of `append` is closed before.
        """
        self._check()
        # What it has written last is not deleted while it may go on there: the next append opens another.
        self._close_own_writer()
        return parse(
            Cleaning,
            self._table.clean(retention_seconds=_box.seconds("retention", retention)),
        )

    @checked_options()
    def verify(
        self, progress: Callable[[int, int], object] | None = None, *, deep: bool = False
    ) -> VerifyReport:
        """Checks whether the table is sound.

        Reads the header, the logs, the rewrites, the checkpoints and the bounds of
        all records, and sees that every file is there.

        Args:
            progress: Called now and then with the bytes done and in total.
            deep: Also read every record, and check all that queries rely on.

        Returns:
            A report; ``report.ok``, or one line in ``report.findings`` for each
            thing that is wrong, and in ``report.losses`` what it costs.
            ``report.unread`` lists what could not be read, of which nothing is known.

        Example:
            >>> t.verify(deep=True).ok
            True
        """
        self._check()
        return parse(VerifyReport, self._table.verify(deep=bool(deep), progress=progress))

    def view(self, *, open: bool = True) -> View:
        """The explorer page of this table, served by ``kubist view`` for this process alone.

        Args:
            open: Open it in the browser too.

        Returns:
            Its address, which a notebook shows as a link; the page is served until
            `View.stop`, or until this process ends.

        Raises:
            StorageError: The command ``kubist`` is not installed, or could not start.

        Example:
            >>> page = t.view()
        """
        self._check()
        tunnel = Tunnel(self.location)
        return View(tunnel.url, tunnel, open=bool(open))

    def widget(self, *, height: int = 560) -> Widget:
        """The explorer page in a cell of a notebook, over the notebook's own connection.

        What is selected there can be read back: ``region``, ``filter`` and ``result()``.

        Args:
            height: Of the cell, in pixels.

        Raises:
            ImportError: anywidget is missing; the message has the command that installs it.

        Example:
            >>> w = t.widget()
            >>> w                                 # look, draw a box
            >>> w.result(sample=0.1).to_pandas()
        """
        from ._widget import Widget

        return Widget(self, height=height)

    def close(self) -> None:
        """Lets go of what `append` and `optimize` opened; the handle then refuses to work."""
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
        return open, (self.location,)

    def __repr__(self) -> str:
        return self._described("Table")

    def _pinned(self) -> _kubist.Snapshot:
        self._check()
        return self._table.snapshot()

    def _asked(self, question: QuerySpec) -> tuple[_kubist.Snapshot, _kubist.Stream]:
        self._check()
        return self._table.query(question)

    def _open(self, location: str) -> Table:
        return open(location)

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
        # Before any lock: a thread of the parent may have held it at a fork.
        self._table.check()


class Snapshot(InDirectory[Table]):
    """A table at one moment; made by `Table.snapshot`.

    It answers `query`, `refine`, `count`, `info` and ``len`` as the table does,
    and always the same. Once its files have been cleaned away behind it, it
    raises `kubist.SnapshotExpired`, and never a wrong answer. Its `token` leads
    back to it (`Table.at`).
    """

    def __init__(self, table: _kubist.Table, snapshot: _kubist.Snapshot) -> None:
        self._table = table
        self._snapshot = snapshot

    def _pinned(self) -> _kubist.Snapshot:
        return self._snapshot

    def _open(self, location: str) -> Table:
        return open(location)

    @property
    def token(self) -> str:
        """Names this snapshot, for any process, here and over HTTP: `Table.at` comes back to it."""
        return self._pinned().token()

    def complete_steps(self) -> list[int]:
        """The steps that every declared writer has committed or abandoned, ascending."""
        return self._snapshot.complete_steps()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        return self._described("Snapshot")


def _one_column(name: str, type: Any, nullable: bool) -> _kubist.Schema:
    """A schema of one column."""
    if isinstance(type, str):
        return _kubist.Schema.of_column(name, type, nullable)
    if is_a(type, "numpy", "dtype"):
        return _kubist.Schema.of_column(name, type.name, nullable)
    pa = need("pyarrow", "a column of a type that is not text")
    try:
        return _kubist.Schema(pa.schema([pa.field(name, type, nullable=nullable)]))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"column {name}: {type!r} is not a type: {error}") from None


for _public in (create, open, Table, Snapshot):
    _public.__module__ = "kubist"
del _public
