"""The queries of the ParaView plug-in and their progressive results, without ParaView."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

import kubist
from kubist import RemoteSnapshot, RemoteTable, Result, Table
from kubist import Snapshot as LocalSnapshot
from kubist._places import is_sealed, is_server
from kubist._pushdown import quoted

__all__ = [
    "FIRST_POINTS",
    "PointStream",
    "Changes",
    "PointQuery",
    "axes_of",
    "distinct",
    "levels",
    "literal",
    "on_all_ranks",
    "open_at",
    "quoted",
    "same_snapshot",
    "seconds",
]

Value = TypeVar("Value")
Array = np.ndarray[Any, Any]
Snapshot = LocalSnapshot | RemoteSnapshot

SAMPLED = 8192
"""Number of sampled rows from which the number of matching rows is estimated."""

MOST_STEPS = 4096
"""Maximum number of distinct values of a column of time steps."""

FIRST_POINTS = 100_000
"""Points in the first result of a refinement; each later result has four times as many."""


PATIENCE = 1.0
"""Seconds to wait before the next call to a server that did not respond."""


def open_at(place: str) -> Table | RemoteTable:
    """Opens a table by its directory, a file in the directory, a sealed file, or an address."""
    if is_server(place):
        return kubist.connect(place)
    if "://" in place:
        return kubist.open(place)
    path = Path(place)
    return kubist.open(str(path.parent if path.is_file() and not is_sealed(path) else path))


def axes_of(snapshot: Snapshot) -> tuple[list[str], str]:
    """The likely columns of x, y, z and time; empty for columns that are not found."""
    dimensions = [dimension.column for dimension in snapshot._about().dimensions]
    times = [name for name in dimensions if name.lower() in ("t", "time", "step", "timestep")]
    spatial = [name for name in dimensions if name not in times]
    return [*spatial, "", "", ""][:3], (times or [""])[0]


def literal(value: Any) -> str:
    if isinstance(value, np.datetime64):
        return f"'{value}'"
    return repr(value.item())


def distinct(snapshot: Snapshot, column: str) -> Array | None:
    """All values of a column, ascending; None if there are too many for time steps.

    It repeatedly samples the rows that have none of the known values.
    """
    found: Array = np.array([])
    while True:
        known = ", ".join(literal(value) for value in found)
        where = f"{quoted(column)} IS NOT NULL"
        if len(found):
            where = f"{quoted(column)} NOT IN ({known})"
        fresh = snapshot.query(columns=[column], where=where, limit=SAMPLED).to_numpy()[column]
        fresh = np.unique(fresh[fresh == fresh])
        if len(fresh) == 0:
            return found
        found = np.union1d(found, fresh) if len(found) else fresh
        if len(found) > MOST_STEPS:
            return None


def seconds(values: Array) -> Array:
    """Times as floats; dates become seconds since the first."""
    if values.dtype.kind == "M":
        since: Array = (values - values[0]) / np.timedelta64(1, "s")
        return since
    return values.astype(np.float64)


def levels(share: float, first: float) -> list[tuple[float, float]]:
    """Windows of priority up to ``share``: the first ends at ``first``, each later one at four
    times the previous end.
    """
    ends = [0.0, min(first, share)]
    while ends[-1] < share:
        ends.append(min(ends[-1] * 4, share))
    return list(pairwise(ends))


class PointQuery:
    def __init__(
        self,
        box: dict[str, tuple[float, float]],
        where: str | None,
        columns: Sequence[str],
        sample: float,
        limit: int,
    ) -> None:
        self.box, self.where, self.columns = box, where, list(columns)
        self.sample, self.limit = sample, limit

    def key(self) -> tuple[Any, ...]:
        return (repr(self.box), self.where, tuple(self.columns), self.sample, self.limit)

    def share(self, snapshot: Snapshot) -> tuple[float, float]:
        """The fraction to read, and the approximate number of points.

        It has about ``limit`` matching points, and is at most ``sample``.
        """
        some = [snapshot.columns[0]]
        probe = snapshot.query(box=self.box, where=self.where, columns=some, limit=SAMPLED)
        rows = len(probe.to_numpy()[some[0]]) / probe.fraction
        share = min(self.sample, self.limit / rows) if rows > 0 else self.sample
        return share, rows * share


class PointStream:
    """The points of a query from coarse to fine; each row is read once.

    It reads consecutive windows of priority from 0, so the points so far are a sample whose
    fraction is the end of the last window. A thread reads while the caller takes the points,
    because Kubist releases the interpreter lock.
    """

    def __init__(
        self, ask: Callable[[float, float], Result], windows: Sequence[tuple[float, float]]
    ) -> None:
        self._ask = ask
        self._windows = windows
        self._changed = threading.Condition()
        self._frames: list[dict[str, Array]] = []
        self._taken = 0
        self._told = False
        self._done = self._stopped = False
        self._result: Result | None = None
        self._error: Exception | None = None

    def read(self) -> None:
        """Reads all windows on this thread."""
        try:
            for low, high in self._windows:
                if self._stopped:
                    return
                result = self._ask(low, high)
                with self._changed:
                    if self._stopped:
                        result.close()
                        return
                    self._result = result
                frame = {name: _drawn(values) for name, values in result.to_numpy().items()}
                with self._changed:
                    if self._stopped:
                        return
                    self._frames.append(frame)
                    self._changed.notify_all()
        except Exception as error:
            self._error = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def begin(self) -> None:
        """Reads all windows on another thread."""
        threading.Thread(target=self.read, daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            if self._result is not None:
                self._result.close()

    def is_read(self) -> bool:
        return self._done

    def has_more(self) -> bool:
        """Whether there are new points or an unreported error since the last `take`."""
        return len(self._frames) > self._taken or (self._error is not None and not self._told)

    def take(self, patience: float | None = None) -> list[dict[str, Array]]:
        """The frames so far; waits for the first one, at most ``patience`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._done or self._frames), patience)
            if self._error is not None:
                self._told = True
                raise self._error
            self._taken = len(self._frames)
            return list(self._frames)

    def inclusion(self) -> float:
        """The inclusion probability of the rows that were last taken."""
        return self._windows[self._taken - 1][1] if self._taken else 0.0


def _drawn(values: Array) -> Array:
    """Replaces nulls by NaN, also in integers and booleans, because VTK has no null."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    filled: Array = values.astype(np.float64).filled(np.nan)
    return filled


def on_all_ranks(communicator: Any, work: Callable[[], Value]) -> Value:
    """Runs ``work`` on all ranks, and raises an error of any rank on all, so that none waits."""
    made, error = None, None
    try:
        made = work()
    except Exception as raised:
        error = raised
    errors = [raised for raised in communicator.allgather(error) if raised is not None]
    if errors:
        expired = [raised for raised in errors if isinstance(raised, kubist.SnapshotExpired)]
        raise (expired or errors)[0]
    return cast(Value, made)


def same_snapshot(communicator: Any, table: Table | RemoteTable, snapshot: Snapshot) -> Snapshot:
    token = communicator.bcast(snapshot.token, root=0)
    return on_all_ranks(communicator, lambda: snapshot if snapshot.token == token else table.at(token))


class Changes:
    """The newest snapshot of a table, for a reader that polls.

    A thread waits for commits, so a slow or missing server does not block the caller. The thread
    ends with this object.
    """

    def __init__(self, table: Any, seen: Snapshot) -> None:
        self._following = _Following(table, seen)
        self.stop = weakref.finalize(self, self._following.stop)
        threading.Thread(target=self._following.follow, daemon=True).start()

    def take(self) -> Snapshot | None:
        """Returns a new snapshot once, and None until the next one."""
        return self._following.take()


class _Following:
    def __init__(self, table: Any, seen: Snapshot) -> None:
        self._table = table
        self._seen = seen
        self._newest: Snapshot | None = None
        self._stopped = False
        self._changed = threading.Condition()

    def follow(self) -> None:
        while True:
            with self._changed:
                # A server may delete a snapshot that was not taken.
                self._changed.wait_for(lambda: self._stopped or self._newest is None)
                if self._stopped:
                    return
            try:
                # The timeout lets the thread notice a stop.
                found = next(self._table.watch(timeout=PATIENCE, since=self._seen), None)
            except kubist.Error:
                time.sleep(PATIENCE)
                continue
            if found is not None:
                with self._changed:
                    self._seen = self._newest = found

    def take(self) -> Snapshot | None:
        with self._changed:
            newest, self._newest = self._newest, None
            self._changed.notify_all()
            return newest

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
