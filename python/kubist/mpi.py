"""Writes tables from running MPI programs in Python, over mpi4py.

>>> from mpi4py import MPI
>>> import kubist.mpi
>>> with kubist.mpi.open(
...     MPI.COMM_WORLD, "run.kubist", schema, dimensions={"x": (0, 1)},
...     create={"identity": ["pid", "time"]},
... ) as run:
...     for step in range(1, 1001):
...         particles.move()
...         run.write(step, {"x": particles.x, "pid": particles.pid, "time": particles.time})

Opening and closing are collective, and so is `Run.write` with a budget. In ``mode="rank"``, each
rank commits its own rows. In ``mode="node"``, ranks write to the shared memory of their node, and a
thread of the node's first rank commits; in ``mode="dedicated"``, the node's last rank commits and
does nothing else. A step is complete when all ranks have written or abandoned it. Only the caller's
thread calls MPI; kubist_mpi.h is the same interface in C.

With dedicated ranks, `Run.solvers` is the communicator of the other ranks:

>>> with kubist.mpi.open(MPI.COMM_WORLD, "run.kubist", schema, mode="dedicated") as run:
...     if run.solvers is not None:
...         compute(run.solvers, run)
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import math
import os
import time
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _box, _errors, _kubist
from ._arguments import CreateForRanks, Keep
from ._create import create as create_table
from ._create import open as open_table
from ._data import Data, is_schema
from ._errors import Error, InvalidInput
from ._options import checked_options, group
from ._table import Table

if TYPE_CHECKING:
    from ._arguments import ArrowSchema, Domain, Rows

__all__ = ["Run", "open"]

# The largest number of ranks per node for which ``mode="auto"`` is ``"rank"``.
_MOST_RANK_WRITERS = 4
# Maximum bytes of a rank's error message.
_MESSAGE_BYTES = 1024
# Seconds between two tests of a collective call.
_POLL_SECONDS = 20e-6


class _Ranks:
    """Collective calls that time out if a rank does not join them."""

    def __init__(self, comm: Any, patience: float) -> None:
        self.comm = comm
        self.patience = patience
        self.torn = False
        # A late rank may still write to these buffers, so they are not freed.
        self._lost: list[object] = []

    def wait(self, requests: Sequence[Any], *buffers: object, more: float = 0.0) -> None:
        """Waits until all ranks have joined the calls; ``more`` adds seconds to the timeout."""
        end = time.monotonic() + self.patience + max(more, 0.0)
        while not all(request.Test() for request in requests):
            if time.monotonic() >= end:
                self.torn = True
                self._lost += [*requests, *buffers]
                raise _errors.Unavailable(
                    f"a rank did not come to a collective call within {self.patience:g} s: "
                    "it has died, or does something else"
                )
            time.sleep(_POLL_SECONDS)

    def agree(self, call: Any, more: float = 0.0) -> Any:
        """Runs ``call`` on this rank, and raises an error of any rank on all ranks."""
        from mpi4py import MPI

        comm, answer, why = self.comm, None, ""
        if self.torn:
            raise _errors.Unavailable("this run has lost a rank")
        if call is not None:
            try:
                answer = call()
            except Error as error:
                why = f"{type(error).__name__}\nrank {comm.rank}: {error}"
        mine, worst = array("i", [int(bool(why)), comm.rank]), array("i", [0, 0])
        reduced = comm.Iallreduce([mine, MPI.INT_INT], [worst, MPI.INT_INT], MPI.MAXLOC)
        self.wait([reduced], mine, worst, more=more)
        if not worst[0]:
            return answer
        words = bytearray(why.encode()[:_MESSAGE_BYTES].ljust(_MESSAGE_BYTES, b"\0"))
        self.wait([comm.Ibcast([words, MPI.BYTE], root=worst[1])], words)
        name, _, message = words.rstrip(b"\0").decode(errors="replace").partition("\n")
        raise getattr(_errors, name)(message)

    def summed(
        self, solvers: Any, words: list[int], largest: list[float]
    ) -> tuple[list[int], list[float]]:
        """The sums of ``words`` and the maxima of ``largest`` over all solver ranks."""
        from mpi4py import MPI

        mine, total = array("Q", words), array("Q", bytes(8 * len(words)))
        own, most = array("d", largest), array("d", bytes(8 * len(largest)))
        requests = [
            solvers.Iallreduce([mine, MPI.UINT64_T], [total, MPI.UINT64_T], MPI.SUM),
            solvers.Iallreduce([own, MPI.DOUBLE], [most, MPI.DOUBLE], MPI.MAX),
        ]
        self.wait(requests, mine, total, own, most)
        return total.tolist(), most.tolist()


class Run:
    """A table that all ranks of a communicator write to, from `open`.

    Attributes
    ----------
    mode
        The ranks that commit: ``"rank"``, ``"node"`` or ``"dedicated"``.
    solvers
        The communicator of the ranks that compute. None in a dedicated rank, which then only calls
        `close`.
    """

    def __init__(self, ranks: _Ranks, table: Table, mode: str, solvers: Any | None) -> None:
        self.table = table
        self.mode = mode
        self.solvers = solvers
        self._ranks: _Ranks | None = ranks
        self._writer: _kubist.StepWriter | None = None
        self._leader: _kubist.Leader | None = None
        self._window: Any = None
        # Called when the program ends without `close`.
        self._at_exit: Any = None
        # Whether `write` is collective.
        self._is_collective = False

    def write(self, step: int, data: Rows | None) -> int:
        """Copies this rank's rows of a step into the queue for commits.

        With a budget, the ranks choose the sample together, so all ranks must call it in each step.

        Parameters
        ----------
        step
            The step number, which increases from call to call.
        data
            As for `Table.append`, with all columns; None if this rank has no rows in this step.

        Returns
        -------
        int
            The number of this rank's rows or, with a budget, the number of rows to be stored.
        """
        writer = self._open()
        if self._is_collective:
            return self._write_collectively(self._ranks, writer, step, data)
        writer.begin(_box.step("step", step))
        try:
            rows = 0
            for part in () if data is None else Data(data, lambda: self.table.schema):
                rows += writer.put(part)
            writer.end()
        except BaseException:
            # Other ranks need not wait for this one. If that fails too, the caller gets the first
            # error.
            with contextlib.suppress(Error):
                writer.abandon()
            raise
        return rows

    def _write_collectively(
        self, ranks: _Ranks | None, writer: _kubist.StepWriter, step: int, data: Rows | None
    ) -> int:
        if ranks is None or ranks.torn:
            raise _errors.Unavailable("this run is closed, or has lost a rank")
        share, failure = _kubist.failed_share(), None
        try:
            writer.begin(_box.step("step", step))
            for part in () if data is None else Data(data, lambda: self.table.schema):
                writer.put(part)
            share = writer.share()
        except BaseException as error:
            # The other ranks wait in `summed`, so this rank joins them and raises afterwards.
            failure = error
        words, largest = ranks.summed(self.solvers, *share)
        try:
            if failure is not None:
                raise failure
            return writer.settle(words, largest)
        except BaseException:
            with contextlib.suppress(Error):
                writer.abandon()
            raise

    def abandon(self, step: int) -> None:
        """Declares that this rank has no rows for ``step``."""
        writer = self._open()
        writer.begin(_box.step("step", step))
        writer.abandon()

    def wait(self, step: int | None = None, timeout: float = math.inf) -> None:
        """Waits until all steps up to ``step`` are durable.

        Raises
        ------
        Busy
            The steps are not durable after ``timeout`` seconds.
        """
        self._open().wait(2**63 - 1 if step is None else _box.step("step", step), timeout)

    def close(self, timeout: float = math.inf) -> None:
        """Waits for the queued steps and closes the table, collectively.

        A dedicated rank waits without a timeout until the other ranks of its node have closed.

        Raises
        ------
        Error
            All ranks raise the same error. Steps not committed within ``timeout`` seconds are lost.
        """
        if self._ranks is None:
            return
        ranks, self._ranks = self._ranks, None
        writer, self._writer = self._writer, None
        leader, self._leader = self._leader, None
        first = None if writer is None else lambda: writer.close(timeout)
        then = None if leader is None else lambda: leader.close(timeout)
        if leader is not None and self.solvers is None:
            first, then = lambda: leader.close(math.inf), None
        try:
            ranks.agree(first, timeout)
            ranks.agree(then, timeout)
        finally:
            # No rank may use the shared memory when it is freed below.
            del writer
            if leader is not None:
                leader.abort()
            atexit.unregister(self._at_exit)
            with contextlib.suppress(_errors.Unavailable):
                ranks.wait([ranks.comm.Ibarrier()] if not ranks.torn else [], more=timeout)
            # Freeing is collective, so it needs all ranks.
            if not ranks.torn:
                if self._window is not None:
                    self._window.Free()
                if self.solvers is not None:
                    self.solvers.Free()
                ranks.comm.Free()
            self.solvers = None
            self.table.close()

    def _open(self) -> _kubist.StepWriter:
        if self._writer is None:
            raise _errors.Refused("this run is closed, or this rank only commits")
        return self._writer

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an exception, other ranks may not join a collective call, so do not close.
        if kind is None:
            self.close()


@checked_options()
def open(
    comm: Any,
    path: str | os.PathLike[str],
    schema: Rows | ArrowSchema | None = None,
    dimensions: Mapping[str, Domain] | Sequence[str] | None = None,
    *,
    create: CreateForRanks | None = None,
    mode: Literal["auto", "rank", "node", "dedicated"] = "auto",
    queue: int = 2,
    keep: Keep | None = None,
    timeout: float = 60.0,
    lane_bytes: int = 16 << 20,
    restart_after: int | None = None,
    collective_seconds: float = 600.0,
) -> Run:
    """Opens a table on all ranks of ``comm``, collectively.

    Parameters
    ----------
    comm
        A communicator of mpi4py.
    path
        The location of the table.
    schema, dimensions
        As for `kubist.create`: the first rank creates a missing table. Without a schema, the table
        must exist.
    create
        Other options of a new table, as for `kubist.create`: ``identity``, ``lookup``,
        ``capacity``, ``seed``, ``units``, ``accuracy``, ``metadata``, ``storage``.
    mode
        Which ranks commit: every rank (``"rank"``), a thread of the node's first rank (``"node"``),
        or the node's last rank, which does nothing else (``"dedicated"``, see `Run.solvers`).
        ``"auto"`` is ``"rank"`` on nodes with at most 4 ranks, else ``"node"``. The values of the
        first rank count, also for ``lane_bytes`` and ``restart_after``.
    queue
        The maximum number of steps that wait for a commit while the solver continues. With 0 and
        ``"rank"``, a step is durable when `Run.write` returns.
    keep
        Which rows of a step to store (docs/simulations.md), as a dict:

        - ``when_full``: what `Run.write` does when the queue is full. It waits up to ``timeout``
          (``"block"``, the default), stores fewer rows of the step (``"thin"``), or abandons the
          step and raises `Busy` (``"fail"``).
        - ``budget_rows_per_step``, ``budget_bytes_per_step``: the maximum number of rows of a step
          over all ranks, or the maximum bytes of their values. Rows of lowest priority are stored.
        - ``budget_bytes``: the maximum bytes of ``budget_steps`` steps together.
        - ``always_keep``: a condition; rows that match it are stored regardless of priority.
        - ``persist_when``: a condition on ``max(x)``, ``min(x)``, ``count()`` and ``count(x)`` of
          all rows. A step that does not match is abandoned.
        - ``whole_paths``: whether to store rows of an identity only if all its earlier steps were
          stored. It is on by default, unless one of several identity columns is a dimension. It
          excludes ``"thin"``, with which ranks may store different fractions.
    timeout
        Seconds to wait for space in the queue, and for the writers of a job that has just ended.
    lane_bytes
        Bytes of shared memory for each rank of a node.
    restart_after
        The step of the checkpoint from which the simulation continues; later steps are retracted.
    collective_seconds
        Seconds that a collective call waits for other ranks, in addition to its own time. A timeout
        raises `Unavailable`, and prevents further collective calls.

    Raises
    ------
    Error
        All ranks raise the error of the rank that failed.
    """
    from mpi4py import MPI

    made = group("open", "create", create, CreateForRanks)
    keeping = {"when_full": "block"} | group("open", "keep", keep, Keep)

    def check() -> None:
        if mode not in ("auto", "rank", "node", "dedicated"):
            raise InvalidInput(f"mode must be auto, rank, node or dedicated, not {mode!r}")
        if (when_full := keeping["when_full"]) not in ("block", "thin", "fail"):
            raise InvalidInput(f"when_full must be block, thin or fail, not {when_full!r}")

    _Ranks(comm, collective_seconds).agree(check)
    mode, lane_bytes, restart_after = comm.bcast((mode, lane_bytes, restart_after))
    comm = comm.Dup()
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    if mode == "auto":
        mode = "rank" if comm.allreduce(node.size, MPI.MAX) <= _MOST_RANK_WRITERS else "node"
    # The dedicated rank is the last one, because the solver usually needs the first.
    leader = node.size - 1 if mode == "dedicated" else 0
    leads = node.rank == leader
    nodes = comm.allreduce(int(leads))
    number = comm.exscan(int(leads)) or 0
    least = comm.allreduce(node.size, MPI.MIN)
    solvers = comm.Split(MPI.UNDEFINED if mode == "dedicated" and leads else 0, comm.rank)

    writers = comm.size if mode == "rank" else nodes

    def first() -> Table:
        if mode == "dedicated" and least == 1:
            raise InvalidInput(
                "a node has one rank: where one of each node is dedicated to writing, "
                "none would compute there"
            )
        if schema is None:
            table = open_table(path)
        else:
            table = create_table(path, _columns(schema), dimensions or {}, exist_ok=True, **made)
        if restart_after is None:
            table.declare_writers(writers)
        return table

    ranks = _Ranks(comm, collective_seconds)
    agree = ranks.agree
    table = agree(first if comm.rank == 0 else None)
    table = agree(None if comm.rank == 0 else lambda: open_table(path)) or table
    run = Run(ranks, table, mode, None if solvers == MPI.COMM_NULL else solvers)
    has_budget = any(value is not None for name, value in keeping.items() if name != "when_full")
    run._is_collective = bool(comm.allreduce(int(has_budget)))
    if mode == "rank":

        def alone() -> _kubist.StepWriter:
            name = f"rank-{comm.rank}"
            writer: _kubist.StepWriter = table._table.step_writer(
                name=name, timeout=timeout, queue=queue, keeping=keeping
            )
            return writer

        run._writer = agree(alone)
    else:
        lanes = node.size - 1 if mode == "dedicated" else node.size
        ring = _kubist.ring_bytes(lanes, lane_bytes)
        # By default, MPI would abort the job if it cannot allocate shared memory.
        node.Set_errhandler(MPI.ERRORS_RETURN)

        def share() -> Any:
            try:
                return MPI.Win.Allocate_shared(ring if leads else 0, 1, comm=node)
            except (MPI.Exception, OverflowError) as error:
                advice = "see to /dev/shm, or make lane_bytes smaller"
                raise _errors.Unavailable(
                    f"the ranks of a node cannot share {ring} bytes ({error}): {advice}"
                ) from error

        run._window = agree(share)
        memory, _ = run._window.Shared_query(leader)
        place = MPI.Get_address(memory), memory.nbytes

        def lead() -> _kubist.Leader:
            name = f"node-{number}"
            started: _kubist.Leader = table._table.leader(
                *place,
                lanes,
                name=name,
                timeout=timeout,
                queue=queue,
                dedicated=mode == "dedicated",
            )
            return started

        def attach() -> _kubist.StepWriter:
            writer: _kubist.StepWriter = table._table.attach(
                *place, node.rank, timeout=timeout, keeping=keeping
            )
            return writer

        run._leader = agree(lead if leads else None)
        run._writer = agree(None if run.solvers is None else attach)
        # Without `close`, MPI frees the shared memory at the end of the program, so this process
        # must stop using it before.
        if run._leader is not None:
            run._at_exit = run._leader.abort
        else:
            run._at_exit = functools.partial(_kubist.ring_leave, *place, node.rank)
        atexit.register(run._at_exit)
    node.Free()
    if restart_after is not None:

        def take_back() -> None:
            # This job owns the logs of its writers. Other writers of the old job must end before
            # its later steps are retracted and the writers of this job are declared.
            kind = "rank" if mode == "rank" else "node"
            table._table.await_writers(kind=kind, count=writers, timeout=timeout)
            table.retract(step_after=restart_after)
            table.declare_writers(writers, after=restart_after)

        agree(take_back if comm.rank == 0 else None)
    return run


def _columns(schema: Any) -> Any:
    return schema if is_schema(schema) else Data(schema).schema
