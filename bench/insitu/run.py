"""The cost of in-situ output for a simulation: `make bench-insitu`.

    python bench/insitu/run.py PREFIX

One run of an MPI program (insitu.c) measures all ways with the same particles and steps; times
include durability. PREFIX has libkubist (`make install`). RANKS, PARTICLES and STEPS in the
environment override the defaults. WORK is the microseconds of computation per particle and step in
the table of wall times. The tables list missing systems; solvers.py measures real solvers.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import solvers

HERE = Path(__file__).resolve().parent
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
HEAD = (
    "| way | ranks | particles a step | s a step | worst step | s in all | bytes | files | copies "
    "| s to show 1 % | written and shown |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)
WALL_HEAD = (
    "| way | ranks | solver's wall time | more than without output | s a step | copies "
    "| s to show 1 % | output and showing |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|"
)
WALL = ["no-output", "memcpy", "gathered-csv", "gathered-binary", "file-per-rank", "parallel-hdf5"]
WALL += ["adios2-no-mpi"]
WALL += [f"kubist-{who}-{how}" for who in ("rank", "node") for how in ("sync", "async")]
# Microseconds per particle and step: forces, cell search, interpolation of the flow.
WORK = "5"


def numbers(name: str, default: str) -> list[int]:
    return [int(float(number)) for number in (os.environ.get(name) or default).split()]


def peers() -> tuple[list[str], list[str]]:
    """Compiler flags for the available libraries, and notes about the others."""
    flags, missing = [], []
    asked = ["pkg-config", "--cflags", "--libs", "hdf5-openmpi"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        flags += ["-DWITH_HDF5", *found.stdout.split()]
    else:
        missing.append("parallel HDF5 (apt install libhdf5-openmpi-dev)")
    folder = os.environ.get("ADIOS2", "")
    if folder and (Path(folder) / "include/adios2_c.h").exists():
        flags += ["-DWITH_ADIOS2", f"-I{folder}/include", f"-L{folder}", "-ladios2_c"]
        flags += [f"-Wl,-rpath,{folder}", f"-Wl,-rpath-link,{folder}.libs"]
    else:
        missing.append("ADIOS2 (pip install adios2; ADIOS2 names its folder)")
    return flags, missing


def compiled(prefix: Path, folder: Path, flags: list[str]) -> Path:
    program = folder / "insitu"
    command = ["mpicc.openmpi", "-std=gnu11", "-O2", *sorted(HERE.glob("*.c")), "-o", program]
    command += [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    subprocess.run([*command, *flags, "-lm"], check=True)
    return program


def measured(
    program: Path, folder: Path, ranks: int, particles: int, steps: int, work: str, *ways: str
) -> list[list[str]]:
    output = folder / "output"
    output.mkdir()
    # Open MPI would bind a rank and its threads to one core, so a queue could not write in
    # parallel.
    command = ["mpirun.openmpi", "--bind-to", "none", "-n", ranks]
    command += [program, output, particles, steps, work, *ways]
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
    return [line.split() for line in done.stdout.splitlines()]


def row(found: list[str]) -> str:
    name, ranks, particles, mean, worst, total, size, files, copies, show, shown = found
    cells = [name, ranks, f"{int(particles):,}", f"{float(mean):.4f}", f"{float(worst):.4f}"]
    cells += [f"{float(total):.2f}", f"{float(size) / 1e6:,.1f} MB", files, copies]
    if int(shown):
        cells += [f"{float(show):.4f} ({shown})", f"{float(total) + float(show):.2f}"]
    else:
        cells += ["", ""]
    return "| " + " | ".join(cells) + " |"


def wall_rows(found: list[list[str]]) -> list[str]:
    without = float(found[0][5])
    rows = []
    for name, ranks, _, mean, _, total, _, _, copies, show, shown in found:
        added = float(total) - without
        more = 100 * added / without
        cells = [name, ranks, f"{float(total):.2f} s", f"{more:.1f} %", f"{float(mean):.4f}", copies]
        cells += [show, f"{added + float(show):.2f} s"] if int(shown) else ["", ""]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def main(prefix: Path) -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}")
    load = os.getloadavg()[0]
    print(f"load of the last minute before it began: {load:.1f}\n")
    print(HEAD, flush=True)
    flags, missing = peers()
    steps = numbers("STEPS", "20")[0]
    counts = numbers("PARTICLES", "200000 2000000")
    with tempfile.TemporaryDirectory(dir=os.environ.get("STORES")) as name:
        folder = Path(name)
        program = compiled(prefix.resolve(), folder, flags)
        for particles in counts:
            for ranks in numbers("RANKS", "1 2 4"):
                for found in measured(program, folder, ranks, particles, steps, "0"):
                    print(row(found), flush=True)
        print(
            "\nOf the slowest rank; in all: with opening, computing and closing, everything "
            "durable. Copies: a step's time as a multiple of memcpy's. To show: one process reads a 1 % "
            "sample of a box of all steps, all columns, from the page cache; in brackets its "
            "records. adios2-no-mpi is PyPI's build: each rank writes alone.\n"
        )
        work = os.environ.get("WORK") or WORK
        print(f"A solver that computes {work} µs a particle and step, {counts[0]:,} particles:\n")
        print(WALL_HEAD, flush=True)
        for ranks in numbers("RANKS", "1 2"):
            found = measured(program, folder, ranks, counts[0], steps, work, *WALL)
            print("\n".join(wall_rows(found)), flush=True)
        print(
            "\nWhat is queued is written while the solver computes, on the same cores. Output and "
            "showing: what output added to the solver's time, and showing its sample thereafter."
        )
        missing += solvers.main(prefix.resolve(), folder)
    for peer in missing:
        print(f"\nNot measured, for it is not there: {peer}.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
