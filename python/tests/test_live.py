"""Steps, tokens, watching, and the layout of a live table."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import kubist
from servers import COMMAND


def rows(first: int, count: int = 100) -> dict[str, np.ndarray]:
    ids = np.arange(first, first + count)
    return {"id": ids, "x": ids * 7919 % 1009 / 1009, "y": ids * 104729 % 997 / 997}


@pytest.fixture
def table(tmp_path: Path) -> kubist.Table:
    empty = {name: values[:0] for name, values in rows(0).items()}
    dimensions = {"x": (0, 1), "y": (0, 1)}
    return kubist.create(tmp_path / "t", empty, dimensions, identity=["id"], capacity=64)


def ids(result: kubist.Result) -> list[int]:
    return sorted(result.to_arrow()["id"].to_pylist())


def test_a_token_counts_once(table: kubist.Table) -> None:
    for attempt in range(2):
        with table.writer("rank-0") as w:
            w.append(rows(0))
            assert w.commit(token="first").repeated == (attempt == 1)
    assert len(table) == 100


def test_steps_are_seen_when_all_have_spoken(table: kubist.Table) -> None:
    table.declare_writers(["rank-0", "rank-1"])
    with table.writer("rank-0") as a, table.writer("rank-1") as b:
        for step in (1, 2):
            a.append(rows(1000 * step))
            a.commit(step=step)
        b.append(rows(5000))
        b.commit(step=1)
        assert ids(table.query(steps=(None, None))) == [*range(1000, 1100), *range(5000, 5100)]
        assert len(table.snapshot(step=1)) == 200
        with pytest.raises(kubist.InvalidInput, match="rank-1"):
            table.snapshot(step=2)
        b.abandon(2)
        assert ids(table.query(steps=2)) == list(range(2000, 2100))
        assert table.snapshot().complete_steps() == [1, 2]
    assert table.retract(step_after=1).rows == 100
    assert len(table) == 200


def test_the_optimizer_changes_no_answer(table: kubist.Table) -> None:
    for commit in range(30):
        table.append(rows(100 * commit))
    before = ids(table.query(box={"x": (0.2, 0.7)}, sample=0.3))
    report = table.optimize()
    assert report.rewrites > 0 and report.debt_after < report.debt_before
    assert ids(table.query(box={"x": (0.2, 0.7)}, sample=0.3)) == before
    table.close()
    with kubist.open(table.location) as again:
        assert again.clean(retention=0).segments_deleted > 0
        assert len(again) == 3000 and again.verify(deep=True).ok


WRITE = """
import sys, kubist, numpy as np
t = kubist.open(sys.argv[1])
for n in range(5):
    sys.stdin.readline()
    ids = np.arange(n * 10, n * 10 + 10)
    t.append({"id": ids, "x": ids / 100, "y": ids / 100})
"""


def test_another_process_is_watched(table: kubist.Table) -> None:
    command = [sys.executable, "-c", WRITE, table.location]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        seen = []
        for snapshot in table.watch(timeout=60):
            seen.append(len(snapshot))
            if seen[-1] == 50:
                break
            writer.stdin.write("go\n")
            writer.stdin.flush()
    assert seen == [0, 10, 20, 30, 40, 50]


def test_watching_ends_without_changes(table: kubist.Table) -> None:
    assert [len(snapshot) for snapshot in table.watch(timeout=0.01)] == [0]


def test_threads_share_a_watch(table: kubist.Table) -> None:
    started = threading.Barrier(2)

    def write() -> None:
        started.wait()
        table.append(rows(0))

    thread = threading.Thread(target=write)
    thread.start()
    watched = table.watch(timeout=60)
    next(watched)
    started.wait()
    assert len(next(watched)) == 100
    thread.join()


def test_the_command_retracts_the_last_steps(path: Path) -> None:
    table = kubist.create(path, {"x": [0.5]}, {"x": (0, 1)})
    for step in range(3):
        table.append({"x": np.full(10, step / 4)}, step=step)
    done = subprocess.run(
        [COMMAND, "retract", path, "--step-after", "1"], capture_output=True, text=True, check=True
    )
    assert done.stderr == f"{path}: 10 records after step 1 retracted\n"
    assert table.snapshot().complete_steps() == [0, 1] and table.count() == 21
