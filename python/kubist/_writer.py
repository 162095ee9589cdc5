"""Writers: several appends in one commit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from . import _box, _kubist
from ._data import Data
from ._errors import InvalidInput
from ._extent import Extent, checked
from ._figures import Commit, parse
from ._shown import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from ._arguments import Rows


class Writer:
    """Appends rows and commits them on request; from `Table.writer`.

    >>> with t.writer() as w:
    ...     for batch in solver:
    ...         w.append(batch)
    ...         if w.pending_rows > 1_000_000:
    ...             w.commit()

    The end of the ``with`` block commits the pending rows. An exception, also Ctrl-C, discards
    them, but not earlier commits. Without ``with``, call `commit` and `close`. Each writer owns a
    log, so writers do not wait for each other.
    """

    def __init__(
        self,
        writer: _kubist.Writer,
        schema: Callable[[], pa.Schema],
        extent: Extent | None = None,
    ) -> None:
        self._writer = writer
        self._schema = schema
        self._extent = extent or {}

    @property
    def name(self) -> str:
        """The writer's name in the table's log."""
        return self._writer.name

    @property
    def pending_rows(self) -> int:
        """The number of rows appended since the last commit."""
        return self._writer.pending_rows()

    def append(self, data: Rows) -> None:
        """Adds ``data`` to the next commit, in bounded memory.

        Parameters
        ----------
        data
            As for `Table.append`.

        Raises
        ------
        InvalidInput
            The data does not fit the table. If some of its batches were added already, all calls
            raise until `discard`, so that no part of an append is committed.
        """
        append(self._writer, checked(data, self._extent), self._schema)

    def lay_out(self) -> None:
        """Writes the pending rows to the table's files; the next commit makes them visible.

        A long commit then needs little memory, and a thread can write while the caller reads. The
        layout is equally good if the rows arrive in the order of a dimension, such as time. A
        commit with a ``step`` cannot use it.

        Raises
        ------
        StorageError
            The storage failed; the pending rows are discarded.
        """
        self._writer.lay_out()

    def commit(self, *, step: int | None = None, token: str | None = None) -> Commit:
        """Makes all pending rows durable and visible, as a whole.

        Parameters
        ----------
        step
            The simulation step (`Table.declare_writers`). A writer commits each step once, in
            ascending order.
        token
            An identifier of this commit. Another commit of this writer with the same token, also
            after a restart, does nothing and returns the first result.

        Returns
        -------
        Commit
            The result; the rows now survive a crash.

        Raises
        ------
        StorageError
            The storage failed; no row of this commit is visible.
        """
        return parse(
            Commit,
            self._writer.commit(
                step=None if step is None else _box.step("step", step), token=token
            ),
        )

    def committed(self, token: str) -> int | None:
        """Returns the number of rows that this writer committed under ``token``, or None.

        A restarted program can skip input that is already committed.
        """
        return self._writer.committed(token)

    @property
    def last_step(self) -> int | None:
        """The last step that this writer committed or abandoned; None if there is none."""
        return self._writer.last_step()

    def abandon(self, step: int) -> None:
        """Declares that this writer has no rows for ``step``, so readers do not wait for it."""
        self._writer.abandon(_box.step("step", step))

    def discard(self) -> None:
        """Discards the rows appended since the last commit."""
        self._writer.discard()

    def close(self) -> None:
        """Discards pending rows and releases the writer's log."""
        self._writer.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self.pending_rows:
                self.commit()
        finally:
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInput(
            "a writer cannot be pickled: open one in each process with Table.writer()"
        )

    def __repr__(self) -> str:
        return f"<kubist.Writer {self.name!r}: {counted(self.pending_rows, 'record')} pending>"


class LaidOutBehind:
    """Appends and writes rows to files in a thread, while the caller continues.

    One append is in progress at a time, and the next call raises its error.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._thread: ThreadPoolExecutor | None = None
        self._work: Future[None] | None = None

    def append(self, data: Rows) -> None:
        """Waits for the previous append, then starts this one; do not change ``data`` later."""
        self.wait()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="kubist-lay-out")
        self._work = self._thread.submit(self._lay_out, data)

    def _lay_out(self, data: Rows) -> None:
        self._writer.append(data)
        self._writer.lay_out()

    def wait(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.result()

    def close(self) -> None:
        """Waits for the append in progress, ignores its error, and ends the thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._work = None


def append(writer: _kubist.Writer, data: Rows | Data, schema: Callable[[], pa.Schema]) -> None:
    columns = data if isinstance(data, Data) else Data(data, schema)
    before = writer.pending_rows()
    try:
        for part in columns:
            writer.append(part)
    except BaseException:
        if writer.pending_rows() != before:
            writer.tear()
        raise


Writer.__module__ = "kubist"
