"""Tables in a bucket of a real S3 server, in Python and on the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kubist

SERVICE = os.environ.get("KUBIST_TEST_S3")
pytestmark = pytest.mark.skipif(
    not SERVICE, reason="needs an S3 server: KUBIST_TEST_S3 names no address (scripts/s3.py)"
)

ROWS = 20_000


@pytest.fixture
def location() -> Iterator[str]:
    location = f"s3://kubist-tests/p{uuid.uuid4().hex}?endpoint={SERVICE}"
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
        with table.writer("w") as writer:
            for commit in range(5):
                writer.append(drops(ROWS + 100 * commit, 100))
                writer.commit()
        table.optimize()
    assert far.location == location
    assert len(kubist.open(location)) == ROWS + 500
    for question in [
        {"box": {"x": (0.2, 0.4), "y": (0.5, 0.9)}},
        {"sample": 0.01},
        {"where": "m = 5", "limit": 50},
        {"box": {"x": (0, 0.5)}, "columns": ["id", "m"], "sample": 0.2},
    ]:
        answers = [pa.table(table.query(**question)).sort_by("id") for table in [far, near]]
        assert answers[0].equals(answers[1]), question
    assert far.estimate("mean(m)").value == near.estimate("mean(m)").value
    assert far.verify(deep=True).findings == []


def test_what_is_not_there_and_what_is(location: str) -> None:
    with pytest.raises(kubist.NotATable, match="does not exist"):
        kubist.open(location)
    with pytest.raises(kubist.Error, match="no such bucket"):
        kubist.open(f"s3://no-such-bucket/t?endpoint={SERVICE}")
    kubist.create(location, drops().schema, ["x"], identity=["id"])
    with pytest.raises(kubist.TableExists):
        kubist.create(location, drops().schema, ["x"], identity=["id"])
    kubist.create(location, drops().schema, ["x"], identity=["id"], exist_ok=True)
    kubist.drop(location)
    with pytest.raises(kubist.NotATable):
        kubist.open(location)
    assert len(kubist.create(location, drops().schema, ["x"], identity=["id"])) == 0


def test_a_key_in_a_location_is_refused_and_not_repeated() -> None:
    with pytest.raises(kubist.InvalidInput, match="environment") as caught:
        kubist.open("s3://AKIA:secret@bucket/t")
    assert "secret" not in str(caught.value)


def test_writers_in_processes_of_their_own(location: str) -> None:
    kubist.create(location, drops().schema, ["x", "y"], identity=["id"])
    script = """
import sys
sys.path.insert(0, sys.argv[3])
import kubist
from test_s3 import drops
rank = int(sys.argv[2])
with kubist.open(sys.argv[1]).writer(f"rank-{rank}") as writer:
    for step in range(5):
        writer.append(drops((rank * 5 + step) * 100, 100))
        writer.commit(step=step)
"""
    command = [sys.executable, "-c", script, location]
    ranks = [subprocess.Popen([*command, str(rank), str(Path(__file__).parent)]) for rank in range(3)]
    assert [rank.wait() for rank in ranks] == [0, 0, 0]
    found = pa.table(kubist.open(location).query(columns=["id"]))["id"]
    assert sorted(found.to_pylist()) == list(range(1500))


def test_the_command_takes_it_like_any_other(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Path(sys.executable).parent / "kubist"

    def run(*arguments: object, code: int = 0) -> str:
        done = subprocess.run(
            [command, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    pq.write_table(drops(), tmp_path / "drops.parquet")
    run("ingest", location, tmp_path / "drops.parquet", "--dimensions", "x,y", "--identity", "id")
    info = json.loads(run("info", location, "--json"))
    assert info["rows"] == ROWS
    monkeypatch.setenv("KUBIST_S3_PRICES", "storage=1000000")
    shown, costs = run("info", location), kubist.open(location).info().costs
    assert costs is not None and costs.storage_a_month == pytest.approx(info["disk"]["total"] * 1e6 / 2**30)
    assert str(costs) in shown
    monkeypatch.setenv("KUBIST_S3_PRICES", "gold=1")
    assert "KUBIST_S3_PRICES" in run("info", location, code=2)
    monkeypatch.delenv("KUBIST_S3_PRICES")
    out = tmp_path / "out.parquet"
    run("query", location, "--where", "m = 5", "--output", out)
    assert pq.read_metadata(out).num_rows == sum(m == 5 for m in drops()["m"].to_pylist())
    run("verify", location, "--deep")
    near, again = tmp_path / "near.kubist", location.replace("?", "-back?")
    try:
        run("copy", location, near)
        run("copy", near, again)
        samples = [
            sorted(pa.table(kubist.open(place).query(columns=["id"]))["id"].to_pylist())
            for place in [location, near, again]
        ]
        assert samples[0] == samples[1] == samples[2] == list(range(ROWS))
    finally:
        run("drop", again, "--yes")
    run("drop", location, "--yes")
    assert "does not exist" in run("info", location, code=3)


def test_requests_say_who_answered(location: str) -> None:
    data = drops()
    table = kubist.create(location, data.schema, ["x", "y"], identity=["id"])
    table.append(data)
    explained = kubist.open(location).explain()
    assert explained.stats.rows_returned == ROWS
    assert list(explained.stages.hosts) == [str(SERVICE).removeprefix("http://")]
    assert sum(explained.stages.hosts.values()) == explained.stages.requests > 0


def test_the_cache_answers_what_was_read_before(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data = drops()
    kubist.create(location, data.schema, ["x", "y"], identity=["id"]).append(data)
    monkeypatch.setenv("KUBIST_CACHE", str(tmp_path / "cache"))
    box = {"x": (0.2, 0.4)}

    def explained() -> kubist.Explanation:
        return kubist.open(location).explain(box=box)

    first, again = explained(), explained()
    assert first.stats.bytes_cached == 0 and first.stages.requests > 0
    assert again.stages.requests == 0 and again.stages.bytes_cached == again.stats.bytes_read
    assert again.stats.rows_returned == first.stats.rows_returned > 0
    assert first.traffic is not None and again.traffic is not None
    assert again.traffic["cache_hits"] > 0 == again.traffic["cache_misses"]
    assert again.traffic["requests"] < first.traffic["requests"]
    # A new table at the same location is another one.
    kubist.drop(location)
    kubist.create(location, data.schema, ["x", "y"], identity=["id"]).append(drops(ROWS))
    found = pa.table(kubist.open(location).query(columns=["id"]))["id"]
    assert sorted(found.to_pylist()) == list(range(ROWS, 2 * ROWS))
    # A damaged cache entry is ignored, and verify reads only the store.
    copies = [file for file in (tmp_path / "cache" / "v1").glob("*/segments/*/*")]
    for file in copies:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert kubist.open(location).explain(box=box).stages.requests > 0
    assert kubist.open(location).verify(deep=True).findings == []

    command = [Path(sys.executable).parent / "kubist", "cache"]
    shown = json.loads(subprocess.check_output([*command, "--json"]))
    assert [table["table"] for table in shown] == [location] and shown[0]["files"] > 0
    subprocess.check_call([*command, location.split("?")[0], "--clear"])
    assert json.loads(subprocess.check_output([*command, "--json"])) == []
    # An unusable folder is reported once, and the store is used.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KUBIST_CACHE", str(tmp_path / "file"))
    capfd.readouterr()
    assert len(kubist.open(location)) == len(kubist.open(location)) == ROWS
    assert capfd.readouterr().err.count("the cache") == 1


NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def can_be_nobody() -> bool:
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return False
    command = [*AS_NOBODY, sys.executable, "-c", "import kubist"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_be_nobody(), reason="needs root, setpriv and a Python that all users can run")
def test_a_cache_of_somebody_else_is_said_once_and_the_store_answers(location: str) -> None:
    data = drops()
    kubist.create(location, data.schema, ["x", "y"], identity=["id"]).append(data)
    script = f"""
import kubist
for _ in range(2):
    table = kubist.open({location!r})
    assert len(table) == len(table.query().to_arrow()) == {ROWS}
"""

    def told(cache: Path, *runner: str) -> str:
        done = subprocess.run(
            [*runner, sys.executable, "-c", script],
            env=os.environ | {"KUBIST_CACHE": str(cache), "HOME": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    with tempfile.TemporaryDirectory() as folder:
        # Another user can reach the caches.
        Path(folder).chmod(0o755)

        def cache(name: str, owner: int, mode: int) -> Path:
            path = Path(folder) / name
            path.mkdir()
            path.chmod(mode)
            os.chown(path, owner, owner)
            return path

        def files(path: Path) -> int:
            return sum(each.is_file() for each in path.rglob("*"))

        own = cache("own", NOBODY, 0o700)
        assert told(own, *AS_NOBODY) == "" and files(own) > 0
        for path, why, runner in [
            (cache("of root", 0, 0o777), "it belongs to user 0", AS_NOBODY),
            (cache("of nobody", NOBODY, 0o777), f"it belongs to user {NOBODY}", []),
            (cache("read-only", NOBODY, 0o500), "Permission denied", AS_NOBODY),
            (cache("closed", 0, 0o700) / "below", "Permission denied", AS_NOBODY),
        ]:
            said = told(path, *runner)
            assert said.count("warning: ") == 1 and str(path) in said and why in said, (path, said)
            assert files(path) == 0, path
