"""FITS tables, through astropy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import _fits
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
    """Scaled as the header says; what the standard calls undefined is null."""
    import numpy as np
    import pyarrow as pa
    from astropy.io import fits

    columns: dict[str, Any] = {}
    data = hdu.data[part]
    # As they are stored. Numbers of a text table are text there.
    stored = data.view(np.ndarray) if isinstance(hdu, fits.BinTableHDU) else None
    for place, column in enumerate(hdu.columns, 1):
        values = np.asarray(data.field(column.name))
        if values.dtype.kind == "O":
            # Rows of varying length fit no column.
            continue
        if values.dtype.kind in "US":
            texts = values if stored is None else np.asarray(stored[column.name])
            columns |= _texts(column.name, texts, stored is not None)
            continue
        is_truth = column.null is not None and hdu.header.get(f"TCOMM{place}") == _fits.BOOLEAN
        raw = values if stored is None else np.asarray(stored[column.name]).reshape(values.shape)
        for (name, flat), numbers in zip(
            split_columns(column.name, values).items(),
            split_columns(column.name, raw).values(),
            strict=True,
        ):
            native = np.ascontiguousarray(flat).astype(flat.dtype.newbyteorder("="))
            if numbers.dtype == np.uint8 and column.bzero == -128 and column.bscale in (None, "", 1):
                # Bytes with a sign, which astropy makes floats of.
                native = (np.ascontiguousarray(numbers) ^ np.uint8(128)).view(np.int8)
            mask = None
            if native.dtype.kind == "b":
                mask = numbers == 0
            elif numbers.dtype.kind in "iu" and column.null is not None:
                mask = numbers == int(column.null)
            elif native.dtype.kind == "f":
                mask = np.isnan(native)
            array = pa.array(native, mask=mask)
            columns[name] = array.cast(pa.bool_()) if is_truth else array
    return arrow_table(columns)


def _texts(name: str, values: Any, is_binary: bool) -> dict[str, Any]:
    """Without the blanks at their ends; in a binary table one that begins with a byte 0 is null."""
    import numpy as np
    import pyarrow as pa

    columns = {}
    for column, flat in split_columns(name, values).items():
        try:
            texts = np.char.rstrip(np.char.decode(flat, "ascii") if flat.dtype.kind == "S" else flat, " ")
        except UnicodeDecodeError as error:
            raise ValueError(f"column {column}: a text is no ASCII, as FITS demands: {error}") from None
        mask = flat == flat.dtype.type() if is_binary else None
        columns[column] = pa.array(texts.tolist(), pa.string(), mask=mask)
    return columns
