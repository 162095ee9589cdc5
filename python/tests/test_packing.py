"""What users install: package and command, the page and the plug-in in them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

import kubist

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "kubist"
COMMAND = Path(sys.executable).parent / "kubist"


def packed() -> list[str]:
    """What is in the package's folder and under version control: what a wheel takes."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "python/kubist"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("this is no checkout: nothing says which files belong to the package")
    names = listed.stdout.decode().split("\0")
    return [name.removeprefix("python/") for name in names if name]


NEEDED = [
    "kubist/__init__.py",
    "kubist/_kubist.pyi",
    "kubist/py.typed",
    "kubist/paraview/KubistTable.py",
    "kubist/paraview/__init__.py",
    "kubist/paraview/reading.py",
    "kubist/paraview/debian12/sitecustomize.py",
]


def test_the_package_is_whole() -> None:
    names = packed()
    for name in NEEDED:
        assert name in names
    # A module that is ignored works here, and is missing in every wheel.
    here = {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py*")}
    here = {name for name in here if "__pycache__" not in name}
    assert here <= set(names), here - set(names)


def test_a_wheel_takes_package_and_command() -> None:
    maturin = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["tool"]["maturin"]
    assert maturin["python-packages"] == ["kubist"] and maturin["module-name"] == "kubist._kubist"
    scripts = f"python/{maturin['data']}/scripts/kubist"
    recipe = (ROOT / "Makefile").read_text().partition("\nwheel:")[2].partition("\n\n")[0]
    assert f"target/release/kubist {scripts}" in recipe
    assert not {"include", "exclude"} & set(maturin), "then the list above is not all that counts"


def test_the_command_carries_the_page(path: Path) -> None:
    kubist.create(path, {"x": [1.0]}, dimensions=["x"])
    with subprocess.Popen([COMMAND, "view", path], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            for name in ("index.html", "app.js", "first.js", "app.css"):
                with urllib.request.urlopen(url + name.removeprefix("index.html")) as page:
                    assert page.read() == (ROOT / "viewer" / "dist" / name).read_bytes(), name
        finally:
            server.terminate()


def test_the_wheel() -> None:
    """The one that make wheel made last."""
    wheels = sorted((ROOT / "dist").glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    if not wheels:
        pytest.skip("no wheel here: make wheel compiles for some minutes")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        names = wheel.namelist()
        (command,) = [name for name in names if name.endswith(".data/scripts/kubist")]
        page = (ROOT / "viewer" / "dist" / "app.js").read_bytes()
        assert page in wheel.read(command), "the page is in the command"
        assert wheel.getinfo(command).external_attr >> 16 & 0o111, "it can be run"
    for name in [*packed(), "kubist/_kubist.abi3.so"]:
        assert name in names
