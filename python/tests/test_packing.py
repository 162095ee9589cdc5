"""The installed package and command, with the page and the plug-in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

import kubist

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "kubist"
COMMAND = Path(sys.executable).parent / "kubist"
NEEDED = [
    "kubist/__init__.py",
    "kubist/_kubist.abi3.so",
    "kubist/_kubist.pyi",
    "kubist/py.typed",
    "kubist/paraview/KubistTable.py",
    "kubist/paraview/__init__.py",
    "kubist/paraview/reading.py",
    "kubist/paraview/debian12/sitecustomize.py",
]


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "python/kubist"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("this is no checkout: nothing says which files belong to the package")
    names = listed.stdout.decode().split("\0")
    return [name.removeprefix("python/") for name in names if name]


def serves_the_page(command: Path, path: Path, env: dict[str, str] | None = None) -> None:
    kubist.create(path, {"x": [1.0]}, dimensions=["x"])
    view = [command, "view", path]
    with subprocess.Popen(view, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            for name in ("index.html", "app.js", "first.js", "app.css"):
                with urllib.request.urlopen(url + name.removeprefix("index.html")) as page:
                    assert page.read() == (ROOT / "viewer" / "dist" / name).read_bytes(), name
        finally:
            server.terminate()
    assert server.returncode == 0


def test_nothing_of_the_package_is_ignored() -> None:
    """An untracked file works here, but is missing in clones and wheels."""
    here = {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py*")}
    here = {name for name in here if "__pycache__" not in name}
    assert here <= set(tracked()), here - set(tracked())


def test_the_command_carries_the_page(path: Path) -> None:
    serves_the_page(COMMAND, path)


def test_a_wheel_has_all_of_it(tmp_path: Path) -> None:
    """Packed like `make wheel` from the existing build, and installed."""
    profiles = {"release": "release", "dev": "debug"}
    built = [name for name, at in profiles.items() if (ROOT / "target" / at / "kubist").exists()]
    if not built or shutil.which("cargo") is None:
        pytest.skip("cargo, or what it compiles, is not here")
    pip = [sys.executable, "-m", "pip"]
    command = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    environment = os.environ | {"KUBIST_PROFILE": built[0], "CARGO_NET_OFFLINE": "true"}
    done = subprocess.run(
        [*command, "--wheel-dir", tmp_path, ROOT / "python"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("kubist-*-cp311-abi3-linux_*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in {*NEEDED, *tracked()}:
        assert name in names, name
    place = tmp_path / "installed"
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", "--target", place, wheel]
    subprocess.run(install, check=True)
    # The module contains the command, so the engine is in the wheel once.
    assert wheel.stat().st_size < 30e6 or built[0] == "dev"
    command, env = place / "bin" / "kubist", os.environ | {"PYTHONPATH": str(place)}

    def done_by(command: Path, *arguments: object) -> tuple[int, str, str]:
        words = [str(command), *map(str, arguments)]
        ran = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout, ran.stderr

    plug_in = str(place / "kubist" / "paraview" / "KubistTable.py")
    assert done_by(command, "paraview-path") == (0, f"{plug_in}\n", "")
    for arguments in (["--help"], ["info", tmp_path / "nope"], ["query"]):
        assert done_by(command, *arguments) == done_by(COMMAND, *arguments)
    serves_the_page(command, tmp_path / "t.kubist", env)
