"""Writes records to files: Parquet, Arrow, CSV, ECSV, LAS, LAZ, COPC, VTP, FITS, openPMD.

The suffix of the file selects the format. `kubist query -o scan.laz` also runs this module, with
the records as an Arrow stream on standard input. A file gets its name when it is complete.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from . import _ecsv, _fits, _forms, _kubist, _las
from ._errors import InvalidInput
from ._libraries import need

if TYPE_CHECKING:
    import pyarrow as pa

AXES = ("x", "y", "z")
COPC = ".copc.laz"
ROW_GROUP = 1 << 20
"""Number of rows in a row group of Parquet."""
BATCH = 1 << 16
"""Rows per call; an interrupt can stop between calls."""


def check(target: Path) -> str:
    """The suffix of the file, which selects the format.

    Raises:
        InvalidInput: The suffix belongs to no format.
        FileNotFoundError: The folder does not exist.
    """
    ending = COPC if target.name.lower().endswith(COPC) else target.suffix.lower()
    if ending not in WRITERS and ending not in STREAMED:
        known = ", ".join([*STREAMED, *WRITERS])
        raise InvalidInput(f"{target}: the ending must be one of {known}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no folder {target.parent}")
    return ending


def write(
    rows: pa.Table | pa.RecordBatchReader,
    path: str | os.PathLike[str],
    metadata: Mapping[str, Any],
) -> None:
    """Writes all rows, with the metadata of their table.

    If ``rows`` is a reader, Parquet, Arrow and CSV need memory only for some batches.

    Raises:
        InvalidInput: The suffix belongs to no format, or the format cannot store a column.
        ImportError: The library for the format is missing; the message has the command.
    """
    target = Path(path)
    ending = check(target)
    missing = [axis for axis in AXES if axis not in rows.schema.names]
    if missing and ending not in TABLES:
        raise InvalidInput(f"{target}: there is no column {', '.join(missing)}")
    part = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    pa = need("pyarrow", str(target))
    try:
        try:
            if ending in STREAMED:
                with part.open("wb") as file:
                    STREAMED[ending](_reader(rows), file)
            else:
                table = rows if isinstance(rows, pa.Table) else rows.read_all()
                WRITERS[ending](table, part, metadata)
        except pa.ArrowException as error:
            raise InvalidInput(f"{target}: {error}") from error
        if part.is_dir() and target.is_dir():
            shutil.rmtree(target)
        os.replace(part, target)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


# Tables


def _reader(rows: pa.Table | pa.RecordBatchReader) -> pa.RecordBatchReader:
    return rows.to_reader(max_chunksize=BATCH) if hasattr(rows, "to_reader") else rows


def parquet(rows: pa.RecordBatchReader, out: BinaryIO) -> None:
    """Parquet, with units in the columns' metadata."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    with ParquetWriter(out, rows.schema) as file:
        group: list[pa.RecordBatch] = []
        waiting, written = 0, False
        for batch in rows:
            group.append(batch)
            waiting += batch.num_rows
            if waiting >= ROW_GROUP:
                file.write_table(pa.Table.from_batches(group), ROW_GROUP)
                group, waiting, written = [], 0, True
        if group or not written:
            file.write_table(pa.Table.from_batches(group, rows.schema), ROW_GROUP)


def arrow(rows: pa.RecordBatchReader, out: BinaryIO) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(out, rows.schema) as file:
        for batch in rows:
            file.write_batch(batch)


def csv(rows: pa.RecordBatchReader, out: BinaryIO) -> None:
    """CSV with a header line of names, as of ``kubist query``; unlike ECSV, without units."""
    import pyarrow as pa

    for field in rows.schema:
        # CSV would lose the unit of durations, and cannot store binary data.
        if pa.types.is_duration(field.type) or "binary" in str(field.type):
            raise InvalidInput(f"column {field.name}: CSV has no place for {field.type}")
    # An empty result has a header too.
    empty = pa.RecordBatch.from_pylist([], rows.schema)
    out.write(_kubist.csv(_kubist.Batch(empty), header=True))
    for batch in rows:
        out.write(_kubist.csv(_kubist.Batch(batch), header=False))


def ecsv(table: pa.Table, path: Path, metadata: Mapping[str, Any]) -> None:
    _ecsv.write(table, path)


# LAS, VTP and FITS


def las(table: pa.Table, path: Path, metadata: Mapping[str, Any]) -> None:
    _las.write(table, path, metadata)


def copc(table: pa.Table, path: Path, metadata: Mapping[str, Any]) -> None:
    """COPC: compressed points in the order of an octree."""
    _las.write(table, path, metadata, is_copc=True)


def _without_nulls(table: pa.Table, name: str, what: str) -> None:
    if table.column(name).null_count:
        raise InvalidInput(
            f"column {name}: {what} has no place for null: leave out the column, or its nulls "
            f"(where='{name} IS NOT NULL')"
        )


def vtp(table: pa.Table, path: Path, metadata: Mapping[str, Any]) -> None:
    """Points with all other columns as point data, and units under VTK's key.

    Raises:
        InvalidInput: The axes have different units, which VTK cannot store.
    """
    units = {axis: _forms.unit_of(table.schema.field(axis)) for axis in AXES}
    if len(set(units.values())) > 1:
        said = ", ".join(f"{axis} in {unit or 'no unit'}" for axis, unit in units.items())
        raise InvalidInput(f"columns {said}: VTP has one unit for all axes (see set_unit)")
    for field in table.schema:
        _without_nulls(table, field.name, "VTP")
        kind = str(field.type)
        if not kind.startswith(("int", "uint", "float", "double", "bool", "string", "large_string")):
            raise InvalidInput(f"column {field.name}: VTP has no place for {kind}")
    _forms.to_pyvista(table, *AXES).save(str(path))


def fits(table: pa.Table, path: Path, metadata: Mapping[str, Any]) -> None:
    _fits.write(table, path)


# openPMD

FACTOR = re.compile(r"([A-Za-z]+)(?:\^?(-?\d+))?$")
"""A factor in a unit: a name and a power, as in `m s^-1` and `m.s-1`."""
BASE = ("m", "kg", "s", "A", "K", "mol", "cd")
MOST_ITERATIONS = 10_000
PARSEC = 3.0856775814913673e16
"""A parsec in metres."""
ENERGY = {"kg": 1, "m": 2, "s": -2}
UNITS: dict[str, tuple[float, dict[str, int]]] = {
    **{name: (1.0, {name: 1}) for name in BASE},
    "km": (1e3, {"m": 1}), "cm": (1e-2, {"m": 1}), "mm": (1e-3, {"m": 1}), "um": (1e-6, {"m": 1}),
    "nm": (1e-9, {"m": 1}), "angstrom": (1e-10, {"m": 1}), "Angstrom": (1e-10, {"m": 1}),
    "AU": (1.495978707e11, {"m": 1}), "pc": (PARSEC, {"m": 1}), "kpc": (1e3 * PARSEC, {"m": 1}),
    "Mpc": (1e6 * PARSEC, {"m": 1}), "g": (1e-3, {"kg": 1}), "mg": (1e-6, {"kg": 1}),
    "ms": (1e-3, {"s": 1}), "us": (1e-6, {"s": 1}), "ns": (1e-9, {"s": 1}), "ps": (1e-12, {"s": 1}),
    "fs": (1e-15, {"s": 1}), "min": (60.0, {"s": 1}), "h": (3600.0, {"s": 1}), "d": (86400.0, {"s": 1}),
    "Hz": (1.0, {"s": -1}), "N": (1.0, {"kg": 1, "m": 1, "s": -2}), "J": (1.0, ENERGY),
    "eV": (1.602176634e-19, ENERGY), "keV": (1.602176634e-16, ENERGY),
    "MeV": (1.602176634e-13, ENERGY), "GeV": (1.602176634e-10, ENERGY),
    "W": (1.0, {"kg": 1, "m": 2, "s": -3}), "Pa": (1.0, {"kg": 1, "m": -1, "s": -2}),
    "C": (1.0, {"A": 1, "s": 1}), "V": (1.0, {"kg": 1, "m": 2, "s": -3, "A": -1}),
    "T": (1.0, {"kg": 1, "s": -2, "A": -1}), "rad": (1.0, {}), "deg": (math.pi / 180, {}),
}  # fmt: skip
"""Units for an openPMD series: the factor to SI, and the powers of base units."""


def openpmd(table: pa.Table, path: Path, metadata: Mapping[str, Any]) -> None:
    """Writes an openPMD series, with a species for each value of ``species`` and an iteration for
    each value of ``iteration``. Columns that end in _x, _y and _z are components of a record."""
    io = need("openpmd_api", "an openPMD series")
    series = io.Series(str(path), io.Access.create)
    try:
        for number, (time, rows) in _iterations(table).items():
            iteration = series.iterations[number]
            if time is not None:
                factor, _ = _dimension("time", _forms.unit_of(rows.schema.field("time")))
                iteration.time, iteration.time_unit_SI = time, factor
            names = _values(rows, "species") or ["particles"]
            for name in names:
                of_one = _where(rows, "species", name) if "species" in rows.column_names else rows
                _species(io, series, iteration.particles[str(name)], of_one)
            iteration.close()
    finally:
        series.close()


def _iterations(table: pa.Table) -> dict[int, tuple[float | None, pa.Table]]:
    """The time and the rows by iteration, or by time if there are no iteration numbers.

    Raises:
        InvalidInput: An iteration has several times, or a row has none.
    """
    import pyarrow as pa

    for name in ("iteration", "time", "species"):
        if name in table.column_names:
            _without_nulls(table, name, "openPMD")
    if "time" in table.column_names:
        kind = table.schema.field("time").type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise InvalidInput(f"column time: openPMD has no place for {kind}")
    if "iteration" not in table.column_names:
        times = _values(table, "time")
        if not times:
            return {0: (None, table)}
        if len(times) > MOST_ITERATIONS:
            raise InvalidInput(
                f"column time: openPMD has an iteration for each of its {len(times):,} values, at "
                f"most {MOST_ITERATIONS:,} are written: leave out the column, or name it otherwise"
            )
        return {i: (float(time), _where(table, "time", time)) for i, time in enumerate(times)}
    found: dict[int, tuple[float | None, pa.Table]] = {}
    for number in _values(table, "iteration"):
        rows = _where(table, "iteration", number)
        times = _values(rows, "time")
        if len(times) > 1:
            raise InvalidInput(
                f"column time: iteration {number} has {len(times):,} times, openPMD has a place for one"
            )
        found[number] = (float(times[0]) if times else None, rows)
    return found or {0: (None, table)}


def _values(table: pa.Table, name: str) -> list[Any]:
    if name not in table.column_names:
        return []
    return sorted(table.column(name).unique().to_pylist())


def _where(table: pa.Table, name: str, value: Any) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.equal(table.column(name), value))


def _species(io: Any, series: Any, particles: Any, rows: pa.Table) -> None:
    import numpy as np
    import pyarrow as pa

    for name in rows.column_names:
        column = rows.column(name)
        if name in ("time", "iteration", "species") or column.null_count == rows.num_rows > 0:
            continue
        if not pa.types.is_floating(column.type):
            _without_nulls(rows, name, "openPMD")
        values = np.array(column.to_numpy())
        if column.null_count and values.dtype.kind == "f":
            # Null becomes NaN.
            if np.isnan(column.drop_null().to_numpy()).any():
                raise InvalidInput(
                    f"column {name}: NaN beside nulls, which openPMD does not tell apart: leave out "
                    "one of both (where)"
                )
        if values.dtype.kind not in "iuf" or values.dtype == np.float16:
            raise InvalidInput(f"column {name}: openPMD has no place for {column.type}")
        record, component = _record(name, rows.column_names, io.Record_Component.SCALAR)
        factor, powers = _dimension(name, _forms.unit_of(rows.schema.field(name)))
        place = particles[record][component]
        place.reset_dataset(io.Dataset(values.dtype, values.shape))
        place.store_chunk(values)
        place.unit_SI = factor
        series.flush()
        kinds = (io.Unit_Dimension.L, io.Unit_Dimension.M, io.Unit_Dimension.T, io.Unit_Dimension.I,
                 io.Unit_Dimension.theta, io.Unit_Dimension.N, io.Unit_Dimension.J)  # fmt: skip
        particles[record].unit_dimension = {
            kinds[BASE.index(unit)]: power for unit, power in powers.items()
        }
    for axis in AXES:
        offset = particles["positionOffset"][axis]
        offset.reset_dataset(io.Dataset(np.dtype("float64"), [rows.num_rows]))
        offset.make_constant(0.0)
    particles["positionOffset"].unit_dimension = {io.Unit_Dimension.L: 1}


def _record(name: str, names: list[str], scalar: Any) -> tuple[str, Any]:
    if name in AXES:
        return "position", name
    base, _, axis = name.rpartition("_")
    if axis in AXES and base and all(f"{base}_{other}" in names for other in AXES):
        return base, axis
    return name, scalar


def _dimension(name: str, unit: str | None) -> tuple[float, dict[str, int]]:
    """A unit in SI: the factor, and the powers of the base units.

    Raises:
        InvalidInput: The unit of column ``name`` is not a product of `UNITS`.
    """
    factor, powers = 1.0, dict.fromkeys(BASE, 0)
    sign = 1
    for word in re.split(r"(/)|[ .*](?!\d)", unit or ""):
        if not word or word == "/":
            sign = -1 if word == "/" else sign
            continue
        found = FACTOR.match(word)
        if found is not None and found[1] in UNITS:
            power = sign * int(found[2] or 1)
            size, own = UNITS[found[1]]
            factor *= size**power
            for base, times in own.items():
                powers[base] += power * times
        else:
            try:
                factor *= float(word) ** sign
            except ValueError:
                raise InvalidInput(
                    f"column {name}: openPMD has no place for the unit {unit!r}: convert the "
                    "column to SI, or remove its unit (set_unit)"
                ) from None
        sign = 1
    return factor, {base: power for base, power in powers.items() if power}


STREAMED: dict[str, Callable[[pa.RecordBatchReader, BinaryIO], None]] = {
    ".parquet": parquet,
    ".arrow": arrow,
    ".csv": csv,
}
"""Formats whose rows are written batch by batch."""

WRITERS: dict[str, Callable[[pa.Table, Path, Mapping[str, Any]], None]] = {
    ".ecsv": ecsv,
    ".las": las,
    ".laz": las,
    COPC: copc,
    ".vtp": vtp,
    ".fits": fits,
    ".h5": openpmd,
    ".bp": openpmd,
    ".bp4": openpmd,
    ".bp5": openpmd,
}


TABLES = (".parquet", ".arrow", ".csv", ".ecsv", ".fits")
"""Formats for records without positions."""


def main(text: str) -> int:
    about = json.loads(text)
    try:
        pa = need("pyarrow", about["path"])
        table = pa.ipc.open_stream(sys.stdin.buffer).read_all()
        write(table, about["path"], about["metadata"])
    except InvalidInput as error:
        return _tell(error, 2)
    except ImportError as error:
        return _tell(error, 3)
    except Exception as error:
        # The library for a format may raise any exception.
        return _tell(error, 4)
    return 0


def _tell(error: Exception, code: int) -> int:
    sys.stderr.write(" ".join(str(error).split()) or type(error).__name__)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
