"""What writing while it runs costs a simulation: `make bench-insitu`.

    python bench/insitu/run.py PREFIX

The ways are measured in one run of one MPI program (insitu.c): the same particles, the same
steps, each way's bytes durable before its clock stops. PREFIX has libkubist (`make install`).
RANKS, PARTICLES and STEPS in the environment choose others than the default.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
HEAD = (
    "| way | ranks | particles a step | s a step | worst step | s in all | bytes | files | copies |"
    "\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def numbers(name: str, default: str) -> list[int]:
    return [int(float(number)) for number in (os.environ.get(name) or default).split()]


def compiled(prefix: Path, folder: Path) -> Path:
    program = folder / "insitu"
    command = ["mpicc.openmpi", "-std=gnu11", "-O2", HERE / "insitu.c", "-o", program]
    command += [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    subprocess.run(command, check=True)
    return program


def measured(program: Path, folder: Path, ranks: int, particles: int, steps: int) -> list[str]:
    """A row for each way."""
    output = folder / "output"
    output.mkdir()
    command = ["mpirun.openmpi", "-n", ranks, program, output, particles, steps]
    try:
        done = subprocess.run(
            list(map(str, command)),
            env=os.environ | MPI,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    finally:
        shutil.rmtree(output)
    return [row(line.split()) for line in done.stdout.splitlines()]


def row(found: list[str]) -> str:
    name, ranks, particles, mean, worst, total, size, files, copies = found
    shown = [name, ranks, f"{int(particles):,}", f"{float(mean):.4f}", f"{float(worst):.4f}"]
    shown += [f"{float(total):.2f}", f"{float(size) / 1e6:,.1f} MB", files, copies]
    return "| " + " | ".join(shown) + " |"


def main(prefix: Path) -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}\n")
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("STORES")) as folder:
        program = compiled(prefix.resolve(), Path(folder))
        for particles in numbers("PARTICLES", "200000 2000000"):
            for ranks in numbers("RANKS", "1 2 4"):
                steps = numbers("STEPS", "20")[0]
                for line in measured(program, Path(folder), ranks, particles, steps):
                    print(line, flush=True)
    print(
        "\nOf the slowest rank; in all: with opening, computing and closing, everything durable. "
        "Copies: a step's time as a multiple of memcpy's."
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
