"""Queries for programs with an event loop."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import kubist
from kubist import _async


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    rows = {"pid": np.arange(20_000), "x": np.linspace(0, 1, 20_000)}
    at = tmp_path_factory.mktemp("async") / "table"
    return kubist.create(str(at), rows, dimensions=["x"], identity=["pid"])


class Waiting:
    """A result that is read until it is closed."""

    def __init__(self) -> None:
        self.reads = threading.Event()
        self.closed = threading.Event()

    def materialize(self) -> Waiting:
        self.reads.set()
        assert self.closed.wait(60)
        return self

    def close(self) -> None:
        self.closed.set()


def test_it_returns_what_query_does(table: kubist.Table) -> None:
    async def ask() -> list[kubist.Result]:
        return await asyncio.gather(
            table.aquery({"x": (0.25, 0.5)}, columns=["pid"], order_by="pid"),
            table.snapshot().aquery(limit=10),
        )

    ordered, few = asyncio.run(ask())
    expected = table.query({"x": (0.25, 0.5)}, columns=["pid"], order_by="pid").to_numpy()["pid"]
    np.testing.assert_array_equal(ordered.to_numpy()["pid"], expected)
    assert len(few.to_numpy()["x"]) == 10
    assert few.stats.rows_returned == 10


def test_errors_come_as_from_query(table: kubist.Table) -> None:
    with pytest.raises(kubist.InvalidInput, match="no column"):
        asyncio.run(table.aquery({"nothing": (0, 1)}))
    with pytest.raises(TypeError, match="did you mean `where`"):
        asyncio.run(table.aquery(filter="x > 0"))


def test_the_event_loop_runs_while_a_result_is_read() -> None:
    waiting = Waiting()

    async def ask() -> object:
        task = asyncio.ensure_future(_async.materialized(lambda: waiting))  # type: ignore[arg-type, return-value]
        while not waiting.reads.is_set():
            await asyncio.sleep(0)
        # The result is complete only because this loop runs.
        waiting.close()
        return await task

    assert asyncio.run(ask()) is waiting


@pytest.mark.parametrize("is_asked", [True, False])
def test_cancelling_the_task_closes_the_result(is_asked: bool) -> None:
    waiting, asks, goes_on = Waiting(), threading.Event(), threading.Event()

    def question() -> Waiting:
        asks.set()
        assert is_asked or goes_on.wait(60)
        return waiting

    async def ask() -> None:
        task = asyncio.ensure_future(_async.materialized(question))  # type: ignore[arg-type]
        while not (waiting.reads if is_asked else asks).is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()

    asyncio.run(ask())
    assert waiting.closed.wait(60)


def test_a_real_query_can_be_closed_while_it_is_read(table: kubist.Table) -> None:
    async def ask() -> None:
        task = asyncio.ensure_future(table.aquery(order_by="x"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len((await table.aquery()).to_numpy()["x"]) == 20_000

    asyncio.run(ask())
