"""Tags the wheel in dist/ with the systems that it runs on, and tests it without Rust.

`auditwheel` tags the wheel with the oldest C library that the module runs with (such as
manylinux_2_34). The first steps of README.md and the command then run in a new environment with
only the wheel and NumPy.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


def main(plain: Path) -> None:
    tool = [sys.executable, "-m", "auditwheel"]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    }
    repaired = subprocess.run(
        [*tool, "repair", "--wheel-dir", str(DIST), str(plain)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if repaired.returncode == 0:
        (wheel,) = sorted(
            DIST.glob("*manylinux*.whl"), key=lambda file: file.stat().st_mtime
        )[-1:]
    else:
        # Such as a system without the GNU C library: the wheel still runs here.
        print(repaired.stderr.strip(), file=sys.stderr)
        wheel = DIST / plain.name
        wheel.write_bytes(plain.read_bytes())
    attempt(wheel)
    print(wheel.relative_to(ROOT))


def attempt(wheel: Path) -> None:
    """Installs it into an empty environment, and runs the first steps of README."""
    (steps,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
        python = place / "venv" / "bin" / "python"
        pip = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, str(wheel), "numpy"], check=True)
        # Without cargo and this checkout on the paths.
        bare = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": folder}
        subprocess.run([str(python), "-c", steps], cwd=place, env=bare, check=True)
        command = str(python.with_name("kubist"))
        subprocess.run(
            [command, "info", "drops.kubist"], cwd=place, env=bare, check=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
