"""Simulations that write while they run, in C, C++ and Fortran, with and without MPI.

Tables are compared, row by row, with the same simulation in numpy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from libkubist import MPI, ROOT, install, need, run

import kubist

EXAMPLES = ROOT / "examples/simulations"
NAMES = ("pid", "x", "y", "time", "diameter", "rank", "deposited")
# Two ranks are the quick test by language.
RANKS = [2, *(pytest.param(ranks, marks=pytest.mark.release) for ranks in (1, 4))]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def programs(prefix: Path) -> dict[str, Path]:
    return {}


def compiled(language: str, prefix: Path, programs: dict[str, Path]) -> Path:
    if language in programs:
        return programs[language]
    link = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    fortran = prefix / "share/kubist/fortran"
    sources: dict[str, list[str | Path]] = {
        "C": ["mpicc.openmpi", "-std=c11", "-Wall", "-Werror", EXAMPLES / "droplets.c"],
        "C of MPICH": ["mpicc.mpich", "-std=c11", EXAMPLES / "droplets.c"],
        "C++": ["mpicxx.openmpi", "-std=c++17", "-DWITH_MPI", EXAMPLES / "droplets.cpp"],
        "C++ alone": ["g++", "-std=c++17", "-Wall", "-Werror", EXAMPLES / "droplets.cpp"],
        "C++20 alone": ["g++", "-std=c++20", "-Wall", "-Werror", EXAMPLES / "droplets.cpp"],
        "Fortran": [
            "mpif90.openmpi",
            "-std=f2008",
            "-O1",
            f"-J{prefix}",
            fortran / "kubist.f90",
            fortran / "kubist_mpi.f90",
            EXAMPLES / "droplets.f90",
        ],
    }
    command = sources[language]
    need(str(command[0]))
    program = prefix / language.replace(" ", "-")
    run(*command, "-o", program, *link)
    programs[language] = program
    return program


def mpirun(ranks: int, *command: object, launcher: str = "mpirun.openmpi") -> list[str]:
    need(launcher)
    return [launcher, "-n", str(ranks), *map(str, command)]


def simulated(ranks: int, steps: int, droplets: int) -> dict[str, np.ndarray]:
    pid = np.arange(ranks * droplets)
    x, deposited, parts = (pid % 64) / 128, np.zeros(len(pid), bool), []
    for step in range(1, steps + 1):
        x = np.where(deposited, x, x + 0.015625)
        deposited = deposited | (x > 0.9375)
        columns = (pid, x, pid % 1024 / 1024, np.full(len(pid), step / 1024))
        parts.append((*columns, (pid % 7).astype("f4"), pid // droplets, deposited))
    return dict(zip(NAMES, map(np.concatenate, zip(*parts, strict=True)), strict=True))


def written(table: kubist.Table, steps: tuple[int, int]) -> dict[str, np.ndarray]:
    order = [("time", "ascending"), ("pid", "ascending")]
    found = table.query(steps=steps).to_arrow().sort_by(order)
    return {name: found[name].to_numpy() for name in NAMES}


def assert_equal(table: kubist.Table, ranks: int, steps: int, droplets: int) -> None:
    found, expected = written(table, (1, steps)), simulated(ranks, steps, droplets)
    for name in NAMES:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize("mode", ["rank", "node"])
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("language", ["C", "Fortran"])
def test_ranks_write_what_they_compute(
    prefix: Path, programs: dict[str, Path], path: Path, language: str, ranks: int, mode: str
) -> None:
    program = compiled(language, prefix, programs)
    run(*mpirun(ranks, program, path, 6, 500, mode), env=os.environ | MPI)
    table = kubist.open(path)
    assert_equal(table, ranks, 6, 500)
    # One log for each rank, or one for the node.
    assert len(table.info().writers) == (ranks if mode == "rank" else 1)


@pytest.mark.parametrize("ranks", RANKS)
def test_cpp_writes_what_it_computes(
    prefix: Path, programs: dict[str, Path], path: Path, ranks: int
) -> None:
    run(*mpirun(ranks, compiled("C++", prefix, programs), path, 4, 300), env=os.environ | MPI)
    assert_equal(kubist.open(path), ranks, 4, 300)


@pytest.mark.parametrize("mode", ["rank", "node"])
@pytest.mark.parametrize("ranks", RANKS)
def test_python_writes_what_it_computes(path: Path, ranks: int, mode: str) -> None:
    pytest.importorskip("mpi4py")
    program = EXAMPLES / "droplets.py"
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    run(*mpirun(ranks, sys.executable, program, path, 6, 500, mode), env=os.environ | MPI | paths)
    table = kubist.open(path)
    assert_equal(table, ranks, 6, 500)
    assert len(table.info().writers) == (ranks if mode == "rank" else 1)


def program_of(language: str, prefix: Path, programs: dict[str, Path]) -> list[str | Path]:
    if language == "Python":
        pytest.importorskip("mpi4py")
        return [sys.executable, EXAMPLES / "droplets.py"]
    return [compiled(language, prefix, programs)]


@pytest.mark.release
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("language", ["C", "C++", "Fortran", "Python"])
def test_a_rank_may_do_nothing_but_commit(
    prefix: Path, programs: dict[str, Path], path: Path, language: str, ranks: int
) -> None:
    """The other ranks compute as if it did not exist."""
    program = program_of(language, prefix, programs)
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    command = mpirun(ranks, *program, path, 6, 500, "dedicated")
    run(*command, env=os.environ | MPI | paths)
    table = kubist.open(path)
    assert_equal(table, ranks - 1, 6, 500)
    assert [writer.name for writer in table.info().writers] == ["node-0"]
    assert list(table.snapshot().complete_steps()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("language", ["C", "Fortran", "Python"])
def test_a_node_of_one_rank_cannot_dedicate_it(
    prefix: Path, programs: dict[str, Path], path: Path, language: str
) -> None:
    program = program_of(language, prefix, programs)
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    with pytest.raises(AssertionError, match="a node has one rank"):
        run(*mpirun(1, *program, path, 6, 500, "dedicated"), env=os.environ | MPI | paths)
    assert not path.exists()


def test_in_python_a_failure_of_one_rank_is_told_to_all(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    script = tmp_path / "script.py"
    script.write_text(
        """
import sys
import numpy as np
import pyarrow as pa
from mpi4py import MPI
import kubist.mpi

comm, path = MPI.COMM_WORLD, sys.argv[1]
rows = np.zeros(3, dtype=[("x", "f8"), ("pid", "i8")])
for mode in ("rank", "node"):
    try:
        kubist.mpi.open(comm, path, mode=mode)
    except kubist.NotATable as error:
        assert str(error).startswith("rank 0: "), error
    else:
        sys.exit("it was opened")
with kubist.mpi.open(comm, path, rows, dimensions={"x": (0, 1)}, mode="node", timeout=1.0) as run:
    run.write(1, rows)
    try:
        run.write(2, {"x": rows["x"]} if comm.rank else rows)
    except kubist.InvalidInput as error:
        assert comm.rank and "pid" in str(error), error
    run.write(3, None)
    run.abandon(4)
    # Rows may come in several batches.
    part = pa.table({name: rows[name] for name in ("x", "pid")})
    run.write(5, pa.concat_tables([part, part]))
"""
    )
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    run(*mpirun(2, sys.executable, script, path), env=os.environ | MPI | paths)
    snapshot = kubist.open(path).snapshot()
    assert list(snapshot.complete_steps()) == [1, 2, 3, 4, 5]
    counts = [len(snapshot.query(steps=step).to_arrow()) for step in (1, 2, 3, 4, 5)]
    assert counts == [6, 3, 0, 0, 12]


@pytest.mark.parametrize("language", ["C++ alone", "C++20 alone"])
def test_one_process_needs_no_mpi(
    prefix: Path, programs: dict[str, Path], path: Path, language: str
) -> None:
    told = run(compiled(language, prefix, programs), path, 4, 300)
    assert told.startswith("1200 records")
    assert_equal(kubist.open(path), 1, 4, 300)


@pytest.mark.parametrize("mode", ["rank", "node"])
def test_ranks_without_droplets_take_part(
    prefix: Path, programs: dict[str, Path], path: Path, mode: str
) -> None:
    run(*mpirun(2, compiled("C", prefix, programs), path, 3, 0, mode), env=os.environ | MPI)
    snapshot = kubist.open(path).snapshot()
    assert (len(snapshot), list(snapshot.complete_steps())) == (0, [1, 2, 3])


@pytest.mark.release
def test_a_step_may_be_larger_than_the_ring(
    prefix: Path, programs: dict[str, Path], path: Path
) -> None:
    """41 bytes of 450,000 droplets pass through a lane of 16 MiB."""
    run(*mpirun(1, compiled("C", prefix, programs), path, 1, 450_000, "node"), env=os.environ | MPI)
    assert_equal(kubist.open(path), 1, 1, 450_000)


def ended(*processes: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.mark.release
@pytest.mark.parametrize("mode", ["rank", "node", "dedicated"])
@pytest.mark.parametrize("victim", ["a rank", "the leader", "all"])
@pytest.mark.parametrize("turn", range(int(os.environ.get("ROUNDS", "1"))))
def test_killed_jobs_go_on_from_a_checkpoint(
    prefix: Path, programs: dict[str, Path], path: Path, mode: str, victim: str, turn: int
) -> None:
    """Acknowledged steps stay, and the table equals that of an uninterrupted run."""
    program = compiled("C", prefix, programs)
    wanted = 3 + 7 * turn % 40
    # Two processes compute. The leader is the first rank, or the last in dedicated mode.
    started = 3 if mode == "dedicated" else 2
    leader = -1 if mode == "dedicated" else 0
    job = subprocess.Popen(
        mpirun(started, program, path, 100_000, 200, mode),
        env=os.environ | MPI,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    ranks: list[int] = []
    try:
        deadline = time.monotonic() + 60
        while not (path / "table").exists() or not complete(path) >= wanted:
            assert job.poll() is None
            assert time.monotonic() < deadline
        ranks = ranks_of(job.pid, program)
        assert len(ranks) == started
        if victim != "all":
            ended(ranks[leader if victim == "the leader" else -1 - leader])
            job.wait(60)
    finally:
        ended(job.pid, *ranks)
        job.wait(60)
    table = kubist.open(path)
    last = complete(path)
    assert last >= wanted
    assert table.verify(deep=True).ok
    found, expected = written(table, (1, last)), simulated(2, last, 200)
    for name in NAMES:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    checkpoint = last - 1
    run(*mpirun(started, program, path, last + 3, 200, mode, checkpoint), env=os.environ | MPI)
    assert len(table) == 2 * 200 * (last + 3)
    assert_equal(table, 2, last + 3, 200)


def complete(path: Path) -> int:
    try:
        steps = kubist.open(path).snapshot().complete_steps()
    except kubist.NotATable:
        return 0
    return max(steps, default=0)


def ranks_of(parent: int, program: Path) -> list[int]:
    listed = run("ps", "-o", "pid=,ppid=,args=", "-e").splitlines()
    rows = [line.split(None, 2) for line in listed]
    return sorted(
        int(pid) for pid, ppid, args in rows if int(ppid) == parent and str(program) in args
    )


@pytest.mark.release
def test_an_mpi_that_another_started_is_named(
    prefix: Path, programs: dict[str, Path], path: Path
) -> None:
    need("mpirun.mpich")
    for language, launcher, names in (
        ("C of MPICH", "mpirun.openmpi", ("MPICH", "Open MPI")),
        ("C", "mpirun.mpich", ("Open MPI", "MPICH")),
        ("Fortran", "mpirun.mpich", ("Open MPI", "MPICH")),
    ):
        program = compiled(language, prefix, programs)
        done = subprocess.run(
            mpirun(2, program, path, 1, 1, launcher=launcher),
            env=os.environ | MPI,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode != 0
        of, started = names
        assert ": this program is of" in done.stderr, done.stderr
        said = done.stderr.split("this program is of", 1)[1].split("\n")[0]
        assert of in said.split("started")[0] and started in said.split("started")[1]
    assert not path.exists()


UNCLOSED = r"""
#include "kubist_mpi.h"
#define MUST(call) if ((call) != KUBIST_STATUS_OK) return fprintf(stderr, "%s\n", kubist_message()), 2
int main(int argc, char **argv) {
  const char *table = "{\"columns\": {\"x\": \"f64\", \"pid\": \"i64\"},"
                      " \"dimensions\": {\"x\": [0, 1]}, \"identity\": [\"pid\"]}";
  const double x[2] = {0.25, 0.5};
  const int64_t pid[2] = {1, 2};
  KubistMpiOptions options = {.size = sizeof options, .collective_seconds = 1.0};
  KubistMpi run;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  options.mode = rank == 0 ? atoi(argv[2]) : KUBIST_MPI_PER_RANK;
  if (kubist_mpi_open(MPI_COMM_WORLD, argv[1], table, &options, &run) != KUBIST_STATUS_OK) {
    fprintf(stderr, "%s\n", run.message);
    kubist_mpi_close(&run, 0.0);
    MPI_Finalize();
    return 3;
  }
  if (run.solvers == MPI_COMM_NULL) {
    /* A dedicated rank hears that the others have ended, and does not wait for them without end. */
    MUST(kubist_mpi_close(&run, 1.0) == KUBIST_STATUS_UNAVAILABLE ? KUBIST_STATUS_OK : KUBIST_STATUS_INTERNAL);
    return MPI_Finalize();
  }
  MUST(kubist_begin_step(run.writer, 1));
  MUST(kubist_put(run.writer, "x", KUBIST_TYPE_F64, x, 2, 0));
  MUST(kubist_put(run.writer, "pid", KUBIST_TYPE_I64, pid, 2, 0));
  MUST(kubist_end_step(run.writer, NULL, NULL));
  MUST(kubist_wait(run.writer, 1, 60.0));
  MUST(kubist_begin_step(run.writer, 2));
  MUST(kubist_put(run.writer, "x", KUBIST_TYPE_F64, x, 2, 0));
  /* The first rank's end ends the leader, which others may still write to. */
  MPI_Barrier(run.solvers);
  return MPI_Finalize();
}
"""


UNCLOSED_FORTRAN = """
program unclosed
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  use kubist
  use kubist_mpi
  implicit none
  type(kubist_mpi_run) :: run
  character(1024) :: location
  call MPI_Init()
  call get_command_argument(1, location)
  call kubist_mpi_open(run, MPI_COMM_WORLD, trim(location), '{"columns": {"x": "f64", "pid": "i64"}, ' // &
    '"dimensions": {"x": [0, 1]}, "identity": ["pid"]}', mode=KUBIST_MPI_PER_NODE)
  call kubist_begin_step(run%writer, 1_int64)
  call kubist_put(run%writer, "x", [0.25_real64, 0.5_real64])
  call kubist_put(run%writer, "pid", [1_int64, 2_int64])
  call kubist_end_step(run%writer)
  call kubist_wait(run%writer, timeout=60.0_real64)
  call kubist_begin_step(run%writer, 2_int64)
  call kubist_put(run%writer, "x", [0.25_real64, 0.5_real64])
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Finalize()
end program
"""


@pytest.mark.release
def test_a_run_in_fortran_that_is_not_closed_leaves_what_is_durable(
    prefix: Path, path: Path
) -> None:
    need("mpif90.openmpi")
    source, program = prefix / "unclosed.f90", prefix / "unclosed-fortran"
    source.write_text(UNCLOSED_FORTRAN)
    parts = [prefix / "share/kubist/fortran" / name for name in ("kubist.f90", "kubist_mpi.f90")]
    link = [f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    run("mpif90.openmpi", "-std=f2008", f"-J{prefix}", *parts, source, "-o", program, *link)
    run(*mpirun(2, program, path), env=os.environ | MPI)
    assert len(kubist.open(path)) == 4


TORN = """
#include <stdint.h>
#include <unistd.h>
#include "kubist_mpi.h"
int main(int argc, char **argv) {
  const char *table = "{\\"columns\\": {\\"x\\": \\"f64\\", \\"pid\\": \\"i64\\"},"
                      " \\"dimensions\\": {\\"x\\": [0, 1]}, \\"identity\\": [\\"pid\\"]}";
  KubistMpiOptions options = {.size = sizeof options, .collective_seconds = 1.0};
  KubistMpi run;
  KubistStatus status;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  options.mode = atoi(argv[2]);
  for (; rank == 1 && argv[3][0] == 'o';) pause();
  status = kubist_mpi_open(MPI_COMM_WORLD, argv[1], table, &options, &run);
  if (argv[3][0] != 'o' && status != KUBIST_STATUS_OK) return 3;
  for (; rank == 1;) pause();
  if (argv[3][0] != 'o') status = argv[3][0] == 'c' ? kubist_mpi_close(&run, 1.0) : kubist_mpi_end_step(&run, NULL, NULL);
  fprintf(stderr, "%s: %s\\n", kubist_status_name(status), run.message);
  MPI_Abort(MPI_COMM_WORLD, 4);
}
"""


@pytest.mark.release
@pytest.mark.parametrize(
    ("mode", "call"),
    [("1", "close"), ("2", "close"), ("1", "end_step"), ("2", "end_step"), ("2", "open")],
)
def test_a_rank_that_does_not_come_is_not_waited_for_without_end(
    prefix: Path, path: Path, mode: str, call: str
) -> None:
    need("mpicc.openmpi")
    source, program = prefix / "torn.c", prefix / "torn"
    source.write_text(TORN)
    link = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    run("mpicc.openmpi", "-D_DEFAULT_SOURCE", "-std=c11", source, "-o", program, *link)
    told = r"unavailable: a rank did not come to a collective call within 1 s"
    with pytest.raises(AssertionError, match=told):
        run(*mpirun(2, program, path, mode, call), env=os.environ | MPI)


TORN_FORTRAN = """
program torn
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use mpi_f08
  use kubist
  use kubist_mpi
  implicit none
  type(kubist_mpi_run) :: run
  character(1024) :: location, mode, called, why
  integer :: rank, status, as
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call get_command_argument(1, location)
  call get_command_argument(2, mode)
  call get_command_argument(3, called)
  read (mode, *) as
  do while (rank == 1 .and. called == "open")
    call execute_command_line("sleep 1")
  end do
  call kubist_mpi_open(run, MPI_COMM_WORLD, trim(location), '{"columns": {"x": "f64", ' // &
    '"pid": "i64"}, "dimensions": {"x": [0, 1]}, "identity": ["pid"]}', mode=as, &
    stat=status, errmsg=why, collective_seconds=1.0_real64)
  do while (rank == 1)
    call execute_command_line("sleep 1")
  end do
  if (called == "close") call kubist_mpi_close(run, 1.0_real64, status, why)
  if (called == "end_step") call kubist_mpi_end_step(run, stat=status, errmsg=why)
  write (error_unit, "(a, i0, 2a)") "status ", status, " unavailable: ", trim(why)
  call MPI_Abort(MPI_COMM_WORLD, 4)
end program
"""

TORN_PYTHON = """
import signal
import sys
import numpy as np
from mpi4py import MPI
import kubist.mpi

rank, (path, mode, called) = MPI.COMM_WORLD.rank, sys.argv[1:]
rows = {"x": np.zeros(2), "pid": np.arange(2)}
while rank == 1 and called == "open":
    signal.pause()
try:
    run = kubist.mpi.open(
        MPI.COMM_WORLD, path, rows, dimensions={"x": (0, 1)}, create={"identity": ["pid"]},
        mode=["auto", "rank", "node"][int(mode)], collective_seconds=1.0,
        keep={"budget_rows_per_step": 3},
    )
    while rank == 1:
        signal.pause()
    run.close(1.0) if called == "close" else run.write(1, rows)
except kubist.Unavailable as error:
    print("unavailable:", error, file=sys.stderr, flush=True)
MPI.COMM_WORLD.Abort(4)
"""


@pytest.mark.release
@pytest.mark.parametrize(("mode", "call"), [("1", "end_step"), ("2", "close"), ("1", "open")])
@pytest.mark.parametrize("language", ["Fortran", "Python"])
def test_nor_is_it_in_other_languages(
    prefix: Path, path: Path, language: str, mode: str, call: str
) -> None:
    need("mpirun.openmpi")
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    if language == "Python":
        pytest.importorskip("mpi4py")
        (prefix / "torn.py").write_text(TORN_PYTHON)
        program: list[str | Path] = [sys.executable, prefix / "torn.py"]
    else:
        need("mpif90.openmpi")
        program = [prefix / "torn-fortran"]
        (prefix / "torn.f90").write_text(TORN_FORTRAN)
        parts = [
            prefix / "share/kubist/fortran" / name for name in ("kubist.f90", "kubist_mpi.f90")
        ]
        link = [f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
        made = ["mpif90.openmpi", "-std=f2008", f"-J{prefix}", *parts, prefix / "torn.f90"]
        run(*made, "-o", program[0], *link)
    told = r"unavailable: a rank did not come to a collective call within 1(\.0)? s"
    with pytest.raises(AssertionError, match=told):
        run(*mpirun(2, *program, path, mode, call), env=os.environ | MPI | paths)


@pytest.fixture(scope="module")
def unclosed(prefix: Path) -> Path:
    need("mpicc.openmpi")
    source, program = prefix / "unclosed.c", prefix / "unclosed"
    source.write_text(UNCLOSED)
    link = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    run("mpicc.openmpi", "-std=c11", "-Wall", "-Werror", source, "-o", program, *link)
    return program


@pytest.mark.release
@pytest.mark.parametrize(("mode", "ranks", "logs"), [("1", 2, 2), ("2", 2, 1), ("3", 3, 1)])
def test_a_run_that_is_not_closed_leaves_what_is_durable(
    unclosed: Path, path: Path, mode: str, ranks: int, logs: int
) -> None:
    """The first rank's mode counts."""
    run(*mpirun(ranks, unclosed, path, mode), env=os.environ | MPI)
    table = kubist.open(path)
    assert len(table) == 4
    assert len(table.info().writers) == logs
    assert table.verify(deep=True).ok


def test_a_mode_that_there_is_not_is_told_to_all(unclosed: Path, path: Path) -> None:
    done = subprocess.run(
        mpirun(2, unclosed, path, 7),
        env=os.environ | MPI,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert "there is no mode 7" in done.stderr, done.stderr
    assert not path.exists()


def benchmarked(prefix: Path, folder: Path, **sizes: str) -> dict[str, list[str]]:
    names = {"STORES": str(folder), "SOLVERS": "none", "WORK": "0.1", **sizes}
    told = run(sys.executable, ROOT / "bench/insitu/run.py", prefix, env=os.environ | MPI | names)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in told.splitlines()]
    assert {row[0] for row in rows if len(row) == 8} >= {"no-output", "kubist-node-async"}
    assert "Not measured, for it is not there: LAMMPS" in told
    return {row[0]: row for row in rows if len(row) == 11 and row[0][0] not in "w-"}


@pytest.mark.release
def test_the_benchmark_of_ways_to_write_runs(prefix: Path, tmp_path: Path) -> None:
    need("mpicc.openmpi", "mpirun.openmpi", "pkg-config")
    ways = benchmarked(prefix, tmp_path, PARTICLES="20000", RANKS="2", STEPS="3")
    assert {"no-output", "memcpy", "gathered-csv", "gathered-binary", "file-per-rank"} < set(ways)
    assert sum(name.startswith("kubist-") for name in ways) == 4
    files = {name: int(row[7]) for name, row in ways.items()}
    assert (files["gathered-csv"], files["file-per-rank"]) == (3, 6)
    # All plain files and all tables have the same particles.
    shown = {
        name: row[9].split("(")[1].rstrip(")") for name, row in ways.items() if "(" in row[9]
    }
    for tables in (True, False):
        assert len({rows for name, rows in shown.items() if ("kubist" in name) == tables}) == 1
    # The number of files does not grow with steps or ranks per node.
    more = benchmarked(prefix, tmp_path, PARTICLES="20000", RANKS="4", STEPS="6")
    for name in ("kubist-node-sync", "kubist-node-async"):
        assert int(more[name][7]) == files[name]
