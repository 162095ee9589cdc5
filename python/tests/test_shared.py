"""Tables whose directory several machines write to, in Python and by the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import COMMAND

import kubist


@pytest.fixture(autouse=True)
def fresh_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine sees its own writes immediately, so no wait is needed."""
    monkeypatch.setenv("KUBIST_STALE_SECONDS", "0")


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    whole = [str(COMMAND), *map(str, arguments)]
    return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)


def rows(begin: int, end: int) -> pa.Table:
    x = np.arange(begin, end, dtype="float64")
    return pa.table({"x": x, "id": np.arange(begin, end)})


def ids(table: kubist.Table) -> list[int]:
    return sorted(table.query().to_arrow()["id"].to_pylist())


SHARED = {"shared": True}

WRITER = """
import sys
import numpy as np
import pyarrow as pa
import kubist

path, name, end = sys.argv[1], sys.argv[2], int(sys.argv[3])
table = kubist.open(path)
with table.writer(name) as writer:
    for commit in range(end):
        ids = np.arange(commit * 10, commit * 10 + 10)
        writer.append(pa.table({"x": ids.astype("float64"), "id": ids}))
        writer.commit(token=f"commit {commit}")
        print(commit, flush=True)
"""


def write(path: Path, name: str, end: int) -> subprocess.Popen[str]:
    whole = [sys.executable, "-c", WRITER, str(path), name, str(end)]
    return subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_table_remembers_that_it_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "t.kubist"
    table = kubist.create(path, rows(0, 100), ["x"], identity=["id"], storage=SHARED)
    assert table.info().shared and "several machines" in repr(table.info())
    again = kubist.open(path)
    again.append(rows(100, 200))
    assert ids(table) == list(range(200)) and again.info().shared
    assert list((path / "logs").glob("*.entries/*")) and not list((path / "logs").glob("*.ack"))
    again.optimize()
    again.clean(retention=0)
    assert ids(kubist.open(path)) == list(range(200)) and not again.verify(deep=True).findings


def test_a_table_of_one_machine_becomes_shared_under_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "t.kubist"
    table = kubist.create(path, rows(0, 10), ["x"], identity=["id"])
    writer = table.writer("w")
    writer.append(rows(10, 20))
    writer.commit()
    other = kubist.open(path)
    other.alter(shared=True)
    other.alter(shared=True)
    writer.append(rows(20, 30))
    with pytest.raises(kubist.Refused, match="made shared"):
        writer.commit()
    writer.close()
    assert ids(table) == list(range(20)) and ids(other) == list(range(20))
    with table.writer("w") as writer:
        writer.append(rows(20, 30))
        writer.commit()
    assert ids(other) == list(range(30)) and table.info().shared and not other.verify(deep=True).findings


def test_a_writer_that_is_killed_gives_its_name_back_on_its_machine(tmp_path: Path) -> None:
    path = tmp_path / "t.kubist"
    table = kubist.create(path, rows(0, 0).schema, ["x"], identity=["id"], storage=SHARED)
    with write(path, "w", 100_000) as killed:
        assert killed.stdout is not None
        acknowledged = [int(killed.stdout.readline()) for _ in range(5)]
        with pytest.raises(kubist.Busy):
            kubist.open(path).writer("w")
        killed.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in killed.stdout.read().split()]
    with write(path, "w", len(acknowledged) + 3) as again:
        _, errors = again.communicate(timeout=60)
    assert again.returncode == 0, errors
    assert ids(table) == list(range(10 * (len(acknowledged) + 3)))


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.kubist"
    table = kubist.create(path, rows(0, 0).schema, ["x"], storage=SHARED)
    writers = [write(path, f"w{number}", 8) for number in range(3)]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    assert ids(table) == sorted(list(range(80)) * 3)


def test_the_command_makes_tables_shared(tmp_path: Path) -> None:
    file, one, other = tmp_path / "rows.parquet", tmp_path / "one.kubist", tmp_path / "other.kubist"
    pq.write_table(rows(0, 50), file)
    assert command("ingest", one, file, "--dimensions", "x", "--create", "shared").returncode == 0
    assert json.loads(command("info", one, "--json").stdout)["shared"]
    assert "several machines" in command("info", one).stdout
    assert command("ingest", other, file, "--dimensions", "x").returncode == 0
    refused = command("ingest", other, file, "--create", "shared")
    assert refused.returncode == 2 and "kubist alter" in refused.stderr
    assert command("alter", other, "--shared").returncode == 0
    assert command("ingest", other, file, "--create", "shared", "--again").returncode == 0
    assert kubist.open(other).info().rows == 100 and kubist.open(other).info().shared
    lines = command("tail", other, "--json", "--changes", 0, "--every", 2).stdout.splitlines()
    assert json.loads(lines[0])["rows"] == 100


def test_agreeing_wants_a_shared_table(tmp_path: Path) -> None:
    path = tmp_path / "t.kubist"
    kubist.create(path, rows(0, 10), ["x"])
    with pytest.raises(kubist.TableExists, match="--shared"):
        kubist.create(path, rows(0, 10).schema, ["x"], exist_ok=True, storage=SHARED)


def test_a_folder_without_permission_says_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    path = tmp_path / "t.kubist"
    kubist.create(path, rows(0, 10), ["x"], storage=SHARED)
    (path / "logs").chmod(0o500)
    with pytest.raises(PermissionError, match="logs"):
        kubist.open(path).append(rows(10, 20))


def test_watching_looks_no_more_often_than_asked(tmp_path: Path) -> None:
    table = kubist.create(tmp_path / "t.kubist", rows(0, 10), ["x"], storage=SHARED)
    seen = table.watch(every=0.05, timeout=30)
    assert next(seen).info().rows == 10
    table.append(rows(10, 20))
    assert next(seen).info().rows == 20
    with pytest.raises(kubist.InvalidInput, match="every"):
        next(table.watch(every=-1.0))


def heeds_signals(process: subprocess.Popen[str]) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("program", ["info", "query", "verify", "clean", "python"])
def test_who_waits_for_other_machines_can_be_interrupted(tmp_path, monkeypatch, program):
    table = kubist.create(tmp_path / "t", rows(0, 100), ["x"], identity=["id"], storage=SHARED)
    table.append(rows(100, 200))
    table.close()
    entry = sorted((tmp_path / "t/logs").glob("*.entries/*"))[-1]
    damaged = bytearray(entry.read_bytes())
    damaged[40] ^= 0xFF
    entry.write_bytes(damaged)
    # It waits for days to distinguish damage from a late view.
    monkeypatch.setenv("KUBIST_STALE_SECONDS", "1e6")
    script = "import sys, kubist; print(flush=True); kubist.open(sys.argv[1])"
    opening = [sys.executable, "-c", script] if program == "python" else [str(COMMAND), program]
    whole = [*opening, str(tmp_path / "t")]
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if program == "python":
        assert process.stdout is not None and process.stdout.readline() == "\n"
    while process.poll() is None and not heeds_signals(process):
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert ("KeyboardInterrupt" if program == "python" else "interrupted") in said
    assert process.returncode in (130, -signal.SIGINT)
