"""Droplets in an airway, viewed while they are computed: `make demo-insitu`.

A solver runs on two ranks and writes its droplets into a table. After the first step, `kubist view`
shows the table, and the page follows the run. At the end it prints the cost of the output, and
draws a plot.

    python examples/insitu/demo.py PREFIX [--kubist COMMAND] [--no-browser] [--short]
                                   [--output FOLDER]

PREFIX has libkubist (`make install`). The solver is OpenFOAM (pimpleFoam, with the case of airway/)
if it and the adapter are installed (`make openfoam`; OPENFOAM is the folder), otherwise fork.c.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import webbrowser
from pathlib import Path

import airway

import kubist

ROOT = airway.HERE.parents[1]
RANKS = 2
STALL = re.compile(
    r"(kubistCloud droplets|fork): (\d+) steps to .*; the slowest rank waited (\S+) s of (\S+) s, "
    r"(\S+) s a step, (\S+) s at worst"
)


class Solver:
    """A running program, and the table that it writes."""

    def __init__(self, command: list[object], folder: Path, env: dict[str, str]) -> None:
        self.log = folder / "log.solver"
        self.table = folder / "airway.kubist"
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                list(map(str, command)), cwd=folder, env=env, stdout=output, stderr=output
            )

    def runs(self) -> bool:
        status = self.process.poll()
        if status:
            raise SystemExit(f"the solver ended with {status}:\n{self.log.read_text()[-4000:]}")
        return status is None


def openfoam(prefix: Path, adapter: Path, folder: Path, short: bool) -> Solver:
    sizes = {"across": 6, "along": 30, "endTime": 0.06, "parcels": 20_000} if short else {}
    env = airway.environment(adapter, prefix)
    case = airway.copied(folder / "case", **sizes)
    print("OpenFOAM: a mesh, in two parts ...", flush=True)
    airway.run(case, "blockMesh", env)
    airway.decompose(case, RANKS, env)
    return Solver(airway.command("pimpleFoam", RANKS), case, env)


def fork(prefix: Path, folder: Path, short: bool) -> Solver:
    program = folder / "fork"
    command = ["mpicc.openmpi", "-std=c11", "-O2", airway.HERE / "fork.c", "-o", program]
    command += [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    subprocess.run([*command, "-lm"], check=True)
    sizes = (6, 200) if short else (60, 500)
    started = ["mpirun.openmpi", "-n", RANKS, program, "airway.kubist", *sizes]
    return Solver(started, folder, os.environ | airway.MPI)


def opened(solver: Solver) -> kubist.Table:
    """The table, once one of its steps is complete."""
    while True:
        runs = solver.runs()
        try:
            table = kubist.open(solver.table)
            if table.snapshot().complete_steps():
                return table
        except kubist.NotATable:
            pass
        if not runs:
            raise SystemExit(f"the solver wrote nothing:\n{solver.log.read_text()[-4000:]}")
        time.sleep(0.2)


def followed(solver: Solver, table: kubist.Table) -> None:
    seen = 0
    while True:
        runs = solver.runs()
        steps = table.snapshot().complete_steps()
        last = max(steps, default=0)
        if last > seen:
            seen = last
            lying = table.estimate("share(active = 0)", steps=last, error="0.01 abs")
            print(
                f"  step {last:4d}: {100 * lying.value:4.1f} % of the droplets lie on walls "
                f"(to 1 %); {len(table):11,} records in the table",
                flush=True,
            )
        if not runs:
            return
        time.sleep(1.0)


def size_of(folder: Path) -> tuple[int, int]:
    files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return sum(files), len(files)


def figures(solver: Solver, table: kubist.Table) -> None:
    log = solver.log.read_text()
    found = STALL.search(log)
    if found is None:
        raise SystemExit(f"the solver reported no waiting time:\n{log[-4000:]}")
    steps, waited, wall, each, worst = int(found[2]), *map(float, found.groups()[2:])
    size, files = size_of(solver.table)
    rows = len(table)
    print(
        f"\n{rows:,} records in {steps} steps, {size / 2**20:,.1f} MiB "
        f"({size / rows:.1f} bytes a record) in {files} files\n"
        f"the solver waited {1000 * each:.1f} ms a step, {1000 * worst:.1f} ms at worst: "
        f"{waited:.2f} s of {wall:.1f} s, {100 * waited / wall:.2f} % of its time",
        flush=True,
    )


def picture(command: str, solver: Solver, table: kubist.Table, file: Path) -> None:
    """A plot of the droplets of the last step, coloured by size."""
    last = table.query(steps=max(table.snapshot().complete_steps()), columns=["time"], limit=1)
    when = last.to_arrow()["time"][0].as_py()
    options = ["--axes", "x,y", "--color", "d", "--style", "colormap=turbo,theme=dark"]
    options += ["--where", f"time >= {when!r}", "--title", f"Droplets at {when:g} s"]
    subprocess.run(
        [command, "plot", solver.table, *options, "-o", file], check=True, stdout=subprocess.DEVNULL
    )
    print(f"picture: {file}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--kubist", default=shutil.which("kubist") or "kubist")
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--output", type=Path, default=ROOT / "demo/insitu")
    options = parser.parse_args()
    prefix, folder = options.prefix.resolve(), options.output.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    adapter = Path(os.environ.get("OPENFOAM") or ROOT / "target/openfoam").resolve()
    reason = airway.missing(adapter)
    if reason is None:
        solver = openfoam(prefix, adapter, folder, options.short)
    else:
        print(f"Without OpenFOAM, for {reason}: the droplets of fork.c.", flush=True)
        solver = fork(prefix, folder, options.short)
    view = None
    try:
        print(f"The solver runs on {RANKS} ranks ...", flush=True)
        table = opened(solver)
        command = [options.kubist, "view", str(solver.table)]
        view = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        address = view.stdout.readline().strip()
        print(f"View it while it runs: {address}", flush=True)
        if not options.no_browser:
            webbrowser.open(address)
        followed(solver, table)
        figures(solver, table)
        picture(options.kubist, solver, table, folder / "airway.png")
        if not options.no_browser:
            input("Press Enter to stop the page. ")
    finally:
        for process in (view, solver.process):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    sys.exit(main())
