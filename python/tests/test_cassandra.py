"""Tables on a Cassandra cluster, in Python and on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kubist

HOSTS = os.environ.get("KUBIST_TEST_CASSANDRA")
pytestmark = pytest.mark.skipif(
    not HOSTS, reason="needs a Cassandra cluster: KUBIST_TEST_CASSANDRA names no hosts"
)

ROWS = 20_000


@pytest.fixture
def location() -> Iterator[str]:
    location = f"cassandra://{HOSTS}/kubist_tests/p{uuid.uuid4().hex}"
    yield location
    try:
        kubist.drop(location, force=True)
    except kubist.NotATable:
        pass


def drops(first: int = 0, rows: int = ROWS) -> pa.Table:
    ids = np.arange(first, first + rows)
    random = np.random.default_rng(first)
    return pa.table({"id": ids, "x": random.random(rows), "y": random.random(rows), "m": ids % 97})


def test_a_table_answers_as_one_in_a_directory(location: str, path: Path) -> None:
    data = drops()
    far = kubist.create(location, data.schema, ["x", "y"], identity=["id"])
    near = kubist.create(path, data.schema, ["x", "y"], identity=["id"])
    for table in [far, near]:
        table.append(data)
        table.append(drops(ROWS, 500))
        table.optimize()
    assert far.location == location
    assert len(far) == ROWS + 500
    for question in [
        {"box": {"x": (0.2, 0.4), "y": (0.5, 0.9)}},
        {"sample": 0.01},
        {"where": "m = 5", "limit": 50},
        {"box": {"x": (0, 0.5)}, "columns": ["id", "m"], "sample": 0.2},
    ]:
        answers = [pa.table(table.query(**question)).sort_by("id") for table in [far, near]]
        assert answers[0].equals(answers[1]), question
    means = [table.estimate("mean(m)").value for table in [far, near]]
    assert means[0] == means[1]
    assert far.verify(deep=True).findings == []


def test_what_is_not_there_and_what_is(location: str) -> None:
    for missing in [location, f"cassandra://{HOSTS}/no_such_keyspace/t"]:
        with pytest.raises(kubist.NotATable, match="does not exist"):
            kubist.open(missing)
    kubist.create(location, drops().schema, ["x"], identity=["id"])
    with pytest.raises(kubist.TableExists):
        kubist.create(location, drops().schema, ["x"], identity=["id"])
    kubist.create(location, drops().schema, ["x"], identity=["id"], exist_ok=True)
    kubist.drop(location)
    with pytest.raises(kubist.NotATable):
        kubist.open(location)
    assert len(kubist.create(location, drops().schema, ["x"], identity=["id"])) == 0


def test_a_location_is_read_carefully() -> None:
    with pytest.raises(kubist.InvalidInput, match="keyspace"):
        kubist.open("cassandra://ada:secret@h/No/t")
    with pytest.raises(kubist.StorageError) as caught:
        kubist.open("cassandra://ada:secret@127.0.0.1:9/science/drops")
    assert "127.0.0.1:9" in str(caught.value) and "secret" not in str(caught.value)


def test_writers_in_processes_of_their_own(location: str) -> None:
    kubist.create(location, drops().schema, ["x", "y"], identity=["id"])
    script = """
import sys
sys.path.insert(0, sys.argv[3])
import kubist
from test_cassandra import drops
rank = int(sys.argv[2])
with kubist.open(sys.argv[1]).writer(f"rank-{rank}") as writer:
    for step in range(5):
        writer.append(drops((rank * 5 + step) * 100, 100))
        writer.commit(step=step)
"""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", script, location]
    ranks = [subprocess.Popen([*command, str(rank), here]) for rank in range(3)]
    assert [rank.wait() for rank in ranks] == [0, 0, 0]
    found = pa.table(kubist.open(location).query(columns=["id"]))["id"]
    assert sorted(found.to_pylist()) == list(range(1500))


def test_a_forked_process_connects_on_its_own(
    location: str, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    script = """
        import os, sys, warnings
        import kubist, pyarrow as pa
        warnings.simplefilter("ignore")  # Python warns of forks with threads, as here

        data = pa.table({"id": [1, 2, 3], "x": [0.1, 0.2, 0.3]})
        t = kubist.create(sys.argv[1], data.schema, ["x"], identity=["id"])
        w = t.writer("mine")
        w.append(data)
        w.commit()
        child = os.fork()
        if child == 0:
            try:
                for call in [lambda: len(t), w.commit]:
                    try:
                        call()
                    except kubist.Refused as error:
                        assert "before a fork" in str(error) and sys.argv[1] in str(error)
                    else:
                        raise AssertionError(call)
                del t, w
                mine = kubist.open(sys.argv[1])
                assert len(mine) == 3
                try:
                    mine.writer("mine")
                except kubist.Busy:
                    os._exit(0)
                raise AssertionError("the parent's log was given away")
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        w.append(data)
        w.commit()
        assert len(t) == 6
        print("sound")
    """
    done = run_python(script, location)
    assert done.stdout == "sound\n", done.stdout + done.stderr


def test_splits_are_read_elsewhere(location: str) -> None:
    table = kubist.create(location, drops().schema, ["x", "y"], identity=["id"])
    table.append(drops())
    ids: list[int] = []
    for split in table.splits(3):
        elsewhere = kubist.Split.from_json(split.to_json())
        ids += elsewhere.to_arrow()["id"].to_pylist()
    assert sorted(ids) == list(range(ROWS))


def test_the_command_line(location: str, tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "kubist"

    def run(*arguments: object, code: int = 0) -> str:
        done = subprocess.run(
            [command, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    pq.write_table(drops(), files[0])
    pq.write_table(drops(ROWS, 10), files[1])
    run("ingest", location, *files, "--dimensions", "x,y", "--identity", "id")
    assert json.loads(run("info", location, "--json"))["rows"] == ROWS + 10
    out = tmp_path / "out.parquet"
    run("query", location, "--where", "m = 5", "--output", out)
    expected = pc.sum(pc.equal(pa.concat_tables([drops(), drops(ROWS, 10)])["m"], 5)).as_py()
    assert pq.read_metadata(out).num_rows == expected
    run("verify", location, "--deep")
    near, again = tmp_path / "near.kubist", location + "b"
    try:
        run("copy", location, near)
        run("copy", near, again)
        question: dict[str, Any] = {"sample": 0.1, "columns": ["id"]}
        samples = [
            sorted(pa.table(kubist.open(place).query(**question))["id"].to_pylist())
            for place in [location, near, again]
        ]
        assert samples[0] == samples[1] == samples[2]
    finally:
        run("drop", again, "--yes")
    run("drop", location, "--yes")
    assert "does not exist" in run("info", location, code=3)


def test_parts_are_read_where_they_lie(location: str) -> None:
    data = drops()
    table = kubist.create(location, data.schema, ["x", "y"], identity=["id"], capacity=64)
    table.append(data)
    for question in [{}, {"box": {"x": (0.2, 0.7)}, "sample": 0.5}]:
        for by in ["space", "hosts"]:
            parts = table.splits(6, by=by, **question)  # type: ignore[arg-type]
            answers = pa.concat_tables([part.to_arrow() for part in parts]).sort_by("id")
            assert answers.equals(table.query(**question).to_arrow().sort_by("id")), (by, question)
            assert any(part.preferred_hosts for part in parts)


def test_requests_say_who_answered(location: str) -> None:
    data = drops()
    table = kubist.create(location, data.schema, ["x", "y"], identity=["id"])
    table.append(data)
    explained = kubist.open(location).explain()
    assert explained.stats.rows_returned == ROWS
    assert sum(explained.stages.hosts.values()) == explained.stages.requests > 0
    assert explained.stages.store_seconds > 0
