"""MPI programs in Python that write while they run, over mpi4py.

>>> from mpi4py import MPI
>>> import kubist.mpi
>>> with kubist.mpi.open(
...     MPI.COMM_WORLD, "run.kubist", schema, dimensions={"x": (0, 1)},
...     create={"identity": ["pid", "time"]},
... ) as run:
...     for step in range(1, 1001):
...         particles.move()
...         run.write(step, {"x": particles.x, "pid": particles.pid, "time": particles.time})

Opening and closing are collective, nothing between them is, but for `Run.write` within a budget,
which is of all ranks. Each rank writes to the table on
its own (``mode="rank"``), or puts into memory that the ranks of a node share, and a thread of
the node's first rank commits (``mode="node"``), or the node's last rank, which does nothing else
(``mode="dedicated"``): kubist_mpi.h does the same in C. A step is
complete once all ranks ended or abandoned it. No thread but the caller's calls MPI.

Where ranks are dedicated to committing, `Run.solvers` are the others:

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
from ._data import Data, is_schema
from ._errors import Error, InvalidInput
from ._options import checked_options, group
from ._table import Table
from ._table import create as create_table
from ._table import open as open_table

if TYPE_CHECKING:
    from ._arguments import ArrowSchema, Domain, Rows

__all__ = ["Run", "open"]

# With more ranks than these on a node, one of them commits for all.
_MOST_ALONE = 4
# Bytes of the words in which a rank says why it failed.
_WORDS = 1024
# How long a rank sleeps between two looks at whether the others have come.
_PAUSE = 20e-6


class _Together:
    """A communicator whose calls end although a rank does not come."""

    def __init__(self, comm: Any, patience: float) -> None:
        self.comm = comm
        self.patience = patience
        self.torn = False
        # What a rank that never comes could still write to.
        self._lost: list[object] = []

    def wait(self, requests: Sequence[Any], *buffers: object, more: float = 0.0) -> None:
        """Waits until all ranks have come to what was begun; ``more`` seconds are theirs."""
        end = time.monotonic() + self.patience + max(more, 0.0)
        while not all(request.Test() for request in requests):
            if time.monotonic() >= end:
                self.torn = True
                self._lost += [*requests, *buffers]
                raise _errors.Unavailable(
                    f"a rank did not come to a collective call within {self.patience:g} s: "
                    "it has died, or does something else"
                )
            time.sleep(_PAUSE)

    def agree(self, call: Any, more: float = 0.0) -> Any:
        """Calls what this rank has to do; a failure of one rank is raised in all."""
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
        words = bytearray(why.encode()[:_WORDS].ljust(_WORDS, b"\0"))
        self.wait([comm.Ibcast([words, MPI.BYTE], root=worst[1])], words)
        name, _, message = words.rstrip(b"\0").decode(errors="replace").partition("\n")
        raise getattr(_errors, name)(message)

    def summed(
        self, solvers: Any, words: list[int], largest: list[float]
    ) -> tuple[list[int], list[float]]:
        """The sum of the shares in a step of those ranks that compute."""
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
    """A table that all ranks of a communicator write to; made by `open`.

    Attributes:
        table: The table.
        mode: Who commits: ``"rank"``, ``"node"`` or ``"dedicated"``.
        solvers: A communicator of the ranks that compute, for their own use; None in a rank that
            is dedicated to committing, which only closes.
    """

    def __init__(self, ranks: _Together, table: Table, mode: str, solvers: Any | None) -> None:
        self.table = table
        self.mode = mode
        self.solvers = solvers
        self._ranks: _Together | None = ranks
        self._writer: _kubist.StepWriter | None = None
        self._leader: _kubist.Leader | None = None
        self._window: Any = None
        # What is called at the end of a program that does not close.
        self._at_exit: Any = None
        # All ranks end a step together.
        self._together = False

    def write(self, step: int, data: Rows | None) -> int:
        """Writes this rank's rows of a step: copied, and queued to be committed.

        Args:
            step: Goes up from call to call.
            data: As for `Table.append`, with all columns. None, or no rows: this rank has
                none in this step.

        Within a budget all ranks call this for each step, and keep a sample together.

        Returns:
            The number of its rows; within a budget, of those that are kept.
        """
        writer = self._open()
        if self._together:
            return self._write_together(self._ranks, writer, step, data)
        writer.begin(_box.step("step", step))
        try:
            rows = 0
            for part in () if data is None else Data(data, lambda: self.table.schema):
                rows += writer.put(part)
            writer.end()
        except BaseException:
            # The step is complete without this rank, or not at all; what failed is told.
            with contextlib.suppress(Error):
                writer.abandon()
            raise
        return rows

    def _write_together(
        self, ranks: _Together | None, writer: _kubist.StepWriter, step: int, data: Rows | None
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
            # The others are told, and wait for this rank no longer.
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
        """Says that this rank has nothing for ``step`` and never will."""
        writer = self._open()
        writer.begin(_box.step("step", step))
        writer.abandon()

    def wait(self, step: int | None = None, timeout: float = math.inf) -> None:
        """Waits until what was written, up to ``step``, is durable.

        Raises:
            Busy: It was not in time.
        """
        self._open().wait(2**63 - 1 if step is None else _box.step("step", step), timeout)

    def close(self, timeout: float = math.inf) -> None:
        """Waits for what is queued and lets go of the table, collectively.

        A dedicated rank waits until those of its node have closed, however long they compute.

        Raises:
            Error: The same in all ranks: what could not be written in time is dropped.
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
            # Nobody uses the memory any more: it is freed after that.
            del writer
            if leader is not None:
                leader.abort()
            atexit.unregister(self._at_exit)
            with contextlib.suppress(_errors.Unavailable):
                ranks.wait([ranks.comm.Ibarrier()] if not ranks.torn else [], more=timeout)
            # What is freed together cannot be without a rank.
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
        # With an exception here the others may wait for this rank: closing is theirs to end.
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
    """Opens a table for all ranks of ``comm``, collectively.

    Args:
        comm: A communicator of mpi4py; all its ranks call this.
        path: Where the table is, or will be.
        schema, dimensions: As for `kubist.create`; the first rank makes the table, if it is not
            there. Without a schema it must be.
        create: What else a new table gets: ``identity``, ``lookup``, ``capacity``, ``seed``,
            ``units``, ``accuracy``, ``metadata``, ``storage``, as for `kubist.create`.
        mode: Who commits: each rank, a thread of the first of each node, or the last of each node,
            which is dedicated to it (see `Run.solvers`). ``auto``: each rank, if a node has at
            most 4, otherwise one of each node. Here, and for ``lane_bytes`` and
            ``restart_after``, the first rank's word counts.
        queue: Steps that wait to be committed while the solver goes on; 0, with ``"rank"``: a
            step is durable when `Run.write` returns.
        keep: Which records of a step are kept (docs/simulations.md):
            ``when_full``: What `Run.write` does when the queue is full: wait up to ``timeout``
            (``"block"``, the default); keep fewer of the step's records (``"thin"``); or raise
            `Busy`, and the step is abandoned (``"fail"``).
            ``budget_rows_per_step``, ``budget_bytes_per_step``: Records of all ranks that are kept
            of a step, or bytes of their values, at most: those of lowest priority.
            ``budget_bytes``, ``budget_steps``: Bytes that are kept of so many steps together.
            ``always_keep``: A condition on columns; these records are kept whatever their
            priority.
            ``persist_when``: A condition on ``max(x)``, ``min(x)``, ``count()`` and ``count(x)`` of
            all records: a step for which it does not hold is abandoned.
            ``whole_paths``: Whether what is kept of an identity in one step was kept in all before.
            By default so, unless one of several identity columns is a dimension; not beside
            ``"thin"``, where a rank may keep less than the others.
        timeout: Seconds to wait: for room, for the writers of an attempt that just ended.
        lane_bytes: Memory of each rank in the node's ring.
        restart_after: A step of a checkpoint: later ones are taken back before the first.
        collective_seconds: How long a collective call waits for other ranks, beside its own
            time. After that it raises `Unavailable`, and no collective call is possible.

    Raises:
        Error: The same in all ranks, of the class and with the message of the rank that failed.
    """
    from mpi4py import MPI

    made = group("open", "create", create, CreateForRanks)
    keeping = {"when_full": "block"} | group("open", "keep", keep, Keep)

    def check() -> None:
        if mode not in ("auto", "rank", "node", "dedicated"):
            raise InvalidInput(f"mode must be auto, rank, node or dedicated, not {mode!r}")
        if (when_full := keeping["when_full"]) not in ("block", "thin", "fail"):
            raise InvalidInput(f"when_full must be block, thin or fail, not {when_full!r}")

    _Together(comm, collective_seconds).agree(check)
    mode, lane_bytes, restart_after = comm.bcast((mode, lane_bytes, restart_after))
    comm = comm.Dup()
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    if mode == "auto":
        mode = "rank" if comm.allreduce(node.size, MPI.MAX) <= _MOST_ALONE else "node"
    # The last of a node is the one of which the solver's ranks are missed least.
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

    ranks = _Together(comm, collective_seconds)
    agree = ranks.agree
    table = agree(first if comm.rank == 0 else None)
    table = agree(None if comm.rank == 0 else lambda: open_table(path)) or table
    run = Run(ranks, table, mode, None if solvers == MPI.COMM_NULL else solvers)
    has_budget = any(value is not None for name, value in keeping.items() if name != "when_full")
    run._together = bool(comm.allreduce(int(has_budget)))
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
        # Memory that is not there is no reason to end the job.
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
        # MPI takes the memory away at the end of the program, also where nobody closes.
        if run._leader is not None:
            run._at_exit = run._leader.abort
        else:
            run._at_exit = functools.partial(_kubist.ring_leave, *place, node.rank)
        atexit.register(run._at_exit)
    node.Free()
    if restart_after is not None:

        def take_back() -> None:
            # This job's own names are its own by now: the old attempt's others end, then no
            # later step is there, and those that come are of this job's writers.
            kind = "rank" if mode == "rank" else "node"
            table._table.await_writers(kind=kind, count=writers, timeout=timeout)
            table.retract(step_after=restart_after)
            table.declare_writers(writers, after=restart_after)

        agree(take_back if comm.rank == 0 else None)
    return run


def _columns(schema: Any) -> Any:
    """Of data only the columns count: rows are written step by step."""
    return schema if is_schema(schema) else Data(schema).schema
