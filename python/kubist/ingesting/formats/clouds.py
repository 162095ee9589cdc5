"""PLY through plyfile, XYZ through ASE: points of meshes, scans and molecules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import Options, Source, State, Step, arrow_table, slices, unit

if TYPE_CHECKING:
    import pyarrow as pa


def look_at_ply(path: Path, options: Options) -> Source:
    import pyarrow as pa
    from plyfile import PlyData

    data = PlyData.read(path, mmap="r")
    if "vertex" not in data:
        raise ValueError(f"{path}: it has no element 'vertex'")
    vertices = data["vertex"]
    plain = [p.name for p in vertices.properties if "list" not in type(p).__name__.lower()]
    fields = [
        pa.field(name, pa.from_numpy_dtype(vertices.ply_property(name).dtype("=")))
        for name in plain
    ]

    def read(_: State) -> Iterator[pa.Table]:
        found = PlyData.read(path, mmap="r")["vertex"]
        for part in slices(len(found)):
            yield arrow_table({name: found[name][part] for name in plain})

    comments = list(data.comments)
    return Source(
        path=path,
        format="ply",
        schema=pa.schema(fields),
        steps=lambda _: [Step("vertex", read, part=path.name)],
        dimensions=[name for name in "xyz" if name in plain],
        metadata={"ply": {"comments": comments}} if comments else {},
        rows=len(vertices),
    )


def look_at_xyz(path: Path, options: Options) -> Source:
    """Frames one behind the other; their atoms may change. Columns are those of the first."""
    import pyarrow as pa

    first = next(_frames(path))
    columns = _columns(first, 0)
    units = dict.fromkeys(("x", "y", "z"), "Angstrom")
    fields = [unit(f, units.get(f.name)) for f in columns.schema]

    def steps(_: Any) -> Iterator[Step]:
        for number, atoms in enumerate(_frames(path)):
            yield Step(str(number), _once(_columns(atoms, number)))

    return Source(
        path=path,
        format="xyz",
        schema=pa.schema(fields),
        steps=steps,
        dimensions=("frame", "x", "y", "z"),
        identity=("atom",),
        grows=True,
    )


def _once(table: pa.Table) -> Any:
    return lambda _: iter([table])


def _frames(path: Path) -> Iterator[Any]:
    from ase.io import iread

    number = 0
    try:
        for atoms in iread(str(path), index=":", format="extxyz"):
            yield atoms
            number += 1
    except KeyError as error:
        raise InvalidInput(
            f"{path}: frame {number}: {error} is no element; with a topology MDAnalysis reads "
            "atoms of any name"
        ) from error
    except (OSError, ValueError, IndexError) as error:
        raise InvalidInput(f"{path}: frame {number}: {error}") from error


def _columns(atoms: Any, number: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    count = len(atoms)
    positions = atoms.positions
    columns: dict[str, Any] = {
        "atom": np.arange(count, dtype=np.int32),
        "frame": np.full(count, number, np.int32),
        "element": pa.array(atoms.get_chemical_symbols()),
        **{name: positions[:, axis] for axis, name in enumerate("xyz")},
    }
    time = atoms.info.get("time", atoms.info.get("Time"))
    if isinstance(time, int | float | np.number):
        columns["time"] = np.full(count, float(time))
    for name, values in atoms.arrays.items():
        if name in ("numbers", "positions") or values.dtype.kind not in "iufb":
            continue
        if values.ndim == 1:
            columns[name] = values
        elif values.ndim == 2:
            for axis in range(values.shape[1]):
                columns[f"{name}_{axis}"] = values[:, axis]
    return arrow_table(columns)
