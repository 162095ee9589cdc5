"""Conversion of results to xarray, GeoPandas, astropy, PyVista and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import InvalidInput
from ._libraries import need
from ._shown import counted

if TYPE_CHECKING:
    import astropy.table
    import geopandas
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyvista
    import xarray

    from . import _kubist

    Array = np.ndarray[Any, Any]


def unit_of(field: pa.Field) -> str | None:
    said = (field.metadata or {}).get(b"unit")
    return None if said is None else said.decode("utf-8", "replace")


def unmasked(masked: Any) -> Array:
    """The array without its mask if NaN or NaT can represent null unambiguously."""
    import numpy as np

    values, mask = np.ma.getdata(masked), np.ma.getmaskarray(masked)
    if values.dtype.kind not in "fmM" or np.isnan(values[~mask]).any():
        array: Array = masked
        return array
    nothing = np.array("NaT" if values.dtype.kind in "mM" else "nan", values.dtype)
    filled: Array = np.where(mask, nothing, values)
    return filled


def floats(values: Array) -> Array:
    """The values, with NaN for null."""
    import numpy as np

    if isinstance(values, np.ma.MaskedArray):
        kind = values.dtype if values.dtype.kind == "f" else np.float64
        filled: Array = np.array(values.data, kind)
        filled[values.mask] = np.nan
        return filled
    return values


def plain(column: pa.ChunkedArray, name: str, what: str) -> Array:
    """A column as an array without a mask; null becomes NaN in numbers, NaT in times, else None.

    Raises
    ------
    InvalidInput
        An integer next to a null is not exact as a float.
    """
    import pyarrow as pa

    if column.null_count and pa.types.is_integer(column.type):
        try:
            # Raises for integers that a float cannot represent.
            column = column.cast(pa.float64())
        except pa.ArrowInvalid:
            raise InvalidInput(
                f"{what}: column {name} has integers beyond 2^53 and nulls, which become floats "
                "there: leave out the nulls (where), or the column"
            ) from None
    values: Array = column.to_numpy()
    return values


def frame(whole: _kubist.Whole) -> pd.DataFrame:
    """The frame of a whole result; numbers without nulls are not copied."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    schema = pa.schema(whole.schema())
    names: list[str] = schema.names
    numbers = set[int]()
    if len(set(names)) == len(names):
        kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
        numbers = {
            place
            for place, field in enumerate(schema)
            if any(is_kind(field.type) for is_kind in kinds) and not whole.has_nulls(place)
        }
    others = [place for place in range(len(names)) if place not in numbers]
    batches = whole.batches(others)
    rest = to_pandas(pa.RecordBatchReader.from_stream(batches).read_all(), {})
    if not numbers:
        return rest
    columns = {
        name: np.asarray(whole.column(place)[0]) if place in numbers else rest[name]
        for place, name in enumerate(names)
    }
    return pd.DataFrame(columns, index=pd.RangeIndex(whole.rows()), copy=False)


def to_pandas(table: pa.Table, options: Mapping[str, Any]) -> pd.DataFrame:
    """The frame, with nullable types where the usual types are not exact."""
    import pandas as pd

    names = table.column_names
    wanted: dict[str, Any] = {}
    if "types_mapper" not in options and len(set(names)) == len(names):
        wanted = {name: kind for name in names if (kind := _nullable(table.column(name)))}
    if not wanted:
        frame: pd.DataFrame = table.to_pandas(**options)
        return frame
    rest = table.drop_columns(list(wanted)).to_pandas(**options)
    columns = {}
    for name in names:
        kind = wanted.get(name)
        if kind is None:
            columns[name] = rest[name]
        else:
            columns[name] = table.column(name).to_pandas(types_mapper=lambda _, kind=kind: kind)
    return pd.DataFrame(columns, index=rest.index, copy=False)


def _nullable(column: pa.ChunkedArray) -> Any:
    """The pandas type that distinguishes null from all values; None: the usual type does."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if not column.null_count:
        return None
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    if pa.types.is_integer(kind):
        return pd.array([], dtype=str(kind).capitalize().replace("Ui", "UI")).dtype
    if pa.types.is_floating(kind) and pc.any(pc.is_nan(column)).as_py():
        # pandas' own nullable floats treat NaN as null.
        return pd.ArrowDtype(kind)
    return None


def grid(rows: dict[str, Array], axes: Sequence[str], what: str) -> dict[str, Array]:
    """Columns as arrays over the distinct values of the axes.

    ``values[i, j]`` belongs to value i of the first axis and value j of the second.

    Raises
    ------
    InvalidInput
        A combination of axis values, named in the message, does not have exactly one row.
    """
    numpy = need("numpy", what)
    for name in axes:
        if name not in rows:
            raise InvalidInput(f"{what}: there is no column {name!r}; there are {', '.join(rows)}")
    values, indices = [], []
    for name in axes:
        found, index = numpy.unique(rows[name], return_inverse=True)
        values.append(found)
        indices.append(index)
    shape = tuple(len(found) for found in values)
    flat = numpy.ravel_multi_index(indices, shape) if len(indices[0]) else numpy.empty(0, int)
    size = int(numpy.prod(shape))
    counts = numpy.bincount(flat, minlength=size)
    if size and (counts != 1).any():
        first = int(numpy.argmax(counts != 1))
        at = numpy.unravel_index(first, shape)
        where = ", ".join(f"{n} {v[i]}" for n, v, i in zip(axes, values, at, strict=True))
        lacking = int((counts == 0).sum())
        raise InvalidInput(
            f"{what}: {where} has {counted(int(counts[first]), 'record')}, and {lacking} of {size} "
            "combinations have none: query whole atoms (with where, or a sample of a table whose "
            "identity is the atom), or use to_numpy() without arguments"
        )
    order = numpy.argsort(flat)
    gridded = dict(zip(axes, values, strict=True))
    for name, column in rows.items():
        if name not in gridded:
            gridded[name] = column[order].reshape(shape)
    return gridded


def to_xarray(table: pa.Table, axes: Sequence[str]) -> xarray.Dataset:
    xarray_ = need("xarray", "to_xarray()")
    units = {f.name: unit_of(f) for f in table.schema}
    rows = {name: plain(table.column(name), name, "to_xarray()") for name in table.column_names}
    dims: tuple[str, ...] = tuple(axes) or ("row",)
    arrays = grid(rows, dims, "to_xarray()") if axes else rows

    def variable(name: str, of: Sequence[str]) -> Any:
        unit = units.get(name)
        return (of, arrays[name], {} if unit is None else {"units": unit})

    data: xarray.Dataset = xarray_.Dataset(
        {name: variable(name, dims) for name in arrays if name not in dims},
        coords={name: variable(name, (name,)) for name in dims if name in arrays},
    )
    return data


def to_geopandas(table: pa.Table, x: str, y: str, crs: Any) -> geopandas.GeoDataFrame:
    geopandas_ = need("geopandas", "to_geopandas()")
    for name in (x, y):
        if name not in table.column_names:
            raise InvalidInput(f"to_geopandas(): there is no column {name!r}")
    frame = to_pandas(table, {})
    return geopandas_.GeoDataFrame(
        frame, geometry=geopandas_.points_from_xy(frame[x], frame[y]), crs=crs
    )


def to_astropy(table: pa.Table) -> astropy.table.Table:
    """A table with masked nulls; units unknown to astropy stay strings."""
    need("astropy", "to_astropy()")
    import numpy as np
    from astropy import units
    from astropy.table import Column, MaskedColumn, Table

    made = Table()
    for field in table.schema:
        column = table.column(field.name)
        mask = np.asarray(column.is_null())
        is_text = str(field.type) in ("string", "large_string")
        if column.null_count:
            # Fills masked values, because nulls would change the type.
            column = column.fill_null("" if is_text else _zero(field.type))
        values = column.to_numpy()
        if is_text:
            values = values.astype(str)
        said = unit_of(field)
        unit = None if said is None else units.Unit(said, parse_strict="silent")
        made[field.name] = (
            MaskedColumn(values, mask=mask, unit=unit) if mask.any() else Column(values, unit=unit)
        )
    return made


def _zero(kind: Any) -> Any:
    import pyarrow as pa

    return pa.scalar(0, pa.int64()).cast(kind) if not pa.types.is_boolean(kind) else False


def _wide(values: Array, name: str) -> Array:
    """The values as float64; raises if an integer is not exact."""
    import numpy as np

    wide: Array = values.astype(np.float64)
    if values.dtype.kind in "iu" and (wide.astype(object) != values.astype(object)).any():
        raise InvalidInput(f"to_pyvista(): column {name} has integers beyond 2^53")
    return wide


def to_pyvista(table: pa.Table, x: str, y: str, z: str | None) -> pyvista.PolyData:
    pyvista_ = need("pyvista", "to_pyvista()")
    import numpy as np

    axes = [name for name in (x, y, z) if name is not None]
    for name in axes:
        if name not in table.column_names:
            raise InvalidInput(f"to_pyvista(): there is no column {name!r}")
    columns = [plain(table.column(name), name, "to_pyvista()") for name in axes]
    if z is None:
        columns.append(np.zeros(table.num_rows, columns[0].dtype))
    if any(values.dtype.kind != "f" for values in columns):
        # PyVista would convert them to float32.
        columns = [_wide(values, name) for values, name in zip(columns, [*axes, "z"], strict=False)]
    mesh = pyvista_.PolyData(np.stack(columns, axis=1))
    units = {name: unit_of(table.schema.field(name)) for name in table.column_names}
    if len({units[name] for name in axes}) == 1:
        _label(mesh.GetPoints().GetData(), units[axes[0]])
    for name in table.column_names:
        if name in axes:
            continue
        values = plain(table.column(name), name, "to_pyvista()")
        if values.dtype.kind == "O":
            values = np.array(["" if v is None else str(v) for v in values])
        elif values.dtype.kind in "mM":
            values = values.astype("int64")
        mesh.point_data[name] = values
        _label(mesh.GetPointData().GetAbstractArray(name), units[name])
    return mesh


def _label(array: Any, unit: str | None) -> None:
    if unit:
        vtk = need("vtk", "to_pyvista()")
        array.GetInformation().Set(vtk.vtkDataArray.UNITS_LABEL(), unit)
