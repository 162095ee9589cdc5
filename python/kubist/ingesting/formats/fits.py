"""FITS tables, through astropy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import Options, Source, State, Step, arrow_table, slices, split_columns, unit

if TYPE_CHECKING:
    import pyarrow as pa

# What stands around `ra` and `dec`, or `de`, in the names of positions in the sky, best first, in
# small letters: as archives and VizieR call them.
IN_THE_SKY = (
    "{}", "{}_icrs", "{}icrs", "{}j2000", "_{}j2000", "_{}", "{}2000", "{}_j2000",
    "{}deg", "{}_deg", "{}rad", "{}_rad", "{}b1950", "_{}b1950",
)  # fmt: skip
# Columns that are positions, best first, in small letters.
POSITIONS = (
    ("x", "y", "z"),
    *((name.format("ra"), name.format(dec)) for name in IN_THE_SKY for dec in ("dec", "de")),
    ("glon", "glat"),
    ("l", "b"),
)
# Cards of the header that only say how the table is stored.
STRUCTURE = (
    "SIMPLE",
    "XTENSION",
    "BITPIX",
    "NAXIS",
    "PCOUNT",
    "GCOUNT",
    "TFIELDS",
    "T",
    "CHECKSUM",
)
KNOWN_NAMES = ("source_id", "id", "hip", "objid")


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa
    from astropy.io import fits

    with fits.open(path, memmap=True) as hdus:
        tables = [
            i for i, hdu in enumerate(hdus) if isinstance(hdu, fits.BinTableHDU | fits.TableHDU)
        ]
        if not tables:
            raise ValueError(f"{path}: there is no table in it, only images")
        hdu = hdus[tables[0]]
        rows = hdu.header["NAXIS2"]
        schema = _columns(hdu, slice(0, min(rows, 1))).schema
        units = {column.name: column.unit for column in hdu.columns}
        fields = [unit(f, units.get(f.name) or units.get(f.name.rsplit("_", 1)[0])) for f in schema]
        cards = {
            key: value
            for key, value in hdu.header.items()
            if key and not key.startswith(STRUCTURE) and isinstance(value, str | int | float | bool)
        }

    def read(_: State) -> Iterator[pa.Table]:
        with fits.open(path, memmap=True) as hdus:
            for part in slices(rows):
                yield _columns(hdus[tables[0]], part)

    names = {name.lower(): name for name in schema.names}
    dimensions = next(
        ([names[n] for n in found] for found in POSITIONS if set(found) <= set(names)), []
    )
    identity = [names[name] for name in KNOWN_NAMES if name in names][:1]
    return Source(
        path=path,
        format="fits",
        schema=pa.schema(fields),
        steps=lambda _: [Step(hdus_name(tables[0]), read, part=path.name)],
        dimensions=dimensions,
        identity=identity,
        metadata={"fits": cards} if cards else {},
        rows=rows,
    )


def hdus_name(number: int) -> str:
    return f"HDU {number}"


def _columns(hdu: Any, part: slice) -> pa.Table:
    """Scaled as the header says; what the header calls null is null."""
    import numpy as np
    import pyarrow as pa

    columns: dict[str, Any] = {}
    data = hdu.data[part]
    for column in hdu.columns:
        values = np.asarray(data.field(column.name))
        if values.dtype.kind == "O":
            # Rows of varying length fit no column.
            continue
        if values.dtype.kind in "US":
            columns[column.name] = pa.array(np.char.strip(values.astype(str)).tolist(), pa.string())
            continue
        for name, flat in split_columns(column.name, values).items():
            if column.null is not None and flat.dtype.kind in "iu":
                native = np.ascontiguousarray(flat).astype(flat.dtype.newbyteorder("="))
                columns[name] = pa.array(native, mask=native == int(column.null))
            else:
                columns[name] = flat
    return arrow_table(columns)
