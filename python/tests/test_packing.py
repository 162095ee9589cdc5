"""What users install: package and command, the page and the plug-in in them."""

from __future__ import annotations

import os
import shutil
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
MATURIN = Path(sys.executable).parent / "maturin"

# A module that compiles in a second, for maturin to pack in place of the real one.
STAND_IN = {
    "Cargo.toml": """
[package]
name = "kubist-python"
version = "0.1.0"
edition = "2021"
[lib]
name = "_kubist"
crate-type = ["cdylib"]
[dependencies]
pyo3 = { path = "pyo3", features = ["abi3-py311"] }
[workspace]
""",
    "src/lib.rs": '#[unsafe(no_mangle)]\npub extern "C" fn PyInit__kubist() {}\n',
    "pyo3/Cargo.toml": """
[package]
name = "pyo3"
version = "0.30.0"
edition = "2021"
[features]
abi3 = []
abi3-py311 = ["abi3"]
""",
    "pyo3/src/lib.rs": "",
}

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
    """What is in the package's folder and under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "python/kubist"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("this is no checkout: nothing says which files belong to the package")
    names = listed.stdout.decode().split("\0")
    return [name.removeprefix("python/") for name in names if name]


def serves_the_page(command: Path, path: Path) -> None:
    kubist.create(path, {"x": [1.0]}, dimensions=["x"])
    with subprocess.Popen([command, "view", path], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            for name in ("index.html", "app.js", "first.js", "app.css"):
                with urllib.request.urlopen(url + name.removeprefix("index.html")) as page:
                    assert page.read() == (ROOT / "viewer" / "dist" / name).read_bytes(), name
        finally:
            server.terminate()


def test_nothing_of_the_package_is_ignored() -> None:
    """A file that is works here, and is missing in every clone and wheel."""
    here = {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py*")}
    here = {name for name in here if "__pycache__" not in name}
    assert here <= set(tracked()), here - set(tracked())


def test_the_command_carries_the_page(path: Path) -> None:
    serves_the_page(COMMAND, path)


def test_a_wheel_has_all_of_it(tmp_path: Path) -> None:
    """Packed as `make wheel` does, from what is under version control, and installed.

    Only the module is another one until it is installed: the real one takes minutes.
    """
    if not MATURIN.exists() or shutil.which("cargo") is None:
        pytest.skip("maturin, which packs the wheel, or cargo is not installed")
    source = tmp_path / "python"
    for name, text in STAND_IN.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    for name in ["pyproject.toml", ".gitignore", *tracked()]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "python" / name, source / name)
    data = tomllib.loads((source / "pyproject.toml").read_text())["tool"]["maturin"]["data"]
    # As in the Makefile.
    scripts = source / data / "scripts"
    assert f"python/{data}/scripts/kubist\n" in (ROOT / "Makefile").read_text()
    scripts.mkdir(parents=True)
    shutil.copy(COMMAND, scripts)
    command = [MATURIN, "build", "--offline", "--out", tmp_path, "--interpreter", sys.executable]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in {*NEEDED, *tracked()}:
        assert name in names, name
    place = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", place, wheel], check=True)
    shutil.copy(PACKAGE / "_kubist.abi3.so", place / "kubist")
    said = subprocess.run(
        [sys.executable, "-c", "import kubist.paraview as p; print(p.path())"],
        env=os.environ | {"PYTHONPATH": str(place)}, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.strip() == str(place / "kubist" / "paraview" / "KubistTable.py")
    serves_the_page(place / "bin" / "kubist", tmp_path / "t.kubist")
