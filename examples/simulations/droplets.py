"""Droplets that drift through a tube, as in droplets.c, over mpi4py.

mpirun -n 4 python droplets.py droplets.kubist 20 100000

Arguments: table, steps, droplets per rank; then optionally the mode (auto, rank, node,
dedicated) and a checkpoint to continue from.
"""

import sys

import numpy as np
from mpi4py import MPI

import kubist.mpi

COLUMNS = [("x", "f8"), ("y", "f8"), ("time", "f8"), ("diameter", "f4"), ("pid", "i8")]
COLUMNS += [("rank", "i4"), ("deposited", "?")]


def compute(run: kubist.mpi.Run, steps: int, n: int, checkpoint: int) -> None:
    rank = run.solvers.rank
    pid = rank * n + np.arange(n)
    x, deposited = (pid % 64) / 128, np.zeros(n, bool)
    rows = np.zeros(n, dtype=COLUMNS)
    for step in range(1, steps + 1):
        x[~deposited] += 0.015625
        deposited |= x > 0.9375
        if step <= checkpoint:
            continue
        # The data is copied before the call returns, so the next step may reuse the memory.
        rows["x"], rows["y"], rows["time"] = x, pid % 1024 / 1024, step / 1024
        rows["diameter"], rows["pid"], rows["rank"] = pid % 7, pid, rank
        rows["deposited"] = deposited
        run.write(step, rows)


def main(path: str, steps: int, n: int, mode: str, checkpoint: int | None) -> None:
    with kubist.mpi.open(
        MPI.COMM_WORLD,
        path,
        np.zeros(0, dtype=COLUMNS),
        dimensions={"x": (0, 1), "y": (0, 1), "time": (0, 1)},
        create={"identity": ["pid", "time"], "units": {"x": "m"}},
        mode=mode,
        restart_after=checkpoint,
    ) as run:
        # A dedicated rank computes nothing, and its close returns when all have closed.
        if run.solvers is not None:
            compute(run, steps, n, checkpoint or 0)


if __name__ == "__main__":
    default = ["droplets.kubist", "20", "100000", "auto"]
    path, steps, n, mode, *checkpoint = sys.argv[1:] + default[len(sys.argv) - 1 :]
    main(path, int(steps), int(n), mode, int(checkpoint[0]) if checkpoint else None)
