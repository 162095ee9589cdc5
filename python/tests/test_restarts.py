"""Simulations that stop and continue, and a cluster that loses a node.

The droplets of examples/simulations/droplets.c do not depend on the number of ranks, so tables are
compared with an uninterrupted run's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from libkubist import ROOT, run
from servers import COMMAND
from test_simulations import (
    EXAMPLES,
    MPI,
    NAMES,
    assert_equal,
    compiled,
    complete,
    ended,
    mpirun,
    prefix,
    programs,
    ranks_of,
    written,
)

import kubist

pytestmark = pytest.mark.release

__all__ = ["prefix", "programs"]

# These tests kill nodes, so they need consent: `make test-insitu-cluster`.
NODES = os.environ.get("KUBIST_TEST_NODES")


def begun(
    command: list[str],
    last_step: Callable[[], int],
    wanted: int,
    environment: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    job = subprocess.Popen(
        command,
        env=environment or os.environ | MPI,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while last_step() < wanted:
        assert job.poll() is None
        assert time.monotonic() < deadline
    return job


@pytest.mark.parametrize(
    ("language", "mode", "before", "after"),
    [
        ("C", "node", 4, 2),
        ("C", "rank", 4, 2),
        ("C", "rank", 2, 4),
        ("C", "dedicated", 3, 5),
        ("Fortran", "rank", 4, 2),
        ("Python", "rank", 4, 2),
    ],
)
def test_a_restart_may_have_another_number_of_ranks(
    prefix: Path,
    programs: dict[str, Path],
    path: Path,
    language: str,
    mode: str,
    before: int,
    after: int,
) -> None:
    """Steps up to the checkpoint have the old writers, later steps the new."""
    droplets, environment = 800, os.environ | MPI
    old, new = (ranks - (mode == "dedicated") for ranks in (before, after))
    if language == "Python":
        pytest.importorskip("mpi4py")
        program: list[str | Path] = [sys.executable, EXAMPLES / "droplets.py"]
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), *sys.path])
    else:
        program = [compiled(language, prefix, programs)]
    command = mpirun(before, *program, path, 100_000, droplets // old, mode)
    job = begun(command, lambda: complete(path), 4, environment)
    ended(job.pid, *ranks_of(job.pid, Path(program[-1])))
    job.wait(60)
    last = complete(path)
    checkpoint = last - 2
    run(
        *mpirun(after, *program, path, last + 3, droplets // new, mode, checkpoint),
        env=environment,
    )
    other = path.with_name("undisturbed.kubist")
    run(*mpirun(before, *program, other, last + 3, droplets // old, mode), env=environment)
    table, undisturbed = kubist.open(path), kubist.open(other)
    assert table.verify(deep=True).ok
    steps = list(range(1, last + 4))
    assert list(table.snapshot().complete_steps()) == steps
    found, expected = (written(t, (1, last + 3)) for t in (table, undisturbed))
    # From the checkpoint on, other ranks compute the droplets.
    for name in set(NAMES) - {"rank"}:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    late = found["time"] > checkpoint / 1024
    assert set(found["rank"][late]) == set(range(new))
    assert set(found["rank"][~late]) == set(range(old))
    if mode == "rank":
        # The declarations are reported, and a job with the same number of ranks can continue.
        told = [
            f"complete with {before} writers",
            f"after step {checkpoint} complete with {after} writers",
        ]
        assert [str(each) for each in table.info().declared] == told
        assert f"steps       {'; '.join(told)}" in repr(table.info())
        shown = run(COMMAND, "info", path)
        assert "; ".join(told) in shown, shown
        run(
            *mpirun(after, *program, path, last + 4, droplets // after, mode, last + 3),
            env=environment,
        )
        assert len(table.info().declared) == 2


def test_a_restart_waits_for_the_writers_that_it_does_not_have(
    prefix: Path, programs: dict[str, Path], path: Path
) -> None:
    """A surviving rank of the old job would add to retracted steps."""
    program = compiled("C", prefix, programs)
    run(*mpirun(4, program, path, 3, 50, "rank"), env=os.environ | MPI)
    old = kubist.open(path).writer("rank-3")
    command = mpirun(2, program, path, 5, 100, "rank", 2)
    job = subprocess.Popen(command, env=os.environ | MPI, stderr=subprocess.PIPE, text=True)
    # Its names are taken, and nothing is retracted while the other rank lives.
    deadline = time.monotonic() + 120
    while not all(is_taken(path, f"rank-{rank}") for rank in (0, 1)):
        assert job.poll() is None
        assert time.monotonic() < deadline
    assert complete(path) == 3
    assert len(kubist.open(path)) == 4 * 50 * 3
    old.append({name: [value] for name, value in one_droplet(path).items()})
    old.commit(step=9)
    old.close()
    _, said = job.communicate(timeout=120)
    assert job.returncode == 0, said
    table = kubist.open(path)
    assert list(table.snapshot().complete_steps()) == [1, 2, 3, 4, 5]
    assert len(table) == 4 * 50 * 2 + 2 * 100 * 3


def is_taken(path: Path, name: str) -> bool:
    try:
        kubist.open(path).writer(name).close()
    except kubist.Busy:
        return True
    return False


def one_droplet(path: Path) -> dict[str, object]:
    return kubist.open(path).head(1).to_arrow().to_pylist()[0]


@pytest.fixture
def location() -> Iterator[str]:
    """A location on the cluster of three nodes, which all run afterwards."""
    if not NODES:
        pytest.skip("nodes are killed here: make test-insitu-cluster")
    location = f"cassandra://127.0.0.1,127.0.0.2,127.0.0.3/kubist_tests/s{uuid.uuid4().hex}"
    yield location
    run(sys.executable, ROOT / "scripts/cassandra.py", "start", "3")
    kubist.drop(location, force=True)


def complete_there(location: str) -> int:
    try:
        return max(kubist.open(location).snapshot().complete_steps(), default=0)
    except kubist.NotATable:
        return 0


@pytest.mark.parametrize("mode", ["rank", "node"])
def test_a_cluster_that_loses_a_node_loses_no_record(
    prefix: Path, programs: dict[str, Path], location: str, mode: str
) -> None:
    program, steps = compiled("C", prefix, programs), 40
    command = mpirun(2, program, location, steps, 500, mode)
    job = begun(command, lambda: complete_there(location), 3)
    run(sys.executable, ROOT / "scripts/cassandra.py", "kill", "3")
    at = complete_there(location)
    assert at < steps, "the run was over before the node was killed"
    assert job.wait(300) == 0
    table = kubist.open(location)
    assert list(table.snapshot().complete_steps()) == list(range(1, steps + 1))
    assert_equal(table, 2, steps, 500)
    assert table.verify(deep=True).ok
