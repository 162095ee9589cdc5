"""VTK, VTU, VTP: the points of a data set and what is known at each, through PyVista."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import Options, Source, State, Step, arrow_table, slices, split_columns

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".vtk", ".vtu", ".vtp", ".pvtu", ".pvtp", ".vti", ".vtr", ".vts")
TIMES = ("TimeValue", "TIME", "time")
IDENTITIES = ("id", "ID", "ids", "ParticleId", "particle_id", "GlobalIds", "vtkOriginalPointIds")
VECTOR = ("x", "y", "z")


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    mesh = _read(path)
    columns = _columns(mesh, slice(0, 0))
    time = _time(mesh)
    rows = mesh.n_points
    fields = list(columns.schema)
    if time is not None and "time" not in columns.column_names:
        fields.append(pa.field("time", pa.float64()))
    del mesh

    def read(_: State) -> Iterator[pa.Table]:
        found = _read(path)
        for part in slices(found.n_points):
            yield _columns(found, part)

    identity = [name for name in IDENTITIES if name in columns.column_names][:1]
    return Source(
        path=path,
        format="vtk",
        schema=pa.schema(fields),
        steps=lambda _: [Step("points", read, time, path.stem.rstrip("0123456789._-"))],
        dimensions=[*VECTOR, *(["time"] if time is not None else [])],
        identity=identity and [*identity, *(["time"] if time is not None else [])],
        rows=rows,
        times=() if time is None else (time,),
    )


def _read(path: Path) -> Any:
    """What VTK's readers only log is an error here: an unfinished file must not be half a step."""
    import pyvista
    import vtk

    before = vtk.vtkOutputWindow.GetInstance()
    window = vtk.vtkStringOutputWindow()
    vtk.vtkOutputWindow.SetInstance(window)
    try:
        mesh = pyvista.read(path)
        said = (window.GetOutput() or "").splitlines()
    finally:
        vtk.vtkOutputWindow.SetInstance(before)
    messages = [line.strip() for line in said if "rror" in line or "ERR" in line]
    if messages:
        raise ValueError(f"{path}: {messages[-1]}")
    if isinstance(mesh, pyvista.MultiBlock):
        raise ValueError(f"{path}: it is of several blocks: give the files of the blocks")
    return mesh


def _time(mesh: Any) -> float | None:
    for name in TIMES:
        if name in mesh.field_data and len(mesh.field_data[name]) == 1:
            return float(mesh.field_data[name][0])
    return None


def _columns(mesh: Any, part: slice) -> pa.Table:
    columns: dict[str, Any] = split_columns("point", mesh.points[part], VECTOR)
    for name in mesh.point_data:
        values = mesh.point_data[name][part]
        for column, flat in split_columns(name, values).items():
            if column not in columns:
                columns[column] = flat
    return arrow_table(columns)
