"""What the ParaView plug-in reads with, without ParaView."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kubist
from kubist.paraview.reading import News, Snapshot, together


def first(news: News) -> Snapshot:
    """What it tells next."""
    end = time.monotonic() + 60
    while (told := news.take()) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return told


def test_news_are_told_once_and_end_with_who_listens(path: Path) -> None:
    table = kubist.create(path, {"x": [1.0]}, dimensions=["x"])
    before = set(threading.enumerate())
    news: News | None = News(table, table.snapshot())
    assert news.take() is None
    for rows in (2, 3):
        table.append({"x": [float(rows)]})
        told = first(news)
        assert len(told) == rows and news.take() is None
    news = None
    gc.collect()
    end = time.monotonic() + 60
    while not set(threading.enumerate()) <= before:
        assert time.monotonic() < end, "its thread goes on"
        time.sleep(0.01)


class World:
    """Ranks that are threads."""

    def __init__(self, ranks: int) -> None:
        self._barrier = threading.Barrier(ranks, timeout=60)
        self._told: dict[int, object] = {}

    def allgather(self, told: object) -> list[object]:
        self._told[threading.get_ident()] = told
        self._barrier.wait()
        return list(self._told.values())

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
