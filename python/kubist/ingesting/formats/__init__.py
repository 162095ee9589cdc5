"""The formats, and the detection of a file's format."""

from __future__ import annotations

from pathlib import Path

from ..._errors import InvalidInput
from ..source import Format, begins, ends
from . import (
    archives,
    fits,
    gadget,
    gadget_binary,
    grids,
    h5md,
    hats,
    hdf5,
    lammps,
    lidar,
    native,
    openfoam,
    openpmd,
    ply,
    trajectory,
    vtk,
    xyz,
)

# Name and title; optional part of the package and library; test of a file, and its reader. The
# first match decides, so a format comes before more general formats of the same files.
FORMATS: tuple[Format, ...] = (
    Format("parquet", "Parquet", "arrow", "pyarrow", begins(b"PAR1"), native.look("parquet")),
    Format("arrow", "Arrow", "arrow", "pyarrow", begins(*native.ARROW), native.look("arrow")),
    Format("npz", "NPZ", "arrow", "pyarrow", begins(b"PK\x03\x04"), native.look("npz")),
    Format("las", "LAS", "lidar", "laspy", begins(b"LASF"), lidar.look),
    Format("fits", "FITS", "astro", "astropy", fits.matches, fits.look),
    Format("votable", "VOTable", "astro", "astropy", archives.is_votable, archives.look_at_votable),
    Format("ecsv", "ECSV", "astro", "astropy", archives.is_ecsv, archives.look_at_ecsv),
    Format("ipac", "an IPAC table", "astro", "astropy", archives.is_ipac, archives.look_at_ipac),
    Format("hats", "HATS", "arrow", "pyarrow", hats.matches, hats.look),
    Format("ply", "PLY", "lidar", "plyfile", begins(b"ply\n", b"ply\r"), ply.look),
    Format("xyz", "XYZ", "md", "ase", ends(".xyz", ".extxyz"), xyz.look),
    Format("vtk", "VTK", "vtk", "pyvista", ends(*vtk.ENDINGS), vtk.look),
    Format("lammps", "a LAMMPS dump", "arrow", "pyarrow", lammps.matches, lammps.look),
    Format("openfoam", "OpenFOAM", "arrow", "pyarrow", openfoam.matches, openfoam.look),
    Format("gadget", "HDF5", "hdf5", "h5py", gadget.is_gadget, gadget.look),
    Format(
        "gadget-groups", "HDF5", "hdf5", "h5py", gadget.is_catalogue, gadget.look_at_catalogue
    ),
    Format("gadget-binary", "GADGET", "arrow", "pyarrow", gadget_binary.matches, gadget_binary.look),
    Format("h5part", "HDF5", "hdf5", "h5py", hdf5.is_h5part, hdf5.look_at_h5part),
    Format("h5md", "HDF5", "hdf5", "h5py", h5md.is_h5md, h5md.look),
    Format("openpmd", "openPMD", "openpmd", "openpmd_api", openpmd.matches, openpmd.look),
    # HDF5 files of no other format.
    Format("hdf5", "HDF5", "hdf5", "h5py", begins(hdf5.MAGIC), grids.look),
    Format("netcdf3", "netCDF", "arrow", "pyarrow", begins(*grids.CLASSIC), grids.look),
    Format("npy", "NumPy's array", "arrow", "pyarrow", begins(b"\x93NUMPY"), grids.look),
    TRAJECTORY := Format(
        "trajectory", "a trajectory", "md", "MDAnalysis", ends(*trajectory.ENDINGS), trajectory.look
    ),
    # Last, because a name such as run.txt says little.
    Format("csv", "CSV", "arrow", "pyarrow", native.is_text, native.look("csv")),
)
NAMES = [known.name for known in FORMATS]


def of(path: Path, named: str | None, with_topology: bool) -> Format | None:
    """The format of a file; None for a folder of no format.

    Raises:
        InvalidInput: The format of the file is unknown.
    """
    if named is not None:
        return next(known for known in FORMATS if known.name == named)
    head = b""
    if path.is_file():
        with path.open("rb") as opened:
            head = opened.read(4096)
        if not head:
            raise InvalidInput(f"{path}: the file is empty")
    if with_topology:
        return TRAJECTORY
    for known in FORMATS:
        if known.matches(path, head):
            return known
    if path.is_dir():
        return None
    raise InvalidInput(
        f"{path}: of no known format; name one of {', '.join(NAMES)} where you know better"
    )
