"""The reading part of the ParaView plug-in, without ParaView."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import kubist
from kubist.paraview.reading import Changes, Snapshot, on_all_ranks, same_snapshot


def first(changes: Changes) -> Snapshot:
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


Made = TypeVar("Made")


class World:
    def __init__(self, ranks: int) -> None:
        self._barrier = threading.Barrier(ranks, timeout=60)
        self._gathered: dict[int, object] = {}
        self._ranks: dict[int, int] = {}
        self._sent: object = None

    def allgather(self, value: object) -> list[object]:
        self._gathered[threading.get_ident()] = value
        self._barrier.wait()
        return list(self._gathered.values())

    def bcast(self, value: object, root: int) -> object:
        rank = self._ranks[threading.get_ident()]
        if rank == root:
            self._sent = value
        self._barrier.wait()
        return self._sent

    def run(self, works: list[Callable[[], Made]]) -> list[Made | Exception]:
        def rank(number: int) -> Made | Exception:
            self._ranks[threading.get_ident()] = number
            try:
                return works[number]()
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(works)) as pool:
            return list(pool.map(rank, range(len(works))))

    def each(self, works: list[Callable[[], int]]) -> list[int | Exception]:
        return self.run([lambda work=work: on_all_ranks(self, work) for work in works])  # type: ignore[misc]


def test_ranks_go_on_together_or_fail_together() -> None:
    assert World(3).each([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]

    def fail(error: Exception) -> Callable[[], int]:
        def work() -> int:
            raise error

        return work

    lost, gone = kubist.StorageError("a disk"), kubist.SnapshotExpired("cleaned")
    assert World(3).each([lambda: 1, fail(lost), lambda: 3]) == [lost] * 3
    # After an expired snapshot all ranks query again, also with other failures.
    assert World(3).each([fail(lost), lambda: 2, fail(gone)]) == [gone] * 3


def test_ranks_open_the_snapshot_of_the_first(path: Path) -> None:
    tables = [kubist.create(path, {"x": [0.5]}, ["x"])]
    snapshots = [tables[0].snapshot()]
    for _ in range(2):
        # Each rank opened the table one commit later than the previous rank.
        tables[0].append({"x": [0.25]})
        tables.append(kubist.open(path))
        snapshots.append(tables[-1].snapshot())
    world = World(3)

    def rank(number: int) -> Callable[[], Snapshot]:
        return lambda: same_snapshot(world, tables[number], snapshots[number])

    found = world.run([rank(number) for number in range(3)])
    assert [len(each) for each in found if isinstance(each, kubist.Snapshot)] == [1, 1, 1]
    assert found[0] is snapshots[0]
