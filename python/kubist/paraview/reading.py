"""What the ParaView plug-in asks of a table, and how the answer grows; nothing of ParaView."""

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
from kubist._pushdown import quoted

__all__ = [
    "FIRST_POINTS",
    "Answer",
    "Changes",
    "Question",
    "axes_of",
    "distinct",
    "levels",
    "literal",
    "open_at",
    "quoted",
    "same_snapshot",
    "seconds",
    "together",
]

Made = TypeVar("Made")
Array = np.ndarray[Any, Any]
Snapshot = LocalSnapshot | RemoteSnapshot

SAMPLED = 8192
"""Records that tell how many match."""

MOST_STEPS = 4096
"""With more values than this a column of times is no row of time steps."""

FIRST_POINTS = 100_000
"""Points of the first picture of a refinement; each one has four times those before."""


PATIENCE = 1.0
"""Seconds until a server that did not answer is asked for changes again."""


def open_at(place: str) -> Table | RemoteTable:
    """The table in a directory, or that one of its files belongs to, or at an address."""
    if place.startswith(("http://", "https://", "ssh://")):
        return kubist.connect(place)
    path = Path(place)
    return kubist.open(str(path.parent if path.is_file() else path))


def axes_of(snapshot: Snapshot) -> tuple[list[str], str]:
    """The columns that places (x, y, z) and time most likely are; empty: none."""
    dimensions = [dimension.column for dimension in snapshot._about().dimensions]
    times = [name for name in dimensions if name.lower() in ("t", "time", "step", "timestep")]
    places = [name for name in dimensions if name not in times]
    return [*places, "", "", ""][:3], (times or [""])[0]


def literal(value: Any) -> str:
    """A value of a column as SQL."""
    if isinstance(value, np.datetime64):
        return f"'{value}'"
    return repr(value.item())


def distinct(snapshot: Snapshot, column: str) -> Array | None:
    """All values of a column, ascending; None if there are too many to step through.

    First those of a sample, then, as long as there are any, those that are none of them.
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
    """Times as ParaView has them; dates count from the first."""
    if values.dtype.kind == "M":
        since: Array = (values - values[0]) / np.timedelta64(1, "s")
        return since
    return values.astype(np.float64)


def levels(share: float, first: float) -> list[tuple[float, float]]:
    """Windows of priority up to a share: the first so wide, then up to four times all before."""
    ends = [0.0, min(first, share)]
    while ends[-1] < share:
        ends.append(min(ends[-1] * 4, share))
    return list(pairwise(ends))


class Question:
    """What to read, all of it plain: equal questions have equal answers."""

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
        """Equal for equal questions."""
        return (repr(self.box), self.where, tuple(self.columns), self.sample, self.limit)

    def share(self, snapshot: Snapshot) -> tuple[float, float]:
        """The fraction at which about ``limit`` points match, or the one that is asked for,
        and about how many points match at it."""
        some = [snapshot.columns[0]]
        probe = snapshot.query(box=self.box, where=self.where, columns=some, limit=SAMPLED)
        rows = len(probe.to_numpy()[some[0]]) / probe.fraction
        share = min(self.sample, self.limit / rows) if rows > 0 else self.sample
        return share, rows * share


class Answer:
    """The points so far, from coarse to fine; each record is read once.

    Windows of priority follow one another from 0 on, so that what was taken is a sample of the
    fraction at which the last of its windows ends.

    Whoever asks takes what is there. The reading goes on beside, on a thread that the
    interpreter lock does not stop, because it is free while Kubist works.
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
        """All of it, now."""
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
        """All of it, beside whatever comes next."""
        threading.Thread(target=self.read, daemon=True).start()

    def stop(self) -> None:
        """Nobody wants the rest."""
        with self._changed:
            self._stopped = True
            if self._result is not None:
                self._result.close()

    def is_read(self) -> bool:
        """Is all of it here?"""
        return self._done

    def has_more(self) -> bool:
        """Is there more than was taken last, or an error that nobody heard of?"""
        return len(self._frames) > self._taken or (self._error is not None and not self._told)

    def take(self, patience: float | None = None) -> list[dict[str, Array]]:
        """What is there, once there is something, or after that many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._done or self._frames), patience)
            if self._error is not None:
                self._told = True
                raise self._error
            self._taken = len(self._frames)
            return list(self._frames)

    def inclusion(self) -> float:
        """The probability with which a record is among those that were taken last."""
        return self._windows[self._taken - 1][1] if self._taken else 0.0


def _drawn(values: Array) -> Array:
    """VTK has no null: NaN stands for it, in integers and booleans too."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    filled: Array = values.astype(np.float64).filled(np.nan)
    return filled


def together(world: Any, work: Callable[[], Made]) -> Made:
    """What this rank makes of it; where it fails on one rank it fails on all of them.

    Otherwise those that go on would wait for ever for the one that does not.
    """
    made, error = None, None
    try:
        made = work()
    except Exception as raised:
        error = raised
    errors = [raised for raised in world.allgather(error) if raised is not None]
    if errors:
        expired = [raised for raised in errors if isinstance(raised, kubist.SnapshotExpired)]
        raise (expired or errors)[0]
    return cast(Made, made)


def same_snapshot(world: Any, table: Table | RemoteTable, snapshot: Snapshot) -> Snapshot:
    """The snapshot of the first rank, on every rank: its token leads there."""
    token = world.bcast(snapshot.token, root=0)
    return together(world, lambda: snapshot if snapshot.token == token else table.at(token))


class Changes:
    """The newest snapshot of a table, once there is one that was not taken yet.

    It is waited for on a thread, so that a server that is slow to answer, or gone, holds up
    nobody. The thread ends with this object.
    """

    def __init__(self, table: Any, seen: Snapshot) -> None:
        self._following = _Following(table, seen)
        self.stop = weakref.finalize(self, self._following.stop)
        threading.Thread(target=self._following.follow, daemon=True).start()

    def take(self) -> Snapshot | None:
        """The newest snapshot, the first time that it is asked for."""
        return self._following.take()


class _Following:
    """What the thread and the reader of the changes share."""

    def __init__(self, table: Any, seen: Snapshot) -> None:
        self._table = table
        self._seen = seen
        self._newest: Snapshot | None = None
        self._stopped = False
        self._changed = threading.Condition()

    def follow(self) -> None:
        while True:
            with self._changed:
                # A server need not keep a snapshot that nobody takes.
                self._changed.wait_for(lambda: self._stopped or self._newest is None)
                if self._stopped:
                    return
            try:
                # Ends now and then, to see whether anybody still wants to know.
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
