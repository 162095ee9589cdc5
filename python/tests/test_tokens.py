"""The token of a snapshot reopens its rows: in any process, and over HTTP."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from servers import Server

import kubist

Run = Callable[..., subprocess.CompletedProcess[str]]


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    ids = np.arange(first, first + count)
    return {"pid": ids, "x": np.random.default_rng(first).random(count)}


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, rows(0, 5_000), {"x": (0, 1)}, identity=["pid"])


@pytest.fixture
def server(table: kubist.Table) -> Iterator[Server]:
    with Server(table.location) as server:
        yield server


def ids(snapshot: kubist.Snapshot | kubist.RemoteSnapshot) -> list[int]:
    return sorted(snapshot.query(columns=["pid"]).to_numpy()["pid"].tolist())


def sweep(table: kubist.Table) -> None:
    for k in range(20):
        table.append(rows(100_000 + 50 * k, 50))
    table.close()
    with kubist.open(table.location) as t:
        t.optimize(debt_share=0.0)
        t.clean(retention=0)
        t.clean(retention=0)


def test_another_process_reads_the_same_rows(table: kubist.Table, run_python: Run) -> None:
    snapshot = table.snapshot()
    token = snapshot.token
    writer = """
        import sys
        import kubist
        t = kubist.open(sys.argv[1])
        for k in range(200):
            t.append({"pid": range(10_000 + 10 * k, 10_010 + 10 * k), "x": [0.5] * 10})
        """
    reader = """
        import sys
        import kubist
        t = kubist.open(sys.argv[1])
        for _ in range(20):
            s = t.at(sys.argv[2])
            assert s.token == sys.argv[2]
            assert sorted(s.query(columns=["pid"]).to_numpy()["pid"]) == list(range(5_000))
            assert s.count(where="pid >= 10_000".replace("_", "")) == 0
        print("same")
        """
    # Commits continue while it is read.
    command = [sys.executable, "-c", textwrap.dedent(writer)]
    with subprocess.Popen([*command, table.location]) as writing:
        done = run_python(reader, table.location, token)
    assert writing.returncode == 0
    assert done.stdout.strip() == "same", done.stderr
    assert ids(table.at(token)) == ids(snapshot) == list(range(5_000))
    assert len(table) == 7_000


def test_a_step_is_part_of_it(path: Path) -> None:
    t = kubist.create(path, {"x": [0.5]}, {"x": (0, 1)})
    for step in range(3):
        t.append({"x": [0.1 * step]}, step=step)
    token = t.snapshot(step=1).token
    t.append({"x": [0.9]}, step=3)
    assert (len(t.at(token)), len(t)) == (3, 5)


def test_here_and_over_http_it_is_the_same(table: kubist.Table, server: Server) -> None:
    remote = kubist.connect(server.url)
    here, there = table.snapshot(), remote.snapshot()
    assert here.token == there.token
    for k in range(40):
        table.append(rows(10_000 + 10 * k, 10))
    found = [side.at(token) for side in (table, remote) for token in (here.token, there.token)]
    assert [snapshot.token for snapshot in found] == [here.token] * 4
    for snapshot in found:
        assert ids(snapshot) == list(range(5_000))
        assert len(snapshot) == 5_000
    later = table.snapshot()
    assert later.token != here.token
    assert len(remote.at(later.token)) == 5_400


def test_what_was_cleaned_away_is_expired(table: kubist.Table, server: Server) -> None:
    token = table.snapshot().token
    sweep(table)
    with pytest.raises(kubist.SnapshotExpired):
        kubist.open(table.location).at(token).query().to_numpy()
    # A server started later has none of its files open.
    with Server(table.location) as fresh, pytest.raises(kubist.SnapshotExpired):
        kubist.connect(fresh.url).at(token).query().to_numpy()


def test_a_token_of_another_table_is_refused(table: kubist.Table, server: Server) -> None:
    other = table.location.replace("t.kubist", "other.kubist")
    token = kubist.create(other, rows(0, 10), {"x": (0, 1)}).snapshot().token
    for side in (table, kubist.connect(server.url)):
        with pytest.raises(kubist.TableReplaced, match="replaced by another"):
            side.at(token)
        for bad in ("", "no token", token[:-3], "AAAA"):
            with pytest.raises(kubist.InvalidInput, match="token"):
                side.at(bad)
        with pytest.raises(kubist.InvalidInput, match="token.*7"):
            side.at(7)  # type: ignore[arg-type]
