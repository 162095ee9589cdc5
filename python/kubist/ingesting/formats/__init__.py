"""The formats, and which of them a file is of."""

from __future__ import annotations

from pathlib import Path

from ..._errors import InvalidInput
from ..source import Format
from . import clouds, fits, hdf5, lammps, lidar, openfoam, openpmd, trajectory, vtk

# The first that matches is taken: a name that several could read stands at the more special one.
FORMATS: tuple[Format, ...] = (
    lidar.FORMAT,
    fits.FORMAT,
    clouds.PLY,
    clouds.XYZ,
    vtk.FORMAT,
    lammps.FORMAT,
    openfoam.FORMAT,
    hdf5.GADGET,
    hdf5.H5PART,
    hdf5.H5MD,
    openpmd.FORMAT,
    trajectory.FORMAT,
)
NAMES = [known.name for known in FORMATS]

NATIVE = (b"PAR1", b"ARROW1", b"PK\x03\x04", b"\xff\xff\xff\xff")


def of(path: Path, named: str | None, with_topology: bool) -> Format | None:
    """The format of a file; None for a folder that is of none.

    Raises:
        InvalidInput: It is of no known format.
    """
    if named is not None:
        return next(known for known in FORMATS if known.name == named)
    if with_topology:
        return trajectory.FORMAT
    head = b""
    if path.is_file():
        with path.open("rb") as opened:
            head = opened.read(4096)
        if not head:
            raise InvalidInput(f"{path}: the file is empty")
        if head.startswith(NATIVE) or path.suffix.lower() in (".csv", ".tsv"):
            raise InvalidInput(
                f"{path}: Parquet, Arrow, CSV and NPZ are read by the command, "
                f"`kubist ingest TABLE {path.name} --dimensions ...`; from Python give what "
                "pandas, Polars, pyarrow or NumPy reads to kubist.create()"
            )
    for known in FORMATS:
        if known.matches(path, head):
            return known
    if path.is_dir():
        return None
    raise InvalidInput(
        f"{path}: of no known format; name one of {', '.join(NAMES)} where you know better"
    )
