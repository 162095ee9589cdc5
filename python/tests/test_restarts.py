"""Simulations that end in the middle and go on, and a cluster that loses a node under them.

The solver is examples/simulations/droplets.c, whose droplets do not depend on how many ranks there
are; what a table holds is compared with that of an undisturbed run.
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
from test_simulations import (
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

__all__ = ["prefix", "programs"]

# Nodes are killed here, so whoever runs this says that they may be: `make test-insitu-cluster`.
NODES = os.environ.get("KUBIST_TEST_NODES")


def begun(
    command: list[str], last_step: Callable[[], int], wanted: int
) -> subprocess.Popen[bytes]:
    """A job that was started, once so many steps are complete."""
    job = subprocess.Popen(
        command, env=os.environ | MPI, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while last_step() < wanted:
        assert job.poll() is None
        assert time.monotonic() < deadline
    return job


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4)])
def test_a_restart_may_have_another_number_of_ranks(
    prefix: Path, programs: dict[str, Path], path: Path, before: int, after: int
) -> None:
    """One writer for each node stays the same writer, however many ranks it has."""
    program, droplets = compiled("C", prefix, programs), 800
    command = mpirun(before, program, path, 100_000, droplets // before, "node")
    job = begun(command, lambda: complete(path), 4)
    ended(job.pid, *ranks_of(job.pid, program))
    job.wait(60)
    last = complete(path)
    checkpoint = last - 2
    run(
        *mpirun(after, program, path, last + 3, droplets // after, "node", checkpoint),
        env=os.environ | MPI,
    )
    other = path.with_name("undisturbed.kubist")
    run(*mpirun(before, program, other, last + 3, droplets // before, "node"), env=os.environ | MPI)
    table, undisturbed = kubist.open(path), kubist.open(other)
    assert table.verify(deep=True).ok
    steps = list(range(1, last + 4))
    assert list(table.snapshot().complete_steps()) == steps
    found, expected = (written(t, (1, last + 3)) for t in (table, undisturbed))
    # Who computed a droplet is another one from the checkpoint on.
    for name in set(NAMES) - {"rank"}:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    late = found["time"] > checkpoint / 1024
    assert set(found["rank"][late]) == set(range(after))
    assert set(found["rank"][~late]) == set(range(before))


@pytest.fixture
def location() -> Iterator[str]:
    """Where a table may be made on the cluster of three nodes; all of them run afterwards."""
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
