"""Other processes: killed, reading, interrupted, forked."""

from __future__ import annotations

import multiprocessing as mp
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from servers import COMMAND

import kubist

# The server has imported everything and started no threads, so its processes are clean and start
# fast.
CONTEXT = mp.get_context("forkserver")
CONTEXT.set_forkserver_preload(["kubist", "numpy", "pyarrow", "pyarrow.compute"])

SCHEMA = pa.schema({"token": pa.int64(), "row": pa.int64(), "x": pa.float32(), "y": pa.float32()})


def rows_of(token: int) -> int:
    return 1 + token * 7919 % 300 if token % 9 else 20_000


def commit_of(token: int) -> pa.RecordBatch:
    rows = np.arange(rows_of(token))
    place = np.random.default_rng(token).random((2, len(rows)), dtype=np.float32)
    return pa.record_batch(
        {"token": np.full(len(rows), token), "row": rows, "x": place[0], "y": place[1]},
        schema=SCHEMA,
    )


def write_until_killed(path: str, token: int, tell: Connection) -> None:
    t = kubist.open(path)
    with t.writer("simulation") as w:
        tell.send(None)
        while True:
            batch = commit_of(token)
            half = batch.num_rows // 2
            w.append(batch.slice(0, half))
            w.append(batch.slice(half))
            w.commit()
            tell.send(token)
            token += 1


def whole_tokens(t: kubist.Table | kubist.Snapshot) -> set[int]:
    counts = t.query(columns=["token"]).to_arrow().group_by("token").aggregate([([], "count_all")])
    found = dict(zip(counts["token"].to_pylist(), counts["count_all"].to_pylist(), strict=True))
    assert all(rows_of(token) == count for token, count in found.items()), found
    return set(found)


@pytest.mark.release
def test_kill_9_loses_nothing_acknowledged(path: Path) -> None:
    dice = random.Random(9)
    kubist.create(path, SCHEMA, {"x": (0, 1), "y": (0, 1)}, identity=["token", "row"])
    acknowledged: set[int] = set()
    following = 0
    for round_ in range(50):
        hear, tell = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=write_until_killed, args=(str(path), following, tell))
        process.start()
        tell.close()
        heard: list[Any] = []
        if dice.random() < 0.9:  # otherwise it dies while it starts
            heard += [hear.recv() for _ in range(dice.randrange(1, 12))]
        time.sleep(dice.random() * 0.015)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        try:
            while True:
                heard.append(hear.recv())
        except EOFError:
            hear.close()
        acknowledged.update(token for token in heard if token is not None)
        t = kubist.open(path)
        found = whole_tokens(t)
        # No acknowledged commit is lost; the commit in progress may exist.
        assert acknowledged <= found, round_
        assert found <= set(range(max(acknowledged, default=-1) + 2))
        acknowledged = found
        following = len(found)
        if round_ % 10 == 9:
            assert t.verify(deep=True).ok
    assert len(acknowledged) > 50
    table = (
        kubist.open(path).query().to_arrow().sort_by([("token", "ascending"), ("row", "ascending")])
    )
    expected = pa.Table.from_batches([commit_of(token) for token in sorted(acknowledged)])
    assert table.equals(expected)
    assert kubist.open(path).count(box={"x": (0.25, 0.5)}) == sum(
        int(((batch["x"].to_numpy() >= 0.25) & (batch["x"].to_numpy() <= 0.5)).sum())
        for batch in map(commit_of, sorted(acknowledged))
    )


TOKENS = 60


def write_tokens(path: str, go: Connection) -> None:
    go.recv()
    t = kubist.open(path)
    with t.writer() as w:
        for token in range(TOKENS):
            w.append(commit_of(token))
            w.commit()


def read_along(path: str, tell: Connection) -> None:
    try:
        t = kubist.open(path)
        tell.send("ready")
        seen: set[int] = set()
        looks = 0
        while len(seen) < TOKENS:
            s = t.snapshot()
            now = whole_tokens(s)
            # Commits appear in order and never disappear.
            assert now == set(range(len(now))) and seen <= now
            assert len(s) == s.count() == sum(map(rows_of, now))
            assert s.count(where="row = 0") == len(now)
            sample = s.query(sample=0.5).to_arrow().num_rows
            assert sample == s.count(sample=0.5)
            seen = now
            looks += 1
        tell.send(looks)
    except BaseException as error:
        tell.send(repr(error))
        raise


@pytest.mark.release
def test_readers_see_whole_commits_while_a_writer_writes(path: Path) -> None:
    kubist.create(path, SCHEMA, {"x": (0, 1), "y": None}, identity=["token", "row"])
    processes, readers = [], []
    for _ in range(2):
        hear, tell = CONTEXT.Pipe(duplex=False)
        processes.append(CONTEXT.Process(target=read_along, args=(str(path), tell)))
        readers.append(hear)
    listen, go = CONTEXT.Pipe(duplex=False)
    processes.append(CONTEXT.Process(target=write_tokens, args=(str(path), listen)))
    for process in processes:
        process.start()
    for hear in readers:
        assert hear.recv() == "ready"
    go.send("go")
    for hear in readers:
        looks = hear.recv()
        assert isinstance(looks, int), looks
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert kubist.open(path).verify(deep=True).ok


def append_some(path: str, name: str, first: int, tell: Connection) -> None:
    t = kubist.open(path)
    with t.writer(name) as w:
        for token in range(first, first + 20):
            w.append(commit_of(token))
            w.commit()
    tell.send("done")


@pytest.mark.release
def test_writers_of_many_processes(path: Path) -> None:
    kubist.create(path, SCHEMA, ["x", "y"], identity=["token", "row"])
    processes = []
    for rank in range(4):
        hear, tell = CONTEXT.Pipe(duplex=False)
        arguments = (str(path), f"rank-{rank}", rank * 20, tell)
        process = CONTEXT.Process(target=append_some, args=arguments)
        process.start()
        processes.append((process, hear))
    for process, hear in processes:
        assert hear.recv() == "done"
        process.join()
    t = kubist.open(path)
    assert whole_tokens(t) == set(range(80))
    assert {writer.name: writer.commits for writer in t.info().writers} == {
        f"rank-{rank}": 20 for rank in range(4)
    }
    assert t.verify(deep=True).ok


# Each call takes longer than a script may. A thread of the same process sends the signal, which
# needs the GIL that the engine releases.
INTERRUPTED = {
    "count": "t.count(where=heavy)",
    "query": "t.query(where=heavy).to_arrow()",
    "iteration": "list(t.query(where=heavy))",
    "limit": "t.query(where=heavy, limit=10**6).to_arrow()",
    "sample": "t.query(where=heavy, limit=10**6).fraction",
    "refine": "[r.to_arrow() for r in t.refine(where=heavy, start=1)]",
    "another library": "pa.table(t.query(where=heavy))",
    "append": "t.append(endless())",
    "writer": "hold(t)",
    "verify": "verify_for_ever()",
}

SCRIPT = """
    import os, signal, sys, threading
    import numpy as np, pyarrow as pa, kubist

    t = kubist.open(sys.argv[1])
    before = len(t)
    # A thousand tests for each row, none of which can be decided beforehand.
    tests = [f"sin(x * {{n}}) * exp(x) - power(x, {{n % 7}}) > -99" for n in range(1000)]
    heavy = " AND ".join(tests)

    def endless():
        batch = pa.record_batch({{"id": np.arange(1000), "x": np.zeros(1000)}})
        def batches():
            while True:
                yield batch
        return pa.RecordBatchReader.from_batches(batch.schema, batches())

    def hold(t):
        with t.writer() as w:
            w.append(endless())

    def verify_for_ever():
        while True:
            t.verify(deep=True)

    go = threading.Event()

    def interrupt():
        go.wait()
        for _ in range(2_000_000):  # some moments later, in the midst of the call
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        go.set()
        {call}
    except {error}:
        print("interrupted")
    # The handle goes on, and nothing of an append is left.
    assert len(t) == before
    assert t.append({{"id": [-1], "x": [0.5]}}).rows == 1
    assert len(t) == before + 1
    print("sound")
"""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table for which a thousand tests take minutes."""
    path = tmp_path_factory.mktemp("big") / "t.kubist"
    data = {"id": np.arange(3_000_000), "x": np.random.default_rng(0).random(3_000_000)}
    kubist.create(path, data, {"x": (0, 1)}, identity=["id"]).close()
    return path


@pytest.mark.parametrize("call", INTERRUPTED)
def test_ctrl_c_stops_any_call(big: Path, run_python: Callable[..., Any], call: str) -> None:
    done = run_python(SCRIPT.format(call=INTERRUPTED[call], error="KeyboardInterrupt"), big)
    assert done.stdout == "interrupted\nsound\n", done.stdout + done.stderr


def test_a_handler_of_your_own_stops_a_call(big: Path, run_python: Callable[..., Any]) -> None:
    script = """
    import signal
    def handle(number, frame):
        raise TimeoutError
    signal.signal(signal.SIGINT, handle)
    """
    script += SCRIPT.format(call="t.count(where=heavy)", error="TimeoutError")
    done = run_python(script, big)
    assert done.stdout == "interrupted\nsound\n", done.stdout + done.stderr


@pytest.mark.parametrize("hangs", [False, True])
def test_ctrl_c_stops_an_export_and_leaves_nothing_of_it(
    tmp_path: Path, hangs: bool
) -> None:
    pytest.importorskip("laspy")
    points = {axis: np.random.default_rng(0).random(1_000_000) for axis in "xyz"}
    kubist.create(tmp_path / "t.kubist", points, ["x", "y", "z"]).close()
    target = tmp_path / "out.las"
    query = subprocess.Popen(
        [COMMAND, "query", tmp_path / "t.kubist", "-o", target], stderr=subprocess.PIPE, text=True
    )
    children = Path(f"/proc/{query.pid}/task/{query.pid}/children")

    def part() -> Path | None:
        return next(tmp_path.glob(".out.*.las"), None)

    # The package, started by the command, writes the file.
    while part() is None and query.poll() is None:
        time.sleep(0.001)
    package = int(children.read_text().split()[0])
    os.kill(package, signal.SIGSTOP)
    assert part() is not None, "the export ended before it was stopped"
    query.send_signal(signal.SIGINT)
    if not hangs:
        os.kill(package, signal.SIGCONT)
    errors = query.communicate(timeout=60)[1]
    assert query.returncode == 130, errors
    assert "out.las was not written" in errors
    assert list(tmp_path.iterdir()) == [tmp_path / "t.kubist"]


def test_handles_refuse_after_a_fork(path: Path, run_python: Callable[..., Any]) -> None:
    script = """
        import os, sys, warnings
        import numpy as np, kubist
        warnings.simplefilter("ignore")  # Python warns of forks with threads, as here

        rows = 300_000
        data = {"id": np.arange(rows), "x": np.arange(rows) / rows}
        t = kubist.create(sys.argv[1], data, ["x"], identity=["id"])
        w = t.writer("mine")
        w.append(data)
        s = t.snapshot()
        r = t.query(where="x > 0.1")
        half = iter(t.query())
        next(half)
        steps = t.refine()
        child = os.fork()
        if child == 0:
            try:
                calls = [lambda: len(t), t.query, t.info, t.verify, t.snapshot, t.writer, t.count,
                         lambda: t.append(data), lambda: len(s), s.query, s.info, w.commit,
                         lambda: w.append(data), r.to_arrow, lambda: next(half),
                         lambda: next(steps), t.close]
                for call in calls:
                    try:
                        call()
                    except kubist.Refused as error:
                        assert "before a fork" in str(error) and sys.argv[1] in str(error)
                    else:
                        raise AssertionError(call)
                repr(t), repr(s)
                # Dropping them must not touch what the parent holds.
                del t, w, s, r, half, steps, calls, call
                import gc
                gc.collect()
                mine = kubist.open(sys.argv[1])
                assert len(mine) == rows
                os._exit(0)
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert w.commit().rows == rows
        w.close()
        assert t.append(data).rows == rows
        assert r.to_arrow().num_rows == sum(x > 0.1 for x in data["x"])
        assert len(t) == 3 * rows and t.verify(deep=True).ok
        print("fine")
    """
    done = run_python(script, path)
    assert done.stdout == "fine\n", done.stdout + done.stderr
