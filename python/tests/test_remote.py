"""Tables over HTTP: the same results as from the directory."""

from __future__ import annotations

import datetime as dt
import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from servers import Server

import kubist

ROWS = 20_000


def rows(first: int, count: int) -> pa.Table:
    rng = np.random.default_rng(first)
    ids = np.arange(first, first + count)
    return pa.table({
        "pid": ids,
        "x": rng.random(count),
        "y": rng.random(count).astype(np.float32),
        "kind": pa.array(["water" if id % 3 else None for id in ids]),
        "at": pa.array(1_700_000_000 + ids, pa.timestamp("s")),
        "code": pa.array([bytes([id % 11, id % 256]) for id in ids]),
    })  # fmt: skip


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(
        path, rows(0, ROWS), dimensions=["x", "y"], identity=["pid"], units={"x": "m"},
        metadata={"run": 7},
    )  # fmt: skip


@pytest.fixture
def server(table: kubist.Table) -> Iterator[Server]:
    server = Server(table.location)
    yield server
    server.stop()


def same(a: pa.Table, b: pa.Table) -> None:
    keys = [("pid", "ascending")] if "pid" in a.column_names else [(a.column_names[0], "ascending")]
    assert a.sort_by(keys).equals(b.sort_by(keys))


QUESTIONS = [
    {},
    {"box": {"x": (0.2, np.float64(0.4)), "y": (None, 0.5)}, "sample": 0.1},
    {"where": "kind IS NULL AND x < 0.5", "columns": ["x", "pid"]},
    {"window": (0.1, 0.3)},
    {"box": {"at": (dt.datetime(2023, 11, 14, 22, 20), None)}},
    {"box": {"kind": ("a", "x")}, "limit": 50},
    {"limit": 0},
    {"box": {"x": (-np.inf, 0.5), "pid": (-(10**30), 2**64)}},
    {"box": {"code": (b"\x07\x00", b"\x09\xff"), "kind": (None, "x")}},
    {"columns": ["*", "sqrt(x*x) + 1m AS far", "upper(kind)"], "order_by": "far, pid desc"},
    {"per_cell": (3, {"x": 0.1, "y": 0.25}), "where": "kind IS NULL"},
    {"per_cell": (2, {"y": 0.125}), "limit": 5, "columns": ["pid", "y"], "inclusion": "p"},
]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_answers_are_those_of_the_directory(
    table: kubist.Table, server: Server, question: dict
) -> None:
    remote = kubist.connect(server.url)
    here, there = table.query(**question), remote.query(**question)
    assert there.fraction == here.fraction
    assert there.schema == here.schema
    same(there.to_arrow(), here.to_arrow())
    counted = {name: question[name] for name in ("box", "where", "sample") if name in question}
    assert remote.count(**counted) == table.count(**counted)


def test_a_remote_table_says_what_it_is(table: kubist.Table, server: Server) -> None:
    remote = kubist.connect(server.url, "t")
    assert len(remote) == ROWS
    assert remote.schema == table.schema
    assert (remote.units, remote.metadata) == ({"x": "m"}, {"run": 7})
    assert repr(remote) == f"<kubist.RemoteTable 't' at {server.url.rstrip('/')}>"
    frames = [remote.query(limit=9).to_pandas(), next(iter(remote.query(limit=9))).to_pandas()]
    assert frames[0].equals(frames[1])
    assert sum(batch.num_rows for batch in remote.query()) == ROWS


def test_estimates_are_those_of_the_directory(table: kubist.Table, server: Server) -> None:
    remote = kubist.connect(server.url)
    how = {"box": {"x": (0.1, 0.9)}, "group_by": "kind", "sample": 0.3, "confidence": 0.9}
    here, there = (side.estimate(["mean(y)", "p95(x)"], **how) for side in (table, remote))
    columns = [name for name in here.to_arrow().column_names if name != "rows_read"]
    assert there.to_arrow().select(columns).equals(here.to_arrow().select(columns))
    assert (there.fraction, there.stopped, there.confidence) == (0.3, "sample", 0.9)
    assert there.stats.rows_read > 0
    exact = remote.estimate("count()")
    assert (exact.value, exact.exact) == (ROWS, True)
    with pytest.raises(kubist.InvalidInput, match="no_such"):
        remote.estimate("mean(no_such)")


def test_estimates_narrow_as_those_of_the_directory(table: kubist.Table, server: Server) -> None:
    remote = kubist.connect(server.url)
    how: dict = {"where": "x < 0.9", "error": 0.001, "progressive": True}
    here, there = (list(side.estimate(["mean(y)", "count()"], **how)) for side in (table, remote))
    assert len(here) > 2
    assert [step.fraction for step in there] == [step.fraction for step in here]
    assert [step.stopped for step in there] == [step.stopped for step in here]
    for ours, theirs in zip(here, there, strict=True):
        for name in ("value", "low", "high"):
            both = [side.to_arrow()[name].to_numpy() for side in (ours, theirs)]
            np.testing.assert_allclose(*both, rtol=1e-9)
    # Abandoned streams do not count towards the server's limit.
    for _ in range(12):
        for step in remote.estimate("mean(y)", error=1e-9, progressive=True):
            assert step.low < step.high
            break
    assert remote.count() == ROWS
    with pytest.raises(kubist.InvalidInput, match="no_such"):
        list(remote.estimate("mean(no_such)", progressive=True))


def test_frames_and_paths_are_those_of_the_directory(table: kubist.Table, server: Server) -> None:
    pl = pytest.importorskip("polars")
    remote = kubist.connect(server.url)
    region = {"box": {"x": (0.1, 0.11)}, "by": "kind", "columns": ["pid", "kind"]}
    same(remote.trajectories(**region).to_arrow(), table.trajectories(**region).to_arrow())
    assert remote.trajectories(box={"x": (0.1, 0.11)}, limit=3).to_arrow().num_rows == 3
    lazy = [
        side.scan(inclusion="p", sample=0.5).filter(pl.col("x") < 0.25) for side in (table, remote)
    ]
    frames = [frame.select("pid", "p").sort("pid").collect() for frame in lazy]
    assert frames[0].height > 1000 and frames[0].equals(frames[1])
    sets = [side.to_dataset().to_table(columns=["pid"]) for side in (table, remote)]
    same(*sets)
    some: dict = {"columns": ["pid"], "box": {"x": (0.1, 0.5)}}
    for chosen in ({}, {"limit": 1500}, {"per_cell": (200, {"x": 0.1})}):
        counts = [side.to_dataset(**some, **chosen).count_rows() for side in (table, remote)]
        assert counts[0] == counts[1] > 500, chosen
    here, there = table.info(), remote.info()
    assert there.location == f"{server.url.rstrip('/')}/v1/tables/t"
    for name in ("rows", "columns", "dimensions", "identity", "capacity", "writers", "metadata"):
        assert getattr(there, name) == getattr(here, name), name


def test_a_frame_is_of_the_moment_it_was_made_in(table: kubist.Table, server: Server) -> None:
    pytest.importorskip("polars")
    frame = kubist.connect(server.url).scan(columns=["pid"])
    table.append(rows(ROWS, 500))
    assert frame.collect().height == ROWS


def test_numpy_needs_nothing_else(server: Server) -> None:
    script = f"""
import sys
sys.modules["pyarrow"] = None
import kubist
t = kubist.connect({server.url!r})
columns = t.query(columns=["pid", "kind", "at"], box={{"x": (0, 0.1)}}).to_numpy()
assert len(columns["pid"]) == t.count(box={{"x": (0, 0.1)}}) > 1000
assert columns["at"].dtype.kind == "M" and None in columns["kind"]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_whoever_closes_an_answer_ends_it(table: kubist.Table, server: Server) -> None:
    remote = kubist.connect(server.url)
    answer = remote.query()
    reading = threading.Thread(target=lambda: [answer.close() for _ in range(2)])
    reading.start()
    reading.join()
    with pytest.raises(kubist.Refused, match="was closed"):
        answer.to_arrow()
    with pytest.raises(kubist.Refused, match="cost"):
        _ = remote.query().stats
    frame = remote.query()
    assert "not yet read" in repr(frame)
    frame.to_arrow()
    assert repr(frame).endswith(f"fraction 1, {ROWS:,} records read so far>")


def test_refining_sends_each_record_once(table: kubist.Table, server: Server) -> None:
    remote = kubist.connect(server.url)
    parts, fractions = [], []
    for part in remote.refine(box={"x": (0.1, 0.8)}, start=0.01, factor=4):
        if len(parts) == 1:
            table.append(rows(ROWS, 500))  # a later commit is not in it
        parts.append(part.to_arrow())
        fractions.append(part.fraction)
    assert fractions == [0.01, 0.04, 0.16, 0.64, 1]
    expected = table.query(box={"x": (0.1, 0.8)}, where=f"pid < {ROWS}").to_arrow()
    same(pa.concat_tables(parts), expected)


def test_moments_are_kept_and_followed(table: kubist.Table, server: Server) -> None:
    remote = kubist.connect(server.url)
    before = remote.snapshot()
    seen = []
    append = threading.Timer(0.2, lambda: table.append(rows(ROWS, 10)))
    append.start()
    for snapshot in remote.watch(timeout=10):
        seen.append(len(snapshot))
        if len(seen) == 2:
            break
    append.join()
    assert seen == [ROWS, ROWS + 10]
    assert (before.count(), remote.count()) == (ROWS, ROWS + 10)
    looks = [list(remote.watch(timeout=0, since=since)) for since in (before, remote.snapshot())]
    assert [[len(found) for found in look] for look in looks] == [[ROWS + 10], []]
    for k in range(1, 21):
        table.append(rows(ROWS + 10 * k, 10))
        len(remote)
    assert before.count() == ROWS


def test_errors_are_those_of_the_directory(server: Server) -> None:
    remote = kubist.connect(server.url)
    with pytest.raises(kubist.InvalidInput, match="no_such"):
        remote.query(where="no_such > 1")
    with pytest.raises(kubist.InvalidInput, match="lower end"):
        remote.query(box={"x": (2, 1)})
    with pytest.raises(kubist.InvalidInput, match="sample"):
        remote.query(sample=2)
    with pytest.raises(kubist.InvalidInput, match="finite"):
        remote.query(sample=np.inf)
    with pytest.raises(kubist.InvalidInput, match="5000000"):
        remote.query(limit=10**9)
    with pytest.raises(kubist.NotATable, match="no table 'u'"):
        kubist.connect(server.url, "u")
    with pytest.raises(kubist.InvalidInput, match="http://HOST:PORT"):
        kubist.connect("localhost:80")
    with pytest.raises(kubist.InvalidInput, match="token: ssh:// generates its own"):
        kubist.connect("ssh://cluster/t.kubist", token="0123456789abcdef")


def test_a_server_that_goes_is_noticed(server: Server) -> None:
    remote = kubist.connect(server.url)
    server.stop()
    with pytest.raises(kubist.StorageError, match=r"127\.0\.0\.1"):
        remote.count()


def test_an_answer_cut_off_is_no_answer() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"

    def answer() -> None:
        tables = b'{"tables": [{"name": "t"}]}'
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, rows(0, 1000).schema) as writer:
            writer.write_table(rows(0, 1000))
        whole = stream.getvalue().to_pybytes()
        for body, sent in [(tables, tables), (whole, whole[: len(whole) // 2])]:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(head % len(body) + sent)

    thread = threading.Thread(target=answer)
    thread.start()
    remote = kubist.connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
    with pytest.raises(kubist.StorageError, match="incomplete"):
        remote.query().to_arrow()
    thread.join()
    listener.close()


def test_a_token_is_shown(table: kubist.Table) -> None:
    token = "0123456789abcdef"
    server = Server(table.location, "--token", token)
    try:
        assert server.url.endswith(f"/?token={token}")
        plain = server.url.split("?")[0]
        with pytest.raises(kubist.Refused, match="token"):
            kubist.connect(plain)
        assert kubist.connect(plain, token=token).count() == ROWS
        assert kubist.connect(server.url).count() == ROWS
        # The message must not contain the token.
        with pytest.raises(kubist.NotATable, match="no table 'u'") as caught:
            kubist.connect(server.url, "u")
        assert token not in str(caught.value)
    finally:
        server.stop()


def posted(server: Server, call: str, **body: object) -> bytes:
    request = urllib.request.Request(
        f"{server.url}v1/tables/{server.name}/{call}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    return urllib.request.urlopen(request).read()


def test_requests_have_the_forms_of_python(table: kubist.Table, server: Server) -> None:
    server.name = Path(table.location).stem
    for asked in (
        {"sample": "1%"},
        {"window": ["0%", "10 %"]},
        {"box": {"x": ["10 cm", "0.3 m"]}, "where": "kind = 'water'"},
        {"box": {"at": ["2023-11-15", None]}, "sample": 0.5},
    ):
        count = json.loads(posted(server, "count", **asked))["count"]
        box = {name: tuple(ends) for name, ends in asked.get("box", {}).items()}
        assert count == table.count(**(asked | {"box": box})) > 0
    wanted = table.query(order_by="kind desc, least(x, y)", limit=5, columns=["pid"]).to_numpy()
    order = {"order_by": "kind desc, least(x, y)", "limit": 5, "columns": ["pid"]}
    text = posted(server, "query", format="csv", **order).decode()
    assert list(map(int, text.split()[1:])) == wanted["pid"].tolist()
    for error, aggregates in (
        ("1%", "mean(x), count()"),
        ("0.5 abs", "count()"),
        ("1 cm", "mean(x)"),
    ):
        aim = {"error": error, "aggregates": aggregates, "within": "10 s"}
        figures = json.loads(posted(server, "estimate", group_by="kind", **aim))["figures"]
        assert {figure["aggregate"] for figure in figures} == set(aggregates.split(", "))
    for name, value in {"limit": "ten", "sample": "few", "columns": "x"}.items():
        with pytest.raises(urllib.error.HTTPError) as raised:
            posted(server, "query", **{name: value})
        assert name in json.loads(raised.value.read())["error"]["message"]
