"""Handles: results are repeatable, snapshots pinned, writers released."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kubist

ROWS = 10_000


def rows(first: int, count: int = ROWS) -> dict[str, np.ndarray]:
    ids = np.arange(first, first + count)
    return {"id": ids, "x": np.modf(ids * 0.6180339887498949)[0], "step": ids // ROWS}


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, rows(0), {"x": (0, 1)}, identity=["id"])


READS = {
    "to_arrow()": lambda r: r.to_arrow(),
    "to_pandas()": lambda r: r.to_pandas(),
    "to_polars()": lambda r: r.to_polars(),
    "iteration": lambda r: list(r),
    "first batch": lambda r: next(iter(r)),
    "__arrow_c_stream__()": lambda r: pa.table(r),
}


@pytest.mark.parametrize("first", READS)
@pytest.mark.parametrize("second", READS)
def test_a_result_can_be_read_again(table: kubist.Table, first: str, second: str) -> None:
    r = table.query(columns=["x"], box={"x": (0.2, 0.3)})
    expected = table.query(columns=["x"], box={"x": (0.2, 0.3)}).to_arrow().sort_by("x")
    READS[first](r)
    table.append(rows(ROWS))
    READS[second](r)
    assert r.to_arrow().sort_by("x").equals(expected)


def test_what_a_result_says(table: kubist.Table) -> None:
    r = table.query(box={"x": (0.2, 0.4)}, sample=0.5, columns=["id"])
    assert "not yet read" in repr(r)
    assert r.fraction == 0.5
    found = r.to_arrow().num_rows
    assert f"{found:,} records read so far" in repr(r)
    s = r.stats
    assert s.rows_returned == found <= s.rows_read <= ROWS
    assert s.bytes_read > 0 and s.pages_read > 0 and s.cubes_visited > 0 and s.seconds > 0
    assert s == r.stats
    assert f"{found:,} records returned" in repr(s)
    assert table.query().fraction == 1
    assert table.query(window=(0.1, 0.3)).fraction == 0.3
    with table.query() as r:
        next(iter(r))
    with pytest.raises(kubist.Refused):
        r.to_arrow()
    closed = table.query()
    closed.close()
    with pytest.raises(kubist.Refused, match=r"close\(\)"):
        closed.to_arrow()


def test_asking_for_the_fraction_loses_no_rows(table: kubist.Table) -> None:
    expected = table.query(limit=100).to_arrow()
    r = table.query(limit=100)
    assert r.fraction == r.fraction < 1
    assert r.to_arrow().equals(expected)


def test_a_wide_question_streams(path: Path) -> None:
    t = kubist.create(path, rows(0, 500_000), {"x": (0, 1)}, identity=["id"])
    batches = [batch.num_rows for batch in t.query()]
    assert len(batches) > 1 and sum(batches) == 500_000
    for _ in range(50):
        next(iter(t.query()))
        t.query()
    assert len(t) == 500_000


def test_what_a_table_says(table: kubist.Table, path: Path) -> None:
    info = table.info()
    assert (info.rows, info.seed, info.identity) == (ROWS, 0, ["id"])
    assert info.location == str(path) == table.location
    [dimension] = info.dimensions
    assert (dimension.column, dimension.low, dimension.high) == ("x", 0, 1)
    assert [column.name for column in info.columns] == ["id", "x", "step"]
    assert [(w.rows, w.commits) for w in info.writers] == [(ROWS, 1)]
    assert info.bytes > 0 and info.bytes_per_row == pytest.approx(info.bytes / ROWS)
    for part in ("10,000", "x: 0 to 1 (linear)", "id: Int64", "10,000 records in 1 commit"):
        assert part in str(info)
    assert "<table>" in info._repr_html_() and "10,000" in info._repr_html_()
    assert info.to_dict()["dimensions"][0]["column"] == "x"
    assert repr(table) == f"<kubist.Table {str(path)!r}: 10,000 records>"
    assert repr(table.snapshot()).startswith("<kubist.Snapshot")
    commit = table.append(rows(ROWS))
    assert "10,000 records" in repr(commit) and commit.sequence == 2
    seen: list[tuple[int, int]] = []
    report = table.verify(progress=lambda done, total: seen.append((done, total)))
    assert report.ok and report.rows == 2 * ROWS and "intact" in repr(report)
    assert bool(kubist.create(path.with_name("empty"), table.schema, ["x"]))


def test_help_is_worth_reading() -> None:
    for name in kubist.__all__:
        thing = getattr(kubist, name)
        if name == "__version__":
            continue
        assert thing.__module__ == "kubist", name
        assert thing.__doc__, name
        for method, member in vars(thing).items() if isinstance(thing, type) else ():
            if callable(member) and not method.startswith("_"):
                assert member.__doc__, f"{name}.{method}"


def test_a_handle_follows_and_a_snapshot_does_not(table: kubist.Table, path: Path) -> None:
    reader = kubist.open(path)
    pinned = reader.snapshot()
    before = pinned.query(sample=0.1).to_arrow().sort_by("id")
    first = pinned.query(limit=50).to_arrow()
    for step in range(1, 6):
        table.append(rows(step * ROWS))
        assert len(reader) == (step + 1) * ROWS
        assert reader.count(where=f"step = {step}") == ROWS
        assert len(pinned) == pinned.info().rows == pinned.count() == ROWS
        assert pinned.query(sample=0.1).to_arrow().sort_by("id").equals(before)
        assert pinned.query(limit=50).to_arrow().equals(first)
        assert sum(r.to_arrow().num_rows for r in pinned.refine()) == ROWS
    assert pinned.schema == reader.schema and pinned.location == reader.location
    r = reader.query(columns=["step"])
    table.append(rows(6 * ROWS))
    assert r.to_arrow().num_rows == 6 * ROWS
    with reader.snapshot() as s:
        assert len(s) == 7 * ROWS


def test_a_writer_commits_what_it_is_told(table: kubist.Table) -> None:
    with table.writer("rank-7") as w:
        assert w.name == "rank-7"
        w.append(rows(ROWS))
        assert (w.pending_rows, len(table)) == (ROWS, ROWS)
        assert "10,000 records pending" in repr(w)
        done = w.commit()
        assert (done.writer, done.sequence, done.rows) == ("rank-7", 1, ROWS)
        assert (w.pending_rows, len(table)) == (0, 2 * ROWS)
        w.append(rows(2 * ROWS))
        w.discard()
        assert w.pending_rows == w.commit().rows == 0
        w.append(rows(3 * ROWS))
        w.append(rows(4 * ROWS))
    assert len(table) == 4 * ROWS
    by_name = {writer.name: writer for writer in table.info().writers}
    assert by_name["rank-7"].commits == 2
    for call in (lambda: w.append(rows(0)), w.commit):
        with pytest.raises(kubist.Refused, match="closed"):
            call()
    with table.writer("rank-7") as w:
        w.append(rows(5 * ROWS))
    assert len(table) == 5 * ROWS and table.verify(deep=True).ok


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_leaving_by_an_exception_discards(table: kubist.Table, error: type[Exception]) -> None:
    with pytest.raises(error):
        with table.writer() as w:
            w.append(rows(ROWS))
            w.commit()
            w.append(rows(2 * ROWS))
            raise error
    assert len(table) == 2 * ROWS
    table.append(rows(3 * ROWS))
    assert len(table) == 3 * ROWS and table.verify(deep=True).ok


def test_a_writer_that_is_dropped_discards(table: kubist.Table) -> None:
    w = table.writer("lost")
    w.append(rows(ROWS))
    del w
    assert len(table) == ROWS
    with table.writer("lost") as w:
        assert w.pending_rows == 0


def test_one_writer_of_a_name(table: kubist.Table, path: Path) -> None:
    with table.writer("a") as w:
        for t in (table, kubist.open(path)):
            with pytest.raises(kubist.Busy, match="a"):
                t.writer("a")
            with t.writer() as other:
                assert other.name != "a"
        w.append(rows(ROWS))
    assert len(table) == 2 * ROWS


def test_closed_handles_refuse(table: kubist.Table, path: Path) -> None:
    table.append(rows(ROWS))
    snapshot = table.snapshot()
    with table:
        pass
    table.close()
    calls: list[Any] = [table.query, table.count, table.info, table.snapshot, table.verify]
    calls += [table.writer, table.refine, lambda: len(table), lambda: table.append(rows(0))]
    for call in calls:
        with pytest.raises(kubist.Refused, match=r"closed.*open the table again"):
            call()
    assert "closed" in repr(table)
    assert len(snapshot) == len(kubist.open(path)) == 2 * ROWS


def test_a_generator_may_fail_in_its_own_way(table: kubist.Table) -> None:
    class Boom(Exception):
        pass

    def batches() -> Any:
        yield pa.record_batch(rows(ROWS))
        raise Boom("my own")

    reader = pa.RecordBatchReader.from_batches(table.schema, batches())
    with pytest.raises(Boom, match="my own"):
        table.append(reader)
    assert len(table) == ROWS


def test_handles_can_be_pickled(table: kubist.Table) -> None:
    assert len(pickle.loads(pickle.dumps(table))) == ROWS


def test_threads_share_a_handle(table: kubist.Table) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(4):
                table.append(rows((1 + number * 4 + step) * ROWS))
                seen = table.snapshot()
                assert len(seen) % ROWS == 0
                assert seen.count(where="step >= 0") == len(seen)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(table) == 17 * ROWS
    ids = table.query(columns=["id"]).to_arrow()["id"].to_numpy()
    assert np.array_equal(np.sort(ids), np.arange(17 * ROWS))


def test_rust_lets_python_run(table: kubist.Table) -> None:
    """Another thread runs while one is in the engine."""
    turns = 0
    done = threading.Event()

    def count_turns() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1

    heavy = " AND ".join(["sin(x) * exp(x) >= 0"] * 200)
    thread = threading.Thread(target=count_turns)
    thread.start()
    try:
        assert table.count(where=heavy) == ROWS
    finally:
        done.set()
        thread.join()
    assert turns > 0
