"""`kubist sql`: SQL by Polars or DuckDB on the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kubist

COMMAND = Path(sys.executable).parent / "kubist"

pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")


@pytest.fixture
def table(path: Path) -> kubist.Table:
    columns = {"pid": np.arange(1000), "x": np.arange(1000) / 1000, "kind": ["a", "b"] * 500}
    return kubist.create(path, columns, dimensions=["x"], identity=["pid"])


def sql(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "sql", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_it_writes_the_formats_of_a_query(table: kubist.Table, tmp_path: Path, engine: str) -> None:
    query = "SELECT kind, count(*) AS n, max(x) AS far FROM self WHERE x < 0.5 GROUP BY kind ORDER BY kind"
    done = sql(table.location, query, "--engine", engine)
    assert (done.returncode, done.stdout) == (0, "kind,n,far\na,250,0.498\nb,250,0.499\n")
    assert done.stderr.startswith("2 rows in ")
    shown = sql(table.location, query, "--engine", engine, "--format", "table").stdout
    assert shown.splitlines()[0].split() == ["kind", "n", "far"]
    target = tmp_path / "out.parquet"
    done = sql(table.location, "SELECT pid FROM self", "--engine", engine, "-o", target)
    assert done.returncode == 0, done.stderr
    assert sorted(pl.read_parquet(target)["pid"]) == list(range(1000))


def test_other_tables_have_names(table: kubist.Table, tmp_path: Path) -> None:
    other = kubist.create(
        tmp_path / "m", {"kind": ["a"], "mass": [2.5]}, dimensions=["mass"], identity=["kind"]
    )
    query = "SELECT sum(mass) AS mass FROM self JOIN m USING (kind)"
    for engine in ("polars", "duckdb"):
        done = sql(table.location, query, "--engine", engine, "--table", f"m={other.location}")
        assert done.stdout == "mass\n1250.0\n", done.stderr


def test_failures_have_a_message_and_an_exit_code(table: kubist.Table, tmp_path: Path) -> None:
    there = table.location
    for arguments, code, message in [
        ([there, "SELECT nothing FROM self"], 2, "nothing"),
        ([there, "SELECT nothing FROM self", "--engine", "duckdb"], 2, "nothing"),
        ([there, "DROP TABLE self", "--engine", "duckdb"], 2, "expected one SELECT"),
        ([tmp_path / "gone", "SELECT 1"], 3, "gone"),
        ([there, "SELECT 1", "--table", "m"], 2, "expected NAME=LOCATION"),
        ([there, "SELECT 1", "-o", "a.xyz"], 2, "the file extension names no format"),
        ([there, "SELECT pid FROM self", "-o", tmp_path / "no/where.csv"], 3, "does not exist"),
    ]:
        done = sql(*arguments)
        assert done.returncode == code and message in done.stderr, (arguments, done)
        assert done.stderr.startswith("kubist: error: ") and done.stderr.count("\n") == 1
    # An engine that is not installed.
    (tmp_path / "duckdb.py").write_text("raise ModuleNotFoundError('no', name='duckdb')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = sql(there, "SELECT 1", "--engine", "duckdb", env=environment)
    assert done.returncode == 3, done
    assert re.search(r"needs duckdb, which /\S+ lacks: pip install duckdb", done.stderr), done


def test_it_can_be_terminated(table: kubist.Table) -> None:
    query = "SELECT sum(sqrt(i)) FROM range(1000000000000) r(i)"
    command = [str(COMMAND), "sql", table.location, query, "--engine", "duckdb"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(3)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=30)
    assert (running.returncode, said) == (130, "kubist: error: interrupted\n")
