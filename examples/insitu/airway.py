"""Droplets in the first fork of an airway, which OpenFOAM computes and writes into a table.

The case is the folder airway/, with its parameters in system/parameters. `copied` copies the case
with other values, and `run` runs a program of OpenFOAM in it, on one or several ranks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ("blockMesh", "decomposePar", "potentialFoam", "pimpleFoam")
LIBRARY = "libkubistOpenFOAM.so"
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}


def missing(adapter: Path) -> str | None:
    """The reason why the case cannot run; ``adapter`` is the folder of debian.sh."""
    for program in (*PROGRAMS, "mpirun.openmpi"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if not (adapter / "lib" / LIBRARY).exists():
        return f"{adapter / 'lib' / LIBRARY} is not built (integrations/openfoam)"
    return None


def environment(adapter: Path, prefix: Path) -> dict[str, str]:
    """The environment of OpenFOAM's programs; ``prefix`` has libkubist."""
    paths = [str(adapter / "lib"), str(prefix / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {
        **os.environ,
        **MPI,
        # Debian's package sets it only in its shell settings.
        "WM_PROJECT_DIR": os.environ.get("WM_PROJECT_DIR", "/usr/share/openfoam"),
        "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
    }


def copied(folder: Path, **parameters: object) -> Path:
    shutil.copytree(HERE / "airway", folder)
    choose(folder, **parameters)
    return folder


def choose(case: Path, **parameters: object) -> None:
    file = case / "system/parameters"
    text = file.read_text()
    for name, value in parameters.items():
        text, replaced = re.subn(rf"(?m)^{name}\s.*;$", f"{name} {value};", text)
        if replaced != 1:
            raise ValueError(f"{file}: there is no {name}")
    file.write_text(text)


def decompose(case: Path, ranks: int, env: dict[str, str]) -> None:
    file = case / "system/decomposeParDict"
    text = re.sub(r"numberOfSubdomains \d+", f"numberOfSubdomains {ranks}", file.read_text())
    file.write_text(re.sub(r"n \(\d+ \d+ \d+\)", f"n (1 {ranks} 1)", text))
    run(case, "decomposePar", env)


def command(program: str, ranks: int) -> list[str]:
    """Without mpirun for a single process."""
    if ranks == 1:
        return [program]
    return ["mpirun.openmpi", "-n", str(ranks), program, "-parallel"]


def run(case: Path, program: str, env: dict[str, str], ranks: int = 1) -> str:
    """The output of the program, also stored in the case."""
    done = subprocess.run(
        command(program, ranks),
        cwd=case,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )
    (case / f"log.{program}").write_text(done.stdout)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout
