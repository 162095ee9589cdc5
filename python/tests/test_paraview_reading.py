"""What the ParaView plug-in reads with, without ParaView."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kubist
from kubist.paraview.reading import Changes, Snapshot, together


def first(changes: Changes) -> Snapshot:
    """The next snapshot."""
    end = time.monotonic() + 60
    while (seen := changes.take()) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return seen


def test_changes_come_once_and_end_with_the_reader(path: Path) -> None:
    table = kubist.create(path, {"x": [1.0]}, dimensions=["x"])
    before = set(threading.enumerate())
    changes: Changes | None = Changes(table, table.snapshot())
    assert changes.take() is None
    for rows in (2, 3):
        table.append({"x": [float(rows)]})
        seen = first(changes)
        assert len(seen) == rows and changes.take() is None
    changes = None
    gc.collect()
    end = time.monotonic() + 60
    while not set(threading.enumerate()) <= before:
        assert time.monotonic() < end, "its thread goes on"
        time.sleep(0.01)


class World:
    """Ranks that are threads."""

    def __init__(self, ranks: int) -> None:
        self._barrier = threading.Barrier(ranks, timeout=60)
        self._gathered: dict[int, object] = {}

    def allgather(self, value: object) -> list[object]:
        self._gathered[threading.get_ident()] = value
        self._barrier.wait()
        return list(self._gathered.values())

    def each(self, works: list[Callable[[], int]]) -> list[int | Exception]:
        def rank(work: Callable[[], int]) -> int | Exception:
            try:
                return together(self, work)
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(works)) as pool:
            return list(pool.map(rank, works))


def test_ranks_go_on_together_or_fail_together() -> None:
    assert World(3).each([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]

    def fail(error: Exception) -> Callable[[], int]:
        def work() -> int:
            raise error

        return work

    lost, gone = kubist.StorageError("a disk"), kubist.SnapshotExpired("cleaned")
    assert World(3).each([lambda: 1, fail(lost), lambda: 3]) == [lost] * 3
    # What is expired can be asked anew: all do, whatever else went wrong.
    assert World(3).each([fail(lost), lambda: 2, fail(gone)]) == [gone] * 3
