"""The command's system calls fail, one at a time.

Every call of a small workload fails once with each of four errors. Afterwards the table is intact
and has all acknowledged rows, and all or no rows in progress. The tests need strace.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "kubist"
ERRORS = ("EIO", "ENOSPC", "EINTR", "EMFILE")
CALLS = (
    "openat", "read", "pread64", "write", "pwrite64", "fsync", "fdatasync", "ftruncate", "linkat",
    "unlinkat", "mkdirat", "newfstatat", "statx", "getdents64", "flock",
)  # fmt: skip
# Number of faults per workload, or all.
SHARE = os.environ.get("FAULTS", "40")
OLD, NEW = 400, 300


def works() -> str | None:
    if (strace := shutil.which("strace")) is None:
        return "strace is not installed"
    if not COMMAND.exists():
        return "the command is not built"
    tried = subprocess.run([strace, "-f", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "strace may not trace here"


works_here = pytest.mark.skipif(works() is not None, reason=works() or "")
pytestmark = [pytest.mark.release, works_here]


@dataclass
class Workload:
    name: str
    arguments: list[str]
    """Rows that it adds on success."""
    adds: int


def csv(path: Path, first: int, rows: int) -> Path:
    lines = (f"{n},{n % 97 / 97},{n % 89 / 89}" for n in range(first, first + rows))
    path.write_text("id,x,y\n" + "\n".join(lines) + "\n")
    return path


def kubist(*arguments: object, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    # A hang is a failure too.
    command = [*under, str(COMMAND), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def rows_of(table: Path) -> int:
    counted = kubist("query", table, "--count")
    assert counted.returncode == 0, counted.stderr
    return int(re.sub(r"\D", "", counted.stdout.splitlines()[0]))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    made = folder / "t.kubist"
    for part in range(4):
        file = csv(folder / f"{part}.csv", part * OLD // 4, OLD // 4)
        done = kubist("ingest", made, file, "--dimensions", "x,y", "--identity", "id")
        assert done.returncode == 0, done.stderr
    return made


def workloads(table: Path) -> list[Workload]:
    more = csv(table.parent / "more.csv", 10_000, NEW)
    return [
        Workload("ingest", ["ingest", "TABLE", str(more)], NEW),
        Workload("query", ["query", "TABLE", "--count"], 0),
        Workload("optimize", ["optimize", "TABLE"], 0),
        Workload("clean", ["clean", "TABLE", "--retention-hours", "0"], 0),
    ]


@pytest.mark.parametrize("place", range(4), ids=["ingest", "query", "optimize", "clean"])
def test_a_failing_call_costs_no_row(place: int, table: Path, tmp_path: Path) -> None:
    work = workloads(table)[place]
    at = tmp_path / "t.kubist"
    arguments = [str(at) if word == "TABLE" else word for word in work.arguments]
    trace = tmp_path / "trace"
    strace = shutil.which("strace") or "strace"

    def fresh() -> None:
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(table, at)

    fresh()
    calm = kubist(*arguments, under=(strace, "-f", "-o", str(trace), "-e", "trace=" + ",".join(CALLS)))
    assert calm.returncode == 0, calm.stderr
    made = Counter(re.findall(r"^\d+\s+(?:<\.\.\. )?(\w+)\(", trace.read_text(), re.MULTILINE))
    faults = [
        (call, number, error)
        for call in CALLS
        for number in range(1, made[call] + 1)
        for error in ERRORS
    ]
    assert len(faults) > 100, made
    if SHARE != "all":
        faults = random.Random(f"{work.name} 1").sample(faults, min(int(SHARE), len(faults)))
    for call, number, error in faults:
        fresh()
        inject = f"inject={call}:error={error}:when={number}"
        under = (strace, "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
        done = kubist(*arguments, under=under)
        what = f"{work.name}: {call} number {number} failing with {error}: {done.stderr}"
        # No signal, no panic; the loader returns 127 before the program starts.
        loading = done.returncode == 127 and "loading shared libraries" in done.stderr
        assert loading or 0 <= done.returncode < 100, what
        assert "panicked" not in done.stderr and "RUST_BACKTRACE" not in done.stderr, what
        looked = kubist("verify", at, "--deep")
        assert looked.returncode == 0, f"{what}\n{looked.stdout}{looked.stderr}"
        rows = rows_of(at)
        if done.returncode == 0:
            assert rows == OLD + work.adds, what
        else:
            assert rows in (OLD, OLD + work.adds), what
