"""Writers: several appends, committed together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from . import _box, _kubist
from ._data import Data
from ._figures import Commit, parse
from ._shown import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from ._arguments import Rows


class Writer:
    """Appends now, commits when you say; made by `Table.writer`.

    >>> with t.writer() as w:
    ...     for batch in solver:
    ...         w.append(batch)
    ...         if w.pending_rows > 1_000_000:
    ...             w.commit()

    Leaving the ``with`` block commits what is pending; leaving it by an
    exception (Ctrl-C too) discards it. What was committed before stays in any
    case. Without ``with``, call `commit` and `close` yourself.

    A writer owns a log of its own, so writers in other processes neither wait
    for it nor see half of what it writes.
    """

    def __init__(self, writer: _kubist.Writer, schema: Callable[[], pa.Schema]) -> None:
        self._writer = writer
        self._schema = schema

    @property
    def name(self) -> str:
        """The writer's name in the table's log and info."""
        return self._writer.name

    @property
    def pending_rows(self) -> int:
        """Records appended since the last commit."""
        return self._writer.pending_rows()

    def append(self, data: Rows) -> None:
        """Keeps ``data`` for the next commit, in bounded memory.

        Args:
            data: As for `Table.append`.

        Raises:
            InvalidInput: The data does not fit the table. If records of it were
                already kept, as of the first of several batches, the writer
                refuses to go on until `discard`: half an append is never committed.
        """
        append(self._writer, data, self._schema)

    def lay_out(self) -> None:
        """Writes what is pending to the table's files, where the next commit makes it visible.

        A long commit so holds few of its records in memory, and a thread can do this while the
        caller reads on. Records that come in the order of a dimension, such as time, lie as well
        as those of one commit; others are better left to the commit. It cannot be a commit of a
        ``step``.

        Raises:
            StorageError: The disk refused; nothing is pending any more.
        """
        self._writer.lay_out()

    def commit(self, *, step: int | None = None, token: str | None = None) -> Commit:
        """Makes everything pending durable and visible, whole.

        Args:
            step: The step of the simulation that these records are. A writer's steps
                go up, one commit each; see `Table.declare_writers`.
            token: A name of this commit, within this writer. A second commit with
                the same token, also from a restarted process, does nothing and
                answers as the first did: so a retry counts once.

        Returns:
            What the commit did. Once it returns, the records survive a crash.

        Raises:
            StorageError: The disk refused; nothing of this commit is visible.
        """
        return parse(
            Commit,
            self._writer.commit(
                step=None if step is None else _box.step("step", step), token=token
            ),
        )

    def committed(self, token: str) -> int | None:
        """How many records this writer has committed under ``token``; None: it has not used it.

        A program that starts again so learns what it need not read.
        """
        return self._writer.committed(token)

    def abandon(self, step: int) -> None:
        """Tells readers not to wait for ``step`` of this writer: it has no records for it."""
        self._writer.abandon(_box.step("step", step))

    def discard(self) -> None:
        """Forgets what was appended since the last commit."""
        self._writer.discard()

    def close(self) -> None:
        """Lets go of the writer's log; what is pending is forgotten."""
        self._writer.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self.pending_rows:
                self.commit()
        finally:
            self.close()

    def __repr__(self) -> str:
        return f"<kubist.Writer {self.name!r}: {counted(self.pending_rows, 'record')} pending>"


class LaidOutBehind:
    """A writer's appends, each laid out by a thread of its own while the caller goes on.

    One is at work at a time. What fails is raised by the next call.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._thread: ThreadPoolExecutor | None = None
        self._work: Future[None] | None = None

    def append(self, data: Rows) -> None:
        """Takes ``data``, which nobody changes any more, once what came before is laid out."""
        self.wait()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="kubist-lay-out")
        self._work = self._thread.submit(self._lay_out, data)

    def _lay_out(self, data: Rows) -> None:
        self._writer.append(data)
        self._writer.lay_out()

    def wait(self) -> None:
        """Returns when all is laid out."""
        work, self._work = self._work, None
        if work is not None:
            work.result()

    def close(self) -> None:
        """Ends the thread; what it is at is finished, and its failure forgotten."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._work = None


def append(writer: _kubist.Writer, data: Rows | Data, schema: Callable[[], pa.Schema]) -> None:
    """Hands all of ``data`` to the writer, batch by batch."""
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
