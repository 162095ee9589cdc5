"""What the ParaView plug-in reads with, without ParaView."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import kubist
from kubist.paraview.reading import News, Snapshot


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
