"""Makes the images of `kubist plot` and of ParaView for docs, from the example's rows.

    python scripts/pictures.py

The command of `make build` writes docs/plot.png and docs/plot.gif. ParaView writes
examples/airway/airway.pvsm and docs/paraview.png with the built package, if pvpython and Xvfb are
installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AIRWAY = ROOT / "examples" / "airway"
DOCS = ROOT / "docs"
KUBIST = Path(sys.executable).parent / "kubist"
UNITS = "x=m,y=m,z=m,time=s,ux=m/s,uy=m/s,uz=m/s,diameter=m"

# From above, with the inlet below, without deposited droplets.
LOOK = ["--axes", "y,x", "--where", "NOT deposited", "--color", "ux"]
LOOK += ["--title", "Droplets in an airway", "--range", "0:5"]
PICTURES = {
    "plot.png": ["--size", "1200x800", "--box", "time=0.6"],
    "plot.gif": [
        "--size",
        "720x460",
        "--style",
        "theme=dark,colormap=inferno",
        "--animate",
        "time",
    ],
}


def kubist(*arguments: str | Path) -> None:
    subprocess.run([KUBIST, *map(str, arguments)], check=True)


def paraview(folder: Path) -> None:
    """Writes the state and its image; the table is below ``folder``, where the state expects it."""
    missing = [tool for tool in ("pvpython", "Xvfb") if shutil.which(tool) is None]
    if missing:
        print(f"{' and '.join(missing)} not installed: docs/paraview.png is not updated")
        return
    plugin = ROOT / "python" / "kubist" / "paraview" / "KubistTable.py"
    ready, told = os.pipe()
    screen = ["Xvfb", "-displayfd", str(told), "-screen", "0", "1400x900x24", "-noreset"]
    with subprocess.Popen([*screen, "-nolisten", "tcp"], pass_fds=[told]) as server:
        os.close(told)
        with os.fdopen(ready) as number:
            display = f":{number.readline().strip()}"
        try:
            state = AIRWAY / "airway.pvsm"
            for what in (["state", state], ["picture", state, DOCS / "paraview.png"]):
                subprocess.run(
                    ["pvpython", AIRWAY / "in_paraview.py", plugin, *what],
                    cwd=folder,
                    env=os.environ
                    | {"DISPLAY": display, "PYTHONPATH": str(plugin.parent / "debian12")},
                    check=True,
                )
        finally:
            server.terminate()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = folder / "demo" / "airway.kubist"
        table.parent.mkdir()
        steps = sorted((AIRWAY / "steps").glob("*.parquet"))
        dimensions = ["--dimensions", "x,y,z,time", "--identity", "pid,time", "--create", f"units={UNITS}"]
        kubist("ingest", table, *steps, *dimensions)
        for file, options in PICTURES.items():
            kubist("plot", table, *LOOK, *options, "-o", DOCS / file)
        paraview(folder)


if __name__ == "__main__":
    main()
