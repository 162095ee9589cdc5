"""Ingests files of VTK: each point of a data set becomes a row, and each file one step.

The columns are the position, the arrays of point data, and each value of field data that is the
same for all points. The ingest reports that cells and their data are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import Options, Source, State, Step, arrow_table, slices, split_columns, unit

if TYPE_CHECKING:
    import pyarrow as pa

READERS = {
    ".vtk": "vtkGenericDataObjectReader",
    ".vtu": "vtkXMLUnstructuredGridReader",
    ".vtp": "vtkXMLPolyDataReader",
    ".vti": "vtkXMLImageDataReader",
    ".vtr": "vtkXMLRectilinearGridReader",
    ".vts": "vtkXMLStructuredGridReader",
    ".pvtu": "vtkXMLPUnstructuredGridReader",
    ".pvtp": "vtkXMLPPolyDataReader",
}
"""VTK's reader classes, by file suffix."""
ENDINGS = tuple(READERS)
KINDS = ("Scalars", "Vectors", "Normals", "Tensors", "TCoords", "ColorScalars", "Fields")
"""The kinds of arrays in the legacy format. By default, its reader reads one array of each kind."""
TIMES = ("TimeValue", "TIME", "time")
"""Names of field data that give the time of a file."""
IDENTITIES = ("id", "ID", "ids", "ParticleId", "particle_id", "GlobalIds", "vtkOriginalPointIds")
"""Names of point data that identify a particle. The first one in a file is the identity column."""
VECTOR = ("x", "y", "z")
POINTS = (1, 2)
"""Cell types without an extent (VTK_VERTEX, VTK_POLY_VERTEX): they add nothing to the points."""


def look(path: Path, options: Options) -> Source:
    """Opens a file and returns its columns and its only step.

    The file is read twice: here for the schema, and by the step for the rows. Files whose names
    differ only in the number at the end, such as ``run_001.vtu``, belong to one series.
    """
    import pyarrow as pa

    mesh = _read(path)
    left_out: dict[str, str] = {}
    time = _time(mesh)
    of_step = _values_of_step(mesh, left_out)
    columns = _columns(mesh, slice(0, 0), of_step, left_out)
    rows = mesh.n_points
    _leave_out_cells(mesh, left_out)
    fields = list(columns.schema)
    if time is not None and "time" not in columns.column_names:
        fields.append(pa.field("time", pa.float64()))
    del mesh

    def read(_: State) -> Iterator[pa.Table]:
        found = _read(path)
        for part in slices(found.n_points):
            yield _columns(found, part, of_step, {})

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
        left_out=left_out,
    )


def _read(path: Path) -> Any:
    """Returns the data set of a file.

    VTK only logs errors, such as an unfinished file or a missing piece of a `.pvtu`, so this
    function raises the first error in the log.

    Raises:
        InvalidInput: VTK logged an error, or the file is no single data set.
    """
    import pyvista
    import vtk

    before, verbosity = vtk.vtkOutputWindow.GetInstance(), vtk.vtkLogger.GetCurrentVerbosityCutoff()
    window = vtk.vtkStringOutputWindow()
    vtk.vtkOutputWindow.SetInstance(window)
    vtk.vtkLogger.SetStderrVerbosity(vtk.vtkLogger.VERBOSITY_OFF)
    try:
        reader = getattr(vtk, READERS[path.suffix.lower()])()
        if path.suffix.lower() == ".vtk":
            for kind in KINDS:
                getattr(reader, f"ReadAll{kind}On")()
        reader.SetFileName(str(path))
        reader.Update()
        found = reader.GetOutputDataObject(0)
        said = (window.GetOutput() or "").splitlines()
    finally:
        vtk.vtkOutputWindow.SetInstance(before)
        vtk.vtkLogger.SetStderrVerbosity(verbosity)
    # VTK logs an error on two lines: `ERROR: In <file>, line <n>`, and `<class> (<id>): <message>`.
    at = next((i for i, line in enumerate(said) if line.startswith("ERROR")), None)
    if at is not None:
        raise InvalidInput(f"{path}: {said[min(at + 1, len(said) - 1)].partition('): ')[2]}")
    if found is None or not found.IsA("vtkDataSet"):
        raise InvalidInput(f"{path}: it is of several blocks or a table: give files of points")
    return pyvista.wrap(found)


def _time(mesh: Any) -> float | None:
    for name in TIMES:
        if name in mesh.field_data and len(mesh.field_data[name]) == 1:
            return float(mesh.field_data[name][0])
    return None


BITS = "_PYVISTA_BITARRAY_POINT_"
"""Field data in which PyVista keeps the names of arrays of truths, which it stores as bytes."""


def _values_of_step(mesh: Any, left_out: dict[str, str]) -> dict[str, Any]:
    """Returns field data with a single value, which becomes a column of equal values.

    Adds other field data, with reasons, to ``left_out``.
    """
    found = {}
    for name in mesh.field_data:
        values = mesh.field_data[name]
        if name.startswith(BITS[:-6]):
            continue
        if values.size != 1:
            left_out[f"field data {name}"] = f"it has {values.size:,} values, a row has one"
        elif name not in TIMES:
            found[name] = values.reshape(-1)[0]
    return found


def _leave_out_cells(mesh: Any, left_out: dict[str, str]) -> None:
    import vtk

    """Adds the cells, unless they are only points, and their data to ``left_out``."""
    why = "rows are the points"
    if mesh.IsA("vtkUnstructuredGrid") or mesh.IsA("vtkPolyData"):
        kinds = vtk.vtkCellTypes()
        # Older versions of VTK have no GetDistinctCellTypes.
        getattr(mesh, "GetDistinctCellTypes", mesh.GetCellTypes)(kinds)
        if not {kinds.GetCellType(i) for i in range(kinds.GetNumberOfTypes())} <= set(POINTS):
            left_out["cells"] = why
    for name in mesh.cell_data:
        left_out[f"cell data {name}"] = why


def _unit(array: Any) -> str | None:
    """Returns the unit of an array, which VTK stores under the key UNITS_LABEL, or None."""
    import vtk

    key = vtk.vtkDataArray.UNITS_LABEL()
    about = array.GetInformation() if array is not None and array.HasInformation() else None
    return about.Get(key) if about is not None and about.Has(key) else None


def _columns(mesh: Any, part: slice, of_step: dict[str, Any], left_out: dict[str, str]) -> pa.Table:
    """Returns the columns of the points, with units.

    A vector becomes one column per component. Adds arrays of unsupported types to ``left_out``.
    """
    import numpy as np
    import pyarrow as pa

    columns: dict[str, Any] = split_columns("point", mesh.points[part], VECTOR)
    count = len(columns["x"])
    has_points = mesh.IsA("vtkPointSet") and mesh.GetPoints() is not None
    units = dict.fromkeys(VECTOR, _unit(mesh.GetPoints().GetData()) if has_points else None)
    truths = set(mesh.field_data[BITS]) if BITS in mesh.field_data else set()
    for name in mesh.point_data:
        values = mesh.point_data[name][part]
        if name in truths:
            values = values.astype(bool)
        if values.dtype.kind not in "iufbU":
            left_out[f"point data {name}"] = f"its type {values.dtype} has no place in a table"
            continue
        new = _apart(columns, split_columns(name, values))
        units |= dict.fromkeys(new, _unit(mesh.GetPointData().GetAbstractArray(name)))
        columns |= new
    for name, value in of_step.items():
        new = _apart(columns, {name: np.full(count, value)})
        units |= dict.fromkeys(new, _unit(mesh.GetFieldData().GetAbstractArray(name)))
        columns |= new
    table = arrow_table(columns)
    fields = [unit(field, units.get(field.name)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _apart(taken: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """Adds ``_2`` to names that another column has."""
    return {f"{name}_2" if name in taken else name: values for name, values in columns.items()}
