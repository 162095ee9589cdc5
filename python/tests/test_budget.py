"""Steps within a budget in every binding: all store the same rows, and totals are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from libkubist import CRATE, MPI, ROOT, install, need, run
from servers import COMMAND, Server

import kubist

BUDGET = '{"budget_rows_per_step": 500, "always_keep": "hot", "persist_when": "max(x) > 0.1"}'
PARTICLES = 6000

PROGRAM = """
import json
import sys
import numpy as np
from mpi4py import MPI
import kubist.mpi

kinds = [("x", "f8"), ("time", "f8"), ("pid", "i8"), ("hot", "?")]

def compute(run, comm):
    lacking = comm.rank == comm.size - 1
    for step in range(1, 5):
        pid = np.arange(6000)[(np.arange(6000) + step) % comm.size == comm.rank]
        rows = np.zeros(len(pid), dtype=kinds)
        rows["x"] = pid % 1000 / (1000000 if step == 3 else 1000)
        rows["pid"], rows["time"], rows["hot"] = pid, step, pid % 1500 == 7
        if step != 2:
            run.write(step, rows)
            continue
        # One rank lacks a column: all learn that the step does not end, and it is abandoned.
        try:
            run.write(step, {"x": rows["x"]} if lacking else rows)
        except kubist.InvalidInput as error:
            assert lacking and "pid" in str(error), error
        except kubist.Unavailable as error:
            assert not lacking and "step 2" in str(error), error
        else:
            sys.exit("it was written")
    # One rank cannot even begin its step: nobody waits for it.
    try:
        run.write(4 if lacking else 5, rows)
    except kubist.InvalidInput as error:
        assert lacking and "later" in str(error), error
        run.abandon(5)
    except kubist.Unavailable as error:
        assert not lacking and "step 5" in str(error), error
    else:
        sys.exit("it was written")

path, mode, options = sys.argv[1:]
with kubist.mpi.open(
    MPI.COMM_WORLD, path, np.zeros(0, dtype=kinds), dimensions={"x": (0, 1), "time": (0, 8)},
    create={"identity": ["pid", "time"]}, mode=mode, keep=json.loads(options),
) as run:
    if run.solvers is not None:
        compute(run, run.solvers)
"""

UNITS = """
import sys
import numpy as np
from mpi4py import MPI
import kubist.mpi

comm, path = MPI.COMM_WORLD, sys.argv[1]
pid = np.arange(1000)
rows = {"d": pid * 1e-7 + 0.5e-7, "pid": pid}
with kubist.mpi.open(
    comm, path, rows, dimensions={"d": (0, 1e-4)},
    create={"identity": ["pid"], "units": {"d": "m"}},
    keep={
        "budget_rows_per_step": 100,
        "always_keep": "d > '99 um'",
        "persist_when": "max(d) > '60 um'",
    },
) as run:
    run.write(1, None if comm.rank else rows)
    run.write(2, None if comm.rank else {"d": rows["d"] / 2, "pid": pid})
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str | Path]]:
    folder = tmp_path_factory.mktemp("budget")
    prefix = install(folder / "prefix")
    link = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    fortran = prefix / "share/kubist/fortran"
    sources: dict[str, list[str | Path]] = {
        "C": ["mpicc.openmpi", "-std=c11", "-Wall", "-Werror", CRATE / "tests/budget.c"],
        "Fortran": [
            "mpif90.openmpi",
            "-std=f2008",
            f"-J{folder}",
            fortran / "kubist.f90",
            fortran / "kubist_mpi.f90",
            CRATE / "tests/budget.f90",
        ],
    }
    (folder / "program.py").write_text(PROGRAM)
    made: dict[str, list[str | Path]] = {"Python": [sys.executable, folder / "program.py"]}
    for language, command in sources.items():
        need(str(command[0]), "mpirun.openmpi")
        run(*command, "-o", folder / language, *link)
        made[language] = [folder / language]
    return made


def start(programs: dict[str, list[str | Path]], language: str, ranks: int, *words: object) -> str:
    if language == "Python":
        pytest.importorskip("mpi4py")
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    command = ["mpirun.openmpi", "-n", str(ranks), *programs[language], *map(str, words)]
    return run(*command, env=os.environ | MPI | paths)


def kept(table: kubist.Table) -> list[tuple[float, int, float | None]]:
    rows = table.query(columns=["time", "pid", "kept_below"]).to_arrow().to_pylist()
    return sorted((row["time"], row["pid"], row["kept_below"]) for row in rows)


@pytest.fixture(scope="module")
def reference(
    programs: dict[str, list[str | Path]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("reference") / "t.kubist"
    start(programs, "C", 1, path, "rank", BUDGET)
    return path


@pytest.mark.parametrize(
    ("language", "ranks", "mode"),
    [
        ("C", 4, "rank"),
        ("C", 2, "node"),
        ("C", 4, "node"),
        ("C", 3, "dedicated"),
        ("Fortran", 2, "rank"),
        ("Fortran", 4, "node"),
        ("Python", 2, "rank"),
        ("Python", 4, "node"),
        ("Python", 3, "dedicated"),
    ],
)
def test_every_door_and_number_of_ranks_keeps_the_same(
    programs: dict[str, list[str | Path]],
    reference: Path,
    tmp_path: Path,
    language: str,
    ranks: int,
    mode: str,
) -> None:
    start(programs, language, ranks, tmp_path / "t.kubist", mode, BUDGET)
    assert kept(kubist.open(tmp_path / "t.kubist")) == kept(kubist.open(reference))


def test_what_is_kept_stands_for_all(reference: Path) -> None:
    table = kubist.open(reference)
    rows = kept(table)
    times = np.array([time for time, _, _ in rows])
    # All ranks abandoned the second step; no row of the third meets the condition.
    assert sorted(set(times)) == [1, 4]
    assert list(table.snapshot().complete_steps()) == [1, 2, 3, 4]
    thinned = table.info().thinned
    assert thinned is not None
    assert (thinned.steps, thinned.kept, thinned.rows) == (2, len(rows), 2 * PARTICLES)
    told = subprocess.run([COMMAND, "info", reference], capture_output=True, text=True, check=True)
    line = f"thinned     2 steps: {len(rows)} of 12,000 records were kept"
    assert line in told.stdout.splitlines() and line in str(table.info()).splitlines()
    with Server(reference) as server, urllib.request.urlopen(f"{server.url}v1/tables/t") as answer:
        shown = json.load(answer)["thinned_steps"]
    assert [(each["step"], each["rows"]) for each in shown] == [(1, PARTICLES), (4, PARTICLES)]
    assert {each["below"] for each in shown} == {below for _, _, below in rows if below != 1}
    hot = {pid for pid in range(PARTICLES) if pid % 1500 == 7}
    for time in (1, 4):
        count = int((times == time).sum())
        assert 475 <= count <= 500
        always = {pid for at, pid, below in rows if at == time and below == 1}
        assert always == hot
    figures = table.estimate(["count()", "mean(x)"]).to_arrow().to_pylist()
    mean = np.mean(np.arange(PARTICLES) % 1000 / 1000)
    for figure, truth in zip(figures, (2 * PARTICLES, mean), strict=True):
        assert figure["exact"] and figure["value"] == pytest.approx(truth, rel=1e-12)
    some = table.estimate("count()", where="x < 0.5", sample=1.0)
    # Half of 12,000 rows, from a thirteenth: a standard error of 270.
    assert abs(some.value - PARTICLES) < 1350 and some.low < some.value < some.high
    assert some.fraction < 0.1
    assert any("thinned" in warning for warning in some.warnings)
    certain = table.estimate("count()", where="hot", sample=1.0)
    assert certain.value == certain.low == 2 * len(hot)
    assert certain.high < 2 * len(hot) + 10 / certain.fraction
    weights = table.query(columns=["x"], inclusion="p").to_arrow()
    estimate = np.sum(1 / weights["p"].to_numpy())
    assert estimate == pytest.approx(2 * PARTICLES, rel=0.2)


def test_conditions_have_units(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    need("mpirun.openmpi")
    (tmp_path / "units.py").write_text(UNITS)
    start({"Python": [sys.executable, tmp_path / "units.py"]}, "Python", 2, tmp_path / "t.kubist")
    table = kubist.open(tmp_path / "t.kubist")
    rows = table.query(columns=["pid", "kept_below"]).to_arrow().to_pylist()
    assert 90 <= len(rows) <= 100
    assert {row["pid"] for row in rows if row["kept_below"] == 1} == set(range(990, 1000))
    mean = table.estimate("mean(d)")
    assert mean.exact and mean.value == pytest.approx(5e-5)


def test_a_budget_smaller_than_a_record_is_told_to_all(
    programs: dict[str, list[str | Path]], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=r"budget_bytes_per_step is 24.* 25 bytes"):
        start(programs, "C", 2, tmp_path / "t.kubist", "rank", '{"budget_bytes_per_step": 24}')
    with pytest.raises(AssertionError, match=r"no_such_column"):
        start(programs, "C", 2, tmp_path / "t.kubist", "node", '{"always_keep": "no_such_column"}')
